"""Which column is what: given by the user, or guessed from names and first rows, with a remark."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from raretag.core.errors import UserError, counted, some
from raretag.core.registry import nearest
from raretag.data.table.cells import (
    BLANK,
    BLANKS,
    WRONG,
    Cells,
    guess_delimiter,
    is_list,
    is_list_of_numbers,
    is_numeric,
    is_text,
    numbers,
    quoted,
    states,
    texts,
)
from raretag.data.table.formats import Head

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
FEATURE_FILES = (".npy", ".npz", ".safetensors")
LABELS = ("labels", "label", "tags", "tag", "classes", "categories", "genres", "topics", "emotions", "targets",
          "target", "class", "category", "y")  # fmt: skip
NEGATIVES = ("negatives", "negative_labels", "negative", "not_labels", "absent_labels")
SPLITS = ("split", "subset", "partition", "set", "fold")
IDS = ("id", "item_id", "image_id", "item", "uid", "uuid", "guid", "key")
TEXTS = ("text", "sentence", "comment", "comment_text", "document", "content", "body", "abstract", "description",
         "review", "message", "tweet", "question", "caption", "title")  # fmt: skip
_CLASS = re.compile(r"(labels?|tags?|class|targets?|y)[_.:]", re.IGNORECASE)
_LONG = 15  # characters; a column of texts is longer on average
_DIFFERENT = 200  # values that a column of categories may have in the first rows
_ID_NAME = re.compile(r"(^|_| )(id|ids|idx|index|row|uid|uuid|guid|key|nr|no|number)$|^unnamed: \d+$", re.IGNORECASE)
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?")


@dataclass(frozen=True)
class Given:
    """What the user says; None: guess, '': there is none."""

    images: str | None = None
    text: str | None = None
    features: str | list[str] | None = None
    labels: str | list[str] | None = None
    negatives: str | None = None
    split: str | None = None
    id: str | None = None
    delimiter: str | None = None
    mixed: bool = True


@dataclass
class Roles:
    """The column of each role, and remarks on what was guessed."""

    images: str | None = None
    text: str | None = None
    features: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    feature_file: str | None = None
    labels: str | None = None  # one column of lists
    classes: list[str] = field(default_factory=list)  # or one column per class
    negatives: str | None = None
    split: str | None = None
    id: str | None = None
    cells: Cells = field(default_factory=lambda: Cells(";"))
    labels_remark: str = ""  # which waits for the number of labels
    remarks: list[str] = field(default_factory=list)

    def columns(self) -> list[str]:
        single = (self.images, self.text, self.labels, self.negatives, self.split, self.id)
        return list(dict.fromkeys([name for name in single if name] + self.features + self.categories + self.classes))


def find_roles(file: Path, names: Sequence[str], head: Head, given: Given) -> Roles:
    """The roles of the columns of a file, from what is given and from its first rows."""
    return _Finder(file, names, head, given).run()


class _Finder:
    def __init__(self, file: Path, names: Sequence[str], head: Head, given: Given) -> None:
        self.file, self.names, self.given = file, names, given
        self.head, self.unusable = head.columns, head.unusable
        self.roles = Roles()

    def run(self) -> Roles:
        """Given roles first, so that no guess takes their columns; then the surest guesses."""
        roles, given = self.roles, self.given
        for role in ("images", "text", "negatives", "split", "id"):
            setattr(roles, role, self._column(role, getattr(given, role)))
        if isinstance(given.features, str) and given.features.lower().endswith(FEATURE_FILES):
            roles.feature_file = given.features
        elif given.features:
            named = self._matching("features", given.features)
            roles.categories = [name for name in named if given.mixed and self._is_category(name)]
            roles.features = [name for name in named if name not in roles.categories]
        if given.labels:
            self._take_labels(given.labels)
        roles.split = roles.split or self._guess("split", SPLITS, self._is_split)
        roles.negatives = roles.negatives or self._guess("negatives", NEGATIVES, lambda name: True)
        roles.id = roles.id or self._guess("id", IDS, lambda name: not is_list(self.head[name]))
        inputs = bool(roles.images or roles.text or roles.features or roles.categories or roles.feature_file)
        if not inputs:
            self._guess_images()
        if not (roles.labels or roles.classes):
            self._guess_labels()
        if not (inputs or roles.images):
            self._guess_text()
        if not (inputs or roles.images or roles.text):
            self._guess_features()
        self._read_labels()
        self._remark_unused()
        return roles

    def _remark_unused(self) -> None:
        unused = [name for name in self.names if name not in self.roles.columns()]
        if not unused:
            return
        why = {name: self._unfit(name) for name in unused if self.given.mixed and name in self.head}
        self._remark(
            f"not used: {some([f'{name!r}' + (f' ({why[name]})' if why.get(name) else '') for name in unused], 8)}"
        )
        image_alone = bool(self.roles.images and not self.roles.text)
        read = [name for name in why if image_alone and is_text(self.head[name]) and self._reads_like_text(name)]
        if read:
            self._remark(f"data.text={read[0]} would put the vector of that text beside the image")
        fit = [name for name in why if not why[name] and name not in read]
        if fit and (self.roles.text or self.roles.images):
            what = "text" if self.roles.text else "image"
            self._remark(f"data.features=[{','.join(fit[:8])}] would put those columns beside the {what}")

    def _unfit(self, name: str) -> str:
        """Why a column is no feature, in a few words; '' if it could be one."""
        column = self.head[name]
        if is_list(column):
            return "" if is_list_of_numbers(column) else "lists"
        if is_numeric(column):
            return "like an id" if self._is_counter(name) else ""
        cells = [cell.strip() for cell in texts(column).to_pylist()]
        cells = [cell for cell in cells if cell.lower() not in BLANKS]
        different = len(set(cells))
        if not cells:
            return "blank"
        if sum(_DATE.fullmatch(cell) is not None for cell in cells) >= 0.95 * len(cells):
            return "dates"
        wrong = [cell for cell in cells if not _is_number(cell)]
        if len(wrong) <= 0.2 * len(cells):
            return f"numbers, but also {wrong[0][:20]!r}"
        if different == len(cells):
            return "a different text in every row"
        return f"{different:,} different texts" if different > min(_DIFFERENT, 1 + len(cells) // 2) else ""

    def _is_counter(self, name: str) -> bool:
        """Whole numbers, each once: the number of the row, or called an id."""
        found = numbers(self.head[name])
        if len(found) < 10 or not (found == np.round(found)).all() or len(np.unique(found)) < len(found):
            return False  # blanks and fractions are no ids
        counts = len(found) >= 50 and found[0] in (0, 1) and bool((np.diff(found) == 1).all())
        return counts or bool(_ID_NAME.search(name))

    def _is_category(self, name: str) -> bool:
        """Of the columns that the user calls features: those that are not numbers but for a few cells."""
        column = self.head.get(name)
        if column is None or is_list(column) or is_numeric(column):
            return False
        cells = [cell.strip() for cell in texts(column).to_pylist()]
        cells = [cell for cell in cells if cell.lower() not in BLANKS]
        return sum(map(_is_number, cells)) < 0.8 * len(cells)

    def _remark(self, line: str) -> None:
        self.roles.remarks.append(line)

    def _free(self, name: str) -> bool:
        return name in self.head and name not in self.roles.columns()

    def _column(self, role: str, name: str | None) -> str | None:
        if not name:
            return None
        if name not in self.names:
            raise UserError(f"{self.file.name} has no column '{name}' (data.{role}); {nearest(name, self.names)}")
        if name in self.unusable:
            raise UserError(self.unusable[name])
        return name

    def _matching(self, role: str, patterns: str | list[str]) -> list[str]:
        found: list[str] = []
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            if not isinstance(pattern, str):
                raise UserError(f"data.{role} holds {pattern!r}; expected names of columns")
            matches = [pattern] if pattern in self.names else fnmatch.filter(self.names, pattern)
            for name in matches or [pattern]:
                self._column(role, name)
                found.append(name)
        return list(dict.fromkeys(found))

    def _guess(self, role: str, likely: Sequence[str], fits: Callable[[str], bool]) -> str | None:
        if getattr(self.given, role) is not None:
            return None
        for wanted in likely:
            for name in self.names:
                if name.lower() == wanted and self._free(name) and fits(name):
                    self._remark(f"{role}: column '{name}'")
                    return name
        return None

    def _is_split(self, name: str) -> bool:
        """A column called 'split' is one, whatever it holds; others must also look like one."""
        from raretag.data.dataset import PART_OF  # `predict` reads roles, and no parts

        column = self.head[name]
        return name.lower() == "split" or (
            is_text(column) and all(word.strip().lower() in PART_OF for word in set(texts(column).to_pylist()))
        )

    def _guess_images(self) -> None:
        if self.given.images is not None:
            return
        for name in self.names:
            if self._free(name) and is_text(self.head[name]):
                cells = [cell for cell in self.head[name].to_pylist() if cell]
                if cells and all(cell.strip().lower().endswith(IMAGE_ENDINGS) for cell in cells):
                    self.roles.images = name
                    self._remark(f"images: column '{name}'")
                    return

    def _guess_text(self) -> None:
        if self.given.text is not None:
            return
        found = self._guess("text", TEXTS, lambda name: is_text(self.head[name]))
        if found is None:
            lengths = {
                name: float(np.mean([len(cell or "") for cell in self.head[name].to_pylist()]))
                for name in self.names
                if self._free(name) and is_text(self.head[name]) and not is_numeric(self.head[name])
            }
            if self.given.mixed and any(self._free(name) and is_numeric(self.head[name]) for name in self.names):
                lengths = {name: size for name, size in lengths.items() if self._reads_like_text(name)}
            long = max(lengths, key=lambda name: lengths[name], default=None)
            if long is not None and lengths[long] >= _LONG:
                found = long
                self._remark(f"text: column '{long}', the longest texts")
        self.roles.text = found

    def _guess_features(self) -> None:
        if self.given.features is not None:
            return
        lists = [name for name in self.names if self._free(name) and is_list_of_numbers(self.head[name])]
        columns = [name for name in self.names if self._free(name) and is_numeric(self.head[name])]
        if self.given.mixed and not lists:
            columns = [name for name in columns if not self._unfit(name)] or columns
            others = [name for name in self.names if self._free(name) and name not in columns]
            self.roles.categories = [n for n in others if not is_numeric(self.head[n]) and not self._unfit(n)]
        self.roles.features = lists[:1] or columns
        if not (self.roles.features or self.roles.categories):
            raise UserError(
                f"{self.file.name}: no inputs found among the columns {quoted(self.names)}; name a column of image "
                "paths (data.images), of texts (data.text), or numeric columns or a file (data.features)"
            )
        if self.roles.features:
            self._remark(
                f"features: {counted(len(self.roles.features), 'numeric column')}, {quoted(self.roles.features, 4)}"
            )
        if self.roles.categories:
            self._remark(
                f"categories: {counted(len(self.roles.categories), 'column')}, {quoted(self.roles.categories, 4)}"
            )

    def _reads_like_text(self, name: str) -> bool:
        """Beside numbers: a column of texts has hardly two the same, and is neither a date nor a code per row."""
        cells = [cell for cell in texts(self.head[name]).to_pylist() if cell.strip()]
        spaced = sum(" " in cell.strip() or not cell.isascii() for cell in cells)  # some languages have no spaces
        return 2 * len(set(cells)) > len(cells) and 2 * spaced > len(cells) and self._unfit(name) != "dates"

    def _may_list(self, name: str) -> bool:
        """Labels are names or whole numbers; a column 'y' of 0.73 is a measurement."""
        if not self._free(name) or is_list(self.head[name]) or not is_numeric(self.head[name]):
            return self._free(name)
        found = numbers(self.head[name])
        return bool((np.isnan(found) | (found == np.round(found))).all())

    def _is_class(self, name: str, share: float = 1.0) -> bool:
        """Whether so large a share of its cells are yes, no or unknown."""
        found = states(self.head[name])
        return bool((found != WRONG).mean() >= share and (found > BLANK).any())

    def _guess_labels(self) -> None:
        likely = [name for wanted in LABELS for name in self.names if name.lower() == wanted and self._may_list(name)]
        lists = [
            n for n in self.names if self._free(n) and is_list(self.head[n]) and not is_list_of_numbers(self.head[n])
        ]
        classes = [name for name in self.names if self._free(name) and self._is_class(name)]
        # Called a label, and but for a few cells it is one: those are refused with their lines when the file is read.
        marked = [name for name in self.names if self._free(name) and _CLASS.match(name) and self._is_class(name, 0.5)]
        if likely or len(lists) == 1:
            self._take_labels((likely or lists)[0])
        elif marked or classes:
            self.roles.classes = marked or classes
        elif damaged := [name for name in self.unusable if name.lower() in LABELS]:
            raise UserError(self.unusable[damaged[0]])
        else:
            raise UserError(
                f"{self.file.name}: no label column found among {quoted(self.names)}; name it with data.labels=COLUMN, "
                "or the columns of 0 and 1 with data.labels=[A,B]; without a header line give data.columns=[...]"
            )

    def _take_labels(self, labels: str | list[str]) -> None:
        found = self._matching("labels", labels)
        if isinstance(labels, str) and found == [labels] and not self._is_class(labels):
            self.roles.labels = labels
        else:
            self.roles.classes = found

    def _read_labels(self) -> None:
        roles, delimiter = self.roles, self.given.delimiter
        if roles.labels is None:
            roles.labels_remark = f"labels: one column per label, {quoted(roles.classes, 4)}"
            return
        column = self.head[roles.labels]
        if delimiter is None and is_text(column):
            both = [self.head[name] for name in (roles.labels, roles.negatives) if name in self.head]
            delimiter = guess_delimiter([cell or "" for one in both if is_text(one) for cell in one.to_pylist()])
        roles.cells = Cells(";" if delimiter is None else delimiter)
        how = roles.cells.described() if is_text(column) else "a list" if is_list(column) else "one number"
        roles.labels_remark = f"labels: column '{roles.labels}', {how}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
