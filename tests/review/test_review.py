"""The page's server: answers on the disk, conflicts, filters, refusals, and a training with the answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.data.sources import load
from raretag.review.desk import Desk, Filter
from raretag.review.log import AnswerLog
from raretag.suggestions.answers import Answer, read
from raretag.suggestions.listing import Suggestion, Suggestions, read_all, write_all
from raretag.suggestions.promise import Promise
from support.evil import EVIL

HOST = {"host": "127.0.0.1:8000"}
SAME = {**HOST, "origin": "http://127.0.0.1:8000"}


@pytest.fixture
def client(desk, trained, tmp_path):
    testclient = pytest.importorskip("starlette.testclient", reason="pip install 'raretag[review]'")
    from raretag.review.app import build_app
    from raretag.review.training import Trainer

    trainer = Trainer(trained, desk.config, tmp_path)
    made = testclient.TestClient(build_app(desk, trainer, "secret"), "http://127.0.0.1:8000")
    made.desk, made.trainer = desk, trainer
    yield made
    trainer.stop()


def post(client, path, content, **headers):
    return client.post(f"/secret/api/{path}", json=content, headers={"origin": "http://127.0.0.1:8000", **headers})


# -- the log


def test_an_answer_is_in_the_file_before_append_returns(tmp_path):
    log = AnswerLog(tmp_path / "log")
    log.append("ann", [Answer("a", "x", "yes", "unknown", audit=3)])
    row = json.loads((tmp_path / "log").read_text())
    assert (row["item"], row["label"], row["answer"], row["by"], row["audit"]) == ("a", "x", "yes", "ann", 3)


def test_two_logs_of_one_file_see_each_other_and_nobody_is_overwritten(tmp_path):
    first, second = AnswerLog(tmp_path / "log"), AnswerLog(tmp_path / "log")
    first.append("ann", [Answer("a", "x", "yes")])
    second.append("bob", [Answer("a", "x", "no")])
    first.refresh()
    assert first.given == second.given
    assert first.words("a", "x") == ["yes", "no"]
    second.append("eve", [Answer("a", "x", "no")], settles=True)
    first.refresh()
    assert first.words("a", "x") == ["no"]
    second.undo("eve")
    assert sorted(second.words("a", "x")) == ["no", "yes"]


def test_undo_takes_back_a_whole_action_and_restores_what_was_there(tmp_path):
    log = AnswerLog(tmp_path / "log")
    log.append("ann", [Answer("a", "x", "yes")])
    log.append("ann", [Answer("a", "x", "no"), Answer("b", "x", "no")])
    assert log.undo("ann") == [("a", "x"), ("b", "x")]
    assert (log.words("a", "x"), log.words("b", "x")) == (["yes"], [])
    assert log.undo("bob") == []
    again = AnswerLog(tmp_path / "log")
    assert again.given == log.given
    assert again.undo("ann") == [("a", "x")]
    assert again.given == {}
    assert again.undo("ann") == []


def test_a_torn_line_is_passed_over_and_spoils_no_other(tmp_path):
    log = AnswerLog(tmp_path / "log")
    log.append("ann", [Answer("a", "x", "yes")])
    whole = (tmp_path / "log").read_bytes()
    (tmp_path / "log").write_bytes(whole + whole[:40])
    again = AnswerLog(tmp_path / "log")
    assert len(again.given) == 1
    again.append("ann", [Answer("b", "x", "no")])
    third = AnswerLog(tmp_path / "log")
    assert {entry: third.words(*entry) for entry in third.given} == {("a", "x"): ["yes"], ("b", "x"): ["no"]}
    assert third.damaged == 1


def test_a_killed_process_loses_no_answer_that_it_had_acknowledged(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from raretag.review.log import AnswerLog\n"
        "from raretag.suggestions.answers import Answer\n"
        "log = AnswerLog(pathlib.Path(sys.argv[1]))\n"
        "for n in range(10**6):\n"
        "    log.append('ann', [Answer(f'i{n}', 'x', 'yes')]); print(n, flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True)
    for _ in range(25):
        last = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    last = max([last, *(int(line) for line in child.communicate()[0].split())])
    assert len(AnswerLog(tmp_path / "log").given) >= last + 1


# -- what is asked


def test_the_list_survives_its_files(listed, tmp_path):
    _, found, _ = listed
    write_all(tmp_path, found, {"data": "texts"})
    again, about = read_all(tmp_path)
    assert about["data"] == "texts"
    assert [(one.item, one.label, one.audit, one.turn) for one in again] == [
        (one.item, one.label, one.audit, one.turn) for one in found
    ]
    assert again.promises == found.promises


def test_filters_and_orders(desk):
    everything = desk.select(Filter(state=""))
    assert sorted(everything.tolist()) == list(range(len(desk.questions)))
    label = desk.questions[0].label
    assert {desk.questions[n].label for n in desk.select(Filter(label=label))} == {label}
    assert all(desk.questions[n].probability >= 0.4 for n in desk.select(Filter(low=0.4)))
    assert [desk.questions[n].audit for n in desk.select(Filter(order="random"))] == sorted(
        one.audit for one in desk.questions
    )
    some = desk.questions[3]
    assert {desk.questions[n].item for n in desk.select(Filter(search=some.item.upper() + "\n"))} == {some.item}
    desk.answer("ann", [(some.item, some.label, "yes")])
    assert 3 not in desk.select(Filter())
    assert desk.select(Filter(state="answered")).tolist() == [3]
    with pytest.raises(UserError, match="probabilities"):
        Filter.read({"low": "x"})


def test_an_item_comes_once_with_all_its_labels(desk):
    rows = desk.items(Filter())
    assert len(rows) == len(set(rows))
    shown = desk.item(rows[0])
    assert shown["text"].endswith(EVIL)
    targets = desk.data.train.labels.targets([rows[0]])
    assert len(shown["known"]) == int(targets.positive.sum())
    assert {one["label"] for one in shown["questions"]} == {
        one.label for one in desk.questions if one.item == shown["item"]
    }


def test_the_counter_sets_what_was_right_against_what_was_promised(desk):
    assert desk.promise()["answered"] == 0
    for number, one in enumerate(desk.questions):
        desk.answer("ann", [(one.item, one.label, "no" if number else "unsure")])
    desk._update()
    said = desk.promise()
    assert (said["answered"], said["right"]) == (len(desk.questions) - 1, 0)
    low, high = said["promised"]["interval"]
    assert said["promised"]["size"] == said["answered"]
    assert said["kept"] is (low <= 0)
    assert low <= said["promised"]["expected"] <= high
    assert said["expected"] is None  # nothing is open


def test_a_part_of_a_list_has_the_promise_of_the_list_with_more_chance():
    from raretag.suggestions.promise import of_part

    listed = np.linspace(-2, 2, 400)
    whole = Promise(400, 0.5, 0.4, 0.6)
    same = of_part(whole, listed, listed)
    assert same.expected == pytest.approx(0.5, abs=0.02)
    assert (same.low, same.high) == (pytest.approx(0.4, abs=0.03), pytest.approx(0.6, abs=0.03))
    likeliest = of_part(whole, listed, listed[-40:])
    assert likeliest.expected > 0.8
    assert likeliest.high - likeliest.low > 0.1


def test_ten_thousand_suggestions_are_listed_and_counted_quickly_enough_to_be_asked_often(listed, tmp_path):
    config, _, data = listed
    items, labels = [str(one) for one in data.train.labels.ids], data.train.labels.names
    entries = [(item, label) for item in items for label in labels]
    many = [
        Suggestion(n, *entries[n % len(entries)], "missing", "negative", 0.5, "tail", n, turn=n) for n in range(10_000)
    ]
    desk = Desk("many", config, data, Suggestions(many), AnswerLog(tmp_path / "log"))
    assert len(desk.select(Filter(search="sun"))) > 0
    assert desk.summary()["listed"] == 10_000


# -- the server


def test_the_page_and_its_files_come_with_a_strict_policy(client):
    page = client.get("/secret/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["referrer-policy"] == "no-referrer"
    for name in ("page.css", "page.js", "dom.js", "item.js", "grid.js", "training.js", "icon.svg"):
        assert client.get(f"/secret/{name}").status_code == 200
        assert name in page.text or name in client.get("/secret/page.js").text
    assert "http" not in page.text.replace("http-equiv", "")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/secret/", {"host": "evil.example"}, 421),
        ("/secret/", {"host": "127.0.0.1.evil.example:8000"}, 421),
        ("/secret/api/summary", {"origin": "http://evil.example"}, 403),
        ("/secret/api/summary", {"sec-fetch-site": "cross-site"}, 403),
        ("/other/api/summary", {}, 403),
        ("/", {}, 403),
        ("/secret/../pyproject.toml", {}, 403),
        ("/secret/%2e%2e%2fapp.py", {}, 404),
        ("/secret/app.py", {}, 404),
        ("/secret/pictures/240/99999", {}, 404),
        ("/secret/pictures/5000/1", {}, 404),
    ],
)
def test_what_is_not_ours_is_refused(client, path, headers, status):
    assert client.get(path, headers=headers).status_code == status


def test_an_answer_needs_json_an_origin_a_name_and_an_entry(client):
    one = client.desk.questions[0]
    good = {"by": "ann", "answers": [{"item": one.item, "label": one.label, "answer": "yes"}]}
    assert client.post("/secret/api/answers", json=good).status_code == 403  # no origin
    assert post(client, "answers", good, origin="http://localhost:8000").status_code == 403
    form = client.post("/secret/api/answers", data={"by": "x"}, headers=SAME)
    assert form.status_code == 415
    for bad in (
        {**good, "by": ""},
        {**good, "by": "x" * 61},
        {**good, "answers": []},
        {**good, "answers": [{"item": one.item, "label": "nothing", "answer": "yes"}]},
        {**good, "answers": [{"item": one.item, "label": one.label, "answer": "perhaps"}]},
        {"by": "ann"},
        [],
    ):
        found = post(client, "answers", bad)
        assert found.status_code == 400, bad
        assert "error" in found.json()
    huge = client.post(
        "/secret/api/answers", content=b" " * (1 << 21), headers={**SAME, "content-type": "application/json"}
    )
    assert huge.status_code == 413
    assert client.desk.log.given == {}
    done = post(client, "answers", good)
    assert done.json()["summary"]["answered"] == 1
    assert client.desk.log.words(one.item, one.label) == ["yes"]


def test_people_who_disagree_make_a_conflict_that_one_settles(client):
    one = client.desk.questions[0]
    for by, word in (("ann", "yes"), ("bob", "no")):
        post(client, "answers", {"by": by, "answers": [{"item": one.item, "label": one.label, "answer": word}]})
    assert client.get("/secret/api/summary").json()["conflicts"] == 1
    assert client.get("/secret/api/list?mode=label&state=conflict").json()["questions"] == [0]
    row = client.get("/secret/api/list?mode=item&state=conflict").json()["items"][0]
    asked = client.get(f"/secret/api/items/{row}").json()["questions"]
    assert {"ann": "yes", "bob": "no"} in [one["answers"] for one in asked]
    settled = {
        "by": "bob",
        "settles": True,
        "answers": [{"item": one.item, "label": one.label, "answer": "no"}],
    }
    assert post(client, "answers", settled).json()["summary"]["conflicts"] == 0
    assert post(client, "undo", {"by": "bob"}).json()["summary"]["conflicts"] == 1


def test_an_image_that_became_a_link_out_of_the_folder_is_not_shown(tmp_path):
    from PIL import Image

    folder, outside = tmp_path / "data", tmp_path / "secret.png"
    folder.mkdir()
    for n in range(12):
        Image.fromarray(np.full((8, 8, 3), 20 * n, np.uint8)).save(folder / f"{n}.png")
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(outside)
    lines = [f"{n}.png,{'a' if n % 2 else 'b'},train" for n in range(12)]
    (folder / "t.csv").write_text("image,tags,split\n" + "\n".join(lines))
    config = compose(None, ["data.size=8"], str(folder / "t.csv"))
    data = load(config.data, 0)
    one = Suggestion(1, str(data.train.labels.ids[0]), "a", "missing", "negative", 0.5, "tail", 1)
    desk = Desk("x", config, data, Suggestions([one]), AnswerLog(tmp_path / "log"))
    assert desk.item(0)["image"]
    assert desk.picture(0, 240)[:2] == b"\xff\xd8"
    for file in folder.glob("*.png"):
        file.unlink()
        os.symlink(outside, file)
    assert desk.picture(0, 240) is None


def test_train_again_writes_corrections_beside_the_run_and_compares_on_the_same_items(client, trained):
    assert post(client, "train", {}).status_code == 400  # nothing was answered
    original = (trained.parent / "texts.jsonl").read_bytes()
    answers = [{"item": one.item, "label": one.label, "answer": "yes"} for one in client.desk.questions[:3]]
    post(client, "answers", {"by": "ann", "answers": answers})
    started = post(client, "train", {}).json()
    assert started["changed"] == 3
    assert post(client, "train", {}).status_code == 400  # one at a time
    for _ in range(600):
        found = client.get("/secret/api/summary").json()["training"]
        if found["state"] != "running":
            break
        time.sleep(0.2)
    assert found["state"] == "finished", found
    assert found["result"]["sentence"].startswith("mAP on the same 12 test items")
    assert {one["part"] for one in found["result"]["parts"]} >= {"total"}
    assert (trained.parent / "texts.jsonl").read_bytes() == original
    assert (trained.with_name("run-review-1") / "record.json").is_file()
    lines = (client.trainer.folder / "round-1" / "corrections.csv").read_text().splitlines()
    assert len(lines) == 4


def test_the_log_can_be_applied_by_the_command_line(desk, tmp_path):
    one = desk.questions[0]
    desk.answer("ann", [(one.item, one.label, "yes")])
    found = read(desk.log.path)
    assert [(row.item, row.label, row.answer, row.was) for row in found] == [(one.item, one.label, "yes", one.was)]
