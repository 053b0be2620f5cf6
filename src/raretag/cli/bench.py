"""`raretag bench`: run a plan, or make the table of what has been run."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from raretag.bench import chosen, runner, table
from raretag.bench import plan as plans
from raretag.bench.plan import Cell, Plan
from raretag.bench.runner import Answer
from raretag.cli.screen import screen
from raretag.core.errors import UserError

FORMATS = {"markdown": table.markdown, "csv": table.csv, "latex": table.latex}


def bench_plan(
    name: str,
    budget: str,
    only: list[str],
    jobs: int,
    threads: int,
    out: Path | None,
    form: str,
    *,
    dry_run: bool,
    only_table: bool,
    paired: bool,
) -> None:
    if form not in (*FORMATS, "jsonl"):
        raise UserError(f"there is no format '{form}'; expected one of {', '.join(FORMATS)}, jsonl")
    plan = plans.load(name)
    grid = plans.cells(plan, budget, only)
    runs = out or Path("runs") / "bench" / f"{Path(name).stem}-{budget}"
    console = screen(error=True)
    if dry_run:
        estimate(console, plan, grid, runs, jobs, threads)
        return
    failures = {} if only_table else work(console, grid, runs, jobs, threads)
    if form == "jsonl":
        print(table.jsonl(plan, budget, runs))
    else:
        found = table.sections(plan, budget, runs, paired=paired)
        print(FORMATS[form](plan, found))
        if form == "markdown" and plan.pools:
            print(table.pooled(plan, budget, runs))
        if form == "markdown" and plan.choose and found:
            print(chosen.markdown(plan, found))
    missing = sum(not runner.is_done(runs / cell.name) for cell in grid)
    if missing:
        console.print(f"{missing} of {len(grid)} runs are not finished; the same command goes on with them")
    for data, answer in failures.items():
        if answer.absent:
            console.print(f"{data} was not run: {answer.complaint}")
    broken = {name: answer.complaint for name, answer in failures.items() if not answer.absent}
    if broken:
        name, complaint = next(iter(broken.items()))
        raise UserError(f"{len(broken)} runs failed, first {name}: {complaint}")


def work(console: Console, grid: list[Cell], runs: Path, jobs: int, threads: int) -> dict[str, Answer]:
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        done = sum(runner.is_done(runs / cell.name) for cell in grid)
        task = progress.add_task("runs", total=len(grid), completed=done)

        def tell(cell: Cell, seconds: float, answer: Answer) -> None:
            progress.update(
                task, advance=1, description=f"last: {cell.method.label}, seed {cell.seed}, {seconds:.0f} s"
            )
            if answer.complaint and not answer.absent:
                progress.console.print(f"{cell.name}: {answer.complaint}")

        return runner.run(grid, runs, jobs=jobs, threads=threads, tell=tell)


def estimate(console: Console, plan: Plan, grid: list[Cell], runs: Path, jobs: int, threads: int) -> None:
    """The cells, and how long the ones that are left will take, by a short run of each method on each data set."""
    import tempfile

    for cell in grid:
        state = "done" if runner.is_done(runs / cell.name) else "to run"
        print(f"{state:7s} {cell.data.label} | {cell.setting.label} | {cell.method.label} | seed {cell.seed}")
    left = [cell for cell in grid if not runner.is_done(runs / cell.name)]
    labels = [f"{cell.method.label} on {cell.data.label}" for cell in left]
    seconds: dict[str, float] = {}
    failed: set[str] = set()  # data that is absent, and methods that do not run on theirs
    worker = runner.Worker(threads)
    with tempfile.TemporaryDirectory() as folder:
        for cell, label in zip(left, labels, strict=True):
            if label in seconds or failed & {label, cell.data.label}:
                continue
            spent, answer = runner.calibrate(cell, Path(folder) / str(len(seconds) + len(failed)), worker)
            if answer.complaint:
                subject = cell.data.label if answer.absent else label
                failed.add(subject)
                console.print(f"{subject}: {answer.complaint}")
            else:
                seconds[label] = spent
                console.print(f"{label}: about {spent:.0f} s a run")
    worker.close()
    cannot = sum(label not in seconds for label in labels)
    total = sum(seconds.get(label, 0.0) for label in labels) / jobs
    print(
        f"{len(left)} of {len(grid)} runs to do, about {total / 60:.0f} minutes with {jobs} jobs"
        + (f", without the {cannot} that cannot run" if cannot else "")
    )
