"""What is known of labels: of a batch (`Targets`, `Completed`) and of a whole data set (`LabelStatistics`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from raretag.core.context import NO_CONTEXT, Context
from raretag.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Targets:
    """Labels of some items in three states: positive, negative, unknown.

    value      [B, C] floats in [0, 1]; what is stored where `observed` is False means nothing and is never used
    observed   [B, C] bool: an annotator looked

    >>> import torch, raretag
    >>> targets = raretag.Targets(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[True, True, False]]))
    >>> targets.positive, targets.unknown
    (tensor([[1., 0., 0.]]), tensor([[False, False,  True]]))
    """

    value: Tensor  # [B, C] float in [0, 1]
    observed: Tensor  # [B, C] bool

    def __post_init__(self) -> None:
        if self.value.shape != self.observed.shape:
            raise UserError(
                f"value {tuple(self.value.shape)} and observed {tuple(self.observed.shape)} must have one shape: "
                "each label needs both a value and whether it was observed"
            )
        if self.observed.dtype != torch.bool:
            raise UserError(f"observed must be a bool tensor, got {self.observed.dtype}; use `mask.bool()`")

    @classmethod
    def from_dense(cls, values: Tensor | Sequence[Sequence[float]]) -> Targets:
        """From [B, C] numbers in which NaN is unknown, as a tensor or as lists.

        >>> Targets.from_dense([[1, float("nan")], [0, 1]]).observed
        tensor([[ True, False],
                [ True,  True]])
        """
        value = torch.as_tensor(values)
        value = value if value.is_floating_point() else value.float()
        return cls(value.nan_to_num(0.0), ~value.isnan())

    @property
    def positive(self) -> Tensor:
        """The value where it was observed, else 0."""
        return zero_outside(self.value, self.observed)

    @property
    def negative(self) -> Tensor:
        """One minus the value where it was observed, else 0."""
        return zero_outside(1.0 - self.value, self.observed)

    @property
    def unknown(self) -> Tensor:
        return ~self.observed

    def assuming_negatives(self) -> Targets:
        """The same, but where no negative of a label was observed, all that is unknown counts as negative.

        >>> Targets.from_dense([[1, 1], [float("nan"), float("nan")], [0, float("nan")]]).assuming_negatives().observed
        tensor([[ True,  True],
                [False,  True],
                [ True,  True]])
        """
        assumed = ~(self.observed & (self.value < 0.5)).any(0)
        return Targets(self.positive, self.observed | assumed)

    def __len__(self) -> int:
        return self.value.shape[0]

    def __getitem__(self, rows: Tensor | slice) -> Targets:
        return Targets(self.value[rows], self.observed[rows])

    def to(self, target: torch.device | str) -> Targets:
        return Targets(self.value.to(target), self.observed.to(target))


ALL = torch.ones(1, 1, dtype=torch.bool)


def everywhere(like: Tensor) -> Tensor:
    """True [B, C]. On a processor one True that is seen everywhere, so that `is_everywhere` need not look."""
    if like.device.type != "cpu" or torch.compiler.is_compiling():
        return torch.ones_like(like, dtype=torch.bool)
    return ALL.expand(like.shape)


def is_everywhere(mask: Tensor) -> bool:
    """Whether a mask is known to be True without a look at it."""
    return mask.device.type == "cpu" and mask.data_ptr() == ALL.data_ptr()


def overlap(mask: Tensor, other: Tensor) -> Tensor:
    """mask & other, both [B, C]; one that is True everywhere costs nothing."""
    if torch.compiler.is_compiling() or mask.shape != other.shape:
        return mask & other
    return other if is_everywhere(mask) else mask if is_everywhere(other) else mask & other


_WHOLE = {torch.float32: torch.int32, torch.float64: torch.int64}


def zero_outside(value: Tensor, mask: Tensor) -> Tensor:
    """The value where the mask is, else 0, whatever is there: also for NaN."""
    if not has_bits(value):
        return torch.where(mask, value, 0.0)
    return (value.view(_WHOLE[value.dtype]) * mask).view(value.dtype)


def either(mask: Tensor, value: Tensor | float, other: Tensor | float) -> Tensor:
    """The value where the mask is, else the other one, as `torch.where`; one of them is a tensor.

    By products of bits with 0 or 1: choosing by a random mask takes a processor three to eight times as long.
    """
    like = value if isinstance(value, Tensor) else other
    assert isinstance(like, Tensor)
    value, other = (
        one if isinstance(one, Tensor) else torch.tensor(one, dtype=like.dtype, device=like.device)
        for one in (value, other)
    )
    if value.dtype != other.dtype or not (has_bits(value) and has_bits(other)):
        return torch.where(mask, value, other)
    a, b = (one.view(_WHOLE[like.dtype]) for one in (value, other))
    return ((a ^ b) * mask ^ b).view(like.dtype)


def has_bits(value: Tensor) -> bool:
    """Whether numbers may be treated as bits: not where anything is derived from them, or compiled."""
    return (
        value.dtype in _WHOLE
        and value.device.type == "cpu"
        and not (value.requires_grad and torch.is_grad_enabled())
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
    )


@dataclass(frozen=True, slots=True)
class Completed:
    """Targets after `complete` has decided what an unknown label is taken to be.

    `value` is finite everywhere. A label counts if it was observed or completed; the rest has no term in the loss.
    """

    value: Tensor  # t [B, C] in [0, 1], soft values allowed
    counted: Tensor  # [B, C] bool: there is a value
    observed: Tensor  # [B, C] bool: the value came from an annotator
    where: Context | None = None  # of the batch, for scores; the objective fills it in

    @property
    def context(self) -> Context:
        """Not a default of the field: compilers cannot carry an object of ours from outside."""
        return NO_CONTEXT if self.where is None else self.where


@dataclass(frozen=True, slots=True)
class LabelStatistics:
    """Counts per label: all that a method may know about the data before training. `labels.statistics()`.

    Adding two is merging two shards, or two processes.

    >>> import torch
    >>> some = LabelStatistics(positives=torch.tensor([3, 1]), negatives=torch.tensor([2, 4]), items=6)
    >>> some.unknown, (some + some).items
    (tensor([1, 1]), 12)
    """

    positives: Tensor  # n_c [C] int64, observed positives
    negatives: Tensor  # [C] int64, observed negatives
    items: int  # N
    cooccurrence: Tensor | None = None  # n_ij [C, C] int64, items with both labels; dense, or sparse for many labels

    def __post_init__(self) -> None:
        if self.positives.shape != self.negatives.shape or self.positives.dim() != 1:
            raise UserError(
                f"positives {tuple(self.positives.shape)} and negatives {tuple(self.negatives.shape)} "
                "must both be vectors with one count for each label"
            )

    @property
    def labels(self) -> int:
        """C, the number of labels."""
        return len(self.positives)

    @property
    def unknown(self) -> Tensor:
        return self.items - self.positives - self.negatives

    def __add__(self, other: LabelStatistics) -> LabelStatistics:
        if self.labels != other.labels:
            raise UserError(f"cannot add statistics of {self.labels} and of {other.labels} labels: two label lists?")
        if self.cooccurrence is None or other.cooccurrence is None:
            together = None
        else:
            together = self.cooccurrence + other.cooccurrence
            together = together.coalesce() if together.is_sparse else together
        return LabelStatistics(
            self.positives + other.positives, self.negatives + other.negatives, self.items + other.items, together
        )

    @classmethod
    def of_counts(cls, positives: list[int] | Tensor, items: int) -> LabelStatistics:
        """Statistics of a fully observed data set of which only the counts are known.

        >>> LabelStatistics.of_counts([30, 5], items=100).negatives
        tensor([70, 95])
        """
        counts = torch.as_tensor(positives, dtype=torch.int64)
        return cls(counts, items - counts, items)
