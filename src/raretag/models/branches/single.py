"""One backbone, one head."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn


class Single(nn.Module):
    """`make_head` is told the number of features."""

    def __init__(self, make_backbone: Callable[[], nn.Module], make_head: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.backbone = make_backbone()
        self.head = make_head(self.backbone.features)  # type: ignore[arg-type]

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.backbone(inputs))
        return logits
