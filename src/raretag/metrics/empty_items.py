r"""How many of the true positives were marked, from the items on which nothing is marked.

If every item truly has a label, those without any mark are items whose labels were all missed. Paper and code::

    k   true labels of an item, of mean \mu;  k - 1 has mean \lambda = \mu - 1 and dispersion d = variance / \lambda - 1
    c   label frequency: each of the k is marked with probability c, independently
    m, v   mean and variance of the marks of an item, so \mu = m / c and Var k = (v - m (1 - c)) / c^2

    P(no mark) = (1 - c) E (1 - c)^(k - 1) = (1 - c) (1 + d c)^(-\lambda / d)                              (1)

k - 1 is taken to be negative binomial (d > 0), Poisson (d = 0, where the second factor is exp(-\lambda c)) or binomial
(d < 0), by its two moments. Equation 1 falls with c and so fixes it.

Not every collection is like that: in some, items without any label exist. Then fewer of the empty items need an
explanation, and c is higher than (1) has it. The marks do not show which is the case, so both readings keep their
weights, EVERY and the rest; within each, what else is known of c is weighed by how it fits the share e of empty items:

    every item has a label    log e ~ Normal(log P(no mark), s^2)                                          (2)
    some have none            log e is anything above that                                                 (3)

s is the error of e in n items, and MISFIT, as no family of k is exact. EVERY is about what was seen: six of the seven
data sets that the promises were fitted to have no item without a label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST = 0.03  # empty items; where they are fewer, somebody may have left out the others
EVERY = 0.8  # weight of the reading that every item has a label
MISFIT = 0.03  # of log P(no mark)
_STIFF = -0.98  # d of labels that are all but constant in number
_NEVER = -40.0  # the log of no chance


@dataclass(frozen=True)
class EmptyItems:
    """What equation 1 needs of the marks."""

    items: int
    empty: float  # share of the items without a mark
    mean: float
    variance: float

    @classmethod
    def of(cls, counts: NDArray[np.integer]) -> EmptyItems:
        """`counts` [N]: the marks of each item."""
        return cls(len(counts), float((counts == 0).mean()), float(counts.mean()), float(counts.var()))

    @property
    def tell(self) -> bool:
        """Whether there are enough of them to learn from."""
        return FEWEST <= self.empty < 1

    def log_chance(self, c: Floats) -> Floats:
        """log P(no mark) [S], equation 1; of no chance where c would leave an item less than a label."""
        more = np.maximum(self.mean / c - 1, 1e-9)
        d = np.maximum((self.variance - self.mean * (1 - c)) / c**2 / more - 1, _STIFF)
        d = np.where(np.abs(d) < 1e-6, 1e-6, d)
        log_chance = np.log1p(-c) - more / d * np.log1p(d * c)
        return np.asarray(np.where(c < self.mean, np.maximum(log_chance, _NEVER), _NEVER))

    def marked_share(self) -> float | None:
        """c if every item truly has a label; None if no c explains so many empty items.

        >>> EmptyItems(1000, 0.229, 1.24, 0.95).marked_share()
        0.54
        """
        c = np.arange(0.01, min(self.mean, 1.0), 0.01)
        if not self.tell or not len(c):
            return None
        apart = np.abs(self.log_chance(c) - np.log(self.empty))
        best = int(np.argmin(apart))
        return round(float(c[best]), 2) if apart[best] < 0.1 else None

    def weighed(self, weight: Floats, c: Floats) -> Floats:
        """What is known of c [S] together with the empty items."""
        if not self.tell:
            return weight
        deviation = np.sqrt((1 - self.empty) / self.empty / self.items + MISFIT**2)
        apart = (np.log(self.empty) - self.log_chance(c)) / deviation
        every = np.exp(-(apart**2) / 2)
        some = weight * np.where(apart > 0, 1.0, every)
        if not some.sum() > 0:
            return weight
        some /= some.sum()
        total = (weight * every).sum()  # 0: nothing that is known of c goes together with it
        return np.asarray(EVERY * weight * every / total + (1 - EVERY) * some if total > 1e-12 else some)
