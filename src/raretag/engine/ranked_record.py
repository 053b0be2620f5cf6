"""What a run with very many labels leaves behind: the same record and card, with counts where others list labels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from raretag.config.settings import Config
from raretag.core.files import replacing
from raretag.data.dataset import DataSet
from raretag.data.sources import counted_on
from raretag.engine.prepare import Begun
from raretag.metrics.cut import Cut
from raretag.models.ranked import RankedModel
from raretag.runs import evidence
from raretag.runs.card import WEIGHTS, RawInputs
from raretag.runs.manifest import sha256
from raretag.runs.ranked_card import LABELS, Decision, LabelTable, RankedCard
from raretag.runs.record import Record, beginning


def record_of(
    config: Config,
    data: DataSet,
    begun: Begun,
    model: RankedModel,
    members: dict[str, Tensor],
    held: Tensor,
    final: dict[str, Any],
    row: dict[str, Any],
    taught_again: bool,
) -> Record:
    """All that is known of the run."""
    labels = data.train.labels
    sample = {"from": "held-out sample", "items": len(held)}
    if not len(held):
        sample = {"from": "validation items", "items": len(data.validation)}
    kept = len(data.train) if taught_again or not len(held) else len(data.train) - len(held)
    return Record.from_json(
        {
            **beginning(
                config,
                data,
                torch.get_num_threads(),
                label_count=labels.labels,
                absent=labels.absent,
                content=begun.raw.content,
            ),
            "groups": {
                "edges": list(config.group_edges),
                "counted_on": counted_on(data),
                "sizes": {name: len(some) for name, some in members.items()},
            },
            "method": {"name": config.method.name, "ranks": True, "learned": model.ranker.learned()},
            "fitted_on": {
                "model": {"parts": ["train"], "items": kept},
                "thresholds": sample,
                "metrics": sample if "measured_on" in final else {"from": "test items", "items": len(data.test)},
            },
            "metrics": {"validation_from": sample["from"], "epochs": [row], "final": final},
        }
    )


def card_of(config: Config, data: DataSet, raw: RawInputs, cut: Cut) -> RankedCard:
    """Without the hashes of files, which `write_folder` fills in."""
    return RankedCard(
        labels=data.train.labels.labels,
        label_file={"file": LABELS, "sha256": ""},
        decision=Decision(**asdict(cut)),
        tuned={"goal": "f1"},
        training_items=len(data.train),
        group_edges=list(config.group_edges),
        inputs=raw.description,
        columns=raw.columns,
        input_shape=list(raw.shape),
        weights={"file": WEIGHTS, "sha256": ""},
        config=config.model_dump(mode="json"),
    )


def write_folder(
    folder: Path,
    model: RankedModel,
    card: RankedCard,
    record: Record,
    labels: LabelTable,
    kept: dict[str, Tensor],
) -> RankedCard:
    """The evidence comes last: a folder that has it is finished. Returns the card as it was written."""
    with replacing(folder / WEIGHTS) as new:
        save_file({name: tensor.contiguous() for name, tensor in model.state().items()}, new)
    hashes = {
        "weights": {"file": WEIGHTS, "sha256": sha256(folder / WEIGHTS)},
        "label_file": {"file": LABELS, "sha256": labels.write(folder)},
    }
    card = card.model_copy(update=hashes)
    card.write(folder)
    record.write(folder)
    evidence.write_last(folder, {name: tensor.contiguous() for name, tensor in kept.items()}, record.data.content)
    return card
