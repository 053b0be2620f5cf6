"""`raretag.load(RUN)`: a trained model that predicts labels of new items."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from raretag.core import registry
from raretag.core.errors import UserError
from raretag.core.protocols import Inputs
from raretag.runs.card import RANKED, Card, format_of, read_card
from raretag.serve.network import Network, load_network, network_of
from raretag.serve.predictions import Predictions
from raretag.serve.readers import Reader, ReadOptions, open_reader, try_inputs

if TYPE_CHECKING:
    from raretag.runs.run import Run
    from raretag.serve.ranking import RankingModel

ENTRIES = 4_000_000  # probabilities that are in memory at once: what bounds it, however long the data
MOST_ROWS = 4096


def load(
    run: str | os.PathLike[str] | Run, *, model: nn.Module | None = None, device: str = "cpu"
) -> Model | RankingModel:
    """The trained model of a run; only card.json and model.safetensors of its folder are needed.

    Args:
        run: A run folder, as `raretag train` leaves it, or a folder with a copy of those two files, or a run as
            `raretag.train` returns it, or a model on the Hugging Face Hub, "hf://OWNER/NAME".
        model: The module, with any weights, if the folder is of a run that was trained with one of your own.
        device: Where predictions are computed, as torch names it: "cpu", "cuda", "cuda:1", "mps".

    A run with very many labels gives a `RankingModel`, which predicts the best labels of an item; its folder must also
    hold labels.safetensors. Raises `UserError` if the card was edited, or if card, weights and model do not belong
    together.
    """
    if not isinstance(run, (str, os.PathLike)):
        if run.model is not None and run.card is not None and run.card.format == RANKED:
            from raretag.serve.ranking import ranking_of

            return ranking_of(run)
        if run.model is not None and isinstance(run.card, Card):  # a copy, so that the run can go on with its own
            return Model(network_of(run.card, copy.deepcopy(run.model)), run.card, device)
        if run.folder is None:
            raise UserError("the run has neither its model nor a folder; expected one that `raretag.train` returned")
        run = run.folder
    if str(run).startswith("hf://"):
        from raretag.serve.hub import fetched

        run = fetched(str(run))
    with registry.installed_only():  # a card may come from a stranger
        if format_of(run) == RANKED:
            from raretag.serve.ranking import load_ranking  # most models score every label

            return load_ranking(Path(run))
        card = read_card(Path(run))
        try:
            network = load_network(Path(run), card, model)
            try_inputs(card)
        except UserError:
            raise
        except Exception as error:  # a forged card fails in as many ways as there are parts of a model
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise UserError(f"the card of '{run}' describes no model that can be built ({reason})") from error
        return Model(network, card, device)


class Model:
    """A trained model with its thresholds and calibration; made by `load`.

    Attributes:
        labels: The names of the labels, in the order of all columns.
        thresholds: [C] float64; a label is chosen if its calibrated probability is above its threshold.
        card: All that is known of the model: how items become inputs, the configuration of its run, counts of training.
        network: The module that maps input tensors to logits.
    """

    def __init__(self, network: Network, card: Card, device: str = "cpu") -> None:
        self.card, self.labels = card, tuple(card.labels)
        try:
            self.network = network.to(device).eval()
        except (RuntimeError, AssertionError) as error:
            raise UserError(f"the device '{device}' cannot be used: {str(error).splitlines()[0]}") from None
        self.device = torch.device(device)
        self.thresholds = torch.tensor(card.thresholds, dtype=torch.float64)  # [C], of calibrated probabilities
        self.scale = torch.tensor(card.calibration.scale, dtype=torch.float64)
        self.shift = torch.tensor(card.calibration.shift, dtype=torch.float64)

    def predict(
        self,
        data: Any = None,
        *,
        part: str | None = None,
        columns: Sequence[str] | None = None,
        folder: Path | str | None = None,
        allow_outside: bool = False,
        bad_items: str = "fail",
        encoder: Path | str | None = None,
        prior: Any = None,
        batch_size: int = 256,
    ) -> Predictions:
        """Probabilities and decisions for all of `data`, in memory.

        Args:
            data: An array or tensor [N, ...], a scipy matrix, a list of texts or of paths of images, a DataFrame
                (pandas, polars or pyarrow), the path of a table, of a folder of images or of an array, or a data set
                by name. A model of feature vectors takes a DataFrame with one column of numbers per feature as well
                as an array, whichever it was trained on. Default: the run's own data.
            part: "train", "validation" or "test", of a data set by name or of a table as training divides it.
                Default: "test" for a data set, all rows of a table.
            columns: Which columns of a table to read, in the order of training, if their names differ from training.
            folder: Where the image paths of a table begin. Default: the folder of the table.
            allow_outside: Image paths of a table may lead out of that folder.
            bad_items: What becomes of unreadable images and blank features: "fail", or "skip" to leave them out.
            encoder: The folder of the sentence encoder, if it has moved since training.
            prior: Scores from outside, if the model was trained with such: a file of item, label, score, or an array
                [N, C] with NaN where there is none.
            batch_size: How many items go through the network at once.
        """
        options = ReadOptions(part, columns, _path(folder), allow_outside, bad_items, _path(encoder))
        reader = open_reader(data, self.card, options)
        found = [block for _, block in self.stream(reader, batch_size=batch_size, prior=prior)]
        return Predictions(
            [name for block in found for name in block.ids],
            self.labels,
            np.concatenate([np.empty((0, len(self.labels)), np.float32), *(b.probabilities for b in found)]),
            np.concatenate([np.empty((0, len(self.labels)), np.bool_), *(b.chosen for b in found)]),
        )

    def stream(
        self, reader: Reader, *, batch_size: int = 256, skip: int = 0, top: int | None = None, prior: Any = None
    ) -> Iterator[tuple[int, Predictions]]:
        """Block by block, with bounded memory: how many items a block covers, and the predictions for them.

        Args:
            reader: The items, as `raretag.serve.readers.open_reader` opens them.
            batch_size: How many items go through the network at once.
            skip: How many items to leave out at the beginning.
            top: For models of very many labels, which compute no others; here all labels are predicted.
            prior: Scores from outside, as in `predict`.
        """
        outside = None if prior is None else self._outside(prior)
        done = skip
        for count, block in reader.blocks(self.block_rows, skip):
            logits = self.logits(block.inputs, batch_size)
            if outside is not None:
                logits = outside(block.ids, range(done, done + count), logits)
            done += count
            yield count, self.decide(block.ids, logits)

    def _outside(self, prior: Any) -> Callable[[Sequence[str], range, Tensor], Tensor]:
        """Adds what scores from outside say of some items, by their ids, or by their rows where it is an array."""
        from raretag.data.prior import Prior  # most models read none
        from raretag.metrics.outside import Outside

        if self.card.outside is None:
            raise UserError("the model does not use scores from outside: it was trained without, or they did not help")
        how = Outside.from_json(self.card.outside)
        if isinstance(prior, (str, os.PathLike, Prior)):
            known = prior if isinstance(prior, Prior) else Prior.read(os.fspath(prior))
            return lambda ids, rows, logits: how.added(logits, known.scores(ids, self.labels))
        values = torch.as_tensor(np.asarray(prior, np.float32))
        if values.ndim != 2 or values.shape[1] != len(self.labels):
            raise UserError(f"prior has shape {tuple(values.shape)}; expected [items, {len(self.labels)} labels]")

        def by_row(ids: Sequence[str], rows: range, logits: Tensor) -> Tensor:
            if rows.stop > len(values):
                raise UserError(f"prior has {len(values)} rows; expected one for each item")
            if len(rows) > len(ids):
                raise UserError("an array of scores does not fit where items are skipped; give a file with their ids")
            return how.added(logits, values[rows.start : rows.stop])

        return by_row

    @property
    def seal(self) -> str:
        """Identifies weights, thresholds and calibration together."""
        return str((self.card.model_extra or {}).get("seal"))

    @property
    def block_rows(self) -> int:
        """How many items are predicted at a time, so that memory stays bounded."""
        return max(1, min(MOST_ROWS, ENTRIES // len(self.labels)))

    def decide(self, ids: Sequence[str], logits: Tensor) -> Predictions:
        """From logits [N, C] to calibrated probabilities and chosen labels."""
        probabilities = self.probabilities(logits)
        chosen = probabilities > self.thresholds
        return Predictions(ids, self.labels, probabilities.float().numpy(), chosen.numpy())

    def answer(self, ids: Sequence[str], inputs: Inputs | Tensor, top: int = 1) -> Predictions:
        """For a few items, as a server is asked for them; all labels are predicted, however many are asked for."""
        return self.decide(ids, self.logits(inputs))

    def label_rows(self, start: int = 0) -> list[dict[str, Any]]:
        """What a server says of the labels from this one on."""
        rows = zip(self.card.labels, self.card.thresholds, self.card.training_positives, strict=True)
        return [{"label": a, "threshold": b, "training_positives": int(n)} for a, b, n in rows][start:]

    def probabilities(self, logits: Tensor) -> Tensor:
        """[N, C] float64, calibrated."""
        return torch.sigmoid(logits.double() * self.scale + self.shift)

    @torch.inference_mode()
    def logits(self, inputs: Inputs | Tensor, batch_size: int = 256) -> Tensor:
        """[N, C] on the CPU, not calibrated; `inputs` are tensors as the network reads them."""
        if batch_size < 1:
            raise UserError(f"batch_size is {batch_size}; expected 1 or more")
        parts = [torch.empty(0, len(self.labels))]
        for rows in torch.split(torch.arange(len(inputs)), batch_size):
            batch = inputs[rows] if isinstance(inputs, Tensor) else inputs.batch(rows)
            try:
                parts.append(self.network(batch.to(self.device)).cpu())
            except RuntimeError as error:
                raise UserError(
                    f"inputs of shape {list(batch.shape[1:])} do not fit the model, which reads "
                    f"{self.card.input_shape} ({str(error).splitlines()[0]})"
                ) from None
        return torch.cat(parts)


Predictor = Model  # its earlier name


def _path(given: Path | str | None) -> Path | None:
    return None if given is None else Path(given).expanduser()
