"""raretag in PyTorch Lightning: any method as a module's loss, with its sampler and state (docs/integrations.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.integrations.lightning import Module as Module
    from raretag.integrations.lightning import Objective as Objective

_MODULES = {"raretag.integrations.lightning": ("Module", "Objective")}
__getattr__, __dir__ = lazy.exports(__name__, modules=_MODULES)
__all__ = __dir__()
