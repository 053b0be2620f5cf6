"""Tables of labels with 1, 0 and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

NAN = float("nan")


@st.composite
def tables(draw: st.DrawFn) -> NDArray[np.float32]:
    """[N, C] with 1, 0 and NaN, in all mixtures that make the store choose another form."""
    items, labels = draw(st.integers(0, 7)), draw(st.integers(1, 20) | st.just(500))
    shares = draw(
        st.sampled_from(
            [
                (1, 0, 0),
                (0.2, 0.8, 0),
                (0.2, 0, 0.8),
                (0.1, 0.1, 0.8),
                (0.1, 0.8, 0.1),
                (0.01, 0.01, 0.98),
                (0.01, 0.98, 0.01),
                (0.3, 0.4, 0.3),
            ]
        )
    )
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    return random.choice(np.array([1, 0, NAN], np.float32), (items, labels), p=shares)


def equal(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return np.array_equal(a, b, equal_nan=True)
