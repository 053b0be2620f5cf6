"""A linear head for very many labels.

    head = StreamedHead(features=256, labels=1_000_000)
    loss = head.loss(method, features, listed_targets(store, rows), Context(index=rows, epoch=epoch, epochs=epochs))
    loss.backward()                      # gradients of weight, bias and features
    scores, labels = head.top_k(features, 5)

The logits [B, C] never exist: labels pass in blocks. Numbers are those of `method.loss(linear(features), targets)`.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn

from raretag.core.context import NOWHERE, Context
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.streamed.head_product import HeadProduct
from raretag.streamed.loss import ENTRIES, Pass, StreamedLoss
from raretag.streamed.targets import ListedTargets


class StreamedHead(nn.Module):
    """`branches` heads side by side, for methods such as COMIC; then features are [B, K, D].

    With `sparse` a step that multiplies only some labels gives sparse gradients, for optimizers that take them.
    """

    def __init__(
        self, features: int, labels: int, *, branches: int = 1, sparse: bool = False, entries_at_once: int = ENTRIES
    ) -> None:
        super().__init__()
        if min(features, labels, branches, entries_at_once) < 1:
            raise UserError("StreamedHead: features, labels, branches and entries_at_once must be 1 or more")
        self.features, self.labels, self.branches = features, labels, branches
        self.sparse, self.entries_at_once = sparse, entries_at_once
        bound = 1.0 / sqrt(features)  # as nn.Linear
        self.weights = nn.ParameterList(torch.empty(labels, features).uniform_(-bound, bound) for _ in range(branches))
        self.biases = nn.ParameterList(torch.empty(labels).uniform_(-bound, bound) for _ in range(branches))

    def loss(self, method: Method, features: Tensor, targets: ListedTargets, context: Context = NOWHERE) -> Tensor:
        """The method's loss of the batch. In training mode the method learns from it, as in `method.loss`."""
        self._check(features)
        if targets.shape != (len(features), self.labels):
            raise UserError(
                f"targets are {targets.shape[0]} x {targets.shape[1]}, but there are {len(features)} items and "
                f"{self.labels} labels: was the head made for a different label list?"
            )
        if next(method.parameters(), None) is not None:
            raise UserError(
                f"{type(method).__name__} learns a number for each item and label, which no head can pass in blocks"
            )
        step = Pass(method, targets, context, self.entries_at_once, self.sparse)
        return StreamedLoss.apply(step, features, *self.weights, *self.biases)  # type: ignore[no-any-return, no-untyped-call]

    @torch.no_grad()
    def top_k(self, features: Tensor, k: int, branch: int = 0) -> tuple[Tensor, Tensor]:
        """The k highest logits of each row [B, k] and their labels, the highest first."""
        self._check(features)
        if not 1 <= k <= self.labels:
            raise UserError(f"k is {k}; expected from 1 to the {self.labels} labels")
        features = features if features.dim() == 2 else features[:, branch]
        head = HeadProduct(features, [self.weights[branch]], [self.biases[branch]])
        best, found = features.new_empty(len(features), 0), torch.empty(len(features), 0, dtype=torch.int64)
        found = found.to(features.device)
        size = max(k, self.entries_at_once // max(1, len(features)))
        for start in range(0, self.labels, size):
            block = slice(start, min(start + size, self.labels))
            logits, place = head.logits(block).topk(min(k, block.stop - start), dim=1)
            best, found = torch.cat([best, logits], 1), torch.cat([found, place + start], 1)
            best, place = best.topk(min(k, best.shape[1]), dim=1)
            found = found.gather(1, place)
        return best, found

    def forward(self, features: Tensor) -> Tensor:
        """All logits at once [B, C], for few labels or few rows."""
        self._check(features)
        return HeadProduct(features, list(self.weights), list(self.biases)).logits(slice(0, self.labels))

    def _check(self, features: Tensor) -> None:
        wanted = (self.features,) if self.branches == 1 else (self.branches, self.features)
        if features.shape[1:] != wanted:
            raise UserError(f"features are {tuple(features.shape)}; expected [items, {', '.join(map(str, wanted))}]")
