"""Class centroids rank by direction, keep their largest weights, and come back from their state."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from raretag.core import registry
from raretag.core.ranker import NONE, Known, Ranker, best_of
from support.many_labels import words_and_labels

X, POSITIVE = words_and_labels()
KNOWN = Known(POSITIVE)


def fitted(name="centroids", x=X, **options):
    ranker = registry.build("ranking", name, options, kind=Ranker, seed=0, effort="default")
    ranker.fit(x, KNOWN)
    return ranker


def test_the_scores_are_cosines():
    found = fitted(scale=1.0).rank(X, 40)
    dense = X.toarray() / np.linalg.norm(X.toarray(), axis=1, keepdims=True)
    centroid = POSITIVE.toarray().T.astype(np.float32) @ dense
    centroid /= np.linalg.norm(centroid, axis=1, keepdims=True)
    wanted = dense @ centroid.T
    for row in range(len(found)):
        there = found.labels[row] >= 0
        np.testing.assert_allclose(
            found.scores[row][there], wanted[row, found.labels[row][there]], rtol=1e-3, atol=1e-5
        )
        assert there.sum() == (wanted[row] > 0).sum()


@pytest.mark.parametrize("name", registry.names("ranking"))
def test_rows_are_sorted_padded_and_independent(name):
    ranker = fitted(name)
    found = ranker.rank(X, 60)
    assert (found.labels.dtype, found.scores.dtype) == (np.int32, np.float32)
    assert found.labels.shape == found.scores.shape == (X.shape[0], 60)
    assert (found.scores[:, 1:] <= found.scores[:, :-1]).all()
    assert ((found.labels == NONE) == (found.scores == -np.inf)).all()
    for row in found.labels:
        real = row[row >= 0]
        assert len(set(real.tolist())) == len(real)
    again = ranker.rank(X[[5, 17]], 60)
    np.testing.assert_array_equal(again.labels, found.labels[[5, 17]])
    assert ranker.rank(X[:0], 3).labels.shape == (0, 3)


@pytest.mark.parametrize("name", registry.names("ranking"))
def test_a_ranker_learns_and_comes_back_from_its_state(name):
    ranker = fitted(name)
    found = ranker.rank(X, 5)
    hit = [POSITIVE[[row]].toarray()[0, found.labels[row, 0]] for row in range(X.shape[0])]
    assert np.mean(hit) > 0.8
    other = registry.build("ranking", name, {}, kind=Ranker, seed=0, effort="default")
    other.restore(ranker.state())
    again = other.rank(X, 5)
    np.testing.assert_allclose(again.scores, found.scores, rtol=1e-2, atol=1e-2)
    assert (again.labels == found.labels).mean() > 0.95


@pytest.mark.parametrize("name", registry.names("ranking"))
def test_labels_and_items_without_anything_are_taken(name):
    x = sparse.csr_array(sparse.vstack([X, sparse.csr_array((2, X.shape[1]), dtype=np.float32)]))
    wide = sparse.csr_array(sparse.hstack([POSITIVE, sparse.csr_array((X.shape[0], 3), dtype=np.bool_)]))
    wide = sparse.csr_array(sparse.vstack([wide, sparse.csr_array((2, wide.shape[1]), dtype=np.bool_)]))
    ranker = registry.build("ranking", name, {}, kind=Ranker, seed=0, effort="default")
    ranker.fit(x, Known(wide))
    assert ranker.rank(x, 3).labels.shape == (x.shape[0], 3)


@pytest.mark.parametrize("name", registry.names("ranking"))
def test_the_same_content_gives_the_same_model(name):
    one, other = fitted(name).state(), fitted(name).state()
    assert one.keys() == other.keys()
    assert all((one[key] == other[key]).all() for key in one)


def test_few_columns_keep_the_largest():
    weight = fitted(columns=1).weight
    assert weight.shape == (120, 40)
    assert np.diff(weight.T.tocsr().indptr).max() == 1


def test_equal_scores_keep_the_order_of_labels():
    found = best_of(np.zeros((1, 6), np.float32), 3)
    assert found.labels.tolist() == [[0, 1, 2]]
    assert best_of(np.full((1, 2), -np.inf, np.float32), 3).labels.tolist() == [[-1, -1, -1]]
