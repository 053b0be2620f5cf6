"""What the engine and the user's own loop see of a method, and methods by their names."""

from __future__ import annotations

import inspect
from abc import ABCMeta
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
from raretag.core.parts import Complete
from raretag.core.targets import Completed, LabelStatistics, Targets


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of training in which some parameters of the model learn."""

    share: float = 1.0  # of all epochs
    trains: str = ""  # a regular expression: parameters of the model whose name matches learn; empty: all of them
    sampler: str | None = None  # None: the run's


class _Needs(ABCMeta):
    """Checks that a method gets what it needs, and explains it where Python would only name an argument."""

    def __call__(cls, *given: Any, **options: Any) -> Any:
        cls._check(given, options)
        return super().__call__(*given, **options)

    @property
    def __signature__(cls) -> inspect.Signature:  # that of __init__, not that of __call__ above
        of_init = inspect.signature(cls.__init__)  # type: ignore[misc]
        return of_init.replace(parameters=list(of_init.parameters.values())[1:], return_annotation=cls)

    def _check(cls, given: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        wanted = cls.__signature__.parameters
        found = dict(zip(wanted, given, strict=False)) | dict(options)
        names = [
            name
            for name in ("statistics", "items")
            if name in wanted and wanted[name].default is inspect.Parameter.empty
        ]
        statistics = found.get("statistics")
        if all(name in found for name in names) and (statistics is None or isinstance(statistics, LabelStatistics)):
            return
        words = {"statistics": "label statistics", "items": "the number of items"}
        written = {"statistics": "labels.statistics()", "items": "items=len(labels)"}
        target = f"{cls.__module__}:{cls.__qualname__}"
        name = next((f'"{one}"' for one, home in registry.table("methods").items() if home == target), cls.__name__)
        raise UserError(
            f"{cls.__name__} needs {' and '.join(words[one] for one in names)}: "
            f"{cls.__name__}({', '.join(written[one] for one in names)}), or raretag.bind({name}, labels)"
        )


class Method(nn.Module, metaclass=_Needs):
    """A row of the table: an objective, and how the paper uses it. Callable like any torch loss.

    In a loop of your own: `method(logits, targets)` each step. For a method that remembers items or has a schedule,
    `raretag.bind(method, labels)` makes the context that it needs; by hand that is `method(logits, targets, context)`,
    and `method.end_epoch(context)` after each epoch. `method.state_dict()` belongs into the checkpoint. In training
    mode the method also learns from the batch.

    >>> import torch, raretag
    >>> targets = raretag.Targets(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, False]]))
    >>> method = raretag.methods.Focal(gamma=2.0)  # what nobody observed is a negative, unless unknown="ignore"
    >>> method(torch.tensor([[0.0, 0.0]]), targets)
    tensor(0.1733)
    """

    sampler: str = "uniform"  # how the paper draws items, unless the user chooses
    head: str = "linear"  # how the paper gets from features to logits, likewise
    branches: str = "single"  # how backbones and heads are wired to a model, likewise
    stages: tuple[Stage, ...] = (Stage(),)

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.objective = objective

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
        if self.training and context.learning and self.learns_from_batches():
            with torch.no_grad():
                self.observe(logits.detach(), targets, context)
        return value

    forward = loss

    def learns_from_batches(self) -> bool:
        return type(self).observe is not Method.observe or self.objective.learns_from_batches()

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
        """[B, C] bool: unknown labels that are trained as positives in this batch. Call it before `loss`."""
        completed = self.objective.complete(in_full_precision(self.logits(outputs).detach()), targets, context)
        found: Tensor = completed.counted & ~completed.observed & (completed.value > 0.5)
        return found

    def learned(self) -> dict[str, Any]:
        """What a later run may want to know, ready for JSON; it goes into the record."""
        return {}


def build_method(name: str, statistics: LabelStatistics, *, items: int, seed: int = 0, **options: Any) -> Method:
    """A method by its name, for a loop that makes its own contexts. `raretag.bind` is shorter.

    >>> import raretag
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5], items=100)
    >>> method = raretag.build_method("class_balanced", statistics, items=100, beta=0.9)
    >>> type(method).__name__, method.sampler
    ('ClassBalanced', 'uniform')
    """
    return make_method(name, options, statistics, items=items, seed=seed)


def make_method(name: str, options: Mapping[str, Any], statistics: LabelStatistics, *, items: int, seed: int) -> Method:
    """The same for options that a user typed, which may have any name."""
    method: Method = registry.build(
        "methods", name, options, kind=Method, statistics=statistics, items=items, seed=seed
    )
    return method


Loss = Callable[[Tensor, Targets], Tensor]
Base = str | Mapping[str, Any] | Method | type[Method]  # a name, {"name": ..., **options}, a method, or its class
Given = Base | Loss


def as_method(
    given: Given, statistics: LabelStatistics, items: int, seed: int = 0, options: Mapping[str, Any] | None = None
) -> Method:
    """A method from whatever a user may call one: all forms of `Given`, and options for a name or a class."""
    options = dict(options or {})
    if isinstance(given, Mapping):
        options = {**given, **options}
        given = options.pop("name", None) or {}
    if isinstance(given, str):
        if registry.room_of("methods", given) == "solvers":
            raise UserError(
                f"'{given}' is a solver, which fits a classifier without steps and has no loss: "
                f'use raretag.train(data, method="{given}")'
            )
        return make_method(given, options, statistics, items=items, seed=seed)
    if isinstance(given, type) and issubclass(given, Method):
        offered = {"statistics": statistics, "items": items, "seed": seed}
        made: Method = registry.construct(given.__name__, given, options, **offered)
        return made
    if not callable(given) or isinstance(given, type):
        raise UserError(
            f"{given!r} is not a method; expected a name, {{name: ..., option: value}}, a Method or its class, "
            "or a function loss(logits, targets)"
        )
    if options:
        raise UserError(f"'{next(iter(options))}' cannot be set for a method that is already made: set it there")
    return given if isinstance(given, Method) else OwnLoss(given)


def build_base(owner: str, base: Base, statistics: LabelStatistics, *, items: int, seed: int) -> Method:
    """The method below `owner`, as in "PLM over any row of the table".

    It must be one objective and nothing else, or replacing a slot would lose the rest.
    """
    name = base.get("name") if isinstance(base, Mapping) else base
    if name == owner:
        raise UserError(f"{owner}.base is '{owner}' again; expected another method")
    if not isinstance(name, (str, Method, type)):
        raise UserError(
            f"{owner}: {base!r} is not a method; expected a name, {{name: ..., option: value}}, a Method or its class"
        )
    method = as_method(base, statistics, items, seed)
    name = name if isinstance(name, str) else type(method).__name__
    if any(getattr(type(method), verb) is not getattr(Method, verb) for verb in ("loss", "observe", "end_epoch")):
        raise UserError(f"{owner}: '{name}' has a loss with a term beyond its objective; expected a method without one")
    if wishes(method):
        raise UserError(f"{owner}: '{name}' needs its own model or stages; expected a method that is only a loss")
    return method


def wishes(method: Method) -> list[str]:
    """What the method wants of the engine beside its loss, in words."""
    found = [f"the head '{method.head}'"] if method.head != Method.head else []
    found += [f"the branches '{method.branches}'"] if method.branches != Method.branches else []
    return found + ([f"{len(method.stages)} stages"] if method.stages != Method.stages else [])


class OwnLoss(Method):
    """A function loss(logits, targets) that gives one number, as a method.

    >>> import torch, raretag
    >>> def hinge(logits, targets):
    ...     return (targets.observed * (1 - (2 * targets.positive - 1) * logits).clamp(min=0)).mean()
    >>> targets = raretag.Targets(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, True]]))
    >>> OwnLoss(hinge)(torch.tensor([[0.5, -2.0]]), targets)
    tensor(0.2500)
    """

    def __init__(self, function: Loss) -> None:
        super().__init__(NoTerms())
        self.function = function

    def loss(self, logits: Tensor, targets: Targets, context: Context = NO_CONTEXT) -> Tensor:
        value = self.function(logits, targets)
        if not isinstance(value, Tensor) or value.numel() != 1:
            what = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise UserError(f"the loss {_name_of(self.function)} gave {what}; expected a tensor with one number")
        return value.reshape(())

    forward = loss

    def found_missing(self, outputs: Any, targets: Targets, context: Context = NO_CONTEXT) -> Tensor:
        return torch.zeros_like(targets.observed)


def _name_of(function: Loss) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


class NoTerms(Objective):
    """Stands where a loss is no sum of terms: labels may be completed, but nothing is kept or weighed."""

    def __init__(self, complete: Complete | None = None) -> None:
        nn.Module.__init__(self)
        self.complete = complete or _AsObserved()
        self.shape = self.keep = self.weigh = None

    def filled(self) -> dict[str, str]:
        return {} if isinstance(self.complete, _AsObserved) else {"complete": type(self.complete).__name__}


class _AsObserved(Complete):
    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        return Completed(targets.positive, targets.observed, targets.observed)
