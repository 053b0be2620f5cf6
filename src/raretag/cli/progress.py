"""What is printed while a command works: lines and progress bars, in a terminal or a notebook.

Text is printed as it is: labels and paths are not markup, and long lines are left to the terminal. Outside a terminal
messages are printed, a line now and then, and the last state of a bar.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.text import Text

from raretag.core.errors import visible
from raretag.core.listener import Listener, Step

if TYPE_CHECKING:
    from raretag.config.settings import Config
    from raretag.runs.run import Run


class Screen(Console):
    """Draws with escape sequences of its own; those in what it is given come out as text."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


quiet = False  # with --quiet, what is not the result is not printed
as_json = False  # with --json, the result is one JSON object, and what people read goes to standard error


def screen(*, error: bool = False) -> Screen:
    """Standard output, or standard error for what is not the result."""
    aside = error or as_json
    return Screen(stderr=aside, highlight=False, markup=False, soft_wrap=True, quiet=aside and quiet)


def give(result: Mapping[str, Any]) -> None:
    """With --json: the result of a command on standard output; numbers that JSON has no word for are null."""
    if as_json:
        print(json.dumps(plain(result), ensure_ascii=False), flush=True)


def plain(value: Any) -> Any:
    """
    >>> plain({"run": Path("runs/a"), "mAP": float("nan"), "edges": (20, 100)})
    {'run': 'runs/a', 'mAP': None, 'edges': [20, 100]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


class Messages(Listener):
    """Messages as lines on standard error."""

    def message(self, line: str) -> None:
        screen(error=True).print(line)


class TimeLeft(ProgressColumn):
    """What is left if it goes on as it went since the work began."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        work: Work = task.fields["work"]
        return Text(work.time_left())


class Work:
    """How far something is since it began; a run resumes with a share that is done already."""

    def __init__(self, share: float) -> None:
        self.began = self.spoke = monotonic()
        self.first = self.share = share

    def time_left(self) -> str:
        """An estimate from the first report on; before that, how long it has been."""
        passed, done = monotonic() - self.began, self.share - self.first
        if done <= 0:
            return f"{spoken(passed)} so far"
        return f"about {spoken(passed * (1 - self.share) / done)} left"

    def is_time_to_speak(self) -> bool:
        """For those who see lines and no bar: after 5 seconds, then less and less often, at least once in a minute."""
        now = monotonic()
        due = now - self.spoke >= min(60.0, max(5.0, (now - self.began) / 2))
        self.spoke = now if due else self.spoke
        return due


def spoken(seconds: float) -> str:
    """
    >>> spoken(8.2), spoken(75), spoken(4000)
    ('8 s', '1 min 15 s', '1 h 6 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


class Bar(Listener):
    """Shows how a run goes: what is done, the time that is left, the epoch, loss and validation mAP.

    Use it as a context manager around the run: `with Bar(config) as bar: run(config, listener=bar)`. Its messages are
    printed everywhere, the bar only in a terminal or a notebook; elsewhere a line comes now and then.
    """

    def __init__(self, config: Config | None = None) -> None:
        console = screen(error=True)
        # rich draws in notebooks with ipywidgets; without them, one line is written over and over.
        self.plain = console.is_jupyter and find_spec("ipywidgets") is None
        self.lines = not console.is_terminal and not console.is_jupyter
        columns = (TextColumn("{task.description}"), TaskProgressColumn(), BarColumn(12), TimeLeft())
        self.bars = Progress(*columns, TextColumn("{task.fields[note]}"), console=console, disable=self.plain)
        self.title = "training" if config is None or config.method.name == "auto" else config.method.name
        told = config is not None and ("epochs" in config.train.model_fields_set or not config.train.fine_tune)
        self.epochs = config.train.epochs if config is not None and told else None
        self.work = Work(0.0)
        self.task: TaskID = self.bars.add_task(self.title, total=1, note="", work=self.work, visible=False)

    def __enter__(self) -> Bar:
        self.bars.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *where: object) -> None:
        if error is None:  # there may have been fewer epochs than were allowed
            self.bars.update(self.task, completed=1)
            self.work.share = 1.0
        self.bars.stop()
        if self.plain:
            print()

    def message(self, line: str) -> None:
        self.bars.console.print(line)

    def step(self, step: Step) -> None:
        self.progress(step.share)

    def epoch(self, step: Step, row: dict[str, Any]) -> None:
        loss, precision = row["loss"], row["validation"]["mAP"]["total"]
        notes = [f"epoch {step.epoch + 1}" if self.epochs is None else f"epoch {step.epoch + 1}/{self.epochs}"]
        notes += [] if loss is None else [f"loss {loss:.4f}"]
        notes += [] if precision is None else [f"mAP {100 * precision:.1f}"]
        self._show(note=", ".join(notes))
        if self.lines:  # in a log file, a line for every epoch
            self.bars.console.print(f"{self.title}: {', '.join(notes)}")

    def progress(self, share: float) -> None:
        if share < self.work.share or not self.bars.tasks[self.task].visible:  # another piece of work begins
            self.work = Work(share)
        self.work.share = share
        self._show(completed=share)

    def name(self, method: str) -> None:
        """The method, which the run may have chosen."""
        self.title = method
        self.bars.update(self.task, description=method)

    def _show(self, **fields: Any) -> None:
        self.bars.update(self.task, visible=True, work=self.work, **fields)
        task = self.bars.tasks[self.task]
        words = [f"{self.title}: {task.percentage:.0f} %", self.work.time_left(), task.fields["note"]]
        line = ", ".join(word for word in words if word)
        if self.plain:
            print(f"\r{line}", end="", flush=True)
        elif self.lines and self.work.is_time_to_speak():
            self.bars.console.print(line)


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
