"""`raretag predict`: a table of probabilities and chosen labels for new items."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from raretag.cli.screen import screen
from raretag.core.errors import UserError


def predict_items(
    run: Path,
    data: str | None,
    out: Path | None,
    top: int | None,
    part: str | None,
    columns: list[str],
    folder: Path | None,
    encoder: Path | None,
    *,
    allow_outside: bool,
    skip_bad: bool,
    batch_size: int,
    overwrite: bool,
) -> None:
    from raretag.serve.opening import Opening, open_items
    from raretag.serve.output import Output, stream_into, write
    from raretag.serve.predictor import load

    if top is not None and top < 1:
        raise UserError(f"--top is {top}; expected 1 or more labels")
    predictor = load(run)
    how = Opening(part, columns or None, folder, allow_outside, "skip" if skip_bad else "fail", encoder)
    stream, make = open_items(data, predictor.card, how)
    if out is None:
        for number, (_, found) in enumerate(predictor.stream(stream, batch_size=batch_size)):
            write(found.table(top), sys.stdout.buffer, ".csv", header=number == 0)
            sys.stdout.flush()
    else:
        made_from = {"seal": predictor.card["seal"], "items": stream.fingerprint(), "top": top, "bad": how.bad_items}
        output = Output(out, made_from, overwrite=overwrite)
        if output.done:
            screen(error=True).print(f"going on after {output.done:,} items that were done before")
        with progress(stream.total) as tell:
            stream_into(output, lambda skip: predictor.stream(stream, batch_size=batch_size, skip=skip), top, tell)
        screen(error=True).print(f"written: {out}")
    for remark in make.remarks:
        print(f"raretag: {remark}", file=sys.stderr)


@contextmanager
def progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on standard error; call it with how many items are done."""
    columns: tuple[ProgressColumn, ...] = (TextColumn("predicting"), BarColumn(24))
    columns += (MofNCompleteColumn(), TimeRemainingColumn()) if total else (TextColumn("{task.completed:,.0f} items"),)
    with Progress(*columns, console=screen(error=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda items: bar.advance(task, items)
