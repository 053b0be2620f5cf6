"""Put the tables of finished plans into their pages: `python docs/benchmarks/refresh.py PLAN...`.

Runs are read from runs/bench/PLAN-small, or from the folder of a word `PLAN=FOLDER`. A run whose folder is gone keeps
the numbers of its line in records/PLAN.jsonl if the plan still has it with the same settings; it has no part in paired
differences. A page keeps its own words; what stands between the two marks is replaced. Beside it lie PLAN.csv with the
same numbers and records/PLAN.jsonl with a line for each run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from raretag.bench import opponents, results, table
from raretag.bench import plan as plans
from raretag.bench.estimate import COSTS
from raretag.runs.cost import FILE as COST

HERE = Path(__file__).parent
BEGIN, END = "<!-- table: made by refresh.py -->", "<!-- end of table -->"


def refresh(name: str, budget: str = "small", runs: Path | None = None) -> None:
    runs = runs or HERE.parent.parent / "runs" / "bench" / f"{name}-{budget}"
    with TemporaryDirectory() as together:
        beside_earlier(name, budget, runs, Path(together))
        write(name, budget, Path(together))


def beside_earlier(name: str, budget: str, runs: Path, together: Path) -> None:
    """Fill a folder with links to the runs that are there, and with what was recorded of those that are not."""
    earlier = {}
    records = HERE / "records" / f"{name}.jsonl"
    for line in records.read_text(encoding="utf-8").splitlines() if records.is_file() else ():
        record = json.loads(line)
        earlier[json.dumps([record[part] for part in ("data", "setting", "method", "seed", "changes")])] = record
    for cell in plans.cells(plans.load(name), budget):
        what = [cell.data.label, cell.setting.label, cell.method.label, cell.seed, cell.changes]
        record = earlier.get(json.dumps(what))
        if (runs / cell.name / "record.json").is_file():
            (together / cell.name).symlink_to((runs / cell.name).resolve())
        elif record is not None:
            final = record["final"] | {"per_class": {"average_precision": []}}
            learned = {"learned": {"out_of_fold_mAP": record["final"].get("out_of_fold_mAP")}}
            about = {"metrics": {"final": final}, "method": learned, "environment": record["environment"]}
            (together / cell.name).mkdir()
            written = {"record.json": about, COST: record["cost"], "metrics.jsonl": {"seconds": record["seconds"]}}
            for file, content in written.items():
                (together / cell.name / file).write_text(json.dumps(content), encoding="utf-8")


def write(name: str, budget: str, runs: Path) -> None:
    plan = plans.load(name)
    found = results.sections(plan, budget, runs, paired=True)
    lines = table.jsonl(plan, budget, runs)
    records = [json.loads(line) for line in lines.splitlines()]
    (HERE / "records").mkdir(exist_ok=True)
    (HERE / "records" / f"{name}.jsonl").write_text(lines + "\n", encoding="utf-8")
    (HERE / f"{name}.csv").write_text(table.csv(plan, found), encoding="utf-8")
    keep_costs(name, records)

    page = HERE / f"{name}.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else first_page(name, plan)
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    hours = sum(record["seconds"] for record in records) / 3600
    seeds = sorted({record["seed"] for record in records})
    made = f"{len(records)} runs, seeds {', '.join(map(str, seeds))}, {hours:.1f} hours of training in all."
    made += f" Numbers: [{name}.csv]({name}.csv); runs: [records/{name}.jsonl](records/{name}.jsonl)."
    rows = table.chosen(plan, found) if plan.choose else table.markdown(plan, found)  # a search has many rows
    summary = opponents.against_opponents(plan, budget, runs, table.points)
    pooled = table.pooled(plan, budget, runs)
    body = "\n".join([summary, pooled, rows] if summary else [rows, pooled]).strip()
    page.write_text(f"{before}{BEGIN}\n\n{made}\n\n{body}\n\n{END}{after}", encoding="utf-8")


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
