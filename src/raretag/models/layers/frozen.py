"""Models that do not learn."""

from __future__ import annotations

from torch import nn


def freeze(model: nn.Module) -> nn.Module:
    """What does not learn is a buffer: no optimizer, engine or stage can wake it up. Names in `state_dict` stay."""
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            delattr(module, name)
            module.register_buffer(name, parameter.detach())
    return model
