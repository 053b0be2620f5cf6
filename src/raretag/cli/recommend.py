"""`raretag inspect --recommend`: a ranked table of methods, the reason in words, and the command to train."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from raretag.cli.screen import screen
from raretag.core.listener import Listener


def recommend(
    data: str, changes: list[str], minutes: float, clock: Callable[[], float] = time.monotonic
) -> dict[str, Any]:
    from raretag.recommend.race import recommend as run_race  # torch is loaded here

    outcome = run_race(data, changes, minutes=minutes, listener=OnScreen(), clock=clock)
    show(screen(), outcome)
    command = " ".join(
        ["raretag", "train", "--data", shlex.quote(data)]
        + [f"--set {shlex.quote(change)}" for change in [*changes, *outcome.choice.changes]]
    )
    screen().print(f"train it: {command}")
    rows = [
        {
            "method": runner.candidate.label,
            "settings": list(runner.candidate.changes),
            "folds": runner.folds,
            "balanced_mAP": runner.score,
            "seconds": runner.seconds,
            "behind": runner.behind.as_dict(),
        }
        for runner in outcome.runners
    ]
    return {"choice": outcome.choice.label, "command": command, "items": outcome.items, "methods": rows}


class OnScreen(Listener):
    """Messages as lines on standard error."""

    def message(self, line: str) -> None:
        screen(error=True).print(line)


def show(console: Console, outcome: Any) -> None:
    table = Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        title="mAP on held-out folds as if labels were equally frequent, in %",
        title_justify="left",
    )
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
    console.print(reason(outcome))


def reason(outcome: Any) -> str:
    best = outcome.runners[0]
    if outcome.choice.label == best.candidate.label:
        near = sum(runner.behind.high >= 0 for runner in outcome.runners[1:])
        beside = ", clearly before all others"
        if near:
            beside = f"; {near} other{' is' if near == 1 else 's are'} not clearly worse"
        return f"recommended: {outcome.choice.label}, the best here{beside}. Its idea: {outcome.choice.why}."
    return (
        f"recommended: {outcome.choice.label}, the simplest that is not clearly worse than the best "
        f"({best.candidate.label}) and within half a point of it. Its idea: {outcome.choice.why}."
    )
