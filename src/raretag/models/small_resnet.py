"""A residual network for small images: three stages of basic blocks, 16, 32 and 64 channels wide.

He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 4.2.

depth = 2 + 2 x blocks: 8, 12, 14, 20, 32, ... PLM uses depth 12 on MultiMNIST and depth 32 on CIFAR.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from raretag.core.errors import UserError
from raretag.models.layers import BatchNorm2d


class SmallResnet(nn.Module):
    """Images [B, channels, H, W] to features [B, 4 x width]; with `maps` before their mean over places is taken."""

    def __init__(self, channels: int, *, depth: int = 12, width: int = 16, maps: bool = False) -> None:
        super().__init__()
        self.maps = maps
        blocks, odd = divmod(depth - 2, 2)
        if odd or blocks < 3:
            raise UserError(
                f"small_resnet.depth is 2 + 2 x blocks with 3 blocks or more (8, 10, 12, 14, ...), got {depth}"
            )
        self.features = 4 * width
        self.stem = nn.Sequential(nn.Conv2d(channels, width, 3, padding=1, bias=False), BatchNorm2d(width))
        stages: list[nn.Module] = []
        wide = width
        for stage in range(3):
            for block in range(blocks // 3 + (stage < blocks % 3)):  # what does not divide by three goes to the front
                stages.append(BasicBlock(wide, width * 2**stage, stride=2 if stage and not block else 1))
                wide = width * 2**stage
        self.stages = nn.Sequential(*stages)
        # Channels last is a quarter faster on CPUs, but torch 2.13 corrupts memory with 4 or 8 channels (backward).
        self.format = torch.contiguous_format if width % 16 else torch.channels_last
        self.to(memory_format=self.format)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.stages(relu(self.stem(images.contiguous(memory_format=self.format))))
        return maps if self.maps else maps.mean(dim=(2, 3))


class BasicBlock(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False),
            BatchNorm2d(outside),
            nn.ReLU(inplace=True),
            nn.Conv2d(outside, outside, 3, padding=1, bias=False),
            BatchNorm2d(outside),
        )
        same = inside == outside and stride == 1
        self.skip = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), BatchNorm2d(outside))
        )

    def forward(self, maps: Tensor) -> Tensor:
        return relu(self.residual(maps) + self.skip(maps))
