"""The penalty of the expected-positives family: how far the predicted number of labels is from the expected one."""

from __future__ import annotations

from torch import Tensor

from raretag.core import processes


def expected_count_penalty(p: Tensor, expected: Tensor) -> Tensor:
    """((mean over items of sum over labels of p) - k)^2 / C^2, with the mean over the batch of all processes.

    The value is the same on every process. A process has a gradient for its own rows only, times the number of
    processes, so that the average over processes is the gradient of the one penalty.
    """
    rows = processes.total(p.new_tensor(float(len(p)))).clamp(min=1.0)
    share = p.sum() / rows
    count = processes.total(share) + processes.count() * (share - share.detach())
    return ((count - expected.to(p.dtype)) / max(1, p.shape[1])).square()
