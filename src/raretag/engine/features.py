"""Feature vectors brought to one scale: which rule suits them, and its numbers, both from training items alone.

On frozen features and on counts this matters more than the choice of a loss, so it is the default (`data.prepare`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from raretag.core import registry as registry
from raretag.core.protocols import Describes
from raretag.data.dataset import Inputs

Rule = Literal["auto", "raw", "counts", "dense", "rows", "standardised"]
SAMPLE = 2048  # training items that are looked at to choose
MOSTLY = 0.75  # zeros among numbers that are taken for counts
WIDE = 32  # columns; of fewer, the length of a row says too much to be taken away


def suited(rule: Rule, inputs: Inputs) -> Rule:
    """`auto` replaced: rows if all have length 1, counts if nothing is negative and most is 0; images stay raw.

    Columns that the data has standardised, as a table does, are not standardised again.
    """
    if rule != "auto":
        return rule
    rows = torch.linspace(0, len(inputs) - 1, min(SAMPLE, len(inputs)), dtype=torch.float64).long()
    if not len(rows) or inputs.batch(rows[:1]).ndim != 2 or inputs.batch(rows[:1]).shape[1] < WIDE:
        return "raw"
    if isinstance(inputs, Describes) and inputs.describe().get("scale") is not None:
        return "standardised"
    zeros, negative, unit, seen = 0, False, True, 0
    for part in rows.split(512):
        values = inputs.batch(part).float()
        length = torch.linalg.vector_norm(values, dim=1)
        unit = unit and bool(((length - 1).abs() < 1e-3).logical_or(length == 0).all())
        negative = negative or bool((values < 0).any())
        zeros += int((values == 0).sum())
        seen += values.numel()
    if unit:
        return "rows"
    return "counts" if not negative and zeros >= MOSTLY * seen else "dense"


def before(rule: Rule, size: int, backbone: nn.Module) -> nn.Module:
    """The backbone behind the module of its rule; an unsettled rule is that of a run from before there were any."""
    if rule in ("auto", "raw"):
        return backbone
    prepared: nn.Module = registry.build("models.prepare", rule, {}, size=size, backbone=backbone)
    return prepared


def learn_scale(model: nn.Module, inputs: Inputs) -> None:
    """Fill the modules of `models.prepare` in the model from the training items."""
    rules = [module for module in model.modules() if hasattr(module, "columns") and hasattr(module, "learn")]
    if not rules:
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


def blocks(inputs: Inputs, rows: int = 1024) -> Iterator[Tensor]:
    for part in torch.arange(len(inputs)).split(rows):
        yield inputs.batch(part).double()
