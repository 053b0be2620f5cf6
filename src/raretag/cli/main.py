"""The `raretag` command. Each command has a file of its own, which is loaded when it is called."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from raretag import __version__
from raretag.cli.help import COMMAND_PANELS, EXAMPLES, sort_into_panels
from raretag.core.errors import UnwritableError, UserError, visible
from raretag.core.registry import installed_only, nearest
from raretag.core.stopping import Stopped, code_of, watching

COMMANDS = {
    "list": "raretag.cli.listing:list_",
    "inspect": "raretag.cli.inspect:inspect",
    "train": "raretag.cli.train:train",
    "report": "raretag.cli.report:report",
    "predict": "raretag.cli.predict:predict",
    "tune": "raretag.cli.predict:tune",
    "export": "raretag.cli.predict:export",
    "push": "raretag.cli.predict:push",
    "suggest": "raretag.cli.suggest:suggest",
    "review": "raretag.cli.review:review",
    "serve": "raretag.cli.review:serve",
    "bench": "raretag.cli.bench:bench",
    "sweep": "raretag.cli.sweep:sweep",
    "figure": "raretag.cli.report:figure",
}
NAMED_BY_USER = ("train", "inspect", "bench", "list")  # in others, names of modules come from the files of a run
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
    """Has `--quiet` and `--json`, sorts its help into panels, and understands former names of options."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params += flags_of_every_command()

    def get_params(self, ctx: Any) -> list[Any]:
        return sort_into_panels(self.name or "", without_types_of_flags(super().get_params(ctx)))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        former = FORMER_OPTIONS.get(self.name or "", {})
        words = [word.partition("=") for word in args]
        return super().parse_args(ctx, ["".join((former.get(name, name), *rest)) for name, *rest in words])

    def invoke(self, ctx: Any) -> Any:
        with nullcontext() if self.name in NAMED_BY_USER else installed_only():
            return super().invoke(ctx)


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
        example = f"Example: {EXAMPLES[cmd_name]}"
        panel = COMMAND_PANELS.get(cmd_name)
        made = alone.command(cmd_name, cls=Command, epilog=example, rich_help_panel=panel)
        made(getattr(import_module(module), function))
        return get_command(alone)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and args[0] not in known:
            raise UserError(f"there is no command '{args[0]}'; {nearest(args[0], known)}")
        return super().resolve_command(ctx, args)


class LabelCommands(Commands):
    table = LABELS
    groups = ()


def be_quiet(asked: bool) -> None:
    if asked:
        from raretag.cli import progress

        progress.quiet = True


def speak_json(asked: bool) -> None:
    from raretag.cli import progress

    progress.as_json = asked


def flags_of_every_command() -> list[Any]:
    """`--quiet` and `--json`, which act when they are read: the function of a command need not take them."""
    alone = typer.Typer(add_completion=False)

    @alone.command()
    def flags(
        quiet: Annotated[
            bool, typer.Option("--quiet", callback=be_quiet, help="Print results and errors only.")
        ] = False,
        json: Annotated[
            bool,
            typer.Option(
                "--json", callback=speak_json, help="Print the results as one JSON object, the rest to standard error."
            ),
        ] = False,
    ) -> None:
        pass

    found = [one for one in get_command(alone).params if one.name in ("quiet", "json")]
    for one in found:
        one.expose_value = False
    return found


def without_types_of_flags(parameters: list[Any]) -> list[Any]:
    for one in parameters:
        if getattr(one, "is_flag", False):
            one.metavar = ""
    return parameters


app = typer.Typer(
    cls=Commands,
    help="Multi-label classification when some tags are rare and many tags are missing.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
labels_app = typer.Typer(cls=LabelCommands, no_args_is_help=True)
app.add_typer(labels_app, name="labels", rich_help_panel=COMMAND_PANELS["labels"])


def main() -> None:
    """A user's mistake is one line on standard error and exit code 2; a traceback is our own mistake."""
    # Threads that wait must sleep: when another program holds a core, spinning makes a training step 30 times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        try:
            with watching():
                app()
        finally:
            sys.stdout.flush()
    except (KeyboardInterrupt, Stopped) as stopped:
        _end("stopped", code_of(stopped))
    except UnwritableError as error:
        _end(str(error), error.exit_code)
    except UserError as error:
        _end(str(error), 2)
    except OSError as error:  # a file that could not be read or written, wherever that was
        silence_output()
        place = f"'{error.filename}': " if error.filename else ""
        _end(f"{place}{error.strerror or error}", UnwritableError.exit_code)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
            raise
        reason = str(error).split("DefaultCPUAllocator: ")[-1].splitlines()[0] if str(error) else "no more is free"
        _end(f"not enough memory ({reason}); are there really that many features and labels?", 2)


def _end(line: str, code: int) -> None:
    print(f"raretag: {visible(line)}", file=sys.stderr)
    sys.exit(code)


def silence_output() -> None:
    """What could not be written to standard output must not be tried again when Python ends."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version(asked: bool) -> None:
    if asked:
        print(f"raretag {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", callback=be_quiet, help="Print results and errors only, of any command.")
    ] = False,
) -> None:
    pass


@labels_app.callback()
def labels_options() -> None:
    """Bring people's answers into the labels."""
