"""Feature vectors brought to one scale before the first layer (`data.prepare`): which rule suits them, and its numbers.

Each rule is a module before a backbone that learns its numbers from the training items alone. They are buffers of the
model, so what predicts later prepares new items as training did. On frozen features and on counts this matters more
than the choice of a loss, so it is on by default.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from raretag.core.protocols import Describes, HeldSparse, Inputs, Scaler, TakesSparse

Rule = Literal["auto", "raw", "counts", "dense", "rows", "standardised"]
SAMPLE = 2048  # training items that are looked at to choose
MOSTLY = 0.75  # zeros among numbers that are taken for counts
WIDE = 32  # columns; of fewer, the length of a row says too much to be taken away


class UnitRows(nn.Module):
    """A backbone behind a column-wise change that was learned from training items, and rows of one length.

    The length is that of a row whose filled columns are all 1. For a linear model whose strength is chosen it is as
    good as length 1; a network that takes its steps at the usual rate would learn almost nothing from rows of length 1.
    """

    length: Tensor

    def __init__(self, size: int, backbone: nn.Module) -> None:
        super().__init__()
        self.size, self.backbone = size, backbone
        self.features = backbone.features
        self.register_buffer("length", torch.ones(()))

    def learn(self, items: int, filled: Tensor, mean: Tensor, deviation: Tensor) -> None:
        """Of `items` training rows, for each column [D]: how many are not 0, their mean and their deviation."""
        raise NotImplementedError

    def columns(self, inputs: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, inputs: Tensor) -> Tensor:
        changed = self.columns(inputs)
        norm = torch.linalg.vector_norm(changed, dim=1, keepdim=True).clamp(min=1e-12)
        found: Tensor = self.backbone(changed * (self.length / norm))
        return found

    def sparse(self, x: csr_array) -> csr_array | None:
        """What `forward` gives for sparse rows, if this rule leaves zeros alone and the backbone takes sparse rows."""
        changed = self.sparse_columns(x)
        if changed is None or not isinstance(self.backbone, TakesSparse):
            return None
        norm = np.sqrt(row_sums(changed.data**2, x)).clip(min=1e-12)
        factor = np.repeat(float(self.length) / norm, np.diff(x.indptr)).astype(np.float32)
        return self.backbone.sparse(like(x, changed.data * factor))

    def sparse_columns(self, x: csr_array) -> csr_array | None:
        """`columns` of sparse rows; None where zeros become other numbers."""
        return None


class Counts(UnitRows):
    """Counts, such as words of a text: log1p(x) (ln((1 + N) / (1 + N_d)) + 1), then rows of one length.

    N training items, of which N_d have something in column d.
    """

    rarity: Tensor

    def __init__(self, size: int, backbone: nn.Module) -> None:
        super().__init__(size, backbone)
        self.register_buffer("rarity", torch.ones(size))

    def learn(self, items: int, filled: Tensor, mean: Tensor, deviation: Tensor) -> None:
        self.rarity.copy_(torch.log((1 + items) / (1 + filled)) + 1)
        self.length.copy_((filled.sum() / items).clamp(min=1).sqrt())

    def columns(self, inputs: Tensor) -> Tensor:
        return torch.log1p(inputs.clamp(min=0)) * self.rarity

    def sparse_columns(self, x: csr_array) -> csr_array:
        return like(x, np.log1p(np.maximum(x.data, 0)) * self.rarity.float().cpu().numpy()[x.indices])


class Dense(UnitRows):
    """Measurements, such as the features of a network: each column to mean 0 and deviation 1, then rows of one length.

    A column that never changes in training becomes 0.
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, size: int, backbone: nn.Module) -> None:
        super().__init__(size, backbone)
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("factor", torch.ones(size))

    def learn(self, items: int, filled: Tensor, mean: Tensor, deviation: Tensor) -> None:
        steady = never_change(mean, deviation)
        self.mean.copy_(mean)
        self.factor.copy_(torch.where(steady, 0.0, 1 / torch.where(steady, 1.0, deviation)))
        self.length.copy_((~steady).sum().clamp(min=1).sqrt())

    def columns(self, inputs: Tensor) -> Tensor:
        return (inputs - self.mean) * self.factor


class Standardised(UnitRows):
    """Columns that the data has brought to mean 0 and deviation 1 already: only the rows get one length."""

    def learn(self, items: int, filled: Tensor, mean: Tensor, deviation: Tensor) -> None:
        self.length.copy_((~never_change(mean, deviation)).sum().clamp(min=1).sqrt())

    def columns(self, inputs: Tensor) -> Tensor:
        return inputs


def never_change(mean: Tensor, deviation: Tensor) -> Tensor:
    """Which columns [D] hold one number, as far as float32 can tell."""
    return deviation <= 1e-6 * mean.abs().clamp(min=1)


class Rows(UnitRows):
    """Rows that are of one length already, such as TF-IDF or sentence vectors: only the length changes.

    At length 1 a network learns far too slowly at the usual rate; the square root of the filled columns suits it.
    """

    def learn(self, items: int, filled: Tensor, mean: Tensor, deviation: Tensor) -> None:
        self.length.copy_((filled.sum() / items).clamp(min=1).sqrt())

    def columns(self, inputs: Tensor) -> Tensor:
        return inputs

    def sparse_columns(self, x: csr_array) -> csr_array:
        return x


def like(x: csr_array, data: NDArray[Any]) -> csr_array:
    """Other numbers at the same places."""
    return csr_array((data, x.indices, x.indptr), shape=x.shape)


def row_sums(values: NDArray[Any], x: csr_array) -> NDArray[Any]:
    """[B]: of one value for each stored entry of x."""
    return np.asarray(like(x, values).sum(axis=1)).ravel()


def resolve_rule(rule: Rule, inputs: Inputs) -> Rule:
    """`auto` replaced: rows if all have length 1, counts if nothing is negative and most is 0, images and tokens raw.

    Columns that the data has standardised, as a table does, are not standardised again.
    """
    if rule != "auto":
        return rule
    rows = torch.linspace(0, len(inputs) - 1, min(SAMPLE, len(inputs)), dtype=torch.float64).long()
    first = inputs.batch(rows[:1])
    if not len(rows) or first.ndim != 2 or first.shape[1] < WIDE or not first.is_floating_point():
        return "raw"
    if isinstance(inputs, Describes) and inputs.describe().get("scale") is not None:
        return "standardised"
    zeros, negative, unit, total = 0, False, True, 0
    for part in rows.split(512):
        x = inputs.sparse_batch(part) if isinstance(inputs, HeldSparse) else None
        values = inputs.batch(part).float() if x is None else torch.from_numpy(x.data)
        squares = (values**2).sum(1) if x is None else torch.from_numpy(row_sums(x.data**2, x))
        length = squares.sqrt()
        unit = unit and bool(((length - 1).abs() < 1e-3).logical_or(length == 0).all())
        negative = negative or bool((values < 0).any())
        size = values.numel() if x is None else math.prod(x.shape)
        zeros += size - int((values != 0).sum())
        total += size
    if unit:
        return "rows"
    return "counts" if not negative and zeros >= MOSTLY * total else "dense"


RULES: dict[str, type[UnitRows]] = {"counts": Counts, "dense": Dense, "rows": Rows, "standardised": Standardised}


def scaled(rule: Rule, size: int, backbone: nn.Module) -> nn.Module:
    """The backbone behind the module of its rule. Runs that are older than the rules have `auto` and no such module."""
    return RULES[rule](size, backbone) if rule in RULES else backbone


def sparse_features(backbone: nn.Module, inputs: Inputs, rows: Tensor) -> csr_array | None:
    """What a backbone makes of inputs that are held sparse, if that is sparse too."""
    if not isinstance(backbone, TakesSparse) or not isinstance(inputs, HeldSparse):
        return None
    x = inputs.sparse_batch(rows)
    return None if x is None else backbone.sparse(x)


def learn_scale(model: nn.Module, inputs: Inputs) -> None:
    """Fill the scaling modules of a model from the training items."""
    rules = [module for module in model.modules() if isinstance(module, Scaler)]
    if not rules:
        return
    if all(isinstance(rule, (Counts, Rows)) for rule in rules) and learn_filled(rules, inputs):
        return
    items, filled, mean, squares = 0, torch.zeros(()), torch.zeros(()), torch.zeros(())
    for block in blocks(inputs):  # means and squared distances of blocks are merged, so large numbers lose nothing
        count = len(block)
        block_mean = block.mean(0)
        apart = block_mean - mean
        filled = filled + (block != 0).sum(0)
        squares = squares + ((block - block_mean) ** 2).sum(0) + apart**2 * (items * count / (items + count))
        mean = mean + apart * (count / (items + count))
        items += count
    for rule in rules:
        rule.learn(items, filled, mean, (squares / items).sqrt())


def learn_filled(rules: Sequence[Scaler], inputs: Inputs) -> bool:
    """The same for rules that only ask how many numbers of a column are not 0. False: the rows are not held sparse."""
    if not isinstance(inputs, HeldSparse):
        return False
    items = len(inputs)
    filled = torch.zeros(inputs.batch(torch.arange(1)).shape[1], dtype=torch.float64)
    for part in torch.arange(items).split(2**16):
        x = inputs.sparse_batch(part)
        if x is None:
            return False
        filled += torch.from_numpy(np.bincount(x.indices[x.data != 0], minlength=len(filled)))
    nothing = torch.zeros_like(filled)
    for rule in rules:
        rule.learn(items, filled, nothing, nothing)
    return True


def blocks(inputs: Inputs, rows: int = 1024) -> Iterator[Tensor]:
    for part in torch.arange(len(inputs)).split(rows):
        yield inputs.batch(part).double()
