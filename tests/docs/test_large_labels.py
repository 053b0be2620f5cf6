"""The page on very many labels: its NumPy example ranks as the model does."""

from __future__ import annotations

import re

import numpy as np
import pytest

import raretag
from raretag.core.listener import Listener
from raretag.data.inputs.features import Features
from raretag.serve.export_ranking import export_ranking
from support.many_labels import words_and_labels
from support.paths import REPOSITORY

X, POSITIVE = words_and_labels()


@pytest.mark.parametrize("prepare", ["counts", "rows"])
def test_the_example_gives_the_models_labels_and_probabilities(prepare, tmp_path, monkeypatch):
    data = (X, POSITIVE.astype(np.int8))
    run = raretag.train(data, method="centroids", listener=Listener(), data__prepare=prepare)
    model = raretag.load(run)
    export_ranking(model, tmp_path / "model.npz")
    monkeypatch.chdir(tmp_path)
    page = (REPOSITORY / "docs" / "large-labels.md").read_text(encoding="utf-8")
    scope = {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], scope)
    names, p = scope["best"](X[:20], 1)
    wanted = [max(row, key=lambda pair: pair[1]) for row in model.predict(X[:20], top=1).top(50)]
    ranked = model.model.rank(Features(X[:20]), 1)
    assert names[:, 0].tolist() == [model.labels[label] for label in ranked.labels[:, 0]]
    assert (p[:, 0] <= np.array([value for _, value in wanted]) + 1e-4).all()
