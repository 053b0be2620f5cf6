"""Where to cut: for each label the threshold with the best F1 on some validation items.

Ranking and cutting are two questions: mAP asks the first, F1 at 0.5 mixes both. F1 at tuned thresholds shows which of
the two a method has improved.
"""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets

UNTOLD = 0.5  # where nothing is known


def best_f1_thresholds(probabilities: Tensor, targets: Targets) -> Tensor:
    """[C] float64, for decisions `probability > threshold`.

    A label without observed positives, which has no best threshold, takes the one that is best for all labels together.
    """
    p = probabilities.double()
    if p.numel() and not (p.min() >= 0 and p.max() <= 1):
        raise UserError(
            f"probabilities lie between {p.min():.3g} and {p.max():.3g}; expected [0, 1]: apply sigmoid first"
        )
    together = _best(p[targets.observed], targets.value[targets.observed] > 0.5)
    common = UNTOLD if together is None else together
    found = torch.full((p.shape[1],), common, dtype=torch.float64)
    for label in range(p.shape[1]):
        seen = targets.observed[:, label]
        best = _best(p[seen, label], targets.value[seen, label] > 0.5)
        if best is not None:
            found[label] = best
    return found


def _best(p: Tensor, positive: Tensor) -> float | None:
    if not positive.any():
        return None
    order = torch.argsort(p, descending=True)
    ranked, hits = p[order], positive[order].cumsum(0)
    decided = torch.arange(1, len(p) + 1)
    f1 = 2.0 * hits / (decided + positive.sum())
    last_of_tie = torch.ones(len(p), dtype=torch.bool)
    last_of_tie[:-1] = ranked[:-1] > ranked[1:]  # equal probabilities fall on one side together
    cut = int(torch.where(last_of_tie, f1, -1.0).argmax())
    below = ranked[cut + 1] if cut + 1 < len(p) else ranked[cut] - 1e-6  # just below the lowest: decide for all
    return float((ranked[cut] + below) / 2.0)
