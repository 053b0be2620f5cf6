"""The commands for trained runs: how they are called. What they do is in files of their own, loaded when asked for."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from raretag.cli.commands import Commands

Run = Annotated[Path, typer.Argument(help="A run folder, as `raretag train` leaves it.")]


def suggest(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    data: Annotated[
        str | None, typer.Argument(help="Data set or file to look at instead of the run's training data.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="How many missing positives to suggest.")] = 500,
    quota: Annotated[
        float, typer.Option(help="Share of them dealt evenly to all labels, so that rare ones appear.")
    ] = 0.3,
    wrong: Annotated[int, typer.Option(min=0, help="How many observed labels to doubt at most.")] = 50,
    kept: Annotated[
        float | None, typer.Option(help="Share of the true positives that are marked, if you know it.")
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(help="An earlier list with answers: corrects the probabilities.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Trainings; each scores the items that it did not see.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Folder of the list; default: RUN/suggestions.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="Change a setting of the run.")
    ] = None,
    answers_from_truth: Annotated[
        bool, typer.Option("--answers-from-truth", help="Fill in the answers, where labels were hidden on purpose.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier list.")] = False,
) -> None:
    """List labels that are probably missing or wrong, each with a probability.

    The run is trained again on folds of its data, so that no model judges items it has seen. Stopped jobs go on.
    """
    from raretag.cli.suggest import suggest_labels

    suggest_labels(
        run, data, set_ or [], most=most, quota=quota, wrong=wrong, kept=kept, audit=audit, folds=folds, out=out,
        truth=answers_from_truth, overwrite=overwrite,
    )  # fmt: skip


labels = typer.Typer(cls=Commands, help="Bring answers of people into the labels.", no_args_is_help=True)


@labels.callback()
def of_labels() -> None:
    """Bring answers of people into the labels."""


@labels.command("apply")
def apply(
    answers: Annotated[
        list[Path], typer.Argument(help="Answered lists: CSV, JSONL, or a JSON export of Label Studio.")
    ],
    out: Annotated[Path, typer.Option(help="The new table, or a file of corrections for data that is no table.")],
    data: Annotated[
        str, typer.Option("--data", help="What the answers are about: a run folder, a table, or a data set by name.")
    ],
    form: Annotated[
        str | None, typer.Option("--as", help="table or corrections; default: a table for a table.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="What changed, as CSV; default: OUT.log.csv.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="As in training, e.g. data.labels=tags.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
) -> None:
    """Merge answered suggestions into the labels. Conflicts are listed and left as they are."""
    from raretag.cli.labels import apply_answers

    apply_answers(answers, data, out, set_ or [], form, log, overwrite=overwrite)


def predict(
    run: Run,
    data: Annotated[
        str | None,
        typer.Argument(
            help="A table (.csv .tsv .jsonl .parquet), a folder of images, an array (.npy .npz .safetensors), or "
            "a data set by name; default: the test part of the run's own data."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .csv, .parquet or .jsonl file; default: CSV to standard output.")
    ] = None,
    top: Annotated[int | None, typer.Option(help="Only the K most probable labels of each item.")] = None,
    part: Annotated[
        str | None, typer.Option(help="train, validation or test, of a data set or of a table as training divides it.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Column of the table to read, if it is not called as in training.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where image paths of the table begin; default: beside it.")
    ] = None,
    encoder: Annotated[Path | None, typer.Option(help="Folder of the sentence encoder, if it has moved.")] = None,
    allow_outside: Annotated[
        bool, typer.Option("--allow-outside", help="Image paths of the table may leave the folder.")
    ] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out unreadable images and blank features, and say so.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Items that go through the model at once.")] = 256,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Predict labels of new items. A stopped command goes on where it was when it is given again."""
    from raretag.cli.predict import predict_items
    from raretag.serve.readers import ReadOptions

    options = ReadOptions(part, column or None, folder, allow_outside, "skip" if skip_bad else "fail", encoder)
    predict_items(run, data, options, out=out, top=top, batch_size=batch_size, overwrite=overwrite)


def tune(
    run: Run,
    precision: Annotated[float | None, typer.Option(help="Reach this precision for each label, e.g. 0.8.")] = None,
    recall: Annotated[float | None, typer.Option(help="Reach this recall for each label.")] = None,
    threshold: Annotated[float | None, typer.Option(help="One threshold for all labels, e.g. 0.5.")] = None,
    calibrate: Annotated[bool, typer.Option(help="Also calibrate probabilities.")] = True,
) -> None:
    """Choose the thresholds of a trained model again, on its validation items; default: for the best F1."""
    from raretag.cli.tune import tune_run

    tune_run(run, precision, recall, threshold, calibrate=calibrate)


class Form(str, Enum):
    onnx = "onnx"
    torch = "torch"


def export(
    run: Run,
    to: Annotated[Form, typer.Option(help="onnx, or torch (torch.export).")] = Form.onnx,
    out: Annotated[
        Path | None, typer.Option(help="The file; default: model.onnx or model.pt2 in the run folder.")
    ] = None,
    preprocess: Annotated[
        bool, typer.Option("--preprocess", help="Take raw features or pixels, and scale them inside.")
    ] = False,
    decide: Annotated[
        bool, typer.Option("--decide", help="Give calibrated probabilities and decisions instead of logits.")
    ] = False,
) -> None:
    """Write a trained model for use without raretag, and check it against the original."""
    from raretag.cli.export import export_run

    export_run(run, to.value, out, preprocess=preprocess, decide=decide)
