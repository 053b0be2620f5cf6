"""A method and the labels it is used with: all that a training loop of one's own needs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Given, Method, as_method, wishes
from raretag.core.parts import Part
from raretag.core.protocols import Labels


def bind(method: Given, labels: Labels, *, epochs: int | None = None, seed: int = 0, **options: Any) -> Bound:
    """A loss that knows its labels: `bind("focal", labels)(logits, rows)`.

    method   a name with `options`, {name: ..., option: value}, a Method or its class, or a function
             loss(logits, targets) that gives one number
    labels   the LabelStore of the training items; `rows` are its row numbers
    epochs   how many there will be, for methods with a schedule
    seed     of the draws that the method makes

    >>> import numpy as np, torch, raretag
    >>> labels = raretag.LabelStore.from_dense(np.array([[1, 0], [0, 1], [1, np.nan]]))
    >>> loss = raretag.bind("class_balanced", labels, beta=0.9)
    >>> logits = torch.zeros(2, 2, requires_grad=True)
    >>> loss(logits, rows=[0, 2])
    tensor(0.3648, grad_fn=<LossBackward>)
    >>> loss.sampler
    'uniform'
    """
    if not isinstance(labels, Labels):
        raise UserError(
            f"labels are a {type(labels).__name__}; expected a raretag.LabelStore: LabelStore.from_dense(array)"
        )
    made = as_method(method, labels.statistics(), len(labels), seed, options)
    name = method if isinstance(method, str) else type(made).__name__
    if epochs is None and any(isinstance(part, Part) and part.scheduled for part in made.modules()):
        raise UserError(f"{name} follows a schedule over all epochs: pass how many there will be, bind(..., epochs=10)")
    if unused := wishes(made):
        warnings.warn(
            f"{name} needs {' and '.join(unused)}, which your own loop does not have: only its loss is used here; "
            "raretag.train uses the whole method",
            UserWarning,
            stacklevel=2,
        )
    return Bound(made, labels, 1 if epochs is None else epochs)


class Bound(nn.Module):
    """A method with its labels and its place in training. Made by `bind`.

    Each epoch: `set_epoch(epoch)`, a loss for each batch, `end_epoch()`. What the method learns is in `parameters()`
    (for the optimizer, with the paper's learning rate: `parameter_groups(lr)`), and all that it remembers, with the
    epoch, in `state_dict()`.
    """

    def __init__(self, method: Method, labels: Labels, epochs: int) -> None:
        super().__init__()
        self.method, self.labels, self.epochs, self.epoch = method, labels, epochs, 0

    def forward(self, outputs: Any, rows: Tensor | Sequence[int]) -> Tensor:
        """The loss of a batch.

        outputs   logits [B, C] on any device; or, for a method with branches, all that such a model gives
        rows      the row number of each item in the labels: int64 on any device, or a list
        """
        device = self.logits(outputs).device
        index = _row_numbers(rows)
        targets = self.labels.targets(index).to(device)
        loss: Tensor = self.method(outputs, targets, Context(index.to(device), self.epoch, self.epochs))
        return loss

    def logits(self, outputs: Any) -> Tensor:
        """The prediction [B, C] in what the model gives: use it, and not the outputs, to evaluate and to predict."""
        return self.method.logits(outputs)

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch, counted from 0."""
        self.epoch = int(epoch)

    def end_epoch(self) -> None:
        """Let the method learn from the epoch, and go on to the next one."""
        self.method.end_epoch(Context(None, self.epoch, self.epochs))
        self.epoch += 1

    @property
    def sampler(self) -> str:
        """The name of the sampler that the paper uses: `labels.sampler(bound.sampler, seed=0)`."""
        return self.method.sampler

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """What the method itself learns, as groups for a torch optimizer; empty for most methods."""
        return self.method.parameter_groups(learning_rate)

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.epoch)

    def set_extra_state(self, state: Tensor) -> None:
        self.epoch = int(state)


def _row_numbers(rows: Tensor | Sequence[int]) -> Tensor:
    """[B] int64 on the CPU, where the labels are."""
    index = torch.as_tensor(rows).detach().cpu()
    if index.dim() != 1 or index.is_floating_point() or index.dtype == torch.bool:
        if index.numel():  # an empty list has no type
            raise UserError(
                f"rows are {index.dtype} {list(index.shape)}; expected the row number of each item, [items] of integers"
            )
        index = index.flatten()
    return index.to(torch.int64)
