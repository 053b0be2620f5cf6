"""Random batches and every method with every setting of the table: what tests of all methods begin with."""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.method import Method, build_method
from raretag.core.targets import LabelStatistics, Targets
from support.cases import CASES
from support.method_table import Case, Options, Same

ITEMS = 12
EPOCHS = 10
ALL = [(case, options) for case in CASES.values() for options in case.settings]
EDGES = ALL + [(case, same.options) for case in CASES.values() for same in case.same]
SAMES = [(case, same) for case in CASES.values() for same in case.same]


def label(value: object) -> str:
    if isinstance(value, Case):
        return value.name
    if isinstance(value, Same):
        return f"{value.options}-{value.other}"
    return str(value) if isinstance(value, dict) else ""


def make(name: str, options: Options, positives: Tensor) -> Method:
    return build_method(name, LabelStatistics.of_counts(positives, ITEMS), items=ITEMS, **fit(options, len(positives)))


def fit(options: Options, labels: int, order: Tensor | None = None) -> Options:
    """Options that hold one number for each label, for as many labels as there are."""
    places = range(labels) if order is None else order.tolist()
    return {key: [value[i] for i in places] if isinstance(value, list) else value for key, value in options.items()}


def a_batch(rows: int = 4, labels: int = 5, seed: int = 0) -> tuple[Tensor, Targets, Tensor, Tensor]:
    """logits, targets, index, positives; the counts include a label that is never there and one that always is."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, labels, generator=generator, dtype=torch.float64)
    value = torch.rand(rows, labels, generator=generator).lt(0.4).double()
    observed = torch.rand(rows, labels, generator=generator) < 0.6
    index = torch.randperm(ITEMS, generator=generator)[:rows]
    positives = torch.tensor([4, 9, 0, ITEMS, 1])[torch.randperm(5, generator=generator)][:labels]
    return logits, Targets(value, observed), index, positives


def loss_and_gradient(
    method: Method, logits: Tensor, targets: Targets, index: Tensor, epoch: int = 0
) -> tuple[Tensor, Tensor]:
    logits = logits.detach().clone().requires_grad_()
    loss = method.loss(logits, targets, Context(index, epoch, EPOCHS))
    (gradient,) = torch.autograd.grad(loss, logits)
    return loss.detach(), gradient
