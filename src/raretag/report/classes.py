"""Tables of labels: all of them, and the worst ones with what they are taken for."""

from __future__ import annotations

import numpy as np

from raretag.report.confusion import Named, confusions, worst
from raretag.report.doctor import ranks_well
from raretag.report.markup import DASH, Cell, count, share, table, text, wrapping
from raretag.report.study import Study, chosen

MOST_ROWS = 1000


def label_table(study: Study, baseline: Study | None, most: int = MOST_ROWS) -> str:
    """A row for each label; a click on its name shows its curve."""
    heads = ["label", "group", "training", "test", "AP"]
    beside = None if baseline is None or baseline is study or baseline.labels != study.labels else baseline
    heads += ["baseline AP", "difference"] if beside is not None else []
    heads += ["F1", "F1*", "precision", "recall"] + (["predicted"] if study.judged is not None else [])
    per_class = study.final["per_class"]
    tuned = study.at_tuned.f1 if study.judged is not None else np.full(len(study.labels), np.nan)
    members = chosen(study, most)
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
        row += [count(int(study.at_half.predicted[label]))] if study.judged is not None else []
        rows.append(row)
    cut = (
        f'<p class="quiet">{text(_cut(len(members), len(study.labels)))}</p>'
        if len(members) < len(study.labels)
        else ""
    )
    return cut + table(heads, rows, caption="Labels: test numbers in %", id="")


def _cut(shown: int, of: int) -> str:
    return (
        f"{shown:,} of {of:,} labels are shown: in turns the rarest, those with the lowest AP, and the most frequent."
    )


def worst_table(study: Study, baseline: Study | None) -> str:
    labels = worst(study)
    beside = None if baseline is None or baseline is study or baseline.labels != study.labels else baseline
    fine = ranks_well(study) if study.judged is not None else None
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
        "where this one was wrongly found. Both at the thresholds tuned on validation, with the number of items."
    )
    shown = table(heads, rows, caption="The labels with the lowest average precision", sort=False, stack=True)
    return f'{shown}<p class="quiet">{text(legend)}</p>'


def _verdict(study: Study, label: int, fine: bool) -> str:
    predicted, positives = int(study.at_half.predicted[label]), int(study.at_half.positives[label])
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
