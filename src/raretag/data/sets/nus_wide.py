"""NUS-WIDE: Flickr photographs with up to 81 concepts.

Label lists of https://github.com/xinyu1205/robust-loss-mlml: `nus-wide/nus_{train,val}_full.txt[.gz]` (119,103 +
50,720 images); images of https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html in
`nus-wide/images/`.

`annotations: singlelabel` uses the list with one positive for each training image; all else is unknown then. The
lists number the concepts and do not say what a number means (it is not the alphabetical order), so labels are called
"0" to "80" unless `nus-wide/concepts.txt` names them, one a line. A share of the training images is held out for
validation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from raretag.data.dataset import Inputs
from raretag.data.files import inside, read_label_list, read_names, wrong
from raretag.data.sets.named import NamedSet, Place, Splits, partial
from raretag.labels.store import LabelStore

FILES = (
    "nus-wide/nus_train_full.txt.gz|nus-wide/nus_train_full.txt",
    "nus-wide/nus_val_full.txt.gz|nus-wide/nus_val_full.txt|nus-wide/nus_val.txt",
)
LABELS = 81


class NusWide(NamedSet):
    name = "nus_wide"

    def __init__(
        self,
        *,
        annotations: Literal["full", "singlelabel"] = "full",
        size: int = 224,
        validation: float = 0.1,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        self.annotations, self.size, self.validation, self.seed = annotations, size, validation, seed
        self.place = Place("nus_wide", __doc__, root)

    def splits(self) -> Splits:
        whole = Splits.held_out(self._list(FILES[0]), self._list(FILES[1]), self.validation, self.seed)
        if self.annotations == "full":
            return whole
        left = self._list("nus-wide/nus_train_singlelabel.txt.gz|nus-wide/nus_train_singlelabel.txt")
        return partial(whole, left, self.annotations)

    def _list(self, names: str) -> LabelStore:
        files, rows = read_label_list(self.place.file(names), LABELS)
        return LabelStore.from_lists(rows, names=self._concepts(), ids=files, labels=LABELS)

    def _concepts(self) -> list[str] | None:
        path = self.place.find("nus-wide/concepts.txt")
        if path is None:
            return None
        concepts = read_names(path, "concept")
        if len(concepts) != LABELS:
            raise wrong(path, f"names {len(concepts)} concepts; expected {LABELS}")
        return concepts

    def inputs(self, store: LabelStore, part: str) -> Inputs:
        folder = self.place.file("nus-wide") / "images"
        source = self.place.file(FILES[0])
        paths = inside(folder, list(map(str, store.ids)), lambda row: f"'{source}'", published=True)
        return self.place.images(list(map(Path, paths)), self.size, self.seed)
