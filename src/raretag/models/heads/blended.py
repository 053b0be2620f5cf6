"""A line, a kernel of kept items, a forest and a network, added up: what the solver `blend` fills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from raretag.models.heads.thin import Thin, is_thin
from raretag.models.heads.trees import Trees


class Blended(nn.Module):
    """z = W x + b + V k(x) + M sqrt(f(x)) + R relu(U x + u), with k_i(x) = exp(-|(x - centre) / unit - landmark_i|).

    The landmarks are training items, less the centre and in units; f are the frequencies of each label in the leaves
    of a forest. M is a diagonal, or a matrix where labels move each other. U, u are a hidden layer and R reads it.
    Without landmarks, trees and hidden units the head is a line and costs no more than one. The landmarks of texts are
    mostly zeros: they are kept as a thin matrix.
    """

    landmarks: Tensor  # [L, D]; [0, D] if they are thin
    thin: Thin | None  # [L, D]
    share: Tensor  # V [C, L]
    centre: Tensor  # [D]
    unit: Tensor  # []
    trees: Trees | None  # f
    mixing: Tensor | None  # M: [C], or [C, C]
    hidden: nn.Linear | None  # U, u
    read: Tensor | None  # R [C, H]

    def __init__(self, features: int, labels: int) -> None:
        super().__init__()
        self.classify = nn.Linear(features, labels)
        self.thin = self.trees = self.hidden = None
        self.register_buffer("landmarks", torch.zeros(0, features))
        self.register_buffer("share", torch.zeros(labels, 0))
        self.register_buffer("centre", torch.zeros(features))
        self.register_buffer("unit", torch.ones(()))
        self.register_buffer("mixing", None)
        self.register_buffer("read", None)
        self.register_load_state_dict_post_hook(make_thin)  # type: ignore[no-untyped-call]

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.classify(features)
        if self.share.shape[1]:
            rows = (features - self.centre) / self.unit
            squares = (self.landmarks**2).sum(1) if self.thin is None else self.thin.squares
            inner = rows @ self.landmarks.T if self.thin is None else self.thin(rows)
            squared = (rows**2).sum(1, keepdim=True) + squares - 2 * inner
            logits = logits + torch.exp(-squared.clamp(min=0).sqrt()) @ self.share.T
        if self.trees is not None and self.mixing is not None:
            found = self.trees(features).sqrt()
            logits = logits + (found * self.mixing if self.mixing.ndim == 1 else found @ self.mixing.T)
        if self.hidden is not None and self.read is not None:
            logits = logits + torch.relu(self.hidden(features)) @ self.read.T
        return logits

    @torch.no_grad()
    def fill(self, weight: Tensor, bias: Tensor) -> None:
        """The line alone."""
        self.classify.weight.copy_(weight)
        self.classify.bias.copy_(bias)
        self.resize_for({})

    @torch.no_grad()
    def keep(self, items: Any, centre: Tensor, unit: float, share: Tensor) -> None:
        """Items [L, D], dense or a matrix of scipy (whose centre is 0), as landmarks, and their shares [C, L]."""
        self.centre.copy_(centre)
        self.unit.fill_(unit)
        self.share, self.thin, self.landmarks = share.to(self.share).contiguous(), None, self.landmarks[:0]
        if isinstance(items, Tensor):
            self.landmarks = ((items - self.centre.to(items)) / unit).to(self.landmarks)
        elif is_thin(items.nnz, *items.shape):
            self.thin = Thin.of(items / unit).to(self.centre.device)
        else:
            self.landmarks = torch.from_numpy(items.toarray() / unit).to(self.landmarks)

    def plant(self, tables: Mapping[str, Tensor], mixing: Tensor) -> None:
        """The tables of a forest, and M."""
        self.trees = Trees(len(mixing)).to(self.centre.device)
        self.trees.fill(tables)
        self.mixing = mixing.to(self.centre).contiguous()

    @torch.no_grad()
    def connect(self, weight: Tensor, bias: Tensor, read: Tensor) -> None:
        """A hidden layer [H, D], [H] and what reads it [C, H]."""
        self._make_hidden(len(bias))
        assert self.hidden is not None
        self.hidden.weight.copy_(weight)
        self.hidden.bias.copy_(bias)
        self.read = read.to(self.centre).contiguous()

    def _make_hidden(self, units: int) -> None:
        labels, features = len(self.share), self.landmarks.shape[1]
        self.hidden = nn.Linear(features, units).to(self.centre)
        self.read = self.centre.new_zeros(labels, units)

    def resize_for(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Room for stored tensors of these shapes; none for landmarks, trees and units that are not among them."""
        features, labels = self.landmarks.shape[1], len(self.share)
        dense, share = shapes.get("landmarks", (0, features)), shapes.get("share", (labels, 0))
        if len(dense) == 2 and dense[1] == features:
            self.landmarks = self.landmarks.new_zeros(dense)
        if len(share) == 2 and share[0] == labels:
            self.share = self.share.new_zeros(share)
        entries, tables = parts_of("thin", shapes), parts_of("trees", shapes)
        self.thin = None
        if entries and self.share.shape[1]:
            self.thin = Thin(self.share.shape[1], features).to(self.centre.device)
            self.thin.resize_for(entries)
        self.trees, self.mixing = None, None
        if tables and shapes.get("mixing") in ((labels,), (labels, labels)):
            self.trees = Trees(labels).to(self.centre.device)
            self.trees.resize_for(tables)
            self.mixing = self.centre.new_zeros(shapes["mixing"])
        self.hidden, self.read = None, None
        units = shapes.get("read", ())
        if len(units) == 2 and units[0] == labels and shapes.get("hidden.weight") == (units[1], features):
            self._make_hidden(units[1])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        stored = {name.removeprefix(prefix): one for name, one in state_dict.items() if name.startswith(prefix)}
        self.resize_for({name: tuple(tensor.shape) for name, tensor in stored.items()})
        super()._load_from_state_dict(state_dict, prefix, *rest)


def make_thin(head: Blended, *_: Any) -> None:
    """Landmarks that are mostly zeros, from a file that an earlier version wrote."""
    if is_thin(int(head.landmarks.count_nonzero()), *head.landmarks.shape):
        from scipy import sparse

        head.thin = Thin.of(sparse.coo_array(head.landmarks.cpu().numpy())).to(head.centre.device)
        head.landmarks = head.landmarks[:0].clone()


def parts_of(part: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {name.removeprefix(f"{part}."): shape for name, shape in shapes.items() if name.startswith(f"{part}.")}
