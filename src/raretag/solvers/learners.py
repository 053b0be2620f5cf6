"""What a blend is made of: learners that score items they were not fitted to, and are then fitted to all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.listener import SILENT, Listener
from raretag.core.solver import mapped
from raretag.core.targets import Targets
from raretag.solvers.folds import Judge, along_path
from raretag.solvers.kernel import KernelRidge, centred_labels
from raretag.solvers.newton import Loss, Products, label_blocks, loss_weights, minimise

_SPARSE = 0.2  # features of which no more are filled are kept as a sparse matrix
PATH_ITEMS = 2000  # that choose the strength of a kernel
KEPT = 2**27  # weights of all folds that are kept as starts of the next strength: 0.5 GB


def gathered(features: Iterator[tuple[Any, Targets]]) -> tuple[Any, Tensor, Tensor]:
    """Features [N, D], sparse if they mostly are; which labels are positive [N, C]; which are observed."""
    from scipy import sparse

    blocks: list[Any] = []
    positives, observed = [], []
    thin = alone = processes.count() == 1
    for x, targets in features:
        if isinstance(x, Tensor):
            x = x.detach().float()
            x = x.cpu() if alone else x  # several processes exchange rows where their devices are
            thin = thin and int((x != 0).sum()) <= _SPARSE * x.numel()
            blocks.append(sparse.csr_array(x.numpy()) if thin else x)
        else:
            thin = thin and x.nnz <= _SPARSE * x.shape[0] * x.shape[1]
            blocks.append(x)
        if not thin:
            blocks = [block if isinstance(block, Tensor) else torch.from_numpy(block.toarray()) for block in blocks]
        positives.append(targets.observed & (targets.positive > 0.5))
        observed.append(targets.observed)
    x = sparse.csr_array(sparse.vstack(blocks)) if thin else processes.rows(torch.cat(blocks)).cpu()
    return x, processes.rows(torch.cat(positives)).cpu(), processes.rows(torch.cat(observed)).cpu()


def rows_of(x: Any, rows: Tensor) -> Any:
    return x[rows] if isinstance(x, Tensor) else x[rows.numpy()]


def dense_rows(x: Any, rows: Tensor) -> Tensor:
    found = rows_of(x, rows)
    return found if isinstance(found, Tensor) else torch.from_numpy(found.toarray())


@dataclass(frozen=True)
class Task:
    """What all learners of a blend get."""

    products: Products  # of the features [N, D]
    positive: Tensor  # [N, C] bool
    counted: Tensor | None  # [N, C] bool, what is learned from; None: everything
    fold: Tensor  # [N]

    @property
    def folds(self) -> int:
        return int(self.fold.max()) + 1

    @property
    def length(self) -> float:
        """Of a row: the root of the mean square."""
        return sqrt(1 / self.products.unit)

    @property
    def labels(self) -> int:
        return self.positive.shape[1]


@dataclass(frozen=True)
class Units:
    """h(x) = relu(U x + u)."""

    weight: Tensor  # U [H, D]
    bias: Tensor  # u [H]


@dataclass(frozen=True)
class Fitted:
    """z = W x + b + V k(x) + M sqrt(f(x)) + R h(x)."""

    weight: Tensor  # W [C, D]
    bias: Tensor  # b [C]
    of_items: Tensor | None = None  # V [C, N]
    trees: dict[str, Tensor] | None = None  # the tables of f (models/heads/trees.py)
    mixing: Tensor | None = None  # M: [C], or [C, C]; None: 1
    units: Units | None = None  # h
    of_units: Tensor | None = None  # R [C, H]


class Learner(ABC):
    name: str
    strengths: tuple[float, ...]  # from stiff to loose

    @abstractmethod
    def held_out(self, strength: float, listener: Listener) -> Tensor:
        """[N, C] scores of each item by a solution that was fitted to the other folds."""

    @abstractmethod
    def fitted(self, strength: float) -> Fitted:
        """The solution of all items."""


class Line(Learner):
    """A linear classifier of each label (solvers/newton.py); a strength is in units of one over the mean of |x|^2."""

    def __init__(self, task: Task, name: str, loss: Loss, strengths: tuple[float, ...], *, balanced: bool) -> None:
        self.task, self.name, self.loss, self.strengths, self.balanced = task, name, loss, strengths, balanced
        self.keeps = task.labels * task.products.columns * task.folds <= KEPT
        self.starts: dict[tuple[int, int], Tensor] = {}

    def held_out(self, strength: float, listener: Listener) -> Tensor:
        task = self.task
        scores = torch.zeros(task.positive.shape)
        places = [(fold, block) for fold in range(task.folds) for block in self.blocks()]
        parts = [
            Part(self.loss, self.balanced, strength, block, fold, self.starts.get((fold, block.start)), self.keeps)
            for fold, block in places
        ]
        for done, ((fold, block), (theta, z)) in enumerate(zip(places, mapped(solved_part, task, parts), strict=True)):
            scores[task.fold == fold, block] = z
            if self.keeps:
                self.starts[fold, block.start] = theta
            listener.progress((done + 1) / len(places))
        return scores

    def fitted(self, strength: float) -> Fitted:
        self.starts.clear()
        parts = [Part(self.loss, self.balanced, strength, block) for block in self.blocks()]
        theta = torch.cat([found.T for found, _ in mapped(solved_part, self.task, parts)])
        return Fitted(theta[:, :-1].contiguous(), theta[:, -1].contiguous())

    def blocks(self) -> list[slice]:
        return list(label_blocks(self.task.labels, self.task.products.columns, self.task.products.items))


@dataclass(frozen=True)
class Part:
    """Labels of a line that are solved together, without the items of a fold or with all of them."""

    loss: Loss
    balanced: bool
    strength: float
    block: slice
    fold: int | None = None
    start: Tensor | None = None
    wants_theta: bool = True


def solved_part(task: Task, part: Part) -> tuple[Tensor | None, Tensor]:
    """theta [D + 1, B], if it is wanted, and the logits of the items of the fold, or of none."""
    held = task.fold == -1 if part.fold is None else task.fold == part.fold
    y = task.positive[:, part.block].float()
    counted = None if task.counted is None else task.counted[:, part.block]
    weight = loss_weights(y, counted, None if part.fold is None else ~held, balanced=part.balanced)
    tolerance = 1e-3 if part.fold is None else 1e-2
    strength = part.strength * task.products.unit
    theta, z = minimise(task.products, y, weight, strength, part.loss, part.start, tolerance)
    return theta if part.wants_theta else None, z[held]


class Kernel(Learner):
    """Ridge regression on a kernel of the items (solvers/kernel.py); a strength is one over what the diagonal gets.

    Time grows with the cube of the items, so of many a part chooses the strength: it stands for how much of the labels
    is noise, which more items do not change.
    """

    name = "kernel"
    strengths: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

    def __init__(self, task: Task) -> None:
        self.task = task
        self.y = centred_labels(task.positive, task.counted)
        if len(self.y) > PATH_ITEMS:
            self.strengths = (self.chosen_by_a_part(),)
        self.ridge = KernelRidge(task.products.x, task.length)
        self.found: dict[float, Tensor] = {}  # a [N, C] of each strength: leaving folds out solves for all items, too

    def chosen_by_a_part(self) -> float:
        """By as many items as PATH_ITEMS, of all folds alike."""
        rows = self.task.fold.argsort(stable=True)[:: -(-len(self.y) // PATH_ITEMS)]
        ridge, fold = KernelRidge(rows_of(self.task.products.x, rows), self.task.length), self.task.fold[rows]
        counted = None if self.task.counted is None else self.task.counted[rows]
        found, _ = along_path(
            lambda strength, _: ridge.solved(self.y[rows], 1 / strength, fold)[1],
            self.strengths,
            fold,
            Judge(self.task.positive[rows], counted),
            SILENT,
        )
        return found.strength

    def held_out(self, strength: float, listener: Listener) -> Tensor:
        self.found[strength], z = self.ridge.solved(self.y, 1 / strength, self.task.fold)
        return z

    def fitted(self, strength: float) -> Fitted:
        a = self.found[strength].T.contiguous() / self.ridge.diagonal  # [C, N]
        none = torch.zeros(self.task.labels, self.task.products.columns)
        return Fitted(none, -(a @ torch.from_numpy(self.ridge.mean)), a)
