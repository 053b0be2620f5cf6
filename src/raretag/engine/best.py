"""Early stopping: the weights of the epoch with the best validation mAP, and when to give up hoping for better ones."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Best:
    """Does nothing where no patience is set: then the last epoch is the model."""

    def __init__(self, weights: dict[str, Tensor] | None = None) -> None:
        self.weights = weights

    def consider(self, history: list[dict[str, Any]], model: nn.Module, patience: int | None) -> None:
        """`history` holds the epochs of the last stage: earlier ones prepare for it and are not the model."""
        if patience is not None and history and best_epoch(history) == len(history) - 1:
            self.weights = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}

    def is_over(self, history: list[dict[str, Any]], patience: int | None) -> bool:
        return patience is not None and len(history) - 1 - best_epoch(history) >= patience

    def give_back(self, model: nn.Module) -> None:
        if self.weights is not None:
            model.load_state_dict(self.weights)


def best_epoch(history: list[dict[str, Any]]) -> int:
    """The first of the best; an epoch whose mAP could not be measured is the worst."""
    values = [row["validation"]["mAP"]["total"] for row in history]
    return max(range(len(values)), key=lambda epoch: -1.0 if values[epoch] is None else values[epoch], default=0)
