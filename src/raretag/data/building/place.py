"""Where the files of a named data set are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from raretag.core.errors import DataAbsentError
from raretag.labels.collection import Inputs

VARIABLE = "RARETAG_DATA"


class Place:
    """The folder of all named sets, as one of them sees it.

    `about` is the docstring of its module, whose second paragraph says where to get it.
    """

    def __init__(self, source: str, about: str | None, root: Path | None) -> None:
        paragraphs = (about or "").split("\n\n")
        self.source = source
        self.how = " ".join(paragraphs[1].split()) if len(paragraphs) > 1 else ""
        given = root or os.environ.get(VARIABLE)
        self.root = Path(given).expanduser() if given else None

    def find(self, names: str) -> Path | None:
        """The first of some files, separated by `|`, that is there."""
        root = self._folder()
        return next((root / name for name in names.split("|") if (root / name).exists()), None)

    def file(self, names: str) -> Path:
        """The same, but it must be there."""
        path = self.find(names)
        if path is None:
            first, *others = names.split("|")
            instead = f" (or {', '.join(others)})" if others else ""
            raise DataAbsentError(
                f"{self.source} needs '{first}'{instead} in the folder '{self._folder()}'. {self.how}"
            )
        return path

    def images(self, paths: Sequence[Path], size: int, seed: int) -> Inputs:
        """Photographs, once every file is known to be there; cropped, mirrored and recoloured at random in training."""
        from raretag.data.inputs.augment import Augment
        from raretag.data.inputs.images import Images

        absent = [path for path in paths if not path.is_file()]
        if absent:
            raise DataAbsentError(
                f"{self.source}: {len(absent):,} of {len(paths):,} images are missing, the first is '{absent[0]}'; "
                f"the labels alone can be inspected. {self.how}"
            )
        return Images([str(path) for path in paths], size=size, augment=Augment(seed=seed))

    def _folder(self) -> Path:
        if self.root is None:
            raise DataAbsentError(
                f"{self.source} is read from a folder, and none is given: set the variable {VARIABLE} "
                f"or the option data.root. {self.how}"
            )
        if not self.root.is_dir():
            raise DataAbsentError(
                f"the folder of data sets '{self.root}' does not exist; {self.source} is read from it"
            )
        return self.root
