"""What came out: mean and deviation over seeds, the best bold, the second underlined, beside the paper's own number."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from raretag.bench.paired import against_first
from raretag.bench.plan import Cell, Plan, cells
from raretag.bench.pooled import differences, interval
from raretag.engine.best import best_epoch
from raretag.metrics.intervals import Difference


@dataclass(frozen=True)
class Entry:
    values: tuple[float, ...]  # one for each finished seed
    published: float | None
    place: int  # 0: the best of its column, 1: the second

    @property
    def mean(self) -> float:
        return mean(self.values)

    def shown(self, best: Callable[[str], str], second: Callable[[str], str]) -> str:
        if not self.values:
            return "-"
        text = f"{100 * self.mean:.1f}" + (f" ± {100 * stdev(self.values):.1f}" if len(self.values) > 1 else "")
        text = best(text) if self.place == 0 else second(text) if self.place == 1 else text
        return text if self.published is None else f"{text} ({self.published:.1f})"


@dataclass(frozen=True)
class Section:
    """One data set in one setting: a row for each method, a column for each metric."""

    title: str
    rows: dict[str, dict[str, Entry]]
    against: dict[str, Difference]  # mAP of a method minus that of the first, if asked for
    by_label: dict[str, np.ndarray]  # AP minus that of the first method, a number a label; for a plan that searches


def sections(plan: Plan, budget: str, runs: Path, *, paired: bool = False) -> list[Section]:
    """What has been run so far. `paired`: also whether a method differs from the first beyond the choice of items."""
    finished = [(cell, final_of(runs / cell.name)) for cell in cells(plan, budget)]
    found = []
    for data in plan.data:
        for setting in plan.settings:
            here = [(cell, final) for cell, final in finished if cell.data == data and cell.setting == setting]
            if all(final is None for _, final in here):
                continue
            columns = {metric: column(plan, here, metric) for metric in plan.metrics}
            rows = {method.label: {m: columns[m][method.label] for m in columns} for method in plan.methods}
            words = [row.label for row, axis in ((data, plan.data), (setting, plan.settings)) if len(axis) > 1]
            compared = [cell for cell, _ in here]
            against = against_first(compared, runs) if paired else {}
            found.append(Section(", ".join(words), rows, against, differences(compared, runs) if plan.choose else {}))
    return found


def column(plan: Plan, here: list[tuple[Cell, Any]], metric: str) -> dict[str, Entry]:
    values: dict[str, tuple[float, ...]] = {method.label: () for method in plan.methods}
    for cell, final in here:
        value = reach(final, plan.metrics[metric])
        if value is not None:
            values[cell.method.label] += (value,)
    order = sorted((label for label, some in values.items() if some), key=lambda label: -mean(values[label]))
    entries = {}
    for method in plan.methods:
        key = ", ".join((here[0][0].data.label, here[0][0].setting.label, metric))
        published = method.published.get(key, method.published.get(metric))
        place = order.index(method.label) if method.label in order else len(order)
        entries[method.label] = Entry(values[method.label], published, place)
    return entries


def markdown(plan: Plan, found: list[Section]) -> str:
    lines = []
    for section in found:
        lines += [f"### {section.title}", ""] if section.title else []
        heads = [*plan.metrics, *([f"mAP - {plan.methods[0].label}"] if section.against else [])]
        lines += ["| method | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
        for label, row in section.rows.items():
            shown = [entry.shown(lambda t: f"**{t}**", lambda t: f"<u>{t}</u>") for entry in row.values()]
            shown += [difference(section.against.get(label))] if section.against else []
            lines.append(f"| {label} | " + " | ".join(shown) + " |")
        lines.append("")
    return "\n".join(lines)


def difference(found: Difference | None) -> str:
    return "" if found is None else points(found.value, found.low, found.high)


def points(value: float, low: float, high: float) -> str:
    """With the 95 % interval; bold where it does not hold 0."""
    text = f"{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"**{text}**" if low > 0 or high < 0 else text


def pooled(plan: Plan, budget: str, runs: Path) -> str:
    """The tail of several data sets together, against the first method: a table for each pool of the plan."""
    lines = []
    for title, sets in plan.pools.items():
        here = [cell for cell in cells(plan, budget) if cell.data.label in sets]
        columns = {
            setting.label: found
            for setting in plan.settings
            if (found := differences([cell for cell in here if cell.setting == setting], runs, "tail"))
        }
        if not columns:
            continue
        lines += [f"### {title}, tail: AP - {plan.methods[0].label}, paired over labels", ""]
        lines += ["| method | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
        for method in plan.methods[1:]:
            found = [column.get(method.label) for column in columns.values()]
            shown = ["-" if one is None else f"{points(*interval(one))} ({len(one)} labels)" for one in found]
            lines.append(f"| {method.label} | " + " | ".join(shown) + " |")
        lines.append("")
    return "\n".join(lines)


def latex(plan: Plan, found: list[Section]) -> str:
    lines = []
    for section in found:
        lines += [f"% {section.title}", r"\begin{tabular}{l" + "r" * len(plan.metrics) + "}", r"\toprule"]
        lines += ["method & " + " & ".join(plan.metrics) + r" \\", r"\midrule"]
        for label, row in section.rows.items():
            shown = [
                entry.shown(lambda t: rf"\textbf{{{t}}}", lambda t: rf"\underline{{{t}}}") for entry in row.values()
            ]
            lines.append(" & ".join([label, *shown]).replace("±", r"$\pm$").replace("_", r"\_") + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def csv(plan: Plan, found: list[Section]) -> str:
    lines = ["section,method,metric,mean,deviation,seeds,published"]
    for section in found:
        for label, row in section.rows.items():
            for metric, entry in row.items():
                numbers = entry.values
                middle = f"{entry.mean:.6f}" if numbers else ""
                spread = f"{stdev(numbers):.6f}" if len(numbers) > 1 else ""
                own = "" if entry.published is None else str(entry.published)
                quoted = [f'"{word}"' for word in (section.title, label, metric)]
                lines.append(",".join([*quoted, middle, spread, str(len(numbers)), own]))
        for label, apart in section.against.items():
            quoted = [f'"{word}"' for word in (section.title, label, f"mAP - {plan.methods[0].label}")]
            lines.append(",".join([*quoted, f"{apart.value:.6f}", f"{apart.standard_error:.6f}", "", ""]))
    return "\n".join(lines) + "\n"


def jsonl(plan: Plan, budget: str, runs: Path) -> str:
    """A line for each finished run: what it was, its numbers (but for those of single classes), its time and place."""
    lines = []
    for cell in cells(plan, budget):
        path = runs / cell.name / "record.json"
        if path.is_file():
            record = json.loads(path.read_text(encoding="utf-8"))
            final = {name: value for name, value in record["metrics"]["final"].items() if name != "per_class"}
            seconds = sum(row.get("seconds", 0.0) for row in _log(runs / cell.name))
            what = {"data": cell.data.label, "setting": cell.setting.label, "method": cell.method.label}
            about = {"seconds": round(seconds, 1), "environment": record["environment"]}
            lines.append(json.dumps(what | {"seed": cell.seed, "changes": cell.changes, "final": final} | about))
    return "\n".join(lines)


def _log(folder: Path) -> list[dict[str, Any]]:
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def final_of(folder: Path) -> dict[str, Any] | None:
    record = folder / "record.json"
    if not record.is_file():
        return None
    found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    history = found["metrics"].get("epochs")
    stopped_early = found.get("config", {}).get("train", {}).get("patience") is not None
    kept = history[best_epoch(history) if stopped_early else -1] if history else {}
    final: dict[str, Any] = found["metrics"]["final"] | {"validation": kept.get("validation")}  # to choose by
    return final


def reach(tree: Any, path: str) -> float | None:
    for step in path.split("."):
        tree = tree.get(step) if isinstance(tree, dict) else None
    return None if tree is None else float(tree)
