"""`raretag suggest`: which labels are probably missing or wrong, and how sure that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from raretag.cli.screen import screen
from raretag.cli.train import called, check_names
from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.core.listener import Listener

if TYPE_CHECKING:
    from raretag.suggest.listing import Suggestions

COLUMNS = (BarColumn(12), TaskProgressColumn(), TimeRemainingColumn())


def suggest_labels(
    run: Path,
    data: str | None,
    changes: list[str],
    *,
    most: int,
    quota: float,
    wrong: int,
    kept: float | None,
    audit: Path | None,
    folds: int,
    out: Path | None,
    truth: bool,
    overwrite: bool,
) -> None:
    if not (run / "config.yaml").is_file():
        raise UserError(f"'{run}' is not a run folder (no config.yaml in it); `raretag train --out {run}` makes one")
    config = compose(run / "config.yaml", changes, data)
    check_names(config)
    folder = out or run / "suggestions"

    from raretag.suggest import job  # torch is loaded here
    from raretag.suggest.answers import read
    from raretag.suggest.listing import refuse_existing, write_all

    refuse_existing(folder, overwrite=overwrite)
    options = job.SuggestOptions(most, quota, wrong, kept, folds)
    answered = read(audit) if audit is not None else []
    if audit is not None and not any(one.answer for one in answered):
        raise UserError(f"'{audit}' has no answers; fill in the column `answer` with yes, no or unsure")
    say = screen(error=True).print
    say(f"scoring {called(config)} out of fold: {config.method.name} is trained {folds} times{_expected(run, folds)}")
    try:
        with Progress(TextColumn("{task.description}"), *COLUMNS, console=screen(error=True)) as bar:
            listener = OnScreen(bar, folds)
            found, items = job.suggest_for(config, run / "out_of_fold", options, answered=answered, listener=listener)
    except KeyboardInterrupt:
        say("stopped; the same command goes on with the next fold")
        raise SystemExit(130) from None
    if truth:
        found = job.answer_from_truth(found, items)
    if not found.missing:
        say("nothing to suggest: no entry is unknown or negative")
    about = {"run": run.name, "data": called(config), "method": config.method.name, "folds": folds, "quota": quota}
    write_all(folder, job.with_contents(found, config), about)
    show(screen(), found, folder, truth=truth)


class OnScreen(Listener):
    """Messages as lines, and one bar for all folds."""

    def __init__(self, bar: Progress, folds: int) -> None:
        self.bar, self.folds = bar, folds
        self.task = bar.add_task(f"fold 1 of {folds}", total=1.0)

    def message(self, line: str) -> None:
        self.bar.console.print(line)

    def progress(self, share: float) -> None:
        fold = min(int(share * self.folds) + 1, self.folds)
        self.bar.update(self.task, completed=share, description=f"fold {fold} of {self.folds}")


def show(console: Console, found: Suggestions, folder: Path, *, truth: bool) -> None:
    from raretag.suggest.answers import YES

    table = Table(box=None, pad_edge=False, header_style="bold", title="the likeliest", title_justify="left")
    for name in ("rank", "item", "label", "group", "probability"):
        table.add_column(name, justify="right" if name in ("rank", "probability") else "left")
    for one in found.missing[:10]:
        table.add_row(str(one.rank), one.item, one.label, one.group, f"{one.probability:.2f}")
    if found.missing:
        console.print(table)
    console.print(f"assumption: {found.assumption}")
    if found.audit is not None:
        console.print(f"audit: {found.audit.sentence()}")
    console.print("expected share of right suggestions, with 95 % intervals:")
    for promise in found.promises:
        right = [one.answer == YES for one in found.missing[: promise.size]]
        obtained = f"   obtained {sum(right) / len(right):.2f}" if truth else ""
        console.print(f"  {promise}{obtained}")
    if found.promise_of_wrong is not None:
        p = found.promise_of_wrong
        console.print(
            f"  {p.size} observed labels that may be wrong: {p.expected:.2f} [{p.low:.2f}, {p.high:.2f}], "
            "if the scores of right labels have no long tail"
        )
    console.print(f"written: {folder / 'suggestions.csv'} (also .jsonl, and label-studio.json with label-studio.xml)")
    if not truth:
        console.print(
            "fill in `answer` with yes, no or unsure (rows with a small `audit` number first make a random sample), "
            "then `raretag labels apply`"
        )


def _expected(run: Path, folds: int) -> str:
    """How long it will take, from how long the run took."""
    try:
        seconds = sum(json.loads(line).get("seconds", 0) for line in (run / "metrics.jsonl").read_text().splitlines())
    except (OSError, ValueError):
        return ""
    if not seconds:
        return ""
    whole = seconds * (folds - 1)  # each fold trains on the others
    return f", about {whole / 60:.0f} minutes" if whole >= 90 else f", about {whole:.0f} seconds"
