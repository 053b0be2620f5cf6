"""The figures of the papers, drawn from run folders.

Each class has `draw(words) -> Figure`, where `words` are run folders or, for drawings of data, also names of data sets;
its constructor takes the options. `PAPERS` maps the papers' figures to a drawing and its options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raretag.core import lazy, registry
from raretag.core.errors import UserError

if TYPE_CHECKING:
    from raretag.figures.branches import Branches as Branches
    from raretag.figures.class_aware import Cooccurrence as Cooccurrence
    from raretag.figures.class_aware import Resampling as Resampling
    from raretag.figures.corrections import Corrections as Corrections
    from raretag.figures.gradients import Gradients as Gradients
    from raretag.figures.long_tails import Construction as Construction
    from raretag.figures.long_tails import TestPart as TestPart
    from raretag.figures.losses import Losses as Losses
    from raretag.figures.per_class import Increments as Increments
    from raretag.figures.per_class import PerClass as PerClass
    from raretag.figures.probabilities import Histograms as Histograms
    from raretag.figures.probabilities import Probabilities as Probabilities
    from raretag.figures.ratios import Ratios as Ratios
    from raretag.figures.sweep import Sweep as Sweep

REGISTRY = {  # the name on the command line, and where its class is
    "branches": "raretag.figures.branches:Branches",
    "construction": "raretag.figures.long_tails:Construction",
    "cooccurrence": "raretag.figures.class_aware:Cooccurrence",
    "corrections": "raretag.figures.corrections:Corrections",
    "gradients": "raretag.figures.gradients:Gradients",
    "histograms": "raretag.figures.probabilities:Histograms",
    "increments": "raretag.figures.per_class:Increments",
    "losses": "raretag.figures.losses:Losses",
    "per_class": "raretag.figures.per_class:PerClass",
    "probabilities": "raretag.figures.probabilities:Probabilities",
    "ratios": "raretag.figures.ratios:Ratios",
    "resampling": "raretag.figures.class_aware:Resampling",
    "sweep": "raretag.figures.sweep:Sweep",
    "test_part": "raretag.figures.long_tails:TestPart",
}
PAPERS: dict[str, tuple[str, dict[str, Any]]] = {  # the paper and its figure: a drawing, and options of it
    "plm-1": ("probabilities", {}),
    "plm-2": ("ratios", {}),
    "plm-3": ("per_class", {"metric": "accuracy"}),
    "plm-4": ("per_class", {"metric": "f1"}),
    "plm-5": ("histograms", {"example": True, "values": "count", "bins": 4}),
    "plm-6": ("histograms", {"example": True, "values": "share", "bins": 4}),
    "plm-7": ("histograms", {"values": "share", "bins": 10}),
    "plm-8": ("per_class", {"metric": "precision,recall"}),
    "db-2": ("resampling", {}),
    "db-3": ("gradients", {}),
    "db-5": ("cooccurrence", {}),
    "db-6": ("increments", {"metric": "average_precision"}),
    "db-7": ("sweep", {"settings": "method.beta,method.scale"}),
    "db-8": ("construction", {}),
    "db-9": ("test_part", {}),
    "db-10": ("sweep", {"settings": "method.mu,method.kappa"}),
    "comic-3": ("sweep", {"settings": "method.power,method.tau"}),
    "comic-4": ("losses", {}),
    "comic-5": ("corrections", {}),
    "comic-6": ("branches", {}),
    "zhang-2": ("losses", {}),
}
__getattr__, __dir__ = lazy.exports(__name__, {target.partition(":")[2]: target for target in REGISTRY.values()})


def find(word: str) -> tuple[str, dict[str, Any]]:
    """A drawing and its options, by its own name or by the number of a figure.

    >>> find("plm-4")
    ('per_class', {'metric': 'f1'})
    """
    if word in PAPERS:
        return PAPERS[word]
    names = registry.names("figures")
    if word not in names:
        raise UserError(f"there is no figure '{word}'; {registry.nearest(word, [*names, *PAPERS])}")
    return word, {}
