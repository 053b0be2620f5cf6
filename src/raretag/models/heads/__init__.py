"""From features [B, D] to logits [B, C]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.models.heads.blended import Blended as Blended
    from raretag.models.heads.label_graph import LabelGraph as LabelGraph
    from raretag.models.heads.memory import Memory as Memory
    from raretag.models.heads.normalised import Normalised as Normalised
    from raretag.models.heads.plain import Boosted as Boosted
    from raretag.models.heads.plain import Cosine as Cosine
    from raretag.models.heads.plain import Linear as Linear
    from raretag.models.heads.plain import NeckLinear as NeckLinear
    from raretag.models.heads.plain import Scaled as Scaled
    from raretag.models.heads.plain import WithSkip as WithSkip

REGISTRY = {  # the name on the command line, and where its class is
    "blended": "raretag.models.heads.blended:Blended",
    "boosted": "raretag.models.heads.plain:Boosted",
    "cosine": "raretag.models.heads.plain:Cosine",
    "label_graph": "raretag.models.heads.label_graph:LabelGraph",
    "linear": "raretag.models.heads.plain:Linear",
    "memory": "raretag.models.heads.memory:Memory",
    "neck_linear": "raretag.models.heads.plain:NeckLinear",
    "normalised": "raretag.models.heads.normalised:Normalised",
    "scaled": "raretag.models.heads.plain:Scaled",
    "with_skip": "raretag.models.heads.plain:WithSkip",
}
__getattr__, __dir__ = lazy.exports(__name__, {target.partition(":")[2]: target for target in REGISTRY.values()})
