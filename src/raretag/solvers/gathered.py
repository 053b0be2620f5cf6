"""All features of the training set at once, for methods that solve and do not step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.targets import Targets

_SPARSE = 0.2  # features of which no more are filled are kept as a sparse matrix


def gathered(features: Iterator[tuple[Tensor, Targets]]) -> tuple[Any, Tensor, Tensor]:
    """Features [N, D], sparse if they mostly are; which labels are positive [N, C] float32; which are observed."""
    from scipy import sparse

    blocks: list[Any] = []
    positives, observed = [], []
    thin = alone = processes.count() == 1
    for x, targets in features:
        x = x.detach().float()
        x = x.cpu() if alone else x  # several processes exchange rows where their devices are
        thin = thin and int((x != 0).sum()) <= _SPARSE * x.numel()
        if not thin:
            blocks = [block if isinstance(block, Tensor) else torch.from_numpy(block.toarray()) for block in blocks]
        blocks.append(sparse.csr_array(x.numpy()) if thin else x)
        positives.append((targets.observed & (targets.positive > 0.5)).float())
        observed.append(targets.observed)
    x = sparse.csr_array(sparse.vstack(blocks)) if thin else processes.rows(torch.cat(blocks)).cpu()
    return x, processes.rows(torch.cat(positives)).cpu(), processes.rows(torch.cat(observed)).cpu()


def rows_of(x: Any, rows: Tensor) -> Any:
    return x[rows] if isinstance(x, Tensor) else x[rows.numpy()]


def dense_rows(x: Any, rows: Tensor) -> Tensor:
    found = rows_of(x, rows)
    return found if isinstance(found, Tensor) else torch.from_numpy(found.toarray())
