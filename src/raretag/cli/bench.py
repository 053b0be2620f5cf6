"""`raretag bench`: run a plan, or make the table of what has been run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raretag.cli import progress
from raretag.cli.progress import give, screen
from raretag.core.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from raretag.bench.plan import Cell, Plan
    from raretag.bench.runner import Outcome

FORMATS = ("markdown", "csv", "latex", "jsonl")


def bench(
    plan: Annotated[str, typer.Argument(help="A plan by name (see `raretag list plans`), or a YAML file.")],
    budget: Annotated[str, typer.Option(help="How long the runs are: small or paper.")] = "small",
    only: Annotated[
        list[str] | None,
        typer.Option(help='Run only these data sets, settings, methods or seeds, e.g. --only BCE --only "seed 0".'),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs at the same time.")] = 2,
    threads: Annotated[int, typer.Option(min=1, help="Number of threads per run.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder of the runs; default: runs/bench/PLAN-BUDGET.")] = None,
    restore: Annotated[
        list[Path] | None,
        typer.Option(
            help="Do not train again what is in this file of records, e.g. docs/benchmarks/records/PLAN.jsonl."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="For `bench extreme`: a folder of NAME.train.svm and NAME.test.svm.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="Format of the table: markdown, csv, latex, or jsonl with one line per run.")
    ] = "markdown",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the runs and an estimate of their time; takes at most 30 s.")
    ] = False,
    table: Annotated[bool, typer.Option("--table", help="Only print the table of the runs that are finished.")] = False,
    paired: Annotated[
        bool,
        typer.Option(
            "--paired",
            help="Also print the difference of each method's mAP from the first one's, by resampling test items.",
        ),
    ] = False,
) -> None:
    """Run a grid of methods, data sets and seeds, and print the table. Can be stopped and continued at any time."""
    from raretag.bench import extreme, runner
    from raretag.bench import plan as plans

    if plan == extreme.NAME:
        folder = out or Path("runs") / "bench" / extreme.NAME
        if not table:
            extreme.run(folder, only or [], screen(error=True).print, data=data)
        screen().print(extreme.table(folder))
        give({"plan": plan, "folder": folder, "table": extreme.table(folder)})
        return
    if data is not None:
        raise UserError(f"--data {data} is for `raretag bench {extreme.NAME}`; a plan names its data itself")
    if form not in FORMATS:
        raise UserError(f"there is no format '{form}'; expected one of {', '.join(FORMATS)}")
    found = plans.load(plan)
    grid = plans.cells(found, budget, only or [])
    runs = out or Path("runs") / "bench" / f"{Path(plan).stem}-{budget}"
    console = screen(error=True)
    if restore:
        from raretag.bench.restore import restore as restored_from

        console.print(f"{len(restored_from(grid, restore, runs))} of {len(grid)} runs are restored from records")
    if dry_run:
        print_estimate(console, grid, runs, jobs, threads, plan if budget == "small" else "")
        give({"plan": plan, "folder": runs, "cells": [cell.name for cell in grid]})
        return
    failures = {} if table else run_grid(console, grid, runs, jobs, threads, alone=bool(found.costs))
    screen().print(table_of(found, budget, runs, form, paired=paired))
    missing = sum(not runner.is_done(runs / cell.name) for cell in grid)
    if missing:
        console.print(f"{missing} of {len(grid)} runs are not finished; the same command continues them")
    for absent, outcome in failures.items():
        if outcome.data_absent:
            console.print(f"{absent} was not run: {outcome.error}")
    broken = {name: outcome.error for name, outcome in failures.items() if not outcome.data_absent}
    if progress.as_json:
        finished = [json.loads(line) for line in table_of(found, budget, runs, "jsonl", paired=False).splitlines()]
        give({"plan": plan, "folder": runs, "unfinished": missing, "failed": broken, "runs": finished})
    if broken:
        name, error = next(iter(broken.items()))
        raise UserError(f"{len(broken)} runs failed, first {name}: {error}")


def table_of(plan: Plan, budget: str, runs: Path, form: str, *, paired: bool) -> str:
    from raretag.bench import opponents, results, table

    if form == "jsonl":
        return table.jsonl(plan, budget, runs)
    found = results.sections(plan, budget, runs, paired=paired)
    if form != "markdown":
        return {"csv": table.csv, "latex": table.latex}[form](plan, found)
    parts = [opponents.against_opponents(plan, budget, runs, table.points)] if paired and plan.opponents else []
    parts += [table.markdown(plan, found)]
    parts += [table.pooled(plan, budget, runs)] if plan.pools else []
    parts += [table.chosen(plan, found)] if plan.choose and found else []
    return "\n".join(parts)


def run_grid(
    console: Console, grid: list[Cell], runs: Path, jobs: int, threads: int, *, alone: bool
) -> dict[str, Outcome]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from raretag.bench import runner

    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:
        done = sum(runner.is_done(runs / cell.name) for cell in grid)
        task = bars.add_task("runs", total=len(grid), completed=done)

        def on_end(cell: Cell, seconds: float, outcome: Outcome) -> None:
            words = f"last: {cell.method.label}, seed {cell.seed}, {seconds:.0f} s"
            bars.update(task, advance=1, description=words)
            if outcome.error and not outcome.data_absent:
                bars.console.print(f"{cell.name}: {outcome.error}")

        return runner.run(grid, runs, jobs=jobs, threads=threads, on_end=on_end, alone=alone)


def print_estimate(console: Console, grid: list[Cell], runs: Path, jobs: int, threads: int, plan: str) -> None:
    """The cells, and how long the remaining ones will take; nothing is trained or written."""
    from raretag.bench import runner
    from raretag.bench.estimate import estimate

    for cell in grid:
        state = "done" if runner.is_done(runs / cell.name) else "to run"
        screen().print(f"{state:7s} {cell.data.label} | {cell.setting.label} | {cell.method.label} | seed {cell.seed}")
    left = [cell for cell in grid if not runner.is_done(runs / cell.name)]
    screen().print(estimate(grid, runs, threads, console.print, plan=plan).sentence(left, len(grid), jobs))
