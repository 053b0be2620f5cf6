"""Learners for very many labels, which rank them and never score them all: `raretag train --method centroids`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.ranking.centroids import Centroids as Centroids
    from raretag.ranking.ridge_centroids import RidgeCentroids as RidgeCentroids

REGISTRY = {  # the name on the command line, and where its class is
    "centroids": "raretag.ranking.centroids:Centroids",
    "ridge_centroids": "raretag.ranking.ridge_centroids:RidgeCentroids",
}
__getattr__, __dir__ = lazy.exports(__name__, {target.partition(":")[2]: target for target in REGISTRY.values()})
