"""Backbones by name; heads, branches and scaling rules have rooms of their own below this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.models.mlp import Mlp as Mlp
    from raretag.models.pretrained import EfficientnetLite as EfficientnetLite
    from raretag.models.pretrained import SideBySide as SideBySide
    from raretag.models.small_resnet import SmallResnet as SmallResnet
    from raretag.models.text_transformer import TextTransformer as TextTransformer
    from raretag.models.timm_model import TimmModel as TimmModel

REGISTRY = {  # the name on the command line, and where its class is
    "efficientnet_lite": "raretag.models.pretrained:EfficientnetLite",
    "mlp": "raretag.models.mlp:Mlp",
    "side_by_side": "raretag.models.pretrained:SideBySide",
    "small_resnet": "raretag.models.small_resnet:SmallResnet",
    "text_transformer": "raretag.models.text_transformer:TextTransformer",
    "timm_model": "raretag.models.timm_model:TimmModel",
}
__getattr__, __dir__ = lazy.exports(__name__, {target.partition(":")[2]: target for target in REGISTRY.values()})
