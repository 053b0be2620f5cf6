"""The `raretag` command. Each command has a file of its own, which is loaded when it is called."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from raretag import __version__
from raretag.core.errors import UserError
from raretag.core.registry import nearest

COMMANDS = {
    "list": "raretag.cli.listing:list_",
    "inspect": "raretag.cli.inspect:inspect",
    "train": "raretag.cli.train:train",
    "report": "raretag.cli.report:report",
    "predict": "raretag.cli.predict:predict",
    "tune": "raretag.cli.predict:tune",
    "export": "raretag.cli.predict:export",
    "suggest": "raretag.cli.suggest:suggest",
    "bench": "raretag.cli.bench:bench",
    "figure": "raretag.cli.report:figure",
}
LABELS = {"apply": "raretag.cli.labels:apply"}
FORMER_OPTIONS = {  # names that keep working
    "suggest": {
        "--most": "--max-missing",
        "--wrong": "--max-wrong",
        "--quota": "--even-share",
        "--kept": "--marked-share",
        "--answers-from-truth": "--simulate-answers",
    }
}


class Command(TyperCommand):
    """Its help shows no type beside a flag: `--resume`, not `--resume <bool>`. Understands former names of options."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_types_of_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        former = FORMER_OPTIONS.get(self.name or "", {})
        words = [word.partition("=") for word in args]
        return super().parse_args(ctx, ["".join((former.get(name, name), *rest)) for name, *rest in words])


class Commands(TyperGroup):
    """Loads a command when it is called, or when its help is shown."""

    table: ClassVar[dict[str, str]] = COMMANDS
    groups: ClassVar[tuple[str, ...]] = ("labels",)

    def get_params(self, ctx: Any) -> list[Any]:
        return without_types_of_flags(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.table, *self.groups]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.table:
            return super().get_command(ctx, cmd_name)
        module, _, function = self.table[cmd_name].partition(":")
        alone = typer.Typer(add_completion=False)
        alone.command(cmd_name, cls=Command)(getattr(import_module(module), function))
        return get_command(alone)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and args[0] not in known:
            raise UserError(f"there is no command '{args[0]}'; {nearest(args[0], known)}")
        return super().resolve_command(ctx, args)


class LabelCommands(Commands):
    table = LABELS
    groups = ()


def without_types_of_flags(parameters: list[Any]) -> list[Any]:
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
labels_app = typer.Typer(cls=LabelCommands, no_args_is_help=True)
app.add_typer(labels_app, name="labels")


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
