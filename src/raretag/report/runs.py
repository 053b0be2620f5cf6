"""From run folders to the page: what the run kept, the items worth a look, and differences with their intervals."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.files import write_text
from raretag.data.inputs.preview import Preview, preview
from raretag.metrics.intervals import Interval, bootstrap, paired_differences
from raretag.report.comparison import Comparison, Numbers
from raretag.report.examples import Pick, picks, suggestions
from raretag.report.page import page, page_path
from raretag.report.ranked import write_ranked
from raretag.report.study import GROUPS, Example, Scores, Study
from raretag.runs.ranked_card import is_ranked
from raretag.runs.run import Known, Run, open_run

MOST_RUNS = 6  # as many as there are colours that can be told apart
ENTRIES, FEWER = 2_000_000, 200  # from so many predictions on there are fewer resamples


def write_report(
    folders: Sequence[Path | str], out: Path | str | None = None, *, resamples: int = 1000, with_items: bool = True
) -> tuple[Path, list[str]]:
    """Explain finished runs in one HTML page; returns its path, and what could not be shown, in sentences.

    The first of `folders` is the baseline of the others; `out` is by default report.html in the last of them.
    `resamples` of the test items give the intervals (0: none); `with_items` reads the data again, to show items.
    """
    paths = [Path(folder) for folder in folders]
    if len(paths) > MOST_RUNS:
        raise UserError(f"{len(paths)} runs were given; a page compares {MOST_RUNS} at most")
    source = plotly_source()
    ranked = [is_ranked(folder) for folder in paths]
    if any(ranked):
        if not all(ranked):
            other = paths[ranked.index(False)]
            raise UserError(f"'{other}' scores every label and others rank very many; give runs of one kind")
        return write_ranked(paths, names_of(paths), out, source)
    known: Known = {}
    runs = [open_run(folder, known=known, with_data=with_items) for folder in paths]
    path = page_path(paths, out)
    studies = [study_of(run, name) for run, name in zip(runs, names_of(paths), strict=True)]
    compared = compare(runs, studies, resamples) if resamples else None
    write_text(path, page(studies, compared, source))
    unsaid = [f"{study.name}: {sentence}" for study in studies for sentence in study.missing]
    return path, [*unsaid, *(() if compared is None else compared.left_out)]


def plotly_source() -> str:
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError:
        raise UserError("the report needs the package plotly: pip install 'raretag[report]'") from None
    source: str = get_plotlyjs()
    return source


def names_of(folders: Sequence[Path]) -> list[str]:
    """The last part of each path, or more of it where that is not enough to tell runs apart.

    >>> names_of([Path("runs/a/focal"), Path("runs/b/focal")])
    ['a/focal', 'b/focal']
    """
    paths = [Path(os.path.abspath(folder)) for folder in folders]
    if len(set(paths)) < len(paths):
        raise UserError("a run was given twice")
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise AssertionError("different paths have different names")


def study_of(run: Run, name: str) -> Study:
    """What the page needs of a run, as numpy."""
    kept, items = run.evidence, run.record.data.items["train"]
    counts = kept["train_positives"].numpy() if "train_positives" in kept else _counts(run)
    unknown = None
    if counts is not None and "train_negatives" in kept:
        unknown = items - counts - kept["train_negatives"].numpy()
    part = "test" if run.record.metrics.final.measured_on == "test" else "validation"  # out of fold too
    targets = run.targets(part)
    test = None
    if targets is not None and len(targets) and part in run.logits and run.logits[part].shape == targets.value.shape:
        p = run.logits[part].double().sigmoid().numpy()
        test = Scores(p, (targets.positive > 0.5).numpy(), targets.observed.numpy())
    together = None
    if "together_labels" in kept:
        together = (kept["together_labels"].numpy(), kept["together_counts"].numpy())
    record = run.record.to_json()
    study = Study(name, str(run.folder), record, run.epochs, counts, unknown, test, together, missing=run.missing)
    return study if counts is None else replace(study, examples=_examples(run, study, counts))


def _counts(run: Run) -> NDArray[np.int64] | None:
    """Training positives of a run that kept no evidence."""
    if run.data is not None:
        found: NDArray[np.int64] = run.data.train.labels.statistics(cooccurrence=False).positives.numpy()
        return found
    if run.folder is None or not (run.folder / "card.json").is_file():
        return None
    counts = json.loads((run.folder / "card.json").read_text(encoding="utf-8")).get("training_positives")
    return None if counts is None else np.array(counts, dtype=np.int64)


def _examples(run: Run, study: Study, counts: NDArray[np.int64]) -> list[Example]:
    chosen: list[Pick] = []
    kept = run.evidence
    if "missing_rows" in kept:
        rows, logits, truth = (kept[name].numpy() for name in ("missing_rows", "missing_logits", "missing_truth"))
        chosen += suggestions(rows, logits, truth, counts)
    if study.test is not None and study.measured_on == "test":
        chosen += picks(study.test, counts)
    return [_example(run, study, pick) for pick in chosen]


def _example(run: Run, study: Study, pick: Pick) -> Example:
    names = study.labels
    item, look = f"{pick.split} item {pick.row}", Preview()
    present: tuple[str, ...] = ()
    if run.data is not None:
        items = run.data.parts[pick.split]
        item, look = str(items.labels.ids[pick.row]), preview(items.inputs, pick.row)
        row = items.labels.targets(torch.tensor([pick.row])).positive[0]
        present = tuple(names[label] for label in (row > 0.5).nonzero().flatten().tolist())
    elif pick.split == "test" and study.test is not None:
        present = tuple(names[label] for label in np.flatnonzero(study.test.positive[pick.row]))
    if pick.split == "train":
        found: tuple[tuple[str, float, bool | None], ...] = ((names[pick.label], pick.p, pick.right),)
        return Example(pick.kind, item, look.image, look.text, present, found)
    assert study.test is not None
    p, positive, observed = (part[pick.row] for part in (study.test.p, study.test.positive, study.test.observed))
    decided = [int(label) for label in np.argsort(-p, kind="stable") if p[label] > 0.5][:6]
    found = tuple((names[c], float(p[c]), bool(positive[c]) if observed[c] else None) for c in decided)
    missed = tuple((names[c], float(p[c])) for c in np.flatnonzero(positive & (p <= 0.5))[:6].tolist())
    return Example(pick.kind, item, look.image, look.text, present, found, missed)


def compare(runs: Sequence[Run], studies: Sequence[Study], resamples: int) -> Comparison | None:
    """Intervals of each run, and paired differences of those that were tested on the baseline's items."""
    first = runs[0].targets("test")
    if first is None or studies[0].test is None or studies[0].measured_on != "test":
        return None
    draws = resamples if first.value.numel() <= ENTRIES else min(resamples, FEWER)
    groups = {name: torch.tensor(runs[0].record.groups.members.get(name, []), dtype=torch.int64) for name in GROUPS}
    groups = {name: members for name, members in groups.items() if len(members)}
    alike, left_out = [], []
    for run, study in zip(runs, studies, strict=True):
        if run.tested_as(runs[0]) and study.test is not None and study.measured_on == "test":
            alike.append((study.name, run))
        else:
            left_out.append(f"{study.name} is not compared: it was not tested on the same items and labels.")
    intervals = {name: _plain(bootstrap(run.logits["test"], first, groups, resamples=draws)) for name, run in alike}
    baseline = studies[0].name
    models = {name: run.logits["test"] for name, run in [*alike[1:], alike[0]]}
    thresholds = {study.name: torch.from_numpy(study.thresholds) for study in studies}

    def against_baseline(metric: Literal["mAP", "F1"], cuts: dict[str, Tensor] | None) -> dict[str, dict[str, Numbers]]:
        pairs = paired_differences(models, first, groups, metric=metric, thresholds=cuts, resamples=draws)
        return {name: _plain(found) for (name, other), found in pairs.items() if other == baseline}

    differences = {
        "mAP": against_baseline("mAP", None),
        "F1 at tuned thresholds": against_baseline("F1", thresholds),
    }
    return Comparison(baseline, intervals, differences, draws, left_out)


def _plain(found: Mapping[str, Interval]) -> dict[str, Numbers]:
    return {part: numbers.as_dict() for part, numbers in found.items()}
