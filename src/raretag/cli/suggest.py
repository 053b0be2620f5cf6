"""`raretag suggest`: which labels are probably missing or wrong, and how sure that is."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from raretag.cli.screen import screen
from raretag.cli.train import called, check_names
from raretag.config.settings import Config, compose
from raretag.core.errors import UserError


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

    from raretag.suggest import answers, job, write  # torch is loaded here

    write.refuse_existing(folder, overwrite=overwrite)
    wanted = job.Wanted(most=most, quota=quota, wrong=wrong, kept=kept, folds=folds)
    answered = answers.read(audit) if audit is not None else []
    if audit is not None and not any(one.answer for one in answered):
        raise UserError(f"'{audit}' has no answers; fill in the column `answer` with yes, no or unsure")
    say = screen(error=True).print
    say(f"scoring {called(config)} out of fold: {config.method.name} is trained {folds} times{_expected(run, folds)}")
    try:
        with _progress(config, folds) as progress:
            tasks = [
                progress.add_task(f"fold {fold + 1}", total=config.train.epochs, visible=not fold)
                for fold in range(folds)
            ]

            def watch(fold: int, epochs: int) -> None:
                progress.update(tasks[fold], completed=epochs, visible=True)

            listing, found = job.suggest(config, run / "out_of_fold", wanted, answered=answered, say=say, watch=watch)
    except KeyboardInterrupt:
        say("stopped; the same command goes on with the next fold")
        raise SystemExit(130) from None
    if truth:
        listing = job.from_truth(listing, found)
    if not listing.missing:
        say("nothing to suggest: no entry is unknown or negative")
    about = {"run": run.name, "data": called(config), "method": config.method.name, "folds": folds, "quota": quota}
    write.write_all(folder, listing, job.shown(config, listing), about)
    show(screen(), listing, folder, truth=truth)


def show(console: Console, listing: object, folder: Path, *, truth: bool) -> None:
    from raretag.suggest.answers import YES
    from raretag.suggest.listing import Listing

    assert isinstance(listing, Listing)
    table = Table(box=None, pad_edge=False, header_style="bold", title="the likeliest", title_justify="left")
    for name in ("rank", "item", "label", "group", "probability"):
        table.add_column(name, justify="right" if name in ("rank", "probability") else "left")
    for one in listing.missing[:10]:
        table.add_row(str(one.rank), one.item, one.label, one.group, f"{one.probability:.2f}")
    if listing.missing:
        console.print(table)
    console.print(f"assumption: {listing.assumption}")
    if listing.audit is not None:
        console.print(f"audit: {listing.audit.said()}")
    console.print("expected share of right suggestions, with 95 % intervals:")
    for promise in listing.promises:
        right = [one.answer == YES for one in listing.missing[: promise.size]]
        obtained = f"   obtained {sum(right) / len(right):.2f}" if truth else ""
        console.print(f"  {promise}{obtained}")
    if listing.promise_of_wrong is not None:
        p = listing.promise_of_wrong
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


def _progress(config: Config, folds: int) -> Progress:
    columns = (TextColumn("{task.description} epoch"), MofNCompleteColumn(), BarColumn(12), TimeRemainingColumn())
    return Progress(*columns, console=screen(error=True))


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
