"""The model over HTTP: the same predictions as `Model.predict`, limits, refusals, and a stop that finishes its work."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import raretag
from raretag.core.errors import UserError
from support.many_labels import words_and_labels, write_svm
from support.served import feature_rows, train

testclient = pytest.importorskip("starlette.testclient", reason="pip install 'raretag[review]'")

from raretag.serve.asked import Asked, BusyError, Limits  # noqa: E402
from raretag.serve.server import build_server  # noqa: E402


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    feature_rows(folder / "t.csv")
    return train(folder / "run", ["method.name=logistic_regression"], folder / "t.csv")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    rows = [{"text": f"{word} {n % 7}", "tags": [word]} for n, word in enumerate(("sun", "rain", "<b>snow</b>") * 20)]
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return train(folder / "run", ["method.name=logistic_regression"], folder / "t.jsonl")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A model that ranks."""
    folder = tmp_path_factory.mktemp("many")
    write_svm(folder / "big.svm", *words_and_labels())
    return train(folder / "run", ["method.name=ridge_centroids"], folder / "big.svm")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for n in range(24):
        Image.fromarray(np.random.default_rng(n).integers(0, 255, (20, 30, 3), np.uint8)).save(folder / f"{n}.png")
    lines = [f"{n}.png,{'a' if n % 2 else 'b'}" for n in range(24)]
    (folder / "t.csv").write_text("image,tags\n" + "\n".join(lines))
    return train(folder / "run", ["data.size=16", "model.name=mlp"], folder / "t.csv")


def client(run, token="", **limits):
    asked = Asked(raretag.load(run), Limits(**limits))
    return testclient.TestClient(build_server(asked, token=token), "http://127.0.0.1:8000")


def ask(found, items, **more):
    return found.post("/predict", json={"items": items, "probabilities": True, **more})


def test_features_get_the_predictions_of_the_model(features):
    X = np.random.default_rng(1).normal(size=(5, 3)) * [1.0, 100.0, 0.01] + [0.0, 5000.0, 1.0]
    expected = raretag.load(features).predict(X)
    rows = ask(client(features), X.tolist(), top=1).json()["predictions"]
    assert np.allclose([row["probabilities"] for row in rows], expected.probabilities, atol=1e-6)
    assert [[one["label"] for one in row["labels"]] for row in rows] == expected.chosen_labels()
    assert [row["top"][0]["label"] for row in rows] == [best[0][0] for best in expected.top(1)]


def test_texts_get_the_predictions_of_the_model(texts):
    some = ["sun 1", "rain and more", ""]
    expected = raretag.load(texts).predict(some)
    rows = ask(client(texts), some).json()["predictions"]
    assert np.allclose([row["probabilities"] for row in rows], expected.probabilities, atol=1e-6)


def test_images_come_as_bytes_and_never_as_paths(images):
    paths = [str(images.parent / f"{n}.png") for n in range(3)]
    expected = raretag.load(images).predict(paths)
    contents = [Path(path).read_bytes() for path in paths]
    found = client(images)
    rows = ask(found, [{"image": base64.b64encode(one).decode()} for one in contents]).json()["predictions"]
    assert np.allclose([row["probabilities"] for row in rows], expected.probabilities, atol=1e-6)
    alone = found.post("/predict?probabilities=1", content=contents[1], headers={"content-type": "image/png"})
    assert np.allclose(alone.json()["predictions"][0]["probabilities"], expected.probabilities[1], atol=1e-6)
    assert ask(found, paths).status_code == 400
    assert ask(found, [{"image": paths[0]}]).status_code == 400
    broken = ask(found, [{"image": base64.b64encode(b"no image").decode()}])
    assert broken.status_code == 400
    assert "item 0" in broken.json()["error"]


def test_very_many_labels_are_ranked(many):
    x, _ = words_and_labels(6, seed=1)
    expected = raretag.load(many).predict(x, top=4)
    found = client(many)
    dense = found.post("/predict", json={"items": x.toarray().tolist(), "top": 4}).json()["predictions"]
    some = [dict(zip(map(str, x[[row]].indices.tolist()), x[[row]].data.tolist(), strict=True)) for row in range(6)]
    assert found.post("/predict", json={"items": some, "top": 4}).json()["predictions"] == dense
    assert [[(one["label"], pytest.approx(one["probability"])) for one in row["top"]] for row in dense] == expected.top(
        4
    )
    assert [[one["label"] for one in row["labels"]] for row in dense] == expected.chosen_labels()
    shown = found.get("/labels", params={"start": 38}).json()
    assert (shown["total"], [row["label"] for row in shown["labels"]]) == (40, ["38", "39"])
    assert "40 labels" in found.get("/").text


@pytest.mark.parametrize(
    ("more", "why"),
    [({"top": 5000}, "1 to 1,000"), ({"top": 0}, "1 to"), ({"probabilities": True}, "top instead"),
     ({"items": [{"120": 1.0}]}, "'0' to '119'"), ({"items": [{"00000000000007": 1}]}, "'0' to"),
     ({"items": [{"-1": 1.0}]}, "'0' to"), ({"items": [{"1": "a"}]}, "expected a number"),
     ({"items": [{"1": 10**400}]}, "expected a number"), ({"items": [{"1": 1}, [1, 2]]}, "one kind")],
)  # fmt: skip
def test_what_a_ranking_cannot_answer_is_one_line(many, more, why):
    found = client(many).post("/predict", json={"items": [{"3": 1.0}], **more})
    assert found.status_code == 400
    assert why in found.json()["error"]


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"{}", b'{"items": []}', b'{"items": [1]}', b'{"items": [[1, 2]]}', b'{"items": [[1, 2, null]]}',
     b'{"items": [[1, 2, NaN]]}', b'{"items": [["a", 2, 3]]}', b'{"items": "abc"}', b"[" * 100_000,
     b'{"items": [[1, 2, 3]], "top": "x"}', b'{"items": [[1, 2, 3]], "top": 0}', b"\xff\xfe"],
)  # fmt: skip
def test_a_wrong_request_is_one_line(features, content):
    found = client(features).post("/predict", content=content, headers={"content-type": "application/json"})
    assert found.status_code == 400
    assert "\n" not in found.json()["error"]


def test_limits_on_items_bytes_hosts_and_tokens(features):
    item = [0.0, 5000.0, 1.0]
    assert ask(client(features, items=2), [item] * 3).status_code == 400
    assert ask(client(features, megabytes=0.001), [item] * 100).status_code == 413
    found = client(features)
    assert found.get("/labels", headers={"host": "evil.example"}).status_code == 421
    assert found.get("/labels", headers={"origin": "http://evil.example"}).status_code == 403
    guarded = client(features, token="t0ken")
    assert guarded.get("/labels").status_code == 401
    assert guarded.get("/health").status_code == 200
    assert guarded.get("/labels", headers={"authorization": "Bearer t0ken"}).status_code == 200
    with pytest.raises(UserError, match="expected more than 0"):
        Limits(waiting=0)


def test_a_full_queue_refuses_and_a_late_answer_is_dropped(features):
    asked = Asked(raretag.load(features), Limits(waiting=2, seconds=0.3))
    gate, begun = threading.Event(), []

    def slow(items, deadline, top):
        begun.append(items)
        gate.wait(30)
        return "done"

    asked._work = slow

    async def several():
        first = asyncio.ensure_future(asked.predict(["a"]))
        second = asyncio.ensure_future(asked.predict(["b"]))
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError):
            await asked.predict(["c"])
        results = await asyncio.gather(first, second, return_exceptions=True)
        assert all(isinstance(one, TimeoutError) for one in results)
        assert asked.waiting == 2  # the worker still has them
        gate.set()
        while asked.waiting:
            await asyncio.sleep(0.01)
        asked.limits = Limits(waiting=2, seconds=30)
        return await asked.predict(["d"])

    assert asyncio.run(several()) == "done"
    asked.close()


def test_labels_health_and_a_description_that_escapes(texts):
    found = client(texts)
    rows = found.get("/labels").json()["labels"]
    assert [row["label"] for row in rows] == list(raretag.load(texts).labels)
    assert found.get("/health").json()["status"] == "ok"
    paths = found.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/predict", "/labels", "/health"}
    page = found.get("/")
    assert "POST /predict" in page.text
    assert "<script" not in page.text


def test_the_command_stops_gracefully(features):
    command = [sys.executable, "-m", "raretag", "serve", str(features), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "RARETAG_TOKEN": ""})
    address = server.stdout.readline().strip()
    for _ in range(100):
        try:
            with urllib.request.urlopen(f"{address}health", timeout=10) as answer:
                assert json.load(answer)["status"] == "ok"
            break
        except OSError:
            time.sleep(0.1)
    else:
        raise AssertionError("the server did not answer")
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=60)
    assert server.returncode in (0, -signal.SIGTERM)


def test_a_port_in_use_is_one_line(features):
    from raretag.serve.web import listen

    with listen("127.0.0.1", 0) as taken, pytest.raises(UserError, match="cannot be used"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_an_answer_does_not_wait_for_more_to_send():
    import socket

    from raretag.serve.web import listen

    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_pictures_in_memory_are_read_as_files_are():
    from raretag.serve.asked import ImageBytes

    written = io.BytesIO()
    Image.fromarray(np.zeros((4, 6, 3), np.uint8)).save(written, "PNG")
    assert ImageBytes([written.getvalue()], size=2).pixels(0, 2).shape == (2, 2, 3)
