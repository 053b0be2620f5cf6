"""Rows of the table: methods for rare labels, and combinations."""

from __future__ import annotations

from math import exp, log, sqrt

from support.method_table import (
    BCE,
    IGNORE,
    Label,
    Same,
    asymmetric,
    bce_or_focal,
    case,
    cross_entropy,
    focal,
    seen,
    sigmoid,
)


def effective(n: float, beta: float) -> float:
    return (1 - beta**n) / (1 - beta)


def class_balanced(at: Label, mode: str = "average_w", beta: float = 0.99) -> float:
    all_weights = [1 / effective(seen(at.batch, c), beta) for c in range(len(at.batch.n))]
    if mode == "by_class":
        return all_weights[at.column]
    if mode == "normalised":
        return all_weights[at.column] / sum(all_weights) * len(all_weights)
    n = [seen(at.batch, c) for c in at.row_positives]
    if mode == "normalised_rows":
        mean = sum(all_weights) / len(all_weights)
        return sum(all_weights[c] / mean for c in at.row_positives) / len(n) if n else 1.0
    if not n:
        return sum(all_weights) / len(all_weights)
    return {
        "average_w": lambda: sum(1 / effective(x, beta) for x in n) / len(n),
        "average_n": lambda: 1 / effective(sum(n) / len(n), beta),
        "min_n": lambda: 1 / effective(min(n), beta),
        "inverse_mean_e": lambda: len(n) / sum(effective(x, beta) for x in n),
    }[mode]()


@case(
    "class_balanced",
    {"mode": "by_class", "beta": 0.9, **IGNORE},
    {"mode": "normalised", "beta": 0.9999, "reduce": "rows"},
    {"mode": "normalised_rows", "beta": 0.999, "reduce": "rows"},
    {"mode": "average_n"},
    {"mode": "min_n", "score": "focal", "gamma": 0.5},
    {"mode": "inverse_mean_e", "score": "focal", "balance": 20.0},
    same=[
        Same({"beta": 0.0, **IGNORE}, BCE),
        Same({"beta": 0.0, "mode": "normalised", "score": "focal"}, "focal", {"balance": 2.0}),
        Same({"beta": 0.0, "mode": "min_n", **IGNORE}, BCE),
        Same({"beta": 0.0, "mode": "inverse_mean_e", **IGNORE}, BCE),
    ],
)
def _(at: Label, mode="average_w", beta=0.99, **score) -> float:
    return class_balanced(at, mode, beta) * bce_or_focal(at.p, at.y, **score)


@case("inverse_frequency", {"normalise": False, **IGNORE}, {"score": "focal"})
def _(at: Label, normalise=True, **score) -> float:
    rarest = min(seen(at.batch, c) for c in range(len(at.batch.n)))
    weight = sqrt(rarest / at.seen) if normalise else sqrt(at.batch.items / at.seen)
    return weight * bce_or_focal(at.p, at.y, **score)


@case(
    "ldam",
    IGNORE,
    {"margin_on": "all", "scale": 3.0},
    {"reweigh_from": 0.7, "beta": 0.9},
    {"form": "softmax", "scale": 30.0, "reduce": "rows"},
    {"form": "softmax", "margin_on": "all", "scale": 2.0, "reweigh_from": 0.0, **IGNORE},
    same=[Same({"max_margin": 0.0, **IGNORE}, BCE), Same({"max_margin": 0.0, "margin_on": "all", **IGNORE}, BCE)],
    epochs=(6, 7),
)
def _(at: Label, form="sigmoid", max_margin=0.5, scale=1.0, margin_on="positives", reweigh_from=None, beta=0.9999):
    labels = range(len(at.batch.n))
    rarest = min(seen(at.batch, c) for c in labels)

    def shaped(c: int) -> float:
        margin = max_margin * (rarest / seen(at.batch, c)) ** 0.25
        return scale * (at.batch.z[at.row][c] - (margin if margin_on == "all" or at.batch.y[at.row][c] else 0))

    deferred = reweigh_from is not None and at.batch.epoch >= round(10 * reweigh_from)
    weight = class_balanced(at, "normalised", beta) if deferred else 1
    s = shaped(at.column)
    if form == "sigmoid":
        return weight * (log(1 + exp(-s)) if at.y else log(1 + exp(s)))
    total = sum(exp(shaped(c) - s) for c in labels if at.batch.y[at.row][c] is not None)
    return weight * log(total) if at.y else 0.0


def rebalancing(at: Label, alpha: float = 0.1, beta: float = 10.0, mu: float = 0.3) -> float:
    if not at.row_positives:
        return alpha + (1.0 if beta else 0.5)
    r = (1 / at.seen) / sum(1 / seen(at.batch, c) for c in at.row_positives)
    return alpha + 1 / (1 + exp(-beta * (r - mu)))


def tolerant(at: Label, scale=5.0, kappa=0.05, shift_over_scale=False, positive_scale=1.0, **score) -> float:
    nu = kappa * log(at.batch.items / at.seen - 1) / (scale if shift_over_scale else 1)
    by = positive_scale if at.y else scale
    p_t = sigmoid((1 if at.y else -1) * by * (at.z - nu))  # of being right: exact also where it is tiny
    return bce_or_focal(p_t, 1, **score) / by


@case(
    "rebalanced",
    IGNORE,
    {"score": "focal", "mu": 0.2, "alpha": 0.3, "beta": 3.0},
    same=[
        Same({"beta": 0.0, **IGNORE}, BCE, scale=0.6),
        Same({"beta": 0.0, "score": "focal"}, "focal", {"balance": 2.0}, scale=0.6),
    ],
)
def _(at: Label, alpha=0.1, beta=10.0, mu=0.3, **score) -> float:
    return rebalancing(at, alpha, beta, mu) * bce_or_focal(at.p, at.y, **score)


@case(
    "negative_tolerant",
    IGNORE,
    {"scale": 2.0, "kappa": 0.5, "shift_over_scale": True},
    {"scale": 2.0, "positive_scale": 3.0},
    same=[Same({"scale": 1.0, "kappa": 0.0, **IGNORE}, BCE)],
)
def _(at: Label, **options) -> float:
    return tolerant(at, **options)


@case(
    "distribution_balanced",
    IGNORE,
    {"score": "focal"},
    {"scale": 2.0, "mu": 0.2, "kappa": 0.5, "shift_over_scale": True},
    {"score": "focal", "positive_scale": 5.0},
    same=[
        Same({"scale": 1.0, "kappa": 0.0}, "rebalanced"),
        Same({"beta": 0.0}, "negative_tolerant", scale=0.6),
        Same({"scale": 1.0, "kappa": 0.0, "beta": 0.0, **IGNORE}, BCE, scale=0.6),
    ],
)
def _(at: Label, alpha=0.1, beta=10.0, mu=0.3, **options) -> float:
    return rebalancing(at, alpha, beta, mu) * tolerant(at, **options)


@case(
    "combined",
    {"base": "assume_negative", "weigh": "rebalanced", "score": "asymmetric"},
    {"base": "hill", "complete": "splc", "weigh": {"name": "class_balanced", "mode": "by_class", "beta": 0.9}},
    {"base": {"name": "focal", "balance": 2.0}, "keep": "ignore_likely", "shape": "distribution_balanced"},
    same=[
        Same({}, BCE),
        Same({"base": "hill", "reduce": "sum"}, "hill", {"reduce": "sum"}),
        Same({"base": "assume_negative", "keep": "ignore_likely"}, "ignore_likely"),
        Same(
            {"base": "rebalanced", "shape": {"name": "negative_tolerant", "scale": 1.0}},
            "distribution_balanced",
            {"scale": 1.0},
        ),
    ],
    epochs=(0, 5),
    unknown=None,
)
def _(at: Label, base=BCE, complete=None, shape=None, keep=None, weigh=None, score=None) -> float | None:
    if base == BCE:
        return cross_entropy(at.p, at.y) if at.observed else None
    if base == "assume_negative":
        return rebalancing(at) * asymmetric(at.p, at.y)
    late, weight = at.batch.epoch >= 1, class_balanced(at, "by_class", 0.9)
    if base == "hill":
        believed = not at.observed and late and at.p > 0.6
        positive = focal(sigmoid(at.z - 1 if at.observed else at.z), 1, 2, 1)
        return weight * (positive if at.y or believed else (1.5 - at.p) * at.p**2)
    if not at.observed and late and at.p > 0.4:
        return None
    return tolerant(at, score="focal") * (1 if at.y else 5)
