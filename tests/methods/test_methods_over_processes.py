"""The loss and its gradient do not depend on how a batch is dealt out to processes, for every row of the table."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.targets import Targets
from support.batches import EPOCHS, a_batch, loss_and_gradient, make
from support.cases import CASES
from support.method_table import Case, Options
from support.two_processes import in_two

PROCESSES = 2
SETTINGS = [(case, options) for case in CASES.values() for options in case.settings]


def two_epochs(case: Case, options: Options, rows: slice) -> tuple[Tensor, Tensor]:
    """Loss and gradient in the second epoch, so that what a method learnt in the first one matters too."""
    logits, targets, index, positives = a_batch(5)  # an odd number: the last share is shorter
    observed = targets.observed.clone()
    observed[1::PROCESSES, 1:] = False  # very uneven: the second process knows next to nothing
    logits, targets, index = logits[rows], Targets(targets.value[rows], observed[rows]), index[rows]
    method = make(case.name, options, positives)
    last = case.epochs[-1]
    loss_and_gradient(method, logits, targets, index, last)
    method.end_epoch(Context(epoch=last, epochs=EPOCHS))
    return loss_and_gradient(method, logits, targets, index, last + 1)


def work(rank: int, folder: str) -> None:
    results = [two_epochs(case, options, slice(rank, None, PROCESSES)) for case, options in SETTINGS]
    torch.save(results, f"{folder}/{rank}.pt")


def test_two_processes_give_the_loss_and_gradient_of_one(tmp_path: Path) -> None:
    in_two(work, tmp_path)
    shares = [torch.load(tmp_path / f"{rank}.pt") for rank in range(PROCESSES)]
    for number, (case, options) in enumerate(SETTINGS):
        loss, gradient = two_epochs(case, options, slice(None))
        dealt = torch.empty_like(gradient)
        for rank in range(PROCESSES):
            dealt[rank::PROCESSES] = shares[rank][number][1] / PROCESSES  # engines average over processes
        mean = sum(share[number][0] for share in shares) / PROCESSES
        torch.testing.assert_close(mean, loss, msg=lambda text: f"{case.name} {options}: {text}")  # noqa: B023
        torch.testing.assert_close(dealt, gradient, msg=lambda text: f"{case.name} {options}: {text}")  # noqa: B023
