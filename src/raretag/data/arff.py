"""Your own multi-label ARFF files, of MULAN or MEKA, dense or sparse.

Give `train` and, if there is one, `test`; for MULAN also `labels`, its XML file. MEKA files say by `-C n` which
attributes are labels.

A label `?` is unknown. Without a test file a stratified part of the items is held out for it.
"""

from __future__ import annotations

from pathlib import Path

from raretag.core.errors import UserError
from raretag.data.building.feature_rows import FeatureRows, Part
from raretag.data.building.mulan import arff_part

FILES = ()


class Arff(FeatureRows):
    name = "arff"

    def __init__(self, *, train: str, test: str = "", labels: str = "", validation: float = 0.1, seed: int = 0) -> None:
        self.paths = {"train": Path(train)} | ({"test": Path(test)} if test else {})
        self.label_file = Path(labels) if labels else None
        self.validation, self.seed = validation, seed

    def parts(self) -> dict[str, Part]:
        found = {called: arff_part(called, path, self.label_file) for called, path in self.paths.items()}
        if len({one.labels.names for one in found.values()}) > 1:
            raise UserError("the ARFF files for train and test do not have the same labels; are they of one set?")
        return found
