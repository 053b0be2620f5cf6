r"""One linear model per label: ridge regression plus the label's centroid, in shares chosen on held-out items. Ours.

No paper. It consists of: ridge regression with one inverse for all labels (ranking/ridge.py) and its closed form of
leave-one-out; class centroids (Rocchio 1971), which are strong for labels of a few items; propensities p_c of labels
(Jain, Prabhu and Varma, KDD 2016) as the weight of rare labels.

Code::

    x_i        rows [N, D], scaled to a mean square length of 1; the ridge has a further column of ones
    y_ic       1 positive, 0 negative
    W          ridge regression, kept where a feature and a label occur together
    v_c        sum_i y_ic x_i, scaled to length 1
    r_c        (1/p_c) of a label, 1/p_c = 1 + (log N - 1) (B + 1)^A (n_c + B)^-A,   A = 0.55, B = 1.5

    1.  pattern: the largest entries of X'Y, at most `columns` of a label
    2.  unknown entries among known ones count as what the ridge predicts for them without their item, within 0 and 1;
        then the ridge is solved once more
    3.  z_ic, v_c x_i of some items without themselves, in closed form: no second fit
    4.  share a and power e: of those whose P@5 on these items is at most 3 % below the best, the ones with the highest
        mean of recall@10 over labels of 100 items or more, of 20 to 99, and of fewer: rare labels gain where that
        costs little, and frequent ones are not given up for them
    5.  score_c(x) = r_c^e (W_c x + b_c) + a v_c x

A ridge regression predicts probabilities, so labels of all frequencies can be compared; but those of labels with a few
items are shrunk to almost nothing. Their centroid and r_c make up for it. The result is one sparse line per label.

If a label's absent entries are unknown and some of its negatives are observed, it is fitted to its observed entries
alone. If none of its negatives is observed, all its unknown entries count as negative.

Reduces to:
    ridge regression with shares=(0,), powers=(0,); centroids with very large shares.

Departs from the paper:
    none to depart from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.listener import SILENT, Listener, Part
from raretag.core.ranker import NONE, Known, Ranked, Ranker, best_of
from raretag.ranking.line import Floats, best_by_lines, largest_of_rows, packed, product_rows, unpacked
from raretag.ranking.ridge import Ridge, block_size, masked_line

A, B = 0.55, 1.5  # of the propensities
FIRST, PLACES = 5, 10  # in which precision and recall are judged
GIVEN = 0.03  # of the precision, for a better balance
EDGES = (20, 100)  # items of a label: three groups of labels are balanced
LISTED = 100  # labels that each part of the score may bring to be judged
SAMPLE = {"quick": 200, "default": 600, "best": 2000}  # held-out items
LARGEST = {"quick": 2000, "default": 5000, "best": 12_000}  # columns with a common inverse: 100 MB at 5,000
NEVER = -1e4  # the score of a label without positives
WEIGHTS = 30_000_000  # of all labels: 6 bytes each in a file


class RidgeCentroids(Ranker):
    """`columns`: at most that many weights of a label; None stands for 30 million in all, but 64 or more.

    >>> x = sparse.csr_array(np.eye(3, dtype=np.float32))
    >>> ranker = RidgeCentroids()
    >>> ranker.fit(x, Known(sparse.csr_array(np.array([[1, 0], [0, 1], [0, 1]], bool))))
    >>> ranker.rank(x, 1).labels.ravel().tolist()
    [0, 1, 1]
    """

    def __init__(
        self,
        *,
        strength: float = 3.0,
        shares: Sequence[float] = (0.0, 0.3, 0.7, 1.0, 1.4, 2.0, 3.0),
        powers: Sequence[float] = (0.0, 0.25, 0.5, 0.75),
        columns: int | None = None,
        effort: Literal["quick", "default", "best"] = "default",
        seed: int = 0,
    ) -> None:
        if strength <= 0 or (columns is not None and columns < 1) or effort not in SAMPLE:
            raise UserError(
                f"strength is {strength}, columns {columns}, effort {effort!r}; expected above 0, 1 or more, one of "
                "quick, default, best"
            )
        if not shares or not powers or min(*shares, *powers, 0.0) < 0:
            raise UserError(f"shares are {shares} and powers {powers}; expected one or more of each, and none below 0")
        self.strength, self.shares, self.powers, self.columns = strength, shares, powers, columns
        self.effort, self.seed = effort, seed
        self.found: dict[str, Any] = {}
        self.weight: Any = None  # [D, C] by rows
        self.bias = np.zeros(0, np.float32)

    def fit(self, x: sparse.csr_array, known: Known, listener: Listener = SILENT) -> None:
        unit = float(np.sqrt((x.data.astype(np.float64) ** 2).sum() / max(x.shape[0], 1))) or 1.0
        x = sparse.csr_array((x.data / np.float32(unit), x.indices, x.indptr), shape=x.shape)
        with_one = sparse.csr_array(sparse.hstack([x, np.ones((x.shape[0], 1), np.float32)]))
        targets = known.positive.astype(np.float32)
        count = np.asarray(known.positive.sum(0)).ravel()
        rare = inverse_propensities(count, known.items)
        sums = together(x, targets, self.columns or max(64, WEIGHTS // max(known.labels, 1)))  # step 1
        listener.progress(0.1)
        ridge = Ridge(with_one, self.strength, LARGEST[self.effort])
        listener.progress(0.4)
        pattern = sparse.csr_array(sparse.vstack([sums, count.astype(np.float32)[None]]))
        if known.absent == "negative" and known.excepted is not None and known.excepted.nnz:  # step 2
            line = with_data(pattern, ridge.weights(targets, pattern))
            targets = sparse.csr_array(targets + guesses(with_one, line, ridge, known.excepted))
        a, power = self._chosen(ridge, x, known.positive, targets, sums, rare)  # steps 3, 4
        listener.progress(0.6)
        line = with_data(pattern, ridge.weights(targets, pattern, Part(listener, 0.6, 1.0).progress))
        if known.absent == "unknown" and known.excepted is not None:
            fit_observed(line, with_one, known.positive, known.excepted, self.strength)
        boost = (rare**power).astype(np.float32)
        bias = line[[-1]].toarray()[0] * boost
        line = sparse.csr_array(line[:-1])
        centroid = sums.data / lengths(sums).clip(min=1e-12)[sums.indices]
        self.weight = with_data(sums, (line.data * boost[line.indices] + a * centroid) / unit)  # step 5
        self.bias = np.where(count > 0, bias, NEVER).astype(np.float32)
        self.found |= {"share_of_centroids": a, "power_of_rareness": power, "weights": int(sums.nnz)}
        listener.progress(1.0)

    def _chosen(
        self,
        ridge: Ridge,
        x: sparse.csr_array,
        positive: sparse.csr_array,
        targets: sparse.csr_array,
        sums: sparse.csr_array,
        rare: NDArray[np.float64],
    ) -> tuple[float, float]:
        """Share of the centroids and power of rareness."""
        self.found = {}
        tried = list(product(self.shares, self.powers))
        some = np.flatnonzero((np.diff(positive.indptr) > 0) & (np.diff(x.indptr) > 0))
        if len(tried) == 1 or len(some) < 2:
            return tried[0]
        chosen = np.random.default_rng(self.seed).permutation(len(some))[: SAMPLE[self.effort]]
        some = np.sort(some[chosen])
        group = np.digitize(np.asarray(positive.sum(0)).ravel(), EDGES)  # [C] 0, 1 or 2
        total = np.bincount(group[positive[some].indices], minlength=3)
        right = np.zeros(len(tried))  # among the first places
        found = np.zeros((len(tried), 3))  # positives of each group
        squares = lengths(sums) ** 2
        for rows in np.array_split(some, max(1, len(some) // block_size(*positive.shape))):
            answer = positive[rows].toarray()
            by_ridge = ridge.held_out(rows, targets)
            by_centroid = held_out_cosines(x[rows], answer, sums, squares)
            ends = [by_ridge * (rare**power).astype(np.float32) for power in {min(self.powers), max(self.powers)}]
            labels = shortlist(*ends, by_centroid)  # what is best by a sum is near the top by one of its parts
            there, of_label = labels >= 0, rare[labels]
            true = np.take_along_axis(answer, labels, 1)
            r, v = (np.take_along_axis(one, labels, 1) for one in (by_ridge, by_centroid))
            for at, (a, power) in enumerate(tried):
                score = np.where(there, r * of_label**power + a * v, -np.inf).astype(np.float32)
                first = best_of(score, PLACES).labels
                hit = np.take_along_axis(true, first, 1) & (first >= 0)
                right[at] += hit[:, :FIRST].sum()
                found[at] += np.bincount(group[np.take_along_axis(labels, first, 1)[hit]], minlength=3)
        close = right >= (1 - GIVEN) * right.max()
        balance = (found / np.maximum(total, 1)).sum(1)
        at = int(np.where(close, balance, -1).argmax())
        self.found = {"held_out_P@5": float(right[at] / FIRST / len(some)), "held_out_items": len(some)}
        return tried[at]

    def rank(self, x: sparse.csr_array, k: int) -> Ranked:
        return best_by_lines(x, self.weight, self.bias, k)

    def state(self) -> dict[str, Tensor]:
        return {**packed(self.weight), "bias": torch.from_numpy(self.bias)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.weight, self.bias = unpacked(state), state["bias"].numpy()

    def line(self) -> tuple[sparse.csr_array, Floats]:
        return self.weight, self.bias

    def learned(self) -> dict[str, Any]:
        return self.found


def inverse_propensities(count: NDArray[Any], items: int) -> NDArray[np.float64]:
    """1 / p_c [C], at least 1."""
    return np.asarray(1 + max(np.log(max(items, 1)) - 1, 0.0) * (B + 1) ** A * (count + B) ** -A)


def together(x: sparse.csr_array, y: sparse.csr_array, most: int) -> sparse.csr_array:
    """X'Y [D, C] by rows, with at most the `most` largest entries of a label."""
    by_label = sparse.csr_array(y.T)
    starts = range(0, y.shape[1], 4096)  # all entries before cutting may be many
    parts = [largest_of_rows(sparse.csr_array(by_label[start : start + 4096] @ x), most) for start in starts]
    found = sparse.csr_array(sparse.vstack(parts).T).tocsr()
    found.sort_indices()
    return found


def shortlist(*scores: Floats) -> NDArray[np.int32]:
    """[s, k] the labels that are among the best by one of several scores [s, C], each once; NONE fills the end."""
    found = np.sort(np.concatenate([best_of(one, LISTED).labels for one in scores], 1), axis=1)
    found[:, 1:][found[:, 1:] == found[:, :-1]] = NONE
    return found


def held_out_cosines(
    x: sparse.csr_array, positive: NDArray[np.bool_], sums: sparse.csr_array, squares: NDArray[np.float64]
) -> Floats:
    """[s, C] rows times centroids that do not know them; sums [D, C] are those of all items, with squared lengths."""
    own = x.power(2).sum(1)[:, None]
    inner = (x @ sums).toarray()
    length = np.where(positive, squares - 2 * inner + own, squares)
    inner = np.where(positive, inner - own, inner)
    return np.where(length > 1e-6, inner / np.sqrt(length.clip(min=1e-6)), 0).astype(np.float32)


def lengths(sums: sparse.csr_array) -> NDArray[np.float64]:
    """[C] of the columns."""
    return np.sqrt(np.bincount(sums.indices, sums.data.astype(np.float64) ** 2, sums.shape[1]))


def with_data(pattern: sparse.csr_array, data: Floats) -> sparse.csr_array:
    return sparse.csr_array((data.astype(np.float32), pattern.indices, pattern.indptr), shape=pattern.shape)


def guesses(x: sparse.csr_array, line: sparse.csr_array, ridge: Ridge, unknown: sparse.csr_array) -> sparse.csr_array:
    """[N, C] what the ridge, which took unknown entries for 0, would say of each if it did not know the item."""
    data, scores = np.empty(unknown.nnz, np.float32), np.zeros(unknown.shape[1], np.float32)
    some = np.flatnonzero(np.diff(unknown.indptr))
    rest = np.maximum(1 - ridge.own(some), 1e-3)
    for place, labels, sums in product_rows(x[some], line):
        part = slice(unknown.indptr[some[place]], unknown.indptr[some[place] + 1])
        scores[labels] = sums
        data[part] = scores[unknown.indices[part]] / rest[place]
        scores[labels] = 0
    return with_data(unknown, data.clip(0, 1))


def fit_observed(
    line: sparse.csr_array,
    x: sparse.csr_array,
    positive: sparse.csr_array,
    negative: sparse.csr_array,
    strength: float,
) -> None:
    """Labels with observed negatives: their entries of `line` [D, C] from observed entries alone."""
    present, absent = sparse.csc_array(positive), sparse.csc_array(negative)
    entry = sparse.csc_array(sparse.csr_array((np.arange(line.nnz), line.indices, line.indptr), shape=line.shape))
    for label in np.flatnonzero(np.diff(absent.indptr)):
        yes, no = (one.indices[one.indptr[label] : one.indptr[label + 1]] for one in (present, absent))
        target = np.concatenate([np.ones(len(yes), np.float32), np.zeros(len(no), np.float32)])
        weight = masked_line(x[np.concatenate([yes, no])], target, strength)
        part = slice(entry.indptr[label], entry.indptr[label + 1])
        line.data[entry.data[part]] = weight[entry.indices[part]]
