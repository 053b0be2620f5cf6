"""A model for very many labels at work: it gives the best labels of an item, each with a probability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from scipy.special import expit
from torch import Tensor

from raretag.core import registry
from raretag.core.errors import UserError
from raretag.core.protocols import Inputs
from raretag.core.ranker import Ranker
from raretag.data.dataset import TensorInputs
from raretag.models.ranked import RankedModel
from raretag.runs.card import check_weights
from raretag.runs.ranked_card import LabelTable, RankedCard, named, read_labels, read_ranked_card
from raretag.serve.readers import Reader, ReadOptions, open_reader

if TYPE_CHECKING:
    from raretag.runs.run import Run

RANKED = 50  # labels of an item that are looked at, unless more are asked for
SHOWN = 10  # of them in a table, unless the user says how many
MOST_SERVED = 1000  # labels in one answer of a server
BLOCK = 2048  # items at a time: what bounds the memory, however long the data


@dataclass(frozen=True)
class RankedPredictions:
    """What `RankingModel.predict` returns: the best labels of each item, best first.

    >>> found = RankedPredictions(["a"], [["sea", "boat"]], np.array([[0.9, 0.25]]), np.array([[True, False]]))
    >>> found.chosen_labels(), found.top(2)
    ([['sea']], [[('sea', 0.9), ('boat', 0.25)]])
    >>> found.table(top=1).column_names
    ['id', 'labels', 'top_labels', 'top_probabilities']
    """

    ids: Sequence[str]
    best: Sequence[Sequence[str]]  # N lists of up to k label names
    probabilities: NDArray[np.float32]  # [N, k], calibrated; 0 beyond the end of a list
    chosen: NDArray[np.bool_]  # [N, k], probability > the threshold

    def __len__(self) -> int:
        return len(self.ids)

    def chosen_labels(self) -> list[list[str]]:
        """The labels that each item is predicted to have, the most probable first."""
        return [[name for name, _ in row] for row in self.chosen_pairs()]

    def chosen_pairs(self) -> list[list[tuple[str, float]]]:
        """The same with their probabilities."""
        rows = zip(self.best, self.probabilities.tolist(), self.chosen.tolist(), strict=True)
        return [[(name, p) for name, p, there in zip(*row, strict=False) if there] for row in rows]

    def top(self, k: int) -> list[list[tuple[str, float]]]:
        """The `k` most probable labels of each item with their probabilities, chosen or not."""
        if not k >= 1:
            raise UserError(f"top is {k}; expected 1 or more labels")
        return [
            [(name, float(value)) for name, value in zip(names[:k], row, strict=False)]
            for names, row in zip(self.best, self.probabilities, strict=True)
        ]

    def table(self, top: int | None = None) -> pa.Table:
        """Columns `id` and `labels`, and the k best with their probabilities as two columns of lists."""
        best = self.top(SHOWN if top is None else top)
        return pa.table(
            {
                "id": pa.array([str(name) for name in self.ids], pa.string()),
                "labels": pa.array(self.chosen_labels(), pa.list_(pa.string())),
                "top_labels": pa.array([[name for name, _ in row] for row in best], pa.list_(pa.string())),
                "top_probabilities": pa.array([[value for _, value in row] for row in best], pa.list_(pa.float32())),
            }
        )


class RankingModel:
    """A trained model for very many labels with its cut; made by `load`.

    Attributes:
        labels: The names of the labels.
        positives: [C] training positives of each label.
        threshold: A label is chosen if its calibrated probability is above it.
        card: All that is known of the model: how items become inputs, the configuration of its run.
    """

    def __init__(self, model: RankedModel, card: RankedCard, table: LabelTable) -> None:
        self.model, self.card, self.labels = model, card, table.names
        self.threshold = card.decision.threshold
        self.positives = table.positives.numpy()  # [C], of training

    def predict(
        self,
        data: Any = None,
        *,
        top: int = SHOWN,
        part: str | None = None,
        columns: Sequence[str] | None = None,
        bad_items: str = "fail",
        encoder: Path | str | None = None,
    ) -> RankedPredictions:
        """The best labels of all of `data`.

        Args:
            data: As `Model.predict` takes it; a scipy matrix stays sparse.
            top: How many labels of an item to give at least.
            part, columns, bad_items, encoder: As in `Model.predict`.
        """
        options = ReadOptions(part, columns, None, False, bad_items, None if encoder is None else Path(encoder))
        reader = open_reader(data, self.card, options)
        found = [block for _, block in self.stream(reader, top=top)]
        width = max(RANKED, top)
        return RankedPredictions(
            [name for block in found for name in block.ids],
            [names for block in found for names in block.best],
            np.concatenate([np.empty((0, width), np.float32), *(block.probabilities for block in found)]),
            np.concatenate([np.empty((0, width), np.bool_), *(block.chosen for block in found)]),
        )

    def stream(
        self, reader: Reader, *, batch_size: int = BLOCK, skip: int = 0, top: int | None = None
    ) -> Iterator[tuple[int, RankedPredictions]]:
        """Block by block, with bounded memory: how many items a block covers, and the predictions for them."""
        width = max(RANKED, top or 0)
        for count, block in reader.blocks(max(batch_size, BLOCK), skip):
            yield count, self.decide(block.ids, as_inputs(block.inputs), width)

    def decide(self, ids: Sequence[str], inputs: Inputs, top: int) -> RankedPredictions:
        """The best labels of some items."""
        ranked, how = self.model.rank(inputs, top), self.card.decision
        there, frequent = ranked.labels >= 0, np.log1p(self.positives[np.maximum(ranked.labels, 0)])
        z = how.scale * np.where(there, ranked.scores, 0.0) + how.rarity * frequent
        p = np.where(there, expit(z + how.shift), 0.0).astype(np.float32)
        order = np.argsort(-p, axis=1, kind="stable")  # how frequent a label is may change the order
        labels, p = np.take_along_axis(ranked.labels, order, 1), np.take_along_axis(p, order, 1)
        return RankedPredictions(ids, named(self.labels, labels), p, p > self.threshold)

    def answer(self, ids: Sequence[str], inputs: Inputs | Tensor, top: int = 1) -> RankedPredictions:
        """For a few items, as a server is asked for them."""
        if not 1 <= top <= MOST_SERVED:
            raise UserError(f"top is {top}; expected 1 to {MOST_SERVED:,} labels of this model")
        return self.decide(ids, as_inputs(inputs), max(RANKED, top))

    def label_rows(self, start: int = 0) -> list[dict[str, Any]]:
        """What a server says of the labels from this one on, up to a thousand of them."""
        some = range(start, min(start + MOST_SERVED, len(self.labels)))
        return [
            {"label": self.labels[n], "threshold": self.threshold, "training_positives": int(self.positives[n])}
            for n in some
        ]

    @property
    def seal(self) -> str:
        """Identifies weights, labels and cut together."""
        return str((self.card.model_extra or {}).get("seal"))


def as_inputs(given: Inputs | Tensor) -> Inputs:
    return TensorInputs(given) if isinstance(given, Tensor) else given


def ranking_of(run: Run) -> RankingModel:
    """Of a run that is still in memory."""
    assert isinstance(run.card, RankedCard)
    assert run.data is not None
    return RankingModel(run.model, run.card, LabelTable.of(run.data.train.labels))


def load_ranking(folder: Path) -> RankingModel:
    """From card.json, labels.safetensors and model.safetensors."""
    card = read_ranked_card(folder)
    weights, config = check_weights(folder, card), card.settings
    name = config.method.name
    if ":" in name:  # a card may come from a stranger, so a class from outside is not imported
        raise UserError(f"the model was made by '{name}', which is not part of raretag, so it cannot be loaded by name")
    ranker: Ranker = registry.build(
        "ranking", name, config.method.options, kind=Ranker, seed=config.seed, effort=config.effort
    )
    model = RankedModel(ranker, config.data.prepare, card.input_shape[0])
    try:
        model.restore(load_file(weights))
    except (SafetensorError, KeyError, RuntimeError, ValueError) as error:
        raise UserError(f"'{weights}' does not fit the model of its card: {error}") from None
    return RankingModel(model, card, read_labels(folder, card))
