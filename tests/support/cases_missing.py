"""Rows of the table: the plain losses, and methods for missing labels that remember nothing."""

from __future__ import annotations

from math import exp, log

from support.method_table import BCE, IGNORE, Batch, Label, Same, asymmetric, case, cross_entropy, focal, sigmoid


@case(BCE, {"unknown": "negative"}, {"reduce": "rows"}, {"reduce": "sum"}, {"reduce": "kept"}, unknown="ignore")
def _(at: Label) -> float:
    return cross_entropy(at.p, at.y)


@case("assume_negative", same=[Same({}, BCE, {"unknown": "negative"})], unknown=None)
def _(at: Label) -> float:
    return cross_entropy(at.p, at.y)


@case("weak_negative", {"negative_weight": 0.5}, same=[Same({"negative_weight": 1.0}, "assume_negative")], unknown=None)
def _(at: Label, negative_weight=None) -> float:
    labels = len(at.batch.n)
    weight = negative_weight or 1 / max(labels - 1, 1)
    return -log(at.p) if at.y else -weight * log(1 - at.p)


@case("label_smoothing", IGNORE, {"smoothing": 0.3}, same=[Same({"smoothing": 0.0, **IGNORE}, BCE)])
def _(at: Label, smoothing=0.1) -> float:
    return cross_entropy(at.p, 1 - smoothing if at.y else smoothing)


@case(
    "focal",
    IGNORE,
    {"gamma": 0.5, "balance": 2.0},
    {"alpha": 0.25},
    {"detach_focus": True},
    same=[Same({"gamma": 0.0, **IGNORE}, BCE), Same({"gamma": 0.0, "alpha": 0.5, **IGNORE}, BCE, scale=0.5)],
)
def _(at: Label, gamma=2.0, balance=1.0, alpha=None, detach_focus=False) -> float:
    side = 1.0 if alpha is None else alpha if at.y else 1 - alpha
    return side * focal(at.p, at.y, gamma, balance)


@case(
    "asymmetric",
    IGNORE,
    {"gamma_pos": 1.0, "detach_focus": True},
    {"gamma_neg": 0.5, "margin": 0.5},  # p = margin exactly at z = 0
    {"gamma_neg": 0.0, "margin": 1e-9},
    {"gamma_pos": 0.3, "gamma_neg": 0.7, "margin": 0.0, "reduce": "sum"},
    same=[
        Same({"gamma_neg": 0.0, "margin": 0.0, **IGNORE}, BCE),
        Same({"gamma_pos": 2.0, "gamma_neg": 2.0, "margin": 0.0}, "focal"),
    ],
)
def _(at: Label, detach_focus=False, **options) -> float:
    return asymmetric(at.p, at.y, **options)


@case("hill", IGNORE, {"peak": 2.0, "margin": 0.0, "gamma": 0.5})
def _(at: Label, peak=1.5, margin=1.0, gamma=2.0) -> float:
    return focal(sigmoid(at.z - margin), 1, gamma, 1) if at.y else (peak - at.p) * at.p**2


@case(
    "splc",
    {"tau": 0.5, "margin": 0.5, "gamma": 0.5, "start_epoch": 2},
    same=[Same({"margin": 0.0, "start_epoch": 11}, "focal")],
    epochs=(0, 1, 5),
    unknown=None,
)
def _(at: Label, tau=0.6, start_epoch=1, margin=1.0, gamma=2.0) -> float:
    if at.observed:
        return focal(sigmoid(at.z - margin) if at.y else at.p, at.y, gamma, 1)
    return focal(at.p, at.batch.epoch >= start_epoch and at.p > tau, gamma, 1)


@case(
    "pseudo_label",
    {"tau": 0.8, "start_epoch": 3, **IGNORE},
    same=[Same({"start_epoch": 11}, "assume_negative"), Same({"start_epoch": 11, **IGNORE}, BCE)],
    epochs=(0, 1, 5),
    unknown=None,
)
def _(at: Label, tau=0.6, start_epoch=1, unknown="negative") -> float | None:
    if at.observed:
        return cross_entropy(at.p, at.y)
    if at.batch.epoch < start_epoch:
        return cross_entropy(at.p, 0) if unknown == "negative" else None
    return cross_entropy(at.p, at.p > tau)


@case(
    "ignore_likely",
    {"tau": 0.7, "warm_up": 0.0, "reduce": "kept"},
    {"warm_up": 0.7},
    same=[Same({"tau": 1.0}, "assume_negative"), Same({"warm_up": 1.0}, "assume_negative")],
    epochs=(0, 1, 7),
    unknown=None,
)
def _(at: Label, tau=0.4, warm_up=0.1) -> float | None:
    believed = at.p > tau and at.batch.epoch >= round(warm_up * 10)
    return cross_entropy(at.p, at.y) if at.observed or not believed else None


@case(
    "partial_asymmetric",
    {"likely": 1, "prior": [0.6, 0.1, 0.5, 0.51, 0.0]},
    {"likely": 0, "gamma_pos": 0.3, "gamma_neg": 1.7, "gamma_unknown": 0.7, "margin": 0.1},
    {"mode": "ignore", "detach_focus": True},
    {"mode": "ignore_normalize"},
    {"mode": "negative", "reduce": "kept"},
    {"likely": 1, "reduce": "kept"},
    same=[
        Same({"mode": "ignore"}, "asymmetric", {"gamma_neg": 1.0, "margin": 0.0, **IGNORE}),
        Same({"mode": "negative", "gamma_unknown": 1.0}, "asymmetric", {"gamma_neg": 1.0, "margin": 0.0}),
        Same({"likely": 0, "gamma_unknown": 1.0}, "asymmetric", {"gamma_neg": 1.0, "margin": 0.0}),
    ],
    unknown=None,
)
def _(
    at: Label,
    mode="selective",
    gamma_pos=0.0,
    gamma_neg=1.0,
    gamma_unknown=4.0,
    margin=0.0,
    likely=5,
    prior=None,
    prior_threshold=0.5,
    detach_focus=False,
) -> float | None:
    pairs = [(z, y) for rows in zip(at.batch.z, at.batch.y, strict=True) for z, y in zip(*rows, strict=True)]
    most_likely = sorted((z for z, y in pairs if y is None), reverse=True)[: likely * len(at.batch.z)]
    if not at.observed and mode != "negative":
        frequent = prior is not None and prior[at.column] > prior_threshold
        if mode != "selective" or frequent or at.z in most_likely:
            return None
    row = 1 + 1 / (1 + sum(y is not None for y in at.batch.y[at.row])) if mode == "ignore_normalize" else 1
    return row * asymmetric(at.p, at.y, gamma_pos, gamma_neg if at.observed else gamma_unknown, margin)


@case("decoupled_softmax", IGNORE, {"average_positives": False}, {"reduce": "entries"}, reduce="rows")
def _(at: Label, average_positives=True) -> float:
    y, z = at.batch.y[at.row], at.batch.z[at.row]
    against = sum(exp(z[c]) for c in range(len(z)) if y[c] == 0.0)
    if not at.y:
        return 0.0
    return -log(exp(at.z) / (exp(at.z) + against)) / (len(at.row_positives) if average_positives else 1)


@case("two_way", IGNORE, {"temperature": 1.0, "negative_temperature": 0.5}, whole=True)
def _(batch: Batch, temperature=4.0, negative_temperature=1.0) -> float:
    def price(pairs: list[tuple[float, float | None]]) -> float | None:
        low = sum(exp(-z / temperature) for z, y in pairs if y == 1.0)
        high = sum(exp(z / negative_temperature) for z, y in pairs if y == 0.0)
        return log(1 + high**negative_temperature * low**temperature) if low else None

    rows = [price(list(zip(*row, strict=True))) for row in zip(batch.z, batch.y, strict=True)]
    columns = [price([(z[c], y[c]) for z, y in zip(batch.z, batch.y, strict=True)]) for c in range(batch.shape[1])]
    found = [[one for one in way if one is not None] for way in (rows, columns)]
    return sum(sum(way) / max(1, len(way)) for way in found)
