"""raretag among scikit-learn's tools, with labels of which some are unknown."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from raretag import LabelStore, UserError
from raretag.sklearn import Folds, RaretagClassifier, out_of_fold, scorer

ONE_COLUMN = "feeds y as one column of classes; here y is [items, labels], and each label is a yes or a no"
ONE_PROBABILITY = "wants two columns of probabilities for one label; a multi-label classifier has one per label"
EXPECTED_FAILURES = {
    **dict.fromkeys(
        (
            "check_estimators_dtypes",
            "check_classifier_data_not_an_array",
            "check_classifiers_one_label",
            "check_classifiers_classes",
            "check_classifiers_train",
            "check_classifiers_regression_target",
            "check_decision_proba_consistency",
            "check_classifier_not_supporting_multiclass",
            "check_fit2d_1feature",
        ),
        ONE_COLUMN,
    ),
    **dict.fromkeys(("check_estimator_sparse_array", "check_estimator_sparse_matrix"), ONE_PROBABILITY),
    "check_supervised_y_no_nan": "NaN in y is an unknown label",
}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [RaretagClassifier("logistic_regression")],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
    xfail_strict=True,
)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def items():
    """X [160, 6], Y [160, 3] with a third of it unknown, and Y as it is in truth."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(160, 6))
    truth = (X[:, :3] + 0.3 * draw.normal(size=(160, 3)) > [0.0, 0.5, 1.0]).astype(float)
    return X, np.where(draw.random(truth.shape) < 0.33, np.nan, truth), truth


@pytest.fixture(scope="module")
def fitted(items):
    X, Y, _ = items
    return RaretagClassifier("logistic_regression").fit(X, Y)


def test_it_learns_from_labels_that_are_partly_unknown(items, fitted):
    X, _, truth = items
    assert average_precision_score(truth, fitted.predict_proba(X), average="macro") > 0.9
    assert fitted.score(X, truth) == pytest.approx(average_precision_score(truth, fitted.predict_proba(X)), abs=1e-9)
    assert f1_score(truth, fitted.predict(X), average="macro") > 0.8


def test_what_stands_under_an_unknown_label_does_not_matter(items, fitted):
    X, Y, _ = items
    other = RaretagClassifier("logistic_regression").fit(X, np.where(np.isnan(Y), -1, Y))
    assert np.array_equal(other.predict_proba(X), fitted.predict_proba(X))


def test_decisions_probabilities_and_distances_agree(items, fitted):
    X, _, _ = items
    assert np.array_equal(fitted.predict(X), fitted.decision_function(X) > 0)
    assert np.array_equal(fitted.predict(X), fitted.predict_proba(X) > fitted.thresholds_)
    assert fitted.predict(X).dtype == np.int64


def test_clone_and_pickle(items, fitted):
    X, Y, _ = items
    again = clone(fitted)
    assert not hasattr(again, "model_")
    assert np.array_equal(again.fit(X, Y).predict_proba(X), fitted.predict_proba(X))
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X), fitted.predict_proba(X))


def test_a_pipeline_in_a_grid_search_with_unknown_labels(items):
    X, Y, _ = items
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), RaretagClassifier(effort="quick")),
        {"raretagclassifier__method": ["logistic_regression", "auto"]},
        scoring=scorer("mAP"),
        cv=Folds(2),
        error_score="raise",
    ).fit(X, Y)
    assert set(grid.best_params_) == {"raretagclassifier__method"}
    assert 0.7 < grid.best_score_ <= 1.0
    assert grid.predict(X).shape == Y.shape


def test_options_of_a_method_that_is_trained_by_steps(items):
    X, Y, _ = items
    made = RaretagClassifier("focal", options={"gamma": 1.0}, settings={"epochs": 2, "batch_size": 40}).fit(X, Y)
    assert (made.record_.method.name, len(made.record_.metrics.epochs)) == ("focal", 2)
    with pytest.raises(UserError, match="did you mean 'gamma'"):
        RaretagClassifier("focal", options={"gama": 1.0}).fit(X, Y)


def test_names_texts_and_sparse_matrices():
    texts = ["a red car", "a green tree", "a red tree", "a green car"] * 10
    names = [["car"], ["tree"], ["tree"], ["car"]] * 10
    made = RaretagClassifier("logistic_regression").fit(texts, names)
    assert list(made.classes_) == ["car", "tree"]
    assert made.predict_labels(["one car", "one tree"]) == [["car"], ["tree"]]
    assert made.score(texts, names) == 1.0
    assert made.score(texts[1:2] * 2 + texts[:2], names[1:2] * 2 + names[:2]) == 1.0  # "tree" comes first here
    X = sparse.csr_array(np.eye(4)[np.arange(40) % 4])
    assert RaretagClassifier("logistic_regression").fit(X, names).predict_labels(X[:2]) == names[:2]


def test_cross_validation(items):
    X, Y, truth = items
    plain = RaretagClassifier("logistic_regression")
    assert cross_val_score(plain, X, Y, cv=Folds(3), scoring=scorer("mAP"), error_score="raise").min() > 0.8
    assert cross_val_predict(plain, X, truth, cv=Folds(3), method="predict_proba").shape == Y.shape
    unseen = out_of_fold(plain, X, Y, cv=3)
    assert average_precision_score(truth, unseen, average="macro") > 0.8
    # scikit-learn's function numbers NaN as a class; it must not pass unnoticed
    with pytest.raises(UserError, match="holds 2"):
        cross_val_predict(plain, X, Y, cv=Folds(3), method="predict_proba")


def test_folds_have_every_label_and_every_item_once(items):
    X, Y, _ = items
    Y = Y.copy()
    Y[:, 2] = 0
    Y[:3, 2] = 1  # three positives for three folds
    parts = [test for _, test in Folds(3).split(X, Y)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(Y)))
    assert all((Y[part] == 1).any(axis=0).all() for part in parts)
    assert all(set(train) & set(test) == set() for train, test in Folds(3).split(X, Y))
    assert Folds(3).get_n_splits() == 3


@pytest.mark.parametrize("name", ["mAP", "F1", "micro_F1", "precision", "recall"])
def test_scores_equal_those_of_scikit_learn_where_all_is_known(items, fitted, name):
    from sklearn import metrics

    X, _, truth = items
    chosen = fitted.predict(X)
    expected = {
        "mAP": lambda: metrics.average_precision_score(truth, fitted.predict_proba(X), average="macro"),
        "F1": lambda: metrics.f1_score(truth, chosen, average="macro"),
        "micro_F1": lambda: metrics.f1_score(truth, chosen, average="micro"),
        "precision": lambda: metrics.precision_score(truth, chosen, average="macro"),
        "recall": lambda: metrics.recall_score(truth, chosen, average="macro"),
    }[name]()
    assert scorer(name)(fitted, X, truth) == pytest.approx(expected, abs=1e-9)


def test_scores_of_chosen_labels_and_of_other_estimators(items, fitted):
    X, Y, truth = items
    each = [scorer("mAP", labels=[label])(fitted, X, Y) for label in range(3)]
    assert scorer("mAP")(fitted, X, Y) == pytest.approx(np.mean(each))
    forest = RandomForestClassifier(10, random_state=0).fit(X, truth)
    assert scorer("mAP")(forest, X, Y) > 0.9
    assert scorer("neg_hamming")(forest, X, Y) <= 0
    with pytest.raises(UserError, match="did you mean 'micro_F1'"):
        scorer("micro_f1")


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.zeros(160), "y has shape"),
        (np.full((160, 2), 7.0), "Unknown label type"),
        (None, "requires y to be passed"),
        (LabelStore.from_lists([["a"]] * 3), "3 rows of labels"),
    ],
)
def test_mistakes_are_one_sentence(items, Y, message):
    with pytest.raises(UserError, match=message) as error:
        RaretagClassifier().fit(items[0], Y)
    assert "\n" not in str(error.value)
