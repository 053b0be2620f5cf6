"""Time of the committee against logistic regression with its cross-validation, ours and scikit-learn's.

    RARETAG_DATA=... python benchmarks/recipe_speed.py sets     # the three sets of `raretag bench recipe`
    python benchmarks/recipe_speed.py growth                    # made-up features, 5,000 to 40,000 items

Only the fit is timed: no reading, no evaluation. One thread.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import torch
from sklearn.linear_model import LogisticRegressionCV

from raretag.config.settings import compose
from raretag.core.method import build_method
from raretag.core.registry import build
from raretag.core.targets import LabelStatistics, Targets
from raretag.engine.batches import build_fabric
from raretag.engine.fit import features
from raretag.engine.prepare import prepare
from raretag.solvers.regression import STRENGTHS

SETS = {
    "voc_mlt": ["data.name=voc_mlt", "data.size=160", "encoder.name=efficientnet_lite"],
    "enron": ["data.name=enron"],
    "corel5k": ["data.name=corel5k"],
}


def seconds(name: str, x: torch.Tensor, targets: Targets) -> float:
    """Of the fit alone."""
    statistics = LabelStatistics.of_counts(targets.positive.sum(0).long(), len(x))
    method = build_method(name, statistics, items=len(x))
    head = build("models.heads", method.head, {}, features=x.shape[1], labels=targets.positive.shape[1])
    began = time.perf_counter()
    method.begin_stage(0, torch.nn.ModuleDict({"head": head}), lambda: iter([(x, targets)]))
    return time.perf_counter() - began


def seconds_of_scikit_learn(x: np.ndarray, y: np.ndarray) -> float:
    """One model a label, the strength of each by three folds over the same values."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for label in range(y.shape[1]):
            if 3 <= y[:, label].sum() <= len(y) - 3:
                LogisticRegressionCV(
                    Cs=list(STRENGTHS), cv=3, class_weight="balanced", scoring="average_precision", max_iter=200
                ).fit(x, y[:, label])
    return time.perf_counter() - began


def line(name: str, x: torch.Tensor, targets: Targets, scikit: bool) -> None:
    ours, committee = (seconds(method, x, targets) for method in ("logistic_regression", "committee"))
    theirs = seconds_of_scikit_learn(x.numpy(), targets.positive.numpy()) if scikit else float("nan")
    size = f"{len(x)} x {x.shape[1]} / {targets.positive.shape[1]}"
    print(
        f"{name:10s} {size:20s} L {ours:6.1f} s   scikit-learn {theirs:6.1f} s   committee {committee:6.1f} s", end=""
    )
    print(f", {committee / ours:.1f} x L, {committee / theirs:.1f} x scikit-learn", flush=True)


def sets() -> None:
    for name, changes in SETS.items():
        config = compose(None, [*changes, "method.name=logistic_regression"])
        prepared = prepare(config, build_fabric(config.train))
        blocks, targets = zip(*features(prepared.training), strict=True)
        joined = [torch.cat([getattr(part, field) for part in targets]) for field in ("positive", "observed")]
        line(name, torch.cat(blocks), Targets(*joined), scikit=True)


def growth() -> None:
    for items in (5_000, 10_000, 20_000, 40_000):
        random = np.random.default_rng(0)
        x = random.normal(size=(items, 256)).astype(np.float32)
        score = np.maximum(x @ random.normal(size=(256, 64)), 0) @ random.normal(size=(64, 30))
        rate = np.linspace(0.005, 0.2, 30)
        y = (score > np.quantile(score, 1 - rate, axis=0).diagonal()).astype(np.float32)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        targets = Targets(torch.from_numpy(y), torch.ones(y.shape, dtype=torch.bool))
        line(f"{items:,}", torch.from_numpy(x), targets, scikit=False)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"sets": sets, "growth": growth}[sys.argv[1]]()
