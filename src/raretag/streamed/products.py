"""The matrix products of a linear head for some labels at a time, and row sums of -log(1 - p) with few passes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

Numbers = slice | Tensor
Slopes = tuple[Numbers, Numbers, Tensor, Tensor]  # labels, where they lie in the gradients, slopes, share of the loss


class HeadProduct:
    """K linear maps of K features: logits [B, c] of some labels, or [B, K, c], and back from slopes to gradients."""

    def __init__(self, features: Tensor, weights: list[Tensor], biases: list[Tensor]) -> None:
        self.features = [features] if features.dim() == 2 else list(features.unbind(1))
        self.weights, self.biases, self.single = weights, biases, features.dim() == 2

    def logits(self, numbers: Numbers) -> Tensor:
        found = [
            torch.mm(x, weight[numbers].T).add_(bias[numbers])  # a product that begins with the bias is a tenth slower
            for x, weight, bias in zip(self.features, self.weights, self.biases, strict=True)
        ]
        return found[0] if self.single else torch.stack(found, 1)


class Gradients:
    """Of the features, and of `rows` rows of the weights and biases.

    All slopes are to be multiplied by `scale`, which is done where it costs least.
    """

    def __init__(self, head: HeadProduct, rows: int, scale: float) -> None:
        self.head, self.scale = head, scale
        self.of_features = [torch.zeros_like(x) for x in head.features]
        self.of_weights = [weight.new_empty(rows, weight.shape[1]) for weight in head.weights]
        self.of_biases = [bias.new_empty(rows) for bias in head.biases]
        self.scaled = [x if scale == 1.0 else x * scale for x in head.features]

    def add(self, slope: Tensor, numbers: Numbers, place: Numbers) -> None:
        """A block of labels: which they are, and where they lie among the rows."""
        for k, one in enumerate([slope] if self.head.single else slope.unbind(1)):
            self.of_features[k].addmm_(one, self.head.weights[k][numbers])
            if isinstance(place, slice):
                torch.mm(one.T, self.scaled[k], out=self.of_weights[k][place])
            else:
                self.of_weights[k][place] = one.T @ self.scaled[k]
            self.of_biases[k][place] = one.sum(0) * self.scale

    def found(self) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        features = [x if self.scale == 1.0 else x.mul_(self.scale) for x in self.of_features]
        return features[0] if self.head.single else torch.stack(features, 1), self.of_weights, self.of_biases


HIGH = 20.0  # e^80 is still a float32


class LogSum:
    """Keeps room for one block, so that the next of its size needs none. What it gives is valid until the next call."""

    def __init__(self) -> None:
        self.p, self.e, self.more = (torch.empty(0) for _ in range(3))

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Sum over the row of log(1 + e^z) [B], and p = e^z / (1 + e^z) [B, c]."""
        if self.p.shape != z.shape or self.p.dtype != z.dtype or self.p.device != z.device:
            self.p, self.e, self.more = (torch.empty_like(z) for _ in range(3))
        if z.shape[1] % 4 or not z.numel() or float(z.max()) > HIGH:
            return softplus(z).sum(1), torch.sigmoid(z, out=self.p)
        e = torch.exp(z, out=self.e)
        more = torch.add(e, 1.0, out=self.more)
        torch.div(e, more, out=self.p)
        # (1 + a)(1 + b) = 1 + (a + (1 + a) b): one logarithm for four labels, and none of the small e^z is lost.
        half, quarter = z.shape[1] // 2, z.shape[1] // 4
        two = torch.addcmul(e[:, :half], more[:, :half], e[:, half:], out=e[:, :half])
        four = torch.addcmul(two[:, :quarter], two[:, :quarter], two[:, quarter:], out=more[:, :quarter])
        return torch.log1p(four.add_(two[:, quarter:])).sum(1), self.p
