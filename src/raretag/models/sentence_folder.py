"""What the folder of a text encoder says of itself: its network, how token vectors become one, how long a text is.

Three layouts are read, and nothing in a folder is ever executed:

    sentence-transformers   modules.json names the parts: Transformer (or StaticEmbedding), Pooling, Dense, Normalize
    transformers            config.json, model.safetensors and tokenizer.json; vectors are the mean over tokens
    model2vec               the same three files, with one tensor of token vectors ("embeddings")

Reimers and Gurevych, "Sentence-BERT", EMNLP 2019. The vector of a text always gets length 1, also where a folder does
not ask for it: vectors of several kinds stand side by side, and a linear model has one strength for all of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raretag.core.errors import UserError

MEAN = ("mean",)
STATIC = "model2vec"  # the model_type of a table of token vectors
NEEDED = ("config.json", "model.safetensors", "tokenizer.json")
_FLAGS = {  # of 1_Pooling/config.json, in the order in which sentence-transformers joins their vectors
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
POOLINGS = tuple(_FLAGS.values())
_ACTIVATIONS = {"Tanh": "tanh", "Identity": "none", "ReLU": "relu", "GELU": "gelu"}
_PADDED_POSITIONS = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "xmod", "data2vec-text")


@dataclass(frozen=True)
class Layout:
    """All that is needed to build the network of an encoder with random weights, ready for JSON."""

    config: dict[str, Any]  # of the network, as config.json has it
    pooling: tuple[str, ...] = MEAN
    dense: tuple[dict[str, Any], ...] = ()  # layers after pooling: inputs, outputs, bias, activation

    @property
    def kind(self) -> str:
        return str(self.config.get("model_type"))

    @property
    def plain(self) -> bool:
        """The mean of token vectors and nothing else."""
        return self.pooling == MEAN and not self.dense

    def described(self) -> dict[str, Any]:
        return {"config": self.config, "pooling": list(self.pooling), "dense": list(self.dense)}

    @classmethod
    def of(cls, described: dict[str, Any]) -> Layout:
        return cls(described["config"], tuple(described["pooling"]), tuple(described["dense"]))


@dataclass(frozen=True)
class SentenceFolder:
    """A folder, and what it says."""

    path: Path  # of the network's own files
    layout: Layout
    longest: int | None = None  # tokens of a text, at most
    lower: bool = False  # texts are lower-cased before they become tokens
    prompt: str = ""  # what stands before every text
    dense_files: list[Path] = field(default_factory=list)

    @property
    def weights(self) -> list[Path]:
        """One file, or several with an index that names them."""
        whole = self.path / "model.safetensors"
        return [whole] if whole.is_file() else sorted(self.path.glob("model-*-of-*.safetensors"))

    @property
    def files(self) -> list[Path]:
        """Everything that the vectors depend on."""
        return [self.path / "config.json", *self.weights, self.path / "tokenizer.json", *self.dense_files]


def read_folder(folder: Path) -> SentenceFolder:
    """What a folder says, refused in one line if raretag cannot do as it says."""
    modules = _json(folder / "modules.json") if (folder / "modules.json").is_file() else [{"type": "Transformer"}]
    if not isinstance(modules, list) or not all(isinstance(one, dict) for one in modules):
        raise UserError(f"'{folder / 'modules.json'}' is not a list of modules")
    path, pooling, dense, files = folder, None, [], []
    for module in modules:
        kind, place = str(module.get("type")).rpartition(".")[2], folder / str(module.get("path") or "")
        if kind in ("Transformer", "StaticEmbedding"):
            path = place
        elif kind == "Pooling":
            pooling = _pooling(place / "config.json")
        elif kind == "Dense":
            dense.append(_dense(place / "config.json"))
            files.append(place / "model.safetensors")
        elif kind not in ("Normalize", "Dropout"):
            raise UserError(
                f"the encoder '{folder}' has a part of type {kind!r}, which raretag cannot run; expected "
                "Transformer or StaticEmbedding, Pooling, Dense and Normalize in its modules.json"
            )
    static = any(str(module.get("type")).endswith("StaticEmbedding") for module in modules)
    found = SentenceFolder(path, Layout({"model_type": STATIC}), dense_files=files)
    wanted = [name for name in NEEDED if name != "config.json" or not static]
    missing = [
        name for name in wanted if not (path / name).is_file() and not (name.startswith("model") and found.weights)
    ]
    missing += [str(file.relative_to(folder)) for file in files if not file.is_file()]
    if missing:
        raise UserError(f"the encoder folder '{path}' lacks {', '.join(missing)}; {_remedy(path, missing)}")
    config = {"model_type": STATIC} if static else _config(path)
    if config["model_type"] == STATIC:
        config = _static(found.weights[0])
    layout = Layout(config, pooling or MEAN, tuple(dense))
    said = _first(path, "sentence_*_config.json")
    longest = [size for size in (said.get("max_seq_length"), _positions(config)) if isinstance(size, int) and size > 0]
    return SentenceFolder(
        path, layout, min(longest, default=None), bool(said.get("do_lower_case")), _prompt(folder), files
    )


def _config(path: Path) -> dict[str, Any]:
    config = _json(path / "config.json")
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise UserError(f"'{path / 'config.json'}' does not say which network it describes (model_type)")
    return config


def _static(file: Path) -> dict[str, Any]:
    """A table of token vectors has no config.json worth reading; its shape is that of its tensors."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "pt") as stored:
            shapes = {name: stored.get_slice(name).get_shape() for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UserError(f"'{file}' is damaged: {error}") from None
    table = shapes.get("embeddings") or shapes.get("embedding.weight")
    if table is None or len(table) != 2:
        raise UserError(f"'{file}' holds no token vectors; expected a tensor 'embeddings' [tokens, numbers]")
    return {"model_type": STATIC, "vocab_size": shapes.get("mapping", table)[0], "hidden_size": table[1]}


def _pooling(file: Path) -> tuple[str, ...]:
    said = _json(file)
    given = said.get("pooling_mode")  # newer folders name the ways, older ones have a flag for each
    modes = [given] if isinstance(given, str) else given or [mode for flag, mode in _FLAGS.items() if said.get(flag)]
    strange = [str(mode) for mode in modes if mode not in POOLINGS]
    if strange:
        raise UserError(f"'{file}' asks for the pooling {strange[0]!r}; raretag knows {', '.join(POOLINGS)}")
    return tuple(modes) or MEAN


def _dense(file: Path) -> dict[str, Any]:
    said = _json(file)
    name = str(said.get("activation_function", "Tanh")).rpartition(".")[2]
    if name not in _ACTIVATIONS or not all(isinstance(said.get(f"{side}_features"), int) for side in ("in", "out")):
        raise UserError(f"'{file}' asks for a layer with {name!r}; raretag knows {', '.join(_ACTIVATIONS)}")
    return {
        "inputs": said["in_features"],
        "outputs": said["out_features"],
        "bias": bool(said.get("bias", True)),
        "activation": _ACTIVATIONS[name],
    }


def _positions(config: dict[str, Any]) -> int | None:
    positions = config.get("max_position_embeddings")
    if isinstance(positions, int) and config.get("model_type") in _PADDED_POSITIONS:
        return positions - 2  # they count from the place after that of padding, which is 1
    return positions


def _prompt(folder: Path) -> str:
    said = _first(folder, "config_sentence_transformers.json")
    prompts, name = said.get("prompts"), said.get("default_prompt_name")
    return str(prompts.get(name) or "") if isinstance(prompts, dict) and name is not None else ""


def _first(folder: Path, pattern: str) -> dict[str, Any]:
    file = next(iter(sorted(folder.glob(pattern))), None)
    found = {} if file is None else _json(file)
    return found if isinstance(found, dict) else {}


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"the encoder lacks '{file}', which its modules.json names") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"the encoder's '{file}' is damaged: {error}") from None


def _remedy(path: Path, missing: list[str]) -> str:
    if (path / "pytorch_model.bin").is_file() and "model.safetensors" in missing:
        return "pytorch_model.bin may run code when it is read: save the model again with transformers, as safetensors"
    if missing == ["tokenizer.json"]:
        return "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of transformers writes it"
    return f"expected {', '.join(NEEDED)}, as transformers and sentence-transformers save them"
