"""The `raretag` command. Each command has a file of its own, which loads what it needs when it is called."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from raretag import __version__
from raretag.cli import bench, inspect, labels, listing, predict, report, suggest, train
from raretag.core.errors import UserError


class Commands(TyperGroup):
    """A group of commands whose help shows no type beside a flag: `--resume`, not `--resume <bool>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return bare_flags(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            bare_flags(command.get_params(ctx))
        return command


def bare_flags(parameters: list[Any]) -> list[Any]:
    for one in parameters:
        if getattr(one, "is_flag", False):
            one.metavar = ""
    return parameters


app = typer.Typer(
    cls=Commands,
    help="Multi-label classification when some tags are rare and many tags are missing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
labels_app = typer.Typer(cls=Commands, help="Bring people's answers into the labels.", no_args_is_help=True)


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


@labels_app.callback()
def labels_options() -> None:
    """Bring people's answers into the labels."""


app.command("list")(listing.list_)
app.command("inspect")(inspect.inspect)
app.command("bench")(bench.bench)
app.command("figure")(report.figure)
app.command("train")(train.train)
app.command("report")(report.report)
app.command("predict")(predict.predict)
app.command("tune")(predict.tune)
app.command("suggest", cls=suggest.Suggest)(suggest.suggest)
app.command("export")(predict.export)
labels_app.command("apply")(labels.apply)
app.add_typer(labels_app, name="labels")
