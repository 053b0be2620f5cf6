"""A card that a stranger wrote and sealed: it is read, or refused in one line; nothing of it runs."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import shutil

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import raretag
from raretag.core.errors import UserError
from raretag.runs.card import FILE, WEIGHTS, seal_of, sha256
from support.served import feature_rows, train

STRANGE = [None, True, 0, -1, 2**70, 1e308, float("nan"), "", "x" * 5000, "../../etc/passwd", "os:system", [], [[]],
           {}, {"a": {}}, [0] * 3, ["a", "b"], "auto", "\x1b[2J", "subprocess:Popen"]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    feature_rows(folder / "rows.csv")
    return train(folder / "run", ["model.name=mlp"], folder / "rows.csv")


def forged(run, folder, card):
    shutil.copy(run / WEIGHTS, folder / WEIGHTS)
    (folder / FILE).write_text(json.dumps({**card, "seal": seal_of(card)}))
    return folder


def places(card, before=()):
    """Every place of a card, from the outside in."""
    inner = card.items() if isinstance(card, dict) else enumerate(card) if isinstance(card, list) else ()
    for key, value in inner:
        yield (*before, key)
        yield from places(value, (*before, key))


def changed(card, place, value):
    card = copy.deepcopy(card)
    *way, last = place
    inner = card
    for key in way:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return card


def used_or_refused(folder):
    try:
        raretag.load(folder).predict(np.ones((2, 3), np.float32))
    except UserError as error:
        return str(error)
    return ""


def never_surprises(run, folder, tries, seed):
    card = {key: value for key, value in json.loads((run / FILE).read_text()).items() if key != "seal"}
    everywhere, chance = list(places(card)), random.Random(seed)
    for _ in range(tries):
        place, value = chance.choice(everywhere), chance.choice([*STRANGE, ...])
        try:
            message = used_or_refused(forged(run, folder, changed(card, place, value)))
        except Exception as error:
            raise AssertionError(f"{place} = {value!r}: {type(error).__name__}: {error}") from error
        assert "\n" not in message, (place, value)
        assert len(message) < 3000, (place, value)


def test_a_forged_card_is_used_or_refused_in_one_line(run, tmp_path):
    never_surprises(run, tmp_path, 150, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_forged_cards_are_used_or_refused_in_one_line(run, tmp_path, seed):
    never_surprises(run, tmp_path, 25_000, seed)


MODULE = "from pathlib import Path\nPath('ran').touch()\n"


@pytest.mark.parametrize("section", ["model", "head", "branches", "encoder", "method", "data"])
def test_a_card_imports_nothing_from_the_folder_that_it_came_in(run, tmp_path, monkeypatch, section):
    (tmp_path / "brought_along.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    card = json.loads((run / FILE).read_text())
    card["config"][section] = {"name": "brought_along:Thing"}
    del card["seal"]
    forged(run, tmp_path, card)
    with contextlib.suppress(UserError):  # of a method, the model needs nothing
        raretag.load(tmp_path).predict()
    assert not (tmp_path / "ran").exists()


def test_weights_that_claim_more_than_they_hold_are_refused(run, tmp_path):
    card = json.loads((run / FILE).read_text())
    del card["seal"]
    forged(run, tmp_path, card)
    tensors = {name: tensor[..., :1].contiguous() for name, tensor in load_file(run / WEIGHTS).items()}
    save_file(tensors, tmp_path / WEIGHTS)
    card["weights"] = {**card["weights"], "sha256": sha256(tmp_path / WEIGHTS)}
    (tmp_path / FILE).write_text(json.dumps({**card, "seal": seal_of(card)}))
    assert "does not fit" in used_or_refused(tmp_path)
