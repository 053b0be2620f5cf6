"""A trained model as a file for other programs, ONNX or torch.export, checked against the original first.

The file holds one graph: raw numbers in, logits or decisions out, with nothing of the data set around it. How texts
and the columns of a table become these numbers stands beside it, as JSON (export_inputs.py).
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.core.files import replacing
from raretag.data.inputs.mixed import KIND as MIXED
from raretag.data.inputs.text import SIDE_BY_SIDE
from raretag.data.inputs.tokens import KIND as TOKENS
from raretag.models.pretrained import Pretrained
from raretag.serve.model import Model

ENDINGS = {"onnx": ".onnx", "torch": ".pt2"}
TOLERANCE = 1e-3  # of outputs around 1: a graph that differs more computes something else
Runner = Callable[[Tensor], tuple[Any, ...]]  # a batch to the outputs of a file


def export(model: Model, path: Path | str, *, preprocess: bool = False, decide: bool = False) -> float:
    """Write the model for use without raretag; returns the largest difference to PyTorch on random items.

    The batch may have any size. Labels, and what the inputs are, travel as metadata.

    Args:
        model: As `raretag.load` gives it.
        path: A file that ends in .onnx or in .pt2 (torch.export).
        preprocess: Inputs are raw features, counts of words, or uint8 pixels [B, H, W, 3] of the model's size.
        decide: Outputs are calibrated probabilities and decisions, not logits.
    """
    path = Path(path)
    if path.suffix not in ENDINGS.values():
        raise UserError(f"'{path.name}' ends in '{path.suffix}'; expected .onnx or .pt2")
    if not path.parent.is_dir():
        raise UserError(f"the folder '{path.parent}' does not exist")
    refuse_image_columns(model.card.inputs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        graph, example = graph_of(model, preprocess=preprocess, decide=decide)
    return write_graph(graph, example, path, ["probabilities", "chosen"] if decide else ["logits"], metadata(model))


def refuse_image_columns(inputs: dict[str, Any]) -> None:
    """Nobody else could make the numbers that such a graph reads."""
    if inputs.get("kind") == MIXED and "image" in inputs:
        raise UserError("an image network beside other columns is not exported; `raretag predict` runs the model")


def write_graph(graph: nn.Module, example: Tensor, path: Path, names: list[str], about: dict[str, str]) -> float:
    """The file, if it computes what the graph does; returns the largest difference. Tokens may be of any number."""
    with replacing(path) as new:
        if path.suffix == ".onnx":
            _write_onnx(graph, example, new, names, about)
            worst = difference(graph, example, _onnx_runner(new))
        else:
            _write_torch(graph, example, new, about)
            worst = difference(graph, example, _torch_runner(new))
        if worst > TOLERANCE:
            raise UserError(f"the exported graph differs from the model by {worst:.2g}; it was not kept")
    return worst


def metadata(model: Model) -> dict[str, str]:
    """What a user of the file must know, as JSON."""
    card = model.card
    known = card.model_dump(include={"labels", "thresholds", "calibration", "input_shape"})
    return {"raretag": json.dumps({**known, "inputs": without_words(card.inputs)})}


def without_words(inputs: dict[str, Any]) -> dict[str, Any]:
    """The description of inputs without its long lists: whoever needs them has the card."""
    return {
        key: without_words(value) if isinstance(value, dict) else value
        for key, value in inputs.items()
        if key not in ("words", "idf", "rules") or isinstance(value, dict)
    }


def difference(graph: nn.Module, example: Tensor, run: Runner) -> float:
    """The largest difference to the file's outputs, on batches of one item and of several."""
    worst = 0.0
    shorter = [example[:, : example.shape[1] // 2]] if is_tokens(example) else []
    for batch in (example[:1], example, torch.cat([example, example, example[:1]]), *shorter):
        with torch.no_grad():
            wanted = graph(batch)
        for one, other in zip(wanted if isinstance(wanted, tuple) else (wanted,), run(batch), strict=True):
            if tuple(one.shape) != tuple(other.shape):
                return float("inf")
            if one.dtype != torch.bool:
                worst = max(worst, float((one - torch.as_tensor(other)).abs().max()))
    return worst


def _torch_runner(path: Path) -> Runner:
    with path.open("rb") as file:
        module = torch.export.load(file).module()

    def run(batch: Tensor) -> tuple[Any, ...]:
        found = module(batch)
        return found if isinstance(found, tuple) else (found,)

    return run


def _onnx_runner(path: Path) -> Runner:
    session = _package("onnxruntime").InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda batch: tuple(session.run(None, {"inputs": np.asarray(batch)}))


def _write_torch(graph: nn.Module, example: Tensor, path: Path, about: dict[str, str]) -> None:
    content = io.BytesIO()  # torch ends the process if a file cannot take what it writes
    torch.export.save(_traced(graph, example), content, extra_files={"raretag.json": about["raretag"]})
    path.write_bytes(content.getvalue())


def _write_onnx(graph: nn.Module, example: Tensor, path: Path, names: list[str], about: dict[str, str]) -> None:
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
            raise UserError(f"the model cannot be written as ONNX ({cause.strip()}); --to torch may work") from None
        assert program is not None
    model = program.model_proto
    names_of_sizes = dict(
        zip((size.dim_param for size in _sizes(model.graph.input)), ("batch", "tokens"), strict=False)
    )
    for size in _sizes((*model.graph.input, *model.graph.output, *model.graph.value_info)):
        if size.dim_param:  # the exporter gives those that vary names of its own
            size.dim_param = names_of_sizes.get(size.dim_param, size.dim_param)
    onnx.helper.set_model_props(model, about)
    path.write_bytes(model.SerializeToString())


def _sizes(values: Any) -> Iterator[Any]:
    for value in values:
        yield from value.type.tensor_type.shape.dim


def is_tokens(example: Tensor) -> bool:
    """Token numbers [B, T] of texts, which may have any length."""
    return example.dtype == torch.int64


def _traced(graph: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    varies: dict[int, Any] = {0: torch.export.Dim("batch", min=1, max=2**20)}
    if is_tokens(example):
        varies[1] = torch.export.Dim("tokens", min=1, max=example.shape[1])
    try:
        with _quiet(), torch.no_grad():
            return torch.export.export(graph, (example,), dynamic_shapes={"inputs": varies})
    except Exception as error:  # the tracer has many ways to fail on a user's own module
        raise UserError(f"the model cannot be traced: {str(error).splitlines()[0]}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporters print remarks that are of no use to our users."""
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
        raise UserError(f"ONNX needs the package '{name}', not installed: pip install 'raretag[export]'") from None


class Graph(nn.Module):
    """Preprocessing, network, decisions."""

    def __init__(self, before: nn.Module, network: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.before, self.network, self.after = before, network, after

    def forward(self, inputs: Tensor) -> Any:
        return self.after(self.network(self.before(inputs)))


class Scaled(nn.Module):
    """Features to mean 0 and deviation 1, in float64 as in training: large numbers would lose digits."""

    mean: Tensor
    factor: Tensor

    def __init__(self, mean: list[float], std: list[float]) -> None:
        super().__init__()
        centre, deviation = torch.tensor(mean, dtype=torch.float64), torch.tensor(std, dtype=torch.float64)
        steady = deviation <= 1e-12 * centre.abs().clamp(min=1)
        self.register_buffer("mean", centre)
        self.register_buffer("factor", torch.where(steady, 0.0, 1 / torch.where(steady, 1.0, deviation)))

    def forward(self, values: Tensor) -> Tensor:
        return ((values.double() - self.mean) * self.factor).float()


class Pixels(nn.Module):
    """uint8 [B, H, W, 3], of the side that the model reads, to its inputs."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: list[float], std: list[float]) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(values)[:, None, None])

    def forward(self, pixels: Tensor) -> Tensor:
        return (pixels.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.std


class Weighted(nn.Module):
    """How often each word stands in a text [B, W], to TF-IDF weights of length 1."""

    idf: Tensor

    def __init__(self, idf: list[float]) -> None:
        super().__init__()
        self.register_buffer("idf", torch.tensor(idf))

    def forward(self, counts: Tensor) -> Tensor:
        weights = torch.where(counts > 0, 1 + counts.clamp(min=1).log(), 0.0) * self.idf
        length: Tensor = torch.linalg.vector_norm(weights, dim=1, keepdim=True)
        return weights / length.clamp(min=1e-30)


class WeightedParts(nn.Module):
    """The same for counts of several kinds side by side [B, W1 + W2 + ...] (data/inputs/text.py)."""

    def __init__(self, parts: dict[str, dict[str, Any]], weights: dict[str, float]) -> None:
        super().__init__()
        self.sizes = [len(part["idf"]) for part in parts.values()]
        self.parts = nn.ModuleList(Weighted(part["idf"]) for part in parts.values())
        self.weights = [weights[name] for name in parts]

    def forward(self, counts: Tensor) -> Tensor:
        blocks = zip(self.parts, self.weights, counts.split(self.sizes, dim=1), strict=True)
        weighted = torch.cat([weight * part(block) for part, weight, block in blocks], dim=1)
        length: Tensor = torch.linalg.vector_norm(weighted, dim=1, keepdim=True)
        return weighted / length.clamp(min=1e-30)


class Decided(nn.Module):
    """Calibrated probabilities [B, C] float32, and which labels are chosen [B, C] bool.

    Labels are decided on the scale of logits and in float64, so that rounding cannot turn a decision.
    """

    scale: Tensor
    shift: Tensor
    cut: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.register_buffer("scale", model.scale)
        self.register_buffer("shift", model.shift)
        self.register_buffer("cut", torch.logit(model.thresholds))

    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        calibrated = logits.double() * self.scale + self.shift
        return torch.sigmoid(calibrated.float()), calibrated > self.cut


def graph_of(model: Model, *, preprocess: bool, decide: bool) -> tuple[Graph, Tensor]:
    """The graph, and two items to try it with."""
    shape = tuple(model.card.input_shape)
    before, example = preprocessing(model.card.inputs, shape) if preprocess else (nn.Identity(), torch.randn(2, *shape))
    if model.card.inputs.get("kind") == TOKENS:
        example = tokens_like(shape[0])
    after = Decided(model) if decide else nn.Identity()
    network = copy.deepcopy(model.network.cpu())
    for module in network.modules():
        if isinstance(module, Pretrained):
            module.exact = True  # a file is for any machine, also for those that do not multiply bfloat16
    return Graph(before, network, after).eval(), example


def tokens_like(longest: int) -> Tensor:
    """Two texts, of which one has no more than half of the tokens."""
    tokens = torch.randint(0, 4, (2, longest))
    tokens[1, -(longest // 2 + 1) :] = -1
    return tokens


def preprocessing(inputs: dict[str, Any], shape: tuple[int, ...]) -> tuple[nn.Module, Tensor]:
    kind = inputs.get("kind")
    if kind == "features":
        scale = inputs["scale"]
        if scale is None:
            return nn.Identity(), torch.randn(2, *shape)
        step = Scaled(scale["mean"], scale["std"])
        return step, (step.mean + torch.randn(2, *shape).double() * torch.tensor(scale["std"])).float()
    if kind == "images":
        side = inputs["size"]
        return Pixels(inputs["mean"], inputs["std"]), torch.randint(0, 256, (2, side, side, 3), dtype=torch.uint8)
    if kind == "tfidf":
        return Weighted(inputs["idf"]), torch.randint(0, 3, (2, *shape)).float()
    if kind == SIDE_BY_SIDE and all(part["kind"] == "tfidf" for part in inputs["parts"].values()):
        return WeightedParts(inputs["parts"], inputs["weights"]), torch.randint(0, 3, (2, *shape)).float()
    if kind == MIXED:
        raise UserError("columns of several kinds become a vector outside of the graph; leave out --preprocess")
    what = "texts through an encoder" if kind in ("encoder", TOKENS, SIDE_BY_SIDE) else "tensors as they are"
    raise UserError(
        f"the model reads {what}, so there is nothing to preprocess inside the graph; leave out --preprocess"
    )
