r"""Parts of several methods in one objective.

No paper: the one equation of raretag/core/objective.py, with a method's part in each slot.

Paper and code::

    base                            the method that fills all slots that are not named
    complete, shape, keep, weigh,   a method's name, or {name: ..., option: value, ...}; its part takes the slot
    score
    reduce                          as everywhere; that of the base unless given

    L = reduce( k w ( t score+(s+) + (1 - t) score-(s-) ) )

    For example weigh = rebalanced, score = asymmetric; or complete = splc, weigh = {name: class_balanced, beta: 0.9}.
    A choice that stands in two slots is one object, so parts that belong together stay together.

Reduces to:
    `base` if no slot is named.

Departs from the paper:
    none to depart from. The class-aware sampler is used if any chosen method wants it.

Departs from the authors' code:
    none to depart from.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from raretag.core.catalogue import build_method
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.statistics import LabelStatistics
from raretag.objective.reductions import Per, reduction

Choice: TypeAlias = str | dict[str, Any]


class Combined(Method):
    def __init__(
        self,
        statistics: LabelStatistics,
        *,
        items: int,
        seed: int = 0,
        base: Choice = "binary_cross_entropy",
        complete: Choice | None = None,
        shape: Choice | None = None,
        keep: Choice | None = None,
        weigh: Choice | None = None,
        score: Choice | None = None,
        reduce: Per | None = None,
    ) -> None:
        made: dict[str, Method] = {}

        def chosen(choice: Choice) -> Method:
            name, options = named(choice)
            key = repr((name, sorted(options.items())))
            if key not in made:
                made[key] = whole(name, build_method(name, statistics, items=items, seed=seed, **options))
            return made[key]

        def part(slot: str, choice: Choice | None) -> Any:
            found = getattr(chosen(base if choice is None else choice).objective, slot)
            if found is None and choice is not None:
                raise UserError(f"combined.{slot}: '{named(choice)[0]}' has nothing in the slot '{slot}'")
            return found

        super().__init__(
            Objective(
                complete=part("complete", complete),
                shape=part("shape", shape),
                keep=part("keep", keep),
                weigh=part("weigh", weigh),
                score=part("score", score),
                reduce=part("reduce", None) if reduce is None else reduction(reduce),
            )
        )
        if any(method.sampler == "class_aware" for method in made.values()):
            self.sampler = "class_aware"


def named(choice: Choice) -> tuple[str, dict[str, Any]]:
    if isinstance(choice, str):
        return choice, {}
    if not isinstance(choice, dict) or not isinstance(choice.get("name"), str):
        raise UserError(f"combined: {choice!r} is not a method; expected a name or {{name: ..., option: value}}")
    return choice["name"], {option: value for option, value in choice.items() if option != "name"}


def whole(name: str, method: Method) -> Method:
    """Refuse a method that does more than its objective says: its parts alone would be something else."""
    for work in ("loss", "observe", "end_epoch"):
        if getattr(type(method), work) is not getattr(Method, work):
            raise UserError(f"combined: '{name}' cannot be taken apart, its {work} does more than its parts")
    return method
