"""The contracts of the parts of the one equation (see objective.py).

A part is an `nn.Module`: what it knows of the data set is a buffer, so it moves with `.to()` and is in `state_dict`. It
never looks at a value that nobody observed, never reduces, never changes what it is given. A part that learns from
training overrides `observe` (once per step, after the loss) and `end_epoch`.

Some contracts have a second, analytic form (`slopes`, `prices`, `of_sums`). It equals the plain one and lets
core/fused.py compute a loss and its gradient in one pass. A part without it is used as it is, and costs more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor, nn

from raretag.core.context import Context
from raretag.core.numerics import Logistic, Price
from raretag.core.targets import Completed, Targets


class Part(nn.Module, ABC):
    whole_batch: bool = False  # looks at all rows of a step at once, so a step cannot be made of parts of its batch
    scheduled: bool = False  # depends on how many epochs there will be
    looks_everywhere: bool = False  # uses the logits of labels that do not count, too

    def observe(self, logits: Tensor, targets: Targets, context: Context) -> None:
        """Learn from a batch that has just been trained on; `logits` carry no gradient."""

    def end_epoch(self, context: Context) -> None:
        """Learn from the epoch that has just ended."""

    def vital_signs(self) -> dict[str, float]:
        """Numbers that show whether the inner state is healthy, for the log of each epoch."""
        return {}

    def label_signs(self) -> dict[str, Tensor]:
        """The same with one number for each label [C]."""
        return {}

    def until_changed(self, made_of: tuple[Tensor, ...], name: str, make: Callable[[], Any]) -> Any:
        """What `make` gives, made again only when one of the tensors that it is made of has changed."""
        if torch.compiler.is_compiling() or any(one.is_inference() for one in made_of):
            return make()
        made = self.__dict__.setdefault("_made", {})
        versions = [one._version for one in made_of]
        known = made.get(name)
        if known is None or known[1] != versions or any(a is not b for a, b in zip(known[0], made_of, strict=True)):
            known = made[name] = made_of, versions, make()
        return known[2]


class Complete(Part):
    """What an unknown label is taken to be."""

    plain: bool = False  # asks neither the logits nor a memory, so that a belief from outside may stand in its place

    @abstractmethod
    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed: ...

    def multiplied(self, labels: int, context: Context) -> Tensor | None:
        """The only labels [n] of which a step wants logits where they are unknown, increasing; None: all of them."""
        return None


class Shape(Part):
    """Margins, biases and scales: the logits as the positive side and as the negative side of a label see them."""

    @abstractmethod
    def forward(self, logits: Tensor, completed: Completed, context: Context) -> tuple[Tensor, Tensor]: ...

    def slopes(self) -> tuple[float, float] | None:
        """ds+/dz and ds-/dz, where they are two numbers."""
        return None


class Keep(Part):
    """Which terms count: 0 or 1 (or bool), broadcastable to [B, C]."""

    @abstractmethod
    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor: ...


class Weigh(Part):
    """How much each term counts, without gradient, broadcastable to [B, C]."""

    @abstractmethod
    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor: ...


class Score(Part):
    """The cost of a label: `positive(s)` if the item has it, `negative(s)` if not; elementwise."""

    @abstractmethod
    def positive(self, s: Tensor, completed: Completed) -> Tensor: ...

    @abstractmethod
    def negative(self, s: Tensor, completed: Completed) -> Tensor: ...

    def prices(self, positive: Logistic, negative: Logistic, completed: Completed) -> tuple[Price, Price]:
        """Both sides at s+ and s-, with their slopes."""
        raise NotImplementedError

    def against(self, x: Logistic, completed: Completed) -> Price:
        """The cost of a label at the logit of what it is not, for a score that treats both sides alike.

        positive(s) = against(-s) and negative(s) = against(s); in new tensors.
        """
        raise NotImplementedError

    def mixed(self, x: Logistic, completed: Completed) -> Price:
        """t pos(s) + (1 - t) neg(s) where s+ = s- = s, in new tensors, for a score that has a shorter form of it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Ratio:
    """A reduced loss before the division, so that shares of a batch can be added first.

    `denominator` is None where the loss is a plain sum.
    """

    numerator: Tensor
    denominator: Tensor | None


class Reduce(Part):
    """From terms [B, C] to a sum and what it is divided by."""

    asks_number: bool = True  # of the terms that count; False: `of_sums` may get anything there

    def over_labels(self, denominator: Tensor, columns: int, context: Context) -> Tensor:
        """The denominator of all labels, from that of a block of them; unless it is known better, a sum."""
        return context.total(denominator, after=True)  # which terms are kept may hang on a total

    @abstractmethod
    def forward(self, terms: Tensor, kept: Tensor) -> Ratio: ...

    def of_sums(self, total: Tensor, number: Tensor, shape: Size) -> Ratio:
        """The same from the sum of the terms, the number of those that count, and [B, C]."""
        raise NotImplementedError
