"""Scoring every label against ranking them, around the size at which `raretag train` changes from one to the other.

    python benchmarks/label_switch.py FILES --labels 1000 --items 2000 --columns 2200 --method blend --effort quick

FILES holds xc4k.train.svm and xc4k.test.svm, as `raretag bench extreme` makes them (OUT/files): of the 4,000 labels,
evenly many of all frequencies are kept, of the items the first, of the columns the most frequent. Or it is the name of
a data set, which is taken as it is. One row as JSON: mAP over labels, and the first places by calibrated probabilities,
of the test items; CPU seconds and peak memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

import raretag
from raretag.config.settings import Config
from raretag.core.listener import Listener
from raretag.core.ranker import best_of
from raretag.data.dataset import DataSet
from raretag.data.sets.svmlight import read_rows
from raretag.labels.counts import groups
from raretag.metrics.top_k import TopK, propensities

PARTS = ("train", "test")


def main() -> None:
    ask = argparse.ArgumentParser()
    ask.add_argument("files", type=Path)
    for name, usual in (("labels", 1000), ("items", None), ("columns", None)):
        ask.add_argument(f"--{name}", type=int, default=usual)
    ask.add_argument("--method", default="auto")
    ask.add_argument("--effort", default="default")
    asked = ask.parse_args()
    with tempfile.TemporaryDirectory() as place:
        data: Any = str(asked.files)
        if asked.files.is_dir():
            cut(asked.files, Path(place), asked.labels, asked.items, asked.columns)
            data = {"name": "svmlight", **{part: f"{place}/{part}.svm" for part in PARTS}}
        run = raretag.train(data, method=asked.method, effort=asked.effort, listener=Listener())
    used = resource.getrusage(resource.RUSAGE_SELF)
    row = {"method": run.record.method.name, "effort": asked.effort, **measured(run, run.data)}
    row |= {"cpu_seconds": used.ru_utime + used.ru_stime, "peak_gb": used.ru_maxrss / 2**20}
    print(json.dumps(row, default=float))


def cut(files: Path, out: Path, labels: int, items: int | None, columns: int | None) -> None:
    """Training and test file of the set in these sizes."""
    read = [read_rows(files / f"xc4k.{part}.svm") for part in PARTS]
    often = np.bincount(read[0].features.indices, minlength=read[0].features.shape[1])
    kept = np.sort(np.argsort(-often, kind="stable")[:columns])
    chosen = np.unique(np.linspace(0, read[0].labels - 1, labels).round().astype(int))
    place = {int(label): at for at, label in enumerate(chosen)}
    for part, rows, most in zip(PARTS, read, (items, None), strict=True):
        x = sparse.csr_array(sparse.csr_array(rows.features)[:most][:, kept])
        with (out / f"{part}.svm").open("w") as file:
            file.write(f"{x.shape[0]} {x.shape[1]} {len(chosen)}\n")
            for row in range(x.shape[0]):
                ends = slice(x.indptr[row], x.indptr[row + 1])
                numbers = zip(x.indices[ends], x.data[ends], strict=True)
                found = ",".join(str(place[label]) for label in rows.positives[row] if label in place)
                file.write(f"{found} {' '.join(f'{column}:{value:.4f}' for column, value in numbers)}\n")


def measured(run: Any, data: DataSet) -> dict[str, Any]:
    test, known = data.test, data.test.labels.known()
    if run.logits:
        scores = run.logits["test"].numpy() * np.array(run.card.calibration.scale) + run.card.calibration.shift
        ranked = best_of(scores.astype(np.float32), 10)
    else:
        weight, bias = run.model.ranker.line()
        scores = (run.model.features(test.inputs, torch.arange(len(test))) @ weight).toarray() + bias
        ranked = run.model.rank(test.inputs, 10)
    counts = data.train.labels.statistics(cooccurrence=False).positives
    top = TopK.of(ranked, known, propensities(counts.numpy(), len(data.train)))
    hit = np.take_along_axis(known.positive.toarray(), np.argsort(-scores, axis=0, kind="stable"), 0)
    there = hit.sum(0) > 0
    precision = hit.cumsum(0) / np.arange(1, len(hit) + 1)[:, None]
    numbers = top.numbers(groups(counts, Config().group_edges))
    return {
        "mAP": ((precision * hit).sum(0)[there] / hit.sum(0)[there]).mean(),
        **{name: numbers[name] for name in ("P@1", "P@5", "PSP@5", "recall@10")},
    }


if __name__ == "__main__":
    main()
