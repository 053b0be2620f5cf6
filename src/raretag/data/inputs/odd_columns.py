"""Columns of a table that will not teach what their owner thinks: remarks, never a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raretag.core.errors import some

FAR = 1e4  # times the middle half of the column; numbers that were meant, such as incomes, stay well below


def odd_columns(values: NDArray[Any], names: Sequence[str]) -> list[str]:
    """`values` [N, D]: which columns hold one number only, and which hold one beside which all others look the same."""
    steady, far = [], []
    for name, column in zip(names, values.T, strict=True):
        low, middle, high = np.percentile(column, (25, 50, 75))
        away = np.abs(column - middle)
        row = int(away.argmax())
        if away[row] == 0:
            steady.append(f"'{name}'")
        elif low < high and away[row] > FAR * (high - low):
            far.append(f"'{name}' has {column[row]:g} where half of it lies in {low:g} to {high:g}")
    said = [f"the same number in every item, which teaches nothing: {some(steady, 5)}"] if steady else []
    return said + ([f"a number far from all others; a stand-in for a missing one? {some(far, 5, '; ')}"] if far else [])
