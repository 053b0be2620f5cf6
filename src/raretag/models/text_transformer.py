"""A text encoder as a network: token numbers in, one vector of length 1 per text out. Frozen, or trained further.

Devlin et al., "BERT", NAACL 2019; Reimers and Gurevych, "Sentence-BERT", EMNLP 2019, arXiv:1908.10084.

    h = network(tokens)                     a vector per token
    v = dense(pooled(h)),   x = v / |v|     pooled as the folder says: the mean, the first token, ...

BERT of the usual layout and tables of token vectors are run here; every other network by the package transformers, from
the folder alone: no code of the folder is run and nothing is fetched. A token number below 0 stands for no token.

As a backbone (`train.fine_tune`) it is trained from the folder's weights on; x is then made as long as the square root
of its width, so that a head learns at the usual rate.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raretag.core.errors import UserError
from raretag.models.bert import Bert, BertShape
from raretag.models.sentence_folder import STATIC, Layout, SentenceFolder, read_folder

_ACTIVATIONS = {"tanh": nn.Tanh, "none": nn.Identity, "relu": nn.ReLU, "gelu": nn.GELU}
# What a config.json may say of how it is loaded, which is for us to decide: other code, other packages, downloads.
_NOT_OURS = ("auto_map", "quantization_config", "attn_implementation", "_attn_implementation", "_name_or_path", "dtype",
             "torch_dtype", "gradient_checkpointing", "transformers_version")  # fmt: skip
_ENCODERS = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel", "umt5": "UMT5EncoderModel"}  # without their decoders


class TextTransformer(nn.Module):
    """Token numbers [B, T], below 0 where there is none, to vectors [B, D].

    Args:
        folder: of an encoder, whose weights are read.
        layout: what the folder said (`Layout.described()`); with `pretrained: false` it is enough.
        pretrained: read the weights; else they are random, to be filled by the weights of a run.
    """

    def __init__(
        self, *, folder: str | None = None, layout: dict[str, Any] | None = None, pretrained: bool = True
    ) -> None:
        super().__init__()
        if pretrained:
            if folder is None:
                raise UserError("text_transformer needs the folder of an encoder: data.encoder=FOLDER, with texts")
            opened = read_folder(Path(folder).expanduser())
            self.network = SentenceNetwork.load(opened)
        elif layout is None:
            raise UserError("text_transformer needs the layout of its encoder, as a run with train.fine_tune writes it")
        else:
            self.network = SentenceNetwork(Layout.of(layout))
        self.features = self.network.width

    def forward(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.network(inputs)
        return found * math.sqrt(self.features)


class SentenceNetwork(nn.Module):
    """The network of a layout, with random weights; `load` reads those of a folder."""

    def __init__(self, layout: Layout, base: nn.Module | None = None) -> None:
        super().__init__()
        self.layout = layout
        self.base = _base(layout.config) if base is None else base
        self.dense = nn.ModuleList(
            nn.Sequential(nn.Linear(one["inputs"], one["outputs"], bias=one["bias"]), _ACTIVATIONS[one["activation"]]())
            for one in layout.dense
        )

    @property
    def width(self) -> int:
        if self.layout.dense:
            return int(self.layout.dense[-1]["outputs"])
        return len(self.layout.pooling) * int(self.base.width)  # type: ignore[arg-type]

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = inputs
        if not torch.compiler.is_exporting():  # columns without a single token cost time
            tokens = tokens[:, : max(1, int((tokens >= 0).sum(1).max()))]
        real = tokens >= 0
        hidden = self.base(tokens.clamp(min=0), real).float()  # [B, T, D]
        pooled = _summed(hidden, real) if self.layout.plain else self._pooled(hidden, real)
        for layer in self.dense:
            pooled = layer(pooled)
        return F.normalize(pooled, dim=1)

    def _pooled(self, hidden: Tensor, real: Tensor) -> Tensor:
        count = real.sum(1, keepdim=True)
        places = torch.arange(1, real.shape[1] + 1, device=real.device)
        parts = []
        for mode in self.layout.pooling:
            if mode == "cls":
                parts.append(hidden[:, 0])
            elif mode == "lasttoken":
                parts.append(
                    hidden.gather(1, (count - 1).clamp(min=0)[:, :, None].expand(-1, -1, hidden.shape[2]))[:, 0]
                )
            elif mode == "max":
                parts.append(hidden.masked_fill(~real[:, :, None], torch.finfo(hidden.dtype).min).amax(1))
            elif mode == "weightedmean":  # later tokens count more
                weight = (real * places).to(hidden)[:, :, None]
                parts.append((hidden * weight).sum(1) / weight.sum(1).clamp(min=1))
            else:
                power = 0.5 if mode == "mean_sqrt_len_tokens" else 1.0
                parts.append(_summed(hidden, real) / count.clamp(min=1) ** power)
        return torch.cat(parts, dim=1)

    @classmethod
    def load(cls, folder: SentenceFolder) -> SentenceNetwork:
        from safetensors.torch import load_file

        layout = folder.layout
        if layout.kind == STATIC:
            base: nn.Module = TokenVectors.load(folder)
        elif BertShape.fits(layout.config):
            base = Bert.load(folder.weights, BertShape.of(layout.config))
        else:
            base = Foreign.load(folder)
        made = cls(layout, base)
        try:
            for layer, file in zip(made.dense, folder.dense_files, strict=True):
                layer.load_state_dict({name.replace("linear.", "0."): one for name, one in load_file(file).items()})
        except Exception as error:
            raise UserError(f"the layers after the encoder in '{folder.path}' do not fit: {error}") from None
        return made.eval()


def _summed(hidden: Tensor, real: Tensor) -> Tensor:
    """Of the tokens; a mean has the same direction."""
    return torch.where(real[:, :, None], hidden, 0.0).sum(1)


def _base(config: dict[str, Any]) -> nn.Module:
    if config.get("model_type") == STATIC:
        return TokenVectors(torch.zeros(config["vocab_size"], config["hidden_size"]))
    return Bert(BertShape.of(config)) if BertShape.fits(config) else Foreign(_made(config), config)


class TokenVectors(nn.Module):
    """A vector for each token, whatever stands beside it: quick, and below a transformer."""

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(values, freeze=False)
        self.width = values.shape[1]

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        found: Tensor = self.table(tokens)
        return found

    @classmethod
    def load(cls, folder: SentenceFolder) -> TokenVectors:
        """model2vec's `embeddings` (with `weights` and `mapping`, where there are any), or `embedding.weight`."""
        from safetensors.torch import load_file

        try:
            stored = load_file(folder.weights[0])
            values = stored["embeddings"] if "embeddings" in stored else stored["embedding.weight"]
            values = values.float()
            if "mapping" in stored:  # several tokens share a vector
                values = values[stored["mapping"].long()]
            if "weights" in stored:
                values = values * stored["weights"].float()[:, None]
        except Exception as error:
            raise UserError(f"'{folder.weights[0]}' holds no token vectors ('embeddings'): {error}") from None
        return cls(values)


class Foreign(nn.Module):
    """A network of the package transformers."""

    def __init__(self, network: nn.Module, config: dict[str, Any]) -> None:
        super().__init__()
        self.network = network
        told: Any = network.config
        self.width = int(told.hidden_size)
        pad = told.pad_token_id  # some networks find the places of tokens by what is not padding
        self.pad = int(pad) if isinstance(pad, int) and pad >= 0 else 0

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        found: Tensor = self.network(
            input_ids=tokens.masked_fill(~real, self.pad), attention_mask=real.long()
        ).last_hidden_state
        return found

    @classmethod
    def load(cls, folder: SentenceFolder) -> Foreign:
        config = folder.layout.config
        maker, settings = _maker(config)
        with quiet():
            try:
                network, report = maker.from_pretrained(
                    str(folder.path),
                    config=settings,
                    local_files_only=True,
                    use_safetensors=True,
                    dtype=torch.float32,
                    output_loading_info=True,
                    **_without_pooler(maker, settings),
                )
            except Exception as error:  # a damaged file, another shape, a class that needs another package
                reason = " ".join(str(error).split())[:200]
                raise UserError(
                    f"'{folder.path}' does not hold the weights that its config.json describes: {reason}"
                ) from None
        missing = sorted(name for name in report["missing_keys"] if "pooler" not in name)
        if missing:
            raise UserError(
                f"'{folder.path}' does not hold the weights that its config.json describes: no {missing[0]!r}"
            )
        return cls(network, config)


def _made(config: dict[str, Any]) -> nn.Module:
    maker, settings = _maker(config)
    with quiet():
        network: nn.Module = (
            maker(settings)
            if hasattr(maker, "config_class")
            else maker.from_config(settings, **_without_pooler(maker, settings))
        )
    return network


def _maker(config: dict[str, Any]) -> tuple[Any, Any]:
    """The class that builds the network, and its settings; code that a folder brings is not run."""
    kind = str(config.get("model_type"))
    try:
        import transformers
    except ImportError:
        raise UserError(
            f"the encoder is of type {kind!r}, which the package transformers runs: pip install 'raretag[huggingface]'"
        ) from None
    kept = {key: value for key, value in config.items() if key not in (*_NOT_OURS, "model_type")}
    try:
        settings = transformers.AutoConfig.for_model(kind, **kept)
    except Exception as error:
        reason = " ".join(str(error).split())[:120]
        raise UserError(
            f"the encoder is of type {kind!r}, which transformers {transformers.__version__} cannot build ({reason}); "
            "an encoder that brings its own code is not run"
        ) from None
    return getattr(transformers, _ENCODERS.get(kind, "AutoModel")), settings


def _without_pooler(maker: Any, settings: Any) -> dict[str, Any]:
    """Its weights are of no use here, and often missing."""
    import inspect

    found = maker if hasattr(maker, "config_class") else maker._model_mapping.get(type(settings), None)
    made = found[0] if isinstance(found, (tuple, list)) else found
    known = inspect.signature(made.__init__).parameters if made is not None else {}
    return {"add_pooling_layer": False} if "add_pooling_layer" in known else {}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """transformers reports on what it reads; what a user must know we say ourselves."""
    from transformers import utils

    logging: Any = utils.logging
    level, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
