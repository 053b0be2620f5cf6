"""`raretag inspect --recommend`: a ranked table of methods, the reason in words, and the command to train."""

from __future__ import annotations

import shlex
from typing import Any

from rich.console import Console
from rich.table import Table

from raretag.engine.config import Config, compose
from raretag.recommend.candidates import candidates


def recommend(data: str, changes: list[str], minutes: float) -> dict[str, Any]:
    from raretag.engine.sources import load  # torch is loaded here
    from raretag.recommend.race import race

    config = compose(None, changes, data)
    loaded = load(config.data, config.seed)
    statistics = loaded.train.labels.statistics(cooccurrence=False)
    unknown, negatives = bool(statistics.unknown.any()), bool(statistics.negatives.any())
    listed = candidates(unknown=unknown, negatives=negatives, epochs=config.train.epochs)
    configs: list[tuple[Any, Config]] = [(one, compose(None, [*changes, *one.changes], data)) for one in listed]
    progress = Console(stderr=True)
    outcome = race(configs, loaded, minutes=minutes, say=lambda line: progress.print(line, highlight=False))
    show(Console(), outcome)
    command = " ".join(
        ["raretag", "train", "--data", shlex.quote(data)]
        + [f"--set {shlex.quote(change)}" for change in [*changes, *outcome.choice.changes]]
    )
    Console().print(f"train it: {command}", highlight=False, soft_wrap=True)
    rows = [
        {
            "method": runner.candidate.label,
            "settings": list(runner.candidate.changes),
            "folds": runner.folds,
            "mAP": runner.score.as_dict(),
            "behind": runner.behind.as_dict(),
        }
        for runner in outcome.runners
    ]
    return {"choice": outcome.choice.label, "command": command, "items": outcome.items, "methods": rows}


def show(console: Console, outcome: Any) -> None:
    table = Table(
        box=None, pad_edge=False, header_style="bold", title="mAP on held-out folds, in %", title_justify="left"
    )
    table.add_column("method", no_wrap=True)
    for head in ("mAP", "95 %", "to the best", "95 %", "folds", "seconds"):
        table.add_column(head, justify="right")
    for runner in outcome.runners:
        score, behind = runner.score, runner.behind
        table.add_row(
            runner.candidate.label,
            f"{100 * score.value:.1f}",
            f"{100 * score.low:.1f} to {100 * score.high:.1f}",
            f"{100 * behind.value:+.1f}",
            f"{100 * behind.low:+.1f} to {100 * behind.high:+.1f}",
            str(runner.folds),
            f"{runner.seconds:.0f}",
        )
    console.print(table, highlight=False)
    for remark in outcome.remarks:
        console.print(remark, highlight=False)
    if outcome.as_absent:
        console.print("no negative is observed: unknown labels count as absent in this table", highlight=False)
    console.print(reason(outcome), highlight=False)


def reason(outcome: Any) -> str:
    best = outcome.runners[0]
    if outcome.choice.label == best.candidate.label:
        near = sum(runner.behind.high >= 0 for runner in outcome.runners[1:])
        beside = f"; {near} others are not clearly worse" if near else ", clearly before all others"
        return f"recommended: {outcome.choice.label}, the best here{beside}. Its idea: {outcome.choice.why}."
    return (
        f"recommended: {outcome.choice.label}, the simplest that is not clearly worse than the best "
        f"({best.candidate.label}) and within half a point of it. Its idea: {outcome.choice.why}."
    )
