"""Put the tables of finished plans into their pages: `python docs/benchmarks/refresh.py PLAN...`.

Runs are read from runs/bench/PLAN-small, or from the folder of a word `PLAN=FOLDER`. A page keeps its own words; what
stands between the two marks is replaced. Beside it lie PLAN.csv with the same numbers and records/PLAN.jsonl with a
line for each run. Published runs whose folders are gone are restored from there (bench/restore.py), so a page never
loses a row; an interval that only their folders could give again is kept as it was published.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from raretag.bench import opponents, restore, results, table
from raretag.bench import plan as plans
from raretag.bench.estimate import COSTS
from raretag.bench.results import Apart, Section
from raretag.bench.runner import is_done

HERE = Path(__file__).parent
BEGIN, END = "<!-- table: made by refresh.py -->", "<!-- end of table -->"


def refresh(name: str, budget: str = "small", runs: Path | None = None) -> None:
    with TemporaryDirectory() as folder:
        write_page(name, budget, with_restored(name, budget, runs, Path(folder)))


def with_restored(name: str, budget: str, runs: Path | None, folder: Path) -> Path:
    """A folder of the finished runs and of the published ones that are gone; their own folder stays as it is."""
    runs = runs or HERE.parent.parent / "runs" / "bench" / f"{name}-{budget}"
    published = HERE / "records" / f"{name}.jsonl"
    grid = plans.cells(plans.load(name), budget)
    done = [cell for cell in grid if is_done(runs / cell.name)]
    for cell in done:
        (folder / cell.name).symlink_to((runs / cell.name).absolute())
    if published.is_file():
        known = {settings for settings, _ in restore.lines_of(published)}
        lost = known - {restore.settings_of(cell.changes, cell.seed) for cell in grid}
        if lost:
            print(f"{name}: {len(lost)} published runs leave the page, as the plan has no cell with their settings")
        restore.restore(grid, [published], folder)
    return folder


def write_page(name: str, budget: str, runs: Path) -> None:
    plan = plans.load(name)
    page, published = HERE / f"{name}.md", HERE / "records" / f"{name}.jsonl"
    text = page.read_text(encoding="utf-8") if page.is_file() else first_page(name, plan)
    grid = plans.cells(plan, budget)
    restored = [cell for cell in grid if restore.is_restored(runs / cell.name)]
    found = results.sections(plan, budget, runs, paired=True)
    found = [with_published(section, plan, restored, text) for section in found]
    lines = table.jsonl(plan, budget, runs, paired=True)
    records = [json.loads(line) for line in lines.splitlines()]
    published.parent.mkdir(exist_ok=True)
    published.write_text(lines + "\n", encoding="utf-8")
    (HERE / f"{name}.csv").write_text(table.csv(plan, found), encoding="utf-8")
    keep_costs(name, records)

    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    minutes = sum(record["seconds"] for record in records) / 60
    time = f"{minutes / 60:.1f} hours" if minutes >= 90 else f"{minutes:.0f} minutes"
    seeds = sorted({record["seed"] for record in records})
    made = f"{len(records)} runs, {table.seeds_text(seeds)}, {time} of training in all."
    made += f" Numbers: [{name}.csv]({name}.csv); runs: [records/{name}.jsonl](records/{name}.jsonl)."
    if restored:
        made += f"\n\n{len(restored)} of the runs were not run again with this version: {told(restored, grid)}."
    rows = table.chosen(plan, found) if plan.choose else table.markdown(plan, found)  # a search has many rows
    summary = opponents.against_opponents(plan, budget, runs, table.points)
    pooled = table.pooled(plan, budget, runs)
    body = "\n".join([summary, pooled, rows] if summary else [rows, pooled]).strip()
    page.write_text(f"{before}{BEGIN}\n\n{made}\n\n{body}\n\n{END}{after}", encoding="utf-8")


def told(restored: Sequence[plans.Cell], grid: Sequence[plans.Cell]) -> str:
    """Which cells these are, by data set and seed."""
    parts = []
    for data in dict.fromkeys(cell.data.label for cell in restored):
        seeds: dict[str, tuple[int, ...]] = {}
        for cell in restored:
            if cell.data.label == data:
                seeds[cell.method.label] = tuple(sorted({cell.seed, *seeds.get(cell.method.label, ())}))
        rows = dict.fromkeys(cell.method.label for cell in grid)
        for which in dict.fromkeys(seeds.values()):
            labels = [label for label, one in seeds.items() if one == which]
            others = [label for label in rows if label not in labels]
            words = "all rows" if not others else ", ".join(labels)
            if 0 < len(others) < len(labels) / 2:
                words = f"all rows but {', '.join(others)}"
            parts.append(f"{data}: {words} ({table.seeds_text(which)})")
    return "; ".join(parts)


INTERVAL = re.compile(r"([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\]")


def with_published(section: Section, plan: plans.Plan, restored: Sequence[plans.Cell], text: str) -> Section:
    """With the intervals that the page has of this section, where all runs of a row and of the first are restored."""
    seeds: dict[str, tuple[int, ...]] = {}
    for cell in restored:
        names = [row.label for row, axis in ((cell.data, plan.data), (cell.setting, plan.settings)) if len(axis) > 1]
        if ", ".join(names) == section.title:
            seeds[cell.method.label] = (*seeds.get(cell.method.label, ()), cell.seed)
    whole = {label for label, row in section.rows.items() if _runs(row) == len(seeds.get(label, ()))}
    if plan.methods[0].label not in whole:
        return section
    kept: dict[str, dict[str, Apart]] = {"items": dict(section.over_items), "labels": dict(section.over_labels)}
    for label, over, match in published_intervals(section.title, text):
        if label in whole and label not in kept[over]:
            tiny = 1e-9 if match.string.startswith("**") else 0.0  # a bold -0.0 is below 0
            value, low, high = (float(number) / 100 + float(f"{number[0]}{tiny}") for number in match.groups())
            kept[over][label] = Apart(value, low, high, seeds[label])
    return dataclasses.replace(section, over_items=kept["items"], over_labels=kept["labels"])


def _runs(row: dict[str, results.Entry]) -> int:
    return max(len(entry.values) for entry in row.values())


def published_intervals(title: str, text: str) -> Iterator[tuple[str, str, re.Match[str]]]:
    """Method, "items" or "labels", and the interval of each such cell in a section of a page."""
    here, heads = not title, []
    for line in text.partition(BEGIN)[2].partition(END)[0].splitlines():
        if line.startswith("### "):
            here = line == f"### {title}"
        words = [word.strip() for word in line.removeprefix("|").removesuffix("|").split(" | ")]
        if line.startswith("| method |"):
            heads = words
        elif here and line.startswith("| ") and heads:
            for head, word in zip(heads, words, strict=False):
                match = INTERVAL.search(word)
                if match and (head.startswith("mAP - ") or head == "over labels"):
                    yield words[0], "labels" if head == "over labels" else "items", match


def keep_costs(name: str, records: list[dict[str, Any]]) -> None:
    """What a run of each kind took, for `raretag bench PLAN --dry-run`."""
    kinds: dict[str, list[float]] = {}
    for record in records:
        kinds.setdefault(f"{record['method']} on {record['data']}", []).append(record["seconds"])
    known = json.loads(COSTS.read_text(encoding="utf-8")) if COSTS.is_file() else {}
    known[name] = {kind: round(sum(some) / len(some), 1) for kind, some in sorted(kinds.items())}
    COSTS.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", encoding="utf-8")


def first_page(name: str, plan: plans.Plan) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in plan.budgets["small"].items())
    return (
        f"# {plan.title}\n\n    raretag bench {name}\n\n{plan.source.rstrip('.')}. Budget `small`: {settings}.\n\n"
        "Mean ± standard deviation over seeds in %, best bold, second underlined, the paper's own number in brackets.\n"
        "Groups are defined by training positives: head 100 and more, tail below 20. "
        '"F1 tuned": at thresholds chosen on\n'
        "validation. The last two columns are the difference in mAP to the first row with its 95 % interval, paired\n"
        f"over test items (bootstrap, mean of the seeds) and over labels; bold: 0 is outside.\n\n{BEGIN}\n{END}\n"
    )


if __name__ == "__main__":
    for word in sys.argv[1:]:
        name, _, folder = word.partition("=")
        refresh(name, runs=Path(folder) if folder else None)
