r"""Small networks of all labels, each without one of the folds, trained side by side.

No paper; the parts are a perceptron of one hidden layer, dropout (Srivastava et al., JMLR 2014) and AdamW (Loshchilov
and Hutter, ICLR 2019)::

    x        features, in units of the root mean square of those that are not 0
    h_k      relu(U_k x + u_k)                    network k of F, one for each fold
    z_kc     V_kc drop(h_k) + v_kc
    w_c      weight of a positive to that of a negative: (others / positives)^POWER, both 1 on average

    1.  a batch of items teaches all networks at once, but for network k those of fold k
    2.  a strength is a number of epochs: the path goes on with the same networks
    3.  held out: z_k of the items of fold k
    4.  the model is the mean of the networks, which is one network with all their hidden units

The hidden layer is shared by all labels, so a label with few positives finds features there that others have made.
Each item is learned from by all networks but one; nothing is trained again after the folds.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from raretag.core.listener import Listener
from raretag.solvers.folds import FLAT
from raretag.solvers.learners import Fitted, Learner, Task, Units, rows_of

WIDTH = 128  # hidden units of each network
POWER = 0.5
DROPPED = 0.5
RATE, DECAY = 2e-3, 1e-4
BATCH = 128
AT_ONCE = 1024  # items that are scored together


class Network(Learner):
    name = "network"
    strengths = (3.0, 4.0, 6.0, 8.0, 11.0, 15.0, 20.0, 27.0, 36.0, 48.0)  # epochs

    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.epochs, self.kept = task, 0, dict[float, tuple[Tensor, ...]]()
        self.draws = torch.Generator().manual_seed(1000 * seed + 0x2E)
        products, folds = task.products, task.folds
        filled = products.items * products.columns if products.dense else products.x.nnz
        self.scale = sqrt(max(filled, 1) / max(products.square, 1e-12))
        self.x = products.x * self.scale
        n = task.positive.sum(0).float()  # [C]
        others = (len(task.positive) if task.counted is None else task.counted.sum(0)) - n
        up = (others.clamp(min=1) / n.clamp(min=1)) ** POWER
        mean = (up * n + others) / (n + others).clamp(min=1)
        self.sides = torch.stack([1 / mean, up / mean])  # [2, C] weights of negatives and positives
        odds = ((up * n + 0.5) / (others + 0.5)).log()
        self.parts = (
            self.uniform(products.columns, folds * WIDTH, bound=1 / sqrt(products.columns)),  # U
            torch.zeros(folds * WIDTH, requires_grad=True),  # u
            self.uniform(folds, WIDTH, task.labels, bound=1 / sqrt(WIDTH)),  # V
            odds.expand(folds, 1, -1).clone().requires_grad_(),  # v
        )
        self.optimizer = torch.optim.AdamW(self.parts, RATE, weight_decay=DECAY, fused=True)

    def uniform(self, *shape: int, bound: float) -> Tensor:
        return torch.empty(shape).uniform_(-bound, bound, generator=self.draws).requires_grad_()

    def held_out(self, strength: float, listener: Listener) -> Tensor:
        first = self.epochs
        while self.epochs < strength:
            self.epoch()
            listener.progress((self.epochs - first) / (strength - first))
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
        """[B, F WIDTH]; sparse rows cost as much as they are filled."""
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
        return torch.baddbmm(bias, hidden.view(len(hidden), -1, WIDTH).transpose(0, 1), second)

    def epoch(self) -> None:
        task, folds = self.task, torch.arange(self.task.folds)[:, None]
        for batch in torch.randperm(len(task.fold), generator=self.draws).split(BATCH):
            hidden = self.hidden(rows_of(self.x, batch))
            stay = torch.empty_like(hidden).bernoulli_(1 - DROPPED, generator=self.draws) / (1 - DROPPED)
            z, y = self.scores(hidden * stay), task.positive[batch]
            weight = torch.where(y, self.sides[1], self.sides[0])
            weight = weight if task.counted is None else weight * task.counted[batch]
            seen = (task.fold[batch] != folds)[:, :, None]  # [F, B, 1]
            loss = F.binary_cross_entropy_with_logits(z, y.float().expand_as(z), weight * seen, reduction="sum")
            self.optimizer.zero_grad()
            (loss / len(batch)).backward()
            self.optimizer.step()
        self.epochs += 1
