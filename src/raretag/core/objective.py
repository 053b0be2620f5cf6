r"""The one equation. Every method is a choice of its parts::

    t = complete(z, y)                         what an unknown label is taken to be
    s+, s- = shape(z, t)                       margins, biases, scales on the logits
    k = keep(z, t)                             which terms count
    w = weigh(z, t)                            how much each counts
    L = reduce( k w ( t score+(s+) + (1 - t) score-(s-) ) )

A slot that is None does nothing: s+ = s- = z, k = w = 1. `terms` is this equation; `ratio` takes the quick way to the
same numbers where there is one (fused.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from raretag.core import SLOTS, fused
from raretag.core.context import NO_CONTEXT, Context
from raretag.core.errors import UserError
from raretag.core.numerics import in_full_precision
from raretag.core.parts import Complete, Keep, Part, Ratio, Reduce, Score, Shape, Weigh
from raretag.core.targets import Completed, Targets, either, overlap


class Objective(nn.Module):
    """The one equation with a part in each slot; what `raretag.methods` are made of.

    >>> import torch, raretag
    >>> from raretag.objective import CrossEntropy, MeanOverKept, ObservedOnly
    >>> objective = raretag.Objective(complete=ObservedOnly(), score=CrossEntropy(), reduce=MeanOverKept())
    >>> objective(torch.zeros(1, 2), raretag.Targets.from_dense([[1, float("nan")]]))
    tensor(0.6931)
    """

    complete: Complete
    shape: Shape | None
    keep: Keep | None
    weigh: Weigh | None
    score: Score
    reduce: Reduce

    def __init__(
        self,
        *,
        complete: Complete,
        score: Score,
        reduce: Reduce,
        shape: Shape | None = None,
        keep: Keep | None = None,
        weigh: Weigh | None = None,
    ) -> None:
        super().__init__()
        self.complete, self.shape, self.keep, self.weigh = complete, shape, keep, weigh
        self.score, self.reduce = score, reduce

    def replaced(self, **parts: Part | None) -> Objective:
        """The same objective with other parts in some slots; the remaining parts are shared, not copied."""
        return Objective(**{slot: parts.get(slot, getattr(self, slot)) for slot in SLOTS})

    def forward(self, logits: Tensor, targets: Targets, context: Context = NO_CONTEXT) -> Tensor:
        """The loss of the batch of all processes.

        Engines average gradients over processes; the factor below turns that into global sum / global denominator,
        so gradients do not depend on how a batch was cut up. The mean of this value over processes is the loss.
        """
        check(logits, targets)
        quick = fused.loss(self, logits, targets, context)
        if quick is not None:
            return quick
        ratio = self.ratio(logits, targets, context)
        denominator = ratio.denominator
        if denominator is not None and context.block is not None:
            denominator = self.reduce.over_labels(denominator, logits.shape[1], context)
        return fused.with_denominator(ratio.numerator, denominator)

    def ratio(self, logits: Tensor, targets: Targets, context: Context = NO_CONTEXT) -> Ratio:
        """This process's share of the numerator and denominator."""
        check(logits, targets)
        ratio = fused.ratio(self, logits, targets, context)
        return self.reduce(*self.terms(logits, targets, context)) if ratio is None else ratio

    def terms(self, logits: Tensor, targets: Targets, context: Context = NO_CONTEXT) -> tuple[Tensor, Tensor]:
        """The unreduced loss, and which of its terms count: both [B, C]."""
        check(logits, targets)
        z = in_full_precision(logits)
        t = self.complete(z, Targets(targets.value.to(z.dtype), targets.observed), context)
        t = replace(t, where=context)
        positive_s, negative_s = (z, z) if self.shape is None else self.shape(z, t, context)
        kept = t.counted if self.keep is None else overlap(t.counted, self.keep(z, t, context).bool())

        score = t.value * self.score.positive(positive_s, t) + (1.0 - t.value) * self.score.negative(negative_s, t)
        if self.weigh is not None:
            score = self.weigh(z, t, context) * score
        return torch.where(kept, score, 0.0), kept

    def parts(self) -> Iterator[Part]:
        """Every part, and the parts inside parts; a part that sits in two slots comes once."""
        return (module for module in self.modules() if isinstance(module, Part))

    def observe(self, logits: Tensor, targets: Targets, context: Context) -> None:
        logits = in_full_precision(logits.detach())
        for part in fused.plan_of(self).learns_from_batches:
            part.observe(logits, targets, context)

    def learns_from_batches(self) -> bool:
        return bool(fused.plan_of(self).learns_from_batches)

    def end_epoch(self, context: Context) -> None:
        for part in self.parts():
            part.end_epoch(context)

    def vital_signs(self) -> dict[str, float]:
        return {name: value for part in self.parts() for name, value in part.vital_signs().items()}

    def label_signs(self) -> dict[str, Tensor]:
        return {name: values for part in self.parts() for name, values in part.label_signs().items()}

    def filled(self) -> dict[str, str]:
        """Which part sits in which slot, by name."""
        return {slot: type(part).__name__ for slot in SLOTS if (part := getattr(self, slot)) is not None}


class BelievedBefore(Complete):
    """t = what was believed of an unknown label before training, where anything was; else as `below` does.

    The beliefs [N, C] are probabilities, NaN where there is none; no step changes them.
    """

    beliefs: Tensor

    def __init__(self, beliefs: Tensor, below: Complete) -> None:
        super().__init__()
        self.below = below
        self.register_buffer("beliefs", beliefs.half(), persistent=False)  # made again from the data by a resumed run

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        below: Completed = self.below(logits, targets, context)
        belief = context.of(self.beliefs)[context.items.to(self.beliefs.device)].to(logits)
        believed = targets.unknown & ~belief.isnan()
        value = either(believed, belief.nan_to_num(0.0), below.value)
        return Completed(value, below.counted | believed, below.observed)


def check(logits: Tensor, targets: Targets) -> None:
    if not isinstance(targets, Targets):
        raise UserError(
            f"targets are a {type(targets).__name__}; expected raretag.Targets, as from `labels.targets(rows)`"
        )
    if logits.shape != targets.value.shape:
        raise UserError(
            f"logits {tuple(logits.shape)} do not match targets {tuple(targets.value.shape)}: "
            "expected [items, labels] for both; was the model made for another label list?"
        )
