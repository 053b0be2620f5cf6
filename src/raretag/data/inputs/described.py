"""New items, made into tensors as the training items were: from what `describe()` gave, shipped as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from raretag.core.errors import UserError
from raretag.core.protocols import Inputs
from raretag.data.inputs.features import Features, Scale
from raretag.data.inputs.images import Images
from raretag.data.inputs.mixed import KIND as MIXED
from raretag.data.inputs.mixed import mixed_maker
from raretag.data.inputs.text import SIDE_BY_SIDE, SideBySide, TfIdf
from raretag.data.inputs.tokens import KIND, WITH_TOKENS, TokenInputs

if TYPE_CHECKING:
    from raretag.data.inputs.encoder import SentenceEncoder


def inputs_from(description: dict[str, Any], raw: Any, *, encoder: Path | None = None) -> Inputs:
    """Inputs of new items, made into tensors as the training items were.

    Args:
        description: what `inputs.describe()` of the training items gave.
        raw: a list of image paths, a list of texts, or an array of features, whichever was described.
        encoder: the folder of the sentence encoder, which is not shipped with a model; it must be that of training.

    >>> import numpy as np, torch
    >>> described = Features(np.zeros((4, 2)), scale=Scale([1, 1], [2, 2])).describe()
    >>> inputs_from(described, np.array([[5.0, 1.0]])).batch(torch.tensor([0]))
    tensor([[2., 0.]])
    """
    return maker_of(description, encoder)(raw)


def maker_of(description: dict[str, Any], encoder: Path | None = None) -> Callable[[Any], Inputs]:
    """The same for many lists of items: a vocabulary or an encoder is read once."""
    kind = description.get("kind")
    if kind == "images":
        return lambda raw: Images(_texts(raw), size=description["size"], fit=description["fit"])
    if kind == "tfidf":
        words = TfIdf.from_vocabulary(description)
        return lambda raw: words.inputs(_texts(raw))
    if kind == "encoder":
        sentences = encoder_of(description, encoder)
        return lambda raw: sentences.inputs(_texts(raw))
    if kind == KIND:
        tokens = TokenInputs.tokenizer_of(description)
        return lambda raw: tokens.inputs(_texts(raw))
    if kind == SIDE_BY_SIDE:
        makers = {name: maker_of(part, encoder) for name, part in description["parts"].items()}
        return lambda raw: _side_by_side(makers, description["weights"], _texts(raw))
    if kind == WITH_TOKENS:
        from raretag.data.inputs.with_tokens import WithTokens  # few models need it

        vectors, numbers = maker_of(description["vectors"], encoder), maker_of(description["tokens"])
        layout = description["layout"]
        return lambda raw: WithTokens(vectors(raw), cast("TokenInputs", numbers(raw)), layout)
    if kind == MIXED:
        texts = maker_of(description["text"]["inputs"], encoder) if "text" in description else None
        return mixed_maker(description, texts)
    if kind == "features":
        return lambda raw: _features(description, raw)
    raise UserError(
        f"inputs of kind {kind!r} are not known; expected images, tfidf, encoder, {KIND}, {SIDE_BY_SIDE}, {MIXED} or "
        "features"
    )


def _side_by_side(
    makers: dict[str, Callable[[Any], Inputs]], weights: dict[str, float], texts: Sequence[str]
) -> SideBySide:
    parts: dict[str, Any] = {name: make(texts) for name, make in makers.items()}
    return SideBySide(parts, weights)


def _texts(raw: Any) -> Sequence[str]:
    if isinstance(raw, str) or not all(isinstance(item, str) for item in raw):
        raise UserError("the items are not a list of texts; expected one text or one path for each")
    return list(raw)


def _features(description: dict[str, Any], raw: Any) -> Inputs:
    scale = description["scale"]
    made = Features(
        raw, names=description["names"], scale=None if scale is None else Scale(scale["mean"], scale["std"])
    )
    if list(made.values.shape[1:]) != description["shape"]:
        raise UserError(f"items have {list(made.values.shape[1:])} features; the model expects {description['shape']}")
    return made


def encoder_of(description: dict[str, Any], folder: Path | None = None) -> SentenceEncoder:
    """The frozen encoder of a description: in a folder, or by its name where a package brings it."""
    from raretag.data.inputs.encoder import PACKAGES, SentenceEncoder
    from raretag.models.sentence_folder import MEAN

    if folder is None and description["name"] not in PACKAGES:
        raise UserError(f"the model reads texts through the encoder '{description['name']}'; name its folder")
    how = {"longest": description["longest"], "pooling": description.get("pooling", MEAN)}
    encoder = SentenceEncoder(folder or description["name"], prompt=description.get("prompt", ""), **how)
    if encoder.digest != description["sha256"]:
        raise UserError(f"'{encoder.folder}' is not the encoder of training, '{description['name']}': its files differ")
    return encoder
