"""raretag on a cluster of Ray: training, sweeps and predictions (docs/clusters.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.integrations.ray import Predictor as Predictor

__getattr__, __dir__ = lazy.exports(__name__, modules={"raretag.integrations.ray": ("Predictor",)})
__all__ = __dir__()
