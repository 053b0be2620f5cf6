r"""Graph convolutions over labels (ML-GCN).

Chen et al., "Multi-Label Image Recognition with Graph Convolutional Networks", CVPR 2019, arXiv:1904.03582.

Paper and code::

    f        features               of an item                              [B, D]
    W_g      the head label_graph   classifiers made from the graph of labels that occur together [C, D]
    z        logits                 f W_g^T                                 [B, C]

    (8)  L = -y log p - (1 - y) log(1 - p),   p = sigmoid(z)

What is special is the model: see raretag/models/heads/label_graph.py for its equations and options
(`--set head.vectors=words.npy`, `--set head.hidden=256`).

Reduces to:
    binary_cross_entropy with the same `unknown`; with another head it is just that.

Departs from the paper:
    mean over items and labels. The number (8) is the paper's, whose loss sums over labels: reduce="rows".

Departs from the authors' code:
    none in the loss; the head's file lists its own.
"""

from __future__ import annotations

from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy


class MlGcn(Method):
    """The loss of graph convolutions over labels: the head `label_graph` is part of the engine.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.MlGcn()
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.9714
    """

    head = "label_graph"

    def __init__(self, *, unknown: Unknown = "negative", reduce: Per = "entries") -> None:
        super().__init__(Objective(complete=completion(unknown), score=CrossEntropy(), reduce=reduction(reduce)))
