"""The labels of a whole data set."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core import chance, registry
from raretag.core.errors import UserError
from raretag.core.protocols import Sampler
from raretag.core.ranker import Known
from raretag.core.targets import LabelStatistics, Targets
from raretag.labels import convert, storage
from raretag.labels.counts import count
from raretag.labels.entries import Absent, Entries
from raretag.labels.rows import Rows, Selection, numbers


@dataclass(frozen=True, slots=True, eq=False)
class LabelStore:
    """N items x C labels, each positive, negative or unknown. Immutable; make one with a `from_...` method.

    It takes the room of its positives and of the rarer of the other two states: a million items x 100,000 labels fit.
    """

    entries: Entries
    given_names: tuple[str, ...] | None = None  # None: "0", "1", ...
    given_ids: Sequence[str] | None = None  # None: row numbers
    given_keys: Tensor | None = None  # int64 [N]: what draws depend on where ids are no more than row numbers

    @classmethod
    def from_dense(
        cls, array: NDArray[Any] | Tensor, names: Iterable[str] | None = None, ids: Iterable[str] | None = None
    ) -> LabelStore:
        """A store from an array [N, C] of numpy or torch.

        Args:
            array: 1 is positive, 0 negative; NaN, -1 and -100 are unknown; any other number is refused.
            names: one name per column; default "0", "1", ...
            ids: one text per item; default: row numbers.

        >>> LabelStore.from_dense(np.array([[1, 0], [np.nan, 1]]), names=["cat", "dog"])
        LabelStore(2 items x 2 labels, 75.0% observed)
        """
        return cls._checked(convert.from_dense(array), names, ids)

    @classmethod
    def from_sparse(
        cls,
        matrix: Any,
        absent: Absent = "negative",
        names: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
    ) -> LabelStore:
        """A store from a sparse matrix [N, C] of scipy.

        Args:
            matrix: a stored number means what it means in `from_dense`.
            absent: what a label is that is not stored, "negative" or "unknown".
            names, ids: as in `from_dense`.

        >>> LabelStore.from_sparse(sparse.csr_array([[1, 0, 0], [0, 1, 1]]), absent="unknown").lists()
        [[0], [1, 2]]
        """
        return cls._checked(convert.from_sparse(matrix, absent), names, ids)

    @classmethod
    def from_lists(
        cls,
        rows: convert.Labels,
        names: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        negatives: convert.Labels | None = None,
        absent: Absent | None = None,
        labels: int | None = None,
    ) -> LabelStore:
        """A store from the positive labels of each item, as names or as indices.

        Args:
            rows: one list per item.
            names: all label names, in order; without them, names are collected from the lists and sorted.
            ids: one text per item; default: row numbers.
            negatives: the labels that each item is known not to have.
            absent: what a label is that is in no list; default: "unknown" if there are negatives, else "negative".
            labels: how many labels there are, where lists hold indices and no names are given; default: one more than
                the highest index.

        >>> store = LabelStore.from_lists([["cat"], ["cat", "dog"], []])
        >>> store.names, store.lists()
        (('cat', 'dog'), [[0], [0, 1], []])
        """
        known = None if names is None else convert.unique(names, "label name")
        entries, known = convert.from_lists(rows, negatives, absent, known, labels)
        if labels is not None and labels != entries.labels:
            raise UserError(f"labels={labels}, but there are {entries.labels} names; leave out one of the two")
        return cls._checked(entries, known, ids)

    @classmethod
    def _checked(cls, entries: Entries, names: Iterable[str] | None, ids: Iterable[str] | None) -> LabelStore:
        names = None if names is None else convert.unique(names, "label name")
        ids = None if ids is None else convert.unique(ids, "item id")
        if names is not None and len(names) != entries.labels:
            raise UserError(f"{len(names)} label names for {entries.labels} columns; expected one for each")
        if ids is not None and len(ids) != len(entries):
            raise UserError(f"{len(ids)} item ids for {len(entries)} rows; expected one for each")
        if names == _digits(entries.labels):
            names = None  # so that stores with the same names are equal
        return cls(entries, names, ids)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def labels(self) -> int:
        """C, the number of labels."""
        return self.entries.labels

    @property
    def names(self) -> tuple[str, ...]:
        return _digits(self.labels) if self.given_names is None else self.given_names

    @property
    def ids(self) -> Sequence[str] | range:
        """The id of each item; row numbers if none were given."""
        return range(len(self)) if self.given_ids is None else self.given_ids

    @property
    def absent(self) -> Absent:
        """What a label is that `sparse()` does not store."""
        return self.entries.absent

    @property
    def observed_share(self) -> float:
        """The share of all N x C labels that are positive or negative, not unknown."""
        statistics = self.statistics(cooccurrence=False)
        observed = int(statistics.positives.sum() + statistics.negatives.sum())
        return observed / max(len(self) * self.labels, 1)

    @property
    def bytes(self) -> int:
        """The size of the label arrays, without names and ids."""
        return self.entries.bytes

    def item_keys(self) -> Tensor:
        """An int64 [N] for each item that its random draws depend on: of its id, so that its row does not matter.

        Of its content, where the one who made the store has said so; else the row number must do, and `take` numbers
        the rows anew.
        """
        if self.given_keys is not None:
            return self.given_keys
        return torch.arange(len(self)) if self.given_ids is None else chance.of_names(self.given_ids)

    def targets(self, rows: Selection | None = None) -> Targets:
        """A dense batch [B, C] for training: of some rows, or of all.

        >>> LabelStore.from_lists([[0], [1], [0, 1]]).targets([0, 2]).value
        tensor([[1., 0.],
                [1., 1.]])
        """
        some = self.entries if rows is None else self.entries.pick(numbers(rows, len(self)))
        return Targets(torch.from_numpy(some.present()), torch.from_numpy(some.observed()))

    def take(self, rows: Selection) -> LabelStore:
        """A store of these rows, in this order: row numbers, a slice, or one bool per item.

        >>> LabelStore.from_lists([["a"], ["b"], ["a", "b"]]).take([2, 0]).name_lists()
        [['a', 'b'], ['a']]
        """
        chosen = numbers(rows, len(self))
        ids = None if self.given_ids is None else tuple(self.given_ids[row] for row in chosen.tolist())
        keys = None if self.given_keys is None else self.given_keys[torch.as_tensor(chosen)]
        return LabelStore(self.entries.take(chosen), self.given_names, ids, keys)

    @classmethod
    def joined(cls, first: LabelStore, second: LabelStore) -> LabelStore:
        """The items of both, those of the first store first; they have the same labels.

        >>> LabelStore.joined(LabelStore.from_lists([["a"], ["b"]]), LabelStore.from_lists([["a", "b"]])).lists()
        [[0], [1], [0, 1]]
        """
        if first.names != second.names:
            raise UserError("label stores with different label names cannot be joined; expected one list in one order")
        ids = None
        if first.given_ids is not None and second.given_ids is not None:
            ids = convert.unique([*first.given_ids, *second.given_ids], "item id")
        keys = None
        if first.given_keys is not None and second.given_keys is not None:
            keys = torch.cat([first.given_keys, second.given_keys])
        return cls(first.entries.followed_by(second.entries), first.given_names, ids, keys)

    def holding(self, entries: Entries) -> LabelStore:
        """The same items and label names with other entries."""
        return LabelStore(entries, self.given_names, self.given_ids, self.given_keys)

    def statistics(self, cooccurrence: bool | None = None) -> LabelStatistics:
        """Positives and negatives of each label, and how often two labels are positive together.

        Args:
            cooccurrence: whether pairs are counted; default: for up to 4,096 labels. True beyond that gives a sparse
                tensor.

        >>> LabelStore.from_lists([["cat"], ["cat", "dog"], []]).statistics().positives
        tensor([2, 1])
        """
        return count(self, cooccurrence)

    @property
    def positives(self) -> sparse.csr_array:
        """Which item has which label, as samplers take it: int8 [N, C]."""
        rows = self.entries.positives
        ones = np.ones(len(rows.indices), np.int8)
        return sparse.csr_array((ones, rows.indices, rows.indptr), shape=(len(self), self.labels))

    def known(self) -> Known:
        """The three states as sparse matrices, for learners of very many labels."""
        entries, shape = self.entries, (len(self), self.labels)

        def marked(rows: Rows) -> sparse.csr_array:
            return sparse.csr_array((np.ones(len(rows.indices), np.bool_), rows.indices, rows.indptr), shape=shape)

        others = None
        if entries.listed is not None or entries.bits is not None:
            others = marked(entries.unknown() if self.absent == "negative" else entries.negatives())
        return Known(marked(entries.positives), self.absent, others)

    def sampler(self, name: str, *, seed: int = 0, **options: Any) -> Sampler:
        """A sampler of `raretag.sampling` over these items: `epoch(n)` gives the rows of the n-th epoch.

        Args:
            name: its name, such as "class_aware", or "package.module:Class".
            seed: the order of an epoch follows from it and from the epoch's number.
            options: of the sampler itself.

        >>> store = LabelStore.from_lists([["cat"]] * 6 + [["dog"]])
        >>> order = store.sampler("class_aware", seed=0, reduce=None).epoch(0)
        >>> len(order), int((order == 6).sum())  # the dog is drawn as often as all cats together
        (7, 4)
        """
        built: Sampler = registry.build("sampling", name, options, positives=self.positives, seed=seed)
        return built

    def dense(self) -> NDArray[np.float32]:
        """[N, C]: 1 positive, 0 negative, NaN unknown."""
        return np.where(self.entries.observed(), self.entries.present(), np.float32(np.nan))

    def sparse(self) -> sparse.csr_array:
        """[N, C]: stored 1 positive, 0 negative, NaN unknown; `from_sparse(matrix, store.absent)` reads it back."""
        shape = (len(self), self.labels)
        positives, absent = self.entries.positives, self.absent
        others = self.entries.unknown() if absent == "negative" else self.entries.negatives()
        value = np.float32(np.nan if absent == "negative" else 0)
        data = np.concatenate([np.ones(len(positives.indices), np.float32), np.full(len(others.indices), value)])
        row, column = np.concatenate([positives.row, others.row]), np.concatenate([positives.indices, others.indices])
        return sparse.coo_array((data, (row, column)), shape=shape).tocsr()

    def lists(self) -> list[list[int]]:
        """The positive labels of each item, as indices."""
        return self.entries.positives.lists()

    def name_lists(self) -> list[list[str]]:
        """The positive labels of each item, as names."""
        names = self.names
        return [[names[label] for label in row] for row in self.lists()]

    def negative_lists(self) -> list[list[int]]:
        """The labels that were observed to be negative; nearly N x C of them if everything was observed."""
        return self.entries.negatives().lists()

    def fingerprint(self) -> str:
        """A sha256 of the content: the same whatever the store was made of, on every machine."""
        digest = hashlib.sha256(f"{len(self)} {self.labels} {self.absent}".encode())
        for words in (self.given_names, self.given_ids):
            digest.update(b"none" if words is None else "".join(f"{len(word)}:{word}" for word in words).encode())
        for name, array in self.entries.arrays().items():
            digest.update(f" {name} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelStore):
            return NotImplemented
        if self.given_names != other.given_names or not self.entries.same(other.entries):
            return False
        if self.given_ids is None or other.given_ids is None:
            return self.given_ids is other.given_ids
        return tuple(self.given_ids) == tuple(other.given_ids)

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def __repr__(self) -> str:
        return f"LabelStore({len(self):,} items x {self.labels:,} labels, {self.observed_share:.1%} observed)"

    def save(self, folder: str | Path) -> None:
        """Write a folder that `load` maps into memory; whatever happens, it is the old one or the new one.

        >>> import tempfile
        >>> store = LabelStore.from_lists([["cat"], ["dog"]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store.save(Path(folder) / "labels")
        ...     LabelStore.load(Path(folder) / "labels") == store
        True
        """
        storage.save(Path(folder), self.entries, self.given_names, self.given_ids)

    @classmethod
    def load(cls, folder: str | Path) -> LabelStore:
        """The store in a folder that `save` wrote; its arrays stay on disk until they are needed."""
        return cls(*storage.load(Path(folder)))


def _digits(labels: int) -> tuple[str, ...]:
    return tuple(map(str, range(labels)))
