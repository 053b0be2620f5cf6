r"""Parts of several methods in one objective.

No paper: the one equation of raretag/core/objective.py, with a method's part in each slot.

Paper and code::

    base                            the method that fills all slots that are not named
    complete, shape, keep, weigh,   a method's name, or {name: ..., option: value, ...}; its part takes the slot
    score
    reduce                          as everywhere; that of the base unless given

    L = reduce( k w ( t score+(s+) + (1 - t) score-(s-) ) )

    For example weigh = rebalanced, score = asymmetric; or complete = splc, weigh = {name: class_balanced, beta: 0.9}.
    A choice that is named in two slots is one object, so parts that belong together stay together.

Reduces to:
    `base` if no slot is named.

Departs from the paper:
    none to depart from. The class-aware sampler is used if any chosen method wants it.

Departs from the authors' code:
    none to depart from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raretag.core.errors import UserError
from raretag.core.method import Base, Method, build_base
from raretag.core.objective import Objective
from raretag.core.targets import LabelStatistics
from raretag.objective.reductions import Per, reduction


class Combined(Method):
    """An objective with the parts of several methods: each slot takes a name, options or a method.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.Combined(statistics, items=100, weigh="rebalanced", score="asymmetric")
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.1739
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        *,
        items: int,
        seed: int = 0,
        base: Base = "binary_cross_entropy",
        complete: Base | None = None,
        shape: Base | None = None,
        keep: Base | None = None,
        weigh: Base | None = None,
        score: Base | None = None,
        reduce: Per | None = None,
    ) -> None:
        made: dict[str, Method] = {}

        def chosen(choice: Base) -> Method:
            key = repr(sorted(choice.items())) if isinstance(choice, Mapping) else repr(choice)
            key = str(id(choice)) if isinstance(choice, Method) else key
            if key not in made:
                made[key] = build_base("combined", choice, statistics, items=items, seed=seed)
            return made[key]

        def part(slot: str, choice: Base | None) -> Any:
            found = getattr(chosen(base if choice is None else choice).objective, slot)
            if found is None and choice is not None:
                raise UserError(f"combined.{slot}: {choice!r} has nothing in the slot '{slot}'")
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
