r"""Two-way loss: positives against negatives, among the labels of an item and among the items of a label.

Kobayashi, "Two-way Multi-Label Loss", CVPR 2023.

Paper and code::

    z        logits                 [B, C]
    T, T_n   temperature, negative_temperature

    l(P, N) = softplus( T_n log sum over N of e^{z_n / T_n} + T log sum over P of e^{-z_p / T} )
    L = mean of l over the items that have a label, P and N the labels that the item has and has not
      + mean of l over the labels that the batch has, P and N the items of the batch with and without the label

With T > 1 all positives count, not only the hardest.

Reduces to:
    none.

Departs from the paper:
    with unknown="ignore" an unknown label is neither in P nor in N; the paper has no unknown labels.
    The items of a label are those of the batch of all processes.

Departs from the authors' code:
    a label without negatives in the batch costs 0; theirs puts -100 in their place, which costs almost nothing, too.
    The loss is not a sum of terms of single labels, so it has no option `reduce` and no parts to exchange.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from raretag.core import processes
from raretag.core.context import NO_CONTEXT, Context
from raretag.core.errors import UserError
from raretag.core.method import Method, NoTerms
from raretag.core.numerics import in_full_precision, log_sum_exp
from raretag.core.objective import check
from raretag.core.targets import Targets, overlap
from raretag.objective.completions import Unknown, completion


class TwoWay(Method):
    """The labels of an item against those it does not have, and the items of a label against those without it.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")], [0, 1, 0]])
    >>> loss = raretag.methods.TwoWay()
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0], [-1.0, 0.0, 0.5]]), targets):.4f}")
    1.6801
    """

    def __init__(
        self, *, temperature: float = 4.0, negative_temperature: float = 1.0, unknown: Unknown = "negative"
    ) -> None:
        if min(temperature, negative_temperature) <= 0:
            raise UserError(f"two_way: temperatures must be above 0, got {temperature} and {negative_temperature}")
        super().__init__(NoTerms(completion(unknown)))
        self.temperature, self.negative_temperature = temperature, negative_temperature

    def loss(self, logits: Tensor, targets: Targets, context: Context = NO_CONTEXT) -> Tensor:
        check(logits, targets)
        z = in_full_precision(logits)
        completed = self.objective.complete(z, Targets(targets.value.to(z.dtype), targets.observed), context)
        there = overlap(completed.counted, completed.value > 0.5)
        absent = overlap(completed.counted, ~there)
        sides = (z / -self.temperature, there), (z / self.negative_temperature, absent)

        low, high = (context.total(log_sum_exp(*side, 1), torch.logaddexp) for side in sides)
        has = context.total(there.sum(1)) > 0
        of_items = torch.where(has, self.price(low, high), 0.0).sum() * processes.count()
        of_items = of_items / processes.total(has.sum()).clamp(min=1)
        if not context.first:  # rows belong to the batch and not to each block of labels
            of_items = torch.zeros_like(of_items)

        low, high = (over_processes(log_sum_exp(*side, 0)) for side in sides)
        has = processes.total(there.sum(0)) > 0
        of_labels = torch.where(has, self.price(low, high), 0.0).sum()
        return of_items + of_labels / context.total(has.sum()).clamp(min=1)

    forward = loss

    def price(self, low: Tensor, high: Tensor) -> Tensor:
        return softplus(self.negative_temperature * high + self.temperature * low)


def over_processes(share: Tensor) -> Tensor:
    """log sum exp over processes of the shares [C], with a gradient for this process's own.

    Times the number of processes, so that the average over processes is the gradient of the one value.
    """
    if processes.count() == 1:
        return share
    value = torch.logsumexp(processes.rows(share[None]), 0)
    return value + processes.count() * torch.exp(share.detach() - value) * (share - share.detach())
