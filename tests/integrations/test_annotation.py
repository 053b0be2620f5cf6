"""Labels on their way to annotators and back: Label Studio, FiftyOne, Argilla."""

from __future__ import annotations

import copy
import json
import sys
from collections import defaultdict
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

import raretag
from raretag.annotation import (
    from_argilla,
    from_fiftyone,
    from_label_studio,
    label_studio_page,
    to_argilla,
    to_fiftyone,
    to_label_studio,
)
from raretag.serve.predictions import Predictions

LABELS = ["sea", 'a "boat" & <more>']
IMAGES = ["photos/a.jpg", "/abs/b.jpg", "https://example.org/c.jpg"]
FOUND = Predictions(
    IMAGES, LABELS, np.array([[0.9, 0.8], [0.7, 0.1], [0.2, 0.1]], np.float32), np.array([[1, 1], [1, 0], [0, 0]], bool)
)


def answered(tasks):
    """As Label Studio exports them when every pre-annotation was accepted."""
    tasks = copy.deepcopy(tasks)
    for task in tasks:
        task["annotations"] = [{"result": task["predictions"][0]["result"]}]
    return tasks


def test_label_studio_and_back(tmp_path):
    tasks = to_label_studio(IMAGES, FOUND)
    assert [task["data"]["image"] for task in tasks] == [
        "/data/local-files/?d=photos/a.jpg",
        "/data/local-files/?d=abs/b.jpg",
        "https://example.org/c.jpg",
    ]
    assert [task["predictions"][0]["score"] for task in tasks] == [0.85, 0.7, 0.0]
    file = tmp_path / "export.json"
    file.write_text(json.dumps(answered(tasks)))
    _, store = from_label_studio(file, LABELS)
    assert list(store.ids) == IMAGES
    assert store.dense().tolist() == FOUND.chosen.astype(float).tolist()


def test_what_nobody_answered_or_two_answered_differently_is_unknown():
    tasks = answered(to_label_studio(IMAGES, FOUND))
    tasks[0]["annotations"].append({"result": [{"type": "choices", "value": {"choices": ["sea"]}}]})
    tasks[1]["annotations"][0]["was_cancelled"] = True
    _, store = from_label_studio(tasks, LABELS)
    np.testing.assert_equal(store.dense(), [[1, np.nan], [np.nan, np.nan], [0, 0]])


def test_the_short_export():
    short = [{"text": "A boat.", "item": "1", "labels": "boat"}, {"text": "?", "item": "2"}]
    short += [{"text": "Both.", "item": "3", "labels": {"choices": ["boat", "sea"]}}]
    items, store = from_label_studio(short)
    assert (items, store.names) == (["A boat.", "?", "Both."], ("boat", "sea"))
    np.testing.assert_equal(store.dense(), [[1, 0], [np.nan, np.nan], [1, 1]])


def test_mistakes_are_one_sentence(tmp_path):
    with pytest.raises(raretag.UserError, match="not a JSON export"):
        from_label_studio(tmp_path / "absent.json")
    with pytest.raises(raretag.UserError, match="neither image nor text"):
        from_label_studio([{"data": {"audio": "a.wav"}}])
    with pytest.raises(raretag.UserError, match="'sea' was chosen but is not"):
        from_label_studio(answered(to_label_studio(IMAGES, FOUND)), LABELS[1:])
    with pytest.raises(raretag.UserError, match="expected image or text"):
        label_studio_page(LABELS, "audio")


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["image", "text"])
def test_label_studios_own_checks_accept_page_tasks_and_predictions(kind):
    interface = pytest.importorskip("label_studio_sdk.label_interface")
    page = interface.LabelInterface(label_studio_page(LABELS, kind))
    page.validate()
    for task in to_label_studio(IMAGES, FOUND, kind=kind):
        assert page.validate_task({"data": task["data"]})
        assert page.validate_prediction(task["predictions"][0])
    other = interface.LabelInterface(label_studio_page(["cloud"], kind))
    assert not other.validate_prediction(to_label_studio(IMAGES, FOUND, kind=kind)[0]["predictions"][0])


@pytest.mark.parametrize("kind", ["image", "text"])
def test_page_tasks_and_predictions_are_as_label_studio_publishes_them(kind):
    page = ElementTree.fromstring(label_studio_page(LABELS, kind))
    (shown,) = page.findall(kind.capitalize())
    (choices,) = page.iter("Choices")
    assert (choices.get("toName"), choices.get("choice")) == (shown.get("name"), "multiple")
    assert [one.get("value") for one in choices.iter("Choice")] == LABELS
    for task in to_label_studio(IMAGES, FOUND, kind=kind):
        assert shown.get("value") == f"${next(iter(task['data']))}"
        for guess in task["predictions"]:
            assert set(guess) <= {"model_version", "score", "result"}
            assert 0 <= guess["score"] <= 1
            for region in guess["result"]:
                assert region["type"] == "choices"
                assert (region["from_name"], region["to_name"]) == (choices.get("name"), shown.get("name"))
                assert set(region["value"]["choices"]) <= set(LABELS)


class Suggestion:
    """As Argilla 2 publishes it."""

    def __init__(self, question_name, value, score=None, agent=None, type=None):
        assert score is None or all(0 <= one <= 1 for one in score)
        self.question_name, self.value, self.score, self.agent = question_name, value, score, agent


class Response:
    def __init__(self, question_name, value, user_id, status=None):
        self.question_name, self.value, self.user_id, self.status = question_name, value, user_id, status


class Record:
    """Its answers are looked up by question; an unanswered one has none."""

    def __init__(self, id=None, fields=None, metadata=None, vectors=None, responses=None, suggestions=None):
        self.id, self.fields = id, fields
        self.suggestions = {one.question_name: one for one in suggestions or ()}
        self.responses = defaultdict(list)
        for one in responses or ():
            self.responses[one.question_name].append(one)


def test_argilla_and_back_by_its_published_calls(monkeypatch):
    stand_in = SimpleNamespace(Record=Record, Suggestion=Suggestion, Response=Response)
    monkeypatch.setitem(sys.modules, "argilla", stand_in)
    argilla_and_back(stand_in)


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
def test_argilla_and_back():
    argilla_and_back(pytest.importorskip("argilla"))


def argilla_and_back(rg):
    records = to_argilla(["one", "two", "three"], FOUND)
    assert records[0].suggestions["labels"].value == LABELS
    assert records[0].suggestions["labels"].score == pytest.approx([0.9, 0.8])
    user = "00000000-0000-0000-0000-000000000000"
    said = [rg.Response("labels", value=["sea"], user_id=user, status="submitted")]
    draft = [rg.Response("labels", value=["sea"], user_id=user, status="draft")]
    back = [rg.Record(id="1", fields={"text": "one"}, responses=said)]
    back += [rg.Record(id="0", fields={"text": "two"}, responses=draft), records[2]]
    texts, store = from_argilla(back, LABELS)
    assert texts == ["one", "two", "three"]
    np.testing.assert_equal(store.dense(), [[1, 0], [np.nan, np.nan], [np.nan, np.nan]])


class Samples:
    """The two calls of a FiftyOne data set that are used, as its documentation has them."""

    def __init__(self, **fields):
        self.fields = fields

    def set_values(self, field, values):
        self.fields[field] = values

    def values(self, path):
        field, *rest = path.split(".")
        if not rest:
            return self.fields[field]
        return [None if one is None else [each.label for each in one.classifications] for one in self.fields[field]]


def test_fiftyone_and_back(monkeypatch):
    stand_in = SimpleNamespace(
        Classifications=lambda classifications: SimpleNamespace(classifications=classifications),
        Classification=lambda label, confidence: SimpleNamespace(label=label, confidence=confidence),
    )
    monkeypatch.setitem(sys.modules, "fiftyone", stand_in)
    samples = Samples(filepath=IMAGES)
    to_fiftyone(samples, FOUND)
    assert samples.fields["raretag"][1].classifications[0].confidence == pytest.approx(0.7)
    samples.fields["raretag"][2] = None  # nobody looked
    paths, store = from_fiftyone(samples, "raretag", LABELS)
    assert paths == IMAGES
    np.testing.assert_equal(store.dense(), [[1, 1], [1, 0], [np.nan, np.nan]])


def test_suggested_images_open_in_label_studio(tmp_path):
    from raretag.suggestions.listing import Suggestion, Suggestions, write_all

    one = Suggestion(1, "a", "sea", "missing", "unknown", 0.93, "head", audit=1)
    found = Suggestions([one], previews={"a": {"image": "photos/a.jpg"}})
    for prefix, expected in (
        ({}, "/data/local-files/?d=photos/a.jpg"),
        ({"images": "https://x.org/"}, "https://x.org/photos/a.jpg"),
    ):
        write_all(tmp_path, found, {}, **prefix)
        (task,) = json.loads((tmp_path / "label-studio.json").read_text())
        assert task["data"]["image"] == expected
