r"""What labels are called, as evidence (`data.label_texts`): a label's text is read as an item would be.

Paper and code::

    u_c    the vector of label c's text, by the vocabulary, encoder and scaling of the items
    s_ic = x_i . u_c                       similarity of an item and a label
    e_ic = b_c (s_ic - m_c) / d_c          evidence, on the scale of logits (metrics/outside.py)
    z' = z + g_c e,    W'_c = W_c + g_c b_c / d_c u_c

So the vector of a label is what its text says, plus what was learned; how much the text says falls with the number of
positives that the label was learned from, if held-out folds say so. All of it is linear in x: the model is the same as
before, with other weights. A label that training never saw has the mean slope of the others, and gets scores.

It needs texts as items and a head that is linear in their vectors: that of `blend` or `logistic_regression`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from raretag.core import processes
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.data.inputs.described import maker_of
from raretag.data.inputs.text import SIDE_BY_SIDE
from raretag.data.inputs.with_tokens import encoded_texts
from raretag.data.table.formats import open_source
from raretag.engine.batches import features_of, placed
from raretag.engine.prepare import Prepared
from raretag.metrics.outside import Outside, weighed

NAMES = "names"  # data.label_texts: the labels' own names
LINEAR = ("linear", "blended")  # heads with a linear part, `classify`
MOST = 4.0  # of `weighed`: similarities are weak, and alike for training and other items


def texts_of(setting: str, names: tuple[str, ...]) -> dict[str, str]:
    """The text of each label that has one: from a file of label, text, or its name."""
    if setting == NAMES:
        return {name: name.replace("_", " ") for name in names}
    source = open_source(Path(setting).expanduser())
    missing = [name for name in ("label", "text") if name not in source.columns]
    if missing:
        raise UserError(
            f"{source.path.name} has the columns {', '.join(source.columns[:8])}; expected label and text "
            f"(no '{missing[0]}' among them), or data.label_texts=names"
        )
    found: dict[str, str] = {}
    for batch in source.batches(("label", "text")):
        pairs = zip(batch.column("label").to_pylist(), batch.column("text").to_pylist(), strict=True)
        found |= {str(label): str(text) for label, text in pairs if text}
    if not found.keys() & set(names):
        raise UserError(
            f"{source.path.name} has no text for a label of the data: its labels are such as '{next(iter(found), '')}'"
            f", those of the data such as '{names[0]}'"
        )
    return found


def listen(prepared: Prepared, listener: Listener) -> None:
    """Move the weights of a fitted head towards the vectors of its labels' texts, as far as held-out items say."""
    setting, labels = prepared.config.data.label_texts, prepared.data.train.labels
    linear = prepared.out_of_fold is not None and prepared.config.head.name in LINEAR
    if setting == "auto" and not linear:
        return
    if prepared.out_of_fold is None or not linear:
        raise UserError(
            "data.label_texts needs a method that is linear in the items' vectors and has held-out scores, such as "
            f"blend; {prepared.config.method.name} is not"
        )
    line = prepared.model.get_submodule("head").get_submodule("classify")
    assert isinstance(line, nn.Linear)
    u = label_vectors(prepared, texts_of(NAMES if setting == "auto" else setting, labels.names), labels.names)
    scores = similarities(prepared, u)
    targets = labels.targets()
    outside = Outside.fitted(scores, targets, may_be_odds=False)
    found = weighed(outside, prepared.out_of_fold, scores, targets, most=MOST)
    note = {"share": found.chosen, "mAP_by_share": found.tried}
    prepared.data = replace(prepared.data, notes={**prepared.data.notes, "label_texts": note})
    if not found.outside.counts:
        listener.message("label texts: not used, as they do not help on items that the model did not see")
        return
    listener.message(f"label texts: {found.sentence}")
    prepared.out_of_fold = found.outside.added(prepared.out_of_fold, scores)
    factor = torch.from_numpy(found.outside.share * found.outside.slope / found.outside.spread).to(line.weight)
    with torch.no_grad():
        line.weight += factor[:, None] * u.to(line.weight)
        line.bias.sub_(factor * torch.from_numpy(found.outside.centre).to(line.weight))


@torch.no_grad()
def label_vectors(prepared: Prepared, texts: Mapping[str, str], names: tuple[str, ...]) -> Tensor:
    """u [C, D], 0 for a label without a text."""
    description: dict[str, Any] = prepared.raw.description
    if description.get("kind") not in ("tfidf", "encoder", SIDE_BY_SIDE):
        raise UserError("data.label_texts is for items that are texts, which labels' texts can be compared with")
    found = encoded_texts(prepared.data.train.inputs)
    folder = None if found is None else found.encoder.place
    known = [label for label, name in enumerate(names) if name in texts]
    inputs = maker_of(description, folder)([texts[names[label]] for label in known])
    backbone = prepared.model.eval().get_submodule("backbone")
    vectors = backbone(placed(prepared.fabric, prepared.model, inputs.batch(torch.arange(len(known))))).cpu()
    u = torch.zeros(len(names), vectors.shape[1])
    u[known] = vectors.float()
    return u


def similarities(prepared: Prepared, u: Tensor) -> Tensor:
    """s [N, C] of the training items."""
    parts = []
    rows = 4 * prepared.config.train.batch_size
    for x, _ in features_of(prepared.model, prepared.data.train, prepared.fabric, rows, keep_sparse=True):
        parts.append(x.float().cpu() @ u.T if isinstance(x, Tensor) else torch.from_numpy(x @ np.asarray(u.T)).float())
    return processes.rows(torch.cat(parts))
