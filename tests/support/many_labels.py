"""Small sets for the way of very many labels: each label has a word of its own among the features."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from raretag.labels.store import LabelStore


def words_and_labels(items=300, labels=40, columns=120, seed=0):
    """Sparse features [N, D] and positives [N, C]: label c leaves its mark in column c, beside words of no meaning."""
    random = np.random.default_rng(seed)
    share = 1 / np.arange(1, labels + 1) ** 0.7
    positive = random.random((items, labels)) < 0.35 * share
    positive[np.arange(items), random.integers(0, labels, items)] = True
    x = np.zeros((items, columns), np.float32)
    x[:, :labels] = positive * (random.random((items, labels)) < 0.9)
    noise = random.integers(labels, columns, (items, 4))
    np.put_along_axis(x, noise, 1.0, 1)
    return sparse.csr_array(x * random.integers(1, 4, x.shape).astype(np.float32)), sparse.csr_array(positive)


def write_svm(path, x, positive, header=True):
    """The file format of the extreme-classification repository."""
    rows = [f"{x.shape[0]} {x.shape[1]} {positive.shape[1]}"] if header else []
    for row in range(x.shape[0]):
        names = ",".join(map(str, positive[[row]].indices))
        some = x[[row]]
        rows.append(f"{names} " + " ".join(f"{c}:{v:g}" for c, v in zip(some.indices, some.data, strict=True)))
    path.write_text("\n".join(rows) + "\n")
    return path


def store(positive, absent="negative"):
    return LabelStore.from_sparse(positive.astype(np.int8), absent)
