"""Calibration and thresholds from validation items, cross-fitted: choices are tested on items they were not fitted to.

Items are dealt into folds. Without each fold in turn, probabilities are calibrated (`calibration`) and every label is
cut (`cuts`); the fold then decides two things that the others cannot: how near labels should stay to their group
(`spread`, by log loss), and how much a label follows the model instead of its few positives (`k`, by the goal).
A label's threshold is the mean of its cuts over the folds, which moves less than any one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics.calibration import DEFAULT_THRESHOLD, Counted, Goal, Ranked, Tuned, best_cuts, calibrations
from raretag.metrics.scored import blocks, positives

FOLDS = 5
MODEL_WEIGHTS = (1.0, 3.0, 10.0, 30.0, 100.0, math.inf)  # k: so many positives weigh as much as the model
TOLERANCE = 0.5  # standard errors
SHORT = 4.0  # a wanted precision or recall that is missed by 1 % is worse than 1 % less of the other
PURPOSE = 0x7E1D  # of the draw of folds


def tune(
    logits: Tensor,
    targets: Targets,
    groups: Mapping[str, Tensor],
    *,
    goal: Goal = "f1",
    wanted: float | None = None,
    calibrate: bool = True,
    seed: int = 0,
) -> Tuned:
    """Thresholds and calibration from validation logits [N, C]; unknown entries are not used.

    goal        f1: the best F1 of each label; precision or recall: at least `wanted` of it, with as much of the other
    calibrate   False leaves probabilities as they are; thresholds are found in the same way

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> tuned = raretag.metrics.tune(logits, targets, groups={})
    >>> tuned.calibrated(logits).shape, tuned.thresholds.shape
    (torch.Size([3, 2]), torch.Size([2]))
    """
    if goal not in ("f1", "precision", "recall") or (goal == "f1") != (wanted is None):
        raise UserError(f"goal={goal!r} with wanted={wanted}; expected 'f1', or 'precision' or 'recall' and a share")
    if logits.isnan().any():
        raise UserError("a logit is NaN: the model is broken, and no threshold can repair it")
    logits, targets = logits.detach().cpu().double().clamp(-1e4, 1e4), targets.to("cpu")
    folds = min(FOLDS, len(logits))
    fold = chance.permutation(len(logits), PURPOSE, seed) % max(1, folds)
    counted = Counted.of(logits, targets, fold, folds) if folds > 1 else None
    if counted is None or not targets.observed.any():
        same = torch.ones(logits.shape[1], dtype=torch.float64)
        return Tuned(
            same, same * 0, same * DEFAULT_THRESHOLD, {"goal": goal, "wanted": wanted, "validation_items": len(logits)}
        )
    spread, pairs, pair = calibrations(counted, groups, folds, calibrate)
    k, cuts = _cuts(logits, targets, fold, pairs, goal, wanted)
    scale, shift = pair[:, 0].exp(), pair[:, 1]
    thresholds = _filled(torch.sigmoid(cuts * scale + shift), groups)
    notes = {
        "goal": goal,
        "wanted": wanted,
        "validation_items": len(logits),
        "folds": folds,
        "spread": spread,
        "k": None if math.isinf(k) else k,  # None: labels follow the model alone
        "out_of_reach": int(torch.isposinf(cuts).sum()),
    }
    return Tuned(scale, shift, thresholds, notes)


def _cuts(
    logits: Tensor, targets: Targets, fold: Tensor, pairs: list[Tensor], goal: Goal, wanted: float | None
) -> tuple[float, Tensor]:
    """k, and the mean cut of each label [C] on the scale of logits."""
    labels = logits.shape[1]
    cuts = torch.full((len(MODEL_WEIGHTS), len(pairs), labels), math.nan, dtype=torch.float64)
    # right, chosen and positive, of held-out entries
    counts = torch.zeros(len(MODEL_WEIGHTS), 3, labels, dtype=torch.float64)
    positive = positives(targets)
    for block in blocks(labels, len(logits)):
        for held, pair in enumerate(pairs):
            mine, out = fold != held, fold == held
            ranked = Ranked.of(logits[mine, block], targets.observed[mine, block], positive[mine, block])
            p = torch.sigmoid(ranked.score * pair[block, :1].exp() + pair[block, 1:])  # [C, N]; 0 where not observed
            known = ranked.positive.sum(1, keepdim=True)
            held_out, known_out, right = logits[out, block], targets.observed[out, block], positive[out, block]
            for number, k in enumerate(MODEL_WEIGHTS):
                w = 1.0 if math.isinf(k) else k / (known + k)
                cut = best_cuts(ranked, torch.where(ranked.positive, 1 - w + w * p, w * p), goal, wanted)
                cuts[number, held, block] = cut
                chosen = (held_out > cut) & known_out
                counts[number, 0, block] += (chosen & right).sum(0)
                counts[number, 1, block] += chosen.sum(0)
        counts[:, 2, block] = positive[:, block].sum(0).double()
    best = chosen_k(counts, goal, wanted)
    return MODEL_WEIGHTS[best], _mean(cuts[best])


def chosen_k(counts: Tensor, goal: Goal, wanted: float | None) -> int:
    """The largest k whose held-out decisions are as good as the best, up to what chance explains.

    counts  [K, 3, C]. Large k is the safer choice where the data cannot decide: it moves least with the few positives.
    """
    worth = torch.stack([_worth(one, goal, wanted) for one in counts])  # [K, C]
    worth = worth[:, (counts[0, 2] > 0)]
    if not worth.shape[1]:
        return len(counts) - 1
    best = int(worth.mean(1).argmax())
    behind = worth[best] - worth  # [K, C]
    error = behind.std(1, correction=0) / math.sqrt(worth.shape[1])
    return int((behind.mean(1) <= error * TOLERANCE).nonzero().max())


def _worth(counts: Tensor, goal: Goal, wanted: float | None) -> Tensor:
    """How well held-out items were decided, for each label [C]."""
    right, chosen, positive = counts
    if goal == "f1":
        f1: Tensor = 2 * right / (chosen + positive).clamp(min=1)
        return f1
    precision, recall = right / chosen.clamp(min=1), right / positive.clamp(min=1)
    reached, other = (precision, recall) if goal == "precision" else (recall, precision)
    short = torch.where(chosen + positive * (goal == "recall") > 0, (wanted or 0.0) - reached, 0.0).clamp(min=0)
    worth: Tensor = other - SHORT * short
    return worth


def _mean(cuts: Tensor) -> Tensor:
    """Over folds [F, C]; `never` where it is so in most folds."""
    never = torch.isposinf(cuts).sum(0) * 2 > (~cuts.isnan()).sum(0)
    mean = torch.where(torch.isposinf(cuts), torch.nan, cuts).nanmean(0)
    return torch.where(never, torch.inf, mean)


def _filled(thresholds: Tensor, groups: Mapping[str, Tensor]) -> Tensor:
    """Labels of which nothing is known take the mean of their group, else of all."""
    found = thresholds.clone()
    for members in (*groups.values(), torch.arange(len(thresholds))):
        some = thresholds[members]
        missing = found[members].isnan()
        found[members[missing]] = some.nanmean()
    return found.nan_to_num(DEFAULT_THRESHOLD)
