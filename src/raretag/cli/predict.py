"""`raretag predict`, `tune` and `export`: a trained model in use."""

from __future__ import annotations

import io
import sys
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raretag.cli import progress
from raretag.cli.progress import give, screen
from raretag.cli.train import DataChanged
from raretag.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from raretag.serve.predictions import Tabular

Run = Annotated[Path, typer.Argument(help="A run folder, as `raretag train` leaves it.")]


def predict(
    run: Run,
    data: Annotated[
        str | None,
        typer.Argument(
            help="A table (.csv .tsv .jsonl .parquet), a folder of images, an array (.npy .npz .safetensors), sparse "
            "rows (.svm .txt), or a data set by name; default: the test part of the run's own data."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .csv, .parquet or .jsonl file; default: CSV to standard output.")
    ] = None,
    top: Annotated[
        int | None, typer.Option(help="Give only this many labels per item, the most probable ones.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="The part to predict: train, validation or test, as training split the data.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="Column of the table to read, if it has another name than in training; repeatable."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder that image paths of the table are relative to; default: the table's.")
    ] = None,
    encoder: Annotated[Path | None, typer.Option(help="Folder of the sentence encoder, if it has moved.")] = None,
    prior: Annotated[
        Path | None, typer.Option(help="A file of item, label, score, if the model was trained with data.prior.")
    ] = None,
    allow_outside: Annotated[
        bool, typer.Option("--allow-outside", help="Allow image paths that lead out of the folder.")
    ] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out unreadable images and blank features, and say which.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Number of items that go through the model at once.")] = 256,
    raw_cells: Annotated[
        bool,
        typer.Option(
            "--raw-cells", help="Leave texts in a CSV as they are, even those that a spreadsheet would run as formulas."
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Predict the labels of new items. If the command was stopped, running it again continues where it was."""
    from raretag.cli.progress import item_bar
    from raretag.serve.model import load
    from raretag.serve.predictions import PredictionsFile, write_table
    from raretag.serve.readers import ReadOptions, open_reader

    if top is not None and top < 1:
        raise UserError(f"--top is {top}; expected 1 or more labels")
    model = load(run)
    options = ReadOptions(part, column or None, folder, allow_outside, "skip" if skip_bad else "fail", encoder)
    reader = open_reader(data, model.card, options)
    more: dict[str, Any] = {} if prior is None else {"prior": read_prior(prior, model)}
    if prior is None and getattr(model.card, "outside", None):
        screen(error=True).print("raretag: the model was trained with scores from outside; give them with --prior FILE")
    summary: dict[str, Any] = {"run": run, "items": 0, "labels": len(model.labels)}
    if out is None:
        blocks: Iterator[tuple[int, Tabular]] = model.stream(reader, batch_size=batch_size, top=top, **more)
        for number, (_, found) in enumerate(blocks):
            if progress.as_json:
                summary.setdefault("predictions", []).extend(found.table(top).to_pylist())
                continue
            content = io.BytesIO()
            write_table(found.table(top), content, ".csv", header=number == 0, raw=raw_cells)
            if sys.stdout.isatty():
                screen().print(content.getvalue().decode(), end="")
            else:
                sys.stdout.buffer.write(content.getvalue())
                sys.stdout.flush()
    else:
        made_from = {"seal": model.seal, "items": reader.fingerprint(), "top": top, "bad": options.bad_items}
        made_from |= {"raw": True} if raw_cells else {}
        made_from |= {} if prior is None else {"prior": f"{prior} {prior.stat().st_mtime_ns}"}
        file = PredictionsFile(out, made_from, overwrite=overwrite, raw=raw_cells)
        if file.done:
            screen(error=True).print(f"continuing after {file.done:,} items that were done before")
        with item_bar("predicting", reader.total) as advance:
            advance(file.done)
            done = file.done
            for items in file.fill(model.stream(reader, batch_size=batch_size, skip=file.done, top=top, **more), top):
                advance(items)
                done += items
        summary |= {"out": out, "items": done}
        screen(error=True).print(f"written: {out}")
    for remark in reader.remarks:
        screen(error=True).print(f"raretag: {remark}")
    summary["items"] = len(summary.get("predictions", ())) or summary["items"]
    give({**summary, "remarks": list(reader.remarks)})


def read_prior(path: Path, model: Any) -> Any:
    """Before any item is read, so that a mistake is said at once."""
    from raretag.data.prior import Prior
    from raretag.serve.model import Model

    if not isinstance(model, Model) or model.card.outside is None:
        raise UserError(
            "--prior: the model does not use scores from outside: it was trained without them, or they did not help"
        )
    return Prior.read(path)


def tune(
    run: Run,
    precision: Annotated[float | None, typer.Option(help="Precision that each label has to reach, e.g. 0.8.")] = None,
    recall: Annotated[float | None, typer.Option(help="Recall that each label has to reach.")] = None,
    threshold: Annotated[float | None, typer.Option(help="One threshold for all labels, e.g. 0.5.")] = None,
    calibrate: Annotated[bool, typer.Option(help="Also calibrate the probabilities.")] = True,
    data_changed: DataChanged = False,
) -> None:
    """Choose the thresholds of a trained model again, on its validation items; by default for the best F1."""
    goals = {"precision": precision, "recall": recall, "threshold": threshold}
    given = {name: value for name, value in goals.items() if value is not None}
    if len(given) > 1:
        raise UserError(f"--{' and --'.join(given)} were given; expected one goal, or none for the best F1")
    goal, wanted = next(iter(given.items()), ("f1", None))
    if wanted is not None and not 0 < wanted <= 1:
        raise UserError(f"--{goal} is {wanted}; expected a share above 0 and up to 1, such as 0.8")

    from raretag.runs.card import format_of
    from raretag.runs.lock import writing
    from raretag.runs.ranked_card import RankedCard
    from raretag.serve.retune import retune

    with writing(run, screen(error=True).print) if format_of(run) else nullcontext():  # no folder is made by mistake
        if goal == "threshold":
            card = retune(run, threshold=wanted, calibrate=calibrate, data_changed=data_changed)
        else:
            card = retune(run, goal=goal, wanted=wanted, calibrate=calibrate, data_changed=data_changed)  # type: ignore[arg-type]
    if isinstance(card, RankedCard):
        reached = f"{goal}{'' if wanted is None else f' {wanted}'}"
        cut = card.decision.threshold
        screen().print(f"one threshold for {reached}: a label is chosen above a probability of {cut:.3f}")
        give({"run": run, "goal": goal, "wanted": wanted, "threshold": cut})
        return
    thresholds, notes = sorted(card.thresholds), card.tuned
    screen().print(
        f"{len(thresholds)} thresholds for {goal}{'' if wanted is None else f' {wanted}'}: "
        f"{thresholds[0]:.3f} to {thresholds[-1]:.3f}, median {thresholds[len(thresholds) // 2]:.3f}"
    )
    if notes.get("out_of_reach"):
        why = "have too few positives to choose a threshold from" if goal == "f1" else f"do not reach that {goal}"
        screen().print(f"labels that {why}, and so are never chosen: {notes['out_of_reach']}")
    by_label = dict(zip(card.labels, card.thresholds, strict=True))
    give({"run": run, "goal": goal, "wanted": wanted, "thresholds": by_label, "notes": notes})


def push(
    run: Run,
    to: Annotated[str, typer.Argument(help="hf://OWNER/NAME, or a folder.")],
    public: Annotated[bool, typer.Option("--public", help="Let everyone see it; default: only you.")] = False,
) -> None:
    """Copy a trained model to the Hugging Face Hub or into a folder, with a page that explains it."""
    from raretag.serve.hub import push as copy

    place = copy(run, to, private=not public)
    screen().print(f'{place}; `raretag.load("{to}")` opens it')
    give({"run": run, "address": place})


class Form(str, Enum):
    onnx = "onnx"
    torch = "torch"
    npz = "npz"


def export(
    run: Run,
    to: Annotated[
        Form | None,
        typer.Option(help="onnx, torch (torch.export), or npz, for very many labels; default: onnx, or npz for those."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file; default: model.onnx, model.pt2 or model.npz in the run folder.")
    ] = None,
    preprocess: Annotated[
        bool, typer.Option("--preprocess", help="Take raw features or pixels, and scale them inside the graph.")
    ] = False,
    decide: Annotated[
        bool, typer.Option("--decide", help="Return calibrated probabilities and decisions instead of logits.")
    ] = False,
    encoder: Annotated[Path | None, typer.Option(help="The folder of the text encoder, if it has moved.")] = None,
) -> None:
    """Write a trained model for use without raretag, and check it against the original.

    A model of texts gets files beside it that say how a text becomes its numbers (docs/using-a-model.md).
    """
    from raretag.serve.export import ENDINGS
    from raretag.serve.export import export as write_graph
    from raretag.serve.model import load
    from raretag.serve.ranking import RankingModel

    model = load(run)
    ranks = isinstance(model, RankingModel)
    form = (Form.npz if ranks else Form.onnx) if to is None else to
    if ranks != (form is Form.npz):
        kind = "very many labels, which is written as npz" if ranks else "few labels, which is written as onnx or torch"
        raise UserError(f"--to {form.value} with a model of {kind}")
    ending = {**ENDINGS, "npz": ".npz"}[form.value]
    path = out or run / f"model{ending}"
    if path.suffix != ending:
        raise UserError(f"--out {path} with --to {form.value}; expected a file that ends in {ending}")
    if isinstance(model, RankingModel):
        from raretag.serve.export_ranking import export_ranking

        if preprocess or decide:
            raise UserError("--preprocess and --decide are for graphs; an .npz always holds the scale and the cut")
        worst = export_ranking(model, path)
        screen().print(f"{path}: weights, scale, cut and names for NumPy; scores differ by at most {worst:.1e}")
        give({"file": path, "largest_difference": worst})
        return
    worst = write_graph(model, path, preprocess=preprocess, decide=decide)
    outputs = "calibrated probabilities and decisions" if decide else "logits"
    screen().print(f"{path}: {outputs}, for batches of any size; differs from PyTorch by at most {worst:.1e}")
    from raretag.serve.export_inputs import write_inputs

    beside = write_inputs(model, path, encoder=encoder)
    if beside:
        screen().print(f"beside it: {', '.join(file.name for file in beside)}; examples/deploy_text.py reads them")
    give({"file": path, "outputs": outputs, "largest_difference": worst, "beside": beside})
