"""For a plan that searches: what one column chooses in each section, and what each method has over all of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import mean

from raretag.bench.plan import Plan
from raretag.bench.pooled import interval
from raretag.bench.table import Section, points


def ahead(section: Section, method: str, first: str, metric: str) -> float | None:
    """Of the plan's first method; None if one of the two has no number."""
    one, other = section.rows[method][metric], section.rows[first][metric]
    return one.mean - other.mean if one.values and other.values else None


def markdown(plan: Plan, found: Sequence[Section]) -> str:
    return "\n".join([*of_each_section(plan, found), *over_all_sections(plan, found)])


def of_each_section(plan: Plan, found: Sequence[Section]) -> list[str]:
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
            part = ahead(section, label, first, metric)
            shown.append("-" if part is None else f"{100 * section.rows[label][metric].mean:.1f} ({100 * part:+.1f})")
        apart = section.by_label.get(label)
        shown.append("" if apart is None or label == first else points(*interval(apart)))
        lines.append(f"| {section.title} | {label} | {' | '.join(shown)} |")
    return [*lines, ""]


def over_all_sections(plan: Plan, found: Sequence[Section]) -> list[str]:
    """Of those where every method has been run."""
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
            known = [one for part in whole if (one := ahead(part, label, first, metric)) is not None]
            shown.append(f"{100 * mean(known):+.1f}" if known else "-")
        lines.append(f"| {label} | {places[label]:.1f} | {' | '.join(shown)} |")
    return [*lines, ""]
