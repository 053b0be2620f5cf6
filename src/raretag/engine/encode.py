"""Features of a frozen backbone, computed once and kept on disk: training heads on them is quick, also on a CPU.

The cache is `$RARETAG_CACHE`, or `raretag` in the user's cache folder. A file's name is a hash of the encoder, its
weights, the ids of all items and the inputs of some: a change of any of them is a new file. An image that is replaced
under its old name may go unnoticed; delete the cache then.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from raretag.core.files import cache_folder, replacing
from raretag.core.listener import Listener
from raretag.data.dataset import DataSet, Items, TensorInputs
from raretag.engine.batches import inputs_of
from raretag.models.pretrained import add_weights

SAMPLE = 16  # items whose inputs are part of the hash


def encoded(data: DataSet, encoder: nn.Module, *, workers: int, listener: Listener) -> DataSet:
    """The same data set with features [N, D] in place of its inputs."""
    encoder.eval()
    if data.validation is data.train:
        parts = {"train": data.train, "test": data.test}
        kept = {name: together({name: items}, encoder, workers, listener)[name] for name, items in parts.items()}
        all_items, test = (Items(TensorInputs(kept[name]), items.labels) for name, items in parts.items())
        return replace(data, train=all_items, validation=all_items, test=test)
    parts = data.parts
    named = {name: set(map(str, items.labels.ids)) for name, items in parts.items()}
    # Training and validation items share a file, so that another seed, which splits them otherwise, finds it.
    apart = named["train"].isdisjoint(named["validation"])
    features: dict[str, Tensor] = {}
    for names in [("train", "validation"), ("test",)] if apart else [("train",), ("validation",), ("test",)]:
        features |= together({name: parts[name] for name in names}, encoder, workers, listener)
    train, validation, test = (Items(TensorInputs(features[name]), items.labels) for name, items in parts.items())
    return replace(data, train=train, validation=validation, test=test)


def together(parts: dict[str, Items], encoder: nn.Module, workers: int, listener: Listener) -> dict[str, Tensor]:
    """The features of each part, from one file in which they lie in the order of their ids."""
    place = [(str(id), name, row) for name, items in parts.items() for row, id in enumerate(items.labels.ids)]
    order = sorted(range(len(place)), key=place.__getitem__)
    path = cache_folder() / f"{key_of([place[at] for at in order], parts, encoder)}.safetensors"
    if not path.exists():
        listener.message(f"computing features of {len(place):,} items ({' and '.join(parts)}), once: kept as {path}")
        computed = torch.cat([features_of(items, encoder, workers, listener) for items in parts.values()])
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as new:
            save_file({"features": computed[order].contiguous()}, new)
    stored = load_file(path)["features"]
    original = torch.empty_like(stored)
    original[order] = stored
    return dict(zip(parts, original.split([len(items) for items in parts.values()]), strict=True))


@torch.no_grad()
def features_of(items: Items, encoder: nn.Module, workers: int, listener: Listener) -> Tensor:
    parts, done, tenths = [], 0, 0
    for rows, inputs in inputs_of(items, list(torch.arange(len(items)).split(32)), None, workers):
        parts.append(encoder(inputs).float())
        done += len(rows)
        if done * 10 // len(items) > tenths:
            tenths = done * 10 // len(items)
            listener.message(f"features: {done:,} of {len(items):,}")
    return torch.cat(parts) if parts else torch.empty(0, 0)


def key_of(place: list[tuple[str, str, int]], parts: dict[str, Items], encoder: nn.Module) -> str:
    digest = hashlib.sha256(f"{type(encoder).__name__} {len(place)}".encode())
    add_weights(digest, encoder)
    digest.update(repr([id for id, _, _ in place]).encode())
    for at in torch.linspace(0, len(place) - 1, min(SAMPLE, len(place))).long().tolist():
        _, name, row = place[at]
        digest.update(parts[name].inputs.batch(torch.tensor([row])).contiguous().numpy().tobytes())
    return digest.hexdigest()[:32]
