"""`raretag.load(RUN)`: a trained model that answers for new items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.data.dataset import Inputs
from raretag.engine.card import read_card
from raretag.serve.items import Stream
from raretag.serve.network import Network, load_network
from raretag.serve.opening import Opening, open_items
from raretag.serve.predictions import Predictions

ENTRIES = 4_000_000  # probabilities that are in memory at once: what bounds it, however long the data
MOST_ROWS = 4096


def load(folder: Path | str, *, model: nn.Module | None = None, device: str = "cpu") -> Predictor:
    """The model of a run folder, of which only card.json and model.safetensors are needed.

    `model`: the module, not yet trained, if the run was trained with one of your own.
    """
    card = read_card(folder)
    return Predictor(load_network(Path(folder), card, model), card, device)


class Predictor:
    """Labels, thresholds and calibration come from the card; `network` maps input tensors to logits."""

    def __init__(self, network: Network, card: dict[str, Any], device: str = "cpu") -> None:
        self.card, self.labels = card, tuple(card["labels"])
        try:
            self.network = network.to(device).eval()
        except (RuntimeError, AssertionError) as error:
            raise UserError(f"the device '{device}' cannot be used: {str(error).splitlines()[0]}") from None
        self.device = torch.device(device)
        self.thresholds = torch.tensor(card["thresholds"], dtype=torch.float64)  # [C], of calibrated probabilities
        self.scale = torch.tensor(card["calibration"]["scale"], dtype=torch.float64)
        self.shift = torch.tensor(card["calibration"]["shift"], dtype=torch.float64)

    def predict(
        self,
        data: Any = None,
        *,
        part: str | None = None,
        columns: Sequence[str] | None = None,
        folder: Path | str | None = None,
        bad_items: str = "fail",
        batch_size: int = 256,
    ) -> Predictions:
        """Probabilities and decisions for all of `data`, in memory.

        data        an array or tensor [N, ...], a scipy matrix, a list of texts or of paths of images, a DataFrame,
                    the path of a table, of a folder of images or of an array, a data set by name; None: the run's own
        part        train, validation or test, of a data set by name or of a table as training divides it
        columns     which columns of a table to read, if they are not called as in training
        folder      where the image paths of a table begin
        bad_items   unreadable images and blank features: "fail", or "skip"
        """
        how = Opening(part, columns, None if folder is None else Path(folder), bad_items=bad_items)
        stream, _ = open_items(data, self.card, how)
        found = [answer for _, answer in self.stream(stream, batch_size=batch_size)]
        return Predictions(
            [name for answer in found for name in answer.ids],
            self.labels,
            np.concatenate([np.empty((0, len(self.labels)), np.float32), *(a.probabilities for a in found)]),
            np.concatenate([np.empty((0, len(self.labels)), np.bool_), *(a.chosen for a in found)]),
        )

    def stream(self, items: Stream, *, batch_size: int = 256, skip: int = 0) -> Iterator[tuple[int, Predictions]]:
        """Block by block, with bounded memory: how many items a block stands for, and what the model says of them."""
        for count, block in items.blocks(self.block_rows, skip):
            yield count, self.answer(block.ids, self.logits(block.inputs, batch_size))

    @property
    def block_rows(self) -> int:
        return max(1, min(MOST_ROWS, ENTRIES // len(self.labels)))

    def answer(self, ids: Sequence[str], logits: Tensor) -> Predictions:
        probabilities = self.probabilities(logits)
        chosen = probabilities > self.thresholds
        return Predictions(ids, self.labels, probabilities.float().numpy(), chosen.numpy())

    def probabilities(self, logits: Tensor) -> Tensor:
        """[N, C] float64, calibrated."""
        return torch.sigmoid(logits.double() * self.scale + self.shift)

    @torch.inference_mode()
    def logits(self, inputs: Inputs | Tensor, batch_size: int = 256) -> Tensor:
        """[N, C] on the CPU, not calibrated; `inputs` as the data set of training gives them."""
        if batch_size < 1:
            raise UserError(f"batch_size is {batch_size}; expected 1 or more")
        parts = [torch.empty(0, len(self.labels))]
        for rows in torch.arange(len(inputs)).split(batch_size):
            batch = inputs[rows] if isinstance(inputs, Tensor) else inputs.batch(rows)
            try:
                parts.append(self.network(batch.to(self.device)).cpu())
            except RuntimeError as error:
                raise UserError(
                    f"inputs of shape {list(batch.shape[1:])} do not fit the model, which reads "
                    f"{self.card['input_shape']} ({str(error).splitlines()[0]})"
                ) from None
        return torch.cat(parts)
