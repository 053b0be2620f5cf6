"""The contract of learners for very many labels: sparse rows in, the best labels of each item out.

A solver (core/solver.py) fills a head that scores all labels of all items. A ranker never does, so that nothing is as
large as N x C: it reads feature vectors as a sparse matrix, keeps a model of its own, and gives the k best labels of an
item. It lives in the room `ranking/` and is chosen by name as any method is (`--method centroids`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core import registry
from raretag.core.listener import SILENT, Listener

MANY_LABELS = 2000  # from here on they are ranked, not scored one by one
SOME_LABELS, WORK = 1000, 2**22  # from here on, where scoring takes a minute and ranking some seconds
NONE = -1  # in `Ranked.labels`: there are no more; its score is -inf


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best labels of some items, best first."""

    labels: NDArray[np.int32]  # [B, k]; NONE where a ranker has fewer than k
    scores: NDArray[np.float32]  # [B, k], falling within a row; -inf where there is no label

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the labels of N items, as three states without a dense matrix."""

    positive: sparse.csr_array  # [N, C] bool, columns sorted within a row
    absent: Literal["negative", "unknown"] = "negative"  # the state of a label that is stored nowhere
    excepted: sparse.csr_array | None = None  # [N, C] bool: unknown where `absent` is negative, else negative

    @property
    def items(self) -> int:
        return int(self.positive.shape[0])

    @property
    def labels(self) -> int:
        return int(self.positive.shape[1])

    def take(self, rows: NDArray[np.int64]) -> Known:
        """These items, in this order."""
        excepted = None if self.excepted is None else self.excepted[rows]
        return Known(self.positive[rows], self.absent, excepted)


class Ranker(ABC):
    """Ranks labels for items. Made of options alone; `seed` and `effort` are offered to a constructor that names them.

    Rows of features arrive as `models/scaling.py` leaves them: float32, columns sorted, usually of one length, and the
    same in `fit` and in `rank`. There is no column of ones.

    Scores are log-odds or grow like them, and mean the same for every item and label: one cut on them, moved a little
    by how frequent a label is, decides which labels an item gets.
    """

    @abstractmethod
    def fit(self, x: sparse.csr_array, known: Known, listener: Listener = SILENT) -> None:
        """Learn from rows [N, D] float32 and their labels [N, C]. The same content gives the same model.

        A label may have no positive, and an item none. Calling it again forgets what was learned before.
        """

    @abstractmethod
    def rank(self, x: sparse.csr_array, k: int) -> Ranked:
        """The k best labels of each row [B, D]. Rows do not depend on each other; callers choose B."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """All that was learned, ready for safetensors: contiguous tensors on the CPU, in the types to be kept."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state`, on a ranker that was made with the same options."""

    def line(self) -> tuple[sparse.csr_array, NDArray[np.float32]] | None:
        """W [D, C], stored by rows, and b [C], where the scores of rows x are x W + b; None: they are not linear.

        `raretag export` writes them for programs without raretag. Scores of labels that `rank` leaves out may differ.
        """
        return None

    def learned(self) -> dict[str, Any]:
        """What a reader of the record may want to know, ready for JSON: sizes, what was chosen."""
        return {}


def are_many(items: int, labels: int, columns: int) -> bool:
    """Whether `auto` ranks the labels of such data. A line per label takes steps in N + D numbers for each of them.

    >>> are_many(12_000, 1_000, 500), are_many(12_000, 999, 500), are_many(1_000, 1_500, 500), are_many(10, 2_000, 5)
    (True, False, False, True)
    """
    return labels >= MANY_LABELS or (labels >= SOME_LABELS and labels * (items + columns) > WORK)


def is_ranker(name: str) -> bool:
    """Whether the name of a method stands for a ranker, of this package or of one's own."""
    if ":" not in name:
        return registry.room_of("methods", name) == "ranking"
    found = registry.find("methods", name)
    return isinstance(found, type) and issubclass(found, Ranker)


def best_of(scores: NDArray[np.float32], k: int) -> Ranked:
    """The k best of dense scores [B, M]; equal scores in the order of the labels.

    >>> best_of(np.array([[1.0, 3.0, 2.0]], np.float32), 2).labels
    array([[1, 2]], dtype=int32)
    """
    found = min(k, scores.shape[1])
    chosen = np.argpartition(-scores, found - 1, axis=1)[:, :found] if found < scores.shape[1] else None
    chosen = np.broadcast_to(np.arange(found), (len(scores), found)) if chosen is None else np.sort(chosen, axis=1)
    values = np.take_along_axis(scores, chosen, 1)
    order = np.argsort(-values, axis=1, kind="stable")
    labels = np.full((len(scores), k), NONE, np.int32)
    kept = np.full((len(scores), k), -np.inf, np.float32)
    labels[:, :found] = np.take_along_axis(chosen, order, 1)
    kept[:, :found] = np.take_along_axis(values, order, 1)
    labels[kept == -np.inf] = NONE
    return Ranked(labels, kept)
