"""From arrays in memory: features, images as numbers, or texts, and their labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from raretag.core.errors import UserError
from raretag.data.inputs.features import Features
from raretag.data.inputs.text import TfIdf
from raretag.data.python.labels import Split, as_labels, data_set
from raretag.labels.collection import DataSet, Inputs, TensorInputs
from raretag.labels.entries import Absent


def from_arrays(
    inputs: Any,
    labels: Any,
    *,
    names: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    negatives: Any = None,
    absent: Absent | None = None,
    split: Split = None,
    seed: int = 0,
    name: str = "arrays",
) -> DataSet:
    """`inputs`: array or tensor [N, ...], scipy matrix [N, D], or a list of texts; `labels`: see `as_labels`.

    `split` is a word for each item, or {"train": rows, "test": rows}; parts that it lacks are dealt, stratified.
    Texts become TF-IDF weights, learned from the training part.
    """
    store = as_labels(labels, names=names, ids=ids, negatives=negatives, absent=absent)
    if _are_texts(inputs):
        made = data_set(TensorInputs(torch.zeros(len(inputs), 1)), store, split, seed, name)  # parts first
        weights = TfIdf().fit(inputs[row] for row in made.train.inputs.rows.tolist())  # type: ignore[attr-defined]
        return data_set(weights.inputs(inputs), store, split, seed, name)
    return data_set(as_inputs(inputs), store, split, seed, name)


def as_inputs(values: Any) -> Inputs:
    if sparse.issparse(values):
        return Features(values)
    if not isinstance(values, (np.ndarray, Tensor)):
        raise UserError(f"inputs are a {type(values).__name__}; expected an array, a tensor, a scipy matrix, or texts")
    tensor = torch.as_tensor(values)
    if tensor.ndim < 2:
        raise UserError(f"inputs have shape {tuple(tensor.shape)}; expected [N, ...], one row for each item")
    tensor = tensor.float()
    if not tensor.isfinite().all():
        row = int((~tensor.flatten(1).isfinite().all(1)).nonzero()[0])
        raise UserError(f"item {row} holds a NaN or an infinite number; expected finite inputs")
    return TensorInputs(tensor)


def _are_texts(values: Any) -> bool:
    return isinstance(values, (list, tuple)) and len(values) > 0 and all(isinstance(value, str) for value in values)
