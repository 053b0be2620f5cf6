"""raretag: multi-label classification when some tags are rare and many tags are missing.

    labels = raretag.LabelStore.from_dense(array)            1, 0, and NaN where nobody looked
    loss = raretag.bind("partial_label_masking", labels, epochs=10)
    value = loss(logits, rows)                               in a training loop of your own
    raretag.methods.Focal(gamma=2.0)(logits, targets)        any method, as any loss of torch
    raretag.metrics.average_precision(logits, targets)

Public is what `dir(raretag)` shows, and in the rooms what `dir(raretag.methods)` and so on show: docs/public-api.md.
Everything else may change. Names are loaded on first use, so that `import raretag` does not wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag import annotation as annotation
    from raretag import data as data
    from raretag import huggingface as huggingface
    from raretag import labels as labels
    from raretag import lightning as lightning
    from raretag import methods as methods
    from raretag import metrics as metrics
    from raretag import models as models
    from raretag import objective as objective
    from raretag import ray as ray
    from raretag import sampling as sampling
    from raretag import sklearn as sklearn
    from raretag import solvers as solvers
    from raretag import streamed as streamed
    from raretag.core.bind import bind as bind
    from raretag.core.context import Context as Context
    from raretag.core.errors import UserError as UserError
    from raretag.core.listener import Listener as Listener
    from raretag.core.method import Method as Method
    from raretag.core.method import build_method as build_method
    from raretag.core.objective import Objective as Objective
    from raretag.core.targets import LabelStatistics as LabelStatistics
    from raretag.core.targets import Targets as Targets
    from raretag.front import Run as Run
    from raretag.front import inspect as inspect
    from raretag.front import print_results as print_results
    from raretag.front import train as train
    from raretag.labels.store import LabelStore as LabelStore
    from raretag.serve.model import Model as Model
    from raretag.serve.model import load as load
    from raretag.suggestions.job import suggest as suggest

__version__ = "0.1.0"

_HOMES = {
    # labels
    "LabelStore": "raretag.labels.store:LabelStore",
    "LabelStatistics": "raretag.core.targets:LabelStatistics",
    "Targets": "raretag.core.targets:Targets",
    # losses, for a loop of one's own
    "bind": "raretag.core.bind:bind",
    "build_method": "raretag.core.method:build_method",
    "Context": "raretag.core.context:Context",
    "Method": "raretag.core.method:Method",
    "Objective": "raretag.core.objective:Objective",
    # whole runs
    "Listener": "raretag.core.listener:Listener",
    "train": "raretag.front:train",
    "Run": "raretag.front:Run",
    "inspect": "raretag.front:inspect",
    "print_results": "raretag.front:print_results",
    "load": "raretag.serve.model:load",
    "Model": "raretag.serve.model:Model",
    "suggest": "raretag.suggestions.job:suggest",
    "UserError": "raretag.core.errors:UserError",
    # rooms
    "data": "raretag.data",
    "labels": "raretag.labels",
    "methods": "raretag.methods",
    "metrics": "raretag.metrics",
    "models": "raretag.models",
    "objective": "raretag.objective",
    "sampling": "raretag.sampling",
    "solvers": "raretag.solvers",
    "streamed": "raretag.streamed",
    # other tools
    "annotation": "raretag.annotation",
    "huggingface": "raretag.huggingface",
    "lightning": "raretag.lightning",
    "ray": "raretag.ray",
    "sklearn": "raretag.sklearn",
}
__getattr__, _names = lazy.exports(__name__, _HOMES)
__all__ = [*_names(), "__version__"]


def __dir__() -> list[str]:
    return __all__
