"""What a server in any language must do to a raw item before the graph reads it, as files beside the graph.

    model.onnx              numbers in, logits or decisions out (export.py)
    model.inputs.json       labels, thresholds, and how a text or the columns of a table become these numbers
    model.tokenizer.json    of a text encoder: the rules of its tokens, which the package tokenizers reads
    model.encoder.onnx      of a frozen one: tokens [B, T] int64, -1 after the last, to vectors [B, D]

docs/using-a-model.md explains each entry, and examples/deploy_text.py uses them with NumPy and onnxruntime alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raretag.core.errors import UserError
from raretag.core.files import write_json, write_text
from raretag.data.inputs.described import encoder_of
from raretag.data.inputs.mixed import KIND as MIXED
from raretag.data.inputs.mixed import LIMIT
from raretag.data.inputs.text import PIECES, SIDE_BY_SIDE, TOKEN
from raretag.data.inputs.tokens import KIND as TOKENS
from raretag.data.inputs.tokens import TokenInputs, Tokenizer
from raretag.serve.export import refuse_image_columns, tokens_like, write_graph
from raretag.serve.model import Model
from raretag.serve.readers import ReadOptions, sentence_encoder

READS = ("tfidf", "encoder", TOKENS, SIDE_BY_SIDE, MIXED)


def write_inputs(model: Model, path: Path | str, *, encoder: Path | None = None) -> list[Path]:
    """Write what belongs beside the graph in `path`, if raw items are more than its numbers; the files written.

    Args:
        model: As `raretag.load` gives it.
        path: The file that `export` wrote.
        encoder: The folder of the text encoder, if it has moved since training.
    """
    path, card = Path(path), model.card
    if card.inputs.get("kind") not in READS:
        return []
    refuse_image_columns(card.inputs)
    beside = _Beside(path, sentence_encoder(card, ReadOptions(encoder=encoder)))
    content = {
        "graph": path.name,
        **card.model_dump(include={"labels", "thresholds", "calibration"}),
        "inputs": beside.described(card.inputs),
    }
    beside.write_json("inputs", content)
    return beside.written


class _Beside:
    """Files whose names begin as that of the graph."""

    def __init__(self, path: Path, encoder: Path | None) -> None:
        self.path, self.encoder = path, encoder
        self.written: list[Path] = []

    def described(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The card's description, with every rule spelled out and every file named."""
        kind = inputs["kind"]
        if kind == "tfidf":
            return {**inputs, "letters": list(PIECES)} if inputs.get("pieces") else {**inputs, "token": TOKEN}
        if kind == SIDE_BY_SIDE:
            return {**inputs, "parts": {name: self.described(part) for name, part in inputs["parts"].items()}}
        if kind == MIXED:
            found = {"kind": kind, "limit": LIMIT, "columns": inputs["columns"]}
            text = inputs.get("text")
            return found if text is None else found | {"text": {**text, "inputs": self.described(text["inputs"])}}
        if kind == TOKENS:
            return {"kind": kind, **self._tokens(TokenInputs.tokenizer_of(inputs))}
        return {"kind": kind, **self._encoder(inputs)}

    def _encoder(self, inputs: dict[str, Any]) -> dict[str, Any]:
        encoder = encoder_of(inputs, self.encoder)
        graph = self._name("encoder", self.path.suffix)
        try:
            write_graph(encoder.network.float(), tokens_like(encoder.longest), graph, ["vectors"], {"raretag": "{}"})
        except UserError as error:
            raise UserError(f"the encoder '{encoder.name}': {error}") from None
        self.written.append(graph)
        return {"name": encoder.name, "encoder": graph.name, **self._tokens(encoder.tokenizer)}

    def _tokens(self, tokenizer: Tokenizer) -> dict[str, Any]:
        file = self._name("tokenizer", ".json")
        write_text(file, tokenizer.rules)
        self.written.append(file)
        return {
            "tokenizer": file.name,
            "longest": tokenizer.longest,
            "prompt": tokenizer.prompt,
            "lowercase": tokenizer.lower,
            "marks_of_the_ends": not tokenizer.static,
            "left_out": tokenizer.unknown,
        }

    def write_json(self, what: str, content: dict[str, Any]) -> None:
        file = self._name(what, ".json")
        write_json(file, content)
        self.written.insert(0, file)

    def _name(self, what: str, ending: str) -> Path:
        return self.path.with_name(f"{self.path.stem}.{what}{ending}")
