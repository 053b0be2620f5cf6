"""Suggestions for a trained run, as a notebook asks for them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.data.arrays import from_arrays
from raretag.engine import run as engine
from raretag.suggestions.answers import read
from raretag.suggestions.job import suggest
from support.served import train


class Recorder(Listener):
    def __init__(self):
        self.shares = []

    def progress(self, share):
        self.shares.append(share)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Texts about weather; every fourth "sun" is not marked."""
    folder = tmp_path_factory.mktemp("texts")
    words = ("sun", "rain", "snow") * 20
    rows = [
        {"text": f"{word} and {number % 5}", "tags": [] if number % 12 == 0 else [word]}
        for number, word in enumerate(words)
    ]
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return train(folder / "run", ["train.epochs=20", "method.name=logistic_regression"], folder / "texts.jsonl")


def test_missing_labels_of_a_run_come_first_with_their_texts(run, tmp_path):
    recorder = Recorder()
    found = suggest(run, most=6, quota=0.0, folds=2, listener=recorder)
    assert recorder.shares == sorted(recorder.shares)
    assert recorder.shares[-1] == 1.0
    assert [one.rank for one in found] == list(range(1, len(found) + 1))
    assert found.missing[0].label == "sun"
    assert found.previews[found[0].item]["text"].startswith("sun")
    assert found.promises[-1].size == 6
    text = found.to_csv(tmp_path / "list.csv")
    assert (tmp_path / "list.csv").read_text() == text
    assert [(row.item, row.label) for row in read(tmp_path / "list.csv")] == [(one.item, one.label) for one in found]
    answered = tmp_path / "answered.csv"
    answered.write_text("item,label,answer\n" + "".join(f"{one.item},{one.label},yes\n" for one in found.missing))
    again = suggest(str(run), most=6, quota=0.0, folds=2, answers=answered)
    assert again.audit.answered == 6
    assert not {(one.item, one.label) for one in again.missing} & {(one.item, one.label) for one in found.missing}


def test_objects_in_memory_are_given_again(tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 4)).astype(np.float32)
    y = (x[:, :3] > 0) & (random.random((120, 3)) < 0.8)
    data = from_arrays(x, y.astype(np.float32), ids=[f"{row}" for row in range(120)])
    changes = ["method.name=logistic_regression", "model.name=mlp", "model.layers=0"]
    run = train(tmp_path / "run", changes, own=data)
    with pytest.raises(UserError, match="give that as data"):
        suggest(run)
    found = suggest(run, data, most=20, folds=2)
    right = [x[int(one.item), int(one.label)] > 0 for one in found.missing]
    assert np.mean(right) > 0.7
    in_memory = engine.run(compose(None, changes), None, data=data, listener=Listener())
    assert suggest(in_memory, most=20, folds=2) == found


def test_mistakes_are_one_line(tmp_path):
    with pytest.raises(UserError, match="not a run folder"):
        suggest(tmp_path)
    with pytest.raises(UserError, match="quota"):
        suggest(tmp_path, quota=2.0)
    with pytest.raises(UserError, match="above 0 and below 1"):
        suggest(tmp_path, label_frequency=1.0)
