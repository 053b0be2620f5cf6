"""Made-up finished runs for tests of the report."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from raretag.core.targets import Targets
from raretag.metrics.calibration import best_f1_thresholds
from raretag.metrics.evaluation import evaluate
from raretag.report.study import Scores, Study

CONFIG: dict[str, Any] = {
    "data": {"name": "made", "hide": "none", "keep": None, "longtail": "none"},
    "method": {"name": "binary_cross_entropy"},
    **{part: {"name": part} for part in ("model", "head")},
    "encoder": {"name": "none"},
    "branches": {"name": "single"},
    "sampler": {"name": "uniform"},
    "train": {"batch_size": 8, "optimizer": "adamw", "learning_rate": 0.001},
    "seed": 0,
}


def make_study(
    p: np.ndarray,
    positive: np.ndarray,
    *,
    observed: np.ndarray | None = None,
    counts: np.ndarray | None = None,
    labels: list[str] | None = None,
    name: str = "run",
    **more: Any,
) -> Study:
    """A study whose record is what evaluating these probabilities gives; thresholds are tuned on the test items."""
    items, number = p.shape
    observed = np.ones_like(positive) if observed is None else observed
    counts = positive.sum(0) if counts is None else counts
    targets = Targets(torch.from_numpy(positive).float(), torch.from_numpy(observed))
    groups = {
        "head": np.flatnonzero(counts >= 100),
        "medium": np.flatnonzero((counts >= 20) & (counts < 100)),
        "tail": np.flatnonzero(counts < 20),
    }
    members = {group: torch.from_numpy(some) for group, some in groups.items()}
    logits = torch.from_numpy(np.log(p) - np.log1p(-p))
    given = {"groups": members, "training_positives": torch.from_numpy(counts)}
    thresholds = best_f1_thresholds(torch.from_numpy(p), targets)
    final = evaluate(logits, targets, **given)
    final["F1_tuned"] = evaluate(logits, targets, thresholds=thresholds, **given)["F1"]
    record = {
        "config": CONFIG,
        "environment": {"raretag": "0", "python": "3"},
        "data": {
            "name": "made",
            "labels": labels or [f"label {number}" for number in range(number)],
            "items": {"train": 1000, "validation": 10, "test": items},
        },
        "groups": {"edges": [20, 100], **{group: some.tolist() for group, some in groups.items()}},
        "method": {"name": "binary_cross_entropy", "slots": {"complete": "ObservedOnly", "reduce": "MeanOverEntries"}},
        "metrics": {"final": final, "epochs": []},
        "thresholds": thresholds.tolist(),
    }
    test = Scores(p, positive & observed, observed)
    return Study(name, f"runs/{name}", record, counts=counts, test=test, **more)


def random_study(items: int = 60, labels: int = 8, seed: int = 0, **more: Any) -> Study:
    random = np.random.default_rng(seed)
    positive = random.random((items, labels)) < 0.3
    positive[0] = True
    p = np.clip(0.4 * positive + 0.6 * random.random((items, labels)), 0.001, 0.999)
    counts = (1000 / (1 + np.arange(labels)) ** 2).astype(np.int64)
    return make_study(p, positive, **{"counts": counts, **more})
