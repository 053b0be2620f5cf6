"""Classifiers that labels learn together, along the graph of labels that occur together (ML-GCN).

Chen et al., "Multi-Label Image Recognition with Graph Convolutional Networks", CVPR 2019, arXiv:1904.03582.

Paper and code::

    P        P                      P_ij = n_ij / n_i: how often j is there when i is                        [C, C]
    t        threshold              below it a pair does not count
    p        weight                 of the neighbours, relative to the label itself
    A^       adjacency              [C, C], constant
    X        vectors                what is known of each label, from a file or learned                      [C, W]

    A = weight [P >= t] / (sum of the column) + I
    A^ = (A D)^T D,   D = diag(row sums of A)^{-1/2}
    z = f (A^ LeakyReLU(A^ X W_1) W_2)^T

Departs from the paper: features are pooled by the backbone (by mean; the paper's are pooled by maximum). The relative
weight is the code's .25, which is the paper's p / (1 - p) at p = .2; its columns are weighted and then transposed.
Departs from the authors' code: the adjacency is a buffer, not a parameter that never learns.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from raretag.core.errors import UserError
from raretag.core.targets import LabelStatistics


class LabelGraph(nn.Module):
    adjacency: Tensor
    vectors: Tensor

    def __init__(
        self,
        features: int,
        labels: int,
        statistics: LabelStatistics,
        *,
        vectors: str
        | None = None,  # a .npy file [C, W], such as word vectors of the label names; also in $RARETAG_DATA
        size: int = 300,  # W of vectors that are learned
        hidden: int = 1024,
        threshold: float = 0.4,
        weight: float = 0.25,
    ) -> None:
        super().__init__()
        if not 0 <= threshold <= 1 or weight < 0:
            raise UserError(
                f"label_graph needs threshold in [0, 1] and weight >= 0, got threshold={threshold}, weight={weight}"
            )
        self.register_buffer("adjacency", adjacency(statistics, threshold, weight))
        if vectors is None:
            self.vectors = nn.Parameter(torch.randn(labels, size))
        else:
            self.register_buffer("vectors", read_vectors(vectors, labels))
        self.first = nn.Linear(self.vectors.shape[1], hidden, bias=False)
        self.second = nn.Linear(hidden, features, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        graph = self.adjacency.to(features.dtype)
        hidden = leaky_relu(graph @ self.first(self.vectors), 0.2)
        logits: Tensor = features @ (graph @ self.second(hidden)).T
        return logits


def adjacency(statistics: LabelStatistics, threshold: float, weight: float) -> Tensor:
    """A^ [C, C]. A label that never occurs has no neighbours."""
    if statistics.cooccurrence is None:
        raise UserError(
            "label_graph needs to know which labels occur together, and the statistics do not say; "
            "expected counts of pairs, from `labels.statistics(cooccurrence=True)`"
        )
    pairs = statistics.cooccurrence
    P = (pairs.to_dense() if pairs.is_sparse else pairs).double() / statistics.positives[:, None].clamp(min=1)
    near = (threshold <= P) & (P > 0)
    near.fill_diagonal_(False)
    A = weight * near / near.sum(0).clamp(min=1) + torch.eye(len(P), dtype=torch.float64)
    D = A.sum(1).rsqrt()
    return (D[:, None] * A.T * D).float()


def read_vectors(file: str, labels: int) -> Tensor:
    found = next(
        (path for path in (Path(file), Path(os.environ.get("RARETAG_DATA", ".")) / file) if path.is_file()), None
    )
    if found is None:
        raise UserError(
            f"label_graph.vectors: the file '{file}' does not exist, here or in $RARETAG_DATA; expected a .npy file "
            "with one vector per label, for example GloVe vectors of the label names"
        )
    try:
        values = np.load(found, allow_pickle=False)
    except (ValueError, EOFError):
        raise UserError(f"label_graph.vectors: '{file}' is not a .npy file of numbers") from None
    if getattr(values, "ndim", 0) != 2 or len(values) != labels:
        raise UserError(
            f"label_graph.vectors: '{file}' holds {getattr(values, 'shape', 'several arrays')}, "
            f"expected one vector for each of the {labels} labels, in their order"
        )
    return torch.from_numpy(values.astype(np.float32))
