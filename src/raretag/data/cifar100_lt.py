"""CIFAR-100 with a long tail: 100 classes, one label an image, the first `ratio` times as frequent as the last.

The binary version of https://www.cs.toronto.edu/~kriz/cifar.html, unpacked as `cifar-100-binary/`.

The Python version is a pickle: loading one runs whatever code it holds, so it is refused.
"""

from __future__ import annotations

from pathlib import Path

from raretag.core.errors import UserError
from raretag.data.building.cifar_lt import long_tailed
from raretag.data.building.place import Place
from raretag.data.reading import cifar
from raretag.data.reading.bounded import wrong
from raretag.data.reading.label_list import names
from raretag.labels.collection import DataSet
from raretag.labels.store import LabelStore

FILES = ("cifar-100-binary/train.bin", "cifar-100-binary/test.bin", "cifar-100-binary/fine_label_names.txt")


class Cifar100Lt:
    def __init__(
        self,
        *,
        ratio: float = 100.0,
        validation_items: int = 1000,
        augment: bool = True,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        self.ratio, self.validation_items, self.augment, self.seed = ratio, validation_items, augment, seed
        self.place = Place("cifar100_lt", __doc__, root)

    def labels(self) -> dict[str, LabelStore]:
        data = self.load()
        return {"train": data.train.labels, "validation": data.validation.labels, "test": data.test.labels}

    def load(self) -> DataSet:
        if self.place.find(FILES[0]) is None and self.place.find("cifar-100-python") is not None:
            raise UserError(
                "'cifar-100-python' is a pickle, and loading a pickle runs whatever code it holds; get "
                "'cifar-100-binary.tar.gz' from the same page instead, which unpacks as 'cifar-100-binary'"
            )
        path = self.place.file(FILES[2])
        classes = tuple(names(path, "class"))
        if len(classes) != 100:
            raise wrong(path, f"names {len(classes)} classes; expected 100")
        return long_tailed(
            "cifar100_lt", self._read, classes, self.ratio, self.validation_items, self.augment, self.seed
        )

    def _read(self, part: str) -> tuple[cifar.Bytes, cifar.Bytes]:
        return cifar.binary(self.place.file(f"cifar-100-binary/{part}.bin"), 2, 100)
