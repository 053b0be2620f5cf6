"""Your own sparse rows with many labels: SVMlight / LIBSVM files, and those for extreme classification.

Give `train` and, if there is one, `test`. Rows look like `3,17 0:1.5 7:0.25`; a first line `items features labels`
may be there. Labels are numbers; `names` is a file that names them, one a line.

Without a test file a stratified part of the items is held out for it.
"""

from __future__ import annotations

from pathlib import Path

from raretag.core.errors import UserError
from raretag.data.building.feature_rows import FeatureRows, Part, part
from raretag.data.reading import label_list
from raretag.data.reading import svmlight as reading

FILES = ()


class Svmlight(FeatureRows):
    name = "svmlight"

    def __init__(self, *, train: str, test: str = "", names: str = "", validation: float = 0.1, seed: int = 0) -> None:
        self.paths = {"train": Path(train)} | ({"test": Path(test)} if test else {})
        self.name_file = Path(names) if names else None
        self.validation, self.seed = validation, seed

    def parts(self) -> dict[str, Part]:
        read = {called: reading.rows(path) for called, path in self.paths.items()}
        labels = max(found.labels for found in read.values())
        width = max(found.features.shape[1] for found in read.values())
        names = label_list.names(self.name_file, "label") if self.name_file else None
        if names is not None and len(names) < labels:
            raise UserError(f"'{self.name_file}' names {len(names)} labels; the rows have labels up to {labels - 1}")
        parts = {}
        for called, found in read.items():
            found.features.resize(len(found.positives), width)
            parts[called] = part(called, found.features, found.positives, names, labels=None if names else labels)
        return parts
