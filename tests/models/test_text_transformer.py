"""Encoders of several architectures, from folders that transformers, sentence-transformers and model2vec would save.

Every network is a tiny one with random weights, made here; nothing is fetched.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from raretag.core.errors import UserError
from raretag.data.inputs.described import inputs_from
from raretag.data.inputs.encoder import SentenceEncoder
from raretag.models.sentence_folder import read_folder
from raretag.models.text_transformer import SentenceNetwork, TextTransformer
from support.tiny_encoder import KINDS, WORDS, saved, write_tokenizer

pytest.importorskip("transformers")

TEXTS = ["a red car", "the blue bird sings a song the bird", "car", ""]


def sentence_transformers(folder, pooling, *parts):
    """The files that sentence-transformers adds."""
    kinds = ["Transformer", "Pooling", *parts]
    modules = [
        {
            "idx": at,
            "name": str(at),
            "path": f"{at}_{kind}" if at else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for at, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def token_vectors(model, text):
    """[T, D] of one text alone: no padding, no mask."""
    ids = [2, *(WORDS.index(word) if word in WORDS else 1 for word in text.split()), 3]
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).last_hidden_state[0]


def unit(vector):
    return (vector / vector.norm()).numpy()


@pytest.fixture(autouse=True)
def in_full_precision(monkeypatch):
    monkeypatch.setattr("raretag.data.inputs.encoder.fastest_type", lambda: torch.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_transformers_gives_the_mean_of_the_token_vectors(kind, tmp_path):
    model = saved(tmp_path / "it", kind)
    found = SentenceEncoder(tmp_path / "it").vectors(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        assert np.allclose(vector, unit(token_vectors(model, text).mean(0)), atol=1e-5)


POOLED = {
    "cls": lambda h: h[0],
    "max": lambda h: h.amax(0),
    "mean": lambda h: h.mean(0),
    "mean_sqrt_len_tokens": lambda h: h.sum(0) / math.sqrt(len(h)),
    "weightedmean": lambda h: (h * torch.arange(1, len(h) + 1)[:, None]).sum(0) / (len(h) * (len(h) + 1) / 2),
    "lasttoken": lambda h: h[-1],
}
FLAGS = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "weightedmean": "weightedmean_tokens"}


@pytest.mark.parametrize("modes", [[mode] for mode in POOLED] + [["cls", "mean"]], ids="+".join)
def test_token_vectors_are_pooled_as_the_folder_says(modes, tmp_path):
    model = saved(tmp_path / "it", "mpnet")
    flags = {f"pooling_mode_{FLAGS.get(mode, mode)}": mode in modes for mode in POOLED}
    for said in (flags, {"pooling_mode": modes if len(modes) > 1 else modes[0]}):  # of old and of new folders
        sentence_transformers(tmp_path / "it", said, "Normalize")
        encoder = SentenceEncoder(tmp_path / "it")
        made = encoder.inputs(TEXTS)
        for text, vector in zip(TEXTS, made.values, strict=True):
            hidden = token_vectors(model, text)
            assert np.allclose(vector, unit(torch.cat([POOLED[mode](hidden) for mode in modes])), atol=1e-5)
        described = json.loads(json.dumps(made.describe()))
        again = inputs_from(described, TEXTS, encoder=tmp_path / "it").batch(torch.arange(len(TEXTS)))
        assert np.array_equal(again, made.values)


def test_a_layer_after_pooling_a_prompt_and_a_length_are_taken_as_said(tmp_path):
    model = saved(tmp_path / "it", "xlm-roberta")
    sentence_transformers(tmp_path / "it", {"pooling_mode": "mean"}, "Dense", "Normalize")
    (tmp_path / "it" / "2_Dense").mkdir()
    dense = {
        "in_features": 8,
        "out_features": 3,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    (tmp_path / "it" / "2_Dense" / "config.json").write_text(json.dumps(dense))
    layer = torch.nn.Linear(8, 3)
    save_file({f"linear.{name}": value for name, value in layer.state_dict().items()},
              tmp_path / "it" / "2_Dense" / "model.safetensors")  # fmt: skip
    prompts = {"prompts": {"q": "query: "}, "default_prompt_name": "q"}
    (tmp_path / "it" / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    (tmp_path / "it" / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 6, "do_lower_case": True}))
    encoder = SentenceEncoder(tmp_path / "it")
    assert (encoder.longest, encoder.prompt) == (6, "query: ")
    hidden = token_vectors(model, "query: a red car")  # and with its ends 6 tokens
    with torch.no_grad():
        expected = unit(torch.tanh(layer(hidden.mean(0))))
    assert np.allclose(encoder.vectors(["A RED car sings"]), expected, atol=1e-5)
    assert np.allclose(SentenceEncoder(tmp_path / "it", prompt="").vectors(["query: a red car"]), expected, atol=1e-5)


def test_positions_after_padding_are_not_exceeded(tmp_path):
    saved(tmp_path / "it", "xlm-roberta", max_position_embeddings=12)
    encoder = SentenceEncoder(tmp_path / "it")
    assert encoder.longest == 10
    assert np.isfinite(encoder.vectors(["car " * 50])).all()


def static_folder(folder, name="embeddings", **more):
    folder.mkdir(parents=True)
    write_tokenizer(folder)
    values = torch.randn(len(WORDS), 5, generator=torch.Generator().manual_seed(0))
    save_file({name: values, **more}, folder / "model.safetensors")
    return values


def test_static_vectors_of_model2vec_are_means_of_known_tokens(tmp_path):
    values = static_folder(tmp_path / "it")
    (tmp_path / "it" / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True}))
    found = SentenceEncoder(tmp_path / "it").vectors(["a red zebra", "zebra", ""])
    assert np.allclose(found[0], unit(values[[4, 5]].mean(0)), atol=1e-6)
    assert not found[1:].any()  # nothing is known of these
    weighted = tmp_path / "weighted"
    mapping, weights = torch.arange(len(WORDS)).flip(0), torch.linspace(0.1, 1, len(WORDS))
    values = static_folder(weighted, mapping=mapping, weights=weights)
    (weighted / "config.json").write_text(json.dumps({"model_type": "model2vec"}))
    expected = (values[mapping[[4, 5]]] * weights[[4, 5]][:, None]).sum(0)
    assert np.allclose(SentenceEncoder(weighted).vectors(["a red"])[0], unit(expected), atol=1e-6)


def test_static_vectors_of_sentence_transformers_need_no_config(tmp_path):
    values = static_folder(tmp_path / "it" / "0_StaticEmbedding", "embedding.weight")
    module = {"idx": 0, "path": "0_StaticEmbedding", "type": "sentence_transformers.models.StaticEmbedding"}
    (tmp_path / "it" / "modules.json").write_text(json.dumps([module]))
    assert np.allclose(SentenceEncoder(tmp_path / "it").vectors(["red"])[0], unit(values[5]), atol=1e-6)


@pytest.mark.parametrize("kind", ["bert", "mpnet", "modernbert"])
def test_a_network_is_rebuilt_from_its_layout_alone(kind, tmp_path):
    saved(tmp_path / "it", kind)
    made = TextTransformer(folder=str(tmp_path / "it"))
    layout = json.loads(json.dumps(read_folder(tmp_path / "it").layout.described()))
    again = TextTransformer(folder="not looked at", layout=layout, pretrained=False).eval()
    again.load_state_dict(made.state_dict())
    tokens = torch.tensor([[2, 4, 5, 3, -1], [2, 3, -1, -1, -1]])
    assert made.features == 8
    assert torch.equal(made.eval()(tokens), again(tokens))


def test_folders_that_cannot_be_run_are_refused_in_one_line(tmp_path):
    model = saved(tmp_path / "it", "distilbert")
    folder = tmp_path / "it"
    sentence_transformers(folder, {"pooling_mode": "attention"})
    with pytest.raises(UserError, match="the pooling 'attention'; raretag knows cls"):
        read_folder(folder)
    sentence_transformers(folder, {"pooling_mode": "mean"}, "LSTM")
    with pytest.raises(UserError, match="a part of type 'LSTM'"):
        read_folder(folder)
    (folder / "modules.json").unlink()
    (folder / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    with pytest.raises(UserError, match=r"lacks tokenizer.json; AutoTokenizer"):
        read_folder(folder)
    (tmp_path / "tokenizer.json").rename(folder / "tokenizer.json")
    weights = load_file(folder / "model.safetensors")
    del weights["embeddings.word_embeddings.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match="does not hold the weights"):
        SentenceNetwork.load(read_folder(folder))
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"pytorch_model.bin may run code"):
        read_folder(folder)
    with pytest.raises(UserError, match="does not exist"):
        SentenceEncoder(tmp_path / "nowhere")


def test_code_that_a_folder_brings_is_not_run(tmp_path):
    saved(tmp_path / "it", "distilbert")
    file = tmp_path / "it" / "config.json"
    (tmp_path / "it" / "evil.py").write_text("open('/tmp/raretag-evil', 'w'); raise SystemExit")
    brought = {"auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}
    file.write_text(json.dumps({**json.loads(file.read_text()), **brought}))
    assert SentenceEncoder(tmp_path / "it").vectors(["car"]).shape == (1, 8)
    file.write_text(json.dumps({**brought, "model_type": "evil"}))
    with pytest.raises(UserError, match="brings its own code is not run"):
        SentenceEncoder(tmp_path / "it").vectors(["car"])
