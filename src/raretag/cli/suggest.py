"""`raretag suggest`: which labels are probably missing or wrong, and with what probability."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raretag.cli.progress import give, screen
from raretag.cli.train import DataChanged
from raretag.core.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from raretag.suggestions.listing import Suggestions


def suggest(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    data: Annotated[
        str | None, typer.Argument(help="Data set or file to look at instead of the run's training data.")
    ] = None,
    max_missing: Annotated[int, typer.Option(min=1, help="Largest number of missing positives to suggest.")] = 500,
    max_wrong: Annotated[int, typer.Option(min=0, help="Largest number of doubtful observed labels to list.")] = 50,
    even_share: Annotated[
        float,
        typer.Option(help="Share of the suggestions that is spread evenly over all labels, so that rare ones appear."),
    ] = 0.3,
    marked_share: Annotated[
        float | None, typer.Option(help="Share of the true positives that are marked in your data, if you know it.")
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(help="An earlier list with answers, which are used to correct the probabilities.")
    ] = None,
    folds: Annotated[
        int, typer.Option(min=2, help="Number of trainings; each scores the items it was not trained on.")
    ] = 5,
    out: Annotated[Path | None, typer.Option(help="Folder of the list; default: RUN/suggestions.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="Change a setting of the run.")
    ] = None,
    teach: Annotated[
        bool,
        typer.Option(
            "--teach", help="List first what teaches the model most about rare labels, not what is likeliest."
        ),
    ] = False,
    simulate_answers: Annotated[
        bool, typer.Option("--simulate-answers", help="Fill in the answers from labels that were hidden on purpose.")
    ] = False,
    raw_cells: Annotated[
        bool,
        typer.Option(
            "--raw-cells",
            help="Leave texts in the CSV as they are, even those that a spreadsheet would run as formulas.",
        ),
    ] = False,
    images: Annotated[
        str,
        typer.Option(help="URL to put before image paths in label-studio.json; default: Label Studio's local files."),
    ] = "/data/local-files/?d=",
    data_changed: DataChanged = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier list.")] = False,
) -> None:
    """List labels that are probably missing or wrong, each with a probability.

    The run is trained again on folds of its data, so that no model scores items it was trained on. If the command was
    stopped, running it again continues with the next fold.
    """
    from raretag.cli.progress import FoldBar
    from raretag.cli.train import check_names, data_title
    from raretag.config.settings import compose

    if not (run / "config.yaml").is_file():
        raise UserError(f"'{run}' is not a run folder (no config.yaml in it); `raretag train --out {run}` makes one")
    settings = compose(run / "config.yaml", set_ or [], data)
    check_names(settings)
    folder = out or run / "suggestions"

    from raretag.core.stopping import Stopped, code_of
    from raretag.runs.lock import writing
    from raretag.suggestions import job  # torch is loaded here
    from raretag.suggestions.answers import read
    from raretag.suggestions.listing import refuse_existing, write_all

    refuse_existing(folder, overwrite=overwrite)
    options = job.SuggestOptions(max_missing, even_share, max_wrong, marked_share, folds, teach)
    answered = read(audit) if audit is not None else []
    if audit is not None and not any(one.answer for one in answered):
        raise UserError(f"'{audit}' has no answers; fill in the column `answer` with yes, no or unsure")
    note = screen(error=True).print
    title, method = data_title(settings), settings.method.name
    note(f"scoring {title} out of fold: {method} is trained {folds} times{duration(job.expected_seconds(run, folds))}")
    try:
        with writing(run, note), FoldBar(folds) as bar:
            items = job.load_for(run, settings, data_changed=data_changed)
            place = run / "out_of_fold"
            found, _ = job.suggest_for(settings, place, options, data=items, answered=answered, listener=bar)
    except (KeyboardInterrupt, Stopped) as stopped:
        note("stopped; the same command continues with the next fold")
        raise SystemExit(code_of(stopped)) from None
    if simulate_answers:
        found = job.answer_from_truth(found, items)
    if not found.missing:
        note("nothing to suggest: no label of any item is unknown or negative")
    about = {"run": run.name, "data": title, "method": method, "folds": folds, "quota": even_share}
    write_all(folder, job.with_previews(found, settings), about, images, raw_cells=raw_cells)
    print_suggestions(screen(), found, folder, simulated=simulate_answers)
    give({**about, "folder": folder, **found.summary()})


def print_suggestions(console: Console, found: Suggestions, folder: Path, *, simulated: bool) -> None:
    from rich.table import Table

    from raretag.suggestions.answers import YES

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
    console.print("expected share of right suggestions, with 90 % intervals:")
    for promise in found.promises:
        right = [one.answer == YES for one in found.missing[: promise.size]]
        obtained = f"   obtained {sum(right) / len(right):.2f}" if simulated else ""
        console.print(f"  {promise}{obtained}")
    if found.promise_of_wrong is not None:
        p = found.promise_of_wrong
        console.print(
            f"  {p.size} observed labels that may be wrong: {p.expected:.2f} [{p.low:.2f}, {p.high:.2f}], "
            "if the scores of right labels have no long tail"
        )
    console.print(f"written: {folder / 'suggestions.csv'} (also .jsonl, and label-studio.json with label-studio.xml)")
    if not simulated:
        console.print(
            "fill in the column `answer` with yes, no or unsure (the rows with the smallest `audit` numbers are a "
            "random sample), then run `raretag labels apply`"
        )


def duration(seconds: float) -> str:
    if not seconds:
        return ""
    return f", about {seconds / 60:.0f} minutes" if seconds >= 90 else f", about {seconds:.0f} seconds"
