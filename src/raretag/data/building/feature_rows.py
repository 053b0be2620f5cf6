"""Data sets whose items are rows of features in a training file and a test file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from raretag.core.errors import UserError
from raretag.data.building.splits import NamedSet, Splits
from raretag.data.inputs.features import Features
from raretag.labels.collection import Inputs
from raretag.labels.split import split
from raretag.labels.store import LabelStore


@dataclass(frozen=True)
class Part:
    features: Any  # [N, D], an array or a csr_array
    labels: LabelStore  # its ids are `part/row`, which is how inputs are found again


def part(
    called: str, features: Any, positives: Sequence[Sequence[int]], names: Sequence[str] | None, **more: Any
) -> Part:
    """`more`: what `LabelStore.from_lists` may be told beside names."""
    ids = [f"{called}/{row}" for row in range(len(positives))]
    return Part(features, LabelStore.from_lists(list(positives), names=names, ids=ids, **more))


class FeatureRows(NamedSet):
    validation: float
    seed: int

    def parts(self) -> dict[str, Part]:
        """ "train" and, if there is one, "test"."""
        raise NotImplementedError

    def read(self) -> dict[str, Part]:
        """The parts; read once, as labels and inputs come from the same files."""
        if not hasattr(self, "_parts"):
            self._parts = self.parts()
            widths = {name: found.features.shape[1] for name, found in self._parts.items()}
            if len(set(widths.values())) > 1:
                raise UserError(
                    f"{self.name}: the parts have different numbers of features ({widths}); are they of one set?"
                )
        return self._parts

    def splits(self) -> Splits:
        parts = self.read()
        train = parts["train"].labels
        if "test" in parts:
            return Splits.held_out(train, parts["test"].labels, self.validation, self.seed)
        rest, tested = split(train, [0.8, 0.2], self.seed).parts
        splits = Splits.held_out(train.take(rest), train.take(tested), self.validation, self.seed)
        return splits.remarked("test: a stratified 20 % of the items, as no test file is given")

    def inputs(self, store: LabelStore, part: str) -> Inputs:
        called = str(store.ids[0]).partition("/")[0]  # validation items come from the training file
        rows = [int(str(item).partition("/")[2]) for item in store.ids]
        return Features(self.read()[called].features[rows])
