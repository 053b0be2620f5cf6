"""One row of `raretag bench extreme` in a process of its own: learn, rank, measure, write a JSON.

python -m raretag.bench.extreme_worker LEARNER TRAIN TEST OUT
"""

from __future__ import annotations

import importlib
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from raretag.config.settings import Config
from raretag.core.files import write_json
from raretag.core.ranker import Ranked, best_of
from raretag.data.sets.svmlight import SparseRows, read_rows
from raretag.labels.counts import groups
from raretag.labels.store import LabelStore
from raretag.metrics.top_k import TopK, propensities

K = 10


@dataclass(frozen=True)
class Learned:
    """What a learner leaves: its test items ranked or measured, how long fitting took, how large the model is."""

    fit_seconds: float
    size: int  # bytes
    labels: NDArray[Any] | None = None  # [N, K]
    top: dict[str, Any] | None = None
    label: str = ""


def main(learner: str, train: str, test: str, out: str) -> None:
    package, _, kind = learner.partition(":")
    train_rows, test_rows = read_rows(Path(train)), read_rows(Path(test))
    count = max(train_rows.labels, test_rows.labels)
    if package == "raretag":
        learned = ours(kind, train, test)
    else:
        try:
            importlib.import_module(package)
        except ImportError as error:
            sys.exit(f"the package {package} is not installed ({error})")
        learned = {"napkinxc": napkinxc, "libmultilabel": libmultilabel}[package](kind, train_rows, test_rows, count)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    if learned.labels is not None:
        learned = replace(learned, top=measured(learned.labels, train_rows, test_rows, count))
    found = {
        "data": Path(train).name.removesuffix(".train.svm"),
        "learner": learner,
        "label": learned.label,
        "top": learned.top,
        "cpu_seconds": sum(one.ru_utime + one.ru_stime for one in used),
        "fit_seconds": learned.fit_seconds,
        "peak_gb": max(one.ru_maxrss for one in used) / 2**20,
        "model_mb": learned.size / 2**20,
    }
    write_json(Path(out), found)


def measured(labels: NDArray[Any], train: SparseRows, test: SparseRows, count: int) -> dict[str, Any]:
    """The numbers of a ranking [N, K], as `raretag train` makes them."""
    fitted, tested = (LabelStore.from_lists(rows.positives, labels=count) for rows in (train, test))
    counts = fitted.statistics(cooccurrence=False).positives
    ranked = Ranked(labels.astype(np.int32), np.zeros(labels.shape, np.float32))
    found = TopK.of(ranked, tested.known(), propensities(counts.numpy(), len(fitted)))
    return found.numbers(groups(counts, Config().group_edges))


def ours(name: str, train: str, test: str) -> Learned:
    """`raretag train` as a user runs it, with its held-out items, its cut and its measurement."""
    import raretag
    from raretag.core.listener import Listener
    from raretag.models.ranked import RankedModel

    seconds: list[float] = []
    fit = RankedModel.fit

    def timed(self: RankedModel, *rest: Any) -> None:
        started = time.process_time()
        fit(self, *rest)
        seconds.append(time.process_time() - started)

    with tempfile.TemporaryDirectory() as place, patch.object(RankedModel, "fit", timed):
        data = {"name": "svmlight", "train": train, "test": test}
        run = raretag.train(data, method=name, out=Path(place) / "run", listener=Listener())
        size = sum((Path(place) / "run" / file).stat().st_size for file in ("model.safetensors", "labels.safetensors"))
    label = f"raretag, `{run.record.method.name}`" if name == "auto" else ""
    return Learned(seconds[-1], size, top=run.metrics.top, label=label)


def napkinxc(kind: str, train: SparseRows, test: SparseRows, count: int) -> Learned:
    """A probabilistic label tree with the package's defaults."""
    from napkinxc.models import PLT  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as place:
        model = PLT(place, seed=1, threads=1, verbose=False)
        started = time.process_time()
        model.fit(sparse.csr_matrix(train.features), train.positives)
        fitted = time.process_time() - started
        found = model.predict(sparse.csr_matrix(test.features), top_k=K)
        size = sum(file.stat().st_size for file in Path(place).rglob("*") if file.is_file())
    return Learned(fitted, size, np.array([(list(row) + [-1] * K)[:K] for row in found]))


def libmultilabel(kind: str, train: SparseRows, test: SparseRows, count: int) -> Learned:
    """Linear SVMs (squared hinge, C = 1, the package's defaults), one per label or in a tree."""
    import libmultilabel.linear as linear

    ends = np.cumsum([0, *map(len, train.positives)])
    flat = np.concatenate([np.asarray(row, np.int64) for row in train.positives])
    y = sparse.csr_matrix((np.ones(len(flat)), flat, ends), shape=(len(train.positives), count))
    x = sparse.csr_matrix(train.features, dtype=np.float64)
    started = time.process_time()
    model = linear.train_tree(y, x, verbose=False) if kind == "tree" else linear.train_1vsrest(y, x, verbose=False)
    fitted = time.process_time() - started
    weight = model.flat_model.weights if kind == "tree" else model.weights
    parts = (weight.data, weight.indices, weight.indptr) if sparse.issparse(weight) else (np.asarray(weight),)
    new, found = sparse.csr_matrix(test.features, dtype=np.float64), []
    for start in range(0, new.shape[0], 500):
        scores = linear.predict_values(model, new[start : start + 500])
        scores = scores.toarray() if sparse.issparse(scores) else np.asarray(scores)
        found.append(best_of(scores.astype(np.float32), K).labels)
    return Learned(fitted, sum(part.nbytes for part in parts), np.concatenate(found))


if __name__ == "__main__":
    main(*sys.argv[1:5])
