"""`raretag predict`: a table of probabilities and chosen labels for new items."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from raretag.cli.screen import screen
from raretag.core.errors import UserError

if TYPE_CHECKING:
    from raretag.serve.readers import ReadOptions


def predict_items(
    run: Path,
    data: str | None,
    options: ReadOptions,
    *,
    out: Path | None,
    top: int | None,
    batch_size: int,
    overwrite: bool,
) -> None:
    from raretag.serve.model import load
    from raretag.serve.predictions import PredictionsFile, write_table
    from raretag.serve.readers import open_reader

    if top is not None and top < 1:
        raise UserError(f"--top is {top}; expected 1 or more labels")
    model = load(run)
    reader = open_reader(data, model.card, options)
    if out is None:
        for number, (_, found) in enumerate(model.stream(reader, batch_size=batch_size)):
            write_table(found.table(top), sys.stdout.buffer, ".csv", header=number == 0)
            sys.stdout.flush()
    else:
        made_from = {"seal": model.card["seal"], "items": reader.fingerprint(), "top": top, "bad": options.bad_items}
        file = PredictionsFile(out, made_from, overwrite=overwrite)
        if file.done:
            screen(error=True).print(f"going on after {file.done:,} items that were done before")
        with progress(reader.total) as advance:
            advance(file.done)
            for items in file.fill(model.stream(reader, batch_size=batch_size, skip=file.done), top):
                advance(items)
        screen(error=True).print(f"written: {out}")
    for remark in reader.remarks:
        print(f"raretag: {remark}", file=sys.stderr)


@contextmanager
def progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on standard error; call it with how many items are done."""
    columns: tuple[ProgressColumn, ...] = (TextColumn("predicting"), BarColumn(24))
    columns += (MofNCompleteColumn(), TimeRemainingColumn()) if total else (TextColumn("{task.completed:,.0f} items"),)
    with Progress(*columns, console=screen(error=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda items: bar.advance(task, items)
