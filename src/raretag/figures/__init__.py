"""The figures of the papers, drawn from run folders: one drawing idea a file.

A module `two_words` holds the class `TwoWords(options).draw(words) -> Figure`, where `words` are run folders or, for
drawings of data, also names of data sets. `PAPERS` says which figures of the papers it draws, and with what options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.figures.branches import Branches as Branches
    from raretag.figures.cooccurrence import Cooccurrence as Cooccurrence
    from raretag.figures.corrections import Corrections as Corrections
    from raretag.figures.histograms import Histograms as Histograms
    from raretag.figures.increments import Increments as Increments
    from raretag.figures.losses import Losses as Losses
    from raretag.figures.per_class import PerClass as PerClass
    from raretag.figures.probabilities import Probabilities as Probabilities
    from raretag.figures.ratios import Ratios as Ratios
    from raretag.figures.resampling import Resampling as Resampling
    from raretag.figures.sweep import Sweep as Sweep

REGISTRY = {  # the name on the command line, and where its class is
    "branches": "raretag.figures.branches:Branches",
    "cooccurrence": "raretag.figures.cooccurrence:Cooccurrence",
    "corrections": "raretag.figures.corrections:Corrections",
    "histograms": "raretag.figures.histograms:Histograms",
    "increments": "raretag.figures.increments:Increments",
    "losses": "raretag.figures.losses:Losses",
    "per_class": "raretag.figures.per_class:PerClass",
    "probabilities": "raretag.figures.probabilities:Probabilities",
    "ratios": "raretag.figures.ratios:Ratios",
    "resampling": "raretag.figures.resampling:Resampling",
    "sweep": "raretag.figures.sweep:Sweep",
}
__getattr__, __dir__ = lazy.exports(__name__, {target.partition(":")[2]: target for target in REGISTRY.values()})
