"""The table of a plan, as Markdown, LaTeX, CSV or JSON lines: mean and deviation over seeds, the best in bold, the
second underlined, beside the paper's own number.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from raretag.bench.opponents import OUT_OF_FOLD, references
from raretag.bench.plan import Cell, Key, Plan, Row, cells
from raretag.bench.results import (
    Apart,
    Floats,
    Section,
    interval,
    label_differences,
    precision_of,
    reach,
    record_of,
    resampled_map,
)

MOST_LABELS = 1000  # whose precisions a line of records keeps: with more it would be longer than all the rest


def markdown(plan: Plan, sections: list[Section]) -> str:
    lines = []
    first = plan.methods[0].label
    for section in sections:
        lines += [f"### {section.title}", ""] if section.title else []
        compared = {f"mAP - {first}, over items": section.over_items, "over labels": section.over_labels}
        compared = {head: found for head, found in compared.items() if section.over_items and found}
        heads = [*plan.metrics, *compared, *plan.costs]
        lines += ["| method | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
        for label, row in section.rows.items():
            shown = [entry.text(lambda t: f"**{t}**", lambda t: f"<u>{t}</u>") for entry in row.values()]
            run = len(next(iter(row.values())).values)
            shown += [difference(found.get(label) if label != first else None, run) for found in compared.values()]
            shown += [amount(section.costs.get(label, {}).get(column)) for column in plan.costs]
            lines.append(f"| {label} | " + " | ".join(shown) + " |")
        lines.append("")
    return "\n".join(lines)


def amount(value: float | None) -> str:
    """A cost, to three digits or so."""
    return "-" if value is None else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def difference(found: Apart | None, run: int) -> str:
    """`run`: the number of seeds; if the interval is of fewer, they are named."""
    if found is None:
        return ""
    text = points(found.value, found.low, found.high)
    return f"{text} ({seeds_text(found.seeds)})" if len(found.seeds) < run else text


def seeds_text(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def points(value: float, low: float, high: float) -> str:
    """With the 95 % interval; bold where it leaves out 0."""
    text = f"{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"**{text}**" if low > 0 or high < 0 else text


def pooled(plan: Plan, budget: str, runs: Path) -> str:
    """The tail of several data sets together: a table for each pool of the plan and each reference."""
    lines = []
    for title, sets in plan.pools.items():
        here = [cell for cell in cells(plan, budget) if cell.data.label in sets]
        for reference in references(plan, here, runs):
            parts = {setting.label: of_setting(here, setting) for setting in plan.settings}
            columns = {
                label: found
                for label, some in parts.items()
                if (found := label_differences(some, runs, "tail", reference.cells))
            }
            if not columns:
                continue
            lines += [f"### {title}, tail: AP - {reference.title}, paired over labels", ""]
            lines += ["| method | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
            for method in plan.methods[1:] if reference.is_first else reference.compared(plan):
                shown = []
                for label, column in columns.items():
                    mine = [cell for cell in parts[label] if cell.method == method]
                    shown.append(pooled_difference(column.get(method.label), mine, reference.cells, runs))
                lines.append(f"| {method.label} | " + " | ".join(shown) + " |")
            lines.append("")
    return "\n".join(lines)


def pooled_difference(apart: Floats | None, mine: Sequence[Cell], others: Mapping[Key, Cell], runs: Path) -> str:
    """The mean over labels with its interval; before it the mean of all seeds, if the interval is of some of them."""
    if apart is None:
        return "-"
    text = f"{points(*interval(apart))} ({len(apart)} labels)"
    sums, kept = np.zeros(2), True
    for cell in mine:
        record, other = (record_of(runs / which.name) for which in (cell, others.get(cell.key, cell)))
        one, its = (reach(found, "metrics.final.mAP.tail") for found in (record, other))
        if record is None or one is None or its is None or "groups" not in record:
            continue
        labels = len(record["groups"]["tail"]) - record["metrics"]["final"]["mAP"]["excluded"]["tail"]
        sums += labels * (one - its), labels
        kept = kept and precision_of(record) is not None and precision_of(other) is not None
    return text if kept else f"{100 * sums[0] / sums[1]:+.1f}; where scores were kept: {text}"


def of_setting(some: Sequence[Cell], setting: Row) -> list[Cell]:
    return [cell for cell in some if cell.setting == setting]


def chosen(plan: Plan, found: Sequence[Section]) -> str:
    """For a plan that searches: what one column chooses in each section, and what each method has over all of them."""
    return "\n".join([*_chosen_by_section(plan, found), *_mean_places(plan, found)])


def _chosen_by_section(plan: Plan, found: Sequence[Section]) -> list[str]:
    first = plan.methods[0].label
    families: dict[str, list[str]] = {}
    for method in plan.methods:
        families.setdefault(method.family, []).append(method.label)
    columns = [*plan.metrics, f"AP - {first}, paired over labels"]
    lines = [f"### Chosen by {plan.choose}, with the difference to {first}", ""]
    lines += ["| | chosen | " + " | ".join(columns) + " |", "|---|---|" + "---|" * len(columns)]
    for section, labels in itertools.product(found, families.values()):
        measured = [label for label in labels if section.rows[label][plan.choose].values]
        if not measured:
            continue
        label = min(measured, key=lambda label: section.rows[label][plan.choose].place)
        shown = []
        for metric in plan.metrics:
            part = _ahead(section, label, first, metric)
            shown.append("-" if part is None else f"{100 * section.rows[label][metric].mean:.1f} ({100 * part:+.1f})")
        shown.append(difference(section.over_labels.get(label) if label != first else None, 0))
        lines.append(f"| {section.title} | {label} | {' | '.join(shown)} |")
    return [*lines, ""]


def _mean_places(plan: Plan, found: Sequence[Section]) -> list[str]:
    """Over the sections in which every method has been run."""
    first = plan.methods[0].label
    whole = [section for section in found if all(row[plan.choose].values for row in section.rows.values())]
    if not whole:
        return []
    places = {
        row.label: mean(section.rows[row.label][plan.choose].place + 1 for section in whole) for row in plan.methods
    }
    lines = [f"### Mean place by {plan.choose}, mean difference to {first}", ""]
    lines += ["| | place | " + " | ".join(plan.metrics) + " |", "|---|---|" + "---|" * len(plan.metrics)]
    for label in sorted(places, key=places.__getitem__):
        shown = []
        for metric in plan.metrics:
            known = [one for part in whole if (one := _ahead(part, label, first, metric)) is not None]
            shown.append(f"{100 * mean(known):+.1f}" if known else "-")
        lines.append(f"| {label} | {places[label]:.1f} | {' | '.join(shown)} |")
    return [*lines, ""]


def _ahead(section: Section, method: str, first: str, metric: str) -> float | None:
    """How far a method is ahead of the plan's first one; None if one of the two has no number."""
    one, other = section.rows[method][metric], section.rows[first][metric]
    return one.mean - other.mean if one.values and other.values else None


def latex(plan: Plan, found: list[Section]) -> str:
    lines = []
    for section in found:
        lines += [f"% {section.title}", r"\begin{tabular}{l" + "r" * len(plan.metrics) + "}", r"\toprule"]
        lines += ["method & " + " & ".join(plan.metrics) + r" \\", r"\midrule"]
        for label, row in section.rows.items():
            shown = [
                entry.text(lambda t: rf"\textbf{{{t}}}", lambda t: rf"\underline{{{t}}}") for entry in row.values()
            ]
            lines.append(" & ".join([label, *shown]).replace("±", r"$\pm$").replace("_", r"\_") + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def csv(plan: Plan, found: list[Section]) -> str:
    lines = ["section,method,metric,mean,deviation,seeds,published,low,high"]
    for section in found:
        for label, row in section.rows.items():
            for metric, entry in row.items():
                numbers = entry.values
                middle = f"{entry.mean:.6f}" if numbers else ""
                spread = f"{stdev(numbers):.6f}" if len(numbers) > 1 else ""
                own = "" if entry.published is None else str(entry.published)
                quoted = [f'"{word}"' for word in (section.title, label, metric)]
                lines.append(",".join([*quoted, middle, spread, str(len(numbers)), own, "", ""]))
        for over, differences in (("items", section.over_items), ("labels", section.over_labels)):
            for label, one in differences.items():
                quoted = [f'"{word}"' for word in (section.title, label, f"mAP - {plan.methods[0].label}, over {over}")]
                shown = [f"{one.value:.6f}", "", str(len(one.seeds)), "", f"{one.low:.6f}", f"{one.high:.6f}"]
                lines.append(",".join([*quoted, *shown]))
    return "\n".join(lines) + "\n"


def jsonl(plan: Plan, budget: str, runs: Path, *, paired: bool = False) -> str:
    """One line per finished run: what it was, its numbers (without those of single classes), its time and place.

    `paired`: also what intervals take, so that a run that is added later can be compared with them.
    """
    lines = []
    for cell in cells(plan, budget):
        record = record_of(runs / cell.name)
        if record is not None:
            final = {name: value for name, value in record["metrics"]["final"].items() if name != "per_class"}
            seconds = seconds_of(runs / cell.name)
            what = {"data": cell.data.label, "setting": cell.setting.label, "method": cell.method.label}
            if (held_out := reach(record, OUT_OF_FOLD)) is not None:  # which opponent folds choose
                final["out_of_fold_mAP"] = held_out
            about = {"seconds": round(seconds, 1), "cost": record.get("cost"), "environment": record["environment"]}
            about |= for_intervals(plan, record, runs / cell.name) if paired else {}
            lines.append(json.dumps(what | {"seed": cell.seed, "changes": cell.changes, "final": final} | about))
    return "\n".join(lines)


def for_intervals(plan: Plan, record: dict[str, Any], folder: Path) -> dict[str, Any]:
    """mAP of each resample of the test items, AP of each label and, if the plan pools them, which are rare."""
    kept: dict[str, Any] = {}
    drawn, precision = resampled_map(folder), precision_of(record)
    if drawn is not None:
        kept["resampled_mAP"] = [round(value, 4) for value in drawn.tolist()]
    if precision is not None and len(precision) <= MOST_LABELS:
        kept["average_precision"] = [None if value is None else round(value, 4) for value in precision]
        kept |= {"groups": record["groups"]} if plan.pools else {}
    return kept


def seconds_of(folder: Path) -> float:
    """How long a finished run trained."""
    return float(sum(row.get("seconds", 0.0) for row in _log(folder)))


def _log(folder: Path) -> list[dict[str, Any]]:
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
