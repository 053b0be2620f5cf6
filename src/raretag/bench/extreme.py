"""`raretag bench extreme`: very many labels, against label trees and one-vs-rest of other packages.

Two files are made from the GoEmotions texts (half of the words are features, the other half and word pairs are
labels), or every pair NAME.train.svm and NAME.test.svm of a folder is taken. Each row reads a training file, learns
and ranks the test items, in a process of its own (extreme_worker.py); one code measures all rankings. Rows of packages
that are not installed are named and left out, and one that takes more than ten minutes of CPU time is stopped.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raretag.core.errors import DataAbsentError, UserError
from raretag.core.files import replacing, write_json

NAME = "extreme"
TITLE = "Very many labels: rankers against label trees and one-vs-rest"
WORKER = "raretag.bench.extreme_worker"
TOGETHER = 3  # texts that make an item
SIZES = {"xc30k": (2, 1000, 30_000), "xc4k": (5, 400, 4_000)}  # least and most items of a label, most labels
TEXTS = "goemotions/train.tsv"
LIMIT = 900  # seconds of CPU time that a row may take
COLUMNS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")


@dataclass(frozen=True)
class Row:
    """A learner, and the package that it needs."""

    label: str
    learner: str  # for the worker: "raretag:NAME", or a peer
    package: str = ""  # its name on PyPI


ROWS = (
    Row("raretag, the default", "raretag:auto"),
    Row("raretag, `centroids`", "raretag:centroids"),
    Row("napkinXC, label tree", "napkinxc:tree", "napkinxc"),
    Row("LibMultiLabel, label tree", "libmultilabel:tree", "libmultilabel"),
    Row("LibMultiLabel, one-vs-rest", "libmultilabel:one_vs_rest", "libmultilabel"),
)


def run(out: Path, only: Sequence[str], say: Callable[[str], None], *, data: Path | None = None) -> None:
    """Fill the folder with one JSON per row and file; what is there is not computed again."""
    out.mkdir(parents=True, exist_ok=True)
    for name, train, test in files(data, out):
        for row in ROWS:
            done = out / f"{name}-{row.learner.replace(':', '-')}.json"
            if done.exists() or (only and not {name, row.label, row.learner} & set(only)):
                continue
            command = [sys.executable, "-m", WORKER, row.learner, str(train), str(test), str(done)]
            settings = {**os.environ, "OMP_NUM_THREADS": "1"}
            ended = subprocess.run(command, capture_output=True, text=True, env=settings, preexec_fn=_limited)
            if ended.returncode == -signal.SIGXCPU:
                write_json(done, {"data": name, "learner": row.learner, "stopped_after": LIMIT})
                say(f"{name}, {row.label}: stopped after {LIMIT} s of CPU time")
            elif not done.exists():
                reason = (ended.stderr.strip().splitlines() or ["no reason given"])[-1]
                say(f"{name}, {row.label}: not run ({reason})")
            else:
                say(f"{name}, {row.label}: {json.loads(done.read_text())['cpu_seconds']:.0f} s of CPU time")


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))


def files(data: Path | None, out: Path) -> Iterator[tuple[str, Path, Path]]:
    """Name, training and test file of each set."""
    if data is None:
        data = out / "files"
        if not all((data / f"{name}.test.svm").exists() for name in SIZES):
            make_files(texts(), data)
    found = sorted(data.glob("*.train.svm"))
    if not found:
        raise UserError(f"'{data}' holds no NAME.train.svm with its NAME.test.svm")
    for train in found:
        name = train.name.removesuffix(".train.svm")
        yield name, train, train.with_name(f"{name}.test.svm")


def texts() -> list[str]:
    root = os.environ.get("RARETAG_DATA")
    if root is None or not (Path(root) / TEXTS).is_file():
        raise DataAbsentError(
            f"the sets are made from '{TEXTS}' of GoEmotions below the folder that RARETAG_DATA names; "
            "`raretag list data` says where to get it"
        )
    lines = (Path(root) / TEXTS).read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[0] for line in lines if line.strip()]


def make_files(lines: Sequence[str], folder: Path) -> None:
    """Training and test files of both sizes, in the format of the extreme-classification repository."""
    import numpy as np
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

    order = np.random.RandomState(0).permutation(len(lines))
    groups = range(0, len(order) - TOGETHER + 1, TOGETHER)
    items = [" ".join(lines[place] for place in order[start : start + TOGETHER]) for start in groups]
    counter = CountVectorizer(min_df=2, ngram_range=(1, 2), token_pattern=r"(?u)\b\w[\w\-']+\b")
    words = counter.fit_transform(items).tocsc()
    names = counter.get_feature_names_out()
    feature = np.array([" " not in name and zlib.crc32(name.encode()) % 2 == 1 for name in names])
    often = np.asarray((words > 0).sum(axis=0)).ravel()
    x = TfidfTransformer(sublinear_tf=True).fit_transform(words[:, feature].tocsr()).tocsr()
    folder.mkdir(parents=True, exist_ok=True)
    cut = int(0.8 * len(items))
    for name, (least, highest, most) in SIZES.items():
        chosen = np.flatnonzero(~feature & (often >= least) & (often <= highest))
        chosen = chosen[np.argsort(-often[chosen], kind="stable")][:most]
        y = (words[:, chosen] > 0).tocsr()
        for part, rows in (("train", range(cut)), ("test", range(cut, len(items)))):
            with replacing(folder / f"{name}.{part}.svm") as new, new.open("w", encoding="utf-8") as file:
                file.write(f"{len(rows)} {x.shape[1]} {y.shape[1]}\n")
                file.writelines(_line(x[[row]], y[[row]]) for row in rows)


def _line(x: Any, y: Any) -> str:
    pairs = sorted(zip(x.indices.tolist(), x.data.tolist(), strict=True))
    numbers = " ".join(f"{column}:{value:.4f}" for column, value in pairs)
    return f"{','.join(map(str, sorted(y.indices.tolist())))} {numbers}\n"


def table(out: Path) -> str:
    """What the folder holds, in Markdown."""
    parts = []
    done = sorted(out.glob("*.json"))
    for name in sorted({json.loads(file.read_text())["data"] for file in done}):
        heads = ("learner", *COLUMNS, "tail R@10", "CPU s", "of it fit", "peak GB", "model MB")
        parts += [f"\n**{name}**\n", f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
        for row in ROWS:
            file = out / f"{name}-{row.learner.replace(':', '-')}.json"
            if not file.exists():
                parts.append(f"| {row.label} | not run{f' (needs {row.package})' if row.package else ''} |")
                continue
            found = json.loads(file.read_text())
            if "stopped_after" in found:
                parts.append(f"| {row.label} | not finished in {found['stopped_after'] // 60} min of CPU time |")
                continue
            shares = [found["top"][column] for column in COLUMNS] + [found["top"]["recall@10"]["tail"]]
            cells = [f"{100 * share:.1f}" for share in shares]
            cells += [f"{found[key]:.0f}" for key in ("cpu_seconds", "fit_seconds")]
            cells += [f"{found['peak_gb']:.2f}", f"{found['model_mb']:.0f}"]
            parts.append(f"| {found.get('label') or row.label} | {' | '.join(cells)} |")
    return "\n".join(parts) if parts else "nothing has been run"
