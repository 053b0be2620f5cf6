"""Data: your own files and arrays, and the sets of the papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.data.arff import Arff as Arff
    from raretag.data.cifar10_lt import Cifar10Lt as Cifar10Lt
    from raretag.data.cifar100_lt import Cifar100Lt as Cifar100Lt
    from raretag.data.coco import Coco as Coco
    from raretag.data.coco_mlt import CocoMlt as CocoMlt
    from raretag.data.corel5k import Corel5k as Corel5k
    from raretag.data.cub import Cub as Cub
    from raretag.data.delicious import Delicious as Delicious
    from raretag.data.digits import Digits as Digits
    from raretag.data.enron import Enron as Enron
    from raretag.data.goemotions import Goemotions as Goemotions
    from raretag.data.multimnist import Multimnist as Multimnist
    from raretag.data.nus_wide import NusWide as NusWide
    from raretag.data.open_images import OpenImages as OpenImages
    from raretag.data.plt_coco import PltCoco as PltCoco
    from raretag.data.plt_voc import PltVoc as PltVoc
    from raretag.data.svmlight import Svmlight as Svmlight
    from raretag.data.table import Table as Table
    from raretag.data.voc import Voc as Voc
    from raretag.data.voc_mlt import VocMlt as VocMlt
    from raretag.data.yeast import Yeast as Yeast

REGISTRY = {  # the name on the command line, and where its class is
    "arff": "raretag.data.arff:Arff",
    "cifar100_lt": "raretag.data.cifar100_lt:Cifar100Lt",
    "cifar10_lt": "raretag.data.cifar10_lt:Cifar10Lt",
    "coco": "raretag.data.coco:Coco",
    "coco_mlt": "raretag.data.coco_mlt:CocoMlt",
    "corel5k": "raretag.data.corel5k:Corel5k",
    "cub": "raretag.data.cub:Cub",
    "delicious": "raretag.data.delicious:Delicious",
    "digits": "raretag.data.digits:Digits",
    "enron": "raretag.data.enron:Enron",
    "goemotions": "raretag.data.goemotions:Goemotions",
    "multimnist": "raretag.data.multimnist:Multimnist",
    "nus_wide": "raretag.data.nus_wide:NusWide",
    "open_images": "raretag.data.open_images:OpenImages",
    "plt_coco": "raretag.data.plt_coco:PltCoco",
    "plt_voc": "raretag.data.plt_voc:PltVoc",
    "svmlight": "raretag.data.svmlight:Svmlight",
    "table": "raretag.data.table:Table",
    "voc": "raretag.data.voc:Voc",
    "voc_mlt": "raretag.data.voc_mlt:VocMlt",
    "yeast": "raretag.data.yeast:Yeast",
}
__getattr__, __dir__ = lazy.exports(__name__, {target.partition(":")[2]: target for target in REGISTRY.values()})
