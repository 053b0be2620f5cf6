"""Data: your own files and arrays, and the sets of the papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.data.arrays import from_arrays as from_arrays
    from raretag.data.arrays import from_torch as from_torch
    from raretag.data.dataset import DataSet as DataSet
    from raretag.data.dataset import Items as Items
    from raretag.data.huggingface import from_huggingface as from_huggingface
    from raretag.data.inputs.described import inputs_from as inputs_from
    from raretag.data.sets.arff import Arff as Arff
    from raretag.data.sets.arxiv import Arxiv as Arxiv
    from raretag.data.sets.cifar import Cifar10Lt as Cifar10Lt
    from raretag.data.sets.cifar import Cifar100Lt as Cifar100Lt
    from raretag.data.sets.coco import Coco as Coco
    from raretag.data.sets.coco import CocoMlt as CocoMlt
    from raretag.data.sets.coco import PltCoco as PltCoco
    from raretag.data.sets.cub import Cub as Cub
    from raretag.data.sets.digits import Digits as Digits
    from raretag.data.sets.goemotions import Goemotions as Goemotions
    from raretag.data.sets.mulan import Bibtex as Bibtex
    from raretag.data.sets.mulan import Corel5k as Corel5k
    from raretag.data.sets.mulan import Delicious as Delicious
    from raretag.data.sets.mulan import Enron as Enron
    from raretag.data.sets.mulan import Langlog as Langlog
    from raretag.data.sets.mulan import Slashdot as Slashdot
    from raretag.data.sets.mulan import Tmc2007 as Tmc2007
    from raretag.data.sets.mulan import Yeast as Yeast
    from raretag.data.sets.multimnist import Multimnist as Multimnist
    from raretag.data.sets.nus_wide import NusWide as NusWide
    from raretag.data.sets.open_images import OpenImages as OpenImages
    from raretag.data.sets.svmlight import Svmlight as Svmlight
    from raretag.data.sets.voc import PltVoc as PltVoc
    from raretag.data.sets.voc import Voc as Voc
    from raretag.data.sets.voc import VocMlt as VocMlt
    from raretag.data.table.source import Table as Table
    from raretag.data.table.source import from_table as from_table

REGISTRY = {  # the name on the command line, and where its class is
    "arff": "raretag.data.sets.arff:Arff",
    "arxiv": "raretag.data.sets.arxiv:Arxiv",
    "cifar100_lt": "raretag.data.sets.cifar:Cifar100Lt",
    "cifar10_lt": "raretag.data.sets.cifar:Cifar10Lt",
    "coco": "raretag.data.sets.coco:Coco",
    "coco_mlt": "raretag.data.sets.coco:CocoMlt",
    "corel5k": "raretag.data.sets.mulan:Corel5k",
    "cub": "raretag.data.sets.cub:Cub",
    "delicious": "raretag.data.sets.mulan:Delicious",
    "digits": "raretag.data.sets.digits:Digits",
    "enron": "raretag.data.sets.mulan:Enron",
    "goemotions": "raretag.data.sets.goemotions:Goemotions",
    "multimnist": "raretag.data.sets.multimnist:Multimnist",
    "nus_wide": "raretag.data.sets.nus_wide:NusWide",
    "open_images": "raretag.data.sets.open_images:OpenImages",
    "plt_coco": "raretag.data.sets.coco:PltCoco",
    "plt_voc": "raretag.data.sets.voc:PltVoc",
    "svmlight": "raretag.data.sets.svmlight:Svmlight",
    "table": "raretag.data.table.source:Table",
    "voc": "raretag.data.sets.voc:Voc",
    "voc_mlt": "raretag.data.sets.voc:VocMlt",
    "bibtex": "raretag.data.sets.mulan:Bibtex",
    "tmc2007": "raretag.data.sets.mulan:Tmc2007",
    "langlog": "raretag.data.sets.mulan:Langlog",
    "slashdot": "raretag.data.sets.mulan:Slashdot",
    "yeast": "raretag.data.sets.mulan:Yeast",
}
_EXPORTS = {
    "DataSet": "raretag.data.dataset:DataSet",
    "Items": "raretag.data.dataset:Items",
    "from_arrays": "raretag.data.arrays:from_arrays",
    "from_huggingface": "raretag.data.huggingface:from_huggingface",
    "from_table": "raretag.data.table.source:from_table",
    "from_torch": "raretag.data.arrays:from_torch",
    "inputs_from": "raretag.data.inputs.described:inputs_from",
    **{target.partition(":")[2]: target for target in REGISTRY.values()},
}
__getattr__, __dir__ = lazy.exports(__name__, _EXPORTS)
