"""Tables of labels: all of them, and the worst ones with the labels they are confused with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raretag.report.markup import DASH, Cell, count, share, table, text, wrapping
from raretag.report.study import Study

MOST_ROWS = 1000
SHOWN = 3
Named = tuple[tuple[str, int], ...]  # labels and how often


def label_table(study: Study, baseline: Study | None, most: int = MOST_ROWS) -> str:
    """A row for each label; a click on its name shows its curve."""
    measured = "measured" if study.measured_on == "out of fold" else study.measured_on
    heads = ["label", "group", "training", measured, "AP"]
    beside = None if baseline is None or baseline is study or baseline.labels != study.labels else baseline
    heads += ["baseline AP", "difference"] if beside is not None else []
    heads += ["F1", "F1*", "precision", "recall"] + (["predicted"] if study.test is not None else [])
    per_class = study.final["per_class"]
    tuned = np.full(len(study.labels), np.nan)  # thresholds look too good on the items that they were tuned on
    if study.test is not None and study.measured_on == "test":
        tuned = study.at_tuned.f1
    members = study.labels_to_show(most)
    rows = []
    for label in members:
        ap = float(study.average_precision[label])
        row: list[str | Cell] = [
            Cell(f'<button type=button class="link" data-label="{label}">{wrapping(study.labels[label], 60)}</button>'),
            Cell(f'<span class="group {study.group[label]}">{study.group[label]}</span>'),
            count(None if study.counts is None else int(study.counts[label])),
            count(per_class["positives"][label]),
            share(ap),
        ]
        if beside is not None:
            other = float(beside.average_precision[label])
            row += [share(other), share(ap - other, sign=True)]
        row += [share(per_class["f1"][label]), share(float(tuned[label]))]
        row += [share(per_class["precision"][label]), share(per_class["recall"][label])]
        row += [count(int(study.at_half.predicted[label]))] if study.test is not None else []
        rows.append(row)
    cut = (
        f'<p class="quiet">{text(_cut(len(members), len(study.labels)))}</p>'
        if len(members) < len(study.labels)
        else ""
    )
    return cut + table(heads, rows, caption=f"Labels: numbers of the {study.measured_items}, in %", id="")


def _cut(shown: int, of: int) -> str:
    return f"{shown:,} of {of:,} labels are shown: in turn the rarest, those with the lowest AP, and the most frequent."


def worst_table(study: Study, baseline: Study | None) -> str:
    labels = worst(study)
    beside = None if baseline is None or baseline is study or baseline.labels != study.labels else baseline
    fine = study.ranks_well() if study.test is not None else None
    rows = []
    for found in confusions(study, labels):
        label = found.label
        row: list[str | Cell] = [
            study.labels[label][:60],
            Cell(f'<span class="group {study.group[label]}">{study.group[label]}</span>'),
            count(None if study.counts is None else int(study.counts[label])),
            share(float(study.average_precision[label])),
        ]
        row += [share(float(beside.average_precision[label]))] if beside is not None else []
        row += [_named(found.found_instead), _named(found.alarms_on), _named(found.together)]
        row += [] if fine is None else [_verdict(study, label, fine[label])]
        rows.append(row)
    heads = ["label", "group", "training", "AP", *(["baseline AP"] if beside is not None else [])]
    heads += ["found instead", "false alarms on", "occurs with (training)", *([] if fine is None else ["verdict"])]
    legend = (
        "Found instead: labels wrongly found on items where this one was missed. False alarms on: labels of the items "
        f"where this one was wrongly found. Both at the thresholds tuned on {study.thresholds_from}, with the number "
        "of items."
    )
    shown = table(heads, rows, caption="The labels with the lowest average precision", sort=False, stack=True)
    return f'{shown}<p class="quiet">{text(legend)}</p>'


def _verdict(study: Study, label: int, fine: bool | None) -> str:
    predicted, positives = int(study.at_half.predicted[label]), int(study.at_half.positives[label])
    if fine is None:
        return f"too few {study.positives} to judge ({positives})"
    ranking = "ranking fine" if fine else "ranking poor"
    if predicted == 0:
        return f"never predicted at 0.5; {ranking}"
    if predicted < 0.67 * positives:
        return f"predicted too seldom; {ranking}"
    return f"predicted too often; {ranking}" if predicted > 1.5 * positives else ranking


def _named(pairs: Named) -> Cell:
    if not pairs:
        return Cell(DASH)
    return Cell(", ".join(f'{text(name, 40)} <small class="quiet">{number:,}</small>' for name, number in pairs))


@dataclass(frozen=True)
class Confused:
    label: int
    found_instead: Named  # labels that were wrongly found where this one was missed
    alarms_on: Named  # labels of the items on which this one was wrongly found
    together: Named  # labels that it occurs with in training


def worst(study: Study, most: int = 12) -> list[int]:
    """Labels with the lowest average precision, of equals the rarer one first."""
    ap = study.average_precision
    counts = np.zeros(len(ap)) if study.counts is None else study.counts
    order = np.lexsort((np.arange(len(ap)), counts, np.nan_to_num(ap, nan=2.0)))
    return [int(label) for label in order[:most] if not np.isnan(ap[label])]


def confusions(study: Study, labels: list[int]) -> list[Confused]:
    """Decisions are made at the thresholds tuned on validation: at 0.5 a label that is never found confuses nobody."""
    names = study.labels
    nothing: list[Named] = [()] * len(labels)
    instead = alarms = nothing
    if study.test is not None:
        positive = study.test.positive
        decided = study.test.p > study.thresholds
        wrong = (decided & study.test.observed & ~positive).astype(np.float32)
        missed = (positive & ~decided)[:, labels].astype(np.float32)
        instead = [_most(row, names, label) for row, label in zip(missed.T @ wrong, labels, strict=True)]
        present = positive.astype(np.float32)
        alarms = [_most(row, names, label) for row, label in zip(wrong[:, labels].T @ present, labels, strict=True)]
    together = nothing
    if study.together is not None:
        others, counts = study.together
        together = [_pairs(others[label], counts[label], names) for label in labels]
    return [Confused(*found) for found in zip(labels, instead, alarms, together, strict=True)]


def _most(counts: NDArray[np.float32], names: list[str], without: int) -> Named:
    order = np.argsort(-counts, kind="stable")
    return _pairs(order[order != without], counts[order[order != without]].astype(np.int64), names)


def _pairs(labels: NDArray[np.int64], counts: NDArray[np.int64], names: list[str]) -> Named:
    pairs = zip(labels[:SHOWN].tolist(), counts[:SHOWN].tolist(), strict=True)
    return tuple((names[label], int(count)) for label, count in pairs if count > 0)
