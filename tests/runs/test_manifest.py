"""All files of a run are in one manifest: what was touched since is said, and nothing is made of it."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.runs import evidence, manifest
from raretag.runs.run import open_run
from raretag.serve.model import load
from raretag.serve.retune import retune
from support.served import feature_rows, train


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    feature_rows(folder / "rows.csv")
    return train(folder / "run", ["model.name=mlp", "method.name=assume_negative"], folder / "rows.csv")


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def flipped(path, attempt):
    content = bytearray(path.read_bytes())
    content[chance.number(attempt, 3) % len(content)] ^= 1 << chance.number(attempt, 4) % 8
    path.write_bytes(content)


def test_the_manifest_names_every_file_that_the_run_wrote(finished):
    named = set(manifest.read(finished)["files"])
    there = {path.name for path in finished.iterdir() if path.is_file()}
    assert there - named == {manifest.FILE, "last.ckpt", "previous.ckpt"}
    assert manifest.edited(finished) == []


@pytest.mark.parametrize("attempt", range(30))
def test_a_flipped_bit_is_noticed_wherever_it_is(attempt, copy):
    names = sorted(manifest.read(copy)["files"])
    name = names[attempt % len(names)]
    flipped(copy / name, attempt)
    assert manifest.edited(copy) == [name]


@pytest.mark.parametrize("name", [evidence.LOGITS, evidence.FILE])
def test_thresholds_are_not_made_of_damaged_numbers(name, copy):
    card = (copy / "card.json").read_bytes()
    flipped(copy / name, 1)
    with pytest.raises(UserError, match="not the file that the run wrote"):
        retune(copy)
    assert (copy / "card.json").read_bytes() == card
    opened = open_run(copy, with_data=False)
    assert name == evidence.FILE or opened.logits == {}
    assert name == evidence.LOGITS or opened.evidence == {}
    assert any(name in sentence for sentence in opened.missing)


def test_an_edited_record_is_said_to_be_edited(copy):
    path = copy / "record.json"
    record = json.loads(path.read_text())
    record["metrics"]["final"]["mAP"]["total"] = 0.999
    path.write_text(json.dumps(record, indent=1) + "\n")
    assert any(line.startswith("record.json is not as the run wrote it") for line in open_run(copy).missing)


def test_tuning_again_leaves_a_manifest_that_fits(copy):
    before = (copy / "card.json").read_bytes()
    retune(copy, goal="recall", wanted=0.9)
    assert (copy / "card.json").read_bytes() != before
    assert manifest.edited(copy) == []


def test_tuning_may_be_killed_at_any_rename(copy, monkeypatch):
    real, ends = os.replace, 0
    for crash in range(1, 8):
        calls = []

        def counting(*paths, calls=calls, crash=crash):
            calls.append(paths)
            if len(calls) == crash:
                raise KeyboardInterrupt
            real(*paths)

        monkeypatch.setattr(os, "replace", counting)
        try:
            retune(copy, goal="recall", wanted=0.5 + crash / 100)
            ends += 1
        except KeyboardInterrupt:
            pass
        finally:
            monkeypatch.setattr(os, "replace", real)
        assert manifest.edited(copy) == []
        load(copy)
    assert ends >= 3  # the last ones were not disturbed


def test_a_folder_without_a_manifest_is_opened_as_before(copy):
    (copy / manifest.FILE).unlink()
    assert manifest.edited(copy) == []
    assert open_run(copy, with_data=False).logits
    retune(copy)
    assert not (copy / manifest.FILE).exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "raretag run 9", "files": {}}', "\x00"])
def test_a_damaged_manifest_is_one_line(content, copy):
    (copy / manifest.FILE).write_text(content)
    with pytest.raises(UserError, match=r"manifest\.json"):
        retune(copy)
