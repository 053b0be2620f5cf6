"""`raretag sweep`: a search over settings, as one table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raretag.cli.progress import give, screen
from raretag.core.errors import UserError

if TYPE_CHECKING:
    from raretag.integrations.sweep import Trial


def sweep(
    config: Annotated[Path, typer.Argument(help="A YAML file with a section `search` (docs/clusters.md).")],
    trials: Annotated[int, typer.Option(min=1, help="Number of settings to try in total.")] = 20,
    on: Annotated[
        str, typer.Option(metavar="here|ray", help="Optuna on this machine, or Ray Tune on a cluster.")
    ] = "here",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=C", help="Change a setting for all trials, e.g. --set train.epochs=9."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the sweep; default: sweeps/CONFIG.")] = None,
) -> None:
    """Search for good settings; trials that do worse than others after some epochs are stopped.

    Running the same command again continues with the remaining trials.
    """
    from raretag.config.settings import parsed
    from raretag.integrations.sweep import best_of, read_sweep, sweep_with_optuna

    if on not in ("here", "ray"):
        raise UserError(f"--on {on}; expected here (Optuna) or ray (Ray Tune)")
    changes = dict(change.split("=", 1) for change in set_ or [] if "=" in change)
    tree, space = read_sweep(config, {key: parsed(value) for key, value in changes.items()})
    folder = out or Path("sweeps") / config.stem

    def say(trial: Trial) -> None:
        shown = ", ".join(f"{key}={short(value)}" for key, value in trial.settings.items())
        number = "-" if trial.mAP is None else f"{100 * trial.mAP:.1f}"
        screen(error=True).print(
            f"trial {trial.number}: {trial.state} after epoch {trial.epochs}, mAP {number} ({shown})"
        )

    if on == "ray":
        from raretag.integrations.ray import sweep_with_ray as search
    else:
        search = sweep_with_optuna
    found = search(tree, space, folder, trials, say)
    print_trials(found)
    best = best_of(found)
    if best is None:
        raise UserError(f"no trial of '{folder}' has finished; look at the reasons in {folder / 'trials.jsonl'}")
    screen().print(f"best: trial {best.number}; `raretag train --config {folder / 'best.yaml'}` trains it again")
    give({"folder": folder, "best": asdict(best), "trials": [asdict(trial) for trial in found]})


def short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def print_trials(trials: list[Trial]) -> None:
    """One row per trial, the best first."""
    from rich import box
    from rich.table import Table

    names = list(dict.fromkeys(key for trial in trials for key in trial.settings))
    table = Table(title="validation mAP, in %", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("trial", "mAP", "epochs", "state", *names):
        table.add_column(name, justify="right" if name in ("trial", "mAP", "epochs") else "left")
    for trial in sorted(trials, key=lambda one: (one.state != "finished", -(one.mAP or 0.0))):
        number = "-" if trial.mAP is None else f"{100 * trial.mAP:.1f}"
        row = [str(trial.number), number, str(trial.epochs), trial.state]
        table.add_row(*row, *(short(trial.settings.get(name, "")) for name in names))
    screen().print(table)
