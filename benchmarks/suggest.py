"""Suggestions of missing labels, judged by positives that were hidden on purpose.

    python benchmarks/suggest.py --cache runs/suggest

Promised against obtained precision of the first 500 suggestions, and the precision of other rankings of the same
entries: a plain BCE model (unknown taken as negative) on its own training items, the same out of fold, and cleanlab
2.9 (`pip install cleanlab`; left out if absent) on those out-of-fold probabilities. Needs $RARETAG_DATA.
Result: benchmarks/results/suggest.json. Can be stopped and continued: finished folds are in the cache.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from raretag.config.settings import Config, compose
from raretag.core import chance
from raretag.data.dataset import DataSet
from raretag.data.sources import group_counts, load
from raretag.engine.batches import build_fabric, logits_of
from raretag.engine.out_of_fold import fit_quietly, out_of_fold
from raretag.engine.prepare import prepare
from raretag.labels.counts import groups
from raretag.labels.hide import hide
from raretag.suggestions.answers import Answer
from raretag.suggestions.listing import Suggestions
from raretag.suggestions.probabilities import estimate_probabilities
from raretag.suggestions.selection import Picked, list_suggestions, pick

RESULT = Path(__file__).parent / "results" / "suggest.json"
FEATURES = ("train.recipe=features", "train.epochs=12")
MOST = 500
CASES: dict[str, tuple[str, tuple[str, ...], float | None]] = {  # data set, settings, share of positives that is kept
    "VOC, PPL 0.6": ("plt_voc", (*FEATURES, "data.features=mobilenetv2", "data.missing=0", "PPL"), 0.6),
    "GoEmotions, PPL 0.6": (
        "goemotions", ("data.words=2000", "train.epochs=5", "train.batch_size=64", "train.learning_rate=0.002", "PPL"),
        0.6,
    ),
    "Corel5k, PPL 0.6": ("corel5k", (*FEATURES, "PPL"), 0.6),
    "VOC, PAL 0.3": (
        "plt_voc", (*FEATURES, "data.features=mobilenetv2", "data.missing=0", "data.hide=pal", "data.keep=0.3"), None,
    ),
    "VOC, SPL": ("plt_voc", (*FEATURES, "data.features=mobilenetv2", "data.missing=0", "data.hide=spl"), None),
}  # fmt: skip
ITEMS = 8000  # GoEmotions has 43,410; a fifth is enough for 500 suggestions
OURS = ("method.name=ignore_likely", "sampler.name=uniform")  # as many steps as the plain model
PLAIN = ("method.name=assume_negative",)


def settings(case: str, seed: int, method: tuple[str, ...]) -> Config:
    name, changes, _ = CASES[case]
    hide = [change for change in changes if change != "PPL"]
    if "PPL" in changes:
        hide += ["data.hide=ppl", "data.keep=0.6"]
    if "PAL" in case:
        method = ("method.name=binary_cross_entropy", "sampler.name=uniform")
    return compose(None, [*hide, *method], name, seed=seed)


def read(config: Config) -> DataSet:
    data = load(config.data, config.seed)
    if len(data.train) <= ITEMS:
        return data
    rows = chance.permutation(len(data.train), 1, config.seed)[:ITEMS].sort().values
    assert data.truth is not None
    return replace(data, train=data.train.take(rows), truth=data.truth.take(rows), published=None)


def own_items(config: Config, data: DataSet, cache: Path) -> np.ndarray:
    """Logits of the training items by a model that was trained on them."""
    path = cache / "own.npy"
    if not path.exists():
        prepared = prepare(config, build_fabric(config.train), data=data)
        fit_quietly(prepared, lambda epoch: None)
        training = prepared.training
        z = logits_of(
            training.best, training.method, data.train, batch_size=256, rank=0, workers=0, place=training.place
        )
        cache.mkdir(parents=True, exist_ok=True)
        np.save(path, z.numpy())
    return np.load(path)


def precision_of(scores: np.ndarray, unknown: np.ndarray, truth: np.ndarray) -> float:
    best = np.argsort(-np.where(unknown, scores, -np.inf), axis=None, kind="stable")[:MOST]
    return float(truth.ravel()[best].mean())


def cleanlab_precision(z: np.ndarray, unknown: np.ndarray, marked: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """cleanlab knows no unknown state: unknown labels are given as absent, and those it calls wrong are suggestions."""
    try:
        from cleanlab.multilabel_classification.filter import find_multilabel_issues_per_class
    except ImportError:
        return {}
    p = 1 / (1 + np.exp(-z))
    given = [np.flatnonzero(row).tolist() for row in marked]
    some = np.flatnonzero(marked.any(axis=0))  # it refuses a label that nobody has
    number = {label: place for place, label in enumerate(some)}
    warnings.filterwarnings("ignore", "May not flag all label issues")
    listed, _, _ = find_multilabel_issues_per_class(
        labels=[[number[label] for label in row] for row in given],
        pred_probs=p[:, some],
        return_indices_ranked_by="self_confidence",
        n_jobs=1,
    )
    flagged = np.zeros_like(unknown)
    for place, rows in enumerate(listed):
        flagged[rows, some[place]] = True
    flagged &= unknown
    count = int(flagged.sum())
    best = np.argsort(-np.where(flagged, p, -np.inf), axis=None, kind="stable")[: min(count, MOST)]
    return {"flagged": count, "precision": float(truth.ravel()[best].mean()) if count else None}


def judged(listing: Suggestions, data: DataSet) -> list[dict[str, Any]]:
    truth = data.truth.targets().value.numpy() > 0  # type: ignore[union-attr]
    row = {str(item): number for number, item in enumerate(data.train.labels.ids)}
    column = {name: number for number, name in enumerate(data.train.labels.names)}
    right = [bool(truth[row[one.item], column[one.label]]) for one in listing.missing]
    found = []
    for promise in listing.promises:
        obtained = float(np.mean(right[: promise.size]))
        found.append({**promise.as_dict(), "obtained": obtained, "covered": promise.covers(obtained)})
    return found


def audited(listing: Suggestions, data: DataSet, logits: np.ndarray, members: Any) -> dict[str, Any]:
    """Fifty answers in the order of `audit`: what they promise for the whole list, and for the next one."""
    truth = data.truth.targets().value.numpy() > 0  # type: ignore[union-attr]
    row = {str(item): number for number, item in enumerate(data.train.labels.ids)}
    column = {name: number for number, name in enumerate(data.train.labels.names)}
    right = {one.rank: bool(truth[row[one.item], column[one.label]]) for one in listing.missing}
    answers = [
        Answer(one.item, one.label, ("yes" if right[one.rank] else "no") if one.audit <= 50 else None, one.was,
               audit=one.audit)
        for one in listing.missing if one.audit is not None
    ]  # fmt: skip
    again = list_suggestions(logits, data.train.labels, members, most=MOST, quota=0.0, wrong=0, answered=answers)
    assert again.audit is not None
    promise, obtained = again.audit.promise(), float(np.mean(list(right.values())))
    return {
        "list": {**promise.as_dict(), "obtained": obtained, "covered": promise.covers(obtained)},
        "next": judged(again, data)[-1],
    }


def run_case(case: str, seed: int, folds: int, cache: Path) -> dict[str, Any]:
    config = settings(case, seed, OURS)
    data = read(config)
    z = out_of_fold(config, data, cache / "folds", folds=folds).numpy().astype(np.float64)
    members = groups(group_counts(data), config.group_edges)
    targets, truth = data.train.labels.targets(), data.truth.targets().value.numpy() > 0  # type: ignore[union-attr]
    unknown, marked = targets.unknown.numpy(), (targets.observed & (targets.value == 1)).numpy()
    result: dict[str, Any] = {
        "items": len(data.train), "labels": data.train.labels.labels, "unknown": int(unknown.sum()),
        "hidden": int((truth & unknown).sum()), "marked share": float(marked.sum() / truth.sum()),
    }  # fmt: skip
    told = CASES[case][2]
    for name, kept, quota in [("estimated", None, 0.0), ("estimated, quota", None, 0.3), ("kept told", told, 0.0)]:
        if name == "kept told" and told is None:
            continue
        listing = list_suggestions(z, data.train.labels, members, most=MOST, quota=quota, label_frequency=kept, wrong=0)
        result[name] = {
            "promises": judged(listing, data), "assumption": listing.assumption,
            "labels": len({one.label for one in listing.missing}),
            "tail": sum(one.group == "tail" for one in listing.missing),
        }  # fmt: skip
        if name == "estimated":
            result["audit"] = audited(listing, data, z, members)
    evidence = estimate_probabilities(z, targets)
    picked: Picked = pick(evidence.t, evidence.candidates, MOST, 0.0)
    result["ours"] = float(truth[picked.row, picked.label].mean())
    plain = settings(case, seed, PLAIN)
    zp = out_of_fold(plain, data, cache / "folds", folds=folds).numpy().astype(np.float64)
    result["plain, out of fold"] = precision_of(zp, unknown, truth)
    of_plain = list_suggestions(zp, data.train.labels, members, most=MOST, quota=0.0, wrong=0)
    result["of a plain run"] = {"promises": judged(of_plain, data), "assumption": of_plain.assumption}
    result["cleanlab"] = cleanlab_precision(zp, unknown, marked, truth)
    own = own_items(plain, data, cache / f"{case.replace(' ', '')}-{seed}")
    result["plain, own items"] = precision_of(own, unknown, truth)
    return result


def redrawn(case: str, times: int, folds: int, cache: Path) -> dict[str, float]:
    """How often promises with the share told cover, where the scores of a plain run stay and the marks are redrawn."""
    config = settings(case, 0, PLAIN)
    data = read(config)
    assert data.truth is not None
    z = out_of_fold(config, data, cache / "folds", folds=folds).numpy().astype(np.float64)
    truth = data.truth.targets().value.numpy() > 0
    covered: dict[int, list[bool]] = {size: [] for size in (50, 100, 200, 500)}
    for seed in range(100, 100 + times):
        evidence = estimate_probabilities(z, hide(data.truth, "ppl", 0.6, seed).targets(), 0.6)
        picked = pick(evidence.t, evidence.candidates, MOST, 0.0)
        for size, found in covered.items():
            some = picked.first(size)
            promise = evidence.promise(some.mask(z.shape), some.mask(z.shape, only_by_rank=True))
            found.append(promise.covers(float(truth[some.row, some.label].mean())))
    return {str(size): float(np.mean(found)) for size, found in covered.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=Path, default=Path("runs/suggest"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--redraw", type=int, default=0, help="draws of the marks under fixed scores; no other runs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if arguments.redraw:
        for case in ("VOC, PPL 0.6", "GoEmotions, PPL 0.6"):
            found.setdefault("redrawn marks", {})[case] = redrawn(
                case, arguments.redraw, arguments.folds, arguments.cache
            )
            RESULT.write_text(json.dumps(found, indent=1) + "\n")
        return
    for seed in arguments.seeds:
        for case in CASES:
            if arguments.only in case:
                found[f"{case}, seed {seed}"] = run_case(case, seed, arguments.folds, arguments.cache)
                RESULT.write_text(json.dumps(found, indent=1) + "\n")
                print(case, seed, json.dumps(found[f"{case}, seed {seed}"]["estimated"]["promises"][-1]), flush=True)


if __name__ == "__main__":
    main()
