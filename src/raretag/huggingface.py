"""raretag in the Trainer of Hugging Face: any method as its loss, with unknown labels (docs/integrations.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.integrations.huggingface import Objective as Objective
    from raretag.integrations.huggingface import Trainer as Trainer

_MODULES = {"raretag.integrations.huggingface": ("Objective", "Trainer")}
__getattr__, __dir__ = lazy.exports(__name__, modules=_MODULES)
__all__ = __dir__()
