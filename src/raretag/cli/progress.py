"""What is printed while a command works: lines and progress bars, in a terminal or a notebook.

Text is printed as it is: labels and paths are not markup, and long lines are left to the terminal. Outside a terminal
only messages are printed, and the last state of a bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from raretag.core.listener import Listener, Step

if TYPE_CHECKING:
    from raretag.config.settings import Config
    from raretag.runs.run import Run


def screen(*, error: bool = False) -> Console:
    """Standard output, or standard error for what is not the result."""
    return Console(stderr=error, highlight=False, markup=False, soft_wrap=True)


class Messages(Listener):
    """Messages as lines on standard error."""

    def message(self, line: str) -> None:
        screen(error=True).print(line)


class Bar(Listener):
    """Shows how a training run goes: the epoch, the time that is left, loss and validation mAP.

    Use it as a context manager around the run: `with Bar(config) as bar: run(config, listener=bar)`. Its messages are
    printed everywhere, the bar only in a terminal or a notebook.
    """

    def __init__(self, config: Config | None = None) -> None:
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
        title = "epoch" if config is None or config.method.name == "auto" else f"{config.method.name} epoch"
        epochs = None if config is None else config.train.epochs
        self.task: TaskID = self.bars.add_task(title, total=epochs, note="", visible=False)  # until there is a step

    def __enter__(self) -> Bar:
        self.bars.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *where: object) -> None:
        if error is None:  # there may have been fewer epochs than were allowed
            self.bars.update(self.task, total=self.bars.tasks[self.task].completed or None)
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

    def name(self, method: str) -> None:
        """The method, which the run may have chosen."""
        self.bars.update(self.task, description=f"{method} epoch")

    def _show(self, **fields: Any) -> None:
        self.bars.update(self.task, visible=True, **fields)
        if self.plain:
            task = self.bars.tasks[self.task]
            print(f"\r{task.description} {task.completed:g}/{task.total} {task.fields['note']}", end="", flush=True)


def run_with_bar(config: Config, folder: Path | None, **options: Any) -> Run:
    """`raretag.engine.run.run` with a progress bar."""
    from raretag.engine.run import run  # torch is loaded here

    with Bar(config) as bar:
        found = run(config, folder, listener=bar, **options)
        bar.name(found.record.method.name)
    return found


@contextmanager
def item_bar(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Counts items; call what it gives with how many more are done."""
    columns: tuple[ProgressColumn, ...] = (TextColumn("{task.description}"), BarColumn(24))
    columns += (MofNCompleteColumn(), TimeRemainingColumn()) if total else (TextColumn("{task.completed:,.0f} items"),)
    with Progress(*columns, console=screen(error=True)) as bars:
        task = bars.add_task(title, total=total)
        yield lambda items: bars.advance(task, items)


class FoldBar(Listener):
    """One bar for a training that is repeated on folds; a context manager."""

    def __init__(self, folds: int) -> None:
        self.folds = folds
        columns = (TextColumn("{task.description}"), BarColumn(12), TaskProgressColumn(), TimeRemainingColumn())
        self.bars = Progress(*columns, console=screen(error=True))
        self.task = self.bars.add_task(f"fold 1 of {folds}", total=1.0)

    def __enter__(self) -> FoldBar:
        self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.stop()

    def message(self, line: str) -> None:
        self.bars.console.print(line)

    def progress(self, share: float) -> None:
        fold = min(int(share * self.folds) + 1, self.folds)
        self.bars.update(self.task, completed=share, description=f"fold {fold} of {self.folds}")
