"""The penalty of the expected-positives family: how far the predicted number of labels is from the expected one."""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.context import NOWHERE, Context


def expected_count_penalty(p: Tensor, expected: Tensor, context: Context = NOWHERE) -> Tensor:
    """((mean over items of sum over labels of p) - k)^2 / C^2, with the mean over the batch of all processes.

    The value is the same on every process. A process has a gradient for its own rows only, times the number of
    processes, so that the average over processes is the gradient of the one penalty.
    """
    rows = processes.total(p.new_tensor(float(len(p)))).clamp(min=1.0)
    share = context.total(p.sum()) / rows
    count = processes.total(share) + processes.count() * (share - share.detach())
    penalty = ((count - expected.to(p.dtype)) / max(1, context.labels(p))).square()
    return penalty if context.first else torch.zeros_like(penalty)  # of the batch, not of each block of labels
