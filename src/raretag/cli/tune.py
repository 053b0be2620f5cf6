"""`raretag tune`: other thresholds for a trained model."""

from __future__ import annotations

from pathlib import Path

from raretag.core.errors import UserError


def tune_run(
    run: Path, precision: float | None, recall: float | None, threshold: float | None, *, calibrate: bool
) -> None:
    told = {"precision": precision, "recall": recall, "threshold": threshold}
    given = {name: value for name, value in told.items() if value is not None}
    if len(given) > 1:
        raise UserError(f"--{' and --'.join(given)} were given; expected one goal, or none for the best F1")
    goal, wanted = next(iter(given.items()), ("f1", None))
    if wanted is not None and not 0 < wanted <= 1:
        raise UserError(f"--{goal} is {wanted}; expected a share above 0 and up to 1, such as 0.8")

    from raretag.serve.retune import retune

    if goal == "threshold":
        card = retune(run, threshold=wanted, calibrate=calibrate)
    else:
        card = retune(run, goal=goal, wanted=wanted, calibrate=calibrate)  # type: ignore[arg-type]
    thresholds, notes = sorted(card.thresholds), card.tuned
    print(
        f"{len(thresholds)} thresholds for {goal}{'' if wanted is None else f' {wanted}'}: "
        f"{thresholds[0]:.3f} to {thresholds[-1]:.3f}, median {thresholds[len(thresholds) // 2]:.3f}"
    )
    if notes.get("out_of_reach"):
        print(f"{notes['out_of_reach']} labels never reach it on validation items and are never chosen")
