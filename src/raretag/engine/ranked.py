"""A run with very many labels: fit, check on held-out items, fit again to all of them, measure, write.

Nothing in it is as large as items x labels. The cut that decides which labels an item gets, and the numbers where there
is no test part, come from a sample of the training items that a first fit does not see; the model that is kept is then
fitted to all items. Where the training items are so many that a second fit would cost more than the sample could teach,
the first fit is kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from raretag.config.settings import Config
from raretag.core import processes
from raretag.core.errors import UserError
from raretag.core.listener import Listener, Part
from raretag.core.protocols import Logger
from raretag.core.ranker import Ranked, Ranker
from raretag.data.dataset import DataSet, Items, sparse_batch
from raretag.data.sources import group_counts
from raretag.engine.prepare import Begun
from raretag.engine.ranked_record import card_of, record_of, write_folder
from raretag.labels.counts import groups
from raretag.labels.split import split
from raretag.metrics.cut import Cut, Sample, checked_halves, decided, fit_cut, micro_f1
from raretag.metrics.top_k import TopK, propensities, states
from raretag.models.ranked import RANKED_ROWS, RankedModel
from raretag.models.scaling import resolve_rule
from raretag.runs import manifest
from raretag.runs.folder import Log, Resume, start_folder
from raretag.runs.ranked_card import LabelTable
from raretag.runs.run import Run

SHARE, MOST = 0.1, 10_000  # of the training items that are held out for the cut, at most so many
TWICE = 2**24  # numbers that the training items store, up to which the model is fitted twice
KEPT = 50  # ranked labels of a held-out item that are looked at
STAGE = "held_out.safetensors"  # what a run that was stopped need not compute again


@dataclass(frozen=True)
class HeldOut:
    """Items of a part that the ranker was not fitted to, and how it ranks their labels."""

    items: Items
    rows: Tensor  # [S] of the training items, or of the validation items where there are such
    ranked: Ranked  # [S, KEPT]
    counts: Tensor  # [C] positives among the items that it was fitted to

    def sample(self) -> Sample:
        return sample_of(self.ranked, self.items, self.counts)


def run_ranked(
    begun: Begun, folder: Path | None, *, resume: Resume, listener: Listener, loggers: Sequence[Logger] = ()
) -> Run:
    """Fit, measure, and write everything into `folder`, if there is one."""
    check(begun)
    data = begun.data
    config, model = with_scale(begun)
    counts = LabelTable.of(data.train.labels).positives
    never = int((counts == 0).sum())
    unseen = [f"{never:,} labels have no training item, so they are never predicted"] if never else []
    for remark in [*data.remarks, *unseen]:
        listener.message(remark)
    if folder is not None and not resume:
        start_folder(folder, config, begun.raw.content)
    started = time.perf_counter()
    held, teaches_again = fit_and_hold_out(config, data, model, folder, listener)
    members = groups(group_counts(data), config.group_edges)
    propensity = propensities(group_counts(data).numpy(), len(data.train), *config.propensity)
    sample = held.sample()
    cut, checked = fit_cut(sample), checked_halves(sample)
    on_sample = TopK.of(held.ranked, held.items.labels.known(), propensity).numbers(members)
    final: dict[str, Any] = {"top": on_sample, "decisions": checked, "measured_on": "held-out sample"}
    if teaches_again:
        listener.message(f"fitted again to all {len(data.train):,} training items")
        model.fit(data.train.inputs, data.train.labels.known(), Part(listener, 0.5, 0.9))
    if len(data.test):
        final = measured(model, data.test, counts, cut, propensity, members)
    else:
        listener.message(
            f"there is no test part: the numbers are those of {len(held.items):,} training items, ranked by a model "
            "that was not fitted to them"
        )
    listener.progress(1.0)
    row = {"epoch": 0, "step": 1, "loss": None, "learning_rate": 0.0, "validation": {"top": on_sample}}
    record = record_of(config, data, begun, model, members, held.rows, final, row, teaches_again)
    evidence = {
        "held_rows": held.rows,
        "held_labels": torch.from_numpy(held.ranked.labels),
        "held_scores": torch.from_numpy(sample.scores),
        "held_positives": torch.from_numpy(sample.positives),
        "held_state": torch.from_numpy(sample.state),
        "held_truth": torch.from_numpy(sample.truth),
    }
    card = card_of(config, data, begun.raw, cut)
    log = Log(folder, config, loggers)
    log.begin([])
    log.epoch(row, time.perf_counter() - started)
    log.end({"top": final.get("top", {})})
    if folder is not None:
        card = write_folder(folder, model, card, record, LabelTable.of(data.train.labels), evidence)
        (folder / STAGE).unlink(missing_ok=True)
    return Run(folder, record, [row], {}, evidence, data, card=card, model=model)


def check(begun: Begun) -> None:
    """What does not go with a ranker is said before anything is fitted."""
    name, config = begun.config.method.name, begun.config
    if processes.count() > 1:
        if processes.rank() > 0:  # the first one says why; when it has gone, waiting for it fails
            with suppress(RuntimeError):
                dist.barrier()
            raise SystemExit(2)
        raise UserError(one_process(name))
    if config.encoder.name not in ("none", "auto"):
        raise UserError(f"{name} reads vectors and texts as they are; leave out encoder.name={config.encoder.name}")
    if len(begun.data.input_shape) != 1:
        raise UserError(
            f"{name} reads feature vectors, but an item has the shape {list(begun.data.input_shape)}; choose a method "
            "that trains a network, such as assume_negative"
        )


def one_process(name: str) -> str:
    return f"{name} is fitted by one process, which uses all threads; leave out --devices and torchrun"


def with_scale(begun: Begun) -> tuple[Config, RankedModel]:
    """The configuration with the rule that brings features to one scale, and a model that has learned nothing yet."""
    config, inputs = begun.config, begun.data.train.inputs
    assert isinstance(begun.learner, Ranker)
    rule = resolve_rule(config.data.prepare, inputs)
    config = config.model_copy(update={"data": config.data.model_copy(update={"prepare": rule})})
    return config, RankedModel(begun.learner, rule, begun.data.input_shape[0])


def fit_and_hold_out(
    config: Config, data: DataSet, model: RankedModel, folder: Path | None, listener: Listener
) -> tuple[HeldOut, bool]:
    """The held-out items as a model ranks them that did not see them, and whether a second fit is due.

    With `train.use_all` off, the validation items are held out, if the data has such, and never teach.
    """
    if data.held_out and not config.train.use_all:
        model.fit(data.train.inputs, data.train.labels.known(), Part(listener, 0.0, 0.9))
        counts = LabelTable.of(data.train.labels).positives
        return HeldOut(data.validation, torch.arange(0), model.rank(data.validation.inputs, KEPT), counts), False
    share = min(SHARE, MOST / len(data.train))
    dealt = split(data.train.labels, [1 - share, share], config.seed).parts
    rest, rows = (data.train.take(torch.from_numpy(dealt[0])), torch.from_numpy(dealt[1]))
    held, counts = data.train.take(rows), LabelTable.of(rest.labels).positives
    again = config.train.use_all and stored_numbers(data.train) <= TWICE
    if not again:
        listener.message(f"{len(rows):,} of the training items are held out to choose the cut")
    ranked = None if folder is None or not again else read_stage(folder, data)
    if ranked is None:
        model.fit(rest.inputs, rest.labels.known(), Part(listener, 0.0, 0.45 if again else 0.9))
        ranked = model.rank(held.inputs, KEPT)
        if folder is not None and again:
            write_stage(folder, data, ranked)
    return HeldOut(held, rows, ranked, counts), again


def stored_numbers(items: Items) -> int:
    """Of features and labels; of features held dense, all."""
    some = torch.linspace(0, len(items) - 1, min(1000, len(items))).long()
    x = sparse_batch(items.inputs, some)
    per_item = items.inputs.batch(some[:1]).numel() if x is None else x.nnz / len(some)
    return int(per_item * len(items)) + len(items.labels.entries.positives.indices)


def sample_of(ranked: Ranked, items: Items, counts: Tensor) -> Sample:
    """What a cut needs to know of ranked labels; `counts` [C] are the positives that the ranker was fitted to."""
    known = items.labels.known()
    of_label = counts.numpy()[np.maximum(ranked.labels, 0)]
    return Sample(ranked.scores, of_label, states(ranked, known), np.diff(known.positive.indptr).astype(np.int64))


def measured(
    model: RankedModel, items: Items, counts: Tensor, cut: Cut, propensity: Any, members: dict[str, Tensor]
) -> dict[str, Any]:
    """The numbers of items that had no part in the model, block by block."""
    total: TopK | None = None
    decisions = []
    for rows in torch.arange(len(items)).split(RANKED_ROWS):
        block = items.take(rows)
        ranked = model.rank(block.inputs, KEPT)
        found = TopK.of(ranked, block.labels.known(), propensity)
        total = found if total is None else total + found
        decisions.append(decided(cut, sample_of(ranked, block, counts)))
    assert total is not None
    return {"top": total.numbers(members), "decisions": micro_f1(*decisions)}


def write_stage(folder: Path, data: DataSet, ranked: Ranked) -> None:
    tensors = {"labels": torch.from_numpy(ranked.labels), "scores": torch.from_numpy(ranked.scores)}
    with manifest.rewriting(folder / STAGE) as new:
        save_file(tensors, new, metadata={"labels": data.train.labels.fingerprint()})


def read_stage(folder: Path, data: DataSet) -> Ranked | None:
    """What a stopped run has ranked already, if it was of the same labels and is as it was written."""
    if manifest.edited(folder, [STAGE]):
        return None
    try:
        with safe_open(folder / STAGE, "numpy") as file:
            if (file.metadata() or {}).get("labels") != data.train.labels.fingerprint():
                return None
            return Ranked(file.get_tensor("labels"), file.get_tensor("scores"))
    except (OSError, SafetensorError):
        return None
