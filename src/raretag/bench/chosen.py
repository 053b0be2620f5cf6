"""For a plan that searches: what one column chooses, in each section and over all, and what it has in the others."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from raretag.bench.plan import Plan
from raretag.bench.table import Section


def ahead(section: Section, method: str, first: str, metric: str) -> float | None:
    """Of the plan's first method; None if one of the two has no number."""
    one, other = section.rows[method][metric], section.rows[first][metric]
    return one.mean - other.mean if one.values and other.values else None


def markdown(plan: Plan, found: Sequence[Section]) -> str:
    first = plan.methods[0].label
    heads = f"{' | '.join(plan.metrics)} |\n|---|---|" + "---|" * len(plan.metrics)
    lines = [f"### Chosen by {plan.choose}, with the difference to {first}", "", f"| | chosen | {heads}"]
    for section in found:
        if not any(row[plan.choose].values for row in section.rows.values()):
            continue
        label, row = min(section.rows.items(), key=lambda item: item[1][plan.choose].place)
        more = {metric: ahead(section, label, first, metric) for metric in plan.metrics}
        shown = [
            "-" if part is None else f"{100 * row[metric].mean:.1f} ({100 * part:+.1f})"
            for metric, part in more.items()
        ]
        lines.append(f"| {section.title} | {label} | {' | '.join(shown)} |")
    whole = [section for section in found if all(row[plan.choose].values for row in section.rows.values())]
    if whole:
        lines += ["", f"### Mean place by {plan.choose}, mean difference to {first}", "", f"| | place | {heads}"]
        places = {
            row.label: mean(section.rows[row.label][plan.choose].place + 1 for section in whole) for row in plan.methods
        }
        for label in sorted(places, key=places.__getitem__):
            shown = []
            for metric in plan.metrics:
                known = [one for part in whole if (one := ahead(part, label, first, metric)) is not None]
                shown.append(f"{100 * mean(known):+.1f}" if known else "-")
            lines.append(f"| {label} | {places[label]:.1f} | {' | '.join(shown)} |")
    return "\n".join([*lines, ""])
