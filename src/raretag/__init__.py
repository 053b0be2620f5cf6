"""raretag: multi-label classification when some tags are rare and many tags are missing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Name -> home. Loaded on first use, so that `import raretag` and `raretag --help` do not wait for torch.
_HOMES = {
    "Context": "raretag.core.context",
    "LabelStatistics": "raretag.core.targets",
    "LabelStore": "raretag.labels.store",
    "Objective": "raretag.core.objective",
    "Targets": "raretag.core.targets",
    "UserError": "raretag.core.errors",
    "build_method": "raretag.core.method",
    "load": "raretag.serve.predictor",
}
_ROOMS = ("core", "data", "engine", "labels", "methods", "metrics", "models", "objective", "sampling", "serve")

if TYPE_CHECKING:
    from raretag.core.context import Context
    from raretag.core.errors import UserError
    from raretag.core.method import build_method
    from raretag.core.objective import Objective
    from raretag.core.targets import LabelStatistics, Targets
    from raretag.labels.store import LabelStore
    from raretag.serve.predictor import load

__all__ = [
    "Context",
    "LabelStatistics",
    "LabelStore",
    "Objective",
    "Targets",
    "UserError",
    "__version__",
    "build_method",
    "load",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"raretag.{name}")
    raise AttributeError(f"module 'raretag' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
