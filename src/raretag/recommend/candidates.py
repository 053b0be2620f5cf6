"""The methods that are worth a try on a data set, the simplest first, and why. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    label: str
    changes: tuple[str, ...]  # settings, as `--set` takes them
    why: str  # the end of "it wins because ..." in general terms: what the method is good at


LINEAR = Candidate(
    "logistic regression",
    ("method.name=logistic_regression", "model.name=mlp", "model.layers=0"),
    "both sides of every label weigh the same, exactly solved",
)


def candidates(*, unknown: bool, negatives: bool, epochs: int) -> list[Candidate]:
    """`unknown`: some labels are; `negatives`: some are observed; `epochs`: of a run as it is configured."""
    plain = "method.name=binary_cross_entropy" if negatives else "method.name=assume_negative"
    aware = "sampler.name=class_aware"
    found = [
        LINEAR,
        Candidate("BCE", (plain,), "it is the plain loss, and nothing here beats it"),
        Candidate("BCE, class-aware", (plain, aware), "rare labels are drawn as often as frequent ones"),
        Candidate("asymmetric", ("method.name=asymmetric",), "easy negatives hardly count"),
        Candidate("BCE, three times as long", (plain, f"train.epochs={3 * epochs}"), "the plain loss was not yet done"),
        Candidate(
            "distribution-balanced", ("method.name=distribution_balanced",), "sampling is class-aware and corrected"
        ),
    ]
    if unknown:
        likely = Candidate(
            "ignore likely", ("method.name=ignore_likely",), "unknown labels that look positive are left out"
        )
        pseudo = Candidate(
            "pseudo-labels",
            ("method.name=dynamic_pseudo_labels",),
            "unknown labels are filled by remembered predictions",
        )
        found[3:3] = [likely, pseudo]
    return found
