"""How backbones and heads are wired to a model: inputs to what a method's loss takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.models.assemble import Single as Single
    from raretag.models.branches.head_tail import HeadTail as HeadTail

REGISTRY = {  # the name on the command line, and where its class is
    "head_tail": "raretag.models.branches.head_tail:HeadTail",
    "single": "raretag.models.assemble:Single",
}
__getattr__, __dir__ = lazy.exports(__name__, {target.partition(":")[2]: target for target in REGISTRY.values()})
