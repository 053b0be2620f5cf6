r"""Partial label masking (PLM) over any other method.

Duarte et al., "PLM: Partial Label Masking for Imbalanced Multi-label Classification", CVPR Workshops 2021,
arXiv:2105.10782.

Paper and code::

    n+, n-   positives, negatives   of each label in the data set           [C]
    r        ratio                  n+ / n-, odds and not prevalence        [C]
    r_bar    target                 the ratio to train with, state          [C]
    tau      bins                   of width 1/tau; the last one is closed
    lambda   rate                   default 1 / epochs

    (2)  L = sum_c g_c l(y_c, p_c)                  l: the base's terms
    (3)  g = 1 with probability r_bar / r           for a positive if r > r_bar
                                r / r_bar           for a negative if r < r_bar
                                1                   otherwise
    (4)  P^+, P^- [tau, C]: histograms of p over the epoch, of positives and of negatives, masked ones too
    (5)  D+ = KL(P^+ || all mass in the last bin),  D- = KL(P^- || all mass in the first bin)
    (6)  D~ = (D - mean over labels) / standard deviation over labels (of the population), each side alone
    (7)  r_bar <- exp(lambda (D~+ - D~-)) r_bar

A mask is a hash of (seed, epoch, item, label): once an epoch for each label of each item, as in Algorithm 1, whatever
the batches and the number of processes.

Reduces to:
    its base at rate = 0, initial = "ratio".

Departs from the paper:
    lambda: 1/epochs, which gives the paper's end points in any number of epochs; the paper has .01 for 90 epochs.
    r_bar / r stays within [1/clamp, clamp], or between its start and r if it starts outside (`initial`), because with
    few positives it diverges. `clamp=None` is the paper's.
    The reduction is the base's; the paper's is `reduce="rows"`.
    Empty bins of the ideal distributions hold `floor`, else (5) is infinite. A label without positives or without
    negatives in the epoch has D = 0 and no part in (6).
    The paper has no unknown labels. An unknown label is in no histogram (`count_unknown=True`: among the negatives)
    and is masked by what the base completes it to; n- counts the unknown labels unless the base ignores them. So if
    no negative is observed, the ratios keep their initial values.
    `clip` bounds r_bar after each update, not at the start (COCO: 1).

Departs from the authors' code:
    none is public.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from raretag.core import chance, processes
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Base, Method, build_base
from raretag.core.numerics import barrier, between
from raretag.core.parts import Keep
from raretag.core.targets import Completed, LabelStatistics, Targets, everywhere
from raretag.objective.completions import ObservedOnly
from raretag.objective.reductions import Per, reduction

Initial = Literal["ratio", "mean", "min", "max"]


class PartialLabelMasking(Method):
    """Hides positives of frequent and negatives of rare labels from any other method; remembers items.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.PartialLabelMasking(statistics, items=100, base="focal", initial="mean")
    >>> context = raretag.Context(index=torch.tensor([7]), epochs=10)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets, context):.4f}")
    0.5726
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        items: int,
        seed: int = 0,
        *,
        base: Base = "binary_cross_entropy",
        rate: float | None = None,
        bins: int = 10,
        floor: float = 1e-8,
        initial: Initial = "ratio",
        clip: float | None = None,
        clamp: float | None = 20.0,
        count_unknown: bool = False,
        reduce: Per | None = None,
    ) -> None:
        if rate is not None and rate < 0:
            raise UserError(f"partial_label_masking.rate is how fast ratios move and must be 0 or more, got {rate}")
        if bins < 2:
            raise UserError(f"partial_label_masking.bins must be 2 or more, got {bins}: one bin separates nothing")
        if not 0 < floor < 1:
            raise UserError(f"partial_label_masking.floor is the mass of an empty bin, in (0, 1), got {floor}")
        if clip is not None and clip <= 0:
            raise UserError(f"partial_label_masking.clip is the largest ratio and must be above 0, got {clip}")
        if clamp is not None and clamp < 1:
            raise UserError(f"partial_label_masking.clamp bounds r_bar / r and must be 1 or more, got {clamp}")
        below = build_base("partial_label_masking", base, statistics, items=items, seed=seed)
        ignores = isinstance(below.objective.complete, ObservedOnly)
        negatives = statistics.negatives if ignores else items - statistics.positives
        mask = Mask(
            statistics.positives,
            negatives,
            seed=seed,
            also=below.objective.keep,
            rate=rate,
            bins=bins,
            floor=floor,
            initial=initial,
            clip=clip,
            clamp=clamp,
            count_unknown=count_unknown,
        )
        reducer = below.objective.reduce if reduce is None else reduction(reduce)
        super().__init__(below.objective.replaced(keep=mask, reduce=reducer))
        self.sampler = below.sampler

    def learned(self) -> dict[str, Any]:
        mask = self.objective.keep
        assert isinstance(mask, Mask)
        return {"ratio_of_data": mask.ratio.tolist()}


class Mask(Keep):
    positives: Tensor
    negatives: Tensor
    start: Tensor
    target: Tensor
    histograms: Tensor

    def __init__(
        self,
        positives: Tensor,
        negatives: Tensor,
        *,
        seed: int,
        also: Keep | None,
        rate: float | None,
        bins: int,
        floor: float,
        initial: Initial,
        clip: float | None,
        clamp: float | None,
        count_unknown: bool,
    ) -> None:
        super().__init__()
        self.seed, self.also, self.rate, self.floor = seed, also, rate, floor
        self.clip, self.clamp, self.count_unknown = clip, clamp, count_unknown
        self.looks_everywhere, self.scheduled = count_unknown, rate is None
        self.register_buffer("positives", positives.double())
        self.register_buffer("negatives", negatives.double())
        start = self._start(initial)
        self.register_buffer("start", start.clone(), persistent=False)  # never counted as run away by the clamp
        self.register_buffer("target", start)  # r_bar [C]
        self.register_buffer("histograms", torch.zeros(2, bins, len(positives), dtype=torch.int64))

    @property
    def usable(self) -> Tensor:
        """A label that is always or never there has no ratio."""
        return (self.positives > 0) & (self.negatives > 0)

    @property
    def ratio(self) -> Tensor:
        """r [C]; 1 where there is none, which is then also r_bar, so nothing is masked."""
        return torch.where(self.usable, self.positives / self.negatives.clamp(min=1.0), 1.0)

    def _start(self, initial: Initial) -> Tensor:
        r = self.ratio[self.usable]
        if initial == "ratio" or not len(r):
            return self.ratio
        return torch.where(self.usable, {"mean": r.mean(), "min": r.min(), "max": r.max()}[initial], 1.0)

    def chances(self) -> tuple[Tensor, Tensor]:
        """(3): with what probability a positive and a negative of each label is kept, [C] each."""
        return (self.target / self.ratio).clamp(max=1.0), (self.ratio / self.target).clamp(max=1.0)

    def _sides(self) -> tuple[Tensor, Tensor, bool]:
        """The same, and whether anything is masked; a compiler cannot wait for the answer."""
        positive, negative = self.chances()
        return (
            positive,
            negative,
            torch.compiler.is_compiling() or bool((torch.minimum(positive, negative) < 1.0).any()),
        )

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        item = context.items.to(logits.device)[:, None]
        positive, negative, masks = self.until_changed((self.target, self.positives), "chances", self._sides)
        if not masks:
            return everywhere(logits) if self.also is None else self.also(logits, completed, context).bool()
        positive, negative = barrier(context.of(positive)), barrier(context.of(negative))
        drawn = chance.uniform(self.seed, context.epoch, item, context.columns(logits))
        kept = drawn < between(negative, positive, completed.value.double())
        return kept if self.also is None else kept & self.also(logits, completed, context).bool()

    def observe(self, logits: Tensor, targets: Targets, context: Context) -> None:
        bins, labels = self.histograms.shape[1], logits.shape[1]
        bin = (torch.sigmoid(logits) * bins).int().clamp_(0, bins - 1)  # [B, C]
        side = (targets.positive < 0.5).int()  # 0: positives, 1: negatives
        place = (side * bins + bin) * labels + torch.arange(labels, dtype=torch.int32, device=logits.device)
        counted = torch.ones_like(targets.observed) if self.count_unknown else targets.observed
        counts = self.histograms.new_zeros(2 * bins * labels)
        counts.scatter_add_(0, place.long().flatten(), counted.long().flatten())
        # Summed each step, not at the end of the epoch: then every process holds the same state at every moment, and
        # the checkpoint of any one of them is enough.
        context.add(self.histograms, processes.total(counts).view(2, bins, labels))

    def end_epoch(self, context: Context) -> None:
        rate = 1.0 / context.epochs if self.rate is None else self.rate
        target = self.target * torch.exp(rate * discrepancy(self.histograms, self.floor))  # (7)
        if self.clamp is not None:
            low, high = torch.minimum(self.start, self.ratio / self.clamp), self.ratio * self.clamp
            target = target.clamp(low, torch.maximum(self.start, high))
        if self.clip is not None:
            target = target.clamp(max=self.clip)
        self.target.copy_(torch.where(self.usable, target, self.target))
        self.histograms.zero_()

    def vital_signs(self) -> dict[str, float]:
        positive, negative = self.chances()
        kept = (positive * self.positives + negative * self.negatives).sum()
        move = self.target / self.ratio
        return {
            "ratio_lowest": float(move.min()) if len(move) else 1.0,
            "ratio_highest": float(move.max()) if len(move) else 1.0,
            "kept_share": float(kept / (self.positives + self.negatives).sum().clamp(min=1.0)),
        }

    def label_signs(self) -> dict[str, Tensor]:
        return {"ratio": self.target, "ratio_change": self.target / self.ratio}


def divergences(histograms: Tensor, floor: float) -> Tensor:
    """(5): D+ and D- of histograms [2, tau, C], as [2, C] in float64; 0 for an empty histogram."""
    counts = histograms.double()
    share = counts / counts.sum(1, keepdim=True).clamp(min=1.0)  # P^
    ideal = torch.full_like(share, floor)
    ideal[0, -1] = ideal[1, 0] = 1.0
    return (torch.xlogy(share, share) - share * ideal.log()).sum(1)


def discrepancy(histograms: Tensor, floor: float) -> Tensor:
    """(6): D = D~+ - D~- [C]; 0 for a label that lacks a side."""
    usable = histograms.sum(1).gt(0).all(0)  # [C]
    number = usable.sum().clamp(min=1)
    D = divergences(histograms, floor) * usable
    centred = (D - D.sum(1, keepdim=True) / number) * usable
    # Labels that differ by rounding alone have no order: hence the lower bound of the standard deviation.
    deviation = (centred.square().sum(1, keepdim=True) / number).sqrt().clamp(min=1e-8)
    normal = centred / deviation
    return normal[0] - normal[1]
