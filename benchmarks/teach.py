"""What answers teach: mAP on untouched test items after 100, 300 and 1,000 answers, for several orders of asking.

    python benchmarks/teach.py --seeds 0 --cache runs/promises

Every number is kept in the result as soon as it is there, so a run can be stopped; `--again gain` measures one anew.

60 % of the training positives are hidden; a simulated person answers with the truth, in the order by expected gain
(`teaching_order`), by probability, by cleanlab's self-confidence (left out if it is not installed) or at random; then
the model (logistic regression) is trained again. Needs $RARETAG_DATA. Scores out of fold are those of promises.py.
Result: benchmarks/results/teach.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import promises
from raretag.config.settings import compose
from raretag.core import chance
from raretag.core.listener import SILENT
from raretag.core.targets import Targets
from raretag.data.dataset import DataSet, Items
from raretag.data.sources import group_counts, load
from raretag.engine.run import run
from raretag.labels.corrections import State, changed
from raretag.labels.counts import groups
from raretag.suggestions.probabilities import estimate_probabilities
from raretag.suggestions.selection import pick
from raretag.suggestions.teaching import teaching_order

RESULT = Path(__file__).parent / "results" / "teach.json"
KEEP = 0.4
COUNTS = (100, 300, 1000)
POOL = 4000  # suggestions that the order by gain chooses from


def read(name: str, seed: int) -> tuple[Any, DataSet]:
    """As promises.py reads it."""
    source, changes = promises.SETS[name]
    settings = [*changes, "method.name=logistic_regression", "data.hide=ppl", f"data.keep={KEEP}"]
    config = compose(None, settings, source, seed=seed)
    data = load(config.data, seed)
    if len(data.train) > promises.ITEMS:
        rows = chance.permutation(len(data.train), 1, seed)[: promises.ITEMS].sort().values
        assert data.truth is not None
        data = replace(data, train=data.train.take(rows), truth=data.truth.take(rows), published=None)
    return config, data


def orders(z: np.ndarray, marked: np.ndarray, seed: int) -> dict[str, list[tuple[int, int]]]:
    targets = Targets(torch.from_numpy(marked).float(), torch.ones(marked.shape, dtype=torch.bool))
    entries = estimate_probabilities(z, targets)
    pool = pick(entries.t, entries.candidates, POOL, 0.5)
    p = entries.probability(entries.t[pool.row, pool.label])
    taught = teaching_order(p, pool.label, marked.sum(axis=0), z[pool.row])
    sure = pick(entries.t, entries.candidates, max(COUNTS), 0.0)
    free = np.argwhere(entries.candidates)
    drawn = free[np.random.default_rng(seed).permutation(len(free))[: max(COUNTS)]]
    found = {
        "gain": list(zip(pool.row[taught].tolist(), pool.label[taught].tolist(), strict=True)),
        "probability": list(zip(sure.row.tolist(), sure.label.tolist(), strict=True)),
        "random": [(int(row), int(label)) for row, label in drawn],
    }
    return {**found, **cleanlab_order(z, marked)}


def cleanlab_order(z: np.ndarray, marked: np.ndarray) -> dict[str, list[tuple[int, int]]]:
    """Labels that cleanlab doubts, of each label by its self-confidence; only those that are not marked."""
    try:
        from cleanlab.rank import get_self_confidence_for_each_label
    except ImportError:
        return {}
    p = 1 / (1 + np.exp(-z))
    quality = np.ones_like(p)
    for label in np.flatnonzero(marked.any(axis=0)):
        both = np.stack([1 - p[:, label], p[:, label]], axis=1)
        quality[:, label] = get_self_confidence_for_each_label(marked[:, label].astype(int), both)
    quality[marked] = np.inf
    order = np.argsort(quality, axis=None, kind="stable")[: max(COUNTS)]
    return {"cleanlab": [(int(at // p.shape[1]), int(at % p.shape[1])) for at in order]}


def measured(config: Any, data: DataSet, answers: Mapping[tuple[int, int], State]) -> dict[str, float | None]:
    store = changed(data.train.labels, answers) if answers else data.train.labels
    members = groups(group_counts(data), config.group_edges)
    part = replace(data, train=Items(data.train.inputs, store), published=group_counts(data))
    final = run(config, None, data=part, listener=SILENT).record.metrics.final
    return {name: final.mAP.of(name) for name in ("total", *(name for name in members if len(members[name])))}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=Path, default=Path("runs/promises"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--sets", nargs="+", default=["voc", "goemotions", "corel5k", "arxiv"])
    parser.add_argument("--again", nargs="+", default=[], help="orders that are measured although they have been")
    parser.add_argument("--only", nargs="+", help="orders")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for seed in arguments.seeds:
        for name in arguments.sets:
            scored = promises.scored(name, KEEP, seed, arguments.cache)
            config, data = read(name, seed)
            truth = scored["truth"]
            result: dict[str, Any] = found.setdefault(f"{name}, {seed}", {})
            result["before"] = result.get("before") or measured(config, data, {})
            for order, asked in orders(scored["z"].astype(np.float64), scored["marked"], seed).items():
                for count in arguments.counts:
                    known = f"{order}, {count}" in result and order not in arguments.again
                    if known or (arguments.only and order not in arguments.only):
                        continue
                    some: dict[tuple[int, int], State] = {
                        at: "positive" if truth[at] else "negative" for at in asked[:count]
                    }
                    right = float(np.mean([truth[at] for at in some]))
                    result[f"{order}, {count}"] = {**measured(config, data, some), "right": right}
                    print(name, seed, order, count, result[f"{order}, {count}"], result["before"], flush=True)
                    RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
