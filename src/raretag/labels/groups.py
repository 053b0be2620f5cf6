"""Head, medium and tail: labels by how often they occur in training.

Wu et al., "Distribution-Balanced Loss", ECCV 2020, section 4.1. The paper says "over 100" for the head; its class lists
count 100 itself as head (VOC-MLT 6/6/8, COCO-MLT 22/33/25), so the edges belong to the group above them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core.errors import UserError


def groups(positives: Tensor, edges: tuple[int, int] = (20, 100)) -> dict[str, Tensor]:
    """Label indices of the head (n >= 100), medium (20 <= n < 100) and tail (n < 20); n are TRAINING positives [C]."""
    low, high = edges
    if not 0 <= low <= high:
        raise UserError(f"edges {edges} must be two counts, the lower one first, such as (20, 100)")
    n = torch.as_tensor(positives)
    return {
        "head": torch.nonzero(n >= high).flatten(),
        "medium": torch.nonzero((n >= low) & (n < high)).flatten(),
        "tail": torch.nonzero(n < low).flatten(),
    }
