"""Stable forms of what the papers write with logarithms of probabilities."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from raretag.core.context import Context


def minus_log_p(s: Tensor) -> Tensor:
    """-log sigmoid(s) = log(1 + e^-s): no epsilon, and a gradient even at s = -1e4."""
    return softplus(-s)


def minus_log_not_p(s: Tensor) -> Tensor:
    """-log(1 - sigmoid(s)) = log(1 + e^s)."""
    return softplus(s)


def log_softmax(logits: Tensor, context: Context) -> Tensor:
    """The logarithm of a softmax over all labels of a row, of which the columns may be a block."""
    if context.block is None:
        return torch.log_softmax(logits, 1)
    return logits - context.total(torch.logsumexp(logits, 1, keepdim=True), torch.logaddexp)


def in_full_precision(logits: Tensor) -> Tensor:
    """Half precision loses the small probabilities of rare labels, so losses are computed in float32 at least."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
