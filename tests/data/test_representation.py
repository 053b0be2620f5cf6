"""Texts as words and sentence vectors side by side: the numbers, what `auto` takes, and what stays of older runs."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import yaml

import raretag
from raretag.config.settings import compose, read
from raretag.core.errors import DataAbsentError, UserError
from raretag.core.protocols import HasBlocks, blocks_of
from raretag.core.solver import Solver
from raretag.data import from_arrays
from raretag.data.inputs import encoder as encoders
from raretag.data.inputs.described import inputs_from
from raretag.data.inputs.encoder import PACKAGES, SentenceEncoder, batches
from raretag.data.inputs.representation import Representation, TextOptions
from raretag.data.inputs.text import TfIdf
from raretag.data.sets.goemotions import Goemotions
from raretag.data.sources import look
from raretag.data.table import Table
from raretag.serve.export import export
from raretag.suggestions.job import suggest
from support.runs import run
from support.tiny_encoder import installed_encoder, tiny_encoder

TEXTS = ["red red car", "blue car", "a red bird sings", "blue blue blue bird", "the car"]
ALL = torch.arange(5)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    return tiny_encoder(tmp_path / "encoder", monkeypatch)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    return installed_encoder(tmp_path, monkeypatch)


def table(path, rows=60):
    things, colours = ("car", "bird", "boat"), ("red", "blue")
    lines = [f"a {colours[i % 2]} {things[i % 3]} number{i},{things[i % 3]};{colours[i % 2]}" for i in range(rows)]
    path.write_text("text,tags\n" + "\n".join(lines) + "\n")
    return path


def made(kind, folder, texts=TEXTS, **more):
    options = TextOptions(kind, **{"characters": 0, "encoder": str(folder), **more})
    return Representation(options, TEXTS).fit(TEXTS).inputs(texts)


def test_both_is_words_beside_sentence_vectors_each_with_half_of_the_length(folder):
    both, words, vectors = (made(kind, folder) for kind in ("both", "tfidf", "encoder"))
    columns = both.blocks()
    assert list(columns) == ["words", "encoder"]
    assert columns["encoder"] == range(len(columns["words"]), len(columns["words"]) + 8)
    batch = both.batch(ALL)
    for name, alone in (("words", words), ("encoder", vectors)):
        assert torch.allclose(batch[:, list(columns[name])] * 2**0.5, alone.batch(ALL), atol=1e-6)
    assert torch.allclose(batch.norm(dim=1), torch.ones(5), atol=1e-6)


def test_a_text_without_a_known_word_has_all_its_length_in_its_sentence_vector(folder):
    both = made("both", folder, ["zebra", "red"])
    words = both.batch(torch.arange(2))[:, list(both.blocks()["words"])]
    assert words[0].abs().sum() == 0
    assert torch.allclose(both.batch(torch.arange(2)).norm(dim=1), torch.ones(2), atol=1e-6)


def test_a_sparse_batch_holds_the_same_numbers(folder):
    both = made("both", folder, characters=20)
    rows = torch.tensor([3, 0, 3])
    found = both.sparse_batch(rows)
    assert np.allclose(found.toarray(), both.batch(rows).numpy(), atol=1e-7)
    assert found.nnz < found.shape[0] * found.shape[1]
    assert list(both.blocks()) == ["words", "characters", "encoder"]


def test_new_texts_become_the_same_through_json(folder):
    both = made("both", folder, characters=20)
    shipped = json.loads(json.dumps(both.describe()))
    again = inputs_from(shipped, TEXTS, encoder=folder)
    assert torch.equal(again.batch(ALL), both.batch(ALL))
    assert again.describe() == both.describe()
    assert again.texts == TEXTS
    (folder / "tokenizer.json").write_text('{"another": 1}')
    with pytest.raises(UserError, match="not the encoder of training"):
        inputs_from(shipped, TEXTS, encoder=folder)


def test_parts_and_joined_parts_know_the_blocks(folder, tmp_path):
    data = Table(file=str(table(tmp_path / "t.csv")), encoder=str(folder), characters=0).load()
    assert isinstance(data.train.inputs, HasBlocks)
    columns = blocks_of(data.train.inputs)
    assert list(columns) == ["words", "encoder"]
    assert blocks_of(data.all_teaching().train.inputs) == columns
    assert columns["encoder"].stop == data.input_shape[0]
    assert blocks_of(from_arrays(np.eye(10), [["a"], ["b"]] * 5).train.inputs) == {}


def test_auto_takes_the_encoder_that_is_installed(installed, tmp_path):
    data = Table(file=str(table(tmp_path / "t.csv"))).load()
    assert data.notes["texts"]["representation"] == "both"
    assert data.notes["texts"]["encoder"] == "tiny"
    assert not any("pip install" in remark for remark in data.remarks)
    parts = ["words", "characters", "encoder"]  # the texts are short
    assert list(blocks_of(from_arrays(TEXTS * 4, [["a"], ["b"]] * 10).train.inputs)) == parts


def test_auto_without_an_encoder_is_words_alone_and_one_line_says_what_is_missing(installed, tmp_path, monkeypatch):
    monkeypatch.setitem(PACKAGES, "tiny", "no_such_package")
    data = Table(file=str(table(tmp_path / "t.csv"))).load()
    assert data.notes["texts"]["representation"] == "tfidf"
    assert list(data.train.inputs.describe()["parts"]) == ["words", "characters"]
    assert sum("pip install no-such-package 'raretag[text]'" in remark for remark in data.remarks) == 1
    asked = Table(file=str(table(tmp_path / "t.csv")), representation="tfidf").load()
    assert not any("pip install" in remark for remark in asked.remarks)
    with pytest.raises(DataAbsentError, match="pip install no-such-package"):
        Table(file=str(table(tmp_path / "t.csv")), representation="both").load()


def test_a_look_at_texts_does_not_encode_them(installed, tmp_path, monkeypatch):
    monkeypatch.setattr(SentenceEncoder, "_encoded", lambda self, texts: pytest.fail("encoded"))
    file = table(tmp_path / "t.csv")
    file.write_text(file.read_text() + "a red car number0,car;red\n")
    found = look(compose(None, ["data.test=0"], data=str(file)).data, 0)
    assert found.duplicates == 1


def test_named_sets_with_an_encoder_and_nothing_else_are_its_vectors_alone():
    assert Goemotions(encoder="minilm").options.representation == "encoder"
    assert Goemotions(encoder="minilm", representation="both").options.representation == "both"
    assert Goemotions().options.representation == "auto"


def test_a_misspelt_representation_is_answered():
    with pytest.raises(UserError, match="expected one of 'auto', 'tfidf', 'encoder', 'both'"):
        Table(file="t.csv", representation="bert")


def test_a_run_writes_what_it_took_and_is_used_as_any_other(installed, tmp_path):
    data, folder = table(tmp_path / "t.csv"), tmp_path / "run"
    run(compose(None, ["effort=quick"], data=str(data)), folder)
    written = yaml.safe_load((folder / "config.yaml").read_text())["data"]
    assert (written["representation"], written["encoder"]) == ("both", "tiny")
    model = raretag.load(folder)
    whole = model.predict(part="train")
    table_rows = model.predict(str(data))
    texts = model.predict(["a red car number0", "something else"])
    order = [table_rows.ids.index(item) for item in whole.ids]
    np.testing.assert_allclose(table_rows.probabilities[order], whole.probabilities, atol=1e-5)
    np.testing.assert_allclose(texts.probabilities[0], table_rows.probabilities[0], atol=1e-5)
    assert export(model, tmp_path / "model.pt2") < 1e-4
    with pytest.raises(UserError, match="texts through an encoder"):
        export(model, tmp_path / "model.pt2", preprocess=True)
    assert len(suggest(folder, folds=2, most=5).promises) >= 0
    run(compose(folder / "config.yaml", []), tmp_path / "again")
    again = raretag.load(tmp_path / "again").predict(part="train")
    np.testing.assert_array_equal(again.probabilities, whole.probabilities)


def test_words_and_pieces_without_an_encoder_are_counted_inside_an_exported_graph(tmp_path):
    data, folder = table(tmp_path / "t.csv"), tmp_path / "run"
    run(compose(None, ["data.representation=tfidf", "effort=quick"], data=str(data)), folder)
    model = raretag.load(folder)
    parts = model.card.inputs["parts"]
    assert list(parts) == ["words", "characters"]  # the texts are short
    texts = ["a red car number0", "blue blue boat"]
    counts = np.concatenate(
        [counted(part, TfIdf.from_vocabulary(part).vectorizer.build_analyzer(), texts) for part in parts.values()], 1
    )
    export(model, tmp_path / "model.pt2", preprocess=True, decide=True)
    found, _ = torch.export.load(tmp_path / "model.pt2").module()(torch.from_numpy(counts))
    np.testing.assert_allclose(found.numpy(), model.predict(texts).probabilities, atol=1e-5)


def counted(part, analyse, texts):
    number = {word: column for column, word in enumerate(part["words"])}
    rows = np.zeros((len(texts), len(number)), np.float32)
    for row, text in enumerate(texts):
        for word in analyse(text):
            if word in number:
                rows[row, number[word]] += 1
    return rows


def test_pieces_come_with_short_texts_and_with_words_nobody_chose():
    short, long = ["so good"] * 3, ["so good " * 100] * 3
    assert TextOptions("tfidf").resolved(short).characters > 0
    assert TextOptions("tfidf").resolved(long).characters == 0
    assert TextOptions("both", encoder="minilm").resolved(short).characters > 0
    assert TextOptions("encoder", encoder="minilm").resolved(short).characters == 0
    assert TextOptions("tfidf", words=500).resolved(short).characters == 0
    assert TextOptions("tfidf", ngrams=2).resolved(short).characters == 0
    assert TextOptions("tfidf", characters=7, words=500).resolved(long).characters == 7
    with pytest.raises(UserError, match=r"data\.characters is -1"):
        TextOptions(characters=-1)


def test_a_run_older_than_the_setting_keeps_its_words(installed, tmp_path):
    data, folder = table(tmp_path / "t.csv"), tmp_path / "run"
    plain = ["data.representation=tfidf", "data.words=20000", "data.ngrams=1", "data.characters=0", "effort=quick"]
    run(compose(None, plain, data=str(data)), folder)
    before = raretag.load(folder).predict(part="train").probabilities
    for name in ("config.yaml", "card.json"):
        forget(folder / name)
    assert "representation" not in yaml.safe_load((folder / "config.yaml").read_text())["data"]
    assert read(folder / "config.yaml")["data"]["representation"] == "tfidf"
    after = raretag.load(folder).predict(part="train").probabilities
    np.testing.assert_array_equal(before, after)


def forget(path):
    """A file of a run as it was before there was a choice."""
    from raretag.runs.card import seal_of

    if path.suffix == ".yaml":
        tree = yaml.safe_load(path.read_text())
        data = tree["data"]
    else:
        tree = json.loads(path.read_text())
        data = tree["config"]["data"]
    for name in ("representation", "words", "ngrams", "characters", "encoder"):
        data.pop(name, None)
    if path.suffix == ".json":
        tree["seal"] = seal_of(tree)
    path.write_text(yaml.safe_dump(tree) if path.suffix == ".yaml" else json.dumps(tree))


class Notices(Solver):
    """Fits nothing; remembers the blocks it was given."""

    seen: dict = {}  # noqa: RUF012

    def solve(self, features, head, listener):
        Notices.seen = dict(self.blocks)

    def vital_signs(self):
        return {}


def test_a_solver_is_given_the_blocks_of_its_features(folder, tmp_path):
    changes = [f"data.encoder={folder}", "train.use_all=false"]
    config = compose(None, changes, data=str(table(tmp_path / "t.csv")))
    run(config, None, method=Notices())
    assert list(Notices.seen) == ["words", "characters", "encoder"]
    run(
        compose(None, [*changes, "model.name=mlp", "model.layers=1"], data=str(tmp_path / "t.csv")),
        None,
        method=Notices(),
    )
    assert Notices.seen == {}


def test_batches_hold_every_row_once_and_no_more_than_their_tokens():
    lengths = [5, 1, 700, 12, 5, 3, 40, 300]
    found = list(batches(lengths, 100))
    assert sorted(row for batch in found for row in batch) == list(range(8))
    assert all(len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= 100 for batch in found)


def test_half_of_the_digits_give_nearly_the_same_vectors(folder, monkeypatch):
    exact = SentenceEncoder(folder).vectors(TEXTS)
    monkeypatch.setattr(encoders, "fastest_type", lambda: torch.bfloat16)
    quick = SentenceEncoder(folder).vectors(TEXTS)
    assert not np.array_equal(exact, quick)
    assert (exact * quick).sum(1).min() > 0.999


def test_long_work_says_how_much_time_is_left(folder, monkeypatch, capsys):
    monkeypatch.setattr(encoders, "_FIRST", 0.0)
    monkeypatch.setattr(encoders, "_SILENCE", 0.0)
    SentenceEncoder(folder, tokens=1).vectors(TEXTS)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4  # the last batch ends the work
    assert lines[0].startswith("encoder: 1 of 5 texts")
    assert all("s left" in line for line in lines)


def test_pieces_of_words_know_words_that_were_never_seen():
    pieces = TfIdf(pieces=True).fit(["painting", "singer"])
    shipped = TfIdf.from_vocabulary(json.loads(json.dumps(pieces.vocabulary())))
    found = shipped.transform(["painter", "zzz"]).toarray()
    assert np.array_equal(found, pieces.transform(["painter", "zzz"]).toarray())
    assert found[0].any()
    assert not found[1].any()
