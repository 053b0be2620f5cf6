"""A loss of your own in three sizes: a function, a choice of parts, and a part that no paper has."""

from __future__ import annotations

import torch
from torch import Tensor

import raretag
from raretag import Context, Method, Objective, Targets
from raretag.objective import Completed, CrossEntropy, Focal, Weigh, completion, reduction

LABELS = raretag.LabelStore.from_lists([["cat"], ["cat", "dog"], ["dog"], []])
LOGITS = torch.tensor([[2.0, -1.0], [0.5, 0.5]])


def hinge(logits: Tensor, targets: Targets) -> Tensor:
    """Any function of logits and targets that gives one number."""
    sign = targets.positive - targets.negative  # 0 where nobody looked
    return (sign.abs() * (1.0 - sign * logits).clamp(min=0.0)).mean()


class MyFocal(Method):
    """Parts of raretag.objective: masks, pseudo-labels and corrections of other methods work with it (`base=`)."""

    def __init__(self, *, gamma: float = 1.0) -> None:
        super().__init__(Objective(complete=completion("ignore"), score=Focal(gamma), reduce=reduction("kept")))


class LongRows(Weigh):
    """Items with many tags count less."""

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        return 1.0 / (1.0 + completed.value.sum(1, keepdim=True))


class MyWeights(Method):
    def __init__(self) -> None:
        super().__init__(
            Objective(
                complete=completion("negative"), weigh=LongRows(), score=CrossEntropy(), reduce=reduction("entries")
            )
        )


def main() -> None:
    masked = raretag.bind("partial_label_masking", LABELS, epochs=10, base=MyFocal(gamma=2.0))
    losses = {
        "a function": raretag.bind(hinge, LABELS),
        "parts": raretag.bind(MyFocal, LABELS, gamma=2.0),
        "parts, below another method": masked,
        "a part of my own": raretag.bind(MyWeights(), LABELS),
    }
    for name, loss in losses.items():
        print(f"{name:28} {loss(LOGITS, [0, 1]):.4f}")


if __name__ == "__main__":
    main()
