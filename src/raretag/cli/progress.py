"""Progress bars on standard error, or in a notebook. Outside a terminal only messages are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from raretag.cli.screen import screen
from raretag.core.listener import Listener, Step

if TYPE_CHECKING:
    from raretag.config.settings import Config
    from raretag.runs.run import Run


class Bar(Listener):
    """Shows how a training run goes: the epoch, the time that is left, loss and validation mAP.

    Use it as a context manager around the run. `method` is the name before the number of epochs.

    >>> with Bar("focal", epochs=2) as bar:
    ...     bar.progress(0.5)
    """

    def __init__(self, method: str = "auto", epochs: int | None = None) -> None:
        console = screen(error=True)
        # rich draws in notebooks with ipywidgets; without them, one line is written over and over.
        self.plain = console.is_jupyter and find_spec("ipywidgets") is None
        columns = (
            TextColumn("{task.description}"),
            MofNCompleteColumn(),
            BarColumn(12),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self.bars = Progress(*columns, console=console, disable=self.plain)
        title = f"{method} epoch".removeprefix("auto ")
        self.task: TaskID = self.bars.add_task(title, total=epochs, note="", visible=False)  # until there is a step

    def __enter__(self) -> Bar:
        self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.stop()
        if self.plain:
            print()

    def message(self, line: str) -> None:
        self.bars.console.print(line)

    def step(self, step: Step) -> None:
        self._show()

    def epoch(self, step: Step, row: dict[str, Any]) -> None:
        loss, precision = row["loss"], row["validation"]["mAP"]["total"]
        notes = [] if loss is None else [f"loss {loss:.4f}"]
        notes += [] if precision is None else [f"mAP {100 * precision:.1f}"]
        self._show(completed=step.epoch + 1, note=", ".join(notes))

    def progress(self, share: float) -> None:
        self._show(description="solving", total=1, completed=share)

    def finish(self, method: str) -> None:
        """The method may have been chosen by the run, and may have needed fewer epochs than were allowed."""
        self._show(description=f"{method} epoch", total=self.bars.tasks[self.task].completed or None, visible=None)

    def _show(self, *, visible: bool | None = True, **fields: Any) -> None:
        self.bars.update(self.task, visible=visible, **fields)
        if self.plain:
            task = self.bars.tasks[self.task]
            print(f"\r{task.description} {task.completed:g}/{task.total} {task.fields['note']}", end="", flush=True)


def run_with_bar(config: Config, folder: Path | None, **options: Any) -> Run:
    """`raretag.engine.run.run` with a progress bar."""
    from raretag.engine.run import run  # torch is loaded here

    with Bar(config.method.name, config.train.epochs) as bar:
        found = run(config, folder, listener=bar, **options)
        bar.finish(found.record.method.name)
    return found


@contextmanager
def item_bar(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Counts items; call what it gives with how many more are done."""
    columns: tuple[ProgressColumn, ...] = (TextColumn("{task.description}"), BarColumn(24))
    columns += (MofNCompleteColumn(), TimeRemainingColumn()) if total else (TextColumn("{task.completed:,.0f} items"),)
    with Progress(*columns, console=screen(error=True)) as bars:
        task = bars.add_task(title, total=total)
        yield lambda items: bars.advance(task, items)


@contextmanager
def fold_bars(folds: int, epochs: int) -> Iterator[Callable[[int, int], None]]:
    """One bar per fold; call what it gives with the fold and its epochs so far."""
    columns = (TextColumn("{task.description} epoch"), MofNCompleteColumn(), BarColumn(12), TimeRemainingColumn())
    with Progress(*columns, console=screen(error=True)) as bars:
        tasks = [bars.add_task(f"fold {fold + 1}", total=epochs, visible=not fold) for fold in range(folds)]
        yield lambda fold, done: bars.update(tasks[fold], completed=done, visible=True)
