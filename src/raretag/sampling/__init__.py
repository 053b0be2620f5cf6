"""The order of items. A sampler is a function from the number of the epoch to the global order of rows.

It keeps no position and draws nothing from a global generator. So processes share one stream by taking every n-th row,
and a run that resumes takes up the same order where it left it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.sampling.class_aware import ClassAware as ClassAware
    from raretag.sampling.epochs import RepeatFactor as RepeatFactor
    from raretag.sampling.epochs import Undersample as Undersample
    from raretag.sampling.epochs import Uniform as Uniform
    from raretag.sampling.stream import Stream as Stream

REGISTRY = {  # the name on the command line, and where its class is
    "class_aware": "raretag.sampling.class_aware:ClassAware",
    "repeat_factor": "raretag.sampling.epochs:RepeatFactor",
    "undersample": "raretag.sampling.epochs:Undersample",
    "uniform": "raretag.sampling.epochs:Uniform",
}
__getattr__, __dir__ = lazy.exports(
    __name__, targets=REGISTRY.values(), modules={"raretag.sampling.stream": ["Stream"]}
)
__all__ = __dir__()
