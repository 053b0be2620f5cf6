r"""Small networks of all labels, each without one of the folds, trained side by side.

No paper; the parts are a perceptron of one hidden layer, dropout (Srivastava et al., JMLR 2014), binary cross entropy
and AdamW (Loshchilov and Hutter, ICLR 2019)::

    x        features, in units of the root mean square of those that are not 0
    h_k      relu(U_k x + u_k)                    network k of F, one for each fold
    z_kc     V_kc drop(h_k) + v_kc

    1.  a batch trains all networks at once; network k skips the items of fold k
    2.  a strength is a number of epochs: the path continues with the same networks
    3.  held out: z_k of the items of fold k
    4.  the model is the mean of the networks, which is one network with all their hidden units

All labels share the hidden layer, so a label with few positives can use features that other labels have formed. This
needs many items: below FEWEST the networks bring nothing on average (docs/log.md). All networks but one learn from each
item; nothing is trained again after the folds. Many columns get fewer hidden units, many items larger batches.
"""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from raretag.core.listener import Listener
from raretag.core.solver import Shared, kept
from raretag.solvers.folds import FLAT
from raretag.solvers.learners import Fitted, Learner, Task, Units, rows_of

FEWEST = 3000  # items that are worth a network
WIDEST, NARROWEST = 128, 16  # hidden units of each network
MOST_WEIGHTS = 2**23  # of all hidden units; 32 MB, and as much for each of a few copies
MOST_WORK = 2**35  # multiplications of an epoch, one way: some seconds
DROPPED = 0.5
RATE, DECAY = 2e-3, 1e-4  # the rate of the smallest batch; it grows with the root of the size
BATCH, LARGEST, STEPS = 128, 512, 128  # items of a batch, and steps of an epoch that larger batches keep to
AT_ONCE = 1024  # items that are scored together


def too_small_or_large(task: Task) -> str:
    """Why there is no network for this task; empty if there is one."""
    items, columns = task.products.items, task.products.columns
    units = task.folds * width_for(columns, task.folds)
    if items < FEWEST:
        return f"fewer than {FEWEST:,} items"
    if columns * units > MOST_WEIGHTS:
        return f"more than {MOST_WEIGHTS // (NARROWEST * task.folds):,} columns"
    steps = items / batch_size(items)
    work = units * (task.products.filled + items * task.labels + steps * columns)
    return f"an epoch of {items:,} items would take too long" if work > MOST_WORK else ""


def width_for(columns: int, folds: int) -> int:
    return min(WIDEST, max(NARROWEST, MOST_WEIGHTS // (columns * folds)))


def batch_size(items: int) -> int:
    return min(LARGEST, max(BATCH, items // STEPS))


class Network(Learner):
    name = "network"
    strengths = (3.0, 4.0, 6.0, 8.0, 11.0, 15.0, 20.0, 27.0, 36.0, 48.0)  # epochs

    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.epochs, self.kept = task, 0, dict[float, tuple[Tensor, ...]]()
        self.draws = torch.Generator().manual_seed(1000 * seed + 0x2E)
        products, folds = task.products, task.folds
        self.width, self.batch = width_for(products.columns, folds), batch_size(products.items)
        self.scale = sqrt(max(products.filled, 1) / max(products.square, 1e-12))
        self.x = products.x * self.scale
        positives = task.positive.sum(0)  # [C]
        others = (len(task.positive) if task.counted is None else task.counted.sum(0)) - positives
        odds = ((positives + 0.5) / (others + 0.5)).log()
        self.parts = (
            self.uniform(products.columns, folds * self.width, bound=1 / sqrt(products.columns)),  # U
            torch.zeros(folds * self.width, requires_grad=True),  # u
            self.uniform(folds, self.width, task.labels, bound=1 / sqrt(self.width)),  # V
            odds.expand(folds, 1, -1).clone().requires_grad_(),  # v
        )
        rate = RATE * sqrt(self.batch / BATCH)
        self.optimizer = torch.optim.AdamW(self.parts, rate, weight_decay=DECAY, fused=True)

    def uniform(self, *shape: int, bound: float) -> Tensor:
        return torch.empty(shape).uniform_(-bound, bound, generator=self.draws).requires_grad_()

    def held_out(self, strength: float, listener: Listener) -> Tensor:
        self.restore(kept(partial(self.trained, strength, listener), Shared(self.task), self.state(), strength))
        self.kept[strength] = tuple(part.detach().clone() for part in self.parts)
        for old in sorted(self.kept)[: -FLAT - 1]:  # no path looks further back
            del self.kept[old]
        found = []
        with torch.no_grad():
            for rows in torch.arange(len(self.task.fold)).split(AT_ONCE):
                z = self.scores(self.hidden(rows_of(self.x, rows)))
                found.append(z[self.task.fold[rows], torch.arange(len(rows))])
        return torch.cat(found)

    def fitted(self, strength: float) -> Fitted:
        first, first_bias, second, second_bias = self.kept[strength]
        labels, columns = self.task.labels, self.task.products.columns
        units = Units(self.scale * first.T.contiguous(), first_bias)
        read = second.flatten(0, 1).T.contiguous() / self.task.folds  # [C, H]
        return Fitted(torch.zeros(labels, columns), second_bias.mean((0, 1)), units=units, of_units=read)

    def hidden(self, x: Any) -> Tensor:
        """[B, F x width]; sparse rows cost as much as they are filled."""
        first, bias = self.parts[:2]
        if isinstance(x, Tensor):
            return torch.relu(torch.addmm(bias, x, first))
        columns, ends, values = (torch.from_numpy(part) for part in (x.indices, x.indptr, x.data))
        sums = F.embedding_bag(
            columns.long(), first, ends.long(), mode="sum", per_sample_weights=values, include_last_offset=True
        )
        return torch.relu(sums + bias)

    def scores(self, hidden: Tensor) -> Tensor:
        """z [F, B, C]"""
        _, _, second, bias = self.parts
        return torch.baddbmm(bias, hidden.view(len(hidden), -1, self.width).transpose(0, 1), second)

    def trained(self, strength: float, listener: Listener) -> dict[str, Any]:
        first = self.epochs
        while self.epochs < strength:
            self.epoch()
            listener.progress((self.epochs - first) / (strength - first))
        return self.state()

    def state(self) -> dict[str, Any]:
        """All that another epoch begins with."""
        parts = [part.detach() for part in self.parts]
        return {
            "epochs": self.epochs,
            "parts": parts,
            "optimizer": self.optimizer.state_dict(),
            "draws": self.draws.get_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.epochs = state["epochs"]
        with torch.no_grad():
            for part, value in zip(self.parts, state["parts"], strict=True):
                part.copy_(value)
        self.optimizer.load_state_dict(state["optimizer"])
        self.draws.set_state(state["draws"])

    def epoch(self) -> None:
        task, folds = self.task, torch.arange(self.task.folds)[:, None]
        for batch in torch.randperm(len(task.fold), generator=self.draws).split(self.batch):
            hidden = self.hidden(rows_of(self.x, batch))
            stay = torch.empty_like(hidden).bernoulli_(1 - DROPPED, generator=self.draws) / (1 - DROPPED)
            z, y = self.scores(hidden * stay), task.positive[batch]
            seen = (task.fold[batch] != folds)[:, :, None]  # [F, B, 1]
            seen = seen if task.counted is None else seen & task.counted[batch]
            loss = F.binary_cross_entropy_with_logits(z, y.float().expand_as(z), seen.float(), reduction="sum")
            self.optimizer.zero_grad()
            (loss / len(batch)).backward()
            self.optimizer.step()
        self.epochs += 1
