"""What a row of the table of methods holds; the rows are in `cases.py`, the tests over them in `test_methods.py`.

A formula sees one label at a time (`Label`) and gives the term, or None if the label does not count. It is plain
Python: no tensors, no stable forms, no shared parts, so it can only be wrong in the way the paper is. Its defaults
repeat the defaults of the method, so the test also holds those. A method whose loss is not a sum of such terms gives a
formula of the whole `Batch` instead (`whole=True`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Any

Options = dict[str, Any]
BCE = "binary_cross_entropy"
IGNORE = {"unknown": "ignore"}


@dataclass(frozen=True)
class Batch:
    z: list[list[float]]  # logits
    y: list[list[float | None]]  # None: nobody looked
    n: list[int]  # positives of each label in the data set
    items: int  # N
    index: list[int]
    epoch: int = 0
    epochs: int = 10

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.z), len(self.n)

    def filled(self, unknown: str | None) -> Batch:
        """With the option `unknown`: "negative" writes 0 where nobody looked."""
        if unknown != "negative":
            return self
        return Batch(
            self.z,
            [[0.0 if y is None else y for y in row] for row in self.y],
            self.n,
            self.items,
            self.index,
            self.epoch,
            self.epochs,
        )


@dataclass(frozen=True)
class Label:
    z: float
    y: float  # after `unknown` was applied; see `observed`
    observed: bool
    row: int
    column: int
    batch: Batch

    @property
    def p(self) -> float:
        return sigmoid(self.z)

    @property
    def seen(self) -> int:
        """n_c, of which a label never seen counts as seen once, and one always seen as once not."""
        return seen(self.batch, self.column)

    @property
    def row_positives(self) -> list[int]:
        """The columns of the labels that the row has."""
        return [c for c, y in enumerate(self.batch.y[self.row]) if y == 1.0]


def sigmoid(z: float) -> float:
    return 1.0 / (1.0 + exp(-z))


def seen(batch: Batch, column: int) -> int:
    return max(1, min(batch.n[column], batch.items - 1))


@dataclass(frozen=True)
class Same:
    """At these options the method is `scale` times another one."""

    options: Options
    other: str
    other_options: Options = field(default_factory=dict)
    scale: float = 1.0


@dataclass(frozen=True)
class Case:
    name: str
    formula: Callable[..., float | None]
    settings: tuple[Options, ...]  # the first is {}: the defaults
    same: tuple[Same, ...]
    epochs: tuple[int, ...]  # of 10
    unknown: str | None  # default of the option `unknown`; None: the formula itself says what an unknown label is
    reduce: str  # default of the option `reduce`
    whole: bool
    true_gradient: bool  # False: the method stops gradients on purpose, so they are not those of its value
    exchangeable_labels: bool  # False: labels have places, for example because chance depends on them

    def expected(self, batch: Batch, options: Options) -> float:
        """The loss by the formula."""
        options = {"unknown": self.unknown, "reduce": self.reduce, **options}
        reduce, unknown = options.pop("reduce"), options["unknown"]
        if unknown is None or self.unknown is not None:
            del options["unknown"]
        filled = batch if self.unknown is None else batch.filled(unknown)
        if self.whole:
            value = self.formula(filled, **options)
            assert value is not None
            return value
        terms: list[float | None] = []
        for i, row in enumerate(filled.y):
            for c, y in enumerate(row):
                if y is None and self.unknown is not None:
                    terms.append(None)
                    continue
                at = Label(batch.z[i][c], 0.0 if y is None else y, batch.y[i][c] is not None, i, c, filled)
                terms.append(self.formula(at, **options))
        kept = [term for term in terms if term is not None]
        rows, labels = batch.shape
        return sum(kept) / {"entries": rows * labels, "rows": rows, "sum": 1, "kept": max(1, len(kept))}[reduce]


CASES: dict[str, Case] = {}


def case(
    name: str,
    *settings: Options,
    same: Sequence[Same] = (),
    epochs: Sequence[int] = (0,),
    unknown: str | None = "negative",
    reduce: str = "entries",
    whole: bool = False,
    true_gradient: bool = True,
    exchangeable_labels: bool = True,
) -> Callable[[Callable[..., float | None]], Callable[..., float | None]]:
    def add(formula: Callable[..., float | None]) -> Callable[..., float | None]:
        CASES[name] = Case(
            name,
            formula,
            ({}, *settings),
            tuple(same),
            tuple(epochs),
            unknown,
            reduce,
            whole,
            true_gradient,
            exchangeable_labels,
        )
        return formula

    return add


def cross_entropy(p: float, y: float) -> float:
    return (-y * log(p) if y else 0.0) + (-(1 - y) * log(1 - p) if y < 1 else 0.0)


def focal(p: float, y: float, gamma: float = 2.0, balance: float = 2.0) -> float:
    p_t = p if y else 1 - p
    return -balance * (1 - p_t) ** gamma * log(p_t)


def bce_or_focal(p: float, y: float, score: str = "bce", gamma: float = 2.0, balance: float = 2.0) -> float:
    return focal(p, y, gamma, balance) if score == "focal" else cross_entropy(p, y)


def asymmetric(p: float, y: float, gamma_pos: float = 0.0, gamma_neg: float = 4.0, margin: float = 0.05) -> float:
    p_m = max(p - margin, 0)
    return -((1 - p) ** gamma_pos) * log(p) if y else -(p_m**gamma_neg) * log(1 - p_m)
