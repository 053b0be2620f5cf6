"""Rows of the table: methods whose model is special. Their loss is shown here for a model with one matrix of logits."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

from support.cases_with_state import multi_focal
from support.method_table import BCE, IGNORE, Batch, Label, Same, case, cross_entropy, sigmoid


@case("ml_gcn", {"reduce": "rows"}, same=[Same(IGNORE, BCE)])
@case("lws", {"reduce": "rows"}, same=[Same(IGNORE, BCE)])
@case("logit_shift", {"reduce": "rows"}, {"strength": 0.5}, same=[Same(IGNORE, BCE)])
@case("oltr", {"weight": 1.0, "repel_weight": 1.0}, same=[Same(IGNORE, BCE)])
def _(at: Label, weight=0.01, repel_weight=0.01, strength=1.0) -> float:
    return cross_entropy(at.p, at.y)


@case(
    "comic",
    {"correction": False},
    {"balance": False, "distribution": "static", "tau": 0.5, "cap": None},
    {"modification": False, "lambda_h": 2.0, "lambda_m": 0.5, "lambda_c": 1.0},
    {"positive_negative": False, "product": "logits"},
    {"head_tail": False, "power": 1.0, "predict": "mean"},
    same=[
        Same({"correction": False, "balance": False}, "multi_focal"),
        Same(
            {"correction": False, "balance": False, "lambda_m": 3.0, "modification": False}, "assume_negative", {}, 3.0
        ),
        Same({"balance": False, "base": "hill", "tau": 1.0}, "hill", scale=1.2),
        Same({"lambda_m": 0.0, "lambda_h": 0.0, "lambda_c": 1.0, "distribution": "static"}, "reflective_correction"),
    ],
    epochs=(0, 4),
    unknown=None,
    whole=True,
    true_gradient=False,
)
def _(
    batch: Batch,
    correction=True,
    modification=True,
    balance=True,
    positive_negative=True,
    head_tail=True,
    distribution="dynamic",
    lambda_c=0.2,
    lambda_m=1.0,
    lambda_h=0.5,
    tau=0.7,
    cap=1.0,
    product="probabilities",
    power=2.0,
    predict="balanced",
) -> float:
    rows, labels = batch.shape
    y = [[value or 0.0 for value in row] for row in batch.y]

    def price(at: Batch, y: list[list[float]]) -> float:
        total = 0.0
        for i in range(rows):
            for c in range(labels):
                label = Label(at.z[i][c], y[i][c], True, i, c, at)
                gammas = (0.0, 3.0 if positive_negative else 0.0)
                focal = multi_focal(label, y[i][c], gammas, (0.0, float(head_tail)))[0]
                total += focal if modification else cross_entropy(label.p, y[i][c])
        return total / (rows * labels)

    loss = lambda_m * price(batch, y)
    if correction:
        corrected, counts = [row[:] for row in y], batch.n[:]
        for c in range(labels):
            missing = [i for i in range(rows) if batch.y[i][c] is None and sigmoid(batch.z[i][c]) > tau]
            if batch.epoch >= 0.1 * batch.epochs and (cap is None or len(missing) <= cap * batch.n[c]):
                counts[c] += len(missing)
                for i in missing:
                    corrected[i][c] = 1.0
        loss += lambda_c * price(replace(batch, n=counts) if distribution == "dynamic" else batch, corrected)
    if balance:
        softmax = [[exp(z - max(row)) / sum(exp(x - max(row)) for x in row) for z in row] for row in batch.z]
        within = [[min(max(p, 1e-8), 1 - 1e-6) for p in row] for row in softmax]
        logits = softmax if product == "logits" else [[log(p / (1 - p)) for p in row] for row in within]
        loss += lambda_h * price(replace(batch, z=logits), y)
    return loss
