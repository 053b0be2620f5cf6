"""`raretag inspect`: what is in the labels, in the terminal, as a picture and as JSON; and which method suits them."""

from __future__ import annotations

from math import log1p
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raretag.cli.progress import give, screen
from raretag.core.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from raretag.recommend.outcome import Outcome


def inspect(
    data: Annotated[str, typer.Argument(help="A data set by name, or a file.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=C", help="Change one setting, e.g. --set data.labels=tags."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the distribution of the labels to this PNG, SVG or PDF file.")
    ] = None,
    numbers: Annotated[Path | None, typer.Option(help="Write the numbers to this JSON file.")] = None,
    recommend: Annotated[
        bool, typer.Option("--recommend", help="Try a few methods on folds of the training items, and recommend one.")
    ] = False,
    minutes: Annotated[float | None, typer.Option(help="Time limit of --recommend in minutes; default: 5.")] = None,
) -> None:
    """Look at the labels of a data set before training."""
    from raretag.cli.train import check_names, data_title
    from raretag.config.settings import compose
    from raretag.core.files import write_json

    if minutes is not None and not recommend:
        raise UserError(f"--minutes {minutes:g} was given without --recommend, whose time it limits")
    settings = compose(None, set_ or [], data)
    check_names(settings)
    if numbers is not None and not numbers.absolute().parent.is_dir():
        raise UserError(f"the folder of '{numbers}' does not exist")
    if picture is not None:
        from raretag.figures.parts.canvas import check_picture, save

        check_picture(picture)

    from raretag.data.sources import look  # torch is loaded here
    from raretag.labels.counts import describe

    found = look(settings.data, settings.seed)
    console = screen()
    for remark in found.remarks:
        console.print(remark)
    description = describe(found.stores["train"], settings.group_edges, counted=found.counted)
    description["splits"] = {name: len(store) for name, store in found.stores.items()}
    description["duplicates"] = found.duplicates
    print_description(console, data_title(settings), description)
    signs: list[str] = []
    if found.unlisted == "negative":
        from raretag.suggestions.signs import signs_in_labels

        console.print("negative: labels that an item does not list are assumed to be absent; nobody has checked that")
        signs = signs_in_labels(found.stores["train"])
        for sign in signs:
            console.print(f"missing tags? {sign}")
    if picture is not None:
        from raretag.figures.class_aware import distribution

        save(distribution(description, f"{data_title(settings)}: {description['items']:,} training items"), picture)
        console.print(f"picture: {picture}")
    if recommend:
        from raretag.cli.progress import Messages
        from raretag.recommend.race import recommend as race_methods

        allowed = 5.0 if minutes is None else minutes
        outcome = race_methods(data, set_ or [], minutes=allowed, listener=Messages())
        print_outcome(console, outcome)
        what = "train the default" if outcome.choice is None else "train it"
        console.print(f"{what}: {outcome.command(data, set_ or [])}")
        description["recommended"] = outcome.as_dict(data, set_ or [])
    if numbers is not None:
        write_json(numbers, description)
        console.print(f"numbers: {numbers}")
    give({"data": data_title(settings), "remarks": found.remarks, "signs_of_missing_tags": signs, **description})


def print_description(console: Console, name: str, description: dict[str, Any]) -> None:
    from rich.table import Table

    from raretag.core.errors import some

    observed, groups = description["observed"], description["groups"]
    low, high = groups["edges"]
    ratio, duplicates = description["most_to_least_frequent"], description["duplicates"]
    facts = {
        "items": ", ".join(f"{split} {size:,}" for split, size in description["splits"].items() if size),
        "labels": f"{description['labels']:,}, {description['labels_per_item']:.2f} per item; "
        f"items without any: {description['items_without_positive']:,}",
        "observed": ", ".join(f"{state} {100 * share:.1f} %" for state, share in observed.items()),
        "most : least": "-" if ratio is None else f"{ratio:,.0f} : 1",
        "groups": ", ".join(f"{group} {groups[group]}" for group in ("head", "medium", "tail"))
        + f"  (by training positives before hiding, edges {low} and {high})",
        "never positive": some(description["never_positive"]) or "none",
        "always alone": some(description["always_alone"]) or "none",
        "duplicates": "not checked: the inputs were not found"
        if duplicates is None
        else f"{duplicates:,} training items",
    }
    table = Table(box=None, show_header=False, pad_edge=False, title=f"{name}, training part", title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    for key, value in facts.items():
        table.add_row(key, value)
    console.print(table)
    console.print(frequency_bars(description))


def frequency_bars(description: dict[str, Any], width: int = 30) -> Table:
    """The most frequent and the rarest labels; a bar's length is the logarithm of the count."""
    from rich.table import Table

    highest = log1p(max((entry["positives"] for entry in description["most_frequent"]), default=1)) or 1.0
    rare = [entry for entry in reversed(description["rarest"]) if entry not in description["most_frequent"]]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("label", no_wrap=True, max_width=32)
    table.add_column("positives", justify="right")
    table.add_column("(log scale)")
    for place, entry in enumerate([*description["most_frequent"], *rare]):
        if rare and place == len(description["most_frequent"]):
            table.add_row("...", "", "")
        bar = "█" * round(width * log1p(entry["positives"]) / highest)
        table.add_row(entry["label"], f"{entry['positives']:,}", bar)
    return table


def print_outcome(console: Console, outcome: Outcome) -> None:
    """The methods that raced, ranked, and why one of them is recommended."""
    from rich.table import Table

    title = "mAP on held-out folds as if labels were equally frequent, in %"
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    table.add_column("method", no_wrap=True)
    for head in ("mAP", "to the best", "95 % interval", "folds", "seconds each"):
        table.add_column(head, justify="right", no_wrap=True)
    for runner in outcome.runners:
        behind, first = runner.behind, runner is outcome.runners[0]
        table.add_row(
            runner.candidate.label,
            f"{100 * runner.score:.1f}",
            "" if first else f"{100 * behind.value:+.1f}",
            "" if first else f"{100 * behind.low:+.1f} to {100 * behind.high:+.1f}",
            str(runner.folds),
            f"{runner.seconds:.0f}",
        )
    console.print(table)
    for remark in outcome.remarks:
        console.print(remark)
    if outcome.as_absent:
        console.print("no negative is observed: unknown labels count as absent in this table")
    console.print(outcome.reason())
