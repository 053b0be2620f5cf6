r"""Dynamic pseudo-labels: the target of an unknown label is the network's last prediction of it.

Zhang et al., "Towards Imbalanced Large Scale Multi-label Classification with Partially Annotated Labels", 2023,
arXiv:2308.00166.

Paper and code::

    y        targets                where observed ("existing")             [B, C]
    y~       memory                 pseudo-label, state                     [N, C]
    N_e      observed labels of an item;  N_ne: unknown labels of it;  q N_ne: the picked among them
    alpha, beta                     balance of positives and negatives
    d        schedule               weight of the unknown part;  e: epoch from 0, E: epochs
    p        penalty                factor of an item                       [B]

    (5)  y~ = initial at first, then the prediction at the item's last visit
         beta = max(P / T, gamma),  alpha = 1 - beta;  P: observed positives in the batch, T: its B C label slots
    (9)  d = exp((e + m) / E - 1)
    (10) p = 2 if every prediction of the item is below .1, else 1
    (12) L = p { 1/N_e sum over observed of H(y) + d/(q N_ne) sum over picked of H(y~) },   mean over items,
         H(t) = -alpha t log p^ - beta (1 - t) log(1 - p^)

Which unknown labels are picked is a hash of (seed, epoch, item, label) for each label alone, so their number varies;
q N_ne is the number really picked. With draw="labels" a label is picked for all items of a step, and the others are not
used: (10) covers the picked and observed labels, and only the memory of picked labels is refreshed. A head for many
labels then computes only those (streamed/head.py), and the step costs about q times a full one.

`reading="repaired"` is the default and `reading="paper"` is what is printed; options that you set replace those of the
reading.

    option       repaired      paper
    balance      "equal"       "batch"
    initial      "prior"       0.5
    momentum     0.9           0.0

Where some negatives are observed (partially annotated labels), schedule="zero" with balance="batch" did best: the
weighted loss on observed labels alone. The ablations of Table VII: balance="equal"; schedule="one"; penalty=False; q=1.

Reduces to:
    half of binary_cross_entropy(reduce="rows") / C if every label is observed, balance = "equal", penalty = False.

Departs from the paper:
    As printed it drifts: alpha is 10 to 20 times beta, so each refresh multiplies the odds of a pseudo-label by as
    much, and if only positives are observed, nothing stops it: all of them become 1 within ten epochs. Repaired:
    alpha = beta = .5, the memory starts at the observed prior of the label and moves slowly, y~ <- .9 y~ + .1 p^.
    A RuntimeWarning is given once if the mean pseudo-label exceeds five times the observed prevalence.
    Observed prior: positives / observed where the label has observed negatives, else positives / items.
    P and T are not defined in print; T = observed labels (total="observed") gives beta = 1 where only positives are
    observed. (9) and (10) follow the paper's text; schedule="printed" is exp((e + m) / E), never below 1. The
    printed (10) gives 2 to the items that the text gives 1. The value of q is not printed: .5.
    anchor="prior" refreshes towards the prior (y~ <- momentum prior + (1 - momentum) p^); anchor="align" shifts the
    logits of each label's pseudo-labels after each epoch, so that their mean is the prior.

Departs from the authors' code:
    none is public.
"""

from __future__ import annotations

import warnings
from math import exp
from typing import Literal

import torch
from torch import Tensor

from raretag.core import chance, processes
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.parts import Complete, Weigh
from raretag.core.targets import Completed, LabelStatistics, Targets, either
from raretag.objective.completions import ObservedOnly
from raretag.objective.item_memory import SAMPLE_ROWS, ItemMemory, Precision, align
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import BatchBalance

Schedule = Literal["exp", "printed", "linear", "one", "zero"]
Anchor = Literal["none", "prior", "align"]
Draw = Literal["entries", "labels"]
PICK = 20  # keeps these draws apart from others with the same key
DRIFT = 5.0


class DynamicPseudoLabels(Method):
    """An unknown label is what the network predicted for it the last time; remembers items.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.DynamicPseudoLabels(statistics, items=100)
    >>> context = raretag.Context(index=torch.tensor([7]), epochs=10)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets, context):.4f}")
    0.1968
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        items: int,
        seed: int = 0,
        *,
        reading: Literal["repaired", "paper"] = "repaired",
        balance: Literal["batch", "equal"] | float | None = None,
        balance_on: Literal["all", "observed"] = "all",
        total: Literal["slots", "observed"] = "slots",
        gamma: float = 0.05,
        schedule: Schedule = "exp",
        m: float = 3.0,
        penalty: bool = True,
        q: float = 0.5,
        draw: Draw = "entries",
        initial: Literal["prior"] | float | None = None,
        momentum: float | None = None,
        anchor: Anchor = "none",
        precision: Precision = "float16",
        reduce: Per = "rows",
    ) -> None:
        paper = reading == "paper"
        balance = ("batch" if paper else "equal") if balance is None else balance
        initial = (0.5 if paper else "prior") if initial is None else initial
        momentum = (0.0 if paper else 0.9) if momentum is None else momentum
        check(balance, initial, momentum, q, gamma)
        prior = observed_prior(statistics)
        memory = ItemMemory(
            0 if schedule == "zero" else items,
            prior if initial == "prior" else torch.full_like(prior, float(initial)),
            precision=precision,
            seed=seed,
        )
        remembered = Remembered(memory, prior, q=q, momentum=momentum, anchor=anchor, draw=draw, seed=seed)
        super().__init__(
            Objective(
                complete=ObservedOnly() if schedule == "zero" else remembered,
                weigh=ItemWeights(schedule, m, penalty, counted_only=draw == "labels"),
                score=BatchBalance(balance, balance_on, total, gamma),
                reduce=reduction(reduce),
            )
        )


def check(balance: str | float, initial: str | float, momentum: float, q: float, gamma: float) -> None:
    where = "dynamic_pseudo_labels"
    if balance not in ("batch", "equal") and not (isinstance(balance, (int, float)) and 0 <= balance <= 1):
        raise UserError(
            f"{where}.balance is {balance!r}; expected 'batch', 'equal' or the weight of positives in [0, 1]"
        )
    if initial != "prior" and not (isinstance(initial, (int, float)) and 0 <= initial <= 1):
        raise UserError(f"{where}.initial is {initial!r}; expected 'prior' or a probability")
    if not 0 <= momentum < 1:
        raise UserError(f"{where}.momentum must lie in [0, 1), got {momentum}: at 1 the memory never learns")
    if not 0 < q <= 1:
        raise UserError(f"{where}.q is a share of the unknown labels in (0, 1], got {q}; for none use schedule='zero'")
    if not 0 <= gamma <= 1:
        raise UserError(f"{where}.gamma is the smallest weight of negatives and must lie in [0, 1], got {gamma}")


def observed_prior(statistics: LabelStatistics) -> Tensor:
    """How often a label is there [C], float64, as far as anyone can know."""
    observed = statistics.positives + statistics.negatives
    known = torch.where(statistics.negatives > 0, observed, statistics.items)
    return statistics.positives.double() / known.clamp(min=1)


class Remembered(Complete):
    """(5), of the picked unknown labels."""

    prior: Tensor

    def __init__(
        self, memory: ItemMemory, prior: Tensor, *, q: float, momentum: float, anchor: Anchor, draw: Draw, seed: int
    ) -> None:
        super().__init__()
        self.draw, self.whole_batch = draw, draw == "labels"
        self.memory, self.q, self.momentum, self.anchor, self.seed = memory, q, momentum, anchor, seed
        self.warned = False
        self.register_buffer("prior", prior)

    def recall(self, items: Tensor, like: Tensor, context: Context) -> Tensor:
        """y~ [B, C]."""
        remembered = self.memory.read(items.to(like.device), context).to(like.dtype)
        return either(remembered.isnan(), context.of(self.prior).to(like.dtype), remembered)

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        item = context.items.to(logits.device)
        drawn = self.drawn(item, context.columns(logits), context)
        value = either(targets.observed, targets.positive, self.recall(item, logits, context))
        return Completed(value, targets.observed | drawn, targets.observed)

    def drawn(self, item: Tensor, label: Tensor, context: Context) -> Tensor:
        """Which labels are picked, if they are unknown: bool [B, C], or [C] where a step shares them."""
        if self.draw == "entries":
            return chance.uniform(self.seed, PICK, context.epoch, item[:, None], label) < self.q
        # The sum over the items of all processes: neither their order nor the number of processes matters.
        step = processes.total(chance.key(self.seed, context.epoch, item).sum())
        return chance.uniform(self.seed, PICK, step, label) < self.q

    def multiplied(self, labels: int, context: Context) -> Tensor | None:
        if self.draw == "entries":
            return None
        every = torch.arange(labels, device=context.items.device)
        return self.drawn(context.items, every, context).nonzero().flatten()

    def observe(self, logits: Tensor, targets: Targets, context: Context) -> None:
        before = self.recall(context.items, logits, context)
        new = self.renewed(before, torch.sigmoid(logits), context)
        if self.draw == "labels":
            new = either(self.drawn(context.items.to(new.device), context.columns(new), context), new, before)
        new = either(targets.observed, torch.nan, new)  # nothing to remember where the label was observed
        items = processes.rows(context.items.to(logits.device))
        self.memory.write(items, processes.rows(new), context.epoch, context)

    def renewed(self, before: Tensor, p: Tensor, context: Context) -> Tensor:
        slow = context.of(self.prior).to(p.dtype) if self.anchor == "prior" else before
        return torch.add(self.momentum * slow, p, alpha=1.0 - self.momentum)

    def end_epoch(self, context: Context) -> None:
        if self.anchor == "align":
            align(self.memory, self.prior, context.epoch)
        mean, prevalence = self.mean(), float(self.prior.mean())
        if mean > DRIFT * prevalence > 0 and not self.warned:
            self.warned = True
            warnings.warn(
                f"pseudo-labels drift: their mean is {mean:.3f}, the observed prevalence {prevalence:.3f}; "
                "try balance=0.3, anchor='align' or a higher momentum",
                RuntimeWarning,
                stacklevel=2,
            )

    def mean(self) -> float:
        return float(self.memory.mean(sample=SAMPLE_ROWS).mean())

    def vital_signs(self) -> dict[str, float]:
        return {"mean_pseudo_label": self.mean(), "picked_share": self.q}

    def label_signs(self) -> dict[str, Tensor]:
        return {"pseudo_label": self.memory.mean(sample=SAMPLE_ROWS)}


class ItemWeights(Weigh):
    """p / N_e for observed and p d / (q N_ne) for picked labels."""

    def __init__(self, schedule: Schedule, m: float, penalty: bool, *, counted_only: bool = False) -> None:
        super().__init__()
        self.schedule, self.m, self.penalty, self.counted_only = schedule, m, penalty, counted_only
        self.looks_everywhere = penalty and not counted_only
        self.scheduled = schedule not in ("one", "zero")
        self.last = 0.0  # d of the last finished epoch

    def d(self, context: Context) -> float:
        progress = (context.epoch + self.m) / context.epochs
        return {"exp": exp(progress - 1.0), "printed": exp(progress), "linear": progress, "one": 1.0, "zero": 0.0}[
            self.schedule
        ]

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        observed, picked = completed.observed, completed.counted & ~completed.observed
        predicts = torch.sigmoid(logits.detach()) > 0.1
        predicts = predicts & completed.counted if self.counted_only else predicts
        of_observed, of_picked = self.of_rows(
            context.total(observed.sum(1, keepdim=True)),
            context.total(picked.sum(1, keepdim=True)),
            context.total(predicts.sum(1, keepdim=True)) > 0 if self.penalty else None,
            context,
            logits.dtype,
        )
        return either(observed, of_observed, of_picked)

    def of_rows(
        self, observed: Tensor, picked: Tensor, predicts: Tensor | None, context: Context, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """The weights of observed and of picked labels [B, 1], from their numbers in the row."""
        p = 1.0 if predicts is None or not self.penalty else 2.0 - predicts.to(dtype)  # (10)
        return p / observed.clamp(min=1).to(dtype), p * self.d(context) / picked.clamp(min=1).to(dtype)

    def end_epoch(self, context: Context) -> None:
        self.last = self.d(context)

    def vital_signs(self) -> dict[str, float]:
        return {"unknown_weight": self.last}
