"""In which order items are seen. A sampler is a function: the epoch's number in, the whole global order of rows out.

It keeps no position and draws nothing from a global generator. So processes share one stream by taking every n-th row,
and a run that resumes takes up the same order where it left it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.sampling.class_aware import ClassAware as ClassAware
    from raretag.sampling.repeat_factor import RepeatFactor as RepeatFactor
    from raretag.sampling.undersample import Undersample as Undersample
    from raretag.sampling.uniform import Uniform as Uniform

REGISTRY = {  # the name on the command line, and where its class is
    "class_aware": "raretag.sampling.class_aware:ClassAware",
    "repeat_factor": "raretag.sampling.repeat_factor:RepeatFactor",
    "undersample": "raretag.sampling.undersample:Undersample",
    "uniform": "raretag.sampling.uniform:Uniform",
}
__getattr__, __dir__ = lazy.exports(__name__, {target.partition(":")[2]: target for target in REGISTRY.values()})
