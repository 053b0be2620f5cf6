r"""Extremely randomised trees of all labels at once, each without one of the folds.

Geurts, Ernst and Wehenkel, "Extremely randomized trees", Machine Learning 2006; trees of many labels: Kocev et al.,
"Tree ensembles for predicting structured outputs", Pattern Recognition 2013; random projections of the labels: Joly,
Geurts and Wehenkel, "Random forests with random projections of the output space", ECML 2014.

Paper and code::

    y_c      labels less their mean, divided by the root of their deviation: a rare label counts more than its variance
             would give it, and less than if all labels counted the same
    G        Gaussian numbers, drawn anew for each tree

    1.  tree t grows on the items that are not in fold t mod F, towards Y, or towards Y G of 64 columns where there are
        more labels; at each node 2 sqrt(D) columns are tried at random thresholds, a leaf has 2 items or more
    2.  f_tc(leaf) = positives of label c in the leaf / items of the leaf of which c is counted
    3.  f_c(x)     = mean over all trees of f_tc(leaf of x);   held out: over the trees that never saw the item's fold
    4.  score      = sqrt(f_c(x))

A tree asks one question after another, so it finds words that mean something only together, while a linear classifier
adds words up. Alone, a forest is worse than a linear classifier; the two together are better than either. Without the
root in step 4, the few leaves in which a rare label is frequent would outweigh every other learner.

A leaf keeps the labels that are frequent in it, 64 at most. A question about a rare word takes few items away, so that
trees of texts would be hundreds of questions deep, slow to grow and to ask, for nothing (docs/log.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from raretag.core.listener import Listener
from raretag.core.solver import mapped
from raretag.solvers.kernel import centred_labels
from raretag.solvers.learners import Fitted, Learner, Task

TREES = 200
SMALLEST_LEAF = 2
DEEPEST = 100  # questions
COLUMNS = 2.0  # that are tried at a node, times the root of all
PROJECTED = 64  # labels that a tree is grown for; of more, so many random mixtures
KEPT = 64  # labels of a leaf
AT_ONCE = 10  # trees that are kept together if a run is stopped
# Work: items x their depth x columns that are tried x labels of a tree x trees.
WORK = 5 * 2**28  # for each label: about a second
MOST_WORK = 2**37  # for all labels: a minute
TIMES_LINE = 2000  # for each entry of the features and label, which is what a line costs
FEWEST = 30  # trees that are worth growing, also where a line costs little; 50 gain 0.2 mAP more (docs/log.md)
Floats = NDArray[np.float32]


def affordable(items: int, columns: int, labels: int, filled: int) -> int:
    """How many trees there is time for; 0 if they would be too few. More labels give more time, a cheap line less.

    `filled`: entries of the features that are not 0.
    """
    each = items * COLUMNS * sqrt(columns) * min(labels, PROJECTED) * max(np.log2(max(items, 2)), 1)
    trees = int(min(TREES, min(WORK * labels, MOST_WORK) // each))
    return min(trees, max(FEWEST, int(TIMES_LINE * filled * labels // each))) if trees >= FEWEST else 0


class Forest(Learner):
    name = "forest"
    strengths = (1.0,)  # one forest; nothing is chosen

    def __init__(self, task: Task, trees: int, seed: int) -> None:
        self.task, self.trees, self.seed = task, max(trees, task.folds), seed
        self.grown: list[dict[str, Tensor]] = []

    def held_out(self, strength: float, listener: Listener) -> Tensor:
        task, random = self.task, np.random.default_rng([self.seed, 0xF0])
        sums, often = torch.zeros(task.positive.shape), torch.zeros(len(task.fold), 1)
        self.grown = []
        parts = [self.part(start, random) for start in range(0, self.trees, AT_ONCE)]
        for tables, leaf in chain.from_iterable(mapped(grown_trees, task, parts)):
            outside = task.fold == len(self.grown) % task.folds
            found = torch.zeros(len(leaf), task.labels)
            sums[outside] += found.scatter_add_(1, tables["label"][leaf].long(), tables["value"][leaf])
            often[outside] += 1
            self.grown.append(tables)
            listener.progress(len(self.grown) / self.trees)
        return (sums / often.clamp(min=1)).sqrt()

    def part(self, start: int, random: np.random.Generator) -> Part:
        """Goes on where the draws of the trees before it end."""
        numbers, state = range(start, min(start + AT_ONCE, self.trees)), random.bit_generator.state
        for _ in numbers:
            drawn_for(self.task.labels, random)
        return Part(numbers, state)

    def fitted(self, strength: float) -> Fitted:
        """Nothing more is grown: the forest is that of the folds, which together have seen every item."""
        labels = self.task.labels
        return Fitted(torch.zeros(labels, self.task.products.columns), torch.zeros(labels), trees=joined(self.grown))


@dataclass(frozen=True)
class Part:
    """Trees that are grown one after another."""

    numbers: range
    state: Any  # of the random numbers, before the first of them


def grown_trees(task: Task, part: Part) -> list[tuple[dict[str, Tensor], Tensor]]:
    """The tables of each tree, and the leaves at which the items end that it has not seen."""
    from sklearn.tree import ExtraTreeRegressor

    random = np.random.default_rng()
    random.bit_generator.state = part.state
    x = task.products.x.numpy() if isinstance(task.products.x, Tensor) else with_short_indices(task.products.x)
    target = rare_weighted(task).numpy()  # [N, C]
    tried = min(1.0, max(COLUMNS * sqrt(task.products.columns), 10) / task.products.columns)
    grown = []
    for number in part.numbers:
        left_out = task.fold.numpy() == number % task.folds
        inside, outside = np.flatnonzero(~left_out), np.flatnonzero(left_out)
        seed, mixtures = drawn_for(task.labels, random)
        towards = target[inside] if mixtures is None else target[inside] @ mixtures
        tree = ExtraTreeRegressor(
            max_features=tried, min_samples_leaf=SMALLEST_LEAF, max_depth=DEEPEST, random_state=seed
        )
        nodes = tree.fit(x[inside], towards).apply(x)
        counted = None if task.counted is None else task.counted.numpy()[inside]
        known = frequencies(nodes[inside], tree.tree_.node_count, task.positive.numpy()[inside], counted)
        tables = tables_of(tree.tree_, known)
        grown.append((tables, tables["leaf"][nodes[outside]].long()))
    return grown


def drawn_for(labels: int, random: np.random.Generator) -> tuple[int, NDArray[Any] | None]:
    """The seed of a tree and G, where there are enough labels for it."""
    seed = int(random.integers(2**31))
    return seed, random.standard_normal((labels, PROJECTED)) if labels > PROJECTED else None


def with_short_indices(x: Any) -> Any:
    """The same sparse matrix with indices of 32 bits: scikit-learn's trees read no others."""
    return sparse.csr_array((x.data, x.indices.astype(np.int32), x.indptr.astype(np.int32)), shape=x.shape)


def rare_weighted(task: Task) -> Tensor:
    """Y [N, C]: centred labels, divided by the root of their deviation; 0 for what is not counted."""
    y = centred_labels(task.positive, task.counted).double()
    return y / y.std(0, unbiased=False).clamp(min=1e-3).sqrt()


def frequencies(nodes: NDArray[Any], count: int, positive: NDArray[Any], counted: NDArray[Any] | None) -> Any:
    """[nodes, C] sparse: how frequent each label is among the items [N] that ended at a node, of those counted."""
    items = len(nodes)
    members = sparse.csr_array((np.ones(items, np.float32), (nodes, np.arange(items))), shape=(count, items))
    found = sparse.csr_array(members @ sparse.csr_array(positive.astype(np.float32)))
    places = found.tocoo()
    if counted is None:
        among = np.bincount(nodes, minlength=count)[places.coords[0]]
    else:
        among = (members @ counted.astype(np.float32))[places.coords]
    return sparse.csr_array((places.data / np.maximum(among, 1), places.coords), shape=found.shape)


def tables_of(tree: Any, known: Any) -> dict[str, Tensor]:
    """A tree of scikit-learn and what its leaves know, as models/heads/trees.py wants them."""
    own, ends = np.arange(tree.node_count, dtype=np.int32), tree.children_left < 0
    leaf = np.zeros(tree.node_count, np.int32)
    leaf[ends] = np.arange(ends.sum())
    label, value = most_frequent(known[np.flatnonzero(ends)])
    tables = {
        "roots": np.zeros(1, np.int32),
        "feature": np.where(ends, 0, tree.feature).astype(np.int32),
        "threshold": np.where(ends, 0, tree.threshold).astype(np.float32),
        "left": np.where(ends, own, tree.children_left).astype(np.int32),
        "right": np.where(ends, own, tree.children_right).astype(np.int32),
        "leaf": leaf,
        "label": label,
        "value": value,
        "steps": np.zeros(tree.max_depth, np.int32),
    }
    return {name: torch.from_numpy(table) for name, table in tables.items()}


def most_frequent(known: Any) -> tuple[NDArray[np.int32], Floats]:
    """[R, K] the labels of each leaf and how frequent they are, from the most frequent one; 0 where there are fewer."""
    rows, labels = known.tocoo().coords
    order = np.lexsort((labels, -known.tocoo().data, rows))
    rows, labels, values = rows[order], labels[order], known.tocoo().data[order]
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)  # of a label within its row
    width = int(min(place.max() + 1, KEPT)) if len(place) else 1
    label, value = np.zeros((known.shape[0], width), np.int32), np.zeros((known.shape[0], width), np.float32)
    kept = place < width
    label[rows[kept], place[kept]], value[rows[kept], place[kept]] = labels[kept], values[kept]
    return label, value


def joined(grown: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """All trees in one list of nodes and one of leaves."""
    nodes = np.cumsum([0, *(len(one["feature"]) for one in grown)])
    leaves = np.cumsum([0, *(len(one["label"]) for one in grown)])
    width, steps = max(one["label"].shape[1] for one in grown), max(len(one["steps"]) for one in grown)
    moved = [
        {
            **one,
            **{name: one[name] + int(start) for name in ("roots", "left", "right")},
            "leaf": one["leaf"] + int(row),
            **{name: F.pad(one[name], (0, width - one[name].shape[1])) for name in ("label", "value")},
        }
        for one, start, row in zip(grown, nodes, leaves, strict=False)
    ]
    tables = {name: torch.cat([one[name] for one in moved]) for name in moved[0] if name != "steps"}
    return {**tables, "value": tables["value"].half(), "steps": torch.zeros(steps, dtype=torch.int32)}
