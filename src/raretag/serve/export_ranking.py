"""A model for very many labels as one NumPy archive that a few lines of NumPy and SciPy can use.

weight_data, weight_indices, weight_indptr   W [D, C], stored by rows
bias                                         b [C]
rarity                                       [D], only where features are counts: x becomes ln(1 + x) rarity
length                                       [], rows get this length; 0: they stay as they are
positives                                    [C] training positives
cut                                          scale, rarity, shift, threshold of the decision
names                                        [C] texts

scores = x W + b        probability = sigmoid(scale s + rarity ln(1 + positives) + shift)
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from raretag.core.errors import UserError
from raretag.core.files import replacing
from raretag.core.ranker import Ranked, best_of
from raretag.data.inputs.features import Features
from raretag.models.scaling import Counts, Rows
from raretag.serve.ranking import RankingModel

ENDING = ".npz"
TRIED, TOLERANCE = 16, 1e-2  # random items that are compared; of scores around 1 to 10


def export_ranking(model: RankingModel, path: Path | str) -> float:
    """Write the model for use without raretag; returns the largest difference of scores on random items."""
    path = Path(path)
    if path.suffix != ENDING:
        raise UserError(f"'{path.name}' ends in '{path.suffix}'; a model of very many labels is exported as {ENDING}")
    line, scale, name = model.model.ranker.line(), model.model.scale, model.card.settings.method.name
    if line is None:
        raise UserError(f"{name} is not linear, so it has no {ENDING}; load the run folder with raretag instead")
    if model.card.settings.data.prepare not in ("raw", "auto", "rows", "counts"):
        raise UserError(
            f"features prepared as {model.card.settings.data.prepare} are not sparse, so there is no {ENDING}"
        )
    weight, bias = line
    how = model.card.decision
    content: dict[str, Any] = {
        "weight_data": weight.data,
        "weight_indices": weight.indices.astype(np.int32),
        "weight_indptr": weight.indptr.astype(np.int64),
        "bias": bias,
        "length": np.float32(scale.length if isinstance(scale, (Rows, Counts)) else 0.0),
        "positives": model.positives,
        "cut": np.array([how.scale, how.rarity, how.shift, how.threshold]),
        "names": np.array(list(model.labels), dtype=np.str_),
    }
    if isinstance(scale, Counts):
        content["rarity"] = scale.rarity.numpy()
    with replacing(path) as new:
        packed = io.BytesIO()  # a failing disk would leave the archive's writer behind, which then complains by itself
        np.savez_compressed(packed, **content)
        new.write_bytes(packed.getvalue())
        with np.load(new, allow_pickle=False) as stored:
            worst = difference(model, dict(stored))
        if worst > TOLERANCE:
            raise UserError(f"the exported model differs by {worst:.2g}; it was not kept")
    return worst


def rank(stored: dict[str, NDArray[Any]], x: sparse.csr_array, k: int) -> Ranked:
    """What docs/large-labels.md shows: the best labels of some rows, from the archive alone."""
    if "rarity" in stored:
        x = sparse.csr_array(
            (np.log1p(np.maximum(x.data, 0)) * stored["rarity"][x.indices], x.indices, x.indptr), x.shape
        )
    if stored["length"] > 0:
        norm = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel()).clip(min=1e-12)
        x = sparse.csr_array(sparse.diags_array(stored["length"] / norm) @ x)
    parts = (stored["weight_data"].astype(np.float32), stored["weight_indices"], stored["weight_indptr"])
    weight = sparse.csr_array(parts, shape=(x.shape[1], len(stored["bias"])))
    return best_of(np.asarray((x @ weight).toarray() + stored["bias"], np.float32), k)


def difference(model: RankingModel, stored: dict[str, NDArray[Any]]) -> float:
    """The largest difference of the best scores of random items."""
    chance = np.random.default_rng(0)
    shape = (TRIED, model.card.input_shape[0])
    x = sparse.random_array(shape, density=min(1.0, 20 / shape[1]), format="csr", rng=chance, dtype=np.float32)
    wanted, found = model.model.rank(Features(x), 5).scores, rank(stored, x, 5).scores
    both = np.isfinite(wanted) & np.isfinite(found)
    return float(np.abs(np.where(both, wanted, 0.0) - np.where(both, found, 0.0)).max())
