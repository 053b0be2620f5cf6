r"""How many of the true positives were marked, from the items on which nothing is marked.

If every item truly has a label, those without any mark are items whose labels were all missed. Paper and code::

    k   true labels of an item, of mean \mu;  k - 1 has mean \lambda = \mu - 1 and dispersion d = variance / \lambda - 1
    c   label frequency: each of the k is marked with probability c, independently
    m, v   mean and variance of the marks of an item, so \mu = m / c and Var k = (v - m (1 - c)) / c^2

    P(no mark) = (1 - c) E (1 - c)^(k - 1) = (1 - c) (1 + d c)^(-\lambda / d)                              (1)

k - 1 is taken to be negative binomial (d > 0), Poisson (d = 0, where the second factor is exp(-\lambda c)) or binomial
(d < 0), by its two moments. Equation 1 falls with c and so fixes it.

Not every collection is like that: in some, items without any label exist. The marks do not show it, but scores do. An
item with a single mark has a label, and with a little less luck would have been an empty one. So if a share h of the
empty items truly has a label, those have a high score as often as single items, and the others seldom:

    r = P(highest score > cut | empty) / P(highest score > cut | single) = h + (1 - h) \rho                 (2)

\rho is what r would be of items without any label: how often single items pass the cut as well if their label has the
score of an item on which it is not marked. It is near 1 where the model tells little, and then r says nothing of h. (It
is too high where they have other labels, which nobody marked; then h comes out too low, and promises with it.) Without
the (1 - h) of the empty items that have no label, equation 1 holds again. What is known of c is weighed by how it fits
the share e_h of empty items among those that are left, and h by how it fits r; before r is seen, h = 1 has the weight
EVERY:

    log e_h ~ Normal(log P(no mark), s^2),   r ~ Normal(h + (1 - h) \rho, u^2)                             (3)

s and u are the errors of e and r in as many items, and a MISFIT each, as no family of k is exact, and single items have
a few more labels than empty ones: the further \rho is from 1, the more of r that may explain. EVERY is about what was
seen: six of the seven data sets that the promises were fitted to have no item without a label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FEWEST = 0.03  # empty items; where they are fewer, somebody may have left out the others
EVERY = 0.8  # weight of the reading that every item has a label
MISFIT, MISFIT_OF_RATIO = 0.03, 0.4  # of log P(no mark); of r, times 1 - rho
CUT = 0.5  # quantile of the highest scores of single items, above which r counts
HAVE = np.linspace(0.02, 0.98, 25)  # h that are weighed beside 1
_FEWEST_OF_RATIO = 20  # empty items, and single ones
_STIFF = -0.98  # d of labels that are all but constant in number
_NEVER = -40.0  # the log of no chance


@dataclass(frozen=True)
class Ratio:
    """Equation 2: how often empty items have a high score, beside items with a single mark."""

    value: float  # r
    error: float  # u
    of_none: float  # rho

    @classmethod
    def of(cls, t: Floats, marked: Bools) -> Ratio | None:
        """From scores out of fold [N, C] and the marks; None if there are too few items of either kind."""
        counts = marked.sum(axis=1)
        empty, single = t[counts == 0], t[counts == 1]
        if min(len(empty), len(single)) < _FEWEST_OF_RATIO:
            return None
        none, generator = single.copy(), np.random.default_rng(0)
        for row, label in enumerate(marked[counts == 1].argmax(axis=1)):
            none[row, label] = generator.choice(t[~marked[:, label], label])
        cut = np.quantile(single.max(axis=1), CUT)
        high, of_single, of_none = (
            ((some.max(axis=1) > cut).sum() + 0.5) / (len(some) + 1) for some in (empty, single, none)
        )
        value = high / of_single
        chance = (1 - high) / high / len(empty) + (1 - of_single) / of_single / len(single)
        rho = of_none / of_single
        error = np.sqrt(value**2 * chance + (MISFIT_OF_RATIO * (1 - rho)) ** 2)
        return cls(min(float(value), 1.0), float(error), float(rho))

    def density(self, have: float) -> float:
        """Of r, if the share `have` of the empty items has a label."""
        expected = have + (1 - have) * self.of_none
        return float(np.exp(-(((self.value - expected) / self.error) ** 2) / 2) / self.error)


@dataclass(frozen=True)
class EmptyItems:
    """What equation 1 needs of the marks."""

    items: int
    empty: float  # share of the items without a mark
    mean: float
    variance: float
    ratio: Ratio | None = None

    @classmethod
    def of(cls, counts: NDArray[np.integer], ratio: Ratio | None = None) -> EmptyItems:
        """`counts` [N]: the marks of each item."""
        return cls(len(counts), float((counts == 0).mean()), float(counts.mean()), float(counts.var()), ratio)

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
        every = weight * self._fit(c)
        chances = np.array([self._chance(have) for have in HAVE])
        some = weight * sum(chance * self.without(have)._fit(c) for have, chance in zip(HAVE, chances, strict=True))
        parts = [(EVERY * self._chance(1.0), every), ((1 - EVERY) * chances.mean(), some)]
        parts = [(share, part / part.sum()) for share, part in parts if part.sum() > 1e-12 and share > 0]
        if not parts:  # nothing that is known of c goes together with them
            return weight
        return np.asarray(sum(share * part for share, part in parts) / sum(share for share, _ in parts))

    def without(self, have: float) -> EmptyItems:
        """The same without the empty items that have no label, if the share `have` of them has one."""
        left = 1 - self.empty * (1 - have)
        mean = self.mean / left
        variance = (self.variance + self.mean**2) / left - mean**2
        return EmptyItems(round(self.items * left), self.empty * have / left, mean, variance)

    def _fit(self, c: Floats) -> Floats:
        """How well each c [S] explains the empty items, at most 1."""
        deviation = np.sqrt((1 - self.empty) / self.empty / self.items + MISFIT**2)
        return np.asarray(np.exp(-(((np.log(self.empty) - self.log_chance(c)) / deviation) ** 2) / 2))

    def _chance(self, have: float) -> float:
        """The density of r, if the share `have` of the empty items has a label."""
        return 1.0 if self.ratio is None else self.ratio.density(have)
