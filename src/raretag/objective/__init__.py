"""The plain parts that many methods share. What belongs to one paper alone lives in that paper's file in `methods`.

For a method of your own: the contracts (`Complete`, `Shape`, `Keep`, `Weigh`, `Score`, `Reduce`) and the parts to
choose from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.core.parts import Complete as Complete
    from raretag.core.parts import Keep as Keep
    from raretag.core.parts import Ratio as Ratio
    from raretag.core.parts import Reduce as Reduce
    from raretag.core.parts import Score as Score
    from raretag.core.parts import Shape as Shape
    from raretag.core.parts import Weigh as Weigh
    from raretag.core.targets import Completed as Completed
    from raretag.objective.completions import LikelyIsPositive as LikelyIsPositive
    from raretag.objective.completions import ObservedOnly as ObservedOnly
    from raretag.objective.completions import Unknown as Unknown
    from raretag.objective.completions import UnknownIsNegative as UnknownIsNegative
    from raretag.objective.completions import completion as completion
    from raretag.objective.reductions import MeanOverEntries as MeanOverEntries
    from raretag.objective.reductions import MeanOverKept as MeanOverKept
    from raretag.objective.reductions import MeanOverRows as MeanOverRows
    from raretag.objective.reductions import Per as Per
    from raretag.objective.reductions import Sum as Sum
    from raretag.objective.reductions import reduction as reduction
    from raretag.objective.scores import Asymmetric as Asymmetric
    from raretag.objective.scores import BatchBalance as BatchBalance
    from raretag.objective.scores import CrossEntropy as CrossEntropy
    from raretag.objective.scores import Focal as Focal
    from raretag.objective.shapes import NegativeTolerance as NegativeTolerance
    from raretag.objective.shapes import ObservedMargin as ObservedMargin
    from raretag.objective.weights import LabelWeights as LabelWeights
    from raretag.objective.weights import Product as Product
    from raretag.objective.weights import Rebalancing as Rebalancing
    from raretag.objective.weights import SideWeights as SideWeights

_MODULES = {  # what each module offers
    "raretag.core.parts": ("Complete", "Keep", "Ratio", "Reduce", "Score", "Shape", "Weigh"),
    "raretag.core.targets": ("Completed",),
    "raretag.objective.completions": ("LikelyIsPositive", "ObservedOnly", "Unknown", "UnknownIsNegative", "completion"),
    "raretag.objective.reductions": ("MeanOverEntries", "MeanOverKept", "MeanOverRows", "Per", "Sum", "reduction"),
    "raretag.objective.scores": ("Asymmetric", "BatchBalance", "CrossEntropy", "Focal"),
    "raretag.objective.shapes": ("NegativeTolerance", "ObservedMargin"),
    "raretag.objective.weights": ("LabelWeights", "Product", "Rebalancing", "SideWeights"),
}
__getattr__, __dir__ = lazy.exports(__name__, modules=_MODULES)
__all__ = __dir__()
