"""The network of a run, rebuilt from its card and its weights; nothing is unpickled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from raretag.core import registry as registry
from raretag.core.errors import UserError
from raretag.core.method import Method, make_method
from raretag.core.targets import LabelStatistics
from raretag.engine.build import build_backbone, build_model
from raretag.engine.card import check_weights, config_of
from raretag.engine.config import Config, Named
from raretag.engine.encode import digest_of


class Network(nn.Module):
    """From inputs, as the data set of training gave them, to logits [B, C]."""

    def __init__(self, encoder: nn.Module | None, model: nn.Module, reading: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.encoder, self.model, self.reading = encoder, model, reading
        self.dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.encoder is not None:
            inputs = self.encoder(inputs).float()
        return self.reading(self.model(inputs.to(self.dtype) if inputs.is_floating_point() else inputs)).float()


def load_network(folder: Path, card: dict[str, Any], model: nn.Module | None = None) -> Network:
    """`model`: your own module, if the run was trained with one; else it is built as the configuration says."""
    weights = check_weights(folder, card)
    config, statistics, shape = config_of(card), statistics_of(card), tuple(card["input_shape"])
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers are his own
        encoder = load_encoder(config, card, shape)
        if encoder is not None:
            with torch.no_grad():
                shape = tuple(encoder(torch.zeros(1, *shape)).shape[1:])
        own = model is not None
        model = build_model(without_downloads(config), shape, statistics) if model is None else model
    if config.train.precision == "64-true":
        model = model.double()
    fill(model, weights, own)
    return Network(encoder, model, reading_of(config, statistics)).eval().requires_grad_(False)


def fill(model: nn.Module, weights: Path, own: bool) -> None:
    try:
        tensors = load_file(weights)
    except SafetensorError as error:
        raise UserError(f"'{weights}' is damaged: {error}") from None
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if wanted != found:
        name = min(set(wanted.items()) ^ set(found.items()))[0]
        hint = "" if own else "; if you trained a module of your own, give it: load(folder, model=...)"
        raise UserError(
            f"'{weights}' does not fit the model of its card: '{name}' is {found.get(name, 'absent')}, "
            f"expected {wanted.get(name, 'nothing of that name')}{hint}"
        )
    model.load_state_dict(tensors)


def load_encoder(config: Config, card: dict[str, Any], shape: tuple[int, ...]) -> nn.Module | None:
    """The frozen encoder that training used, by its name; its weights must be the same ones."""
    if config.encoder.name == "none":
        return None
    torch.manual_seed(config.seed)  # an encoder without pretrained weights is a random one
    encoder = build_backbone(config.encoder, shape).eval()
    if digest_of(encoder) != (card["encoder"] or {}).get("sha256"):
        raise UserError(
            f"the encoder '{config.encoder.name}' has other weights here than in training: another version of its "
            "package? the model would read features that it has never seen"
        )
    return encoder


def reading_of(config: Config, statistics: LabelStatistics) -> Callable[[Any], Tensor]:
    """How the method finds the logits in what the model gives; few methods have anything to say."""
    if registry.find("methods", config.method.name).logits is Method.logits:
        return _as_they_are
    name, options = config.method.name, config.method.options
    return make_method(name, options, statistics, items=statistics.items, seed=config.seed).logits


def _as_they_are(outputs: Tensor) -> Tensor:
    return outputs


def statistics_of(card: dict[str, Any]) -> LabelStatistics:
    """The counts of training. Pairs were used when the model was first made, and what became of them is in a buffer."""
    labels = len(card["labels"])
    positives, negatives = (torch.tensor(card[f"training_{state}"]) for state in ("positives", "negatives"))
    nothing = torch.empty(0, dtype=torch.int64)
    none = torch.sparse_coo_tensor(nothing.expand(2, 0), nothing, (labels, labels), check_invariants=True)
    return LabelStatistics(positives, negatives, card["training_items"], none.coalesce())


def without_downloads(config: Config) -> Config:
    """Weights come from the folder, so that none need be fetched first."""

    def changed(chosen: Named) -> Named:
        known = registry.parameters(registry.find("models", chosen.name))
        return chosen.model_copy(update={"pretrained": False}) if "pretrained" in known else chosen

    return config.model_copy(update={"model": changed(config.model)})
