"""Blocks of labels and processes together: the gradients do not depend on how a batch is dealt out."""

from __future__ import annotations

from pathlib import Path

import torch
from test_streamed import FEATURES, LABELS, OTHERS, STORES, make
from torch import Tensor

from raretag.core.context import Context
from raretag.streamed.head import StreamedHead
from raretag.streamed.targets import listed_targets
from support.two_processes import in_two

PROCESSES = 2
SETTINGS = [*OTHERS, ("assume_negative", {}), ("binary_cross_entropy", {}), ("distribution_balanced", {})]
STORE = STORES["mostly unknown"]


def two_steps(name: str, options: dict, rank: int, processes: int) -> tuple[Tensor, list[Tensor]]:
    """Loss and gradients of the second step, for which the first one matters."""
    torch.manual_seed(0)
    head = StreamedHead(FEATURES, LABELS, entries_at_once=12).double()
    x = torch.randn(5, FEATURES, dtype=torch.float64)
    method = make(name, options, STORE.statistics())
    for epoch in (7, 8):
        rows = torch.tensor([3, 9, 1, 0, 6])[rank::processes]  # an odd number: the last share is shorter
        mine = x[rank::processes].clone().requires_grad_()
        loss = head.loss(method, mine, listed_targets(STORE, rows), Context(index=rows, epoch=epoch, epochs=10))
        found = torch.autograd.grad(loss, [mine, *head.parameters()])
    return loss.detach(), list(found)


def work(rank: int, folder: str) -> None:
    torch.save([two_steps(*setting, rank, PROCESSES) for setting in SETTINGS], f"{folder}/{rank}.pt")


def test_two_processes_give_the_gradients_of_one(tmp_path: Path) -> None:
    in_two(work, tmp_path)
    shares = [torch.load(tmp_path / f"{rank}.pt") for rank in range(PROCESSES)]
    for number, (name, options) in enumerate(SETTINGS):
        loss, (of_features, *rest) = two_steps(name, options, 0, 1)
        mean = sum(share[number][0] for share in shares) / PROCESSES  # engines average over processes
        torch.testing.assert_close(mean, loss, msg=lambda text: f"{name} {options}: {text}")  # noqa: B023
        for rank, share in enumerate(shares):
            torch.testing.assert_close(share[number][1][0] / PROCESSES, of_features[rank::PROCESSES])
        for place, gradient in enumerate(rest, start=1):
            mean = sum(share[number][1][place] for share in shares) / PROCESSES
            torch.testing.assert_close(mean, gradient, msg=lambda text: f"{name} {options}: {text}")  # noqa: B023
