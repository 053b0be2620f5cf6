r"""Adagrad with one number of state for each label instead of one for each weight.

Duchi et al., "Adaptive Subgradient Methods", JMLR 2011, with the squares averaged over a row, as is usual for large
embedding tables::

    h_c <- h_c + mean over the row of g_c^2,     w_c <- w_c - lr g_c / (sqrt(h_c) + eps)

A million labels x 256 features: 4 MB of state, where Adam keeps 2 GB. A rare label, whose gradients are seldom and
small, keeps a large rate. Sparse gradients change only their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from raretag.core.errors import UserError

ENTRIES = 2**22  # weights at once, so that no second matrix of them is made


class RowAdagrad(torch.optim.Optimizer):
    """Adagrad for large heads; see the module.

    parameters   matrices [C, D] or vectors [C], with dense or sparse gradients

    >>> import torch, raretag
    >>> head = torch.nn.Linear(4, 1000)
    >>> optimizer = raretag.streamed.RowAdagrad(head.parameters(), lr=0.05)
    >>> head(torch.ones(1, 4)).sum().backward()
    >>> optimizer.step()
    >>> optimizer.state[head.weight]["sum"].shape
    torch.Size([1000])
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float = 0.05, eps: float = 1e-8) -> None:
        if lr <= 0 or eps <= 0:
            raise UserError(f"RowAdagrad: lr and eps must be above 0, got {lr} and {eps}")
        super().__init__(parameters, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group["lr"], group["eps"])
        return loss

    def _update(self, parameter: Tensor, lr: float, eps: float) -> None:
        state = self.state[parameter]
        if not state:
            state["sum"] = parameter.new_zeros(len(parameter))  # h [C]
        gradient = parameter.grad
        assert gradient is not None
        if gradient.is_sparse:
            gradient = gradient.coalesce()
            numbers, values = gradient.indices()[0], gradient.values()
        else:
            numbers, values = None, gradient
        size = max(1, ENTRIES // max(1, values[:1].numel()))
        for start in range(0, len(values), size):
            rows = slice(start, start + size)
            g, place = values[rows], rows if numbers is None else numbers[rows]
            h = state["sum"][place] + g.flatten(1).square().mean(1) if g.dim() > 1 else state["sum"][place] + g.square()
            state["sum"][place] = h
            rate = -lr / (h.sqrt() + eps)
            change = g * rate.view(-1, *[1] * (g.dim() - 1))
            if isinstance(place, Tensor):
                parameter.index_add_(0, place, change)
            else:
                parameter[place] += change
