"""Features of a frozen backbone, computed once and kept on disk: training heads on them is quick, also on a CPU.

The cache is `$RARETAG_CACHE`, or `raretag` in the user's cache folder. A file's name is a hash of the encoder, its
weights, the ids of all items and the inputs of some: a change of any of them is a new file. An image that is replaced
under its old name may go unnoticed; delete the cache then.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from raretag.data.dataset import DataSet, Items, TensorInputs
from raretag.engine.loader import inputs_of

SAMPLE = 16  # items whose inputs are part of the hash


def encoded(data: DataSet, encoder: nn.Module, *, workers: int, say: Callable[[str], None]) -> DataSet:
    """The same data set with features [N, D] in place of its inputs."""
    encoder.eval()
    parts: dict[str, Items] = {name: getattr(data, name) for name in ("train", "validation", "test")}
    named = {name: set(map(str, items.labels.ids)) for name, items in parts.items()}
    # Training and validation items share a file, so that another seed, which splits them otherwise, finds it.
    apart = named["train"].isdisjoint(named["validation"])
    features = {}
    for names in [("train", "validation"), ("test",)] if apart else [("train",), ("validation",), ("test",)]:
        features |= together({name: parts[name] for name in names}, encoder, workers, say)
    return replace(data, **{name: Items(TensorInputs(features[name]), items.labels) for name, items in parts.items()})


def together(
    parts: dict[str, Items], encoder: nn.Module, workers: int, say: Callable[[str], None]
) -> dict[str, Tensor]:
    """The features of each part, from one file in which they lie in the order of their ids."""
    place = [(str(id), name, row) for name, items in parts.items() for row, id in enumerate(items.labels.ids)]
    order = sorted(range(len(place)), key=place.__getitem__)
    path = cache_folder() / f"{key_of([place[at] for at in order], parts, encoder)}.safetensors"
    if not path.exists():
        say(f"computing features of {len(place):,} items ({' and '.join(parts)}), once: kept as {path}")
        computed = torch.cat([features_of(items, encoder, workers, say) for items in parts.values()])
        write(path, computed[order])
    stored = load_file(path)["features"]
    original = torch.empty_like(stored)
    original[order] = stored
    return dict(zip(parts, original.split([len(items) for items in parts.values()]), strict=True))


@torch.no_grad()
def features_of(items: Items, encoder: nn.Module, workers: int, say: Callable[[str], None]) -> Tensor:
    parts, done, told = [], 0, 0
    for rows, inputs in inputs_of(items, list(torch.arange(len(items)).split(32)), None, workers):
        parts.append(encoder(inputs).float())
        done += len(rows)
        if done * 10 // len(items) > told:
            told = done * 10 // len(items)
            say(f"features: {done:,} of {len(items):,}")
    return torch.cat(parts)


def cache_folder() -> Path:
    told = os.environ.get("RARETAG_CACHE")
    return Path(told) if told else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "raretag"


def key_of(place: list[tuple[str, str, int]], parts: dict[str, Items], encoder: nn.Module) -> str:
    digest = hashlib.sha256(f"{type(encoder).__name__} {len(place)}".encode())
    add_weights(digest, encoder)
    digest.update(repr([id for id, _, _ in place]).encode())
    for at in torch.linspace(0, len(place) - 1, min(SAMPLE, len(place))).long().tolist():
        _, name, row = place[at]
        digest.update(parts[name].inputs.batch(torch.tensor([row])).contiguous().numpy())
    return digest.hexdigest()[:32]


def digest_of(encoder: nn.Module) -> str:
    """A hash of an encoder and its weights."""
    digest = hashlib.sha256(type(encoder).__name__.encode())
    add_weights(digest, encoder)
    return digest.hexdigest()


def add_weights(digest: hashlib._Hash, encoder: nn.Module) -> None:
    for name, tensor in encoder.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy())


def write(path: Path, features: Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    save_file({"features": features.contiguous()}, new)
    os.replace(new, path)
