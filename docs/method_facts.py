"""What the page of a method says beside its docstring: when to use it, what it costs, where it won and lost.

The sentences of "when" are in when.yaml; all numbers come from benchmarks/results and docs/benchmarks/*.csv.
"""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from raretag.bench.plan import load
from raretag.cli.listing import NEEDS
from raretag.methods import NEEDS as OF_METHODS

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "docs" / "benchmarks"
FITTED = {
    "solvers": "It is fitted at once, without training steps. `cost.json` of a run has its CPU seconds and its memory; "
    "[the benchmark of the default](../benchmarks/default.md) compares the costs of solvers.",
    "ranking": "It is fitted at once, on sparse rows. [Very many labels](../large-labels.md#numbers) has CPU seconds, "
    "memory and the size of the model for up to a million labels.",
}


class Standing(NamedTuple):
    """How a method did in one benchmark: sections in which it ran, was best, and how far it was from the best."""

    page: str
    sections: int
    best: int
    mean_gap: float  # in mAP, 0 where it was the best
    largest_gap: float


def sections(room: str, name: str) -> list[str]:
    """The three sections of a method's page, in Markdown."""
    when = yaml.safe_load((ROOT / "docs" / "when.yaml").read_text(encoding="utf-8"))
    return [
        "## When to use it",
        when[name],
        "## What it costs",
        cost(room, name),
        "## Where it won and lost",
        won(name),
    ]


def cost(room: str, name: str) -> str:
    if room in FITTED:
        return FITTED[room]
    measured = json.loads((ROOT / "benchmarks" / "results" / "step_cost.json").read_text(encoding="utf-8"))
    needs = next(NEEDS[kind] for kind, names in OF_METHODS.items() if name in names)
    needs = "It is one of the " + needs[0].lower() + needs[1:] + "."
    if name not in measured["methods"]:
        return f"Not measured yet. {needs}"
    times = measured["methods"][name]["cost"]
    return (
        f"A whole training step takes {times:.2f} times as long as with binary cross entropy "
        f"(`python benchmarks/step_cost.py`, one thread). {needs}"
    )


def won(name: str) -> str:
    found = standings().get(name, [])
    if not found:
        return "It has not been compared with other methods in a benchmark of this repository yet."
    total, best = sum(one.sections for one in found), sum(one.best for one in found)
    times = {0: "never", 1: "once"}.get(best, f"{best} times")
    head = (
        f"It ran in {total} sections (a data set with a setting of its labels) of {len(found)} benchmarks and had the "
        f"best mean test mAP {times}, alone or tied. The gap is the distance to the best row of the section, in points "
        "of mAP; if a benchmark has several rows of this method, the best of them counts."
    )
    rows = [
        f"| [{one.page}](../benchmarks/{one.page}.md) | {one.sections} | {one.best} | {100 * one.mean_gap:.1f} "
        f"| {100 * one.largest_gap:.1f} |"
        for one in found
    ]
    return "\n".join(
        [head, "", "| benchmark | sections | best | mean gap | largest gap |", "|---|---:|---:|---:|---:|", *rows]
    )


@cache
def standings() -> dict[str, list[Standing]]:
    """By method, from the table beside each page."""
    found: dict[str, list[Standing]] = {}
    for file in sorted(TABLES.glob("*.csv")):
        plan = load(file.stem.replace("-", "_"))
        columns = {column for column, where in plan.metrics.items() if where == "mAP.total"}
        names = {row.label: row.set.get("method.name", "") for row in plan.methods}
        references = {row.label for row in plan.methods if "data.hide" in row.set}  # these see labels the others do not
        scores: dict[str, dict[str, float]] = {}  # section -> method (or label of a peer) -> its best row
        for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines()):
            if row["metric"] in columns and row["mean"] and row["method"] not in references:
                name = names.get(row["method"], "") or row["method"]
                of = scores.setdefault(row["section"], {})
                of[name] = max(of.get(name, 0.0), float(row["mean"]))
        for name in sorted({name for of in scores.values() for name in of}):
            gaps = [max(of.values()) - of[name] for of in scores.values() if name in of and len(of) > 1]
            if gaps:
                best, mean = sum(gap == 0 for gap in gaps), sum(gaps) / len(gaps)
                found.setdefault(name, []).append(Standing(file.stem, len(gaps), best, mean, max(gaps)))
    return found
