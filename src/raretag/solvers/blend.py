r"""Linear classifiers, a kernel, a forest and networks, weighted by how they do on held-out folds. Ours.

No paper. It consists of: balanced logistic regression; the squared hinge of support vector machines (Fan et al.,
LIBLINEAR, JMLR 2008); ridge regression on a Laplace kernel; extremely randomised trees (solvers/forest.py); a small
network per fold (solvers/network.py); and shares of these learners that follow from held-out items (stacked
generalization, Wolpert 1992, but with one number per learner).

Paper and code::

    o_v        held-out scores of learner v, standardised fold by fold (solvers/folds.py), at the strength chosen by
               cross-validation; m_v, d_v its mean and spread, label by label
    t_v        how far o_v is below the best learner out of fold, in standard errors of the paired differences over
               labels; by J of solvers/folds.py, average precision with less weight on rare labels
    P          companions: which labels occur together

    1.  counted: what is observed. If no negative of a label is observed, or its negatives were chosen because they look
        like positives (answered suggestions), all its unknown entries count as negative.
    2.  share_v = exp(-t_v) / sum exp(-t) of linear learners and kernel;   a share below 1 in 50 is left out
    3.  o = sum share_v o_v;   then for the forest, and for the networks:   o <- (1 - g) o + g o_f, for the largest g
        of 0.4, 0.2, 0 that is below g = 0 by a standard error at most (networks: 0.5, 0.3, 0.15, 0, not below it)
    4.  o <- o + a o P';   a is the mean of 0, 0.2, 0.4, 0.8, each weighted by exp(-t_a) as in step 2
    5.  if o is below balanced logistic regression by more than a standard error, logistic regression is used alone
    6.  every learner is fitted to all items, and the learners are added up in the same way:
            z = m + d (s + a P s),   s = sum share_v (z_v - m_v) / d_v,   m, d those of logistic regression
        so the boundary of balanced weights is near 0. A label without positives gets only a low bias.

Forest and networks are optional ("guests" in the code). Alone they are often worse than a linear classifier, so step 2
would give them too little; step 3 asks instead whether they help the others. These shares helped on sets of all kinds
(docs/log.md). Held-out scores come from a fifth of the trees and one of five networks, so they show only part of the
gain; that is why a forest needs no proof.

Companions are labels that occur together: the score of a label is moved by those of its companions. With n_c positives
of label c among N items, co_cj items that have both c and j, and pi_j = n_j / N::

    P_cj = (co_cj + pi_j) / (n_c + 1) - pi_j        how much more frequent j is where c is; shrunk by one item
    P_cc = 0
    score_c <- score_c + a sum_j P_cj score_j

As P_cj = co_cj / (n_c + 1) - pi_j n_c / (n_c + 1), P is a matrix of the pairs that occur and a product of two vectors:
it is never written out.

All of it is linear in scores, so the result is one linear model, kernel, forest and network (models/heads/blended.py).
There is no kernel for more than 6,000 items or if the model would have to keep too many numbers, no forest if thirty
trees would take minutes, and no network for fewer than 3,000 items, very many columns, or sparse rows of more than
1,024 columns that have a forest. `effort`: quick is logistic regression and companions, with 3 folds and a short path;
default has 5 folds, best 10.

Reduces to:
    logistic_regression with effort=quick, except for how folds are made and a strength is chosen.

Departs from the paper:
    none to depart from.

Departs from the authors' code:
    none to depart from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.core.listener import Listener, Part
from raretag.core.solver import Features, Solver
from raretag.models.heads.blended import Blended
from raretag.solvers.folds import HeldOut, Judge, Tried, along_path, deal, mean
from raretag.solvers.forest import FEWEST, Forest, affordable
from raretag.solvers.kernel import too_large
from raretag.solvers.learners import Fitted, Kernel, Learner, Line, Task, Units, gathered
from raretag.solvers.network import Network, too_small_or_large
from raretag.solvers.newton import Products, without_typical_negatives

LOGISTIC = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
HINGE = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
QUICK = (0.1, 0.3, 1.0, 3.0, 10.0)
FOLDS = {"quick": 3, "default": 5, "best": 10}
PLAIN = "logistic"  # the learner that a blend is never clearly below
LAST = 0.1  # of the time, more or less: the fits to all items
FAINT = 0.02  # of the whole: a share that is not worth a fit
# g, and how many standard errors it may be below g = 0
GUESTS = {Forest.name: {0.4: 1.0, 0.2: 1.0}, Network.name: {0.5: 0.0, 0.3: 0.0, 0.15: 0.0}}
COMPANIONS = (0.0, 0.2, 0.4, 0.8)  # a
WORDS = 1024  # sparse columns above which networks find nothing that the forest does not (docs/log.md)
SMALLEST_ERROR = 1e-4  # of a difference of average precisions

Choice = TypeVar("Choice", str, float)  # a learner by name, or a strength of companions


class Blend(Solver):
    """Linear models, a kernel, a forest and networks, weighted on held-out folds; `folds=None` follows `effort`."""

    head = "blended"
    cross_fits = takes_sparse = leaves_out = True

    def __init__(
        self, *, effort: Literal["quick", "default", "best"] = "default", folds: int | None = None, seed: int = 0
    ) -> None:
        if effort not in FOLDS or (folds is not None and folds < 2):
            raise UserError(
                f"effort is {effort!r} and folds {folds}; blend takes quick, default or best, and 2 folds or more"
            )
        self.effort, self.seed = effort, seed
        self.folds = FOLDS[effort] if folds is None else folds
        self.found: dict[str, Any] = {}

    def solve(self, features: Features, head: nn.Module, listener: Listener) -> Tensor:
        if not isinstance(head, Blended):
            raise UserError("blend fills the head 'blended'; leave head.name and branches.name alone")
        x, positive, observed = gathered(features())
        if len(positive) < 2:
            raise UserError(f"{len(positive)} training items; blend holds some of them out and needs 2 or more")
        products = Products(x)
        counted = counted_entries(products, positive, observed)  # step 1
        task = Task(products, positive, counted, deal(positive, min(self.folds, len(positive)), self.seed))
        judge = Judge(positive, counted)
        learners, left_out = self.learners(task)
        tried: dict[str, Tried] = {}
        means: dict[str, dict[str, float]] = {}
        for at, learner in enumerate(learners):
            each = (1 - LAST) / len(learners)
            part = Part(listener, at * each, (at + 1) * each)
            tried[learner.name], means[learner.name] = along_path(
                learner.held_out, learner.strengths, task.fold, judge, part
            )
        stack = stacked(tried, PLAIN, judge, task.fold)  # steps 2 to 5
        fits = {one.name: one.fitted(tried[one.name].strength) for one in learners if one.name in stack.shares}
        level, scale = units(tried[PLAIN].held_out, positive)
        total = summed(stack, fits, tried, positive)  # step 6
        head.fill(scale[:, None] * total.weight, level + scale * total.bias)
        if total.of_items is not None:
            centre = x.mean(0) if task.products.dense else torch.zeros(task.products.columns)
            head.keep(x, centre, task.length, scale[:, None] * total.of_items)
        if total.trees is not None and total.mixing is not None:
            head.plant(total.trees, scale * total.mixing if total.mixing.ndim == 1 else scale[:, None] * total.mixing)
        if total.units is not None and total.of_units is not None:
            head.connect(total.units.weight, total.units.bias, scale[:, None] * total.of_units)
        self.found = self.described(tried, means, stack, left_out)
        listener.progress(1.0)
        return level + scale * stack.scores

    def learners(self, task: Task) -> tuple[list[Learner], dict[str, str]]:
        """Those that take part, and why others do not."""
        if self.effort == "quick":
            return [Line(task, PLAIN, "logistic", QUICK, balanced=True)], {}
        found: list[Learner] = [
            Line(task, PLAIN, "logistic", LOGISTIC, balanced=True),
            Line(task, "hinge", "hinge", HINGE, balanced=False),
        ]
        left_out = {}
        if reason := too_large(task.products.items, task.products.columns, task.products.filled):
            left_out["kernel"] = reason
        else:
            found.append(Kernel(task))
        if trees := affordable(task.products.items, task.products.columns, task.labels, task.products.filled):
            found.append(Forest(task, trees, self.seed))
        else:
            left_out["forest"] = f"{FEWEST} trees of {task.products.items:,} items would take too long"
        if reason := too_small_or_large(task):
            left_out["network"] = reason
        elif trees and not task.products.dense and task.products.columns > WORDS:
            left_out["network"] = f"beside the forest it adds nothing to sparse rows of more than {WORDS:,} columns"
        else:
            found.append(Network(task, self.seed))
        return found, left_out

    def described(
        self, tried: dict[str, Tried], means: dict[str, dict[str, float]], stack: Stack, left_out: dict[str, str]
    ) -> dict[str, Any]:
        parts = [f"{name} {share:.0%} (strength {tried[name].strength:g})" for name, share in stack.shares.items()]
        alone = [f"{name} {mean(one.precisions):.3f}" for name, one in tried.items()]
        words = (
            f"{' + '.join(parts)}, companions {stack.companions:.2g}: mAP {stack.precision:.3f} on {self.folds} "
            f"held-out folds; alone: {', '.join(alone)}"
        )
        return {
            "summary": words + "".join(f"; no {name}: {reason}" for name, reason in left_out.items()),
            "folds": self.folds,
            "shares": stack.shares,
            "strengths": {name: one.strength for name, one in tried.items()},
            "companions": stack.companions,
            "out_of_fold_mAP": stack.precision,
            "tried": {**means, "companions": stack.tried},
        }

    def vital_signs(self) -> dict[str, float]:
        return {f"share_of_{name}": share for name, share in self.found.get("shares", {}).items()}

    def learned(self) -> dict[str, Any]:
        return self.found


def counted_entries(products: Products, positive: Tensor, observed: Tensor) -> Tensor | None:
    """[N, C] what is observed, and all of a label that has no typical negatives; None if that is everything."""
    counted = observed | without_typical_negatives(products, positive, observed)
    return None if bool(counted.all()) else counted


def units(plain: HeldOut, positive: Tensor) -> tuple[Tensor, Tensor]:
    """[C] level and scale of the final scores: those of logistic regression; 0 for a label without positives."""
    count = positive.sum(0)
    odds = ((count + 0.5) / (len(positive) - count + 0.5)).log()
    level = torch.where(plain.spread > 0, plain.mean, odds)
    scale = torch.where(plain.spread > 0, plain.spread, 1.0)
    return torch.where(count > 0, level, odds), torch.where(count > 0, scale, 0.0)


@dataclass(frozen=True)
class Stack:
    shares: dict[str, float]  # of the learners that take part; their sum is 1
    companions: float  # a
    scores: Tensor  # [N, C] out of fold
    precision: float  # mean average precision of these
    tried: dict[str, float]  # the same for each a


def stacked(tried: Mapping[str, Tried], plain: str, judge: Judge, fold: Tensor) -> Stack:
    """Shares by how close each learner is to the best, then guests and companions.

    `plain` alone if that is better by more than a standard error: its strength was picked among ten, so with few labels
    it is ahead by luck as often as not (docs/log.md).
    """
    shares = shares_of({name: one.precisions for name, one in tried.items() if name not in GUESTS}, judge)
    scores = added(shares, {name: one.held_out.scores for name, one in tried.items()})
    for guest in (name for name in GUESTS if name in tried):
        g, scores = with_guest(scores, tried[guest].held_out.scores, GUESTS[guest], judge)
        shares = {**{name: (1 - g) * share for name, share in shares.items()}, **({guest: g} if g else {})}
    moved = held_out_companions(scores, judge.positive, fold)
    precisions = {a: judge.precisions(scores + a * moved) for a in COMPANIONS}
    means = {f"{a:g}": mean(found) for a, found in precisions.items()}
    a = sum(one * weight for one, weight in shares_of(precisions, judge).items())
    scores = scores + a * moved
    found = judge.precisions(scores)
    below, error = judge.behind(tried[plain].precisions, found)
    if below > error + 1e-12:
        return Stack({plain: 1.0}, 0.0, tried[plain].held_out.scores, mean(tried[plain].precisions), means)
    return Stack(shares, a, scores, mean(found), means)


def with_guest(scores: Tensor, guest: Tensor, shares: Mapping[float, float], judge: Judge) -> tuple[float, Tensor]:
    """The largest share of a guest that is not too far below the scores without it, and the scores with it."""
    without = judge.precisions(scores)
    for g, errors in shares.items():
        mixed = (1 - g) * scores + g * guest
        below, error = judge.behind(without, judge.precisions(mixed))
        if below <= errors * error + 1e-12:
            return g, mixed
    return 0.0, scores


def shares_of(precisions: Mapping[Choice, Tensor], judge: Judge) -> dict[Choice, float]:
    """exp(-t) of each choice, t its distance to the best in standard errors; faint ones are left out."""
    best = max(precisions, key=lambda name: judge.worth(precisions[name]))
    weights = {}
    for name, found in precisions.items():
        below, error = judge.behind(precisions[best], found)
        weights[name] = exp(-below / max(error, SMALLEST_ERROR))
    weights = {name: one for name, one in weights.items() if one >= FAINT * sum(weights.values())}
    return {name: one / sum(weights.values()) for name, one in weights.items()}


def added(shares: Mapping[str, float], scores: Mapping[str, Tensor]) -> Tensor:
    total = torch.zeros_like(next(iter(scores.values())))
    for name, share in shares.items():
        total.add_(scores[name], alpha=share)
    return total


def summed(stack: Stack, fits: Mapping[str, Fitted], tried: Mapping[str, Tried], positive: Tensor) -> Fitted:
    """s + a P s of the scores s = sum share (z - mean) / spread, as one line, kernel, forest and network."""
    weight = torch.zeros_like(next(iter(fits.values())).weight)
    bias = torch.zeros(len(weight))
    of_items: Tensor | None = None
    of_units: Tensor | None = None
    units: Units | None = None
    trees: dict[str, Tensor] | None = None
    mixing: Tensor | None = None
    for name, share in stack.shares.items():
        held, fit = tried[name].held_out, fits[name]
        factor = torch.where(held.spread > 0, share / torch.where(held.spread > 0, held.spread, 1.0), 0.0)  # [C]
        weight += factor[:, None] * fit.weight
        bias += factor * (fit.bias - held.mean)
        if fit.of_items is not None:
            of_items = factor[:, None] * fit.of_items
        if fit.trees is not None:
            trees, mixing = fit.trees, factor
        if fit.of_units is not None:
            units, of_units = fit.units, factor[:, None] * fit.of_units
    if stack.companions:
        companions = Companions(positive)
        weight += stack.companions * companions.of(weight)
        bias += stack.companions * companions.of(bias[:, None])[:, 0]
        of_items = None if of_items is None else of_items + stack.companions * companions.of(of_items)
        of_units = None if of_units is None else of_units + stack.companions * companions.of(of_units)
        if mixing is not None:
            mixing = mixing.diag() + stack.companions * companions.of(mixing.diag())
    return Fitted(weight, bias, of_items, trees, mixing, units, of_units)


class Companions:
    """P of the positives [N, C] bool of some items."""

    def __init__(self, positive: Tensor) -> None:
        from scipy import sparse

        y = sparse.csr_array(positive.numpy().astype(np.float32))
        count = positive.sum(0).double()
        self.shrunk = (count / (count + 1)).float()  # [C]
        self.frequency = (count / max(len(positive), 1)).float()  # pi [C]
        pairs: Any = (sparse.diags_array((1 / (count + 1)).float().numpy()) @ (y.T @ y)).tocsr()
        own = self.shrunk * self.frequency - torch.from_numpy(pairs.diagonal())  # so that P_cc is 0
        self.pairs = sparse.csr_array(pairs + sparse.diags_array(own.numpy()), dtype=np.float32)

    def of(self, rows: Tensor) -> Tensor:
        """P rows [C, K], of anything that has a row for each label."""
        known = torch.from_numpy(self.pairs @ np.ascontiguousarray(rows.numpy()))
        return known - self.shrunk[:, None] * (self.frequency @ rows)


def held_out_companions(scores: Tensor, positive: Tensor, fold: Tensor) -> Tensor:
    """[N, C] sum_j P_cj score_j of each item, with a P that knows nothing of the item's fold."""
    moved = torch.zeros_like(scores)
    for one in fold.unique():
        rows = (fold == one).nonzero().flatten()
        moved[rows] = Companions(positive[fold != one]).of(scores[rows].T).T
    return moved
