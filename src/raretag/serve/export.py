"""A trained model as a file for other programs, ONNX or torch.export, checked against the original first."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.serve.graph import Graph, graph_of
from raretag.serve.predictor import Predictor

ENDINGS = {"onnx": ".onnx", "torch": ".pt2"}
TOLERANCE = 1e-3  # of outputs around 1: a graph that differs more computes something else


def export(predictor: Predictor, path: Path | str, *, preprocess: bool = False, decide: bool = False) -> float:
    """Write `path`, which ends in .onnx or .pt2; returns the largest difference to PyTorch on random items.

    The batch may have any size. Labels, and what the inputs are, travel as metadata.
    preprocess  inputs are raw features, counts of words, or uint8 pixels [B, H, W, 3] of the model's size
    decide      outputs are calibrated probabilities and decisions, not logits
    """
    path = Path(path)
    if path.suffix not in ENDINGS.values():
        raise UserError(f"'{path.name}' ends in '{path.suffix}'; expected .onnx or .pt2")
    if not path.parent.is_dir():
        raise UserError(f"the folder '{path.parent}' does not exist")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        graph, example = graph_of(predictor, preprocess=preprocess, decide=decide)
    names = ["probabilities", "chosen"] if decide else ["logits"]
    new = path.with_name(f"{path.stem}.new{path.suffix}")
    try:
        (_write_onnx if path.suffix == ".onnx" else _write_torch)(graph, example, new, names, metadata(predictor))
        worst = difference(graph, example, new)
        if worst > TOLERANCE:
            raise UserError(f"the exported graph differs from the model by {worst:.2g}; it was not kept")
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
    return worst


def metadata(predictor: Predictor) -> dict[str, str]:
    card = predictor.card
    told = {key: card[key] for key in ("labels", "thresholds", "calibration", "input_shape")}
    described = {key: value for key, value in card["inputs"].items() if key not in ("words", "idf")}
    return {"raretag": json.dumps({**told, "inputs": described})}


def difference(graph: Graph, example: Tensor, path: Path) -> float:
    """The largest difference to the file's outputs, on batches of one item and of several."""
    run = _runner(path)
    worst = 0.0
    for batch in (example[:1], example, torch.cat([example, example, example[:1]])):
        with torch.no_grad():
            wanted = graph(batch)
        for one, other in zip(wanted if isinstance(wanted, tuple) else (wanted,), run(batch), strict=True):
            if tuple(one.shape) != tuple(other.shape):
                return float("inf")
            if one.dtype != torch.bool:
                worst = max(worst, float((one - torch.as_tensor(other)).abs().max()))
    return worst


def _runner(path: Path) -> Any:
    if path.suffix == ".pt2":
        module = torch.export.load(path).module()

        def run(batch: Tensor) -> Any:
            found = module(batch)
            return found if isinstance(found, tuple) else (found,)

        return run
    session = _package("onnxruntime").InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda batch: session.run(None, {"inputs": np.asarray(batch)})


def _write_torch(graph: Graph, example: Tensor, path: Path, names: list[str], told: dict[str, str]) -> None:
    program = _traced(graph, example)
    torch.export.save(program, path, extra_files={"raretag.json": told["raretag"]})


def _write_onnx(graph: Graph, example: Tensor, path: Path, names: list[str], told: dict[str, str]) -> None:
    onnx = _package("onnx")
    _package("onnxruntime")
    _package("onnxscript")
    traced = _traced(graph, example)
    with _quiet():
        try:
            program = torch.onnx.export(
                traced,
                (),
                input_names=["inputs"],
                output_names=names,
                dynamo=True,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            cause = next((line for line in str(error).splitlines() if "No ONNX function" in line), "see torch.onnx")
            raise UserError(f"the model cannot be written as ONNX ({cause.strip()}); --to torch may do") from None
        assert program is not None
        program.save(path)
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param:  # there is one that varies, and the exporter gives it a name of its own
                size.dim_param = "batch"
    onnx.helper.set_model_props(model, told)
    onnx.save(model, path)


def _traced(graph: Graph, example: Tensor) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1, max=2**20)
    try:
        with _quiet(), torch.no_grad():
            return torch.export.export(graph, (example,), dynamic_shapes={"inputs": {0: batch}})
    except Exception as error:  # the tracer has many ways to fail on a user's own module
        raise UserError(f"the model cannot be traced: {str(error).splitlines()[0]}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporters speak of their own affairs."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _package(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(f"ONNX needs the package '{name}', which is not here: pip install 'raretag[export]'") from None
