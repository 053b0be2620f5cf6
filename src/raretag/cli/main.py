"""The `raretag` command."""

from __future__ import annotations

import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from raretag import __version__
from raretag.cli import using
from raretag.cli.commands import Commands
from raretag.core.errors import UserError

app = typer.Typer(
    cls=Commands,
    help="Multi-label classification when some tags are rare and many tags are missing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Room(str, Enum):
    methods = "methods"
    data = "data"
    models = "models"
    samplers = "samplers"
    plans = "plans"
    figures = "figures"


def main() -> None:
    """A user's mistake is one line on standard error and exit code 2; a traceback is our own mistake."""
    # Threads that wait must sleep: when another program holds a core, spinning makes a training step 30 times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    except UserError as error:
        print(f"raretag: {error}", file=sys.stderr)
        sys.exit(2)


def _version(asked: bool) -> None:
    if asked:
        print(f"raretag {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("list")
def list_(
    room: Annotated[Room, typer.Argument(help="What to list.")] = Room.methods,
    plain: Annotated[bool, typer.Option("--plain", help="Bare names, one a line.")] = False,
) -> None:
    """List methods, data sets, models, samplers, plans or figures."""
    from raretag.cli.listing import show

    show(room.value, plain=plain)


@app.command("inspect")
def inspect_(
    data: Annotated[str, typer.Argument(help="A data set by name, or a file.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=C", help="Change one setting, e.g. --set data.labels=tags."),
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the distribution into this PNG, SVG or PDF.")] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="Write the numbers into this file.")] = None,
    recommend: Annotated[
        bool, typer.Option("--recommend", help="Try a few methods on folds of the training items, and name one.")
    ] = False,
    minutes: Annotated[float | None, typer.Option(help="Time for --recommend; default: 5.")] = None,
) -> None:
    """Look at the labels of a data set before training."""
    from raretag.cli.inspect import inspect_data

    if minutes is not None and not recommend:
        raise UserError(f"--minutes {minutes:g} was given without --recommend, whose time it is")
    inspect_data(data, set_ or [], picture, json_, (5.0 if minutes is None else minutes) if recommend else None)


@app.command()
def bench(
    plan: Annotated[str, typer.Argument(help="A plan by name (see `raretag list plans`), or a YAML file.")],
    budget: Annotated[str, typer.Option(help="small or paper: how long runs are, as the plan says.")] = "small",
    only: Annotated[
        list[str] | None,
        typer.Option(help='Only these data, settings, methods or seeds, e.g. --only BCE --only "seed 0".'),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 2,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each run.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder of the runs; default: runs/bench/PLAN-BUDGET.")] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format", help="Of the table: markdown, csv, latex, or jsonl for a line of numbers for each run."
        ),
    ] = "markdown",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the runs and an estimate of the time.")] = False,
    table: Annotated[bool, typer.Option("--table", help="Only the table of what has been run.")] = False,
    paired: Annotated[
        bool, typer.Option("--paired", help="Also each method's mAP against the first one's, resampling test items.")
    ] = False,
) -> None:
    """Run a grid of methods, data sets and seeds, and print the table. Can be stopped and continued at any time."""
    from raretag.cli.bench import bench_plan

    bench_plan(plan, budget, only or [], jobs, threads, out, form, dry_run=dry_run, only_table=table, paired=paired)


@app.command()
def figure(
    name: Annotated[str, typer.Argument(help="By name or by the paper's number, as plm-4: `raretag list figures`.")],
    runs: Annotated[list[str] | None, typer.Argument(help="Run folders; for drawings of data also a data set.")] = None,
    out: Annotated[Path, typer.Option(help="A PNG, SVG or PDF.")] = Path("figure.png"),
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="A=B", help="Change an option of the drawing, e.g. bins=20.")
    ] = None,
) -> None:
    """Draw a figure of the papers from runs."""
    from raretag.cli.figure import draw_figure

    draw_figure(name, runs or [], out, set_ or [])


@app.command()
def train(
    run: Annotated[Path | None, typer.Argument(help="With --resume: the run folder to continue.")] = None,
    data: Annotated[
        str | None, typer.Option(help="A file of yours, or a data set by name; default: the embedded digits.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="See `raretag list methods`; default: what suits the data.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file, such as the config.yaml of a run.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="Change one setting, e.g. --set train.epochs=4.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of data, model and method.")] = None,
    devices: Annotated[int | None, typer.Option(min=1, help="Processes of this machine that train together.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; default: runs/DATA-METHOD-SEED.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run where it stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing run folder.")] = False,
) -> None:
    """Train a model and measure it.

    Without arguments: binary cross entropy on the embedded long-tailed digits.
    """
    from raretag.cli.train import train_run

    train_run(run, data, method, config, set_ or [], seed, devices, out, resume=resume, overwrite=overwrite)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; the first is the baseline of the others.")],
    out: Annotated[Path | None, typer.Option(help="The page; default: report.html in the last run folder.")] = None,
    resamples: Annotated[
        int, typer.Option(min=0, help="Of the test items, for intervals; 0: none.", show_default=True)
    ] = 1000,
    items: Annotated[
        bool, typer.Option("--items/--no-items", help="Show items, for which the data is read again.")
    ] = True,
) -> None:
    """Explain finished runs in one HTML page that needs no network."""
    from raretag.cli.report import report_runs

    report_runs(runs, out, resamples=resamples, with_items=items)


for command in (using.predict, using.tune, using.suggest, using.export):
    app.command()(command)
app.add_typer(using.labels, name="labels")
