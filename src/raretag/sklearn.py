"""raretag for scikit-learn: an estimator, scores and folds that support unknown labels (docs/integrations.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.integrations.sklearn import Folds as Folds
    from raretag.integrations.sklearn import RaretagClassifier as RaretagClassifier
    from raretag.integrations.sklearn import out_of_fold as out_of_fold
    from raretag.integrations.sklearn import scorer as scorer

_MODULES = {"raretag.integrations.sklearn": ("Folds", "RaretagClassifier", "out_of_fold", "scorer")}
__getattr__, __dir__ = lazy.exports(__name__, modules=_MODULES)
__all__ = __dir__()
