"""When something starts that is not there from the beginning."""

from __future__ import annotations

from raretag.core.context import Context
from raretag.core.errors import UserError


def has_begun(context: Context, share: float) -> bool:
    """Whether this share of all epochs is over: 0.1 of 30 epochs is over from epoch 3 (counted from 0) on."""
    if not 0 <= share <= 1:
        raise UserError(f"a share of the epochs must lie in [0, 1], got {share}")
    return context.epoch >= share * context.epochs - 1e-9  # 0.07 * 100 is 7.000000000000001
