"""Ridge regression and centroids of very many labels, against the formulas written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from raretag.core.errors import UserError
from raretag.core.ranker import NONE, Known
from raretag.ranking.ridge import Ridge, masked_line
from raretag.ranking.ridge_centroids import (
    NEVER,
    RidgeCentroids,
    guesses,
    held_out_cosines,
    inverse_propensities,
    lengths,
)
from raretag.ranking.ridge_centroids import together as sums_of
from support.many_labels import words_and_labels

X, POSITIVE = words_and_labels()
DENSE, Y = X.toarray().astype(np.float64), POSITIVE.toarray().astype(np.float64)


def naive_ridge(x, y, strength):
    return np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ y)


def brought_to_length_1(x):
    return x / np.sqrt((x**2).sum() / len(x))


def fitted(known, **options):
    ranker = RidgeCentroids(**options)
    ranker.fit(X, known)
    return ranker


def test_ridge_alone_is_the_normal_equation_where_features_and_labels_meet():
    ranker = fitted(Known(POSITIVE), shares=(0.0,), powers=(0.0,), strength=2.0)
    unit = np.sqrt((DENSE**2).sum() / len(DENSE))
    wanted = naive_ridge(np.hstack([DENSE / unit, np.ones((len(DENSE), 1))]), Y, 2.0)
    meet = (DENSE.T @ Y) > 0
    np.testing.assert_allclose(ranker.weight.toarray(), np.where(meet, wanted[:-1] / unit, 0), atol=1e-4)
    there = Y.sum(0) > 0
    np.testing.assert_allclose(ranker.bias[there], wanted[-1][there], atol=1e-4)


def test_centroids_and_rareness_are_added_as_the_formula_says():
    plain = fitted(Known(POSITIVE), shares=(0.0,), powers=(0.0,))
    both = fitted(Known(POSITIVE), shares=(2.0,), powers=(0.5,))
    unit = np.sqrt((DENSE**2).sum() / len(DENSE))
    centroid = DENSE.T @ Y
    centroid /= np.maximum(np.linalg.norm(centroid, axis=0), 1e-12)
    boost = np.sqrt(inverse_propensities(Y.sum(0), len(Y)))
    wanted = plain.weight.toarray() * boost + 2.0 * centroid / unit
    np.testing.assert_allclose(both.weight.toarray(), wanted, atol=1e-4)


def test_held_out_scores_are_those_of_fits_without_the_item():
    x = brought_to_length_1(DENSE)
    rows = np.array([3, 8])
    ridge = Ridge(sparse.csr_array(x.astype(np.float32)), 1.5, largest=1000)
    by_ridge = ridge.held_out(rows, POSITIVE.astype(np.float32))
    sums = sums_of(sparse.csr_array(x.astype(np.float32)), POSITIVE.astype(np.float32), 1000)
    some = sparse.csr_array(x[rows].astype(np.float32))
    by_centroid = held_out_cosines(some, Y[rows] > 0, sums, lengths(sums) ** 2)
    for place, row in enumerate(rows):
        rest = np.arange(len(x)) != row
        np.testing.assert_allclose(by_ridge[place], x[row] @ naive_ridge(x[rest], Y[rest], 1.5), atol=1e-4)
        centroid = x[rest].T @ Y[rest]
        centroid /= np.maximum(np.linalg.norm(centroid, axis=0), 1e-12)
        np.testing.assert_allclose(by_centroid[place], x[row] @ centroid, atol=1e-3)


def test_columns_beyond_the_largest_are_taken_alone():
    x = sparse.csr_array(brought_to_length_1(DENSE).astype(np.float32))
    y = POSITIVE.astype(np.float32)
    sums = sums_of(x, y, 1000)
    ridge = Ridge(x, 1.0, largest=5)
    weight = sparse.csr_array((ridge.weights(y, sums), sums.indices, sums.indptr), shape=sums.shape).toarray()
    common = ridge.common
    assert len(common) == 5
    meet = sums.toarray() != 0
    wanted = naive_ridge(x.toarray()[:, common].astype(np.float64), Y, 1.0)
    np.testing.assert_allclose(weight[common], np.where(meet[common], wanted, 0), atol=1e-4)
    other = np.setdiff1d(np.arange(x.shape[1]), common)
    alone = (x.toarray()[:, other] ** 2).sum(0)
    np.testing.assert_allclose(weight[other], sums.toarray()[other] / (alone + 1.0)[:, None], atol=1e-4)


def test_an_unknown_entry_is_guessed_by_the_fit_without_its_item():
    x = brought_to_length_1(DENSE)
    row, label = 4, int(np.flatnonzero(Y[4])[0])
    y = Y.copy()
    y[row, label] = 0  # hidden: known to be neither
    unknown = sparse.csr_array((np.ones(1, bool), ([row], [label])), shape=y.shape)
    narrow = sparse.csr_array(x.astype(np.float32))
    full = sparse.csr_array(naive_ridge(x, y, 1.0).astype(np.float32))
    found = guesses(narrow, full, Ridge(narrow, 1.0, 1000), unknown).toarray()[row, label]
    rest = np.arange(len(x)) != row
    wanted = x[row] @ naive_ridge(x[rest], y[rest], 1.0)[:, label]
    np.testing.assert_allclose(found, np.clip(wanted, 0, 1), atol=1e-4)


def test_items_that_are_unknown_for_a_label_do_not_matter_where_negatives_are_observed():
    label = int(Y.sum(0).argmax())
    negative = np.zeros(Y.shape, bool)
    negative[np.flatnonzero(Y[:, label] == 0)[:10], label] = True
    seen = (Y[:, label] > 0) | negative[:, label]
    options = {"shares": (0.0,), "powers": (0.0,)}
    ranker = fitted(Known(POSITIVE, "unknown", sparse.csr_array(negative)), **options)
    unit = np.sqrt((DENSE**2).sum() / len(DENSE))
    x = np.hstack([DENSE / unit, np.ones((len(DENSE), 1))])
    wanted = naive_ridge(x[seen], Y[seen][:, [label]], 3.0)[:, 0]
    meet = (DENSE.T @ Y[:, label]) > 0
    np.testing.assert_allclose(
        ranker.weight.toarray()[:, label], np.where(meet, wanted[:-1] / unit, 0), rtol=1e-2, atol=1e-3
    )
    others = fitted(Known(POSITIVE), **options).weight.toarray()
    np.testing.assert_allclose(np.delete(ranker.weight.toarray(), label, 1), np.delete(others, label, 1), atol=1e-5)


def test_conjugate_gradients_solve_the_normal_equation():
    x = brought_to_length_1(DENSE)
    found = masked_line(sparse.csr_array(x.astype(np.float32)), Y[:, 0].astype(np.float32), 1.0, most_steps=200)
    np.testing.assert_allclose(found, naive_ridge(x, Y[:, [0]], 1.0)[:, 0], atol=1e-3)


def test_empty_labels_come_last_and_empty_items_get_the_frequent_labels():
    positive = POSITIVE.toarray()
    positive[:, 2] = False
    positive[5] = False
    x = X.toarray()
    x[7] = 0
    ranker = RidgeCentroids()
    ranker.fit(sparse.csr_array(x), Known(sparse.csr_array(positive)))
    labels = positive.shape[1]
    found = ranker.rank(sparse.csr_array(x), labels + 3)
    assert (found.labels[:, labels:] == NONE).all()
    assert ranker.bias[2] == NEVER
    np.testing.assert_array_equal(found.labels[7, : labels - 1], np.argsort(-ranker.bias, kind="stable")[: labels - 1])
    assert np.isfinite(found.scores[:, :labels]).all()


def test_one_label_and_one_item_are_enough():
    ranker = RidgeCentroids()
    ranker.fit(sparse.csr_array(np.ones((1, 2), np.float32)), Known(sparse.csr_array(np.ones((1, 1), bool))))
    assert ranker.rank(sparse.csr_array(np.ones((1, 2), np.float32)), 2).labels.tolist() == [[0, NONE]]


def test_a_label_keeps_its_largest_columns():
    ranker = fitted(Known(POSITIVE), columns=2)
    assert np.bincount(ranker.weight.indices, minlength=POSITIVE.shape[1]).max() == 2


def test_the_same_seed_gives_the_same_model():
    one, two = fitted(Known(POSITIVE), seed=3), fitted(Known(POSITIVE), seed=3)
    np.testing.assert_array_equal(one.weight.toarray(), two.weight.toarray())
    assert one.learned() == two.learned()


@pytest.mark.parametrize("options", [{"strength": 0}, {"columns": 0}, {"shares": ()}, {"powers": (-1.0,)}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(UserError, match="expected"):
        RidgeCentroids(**options)
