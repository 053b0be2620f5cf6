"""What a run keeps beside its logits, so that it can be explained when its data is gone: `evidence.safetensors`.

The labels of validation and test as bits, how often training labels occur and occur together, and for each label the
training items that most likely have it though nobody looked; or, where nothing is unknown, though they are not marked.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.files import replacing
from raretag.core.targets import LabelStatistics, Targets
from raretag.data.dataset import DataSet
from raretag.labels.store import LabelStore
from raretag.runs import manifest

FILE, LOGITS = "evidence.safetensors", "logits.safetensors"
WRITTEN = (
    manifest.CONFIG, "metrics.jsonl", "model.safetensors", "labels.safetensors", LOGITS, "card.json", "cost.json",
    "record.json",
)  # fmt: skip
TOGETHER = 6  # labels kept for each label that occur with it most often
LIKELY = 8  # training items kept for each label that probably lack it by mistake
MOST_ITEMS, MOST_ENTRIES = 20_000, 20_000_000  # of training, looked through for missing labels, evenly spaced


def evidence_of(data: DataSet, statistics: LabelStatistics, rows: Tensor, logits: Tensor) -> dict[str, Tensor]:
    """`logits` of these rows of the training part."""
    found = {"train_positives": statistics.positives, "train_negatives": statistics.negatives}
    if data.truth is not None:
        found["truth_positives"] = data.truth.statistics(cooccurrence=False).positives
    for name in ("validation", "test"):
        found |= packed(name, data.parts[name].labels.targets())
    if statistics.cooccurrence is not None:
        found |= often_together(statistics.cooccurrence)
    found |= likely_missing(logits, rows, data.train.labels, data.truth)
    return {name: tensor.contiguous().cpu() for name, tensor in found.items()}


def write_last(folder: Path, evidence: dict[str, Tensor], content: manifest.Content) -> None:
    """The last file of a run, which is finished by it; the manifest names all of them before it is there."""
    with replacing(folder / FILE) as new:
        save_file(evidence, new)
        found = {**manifest.checksums(folder, WRITTEN), FILE: manifest.sha256(new)}
        manifest.write(folder, content, found)


def read(folder: Path) -> dict[str, Tensor]:
    """Empty for a run of an older version."""
    manifest.refuse_edited(folder, FILE)
    return load_file(folder / FILE) if (folder / FILE).is_file() else {}


def read_logits(folder: Path) -> dict[str, Tensor]:
    """Of "validation" and "test" items, as the run kept them."""
    path = folder / LOGITS
    manifest.refuse_edited(folder, LOGITS)
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"'{path}' with the logits of the run cannot be read: {error}") from None


def packed(name: str, targets: Targets) -> dict[str, Tensor]:
    positive = (targets.positive > 0.5).numpy()
    kept = {f"{name}_positive": _bits(positive), f"{name}_shape": torch.tensor(positive.shape)}
    return kept if targets.observed.all() else kept | {f"{name}_observed": _bits(targets.observed.numpy())}


def unpacked(name: str, evidence: dict[str, Tensor]) -> Targets | None:
    if f"{name}_positive" not in evidence:
        return None
    items, labels = evidence[f"{name}_shape"].tolist()
    value = _unbits(evidence[f"{name}_positive"], items, labels)
    observed = f"{name}_observed"
    return Targets(value.float(), _unbits(evidence[observed], items, labels) if observed in evidence else value | True)


def rows_to_search(labels: LabelStore) -> Tensor:
    """The training items to be looked through for missing labels."""
    most = max(1, min(MOST_ITEMS, MOST_ENTRIES // labels.labels, len(labels)))
    return torch.linspace(0, len(labels) - 1, most, dtype=torch.float64).long()


def likely_missing(logits: Tensor, rows: Tensor, labels: LabelStore, truth: LabelStore | None) -> dict[str, Tensor]:
    """For each label [C, K]: rows with the highest logits where it is unknown (-1: there are no more), best first.

    Where nothing is unknown, as in lists of tags, a missing label looks like a negative: those are looked through.
    `missing_truth` is 1 or 0 where the truth is known, else -1.
    """
    targets = labels.targets(rows)
    searched = targets.unknown if targets.unknown.any() else targets.negative > 0.5
    z = torch.where(searched, logits, -torch.inf)
    order = torch.argsort(z, dim=0, descending=True, stable=True)[:LIKELY]  # [K, C]
    best = z.gather(0, order)
    there = best > -torch.inf
    known = torch.full_like(order, -1)
    if truth is not None:
        true = truth.targets(rows)
        state = torch.where(true.observed, true.positive, -1.0).long()
        known = torch.where(there, state.gather(0, order), -1)
    return {
        "missing_rows": torch.where(there, rows[order], -1).T.int(),
        "missing_logits": torch.where(there, best, 0.0).T.float(),
        "missing_truth": known.T.to(torch.int8),
    }


def often_together(cooccurrence: Tensor) -> dict[str, Tensor]:
    """For each label [C, K]: the labels that occur with it most often, and on how many training items."""
    together = cooccurrence.to_dense() if cooccurrence.is_sparse and len(cooccurrence) <= 4096 else cooccurrence
    if together.is_sparse:
        return {}
    others = together.clone().fill_diagonal_(-1)
    count, label = torch.sort(others, dim=1, descending=True, stable=True)
    return {"together_labels": label[:, :TOGETHER].int(), "together_counts": count[:, :TOGETHER].clamp(min=0).int()}


def _bits(values: NDArray[np.bool_]) -> Tensor:
    return torch.from_numpy(np.packbits(values))


def _unbits(bits: Tensor, items: int, labels: int) -> Tensor:
    return torch.from_numpy(np.unpackbits(bits.numpy(), count=items * labels).astype(np.bool_)).view(items, labels)
