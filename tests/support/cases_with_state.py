"""The rows of the methods that remember something; a formula describes the first loss, before anything was learned."""

from __future__ import annotations

from math import ceil, exp, log
from struct import pack, unpack

from raretag.core import chance
from support.method_table import Batch, Label, Same, case, cross_entropy, sigmoid

BCE = "binary_cross_entropy"


def drawn(*key: int) -> float:
    return float(chance.uniform(*key))


@case(
    "partial_label_masking",
    {"initial": "mean"},
    {"initial": "min", "reduce": "rows"},
    {"initial": "max", "base": "assume_negative", "reduce": "kept"},
    same=[
        Same({"rate": 0.0}, BCE),
        Same({"base": "focal"}, "focal"),
        Same({"base": {"name": "focal", "gamma": 1.0, "reduce": "sum"}}, "focal", {"gamma": 1.0, "reduce": "sum"}),
    ],
    epochs=(0, 4),
    unknown=None,
    exchangeable_labels=False,
)
def _(at: Label, initial="ratio", base=BCE) -> float | None:
    if base == BCE and not at.observed:
        return None
    batch, n = at.batch, at.batch.n
    ratios = {c: n[c] / (batch.items - n[c]) for c in range(len(n)) if 0 < n[c] < batch.items}
    if at.column in ratios:
        r = ratios[at.column]
        every = list(ratios.values())
        r_bar = {"ratio": r, "mean": sum(every) / len(every), "min": min(every), "max": max(every)}[initial]
        keep = r_bar / r if at.y and r > r_bar else r / r_bar if not at.y and r < r_bar else 1.0
        if drawn(0, batch.epoch, batch.index[at.row], at.column) >= keep:
            return None
    return cross_entropy(at.p, at.y)


@case(
    "dynamic_pseudo_labels",
    {"reading": "paper"},
    {"balance": "batch", "total": "observed", "gamma": 0.3},
    {"balance": "batch", "schedule": "zero"},
    {"schedule": "printed", "q": 1.0},
    {"schedule": "linear", "penalty": False},
    {"schedule": "one", "balance": 0.3, "balance_on": "observed"},
    epochs=(0, 7),
    unknown=None,
    whole=True,
    exchangeable_labels=False,
)
def _(
    batch: Batch,
    reading="repaired",
    balance=None,
    balance_on="all",
    total="slots",
    gamma=0.05,
    schedule="exp",
    penalty=True,
    q=0.5,
) -> float:
    rows, labels = batch.shape
    observed = [y for row in batch.y for y in row if y is not None]
    beta = max(sum(observed) / max(1, rows * labels if total == "slots" else len(observed)), gamma)
    balance = balance or {"paper": "batch", "repaired": "equal"}[reading]
    alpha = {"batch": 1 - beta, "equal": 0.5}.get(balance, balance)
    progress = (batch.epoch + 3) / batch.epochs
    d = {"exp": exp(progress - 1), "printed": exp(progress), "linear": progress, "one": 1.0, "zero": 0.0}[schedule]
    loss = 0.0
    for i, row in enumerate(batch.y):
        p = [sigmoid(z) for z in batch.z[i]]
        pseudo = [0.5 if reading == "paper" else unpack("e", pack("e", n / batch.items))[0] for n in batch.n]
        known = [c for c in range(labels) if row[c] is not None]
        picked = [c for c in range(labels) if c not in known and drawn(0, 20, batch.epoch, batch.index[i], c) < q]

        def price(c: int, t: float, a: float, p=p) -> float:
            return -a * t * log(p[c]) - (1 - a) * (1 - t) * log(1 - p[c])

        item = sum(price(c, row[c], alpha) for c in known) / max(1, len(known))
        side = alpha if balance_on == "all" else 0.5
        item += d * sum(price(c, pseudo[c], side) for c in picked) / max(1, len(picked))
        loss += item * (2 if penalty and max(p) <= 0.1 else 1)
    return loss / rows


def too_many(p: list[list[float]], expected: float) -> float:
    return ((sum(map(sum, p)) / len(p) - expected) / len(p[0])) ** 2


@case("expected_positive", {"expected": 1.9}, {"expected": 0.0}, unknown=None, whole=True)
def _(batch: Batch, expected=None) -> float:
    rows, labels = batch.shape
    p = [[sigmoid(z) for z in row] for row in batch.z]
    known = [cross_entropy(p[i][c], y) for i, row in enumerate(batch.y) for c, y in enumerate(row) if y is not None]
    k = sum(batch.n) / batch.items if expected is None else expected
    return sum(known) / (rows * labels) + too_many(p, k)


@case("role", {"expected": 1.9}, unknown=None, whole=True, true_gradient=False, exchangeable_labels=False)
def _(batch: Batch, expected=None) -> float:
    rows, labels = batch.shape
    p = [[sigmoid(z) for z in row] for row in batch.z]
    e = [
        [0.995 * y + 0.005 * (1 - y) if y is not None else guess(batch.index[i], c) for c, y in enumerate(row)]
        for i, row in enumerate(batch.y)
    ]
    loss = 0.0
    for i, row in enumerate(batch.y):
        for c, y in enumerate(row):
            known = 0.0 if y is None else cross_entropy(p[i][c], y) + cross_entropy(e[i][c], y)
            loss += (known + cross_entropy(p[i][c], e[i][c]) + cross_entropy(e[i][c], p[i][c])) / 2
    k = sum(batch.n) / batch.items if expected is None else expected
    return loss / (rows * labels) + (too_many(p, k) + too_many(e, k)) / 2


def guess(item: int, label: int) -> float:
    return sigmoid(log(0.6 / 0.4) * (2 * drawn(0, item, label) - 1))


def multi_focal(at: Label, y: float, gammas=(0.0, 3.0), factors=(0.0, 1.0), margin=0.05, root=1 / 6, z_margin=0.0):
    n = [max(1, n) for n in at.batch.n]
    g = (1 - log(n[at.column] / max(n))) ** root
    if y:
        p = sigmoid(at.z - z_margin)
        return -((1 - p) ** (gammas[0] + factors[0] * g)) * log(p), g
    p_m = max(at.p - margin, 0.0)
    return -(p_m ** (gammas[1] + factors[1] * g)) * log(1 - p_m), g


@case(
    "multi_focal",
    {"unknown": "ignore"},
    {"gamma_pos": 1.0, "gamma_neg": 4.0, "head_tail_pos": 1.0, "margin": 0.0, "detach_focus": False},
    {"head_tail_neg": 0.5, "root": 1 / 3, "class_weight": True},
    {"gamma_neg": 0.0, "head_tail_neg": 0.25, "distribution": "dynamic", "detach_focus": False},
    same=[
        Same({"head_tail_neg": 0.0, "gamma_neg": 4.0}, "asymmetric", {"gamma_neg": 4.0, "detach_focus": True}),
        Same(
            {"head_tail_neg": 0.0, "gamma_pos": 2.0, "gamma_neg": 2.0, "margin": 0.0}, "focal", {"detach_focus": True}
        ),
    ],
    true_gradient=False,
)
def _(
    at: Label,
    gamma_pos=0.0,
    gamma_neg=3.0,
    head_tail_pos=0.0,
    head_tail_neg=1.0,
    margin=0.05,
    root=1 / 6,
    class_weight=False,
    distribution="static",
    detach_focus=True,
) -> float:
    price, g = multi_focal(at, at.y, (gamma_pos, gamma_neg), (head_tail_pos, head_tail_neg), margin, root)
    return price * g if class_weight else price


@case(
    "reflective_correction",
    {"mean_of": "batch", "tau": 0.5},
    {"mean_of": "positives", "cap": 0.1, "tau": 0.5},
    {"scale": "positives", "warm_up": 0.0},
    {"scale": "corrected", "warm_up": 0.0, "tau": 0.5, "cap": None},
    {"base": BCE, "tau": 0.5, "cap": None},
    {"margin": 1.0, "cap": None},
    same=[
        Same({"tau": 1.0}, "multi_focal"),
        Same({"warm_up": 1.0}, "multi_focal"),
        Same({"cap": 0.0, "base": "splc", "warm_up": 1.0}, "splc"),
    ],
    epochs=(0, 4),
    unknown=None,
    true_gradient=False,
)
def _(
    at: Label, tau=0.7, mean_of="all", warm_up=0.1, cap=1.0, scale="none", margin=0.0, base="multi_focal"
) -> float | None:
    batch = at.batch
    rows, labels = batch.shape
    p = [[sigmoid(z) for z in row] for row in batch.z]

    def corrected(column: int) -> list[int]:
        mean = sum(row[column] for row in p) / rows if mean_of == "batch" else 0.0
        missing = [i for i in range(rows) if batch.y[i][column] is None and p[i][column] > max(tau, mean)]
        if batch.epoch < warm_up * batch.epochs or (cap is not None and len(missing) > cap * batch.n[column]):
            return []
        return missing

    added = at.row in corrected(at.column)
    number = sum(len(corrected(c)) for c in range(labels))
    positives = sum(y or 0.0 for row in batch.y for y in row) + number
    factor = {"none": 1.0, "corrected": rows / (number or rows), "positives": rows / max(1.0, positives)}[scale]
    y = 1.0 if added else at.y
    if base == BCE:
        return cross_entropy(at.p, y) if at.observed or added else None
    return factor * multi_focal(at, y, z_margin=margin if at.observed else 0.0)[0]


@case(
    "entropy_maximisation",
    {"alpha": 0.5, "beta": 0.3, "theta": 0.5, "warm_up": 0.0},
    {"pseudo_labels": False},
    same=[Same({"alpha": 0.0}, BCE), Same({"alpha": 0.0, "pseudo_labels": False, "beta": 3.0}, BCE)],
    unknown=None,
)
def _(at: Label, alpha=0.2, beta=0.02, theta=0.9, warm_up=0.5, pseudo_labels=True) -> float:
    if at.observed:
        return cross_entropy(at.p, at.y)
    return -alpha * cross_entropy(at.p, at.p)


@case(
    "large_loss",
    {"delta": 0.1},
    {"scheme": "correct", "delta": 0.07},
    {"scheme": "permanent", "delta": 0.3, "reduce": "sum"},
    {"scheme": "reject", "delta": 0.2, "reduce": "kept"},
    same=[Same({"delta": 0.0}, "assume_negative"), Same({"delta": 0.0, "scheme": "permanent"}, "assume_negative")],
    epochs=(0, 1, 4),
    unknown=None,
)
def _(at: Label, scheme="reject", delta=None) -> float | None:
    rows, labels = at.batch.shape
    delta = {"reject": 0.005, "correct": 0.002, "permanent": 0.001}[scheme] if delta is None else delta
    times = min(1, at.batch.epoch) if scheme == "permanent" else at.batch.epoch
    number = ceil(round(rows * labels * delta * times, 6))
    unknown = [z for i, row in enumerate(at.batch.z) for c, z in enumerate(row) if at.batch.y[i][c] is None]
    large = not at.observed and at.z in sorted(unknown, reverse=True)[:number]
    if large and scheme == "reject":
        return None
    return cross_entropy(at.p, 1.0 if large else at.y)
