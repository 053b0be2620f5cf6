r"""The terms of the one equation together with their derivatives::

    L     = sum k w ( t pos(s+) + (1 - t) neg(s-) )
    dL/dz =     k w ( t pos'(s+) ds+/dz + (1 - t) neg'(s-) ds-/dz )

Scores give their slopes beside their values (`Score.prices`), shapes give ds/dz (`Shape.slopes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from raretag.core.context import Context
from raretag.core.logistic import Logistic
from raretag.core.targets import Completed

if TYPE_CHECKING:
    from raretag.core.objective import Objective


def kept(objective: Objective, z: Tensor, t: Completed, context: Context) -> Tensor:
    """k [B, C] bool."""
    return t.counted if objective.keep is None else t.counted & objective.keep(z, t, context).bool()


def value_and_slope(objective: Objective, z: Tensor, t: Completed, context: Context) -> tuple[Tensor, Tensor]:
    """The terms and their derivatives by the logits, [B, C] both, before it is asked which of them count."""
    positive_s, negative_s = (z, z) if objective.shape is None else objective.shape(z, t, context)
    positive = Logistic(positive_s)
    negative = positive if negative_s is positive_s else Logistic(negative_s)
    up, down = objective.score.prices(positive, negative, t)
    if objective.shape is not None:
        slopes = objective.shape.slopes()
        assert slopes is not None
        up, down = (
            side if slope == 1.0 else side._replace(slope=slope * side.slope)
            for side, slope in zip((up, down), slopes, strict=True)
        )
    absent = 1.0 - t.value
    value = t.value * up.value + absent * down.value
    slope = t.value * up.slope + absent * down.slope
    if objective.weigh is not None:
        weight = objective.weigh(z, t, context)
        value, slope = weight * value, weight * slope
    return value, slope
