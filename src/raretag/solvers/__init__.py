"""Learners that are fitted to feature vectors without training steps: `raretag train --method blend`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.solvers.blend import Blend as Blend
    from raretag.solvers.committee import Committee as Committee
    from raretag.solvers.logistic_regression import LogisticRegression as LogisticRegression

REGISTRY = {  # the name on the command line, and where its class is
    "blend": "raretag.solvers.blend:Blend",
    "committee": "raretag.solvers.committee:Committee",
    "logistic_regression": "raretag.solvers.logistic_regression:LogisticRegression",
}
__getattr__, __dir__ = lazy.exports(__name__, {target.partition(":")[2]: target for target in REGISTRY.values()})
