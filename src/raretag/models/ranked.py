"""A model for very many labels, for training and for serving: feature vectors brought to one scale, and a ranker."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from raretag.core.listener import SILENT, Listener
from raretag.core.protocols import Inputs
from raretag.core.ranker import Known, Ranked, Ranker
from raretag.models.mlp import Mlp
from raretag.models.scaling import Rule, learn_scale, scaled, sparse_features

DENSE_ROWS = 512  # of inputs that are not held sparse, made sparse at a time
RANKED_ROWS = 4096  # items that are ranked at a time


class RankedModel:
    """Ranks labels of items as the data set gives them.

    >>> from raretag.data.inputs.features import Features
    >>> from raretag.ranking import Centroids
    >>> inputs = Features(sparse.csr_array(np.eye(3, dtype=np.float32)))
    >>> model = RankedModel(Centroids(), "raw", columns=3)
    >>> model.fit(inputs, Known(sparse.csr_array(np.array([[1, 0], [0, 1], [0, 1]], bool))))
    >>> model.rank(inputs, 1).labels.ravel().tolist()
    [0, 1, 1]
    """

    def __init__(self, ranker: Ranker, rule: Rule, columns: int) -> None:
        self.ranker, self.columns = ranker, columns
        self.scale = scaled(rule, columns, Mlp(columns, layers=0)).eval()

    def fit(self, inputs: Inputs, known: Known, listener: Listener = SILENT) -> None:
        """Learn the scale and the ranking from all rows."""
        learn_scale(self.scale, inputs)
        self.ranker.fit(self.features(inputs, torch.arange(len(inputs))), known, listener)

    @torch.no_grad()
    def features(self, inputs: Inputs, rows: Tensor) -> sparse.csr_array:
        """[B, D] float32, as the ranker reads it."""
        x = sparse_features(self.scale, inputs, rows)
        if x is None:
            dense = (self.scale(inputs.batch(some)).float().numpy() for some in rows.split(DENSE_ROWS))
            x = sparse.vstack([sparse.csr_array((0, self.columns), dtype=np.float32), *map(sparse.csr_array, dense)])
        x = sparse.csr_array(x, dtype=np.float32)
        x.sort_indices()
        return x

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        """The k best labels of all rows; nothing is kept that is larger than [N, k]."""
        blocks = torch.arange(len(inputs)).split(RANKED_ROWS) if len(inputs) else ()
        found = [self.ranker.rank(self.features(inputs, rows), k) for rows in blocks]
        return Ranked(
            np.concatenate([np.zeros((0, k), np.int32), *(one.labels for one in found)]),
            np.concatenate([np.zeros((0, k), np.float32), *(one.scores for one in found)]),
        )

    def state(self) -> dict[str, Tensor]:
        """All that was learned, for safetensors."""
        found = {f"scale.{name}": tensor for name, tensor in self.scale.state_dict().items()}
        return found | {f"ranker.{name}": tensor for name, tensor in self.ranker.state().items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state`."""
        parts: dict[str, dict[str, Tensor]] = {"scale": {}, "ranker": {}}
        for name, tensor in state.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        self.scale.load_state_dict(parts["scale"])
        self.ranker.restore(parts["ranker"])
