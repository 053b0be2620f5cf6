"""Who is told how a run goes: one object instead of a callback for each occasion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One optimizer step that has been taken."""

    epoch: int
    step: int
    loss: float
    learning_rate: float
    ends_epoch: bool
    mean_loss: float  # of the epoch so far
    found: int = 0  # unknown labels trained as positives that are positive, where the truth is known
    mistaken: int = 0  # those that are not
    share: float = 0.0  # of all steps that the run may take, this one included


class Listener:
    """Does nothing; override what you want to know. All calls come from the first process only.

    >>> class Loud(Listener):
    ...     def message(self, line: str) -> None:
    ...         print(line.upper())
    >>> Loud().message("no method was named: blend")
    NO METHOD WAS NAMED: BLEND
    """

    def message(self, line: str) -> None:
        """A sentence that the user should see: a guess that was made, a warning."""

    def step(self, step: Step) -> None:
        """After every optimizer step."""

    def epoch(self, step: Step, row: dict[str, Any]) -> None:
        """After every epoch, with its row of the history: loss, learning rate, validation metrics."""

    def progress(self, share: float) -> None:
        """How far work is, from 0 to 1; it begins with a call, from which time is counted. Steps tell it themselves."""


class Printer(Listener):
    """Prints the messages."""

    def message(self, line: str) -> None:
        print(line)


class Part(Listener):
    """Passes on the progress of a part of the work as progress of the whole."""

    def __init__(self, whole: Listener, begin: float, end: float) -> None:
        self.whole, self.begin, self.end = whole, begin, end

    def progress(self, share: float) -> None:
        self.whole.progress(self.begin + share * (self.end - self.begin))


SILENT, PRINTING = Listener(), Printer()
