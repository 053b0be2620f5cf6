"""`raretag report`: finished runs as one HTML page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from raretag.cli.screen import screen
from raretag.core.errors import UserError
from raretag.data.inputs.preview import Preview, preview
from raretag.engine.finished import Finished, Known, open_run
from raretag.metrics.bootstrap import bootstrap, paired_differences
from raretag.report.comparison import Comparison
from raretag.report.page import page, write
from raretag.report.selection import Pick, picks, suggestions
from raretag.report.study import GROUPS, Example, Judged, Study

MOST_RUNS = 6  # as many as there are colours that can be told apart
ENTRIES, FEWER = 2_000_000, 200  # from so many predictions on there are fewer resamples


def report_runs(folders: Sequence[Path], out: Path | None, *, resamples: int, with_items: bool) -> None:
    if len(folders) > MOST_RUNS:
        raise UserError(f"{len(folders)} runs were given; a page compares {MOST_RUNS} at most")
    source = plotly_source()
    known: Known = {}
    runs = [open_run(folder, known=known, with_data=with_items) for folder in folders]
    path = folders[-1] / "report.html" if out is None else out
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UserError(f"'{path}' cannot be written: expected the name of a file in a folder that exists")
    studies = [study_of(run, name) for run, name in zip(runs, names_of(folders), strict=True)]
    compared = compare(runs, studies, resamples) if resamples else None
    write(path, page(studies, compared, source))
    console = screen(error=True)
    for study in studies:
        for sentence in study.missing:
            console.print(f"{study.name}: {sentence}")
    screen().print(f"report: {path}")


def plotly_source() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UserError("the report needs the package plotly: pip install 'raretag[report]'") from None
    source: str = get_plotlyjs()
    return source


def names_of(folders: Sequence[Path]) -> list[str]:
    """The last part of each path, or more of it where that is not enough to tell runs apart."""
    paths = [Path(os.path.abspath(folder)) for folder in folders]
    if len(set(paths)) < len(paths):
        raise UserError("a run was given twice")
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise AssertionError("different paths have different names")


def study_of(run: Finished, name: str) -> Study:
    """What the page needs of a run, as numpy."""
    kept, items = run.evidence, run.record["data"]["items"]["train"]
    counts = kept["train_positives"].numpy() if "train_positives" in kept else _counts(run)
    unknown = None
    if "train_negatives" in kept:
        unknown = items - counts - kept["train_negatives"].numpy()
    targets = run.targets("test")
    judged = None
    if targets is not None and "test" in run.logits and run.logits["test"].shape == targets.value.shape:
        p = run.logits["test"].double().sigmoid().numpy()
        judged = Judged(p, (targets.positive > 0.5).numpy(), targets.observed.numpy())
    together = None
    if "together_labels" in kept:
        together = (kept["together_labels"].numpy(), kept["together_counts"].numpy())
    study = Study(name, str(run.folder), run.record, run.epochs, counts, unknown, judged, together, missing=run.missing)
    return study if counts is None else replace(study, examples=examples(run, study))


def _counts(run: Finished) -> np.ndarray[Any, Any] | None:
    """Training positives of a run that kept no evidence."""
    if run.data is not None:
        return run.data.train.labels.statistics(cooccurrence=False).positives.numpy()
    card = run.folder / "card.json"
    if not card.is_file():
        return None
    import json

    counts = json.loads(card.read_text(encoding="utf-8")).get("training_positives")
    return None if counts is None else np.array(counts, dtype=np.int64)


def examples(run: Finished, study: Study) -> list[Example]:
    assert study.counts is not None
    chosen: list[Pick] = []
    kept = run.evidence
    if "missing_rows" in kept:
        named = ("missing_rows", "missing_logits", "missing_truth")
        chosen += suggestions(*(kept[name].numpy() for name in named), study.counts)
    if study.judged is not None:
        chosen += picks(study.judged, study.counts)
    return [example(run, study, pick) for pick in chosen]


def example(run: Finished, study: Study, pick: Pick) -> Example:
    names = study.labels
    item, look = f"{pick.split} item {pick.row}", Preview()
    present: tuple[str, ...] = ()
    if run.data is not None:
        items = getattr(run.data, pick.split)
        item, look = str(items.labels.ids[pick.row]), preview(items.inputs, pick.row)
        row = items.labels.targets(torch.tensor([pick.row])).positive[0]
        present = tuple(names[label] for label in (row > 0.5).nonzero().flatten().tolist())
    elif pick.split == "test" and study.judged is not None:
        present = tuple(names[label] for label in np.flatnonzero(study.judged.positive[pick.row]))
    if pick.split == "train":
        found: tuple[tuple[str, float, bool | None], ...] = ((names[pick.label], pick.p, pick.right),)
        return Example(pick.kind, item, look.image, look.text, present, found)
    assert study.judged is not None
    p, positive, observed = (part[pick.row] for part in (study.judged.p, study.judged.positive, study.judged.observed))
    decided = [int(label) for label in np.argsort(-p, kind="stable") if p[label] > 0.5][:6]
    found = tuple((names[c], float(p[c]), bool(positive[c]) if observed[c] else None) for c in decided)
    missed = tuple((names[c], float(p[c])) for c in np.flatnonzero(positive & (p <= 0.5))[:6].tolist())
    return Example(pick.kind, item, look.image, look.text, present, found, missed)


def compare(runs: list[Finished], studies: list[Study], resamples: int) -> Comparison | None:
    """Intervals of each run, and paired differences of those that were tested on the baseline's items."""
    first = runs[0].targets("test")
    if first is None or studies[0].judged is None:
        return None
    draws = resamples if first.value.numel() <= ENTRIES else min(resamples, FEWER)
    groups = {name: torch.tensor(runs[0].record["groups"][name], dtype=torch.int64) for name in GROUPS}
    groups = {name: members for name, members in groups.items() if len(members)}
    alike, left_out = [], []
    for run, study in zip(runs, studies, strict=True):
        if run.tested_as(runs[0]) and study.judged is not None:
            alike.append((study.name, run))
        else:
            left_out.append(f"{study.name} is not compared: it was not tested on the same items and labels.")
    intervals = {name: _plain(bootstrap(run.logits["test"], first, groups, resamples=draws)) for name, run in alike}
    baseline = studies[0].name
    models = {name: run.logits["test"] for name, run in [*alike[1:], alike[0]]}
    cuts = {study.name: torch.from_numpy(study.thresholds) for study in studies}
    differences: dict[str, Any] = {}
    for title, metric, thresholds in (("mAP", "mAP", None), ("F1 at tuned thresholds", "F1", cuts)):
        pairs = paired_differences(models, first, groups, metric=metric, thresholds=thresholds, resamples=draws)
        differences[title] = {name: _plain(found) for (name, other), found in pairs.items() if other == baseline}
    return Comparison(baseline, intervals, differences, draws, left_out)


def _plain(found: Any) -> dict[str, Any]:
    return {part: numbers.as_dict() for part, numbers in found.items()}
