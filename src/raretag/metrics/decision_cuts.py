r"""Where to cut scores of items that the model was not fitted to: between the best micro and the best macro F1.

For label c with n_c marked positives, and decisions for its g n_c highest scores::

    TP_c(g)   marked positives among them;  R_c(g)  mean of TP / n over labels of like count (Gaussian in log n)
    r_c(g)    (TP_c + KAPPA R_c) / (n_c + KAPPA), the recall: a rare label follows its like, a frequent one itself
    e_c       share of the true positives that are marked; F1 = 2 r / (1 + e g), as the true ones are n_c / e_c
    F_c       max_g 2 r_c / (1 + e_c g), the best F1 of the label;   F  the best micro F1, a fixed point
    g_c       argmax_g r_c - e_c g (m F + (1 - m) F_c) / 2,    m  how much micro F1 counts

The cut lies halfway between the scores around that rank. A label without positives is never decided for.

A label with observed negatives is cut among its observed entries, with e = 1: what is unknown has no part in it. If it
has none, every unmarked item may be a positive or not: all entries are ranked, with e = MARKED, which need not be exact
(what it gives is nearly the same from .3 to .8, and at the true share: docs/log.md).

Answers to suggestions are neither: somebody chose them by their score. Among observed entries alone positives would
seem to be as frequent as among suggestions, and every cut would be far too low; and marks are complete where scores are
high, so that e is not one number any more. There all entries are ranked; a mark counts 1, a refuted one 0, an unknown
one with its probability (below), and e = 1.

Probabilities are calibrated as validation items would be (`calibration`), but for labels without typical negatives:
there an unknown item is a positive now and then. With p the probability that an item is marked, an unknown item is
one with probability (1 - e) / e p / (1 - p) (Elkan and Noto, "Learning classifiers from only positive and unlabeled
data", 2008), and counts as one to that part. What is measured comes from the other folds, cuts and calibration alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics.calibration import SPREADS, Counted, Tuned, calibrations, platt
from raretag.metrics.scored import blocks, positives

DEPTHS = (
    *(0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.6),
    *(2.0, 2.5, 3.2, 4.0, 5.0, 6.5, 8.0, 10.0, 13.0, 16.0, 20.0),
)  # g
KAPPA = 30.0  # so many positives weigh as much as the labels of like count
MICRO = (1.0, 0.5, 0.25, 0.15, 0.05, 0.0)  # m
LOSS = 0.05  # of the plain cut's micro or macro F1: more is not given up for the other
WIDTH = 0.7  # of "like count", in log n
ENOUGH = 20  # positives; more of them make a label's own curve no better as an example
MARKED = 0.6  # e of a label without observed negatives
CHOSEN = 0.6  # observed negatives that outscore unknown entries this often were not drawn at random
FOLDS = 5
PLAIN = 0.0  # the logit at which a model itself would cut
_ROUNDS = 5
_PURPOSE, _CALIBRATION = 0xDEC1DE, 0x7E1D  # of the draws of folds


@dataclass(frozen=True, slots=True)
class Entries:
    """What decisions are judged by: the entries that count, and the share of the true positives that are marked."""

    counted: Tensor  # [N, C] bool
    positive: Tensor  # [N, C] bool, observed, or float64: how probable a positive is
    marked: Tensor  # [C] float64, e

    @classmethod
    def of(
        cls,
        targets: Targets,
        logits: Tensor,
        groups: Mapping[str, Tensor] | None = None,
        marked: float | Tensor = MARKED,
    ) -> Entries:
        positive = positives(targets)
        negative = targets.observed & ~positive
        if are_chosen(logits, negative, ~targets.observed):
            everything = torch.ones_like(positive)
            return cls(everything, _expected(logits, targets, groups or {}), torch.ones(positive.shape[1]).double())
        refuted = negative.any(0)  # [C] labels with observed negatives
        return cls(targets.observed | ~refuted, positive, torch.where(refuted, 1.0, marked).double())

    def rows(self, chosen: Tensor) -> Entries:
        return Entries(self.counted[chosen], self.positive[chosen], self.marked)


def _expected(logits: Tensor, targets: Targets, groups: Mapping[str, Tensor]) -> Tensor:
    """How probable a positive is [N, C]: known, or as the share of marks among entries with such scores has it."""
    positive, everything = positives(targets), torch.ones_like(targets.observed)
    alone = torch.zeros(len(logits), dtype=torch.int64)
    pair = platt(Counted.of(logits, Targets(positive.double(), everything), alone, 1), groups, SPREADS[1])
    odds = torch.exp(logits.double() * pair[:, 0].exp() + pair[:, 1])
    missing = ((1 - MARKED) / MARKED * odds).clamp(max=1) * positive.any(0)
    return torch.where(targets.observed, positive.double(), missing)


def are_chosen(logits: Tensor, negative: Tensor, unknown: Tensor) -> bool:
    """Whether observed negatives score higher than unknown entries of their label, as rejected suggestions do; [N, C].

    >>> scores = torch.tensor([[3.0], [2.0], [1.0], [0.0]])
    >>> some = torch.tensor([[True], [False], [False], [False]])
    >>> are_chosen(scores, some, ~some), are_chosen(-scores, some, ~some)
    (True, False)
    """
    higher, pairs = 0.0, 0
    for label in (negative.any(0) & unknown.any(0)).nonzero().flatten().tolist():
        ranked = logits[unknown[:, label], label].sort().values
        mine = logits[negative[:, label], label].contiguous()
        below = torch.searchsorted(ranked, mine) + torch.searchsorted(ranked, mine, right=True)  # a tie counts half
        higher += float(below.sum()) / (2 * len(ranked))
        pairs += len(mine)
    return pairs > 0 and higher / pairs > CHOSEN


def decision_cuts(logits: Tensor, entries: Entries, *, kappa: float = KAPPA, micro: Sequence[float] = MICRO) -> Tensor:
    """For each m [M, C] float64, on the scale of the logits [N, C]: decide for what is higher; inf: never."""
    labels = logits.shape[1]
    hits, cuts = (torch.zeros(labels, len(DEPTHS), dtype=torch.float64) for _ in range(2))
    for block in blocks(labels, len(logits)):
        hits[block], cuts[block] = _curves(logits[:, block], entries.counted[:, block], entries.positive[:, block])
    n = entries.positive.sum(0).double()
    found = shrunk_recall(hits, n, kappa)
    places = torch.stack([chosen_depths(found, n, entries.marked, m) for m in micro], 1)  # [C, M]
    return torch.where(n > 0, cuts.gather(1, places).T, torch.inf)


def _curves(logits: Tensor, counted: Tensor, positive: Tensor) -> tuple[Tensor, Tensor]:
    """TP [C, G] of each depth, and the cut that reaches it [C, G]."""
    ranked = torch.where(counted, logits.double(), -torch.inf).T.contiguous()
    score, row = torch.sort(ranked, dim=1, descending=True, stable=True)
    score = torch.cat([score, score[:, -1:]], 1)  # so that there is a next one
    hits = torch.cat([torch.zeros(len(row), 1), positive.T.gather(1, row).cumsum(1)], 1).double()  # of the first k
    last = (counted.sum(0) - 1).clamp(min=0)
    rank = (torch.tensor(DEPTHS, dtype=torch.float64) * positive.sum(0)[:, None]).round().long()
    rank = torch.minimum(rank, last[:, None])
    above, below = score.gather(1, (rank - 1).clamp(min=0)), score.gather(1, rank)
    none = score[:, :1] + 1e-3 + (score[:, :1] - score[:, 1:2]).abs().nan_to_num(0.0, 0.0, 0.0) / 2
    return hits.gather(1, rank), torch.where(rank > 0, (above + below) / 2, none)


def shrunk_recall(hits: Tensor, n: Tensor, kappa: float) -> Tensor:
    """r [C, G]: each label's own recall, drawn towards that of labels of like count. Labels of one count are pooled."""
    counts, member = n.unique(return_inverse=True)  # [U], [C]
    recall = hits / n.clamp(min=1)[:, None]
    sums = torch.zeros(len(counts), hits.shape[1], dtype=torch.float64).index_add_(0, member, recall)
    often = torch.bincount(member, minlength=len(counts)).double()
    weight = counts.clamp(max=ENOUGH) * (counts > 1)  # one positive, held out, shows nothing of a curve
    near = torch.exp(-0.5 * ((counts.clamp(min=1).log()[:, None] - counts.clamp(min=1).log()) / WIDTH) ** 2) * weight
    pooled = (near @ sums) / (near @ often).clamp(min=1e-9)[:, None]  # [U, G]
    drawn: Tensor = (hits + kappa * pooled[member]) / (n + kappa)[:, None]
    return drawn


def chosen_depths(recall: Tensor, n: Tensor, marked: Tensor, micro: float) -> Tensor:
    """The place in DEPTHS [C] that is best for the mixture of micro and macro F1."""
    price = marked[:, None] * torch.tensor(DEPTHS, dtype=torch.float64)  # e g [C, G]
    of_label, place = (2 * recall / (1 + price)).max(1)
    true = n / marked  # [C]

    def micro_f1(place: Tensor) -> Tensor:
        at = place[:, None]
        right = (true * recall.gather(1, at)[:, 0]).sum()
        return 2 * right / (true * (1 + price.gather(1, at)[:, 0])).sum().clamp(min=1e-9)

    overall = micro_f1(place)
    for _ in range(_ROUNDS):
        overall = micro_f1((recall - overall / 2 * price).argmax(1))
    worth = (micro * overall + (1 - micro) * of_label) / 2
    best: Tensor = (recall - worth[:, None] * price).argmax(1)
    return best


def f1_of(decided: Tensor, entries: Entries) -> dict[str, float]:
    """Micro and macro F1 [N, C] of decisions, as the share of marked positives makes one expect it."""
    right = torch.where(decided, entries.positive, 0).sum(0).double()
    chosen = (decided & entries.counted).sum(0).double()
    n, e = entries.positive.sum(0).double(), entries.marked
    some = n > 0
    macro = (2 * right / (n + e * chosen).clamp(min=1e-9))[some]
    micro = 2 * (right / e).sum() / (chosen.sum() + (n / e).sum()).clamp(min=1e-9)
    return {"micro": float(micro), "macro": float(macro.mean()) if some.any() else 0.0}


@dataclass(frozen=True, slots=True)
class Checked:
    """Cuts, and what they do to items that they were not fitted to."""

    cuts: Tensor  # [C] float64
    decided: Tensor  # [N, C] bool: each item by cuts from the other folds
    micro: float | None  # m of the cuts; None: the plain cut was not beaten
    f1: dict[str, dict[str, float]]  # held out, of the plain cut and of those that were tried

    def notes(self) -> dict[str, Any]:
        how = {"cuts": "plain"} if self.micro is None else {"cuts": "tuned", "share_of_micro": self.micro}
        return {**how, "held_out_F1": self.f1}


def checked_cuts(logits: Tensor, entries: Entries, seed: int = 0) -> Checked:
    """The cuts whose micro and macro F1 of held-out items add up to most, if that is more than at a logit of 0.

    Cuts that lose more than LOSS of either F1 have no part in it.
    """
    folds = min(FOLDS, len(logits))
    fold = chance.permutation(len(logits), _PURPOSE, seed) % max(folds, 1)
    known = (entries.positive == 1).any(0)
    plain = (logits > PLAIN) & known
    found = {"plain": f1_of(plain, entries)}
    best: float | None = None
    decided, worth = plain, sum(found["plain"].values())
    parts = [((fold != k).nonzero().flatten(), (fold == k).nonzero().flatten()) for k in range(folds)]
    cuts = [decision_cuts(logits[rest], entries.rows(rest)) for rest, _ in parts] if folds > 1 else []  # [M, C] each
    for number, m in enumerate(MICRO if cuts else ()):
        tried = torch.zeros_like(plain)
        for (_, out), cut in zip(parts, cuts, strict=True):
            tried[out] = logits[out] > cut[number]
        found[f"tuned, {m:g}"] = reached = f1_of(tried, entries)
        kept = all(reached[kind] >= (1 - LOSS) * found["plain"][kind] for kind in reached)
        if kept and sum(reached.values()) > worth:
            best, decided, worth = m, tried, sum(reached.values())
    if best is None:
        return Checked(torch.where(known, PLAIN, torch.inf).double(), plain, None, found)
    return Checked(decision_cuts(logits, entries, micro=(best,))[0], decided, best, found)


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """What a run decides by, and what that makes of items that neither the model nor the cuts were fitted to."""

    tuned: Tuned
    decided: Tensor  # [N, C] bool, by cuts from other folds
    calibrated: Tensor  # [N, C] float64 logits, calibrated on other folds


def tune_out_of_fold(
    logits: Tensor,
    targets: Targets,
    groups: Mapping[str, Tensor],
    *,
    seed: int = 0,
    marked: float | Tensor = MARKED,
) -> CrossFitted:
    """Thresholds and calibration from out-of-fold logits [N, C] of the training items.

    marked  e of labels without observed negatives, one number or [C]

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 0], [0, 0]])
    >>> logits = torch.tensor([[2.0, -1.0], [0.5, 0.3], [-1.0, 0.0]])
    >>> found = tune_out_of_fold(logits, targets, groups={})
    >>> found.decided.tolist(), float(found.tuned.thresholds[1])  # a label without positives is never decided for
    ([[True, False], [True, False], [False, False]], 1.0)
    """
    if logits.isnan().any():
        raise UserError("an out-of-fold logit is NaN: the solver is broken, and no threshold can repair it")
    logits, targets = logits.detach().cpu().double().clamp(-1e4, 1e4), targets.to("cpu")
    entries = Entries.of(targets, logits, groups, marked)
    checked = checked_cuts(logits, entries, seed)
    notes = {
        "goal": "f1",
        "wanted": None,
        "fitted_to": "out of fold",
        "items": len(logits),
        **checked.notes(),
        "labels_without_negatives": int((entries.marked < 1).sum()),
        "negatives_were_chosen": entries.positive.is_floating_point(),
        "out_of_reach": int(torch.isposinf(checked.cuts).sum()),
    }
    folds = min(FOLDS, len(logits))
    if folds < 2:
        same = torch.ones(logits.shape[1], dtype=torch.float64)
        return CrossFitted(Tuned(same, same * 0, torch.sigmoid(checked.cuts), notes), checked.decided, logits)
    fold = chance.permutation(len(logits), _CALIBRATION, seed) % folds
    counted = Counted.of(logits, Targets(entries.positive.double(), entries.counted), fold, folds)
    spread, pairs, pair = calibrations(with_missing(counted, entries.marked, groups), groups, folds, True)
    after = torch.empty_like(logits)
    for held, other in enumerate(pairs):
        after[fold == held] = logits[fold == held] * other[:, 0].exp() + other[:, 1]
    scale, shift = pair[:, 0].exp(), pair[:, 1]
    tuned = Tuned(
        scale, shift, torch.sigmoid(checked.cuts * scale + shift), {**notes, "folds": folds, "spread": spread}
    )
    return CrossFitted(tuned, checked.decided, after)


def with_missing(counted: Counted, marked: Tensor, groups: Mapping[str, Tensor]) -> Counted:
    """With the positives that are expected among unmarked items; `marked` [C] is the share that is marked."""
    if bool((marked == 1).all()):
        return counted
    pair = platt(counted, groups, SPREADS[1])
    p = torch.sigmoid(counted.logit * pair[:, 0].exp() + pair[:, 1])  # [BINS, C]
    missing = ((1 - marked) / marked * p / (1 - p).clamp(min=1e-9)).clamp(max=1)
    return replace(counted, positive=counted.positive + (counted.items - counted.positive) * missing)
