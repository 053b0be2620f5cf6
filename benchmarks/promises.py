"""Promises about suggestions, judged by positives that were hidden on purpose: coverage and width of 90 % intervals.

    python benchmarks/promises.py --seeds 30 31 --cache runs/promises

Ten data sets ($RARETAG_DATA), up to 3,000 items each; 40, 60 or 80 % of the positives stay marked, the rest counts as
absent, as in a column of tags. Logistic regression scores all items out of fold (3 folds). For each trial: the
estimated share of marked positives, and the promised precision of the first 50 to 500 suggestions, against the truth.
The constants of the estimate (metrics/label_frequency.py, empty_items.py) were chosen on seeds 10 and 11 of eight sets;
all other trials are "held out".
Result: benchmarks/results/promises.json. Can be stopped and continued: scores are kept in the cache, and trials in the
result (`--keep-trials` adds to those that are there).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from raretag.config.settings import Config, compose
from raretag.core import chance
from raretag.core.targets import Targets
from raretag.data.dataset import DataSet, Items
from raretag.data.sources import load
from raretag.engine.out_of_fold import out_of_fold
from raretag.suggestions.probabilities import estimate_probabilities
from raretag.suggestions.selection import pick

RESULT = Path(__file__).parent / "results" / "promises.json"
SETS = {
    "yeast": ("yeast", []),
    "slashdot": ("slashdot", []),
    "enron": ("enron", []),
    "voc": ("plt_voc", ["data.features=mobilenetv2", "data.missing=0"]),
    "langlog": ("langlog", []),
    "goemotions": ("goemotions", ["data.words=2000"]),
    "corel5k": ("corel5k", []),
    "bibtex": ("bibtex", []),
    "tmc": ("tmc2007", []),
    "arxiv": ("arxiv", []),
}
CHOSEN_ON = ("yeast", "slashdot", "enron", "voc", "langlog", "goemotions", "corel5k", "arxiv"), (10, 11)  # sets, seeds
ITEMS = 3000
SIZES = (50, 100, 200, 500)


def read(name: str, keep: float, seed: int, aside: float = 0.0) -> tuple[Config, DataSet]:
    """Settings and data; `aside`: a share of the training items, with all their labels, instead of the test items."""
    source, changes = SETS[name]
    settings = [*changes, "method.name=logistic_regression", "data.hide=ppl", f"data.keep={keep}"]
    config = compose(None, settings, source, seed=seed)
    data = load(config.data, seed)
    assert data.truth is not None
    rows = chance.permutation(len(data.train), 1, seed)
    away = min(int(aside * len(rows)), ITEMS)
    if away:
        test = Items(data.train.take(rows[:away]).inputs, data.truth.take(rows[:away]))
        data = replace(data, test=test)
    if len(rows) > min(ITEMS, len(rows) - away):
        rows = rows[away : away + ITEMS].sort().values
        data = replace(data, train=data.train.take(rows), truth=data.truth.take(rows), published=None)
    return config, data


def scored(name: str, keep: float, seed: int, cache: Path, aside: float = 0.0) -> dict[str, Any]:
    """Out-of-fold logits [N, C], the marks, and the truth."""
    file = cache / f"{name}-{keep}-{seed}{f'-{aside}' if aside else ''}.npz"
    if not file.exists():
        config, data = read(name, keep, seed, aside)
        z = out_of_fold(config, data, cache / "folds", folds=3).numpy()
        marked = (data.train.labels.targets().positive > 0.5).numpy()
        cache.mkdir(parents=True, exist_ok=True)
        truth = (data.truth.targets().positive > 0.5).numpy()  # type: ignore[union-attr]
        np.savez_compressed(file, z=z.astype(np.float32), truth=truth, marked=marked)
    return dict(np.load(file))


def judged(z: np.ndarray, marked: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    targets = Targets(torch.from_numpy(marked).float(), torch.ones(marked.shape, dtype=torch.bool))
    entries = estimate_probabilities(z.astype(np.float64), targets)
    middle, low, high = entries.frequency.interval()
    share = float(marked.sum() / truth.sum())
    found: dict[str, Any] = {"share": [share, middle, low, high]}
    for size in SIZES:
        picked = pick(entries.t, entries.candidates, size, 0.0)
        shape = entries.t.shape
        promise = entries.promise(picked.mask(shape), picked.mask(shape, only_by_rank=True))
        found[str(size)] = [float(truth[picked.row, picked.label].mean()), promise.expected, promise.low, promise.high]
    return found


def summary(trials: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    result = {}
    for what in ("share", *map(str, SIZES)):
        rows = np.array([trial[what] for trial in trials.values()])
        slack = 0.01 if what == "share" else 0.0  # half a step of the grid
        inside = (rows[:, 0] >= rows[:, 2] - slack) & (rows[:, 0] <= rows[:, 3] + slack)
        result[what] = {
            "covered": round(float(inside.mean()), 3),
            "width": round(float((rows[:, 3] - rows[:, 2]).mean()), 3),
            "mean error": round(float(np.abs(rows[:, 1] - rows[:, 0]).mean()), 3),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=Path, default=Path("runs/promises"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--keep", type=float, nargs="+", default=[0.4, 0.6, 0.8])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--cached", action="store_true", help="only what the cache has")
    parser.add_argument("--keep-trials", action="store_true", help="beside the trials that the result has")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    trials = json.loads(RESULT.read_text())["each"] if arguments.keep_trials and RESULT.exists() else {}
    for seed in arguments.seeds:
        for keep in arguments.keep:
            for name in arguments.sets:
                if arguments.cached and not (arguments.cache / f"{name}-{keep}-{seed}.npz").exists():
                    continue
                trials[f"{name}, {keep}, {seed}"] = judged(**scored(name, keep, seed, arguments.cache))
    found = {"trials": len(trials), "all": summary(trials)}
    sets, seeds = CHOSEN_ON
    held = {
        key: one
        for key, one in trials.items()
        if key.split(", ")[0] not in sets or int(key.split(", ")[2]) not in seeds
    }
    found["held out"] = {"trials": len(held), **summary(held)} if held else {}
    for name in SETS:
        some = {key: one for key, one in trials.items() if key.startswith(f"{name},")}
        found[name] = {"trials": len(some), **summary(some)} if some else {}
    RESULT.write_text(json.dumps({**found, "each": trials}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
