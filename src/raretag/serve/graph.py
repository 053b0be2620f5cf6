"""A trained model as one graph: raw numbers in, logits or decisions out, with nothing of the data set around it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.serve.predictor import Predictor


class Graph(nn.Module):
    def __init__(self, before: nn.Module, network: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.before, self.network, self.after = before, network, after

    def forward(self, inputs: Tensor) -> Any:
        return self.after(self.network(self.before(inputs)))


class Scaled(nn.Module):
    """Features to mean 0 and deviation 1, in float64 as in training: large numbers would lose digits."""

    mean: Tensor
    factor: Tensor

    def __init__(self, mean: list[float], std: list[float]) -> None:
        super().__init__()
        centre, deviation = torch.tensor(mean, dtype=torch.float64), torch.tensor(std, dtype=torch.float64)
        steady = deviation <= 1e-12 * centre.abs().clamp(min=1)
        self.register_buffer("mean", centre)
        self.register_buffer("factor", torch.where(steady, 0.0, 1 / torch.where(steady, 1.0, deviation)))

    def forward(self, values: Tensor) -> Tensor:
        return ((values.double() - self.mean) * self.factor).float()


class Pixels(nn.Module):
    """uint8 [B, H, W, 3], of the size that the model reads, to what it reads."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: list[float], std: list[float]) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(values)[:, None, None])

    def forward(self, pixels: Tensor) -> Tensor:
        return (pixels.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.std


class Weighted(nn.Module):
    """How often each word stands in a text [B, W], to TF-IDF weights of length 1."""

    idf: Tensor

    def __init__(self, idf: list[float]) -> None:
        super().__init__()
        self.register_buffer("idf", torch.tensor(idf))

    def forward(self, counts: Tensor) -> Tensor:
        weights = torch.where(counts > 0, 1 + counts.clamp(min=1).log(), 0.0) * self.idf
        return weights / torch.linalg.vector_norm(weights, dim=1, keepdim=True).clamp(min=1e-30)


class Decided(nn.Module):
    """Calibrated probabilities [B, C] float32, and which labels are chosen [B, C] bool.

    Labels are decided on the scale of logits and in float64, so that rounding cannot turn a decision.
    """

    scale: Tensor
    shift: Tensor
    cut: Tensor

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.register_buffer("scale", predictor.scale)
        self.register_buffer("shift", predictor.shift)
        self.register_buffer("cut", torch.logit(predictor.thresholds))

    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        calibrated = logits.double() * self.scale + self.shift
        return torch.sigmoid(calibrated.float()), calibrated > self.cut


def graph_of(predictor: Predictor, *, preprocess: bool, decide: bool) -> tuple[Graph, Tensor]:
    """The graph, and two items to try it with."""
    card = predictor.card
    shape = tuple(card["input_shape"])
    before, example = preprocessing(card["inputs"], shape) if preprocess else (nn.Identity(), torch.randn(2, *shape))
    after = Decided(predictor) if decide else nn.Identity()
    return Graph(before, predictor.network.cpu(), after).eval(), example


def preprocessing(described: dict[str, Any], shape: tuple[int, ...]) -> tuple[nn.Module, Tensor]:
    kind = described.get("kind")
    if kind == "features":
        scale = described["scale"]
        if scale is None:
            return nn.Identity(), torch.randn(2, *shape)
        step = Scaled(scale["mean"], scale["std"])
        return step, (step.mean + torch.randn(2, *shape).double() * torch.tensor(scale["std"])).float()
    if kind == "images":
        side = described["size"]
        return Pixels(described["mean"], described["std"]), torch.randint(0, 256, (2, side, side, 3), dtype=torch.uint8)
    if kind == "tfidf":
        return Weighted(described["idf"]), torch.randint(0, 3, (2, *shape)).float()
    what = "texts through a sentence encoder" if kind == "encoder" else "tensors as they are"
    raise UserError(
        f"the model reads {what}, so there is nothing to preprocess inside the graph; leave out --preprocess"
    )
