"""Numbers on a partly labelled test set, judged by the full one: labels of a full test set are hidden many times.

    python benchmarks/partial_test.py

How often the interval of the estimate covers the value on all labels, how far the estimate and the number on observed
entries alone are off, and how wide the bounds are. Needs $RARETAG_DATA (MULAN's yeast, VOC features).
Result: benchmarks/results/partial_test.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from raretag.config.settings import compose
from raretag.core.targets import Targets
from raretag.engine.batches import build_fabric, logits_of
from raretag.engine.out_of_fold import fit_quietly
from raretag.engine.prepare import prepare
from raretag.metrics.partial_labels import METRICS, partial_truth

RESULT = Path(__file__).parent / "results" / "partial_test.json"
FEATURES = ["train.recipe=features", "train.epochs=12"]
DATA = {"yeast": FEATURES, "plt_voc": [*FEATURES, "data.features=mobilenetv2", "data.missing=0"]}
SETTINGS: dict[str, tuple[float, float, float | None]] = {  # positives and negatives observed, share told
    "both states, 30 %": (0.3, 0.3, None),
    "60 % of the positives, no negative, told": (0.6, 0.0, 0.6),
    "60 % of the positives, 10 % of the negatives, told": (0.6, 0.1, 0.6),
    "60 % of the positives, 10 % of the negatives, not told": (0.6, 0.1, None),
}


def scores(name: str, changes: list[str]) -> tuple[torch.Tensor, Targets]:
    config = compose(None, changes, name)
    prepared = prepare(config, build_fabric(config.train))
    fit_quietly(prepared, lambda epoch: None)
    training, test = prepared.training, prepared.data.test
    z = logits_of(training.best, training.method, test, batch_size=256, rank=0, workers=0, place=training.place)
    return z, test.labels.targets()


def judged(z: torch.Tensor, full: Targets, setting: str, repeats: int, draws: int) -> dict[str, Any]:
    positives, negatives, kept = SETTINGS[setting]
    found: dict[str, dict[str, list[float]]] = {name: {} for name in METRICS}
    for seed in range(repeats):
        chance = np.random.default_rng(seed).random(full.value.shape)
        observed = torch.tensor(chance < np.where(full.value == 1, positives, negatives))
        some = (observed & (full.value == 1)).any(0)  # truth of the labels that can be evaluated at all
        truth = partial_truth(z[:, some], Targets(full.value[:, some], full.observed[:, some]), draws=2)
        numbers = partial_truth(
            z[:, some], Targets(full.value[:, some], observed[:, some]), kept=kept, draws=draws, seed=seed
        )
        for name in METRICS:
            value, one = truth[name]["observed"], numbers[name]
            row = {
                "truth": value, "off, observed": one["observed"] - value,
                "in bounds": float(one["bounds"][0] - 1e-9 <= value <= one["bounds"][1] + 1e-9),
                "width of bounds": one["bounds"][1] - one["bounds"][0],
            }  # fmt: skip
            if one["estimate"] is not None:
                low, high = one["interval"]
                row |= {"off, estimate": one["estimate"] - value, "covered": float(low <= value <= high),
                        "width": high - low}  # fmt: skip
            for key, number in row.items():
                found[name].setdefault(key, []).append(number)
    return {name: {key: float(np.mean(some)) for key, some in rows.items()} for name, rows in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--draws", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {"repeats": arguments.repeats}
    for name, changes in DATA.items():
        z, full = scores(name, changes)
        assert full.observed.all()
        for setting in SETTINGS:
            found[f"{name}: {setting}"] = judged(z, full, setting, arguments.repeats, arguments.draws)
            RESULT.write_text(json.dumps(found, indent=1) + "\n")
            print(name, setting, {m: round(r.get("covered", -1), 2) for m, r in found[f"{name}: {setting}"].items()},
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
