"""Sentence encoders of a few numbers, in the files of real ones.

One with a stand-in for a tokenizer, in which letters are tokens; and networks of transformers, in which words are.
"""

from __future__ import annotations

import json
import sys
import types
from importlib.machinery import ModuleSpec

import torch
from safetensors.torch import save_file

from raretag.models.bert import Bert, BertShape

SHAPE = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
}


def names_of_huggingface(name):
    for ours, theirs in [
        ("word.", "embeddings.word_embeddings."),
        ("position.", "embeddings.position_embeddings."),
        ("segment.", "embeddings.token_type_embeddings."),
        ("norm_attention", "attention.output.LayerNorm"),
        ("norm_output", "output.LayerNorm"),
        ("query", "attention.self.query"),
        ("key", "attention.self.key"),
        ("value", "attention.self.value"),
        ("wide", "intermediate.dense"),
        ("narrow", "output.dense"),
        ("layers.", "encoder.layer."),
        (".out.", ".attention.output.dense."),
    ]:
        name = name.replace(ours, theirs)
    return "embeddings.LayerNorm" + name[4:] if name.startswith("norm.") else name


class Tokenizer:
    """A stand-in for tokenizers.Tokenizer: letters are tokens."""

    @classmethod
    def from_str(cls, rules):
        return cls()

    def enable_truncation(self, longest):
        self.longest = longest

    def no_padding(self):
        pass

    def encode_batch(self, texts):
        return [types.SimpleNamespace(ids=[1, *(ord(c) % 28 + 2 for c in text)][: self.longest]) for text in texts]


def stand_in():
    module = types.ModuleType("tokenizers")
    module.Tokenizer = Tokenizer
    module.__spec__ = ModuleSpec("tokenizers", None)
    return module


def tiny_encoder(path, monkeypatch):
    """Its folder; the package `tokenizers` is the stand-in from now on, and numbers are float32."""
    monkeypatch.setitem(sys.modules, "tokenizers", stand_in())
    monkeypatch.setattr("raretag.data.inputs.encoder.fastest_type", lambda: torch.float32)
    torch.manual_seed(0)
    model = Bert(BertShape.of(SHAPE))
    weights = {names_of_huggingface(name): value.clone() for name, value in model.state_dict().items()}
    path.mkdir()
    save_file(weights, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(SHAPE))
    (path / "tokenizer.json").write_text("{}")
    return path


def installed_encoder(tmp_path, monkeypatch):
    """The same as the installed package of an encoder called `tiny`, the only one there is."""
    from raretag.data.inputs.encoder import PACKAGES

    package = tmp_path / "tiny_encoder_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    tiny_encoder(package / "model", monkeypatch)
    monkeypatch.delitem(PACKAGES, "minilm")
    monkeypatch.setitem(PACKAGES, "tiny", "tiny_encoder_package")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    return package / "model"


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "red", "blue", "car", "bird", "sings", "the", "query:"]
SMALL = {"vocab_size": len(WORDS), "num_hidden_layers": 2, "num_attention_heads": 2, "pad_token_id": 0}
SIZES = {"hidden_size": 8, "intermediate_size": 16}
KINDS = {
    "bert": (SMALL | SIZES, "BertModel"),
    "mpnet": (SMALL | SIZES | {"pad_token_id": 1, "max_position_embeddings": 40}, "MPNetModel"),
    "xlm-roberta": (SMALL | SIZES | {"pad_token_id": 1, "max_position_embeddings": 40}, "XLMRobertaModel"),
    "modernbert": (SMALL | SIZES | {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3},
                   "ModernBertModel"),
    "distilbert": ({"vocab_size": len(WORDS), "n_layers": 2, "n_heads": 2, "dim": 8, "hidden_dim": 16},
                   "DistilBertModel"),
    "t5": ({"vocab_size": len(WORDS), "d_model": 8, "d_ff": 16, "d_kv": 4, "num_layers": 2, "num_heads": 2},
           "T5EncoderModel"),
    "qwen3": (SMALL | SIZES | {"num_key_value_heads": 1, "head_dim": 4}, "Qwen3Model"),
}  # fmt: skip


def write_tokenizer(folder):
    import tokenizers

    vocabulary = {word: number for number, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.save(str(folder / "tokenizer.json"))


def saved(folder, kind, **more):
    """A folder as `save_pretrained` of transformers leaves it, with random weights; gives the network in it."""
    import transformers

    options, name = KINDS[kind]
    config = transformers.AutoConfig.for_model(kind, **{**options, **more})
    torch.manual_seed(1)
    model = getattr(transformers, name)(config).eval()
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return model
