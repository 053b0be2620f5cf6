"""Positives that are missing not at random: what is lost, and what an estimated share of marked positives wins back.

    RARETAG_DATA=... python benchmarks/propensities.py OUT.jsonl [--only SET SEED] [--kinds labels items uniform]
    python benchmarks/propensities.py OUT.jsonl --table

Training positives are hidden, all else is unknown. `labels`: a positive stays with a probability from 0.2 for the
rarest label to 0.8 for the most frequent one, evenly over the labels in that order. `items`: half of the items, drawn
by the seed, were marked carefully (0.9), the others hastily (0.25). `uniform`: 0.5 everywhere. Each cell is fitted with
`data.marking` as assumed, alike and by_label (blend; the first fit serves all three), and measured on the test part.
Promises are those of 500 suggestions, judged by what was hidden. What is in OUT is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from raretag.bench.results import interval
from raretag.config.settings import compose
from raretag.core.listener import SILENT
from raretag.core.targets import Targets
from raretag.data.dataset import DataSet
from raretag.data.sources import load
from raretag.engine.batches import build_fabric
from raretag.engine.marking import solve_again
from raretag.engine.prepare import prepare
from raretag.engine.run import solve
from raretag.labels.store import LabelStore
from raretag.metrics import decisions
from raretag.metrics.decision_cuts import MARKED, tune_out_of_fold
from raretag.metrics.marked_shares import marked_shares
from raretag.metrics.precision_curve import average_precision
from raretag.suggestions.probabilities import estimate_probabilities
from raretag.suggestions.selection import pick

QUICK = ["effort=quick"]
SETS = {
    "VOC-MLT": ("voc_mlt", ["data.features=mobilenetv2"]),
    "Enron": ("enron", []),
    "GoEmotions, 5,000": ("goemotions", ["data.texts=5000", "data.representation=tfidf", *QUICK]),
    "Corel5k": ("corel5k", QUICK),
}
MARKINGS = ("assumed", "alike", "by_label")
KINDS = ("labels", "items", "uniform")
LISTED = 500


def propensities(kind: str, truth: np.ndarray, seed: int) -> np.ndarray:
    """P(marked | positive) [N, C]."""
    generator = np.random.default_rng([seed, 1])
    if kind == "labels":
        place = np.argsort(np.lexsort((generator.random(truth.shape[1]), truth.sum(0))))
        return np.broadcast_to(0.2 + 0.6 * place / max(truth.shape[1] - 1, 1), truth.shape)
    if kind == "items":
        return np.broadcast_to(np.where(generator.random(len(truth)) < 0.5, 0.9, 0.25)[:, None], truth.shape)
    return np.full(truth.shape, 0.5)


def hidden(data: DataSet, kind: str, seed: int) -> tuple[DataSet, np.ndarray, np.ndarray]:
    """The data with fewer positives and no negative; the true positives, and their propensities."""
    truth = (data.train.labels.targets().positive > 0.5).numpy()
    chances = propensities(kind, truth, seed)
    stays = truth & (np.random.default_rng([seed, 2]).random(truth.shape) < chances)
    old = data.train.labels
    new = LabelStore.from_dense(np.where(stays, 1.0, np.nan), old.names, old.given_ids)
    return replace(data, train=replace(data.train, labels=new), published=None), truth, chances


def rows_of(title: str, kind: str, seed: int) -> list[dict[str, Any]]:
    name, settings = SETS[title]
    config = compose(None, [*settings, "method.name=blend", "data.all_teach=true"], name, seed=seed)
    data, truth, chances = hidden(load(config.data, seed), kind, seed)
    if data.validation is not data.train:
        data = replace(data, validation=data.train)
    prepared = prepare(config, build_fabric(config.train), data=data)
    assert prepared.solver is not None
    first = solve(prepared, prepared.solver, SILENT)
    assert first is not None
    marked, tested = data.train.labels.targets(), data.test.labels.targets()
    true_share = (truth & (marked.positive > 0.5).numpy()).sum() / truth.sum()
    rows = []
    for marking in MARKINGS:
        by_label = marking == "by_label"
        prepared.out_of_fold = first
        prepared.config = config.model_copy(update={"data": config.data.model_copy(update={"marking": marking})})
        if marking != "assumed":
            solve_again(prepared, prepared.solver, SILENT)
        scores = prepared.logits(data.test)
        found = None if marking == "assumed" else marked_shares(prepared.out_of_fold, marked, by_label=by_label)
        shares = np.full(truth.shape[1], MARKED) if found is None else found.shares()
        e = MARKED if found is None else torch.from_numpy(shares)
        tuned = tune_out_of_fold(prepared.out_of_fold, marked, prepared.groups, seed=seed, marked=e).tuned
        counts = decisions.DecisionCounts.of(tuned.calibrated(scores).sigmoid() > tuned.thresholds, tested)
        some = marked.positive.any(0).numpy()
        rows.append(
            {
                "cell": f"{title}, {kind}",
                "seed": seed,
                "marking": marking,
                "ap": [None if ap != ap else ap for ap in average_precision(scores, tested).tolist()],
                "macro": decisions.macro_f1(counts),
                "micro": decisions.micro_f1(counts),
                "error": float(np.abs(shares - chances.mean(0))[some].mean()),
                "left_out": prepared.data.notes.get("marking", {}).get("left_out", 0),
                "promises": {} if marking == "assumed" else promises(first, marked, truth, by_label),
                "share": float(true_share),
            }
        )
    return rows


def promises(z: torch.Tensor, marked: Targets, truth: np.ndarray, by_label: bool) -> dict[str, list[float]]:
    """What came true of a list, what was expected, and the ends of the interval; by the share that is dealt evenly."""
    entries = estimate_probabilities(z.double().numpy(), marked, by_label=by_label)
    found = {}
    for quota in (0.0, 0.3):
        picked = pick(entries.t, entries.candidates, LISTED, quota)
        shape = entries.t.shape
        promise = entries.promise(picked.mask(shape), picked.mask(shape, only_by_rank=True))
        right = float(truth[picked.row, picked.label].mean())
        found[f"{quota:g}"] = [right, promise.expected, promise.low, promise.high]
    return found


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| data, hidden by | marking | mAP | - assumed, over labels | macro F1 | micro F1 | error of the share |",
        "|---|---|---|---|---|---|---|",
    ]
    listed = [
        "| data, hidden by | marking | came true | promised | inside | with quota: came true | promised | inside |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in dict.fromkeys(row["cell"] for row in rows):
        plain = {row["seed"]: row for row in rows if row["cell"] == cell and row["marking"] == "assumed"}
        for marking in MARKINGS:
            some = [row for row in rows if row["cell"] == cell and row["marking"] == marking]
            gain = [np.array(row["ap"], float) - np.array(plain[row["seed"]]["ap"], float) for row in some]
            middle, low, high = interval(np.nanmean(np.stack(gain)[:, ~np.isnan(gain[0])], axis=0))
            shown = "" if marking == "assumed" else f"{100 * middle:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
            means = [np.mean([np.nanmean(np.array(row["ap"], float)) for row in some])]
            means += [np.mean([row[key] for row in some]) for key in ("macro", "micro")]
            numbers = [f"{100 * one:.1f}" for one in means]
            error = np.mean([row["error"] for row in some])
            lines.append(f"| {cell} | {marking} | {numbers[0]} | {shown} | {numbers[1]} | {numbers[2]} | {error:.2f} |")
            if marking != "assumed":
                line = f"| {cell} | {marking} "
                for quota in ("0", "0.3"):
                    right, expected, low, high = np.array([row["promises"][quota] for row in some]).T
                    inside = int(((right >= low) & (right <= high)).sum())
                    ends = f"[{low.mean():.2f}, {high.mean():.2f}]"
                    line += f"| {right.mean():.2f} | {expected.mean():.2f} {ends} | {inside} of {len(some)} "
                listed.append(f"{line}|")
    seeds = sorted({row["seed"] for row in rows})
    return "\n".join([f"Seeds {', '.join(map(str, seeds))}.", "", *lines, "", *listed])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs=2, metavar=("SET", "SEED"), help="the beginning of a set's title, and a seed")
    parser.add_argument("--kinds", nargs="+", default=["labels", "items"], choices=KINDS)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    rows = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    done = {(row["cell"], row["seed"]) for row in rows}
    for title in () if asked.table else SETS:
        for seed in range(3) if asked.only is None else [int(asked.only[1])]:
            for kind in asked.kinds:
                wanted = asked.only is None or title.startswith(asked.only[0])
                if wanted and (f"{title}, {kind}", seed) not in done:
                    new = rows_of(title, kind, seed)
                    rows += new
                    with asked.out.open("a") as file:
                        file.writelines(json.dumps(row) + "\n" for row in new)
    print(table(rows))


if __name__ == "__main__":
    main()
