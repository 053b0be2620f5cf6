"""How a race of methods ended, in words that its numbers can carry.

A method is "clearly ahead" of another only if the whole interval of their difference says so, and without a second
method there was no race: then nothing is recommended, and the words say how long a race would take.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from raretag.metrics.intervals import Difference
from raretag.recommend.candidates import Candidate

SHOWN = 3  # names in a sentence


@dataclass(frozen=True)
class Runner:
    """What became of a candidate."""

    candidate: Candidate
    folds: int  # in which it ran
    seconds: float  # of one of them
    score: float  # balanced mAP: the leader's on all folds, plus `behind`, so that runners of fewer folds compare
    behind: Difference  # its score minus the leader's, on the items that both have scored

    @property
    def may_be_best(self) -> bool:
        """Its interval reaches the leader."""
        return self.behind.high >= 0


@dataclass(frozen=True)
class Outcome:
    """How a race ended."""

    runners: list[Runner]  # the leader first, then by score
    choice: Candidate | None  # None: there was no race
    items: int  # of the training part that took part
    folds: int  # that were planned
    as_absent: bool  # unknown labels counted as absent
    remarks: list[str] = field(default_factory=list)
    not_run: tuple[str, ...] = ()  # methods for which there was no time
    seconds: float | None = None  # that the whole race would take; None: it was run to its end

    def reason(self) -> str:
        """What is recommended and why, or why nothing is."""
        best, others = self.runners[0], self.runners[1:]
        if self.choice is None:
            ran = f"only {best.candidate.label} ran, in {best.folds} of {self.folds} folds"
            return f"no recommendation: {ran}, which is not a race. {self.unfinished()}".strip()
        if self.choice.label != best.candidate.label and self.choice.default:
            why = f"the default for feature vectors, of which {best.candidate.label}, the leader, is not clearly ahead"
        elif self.choice.label != best.candidate.label:
            why = f"the simplest within half a point of the leader, {best.candidate.label}, and not clearly worse"
        elif near := [runner.candidate.label for runner in others if runner.may_be_best]:
            why = f"which leads, but not clearly ahead of {_listed(near)}"
        else:
            why = f"clearly ahead of {'the other method' if len(others) == 1 else f'the {len(others)} others'}"
            why += " that ran" if self.not_run else ""
        when = "" if best.folds == self.folds or self.seconds is None else f" after {best.folds} of {self.folds} folds"
        return (
            f"recommended{when}: {self.choice.label}, {why}. Its idea: {self.choice.why}. {self.unfinished()}".strip()
        )

    def unfinished(self) -> str:
        """What the race lacks, and how long it would take; '' if it was run to its end."""
        if self.seconds is None:
            return ""
        lacking = f"there was no time for {_listed(self.not_run)}" if self.not_run else "not all folds were run"
        minutes = ceil(self.seconds / 60)
        return f"Time was too short ({lacking}): the whole race takes about {minutes} min (--minutes {minutes})."

    def command(self, data: str, changes: Sequence[str] = ()) -> str:
        """The command that trains the choice on a data set or a file; without a choice, the default."""
        chosen = () if self.choice is None else self.choice.changes
        settings = [f"--set {shlex.quote(change)}" for change in [*changes, *chosen]]
        return " ".join(["raretag", "train", "--data", shlex.quote(data), *settings])

    def as_dict(self, data: str, changes: Sequence[str] = ()) -> dict[str, Any]:
        """For JSON."""
        rows = [
            {
                "method": runner.candidate.label,
                "settings": list(runner.candidate.changes),
                "folds": runner.folds,
                "balanced_mAP": runner.score,
                "seconds": runner.seconds,
                "behind": runner.behind.as_dict(),
            }
            for runner in self.runners
        ]
        return {
            "choice": None if self.choice is None else self.choice.label,
            "reason": self.reason(),
            "command": self.command(data, changes),
            "items": self.items,
            "folds": self.folds,
            "not_run": list(self.not_run),
            "seconds_of_whole_race": self.seconds,
            "methods": rows,
        }


def _listed(names: Sequence[str]) -> str:
    """
    >>> _listed(["BCE"]), _listed(["a", "b"]), _listed(["a", "b", "c", "d", "e"])
    ('BCE', 'a and b', 'a, b, c and 2 more')
    """
    if len(names) > SHOWN:
        return f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
