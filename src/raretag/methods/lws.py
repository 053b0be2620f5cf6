r"""Learnable weight scaling (LWS).

Kang et al., "Decoupling Representation and Classifier for Long-Tailed Recognition", ICLR 2020, arXiv:1910.09217.

Paper and code::

    W, b     head.classify          linear classifier
    s        head.scale             one scale for each label, 1 at first    [C]

    z = (W x + b) s
    stage 1: items as they come; everything but s learns
    stage 2: class-aware items; only s learns

Reduces to:
    binary_cross_entropy with the same `unknown`, in two stages.

Departs from the paper:
    binary cross entropy in place of softmax, for several labels; mean over items and labels.
    Stage 2 has a tenth of the epochs; the paper's have 10 after 90 or 5 after 200.

Departs from the authors' code:
    none: there too the scale multiplies the bias, and is learned on the training items.
"""

from __future__ import annotations

from raretag.core.method import Method, Stage
from raretag.core.objective import Objective
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy


class Lws(Method):
    """The loss of learnable weight scaling: the head `scaled` and two stages are part of the engine.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.Lws()
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.9714
    """

    head = "scaled"
    stages = (
        Stage(share=0.9, trains=r"^(?!head\.scale$)"),
        Stage(share=0.1, trains=r"^head\.scale$", sampler="class_aware"),
    )

    def __init__(self, *, unknown: Unknown = "negative", reduce: Per = "entries") -> None:
        super().__init__(Objective(complete=completion(unknown), score=CrossEntropy(), reduce=reduction(reduce)))
