r"""Balanced logistic regression of all labels at once, with a strength chosen by held-out folds (see newton.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.core.listener import SILENT, Listener
from raretag.core.solver import mapped
from raretag.solvers.newton import Products, label_blocks, loss_weights, minimise

STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # times the mean of |x|^2: K if rows have length 1
WIDE = (0.003, 0.01, *STRENGTHS, 300.0)
USUAL = 1.0  # a wide path goes on to here, as a few stiff strengths may differ by luck alone
Tried = dict[str, float]  # mean average precision on held-out folds, 0 to 1, of each strength that was tried


@dataclass(frozen=True)
class Choice:
    strength: float  # K
    tried: Tried
    held_out: Tensor  # [N, C] logits of each item, by a solution that has not seen it


def choose(
    x: Any,
    positive: Tensor,
    folds: int,
    seed: int,
    counted: Tensor | None = None,
    listener: Listener = SILENT,
    *,
    by_fold: bool = False,
) -> Choice:
    """The strength with the best mean average precision, along a path that ends when that fell twice.

    `counted` [N, C] bool: what is trained on. All entries are judged, as if what is not positive were negative. The
    `listener` gets the share of the path that is done. `by_fold`: a fold's items are ranked among themselves, along a
    wider path; else those of all folds together, whose solutions have different levels.
    """
    if len(positive) < 2:
        raise UserError(
            f"{len(positive)} training items; logistic regression holds some of them out and needs 2 or more"
        )
    fold = random_folds(len(positive), folds, seed)
    strengths = WIDE if by_fold else STRENGTHS
    products = Products(x)
    places = [(k, block) for k in range(folds) for block in blocks_of(products, positive)]
    starts: list[Tensor | None] = [None] * len(places)
    shared = (products, positive, counted, fold)
    tried: list[float] = []
    best, held_out = strengths[0], torch.zeros_like(positive)
    for at, one in enumerate(strengths):
        z = torch.zeros_like(positive)
        parts = [
            Block(block, products.unit * one, 1e-2, k, start) for (k, block), start in zip(places, starts, strict=True)
        ]
        for done, (theta, logits) in enumerate(mapped(solved_block, shared, parts)):
            k, block = places[done]
            starts[done], z[fold == k, block] = theta, logits
            listener.progress((at * len(places) + done + 1) / (len(strengths) * len(places)))
        precision = fold_precision(z, positive, fold) if by_fold else float(mean_precision(z, positive))
        if not any(before >= precision for before in tried):
            best, held_out = one, z
        tried.append(precision)
        if at >= 2 and tried[at] < tried[at - 1] < tried[at - 2] and (one > USUAL or not by_fold):
            break
    by_strength = {f"{one:g}": value for one, value in zip(strengths, tried, strict=False) if value == value}
    return Choice(products.unit * best, by_strength, held_out)


@dataclass(frozen=True)
class Block:
    """Labels that are solved together, without the items of a fold or with all of them."""

    labels: slice
    strength: float
    tolerance: float
    fold: int | None = None
    start: Tensor | None = None


def solved_block(shared: tuple[Products, Tensor, Tensor | None, Tensor], part: Block) -> tuple[Tensor, Tensor]:
    """theta [D + 1, B], and the logits of the items of the fold, or of none.

    A label that has no positives, or nothing else, gets its frequency as bias.
    """
    products, positive, counted, fold = shared
    held = fold == (-1 if part.fold is None else part.fold)
    y = positive[:, part.labels].contiguous()
    odds = ((y.sum(0) + 0.5) / (len(y) - y.sum(0) + 0.5)).log()
    counts = None if counted is None else counted[:, part.labels]
    weight = loss_weights(y, counts, None if part.fold is None else ~held)
    theta, z = minimise(products, y, weight, part.strength, "logistic", part.start, part.tolerance)
    empty = (weight == 0).all(0)
    theta[-1] = torch.where(empty, odds, theta[-1])
    return theta, torch.where(empty, odds, z[held])


def solved(x: Any, positive: Tensor, strength: float, tolerance: float = 1e-3, counted: Tensor | None = None) -> Tensor:
    """theta [C, D + 1] of all labels, from all items."""
    products = Products(x)
    shared = (products, positive, counted, torch.zeros(len(positive), dtype=torch.int64))
    parts = [Block(block, strength, tolerance) for block in blocks_of(products, positive)]
    return torch.cat([theta for theta, _ in mapped(solved_block, shared, parts)], 1).T.contiguous()


def blocks_of(products: Products, positive: Tensor) -> list[slice]:
    return list(label_blocks(positive.shape[1], products.columns, products.items))


def mean_precision(z: Tensor, positive: Tensor) -> Tensor:
    """Mean over the labels that have positives of the average precision of z [N, C]."""
    hit = positive.gather(0, torch.argsort(z, dim=0, descending=True, stable=True))
    precision = hit.cumsum(0) / torch.arange(1, len(z) + 1).to(z)[:, None]
    some = positive.sum(0) > 0
    return ((precision * hit).sum(0) / positive.sum(0))[some].mean()


def random_folds(items: int, folds: int, seed: int) -> Tensor:
    """[N] the fold of each item."""
    return chance.permutation(items, seed, 7) % folds


def fold_precision(z: Tensor, positive: Tensor, fold: Tensor) -> float:
    """Mean over labels of the average precision of held-out scores z [N, C], a mean over the folds that can tell.

    A fold's items are ranked among themselves, as its solution has a level and a spread of its own. A fold can tell of
    a label that has a positive in it and one outside. Labels go in blocks, to bound the memory.
    """
    numbers, total = torch.zeros(positive.shape[1]), torch.zeros(positive.shape[1])
    count = positive.sum(0)
    for one in fold.unique():
        rows = (fold == one).nonzero().flatten()
        places = torch.arange(1, len(rows) + 1, dtype=torch.float32)[:, None]
        for block in torch.arange(positive.shape[1]).split(max(1, 2**24 // len(rows))):
            y = positive[rows][:, block].float()
            hit = y.gather(0, torch.argsort(z[rows][:, block], dim=0, descending=True, stable=True))
            here = y.sum(0)
            tells = (here > 0) & (here < count[block])
            found = (hit.cumsum(0) / places * hit).sum(0) / here.clamp(min=1)
            numbers[block] += tells
            total[block] += torch.where(tells, found, 0.0)
    some = numbers > 0
    return float((total[some] / numbers[some]).mean()) if some.any() else 0.0
