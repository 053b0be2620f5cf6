"""`raretag labels apply`: answered suggestions back into the labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from raretag.cli.progress import give, screen
from raretag.cli.train import DataChanged
from raretag.core.errors import UserError

FORMS = ("table", "corrections")
MOST_CONFLICTS = 20  # that are printed


def apply(
    answers: Annotated[
        list[Path], typer.Argument(help="Answered lists: CSV, JSONL, or a JSON export of Label Studio.")
    ],
    out: Annotated[
        Path, typer.Option(help="The new table, or a file of corrections if the data does not come from a table.")
    ],
    data: Annotated[
        str, typer.Option("--data", help="What the answers are about: a run folder, a table, or a data set by name.")
    ],
    form: Annotated[
        str | None, typer.Option("--as", help="table or corrections; default: a table if the data is a table.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="CSV file that lists what changed; default: OUT.log.csv.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=C", help="A setting, as in training, e.g. --set data.labels=tags."),
    ] = None,
    data_changed: DataChanged = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
) -> None:
    """Merge answered suggestions into the labels. Conflicts are listed and left as they are."""
    from raretag.cli.train import check_names, data_title
    from raretag.config.settings import compose

    is_run = (Path(data) / "config.yaml").is_file()
    settings = compose(Path(data) / "config.yaml", set_ or []) if is_run else compose(None, set_ or [], data)
    check_names(settings)
    is_table = settings.data.name == "table"
    form = form or ("table" if is_table else "corrections")
    if form not in FORMS:
        raise UserError(f"--as is '{form}'; expected {' or '.join(FORMS)}")
    if form == "table" and not is_table:
        raise UserError(f"'{data_title(settings)}' is not a table that can be written; leave out --as")
    log = log or out.with_name(out.name + ".log.csv")
    for path in (out, log):
        if path.exists() and not overwrite:
            raise UserError(f"'{path}' exists; replace it with --overwrite, or name another")
        if not path.absolute().parent.is_dir():
            raise UserError(f"the folder of '{path}' does not exist")

    from raretag.suggestions.answers import (  # torch is loaded here
        apply_to_corrections,
        apply_to_table,
        read,
        refuse_other_items,
        write_log,
    )

    if is_run and not data_changed:
        refuse_other_items(Path(data), settings)
    given = [answer for path in answers for answer in read(path)]
    remark = ""
    if form == "table":
        merged, remark = apply_to_table(settings, given, out)
    else:
        merged = apply_to_corrections(settings, given, out)
    if remark:
        screen(error=True).print(f"remark: {remark}")
    write_log(log, merged)
    console = screen()
    console.print(
        f"labels changed: {merged.count('changed')}, already so: {merged.count('already so')}, "
        f"conflicts: {len(merged.conflicts)}, not answered: {merged.unanswered}"
    )
    for line in merged.conflicts[:MOST_CONFLICTS]:
        console.print(f"  conflict: item {line.item}, '{line.label}': {line.reason}; left as it is")
    if len(merged.conflicts) > MOST_CONFLICTS:
        console.print(f"  and {len(merged.conflicts) - MOST_CONFLICTS} more, see {log}")
    console.print(f"written: {out}, log: {log}")
    if form == "corrections":
        console.print(f"train with: --set data.corrections={out}")
    numbers = {"changed": merged.count("changed"), "already_so": merged.count("already so")}
    conflicts = [{"item": line.item, "label": line.label, "reason": line.reason} for line in merged.conflicts]
    give({"out": out, "log": log, **numbers, "unanswered": merged.unanswered, "conflicts": conflicts})
