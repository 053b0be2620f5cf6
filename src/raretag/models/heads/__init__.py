"""From features [B, D] to logits [B, C]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.models.heads.cosine import Cosine as Cosine
    from raretag.models.heads.label_graph import LabelGraph as LabelGraph
    from raretag.models.heads.linear import Linear as Linear
    from raretag.models.heads.memory import Memory as Memory
    from raretag.models.heads.neck_linear import NeckLinear as NeckLinear
    from raretag.models.heads.normalised import Normalised as Normalised
    from raretag.models.heads.scaled import Scaled as Scaled
    from raretag.models.heads.with_skip import WithSkip as WithSkip

REGISTRY = {  # the name on the command line, and where its class is
    "cosine": "raretag.models.heads.cosine:Cosine",
    "label_graph": "raretag.models.heads.label_graph:LabelGraph",
    "linear": "raretag.models.heads.linear:Linear",
    "memory": "raretag.models.heads.memory:Memory",
    "neck_linear": "raretag.models.heads.neck_linear:NeckLinear",
    "normalised": "raretag.models.heads.normalised:Normalised",
    "scaled": "raretag.models.heads.scaled:Scaled",
    "with_skip": "raretag.models.heads.with_skip:WithSkip",
}
__getattr__, __dir__ = lazy.exports(__name__, {target.partition(":")[2]: target for target in REGISTRY.values()})
