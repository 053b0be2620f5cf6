"""What the engine and the user's own loop see of a method, and methods by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from raretag.core import registry
from raretag.core.context import NO_CONTEXT, Context
from raretag.core.errors import UserError
from raretag.core.numerics import in_full_precision
from raretag.core.objective import Objective
from raretag.core.targets import LabelStatistics, Targets


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of training in which some parameters of the model learn."""

    share: float = 1.0  # of all epochs
    trains: str = ""  # a regular expression: parameters of the model whose name matches learn; empty: all of them
    sampler: str | None = None  # None: the run's


class Method(nn.Module):
    """A row of the table: an objective, and how the paper wants it used.

    In a loop of your own: `method.loss(...)` each step, `method.end_epoch(context)` after each epoch, and
    `method.state_dict()` in the checkpoint. In training mode `loss` also lets the method learn from the batch.
    """

    sampler: str = "uniform"  # how the paper draws items, unless the user says otherwise
    head: str = "linear"  # how the paper gets from features to logits, likewise
    branches: str = "single"  # how backbones and heads are wired to a model, likewise
    stages: tuple[Stage, ...] = (Stage(),)
    solves: bool = (
        False  # `begin_stage` finds the classifier itself: there are no steps, and features are taken as given
    )

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.objective = objective
        self.tell: Callable[[float], None] = lambda share: None  # how far a method that solves is, 0 to 1

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """What the method itself learns, for the optimizer."""
        own = list(self.parameters())
        return [{"params": own, "lr": learning_rate}] if own else []

    def begin_stage(
        self, number: int, model: nn.Module, features: Callable[[], Iterator[tuple[Tensor, Targets]]]
    ) -> None:
        """Prepare for a stage; `features()` goes through this process's share of the training set."""

    def logits(self, outputs: Any) -> Tensor:
        """The prediction [B, C] in what the model gives; for most models they are the same."""
        prediction: Tensor = outputs
        return prediction

    def loss(self, logits: Tensor, targets: Targets, context: Context = NO_CONTEXT) -> Tensor:
        value: Tensor = self.objective(logits, targets, context)
        if self.training and context.learning:
            with torch.no_grad():
                self.observe(logits.detach(), targets, context)
        return value

    forward = loss

    def observe(self, logits: Tensor, targets: Targets, context: Context) -> None:
        self.objective.observe(logits, targets, context)

    def end_epoch(self, context: Context) -> None:
        with torch.no_grad():
            self.objective.end_epoch(context)

    def vital_signs(self) -> dict[str, float]:
        return self.objective.vital_signs()

    def label_signs(self) -> dict[str, Tensor]:
        """The same with one number for each label [C]."""
        return self.objective.label_signs()

    def branch_logits(self, outputs: Any) -> dict[str, Tensor]:
        """What each branch of the model would predict, [B, C] by name, where it has several: watched, not used."""
        return {}

    @torch.no_grad()
    def found_missing(self, outputs: Any, targets: Targets, context: Context = NO_CONTEXT) -> Tensor:
        """[B, C] bool: unknown labels that are trained as positives in this batch. To be asked before `loss`."""
        completed = self.objective.complete(in_full_precision(self.logits(outputs).detach()), targets, context)
        found: Tensor = completed.counted & ~completed.observed & (completed.value > 0.5)
        return found

    def learned(self) -> dict[str, Any]:
        """What a later run may want to know, ready for JSON; it goes into the record."""
        return {}


def build_method(name: str, statistics: LabelStatistics, *, items: int, seed: int = 0, **options: Any) -> Method:
    """A method by its name: `build_method("focal", labels.statistics(), items=len(labels), gamma=2.0)`."""
    return make_method(name, options, statistics, items=items, seed=seed)


def make_method(name: str, options: Mapping[str, Any], statistics: LabelStatistics, *, items: int, seed: int) -> Method:
    """The same for options that a user typed, which may have any name."""
    method: Method = registry.build(
        "methods", name, options, kind=Method, statistics=statistics, items=items, seed=seed
    )
    return method


Base = str | Mapping[str, Any] | Method  # a method's name, {"name": ..., **options}, or a method


def build_base(owner: str, base: Base, statistics: LabelStatistics, *, items: int, seed: int) -> Method:
    """The method below `owner`, as in "PLM over any row of the table".

    It must be one objective and nothing else, or replacing a slot would lose the rest.
    """
    if isinstance(base, Method):
        method, name = base, type(base).__name__
    else:
        options = {"name": base} if isinstance(base, str) else dict(base)
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise UserError(f"{owner}: {base!r} is not a method; expected a name or {{name: ..., option: value}}")
        if name == owner:
            raise UserError(f"{owner}.base is '{owner}' again; expected another method")
        method = make_method(name, options, statistics, items=items, seed=seed)
    if any(getattr(type(method), verb) is not getattr(Method, verb) for verb in ("loss", "observe", "end_epoch")):
        raise UserError(f"{owner}: '{name}' has a loss with a term beyond its objective; expected a method without")
    if any(getattr(method, wish) != getattr(Method, wish) for wish in ("head", "branches", "stages")):
        raise UserError(f"{owner}: '{name}' wants a model or stages of its own; expected a method that is a loss alone")
    return method
