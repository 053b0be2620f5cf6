"""Items with their labels, the parts of a data set, and how items are dealt to parts: what every source gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.core.protocols import Describes, HasContent, HeldSparse, blocks_of
from raretag.core.protocols import Inputs as Inputs
from raretag.labels.store import LabelStore

if TYPE_CHECKING:
    from raretag.data.prior import Prior

PARTS = ("train", "validation", "test")
SHARES = {"train": 0.7, "validation": 0.1, "test": 0.2}  # of items for which no part is named
PART_OF = {
    **dict.fromkeys(("train", "training", "tr", "fit", "learn"), "train"),
    **dict.fromkeys(("validation", "val", "valid", "dev", "development"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation", "holdout"), "test"),
}
NOT_HELD_OUT = "validation: the training items themselves, because none is held out; numbers on them are too optimistic"


class TensorInputs:
    """Inputs that fit into memory."""

    def __init__(self, values: Tensor) -> None:
        self.values = values  # [N, ...]

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        return self.values[rows]


def sparse_batch(inputs: Inputs, rows: Tensor) -> sparse.csr_array | None:
    """Rows as a sparse matrix, where the inputs are held as one; else None."""
    return inputs.sparse_batch(rows) if isinstance(inputs, HeldSparse) else None


def content_hashes(inputs: Inputs, rows: Tensor) -> Tensor | None:
    """[B] of what the user gave for some rows; of inputs that do not say what they are made of, of their tensors."""
    return inputs.content(rows) if isinstance(inputs, HasContent) else tensor_hashes(inputs, rows)


def tensor_hashes(inputs: Inputs, rows: Tensor) -> Tensor:
    """[B] of what the model gets."""
    x = sparse_batch(inputs, rows)
    return chance.of_rows(inputs.batch(rows).numpy() if x is None else x)


class Selected:
    """Some rows of other inputs: the training part, say. Items keep the number they had, and with it their draws."""

    def __init__(self, inputs: Inputs, rows: NDArray[np.int64] | Tensor) -> None:
        self.inputs, self.rows = inputs, torch.as_tensor(rows, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        return self.inputs.batch(self.rows[rows], epoch)

    def sparse_batch(self, rows: Tensor) -> sparse.csr_array | None:
        return sparse_batch(self.inputs, self.rows[rows])

    def content(self, rows: Tensor) -> Tensor | None:
        return content_hashes(self.inputs, self.rows[rows])

    def blocks(self) -> dict[str, range]:
        return blocks_of(self.inputs)

    def describe(self) -> dict[str, Any]:
        """How a raw item becomes a tensor; empty if items are tensors already."""
        return self.inputs.describe() if isinstance(self.inputs, Describes) else {}


class Joined:
    """The rows of two inputs, one after the other."""

    def __init__(self, first: Inputs, second: Inputs) -> None:
        self.first, self.second = first, second

    @classmethod
    def of(cls, first: Inputs, second: Inputs) -> Inputs:
        """Rows of the same inputs stay rows of them."""
        if isinstance(first, Selected) and isinstance(second, Selected) and first.inputs is second.inputs:
            return Selected(first.inputs, torch.cat([first.rows, second.rows]))
        return cls(first, second)

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        found = self._of_both(rows, lambda inputs, some: inputs.batch(some, epoch))
        assert found is not None
        return found

    def content(self, rows: Tensor) -> Tensor | None:
        return self._of_both(rows, content_hashes)

    def _of_both(self, rows: Tensor, take: Callable[[Inputs, Tensor], Tensor | None]) -> Tensor | None:
        late = rows >= len(self.first)
        if not late.any():
            return take(self.first, rows)
        if late.all():
            return take(self.second, rows - len(self.first))
        some, others = take(self.first, rows[~late]), take(self.second, rows[late] - len(self.first))
        if some is None or others is None:
            return None
        found = some.new_empty(len(rows), *some.shape[1:])
        found[~late], found[late] = some, others
        return found

    def sparse_batch(self, rows: Tensor) -> sparse.csr_array | None:
        late = rows >= len(self.first)
        some = sparse_batch(self.first, rows[~late])
        others = sparse_batch(self.second, rows[late] - len(self.first))
        if some is None or others is None:
            return None
        place = torch.cat([(~late).nonzero().flatten(), late.nonzero().flatten()])  # of each row of both in `rows`
        return sparse.csr_array(sparse.vstack([some, others], format="csr"))[torch.argsort(place).numpy()]

    def blocks(self) -> dict[str, range]:
        return blocks_of(self.first)

    def describe(self) -> dict[str, Any]:
        """How a raw item becomes a tensor; empty if items are tensors already."""
        return self.first.describe() if isinstance(self.first, Describes) else {}


@dataclass(frozen=True)
class Items:
    """Inputs and labels, row by row.

    Args:
        inputs: gives the tensors of some rows; `TensorInputs` holds them in memory.
        labels: a row of labels per item.

    >>> items = Items(TensorInputs(torch.zeros(2, 3)), LabelStore.from_lists([["cat"], ["dog"]]))
    >>> len(items), items.take(torch.tensor([1])).labels.name_lists()
    (2, [['dog']])
    """

    inputs: Inputs
    labels: LabelStore

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise UserError(
                f"{len(self.inputs)} inputs do not match {len(self.labels)} rows of labels: "
                "expected one row for each item; were they read from two different files?"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Tensor) -> Items:
        """These rows, in this order."""
        return Items(Selected(self.inputs, rows), self.labels.take(rows))

    def duplicates(self) -> int:
        """How many items have the same input as an item before them."""
        hashes = [tensor_hashes(self.inputs, rows) for rows in torch.arange(len(self)).split(256)]
        return len(self) - len(torch.cat(hashes).unique()) if hashes else 0


@dataclass(frozen=True)
class DataSet:
    """The parts of a data set. Counts, groups and thresholds never come from `test`, which may be empty.

    Args:
        name: for reports and records.
        train, validation, test: items of the three parts, with the same label names in the same order.
        truth: training labels before some were hidden, where they are known.
        published: [C] positives that decide the groups, where some of them were held out of `train`.
        notes: how the set was made, for the record.
        remarks: what was guessed or decided for the user, who should see it.
        prior: scores from outside, by the ids of items.

    >>> from raretag.data import from_arrays
    >>> data = from_arrays(np.eye(10), [["cat"], ["dog"]] * 5)
    >>> len(data.train), len(data.validation), len(data.test)
    (7, 1, 2)
    """

    name: str
    train: Items
    validation: Items
    test: Items
    truth: LabelStore | None = None
    published: Tensor | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    prior: Prior | None = None

    @property
    def parts(self) -> dict[str, Items]:
        """The parts by name: train, validation, test."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one item, as the model gets it."""
        return tuple(self.train.inputs.batch(torch.arange(1)).shape[1:])

    @property
    def held_out(self) -> bool:
        """Whether validation items are others than the training items."""
        return self.validation is not self.train and NOT_HELD_OUT not in self.remarks

    def all_teaching(self) -> DataSet:
        """Without a validation part: its items are training items too, for those who score items out of fold.

        Where training labels were hidden on purpose, validation labels are not; such items stay away.
        """
        train, truth, joined = self.train, self.truth, self.held_out and self.truth is None
        if joined:
            inputs = Joined.of(train.inputs, self.validation.inputs)
            train = Items(inputs, LabelStore.joined(train.labels, self.validation.labels))
        remarks = tuple(remark for remark in self.remarks if remark != NOT_HELD_OUT)
        how = f" ({len(self.validation):,} validation items are used too)" if joined else ""
        remark = f"no validation part{how}: all {len(train):,} training items are scored by models that never saw them"
        notes = {**self.notes, "joined": ["validation"] if joined else []}
        return replace(self, train=train, validation=train, truth=truth, notes=notes, remarks=(*remarks, remark))

    def __post_init__(self) -> None:
        for part in (self.validation, self.test):
            if part.labels.names != self.train.labels.names:
                raise UserError(
                    f"the splits of '{self.name}' do not have the same label list "
                    f"({self.train.labels.labels} and {part.labels.labels} labels): expected one list in one order"
                )


@dataclass
class Parts:
    """Which rows belong to which part."""

    rows: dict[str, NDArray[np.int64]]  # of each of PARTS
    remarks: list[str] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)

    def items(self, inputs: Inputs, labels: LabelStore) -> tuple[Items, Items, Items]:
        """Training, validation and test items of inputs and labels of all rows."""
        chosen = [self.rows[part] for part in PARTS]
        train, validation, test = (Items(Selected(inputs, rows), labels.take(rows)) for rows in chosen)
        return train, validation, test


def part_of(words: Sequence[str], place: Callable[[int], str]) -> list[str]:
    """The part that each row belongs to; `place` names the place of a row for an error about its word."""
    known = {word: PART_OF.get(word.strip().lower()) for word in set(words)}
    if None in known.values():
        row = next(row for row, word in enumerate(words) if known[word] is None)
        raise UserError(
            f"{place(row)}: the split {words[row]!r} is not known; expected train, validation (val, dev) or test; "
            "if this column is not a split, set data.split=''"
        )
    return [str(known[word]) for word in words]


def divide(
    labels: LabelStore,
    given: Sequence[str] | None,
    seed: int,
    validation: float | None = None,
    test: float | None = None,
    order: NDArray[np.int64] | None = None,
) -> Parts:
    """Parts that are given (a word per row) are kept; those that are not are dealt from the training rows, stratified.

    `validation` and `test` are the shares of the training rows that are dealt to these parts; by default 10 % and 20 %
    of all rows. Without a share for testing the test part is empty; without one for validation the training rows stand
    in for it. The rows of a part come in the `order` of all rows; by default as they are.
    """
    order = np.arange(len(labels)) if order is None else order
    if given is None:
        found = {"train": order}
    else:
        named = np.asarray(given)[order]
        found = {part: order[named == part] for part in PARTS if (named == part).any()}
        if "train" not in found:
            raise UserError(
                f"no row belongs to the training part, only to {', '.join(found)}; expected 'train' somewhere"
            )
    asked = {part: share for part, share in (("validation", validation), ("test", test)) if share is not None}
    _check_shares(asked, found)
    missing = [part for part in PARTS if part not in found and asked.get(part) != 0]
    parts = Parts(found, notes={"split": "made" if given is None else "given", "made": missing})
    if missing:
        _deal(labels, parts, missing, asked, seed)
    parts.rows.setdefault("test", np.arange(0))
    held = set(parts.rows)
    if "validation" not in parts.rows:
        parts.rows["validation"] = parts.rows["train"]
        parts.remarks.append(NOT_HELD_OUT)
    sizes = ", ".join(f"{len(parts.rows[part]):,} {part}" for part in PARTS if part in held)
    how = "as the file says" if given is not None else "all items in one part"
    how = f"made here, stratified: {', '.join(missing)}" if missing else how
    parts.remarks.insert(0, f"parts: {sizes} ({how})")
    return parts


def _check_shares(asked: dict[str, float], found: dict[str, NDArray[np.int64]]) -> None:
    for part, share in asked.items():
        if part in found and share:
            raise UserError(f"{part}={share}, but the split names items of that part; leave out one of the two")
        if not 0 <= share < 1:
            raise UserError(f"{part}={share}; expected the share of the items that it gets, 0 or more and below 1")
    if sum(asked.values()) >= 1:
        raise UserError(f"validation and test get all items ({asked}); expected shares that leave some for training")


def _deal(labels: LabelStore, parts: Parts, missing: list[str], asked: dict[str, float], seed: int) -> None:
    pool = parts.rows["train"]
    shares = {part: asked.get(part, SHARES[part]) for part in missing}
    shares = {"train": 1 - sum(shares.values()) if asked else SHARES["train"], **shares}
    if shares["train"] <= 0:
        raise UserError(f"validation and test get all items ({asked}); expected shares that leave some for training")
    total = sum(shares.values())
    from raretag.labels.split import part_sizes, split  # predicting needs no parts

    dealt = split(labels.take(pool), [share / total for share in shares.values()], seed=seed)
    for part, rows in zip(shares, dealt.parts, strict=True):
        if len(rows) == 0:
            fractions = [share / total for share in shares.values()]
            enough = next(n for n in itertools.count(len(pool)) if min(part_sizes(n, fractions)) > 0)
            raise UserError(
                f"items: {len(pool)}, too few to make the parts {', '.join(shares)}; expected {enough} or more"
            )
        parts.rows[part] = pool[rows]
    if dealt.impossible:
        label, items = next(iter(dealt.impossible.items()))
        parts.remarks.append(
            f"labels with too few items to be in every part: {len(dealt.impossible)}, "
            f"such as '{labels.names[label]}' (number of items: {items})"
        )
