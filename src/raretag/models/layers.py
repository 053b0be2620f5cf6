"""Layers that do not depend on how many processes share a batch: normalisation and dropout.

Ioffe and Szegedy, "Batch Normalization", ICML 2015.

On one process these are torch's own layers. On several, sums and numbers of values are added first, so a process may
have fewer rows than another, or none (`nn.SyncBatchNorm` does this on GPUs only), and dropout draws for the batch of
all processes, of which each takes its own rows.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function

from raretag.core import processes
from raretag.core.numerics import in_full_precision


class Dropout(nn.Module):
    """As `nn.Dropout`. Every process must have seeded its generator alike; each takes the draws of its own rows."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        rows = int(processes.total(torch.tensor(len(x), device=x.device)))
        draws = torch.rand(rows, *x.shape[1:], device=x.device)[processes.rank() :: processes.count()]
        return x * (draws >= self.p) / (1.0 - self.p)


class BatchNorm1d(nn.BatchNorm1d):
    """Rows [B, D]."""

    def forward(self, inputs: Tensor) -> Tensor:
        together = self.training and processes.count() > 1
        return normalised(self, inputs) if together else super().forward(inputs)


class BatchNorm2d(nn.BatchNorm2d):
    """Maps [B, D, H, W]."""

    def forward(self, inputs: Tensor) -> Tensor:
        together = self.training and processes.count() > 1
        return normalised(self, inputs) if together else super().forward(inputs)


def over_processes(model: nn.Module) -> nn.Module:
    """Turn the layers of a model from elsewhere into ours; they hold the same weights, so only the class changes."""
    ours: dict[type[nn.Module], type[nn.Module]] = {nn.BatchNorm1d: BatchNorm1d, nn.BatchNorm2d: BatchNorm2d}
    for module in model.modules():
        if type(module) in ours:
            module.__class__ = ours[type(module)]
    return model


def normalised(layer: nn.BatchNorm1d | nn.BatchNorm2d, inputs: Tensor) -> Tensor:
    """What the layer does in training, with the moments of all processes."""
    x = in_full_precision(inputs)
    channel = (1, -1, *[1] * (x.dim() - 2))
    mean, variance, number = moments(x)
    if layer.running_mean is not None and layer.running_var is not None and layer.num_batches_tracked is not None:
        layer.num_batches_tracked.add_(1)
        rate = 1.0 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
        unbiased = variance * number / (number - 1.0).clamp(min=1.0)
        layer.running_mean.lerp_(mean.detach().to(layer.running_mean.dtype), rate)
        layer.running_var.lerp_(unbiased.detach().to(layer.running_var.dtype), rate)
    normal = (x - mean.view(channel)) * torch.rsqrt(variance + layer.eps).view(channel)
    if layer.affine:
        normal = normal * layer.weight.view(channel) + layer.bias.view(channel)
    return normal.to(inputs.dtype)


def moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean [D], variance [D], and the number of values in each, over all dimensions but 1 and all processes."""
    others = [place for place in range(x.dim()) if place != 1]
    mine = x.new_tensor(float(x.numel() // x.shape[1]))
    total, number = sum_over_processes(torch.cat([x.sum(others), mine[None]])).split([x.shape[1], 1])
    mean = total / number
    distance = x - mean.view(1, -1, *[1] * (x.dim() - 2))
    return mean, sum_over_processes(distance.square().sum(others)) / number, number


class Sum(Function):
    """The sum over processes. Each of them goes on with it, so its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: object, value: Tensor) -> Tensor:
        value = value.clone()
        dist.all_reduce(value)
        return value

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


def sum_over_processes(value: Tensor) -> Tensor:
    total: Tensor = Sum.apply(value)  # type: ignore[no-untyped-call]
    return total
