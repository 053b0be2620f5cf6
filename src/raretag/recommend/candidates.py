"""The methods that are worth a try on a data set, the simplest first, and why."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from raretag.config.settings import Config
from raretag.core import registry
from raretag.data.dataset import DataSet


@dataclass(frozen=True)
class Candidate:
    """A method with its settings."""

    label: str
    changes: tuple[str, ...]  # settings, as `--set` takes them
    why: str  # what the method is good at, as the end of "it wins because ..."
    default: bool = False  # what `raretag train` solves feature vectors with: only a clear lead replaces it


LINEAR = Candidate(
    "logistic regression",
    ("method.name=logistic_regression", "model.name=mlp", "model.layers=0"),
    "positives and negatives of every label weigh the same, and it is solved exactly",
)
BLEND = Candidate(
    "blend",
    ("method.name=blend", "model.name=mlp", "model.layers=0"),
    "linear models, a kernel, a forest and networks, each weighted on held-out folds",
    default=True,
)
COMMITTEE = Candidate(
    "committee",
    ("method.name=committee", "model.name=mlp", "model.layers=0"),
    "four small networks capture what is not linear, on top of a regression that is solved exactly",
)


def candidates(
    *, unknown: bool, negatives: bool, epochs: int, stretch: float = 1.0, vectors: bool = True
) -> list[Candidate]:
    """The methods to try, the simplest first.

    Args:
        unknown: Some labels are unknown.
        negatives: Some negatives are observed.
        epochs: Of a run as it is configured.
        stretch: Items of a class-aware epoch over those of a plain one; such methods get as many epochs fewer, so that
            all are trained on the same number of items.
        vectors: Inputs are feature vectors.

    >>> [one.label for one in candidates(unknown=False, negatives=True, epochs=20)][:3]
    ['logistic regression', 'blend', 'committee']
    """
    plain = "method.name=binary_cross_entropy" if negatives else "method.name=assume_negative"
    fewer = (f"train.epochs={max(1, round(epochs / stretch))}",)
    listed = [
        LINEAR,
        *([BLEND, COMMITTEE] if vectors else []),
        Candidate("BCE", (plain,), "it is the plain loss, and nothing here beats it"),
        Candidate(
            "BCE, class-aware", (plain, "sampler.name=class_aware", *fewer), "rare labels are drawn as often as others"
        ),
    ]
    if unknown and not negatives:
        why = "the costliest of the unknown labels are left out, more of them with each epoch"
        listed.append(Candidate("large loss", ("method.name=large_loss",), why))
    if unknown:
        listed += [
            Candidate(
                "ignore likely", ("method.name=ignore_likely", *fewer), "unknown labels that look positive are left out"
            ),
            Candidate(
                "pseudo-labels",
                ("method.name=dynamic_pseudo_labels",),
                "unknown labels are filled by remembered predictions",
            ),
        ]
    return [
        *listed,
        Candidate("asymmetric", ("method.name=asymmetric",), "easy negatives hardly count"),
        Candidate(
            "BCE, three times as long", (plain, f"train.epochs={3 * epochs}"), "the plain loss had not converged yet"
        ),
        Candidate(
            "distribution-balanced",
            ("method.name=distribution_balanced", *fewer),
            "sampling is class-aware and corrected",
        ),
    ]


def entrants(data: DataSet, config: Config) -> list[Candidate]:
    """The methods that should race on this data, with the settings of each."""
    labels = data.train.labels
    statistics = labels.statistics(cooccurrence=False)
    aware = registry.build("sampling", "class_aware", {}, positives=labels.positives, seed=0)
    return candidates(
        unknown=bool(statistics.unknown.any()),
        negatives=bool(statistics.negatives.any()),
        epochs=config.train.epochs,
        stretch=len(aware.epoch(0)) / len(labels),
        vectors=config.encoder.name != "none" or data.train.inputs.batch(torch.arange(1)).ndim == 2,
    )
