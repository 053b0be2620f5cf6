"""The network of a run, rebuilt from its card and its weights; nothing is unpickled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from raretag.config.settings import Config, Named
from raretag.core import registry
from raretag.core.errors import UserError
from raretag.core.protocols import Resizes
from raretag.core.targets import LabelStatistics
from raretag.data.inputs.tokens import WITH_TOKENS
from raretag.models.assemble import build_backbone, build_model, width_after, width_of
from raretag.runs.card import Card, check_weights


class Network(nn.Module):
    """From inputs, as the data set of training gave them, to logits [B, C]."""

    def __init__(self, encoder: nn.Module | None, model: nn.Module, logits_of: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.encoder, self.model, self.logits_of = encoder, model, logits_of
        self.dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.encoder is not None:
            inputs = self.encoder(inputs).float()
        return self.logits_of(self.model(inputs.to(self.dtype) if inputs.is_floating_point() else inputs)).float()


def load_network(folder: Path, card: Card, model: nn.Module | None = None) -> Network:
    """`model`: your own module, if the run was trained with one; else it is built by the configuration in the card."""
    weights = check_weights(folder, card)
    own = model is not None
    with torch.random.fork_rng(devices=[]):  # the random numbers of the caller stay as they are
        encoder = load_encoder(card)
        if model is None:
            shape = tuple(card.input_shape)
            if is_fine_tuned(card):
                model = assemble_fine_tuned(card, shape)
            else:
                shape = shape if encoder is None else width_after(encoder, shape)
                model = assemble(without_downloads(card.settings), shape, statistics_of(card))
    if card.settings.train.precision == "64-true":
        model = model.double()
    load_weights(model, weights, own)
    return network_of(card, model, encoder)


def network_of(card: Card, model: nn.Module, encoder: nn.Module | None = None) -> Network:
    """A trained model with what comes before and after it; an `encoder` that is not given is built."""
    if encoder is None:
        with torch.random.fork_rng(devices=[]):
            encoder = load_encoder(card)
    logits_of = output_reader(card.settings, statistics_of(card))
    return Network(encoder, model, logits_of).eval().requires_grad_(False)


def assemble(config: Config, shape: tuple[int, ...], statistics: LabelStatistics) -> nn.Module:
    """Backbone, scaling, head and branches as training built them, with weights that are still random."""
    return build_model(
        backbone=config.model,
        head=config.head,
        branches=config.branches,
        scaling=config.data.prepare,
        shape=shape,
        statistics=statistics,
    )


def is_fine_tuned(card: Card) -> bool:
    known = card.settings.encoder.name not in ("none", "auto") or card.inputs.get("kind") == WITH_TOKENS
    return known and card.settings.fine_tune.name != "none"


def assemble_fine_tuned(card: Card, shape: tuple[int, ...]) -> nn.Module:
    """The frozen encoder with its classifier and the tuned networks, with weights that are still random."""
    from raretag.models.fine_tuned import PARTS, EndToEnd, FineTuned, FirstColumns, LastColumns, tuned_network

    config, statistics = card.settings, statistics_of(card)
    classifier = config.model_copy(update={"head": config.head.model_copy(update={"name": "linear"})})
    if card.inputs.get("kind") == WITH_TOKENS:
        from raretag.models.sentence_folder import Layout
        from raretag.models.text_transformer import SentenceNetwork

        tokens, layout = card.inputs["tokens"]["longest"], Layout.of(card.inputs["layout"])
        encoder: nn.Module = FirstColumns(tokens)
        width = shape[0] - tokens
        backbones: list[nn.Module] = [LastColumns(SentenceNetwork(layout), tokens) for _ in range(PARTS)]
    else:
        encoder = build_backbone(config.encoder, shape).eval()
        width = width_of(encoder)
        network = tuned_network(config.encoder, pretrained=False)
        backbones = [build_backbone(network, shape) for _ in range(PARTS)]
    tuned = [EndToEnd(backbone, assemble(classifier, (width_of(backbone),), statistics)) for backbone in backbones]
    return FineTuned(encoder, assemble(config, (width,), statistics), tuned)


def load_weights(model: nn.Module, weights: Path, own: bool) -> None:
    """Fill the model, if every tensor of the file has its place; `own`: the module is the user's."""
    try:
        tensors = load_file(weights)
    except SafetensorError as error:
        raise UserError(f"'{weights}' is damaged: {error}") from None
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for path, module in model.named_modules():
        if isinstance(module, Resizes):
            module.resize_for({name.removeprefix(f"{path}."): shape for name, shape in found.items()})
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if wanted != found:
        name = min(set(wanted.items()) ^ set(found.items()))[0]
        hint = "" if own else "; if you trained a module of your own, give it: load(folder, model=...)"
        raise UserError(
            f"'{weights}' does not fit the model of its card: '{name}' is {found.get(name, 'absent')}, "
            f"expected {wanted.get(name, 'nothing of that name')}{hint}"
        )
    model.load_state_dict(tensors)


def load_encoder(card: Card) -> nn.Module | None:
    """The frozen encoder that training used, by its name; its weights must be the same ones."""
    config = card.settings
    if config.encoder.name in ("none", "auto") or is_fine_tuned(card):  # the latter has it among its weights
        return None
    from raretag.models.pretrained import digest_of  # few models need it

    torch.manual_seed(config.seed)  # an encoder without pretrained weights is a random one
    encoder = build_backbone(config.encoder, tuple(card.input_shape)).eval()
    if digest_of(encoder) != (card.encoder or {}).get("sha256"):
        raise UserError(
            f"the encoder '{config.encoder.name}' has other weights here than in training: another version of its "
            "package? the model would read features that it was not trained on"
        )
    return encoder


def output_reader(config: Config, statistics: LabelStatistics) -> Callable[[Any], Tensor]:
    """How the method finds the logits in the outputs of the model; most methods take them as they are."""
    name, options = config.method.name, config.method.options
    # A card may come from a stranger, so a class from outside is not imported: its model must give the logits itself.
    if name == "auto" or ":" in name or registry.room_of("methods", name) == "solvers":
        return _unchanged
    from raretag.core.method import Method, make_method

    if registry.find("methods", name).logits is Method.logits:
        return _unchanged
    return make_method(name, options, statistics, items=statistics.items, seed=config.seed).logits


def _unchanged(outputs: Tensor) -> Tensor:
    return outputs


def statistics_of(card: Card) -> LabelStatistics:
    """The counts of training. Pairs were used when the model was first made; their effect is in a buffer."""
    labels = len(card.labels)
    positives, negatives = torch.tensor(card.training_positives), torch.tensor(card.training_negatives)
    nothing = torch.empty(0, dtype=torch.int64)
    none = torch.sparse_coo_tensor(nothing.expand(2, 0), nothing, (labels, labels), check_invariants=True)
    return LabelStatistics(positives, negatives, card.training_items, none.coalesce())


def without_downloads(config: Config) -> Config:
    """Weights come from the folder, so that none need be fetched first."""

    def changed(chosen: Named) -> Named:
        known = registry.parameters(registry.find("models", chosen.name))
        return chosen.model_copy(update={"pretrained": False}) if "pretrained" in known else chosen

    return config.model_copy(update={"model": changed(config.model)})
