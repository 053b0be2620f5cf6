"""`raretag train`: settings together, a progress bar, and the table of results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raretag.cli.progress import give, screen
from raretag.core.errors import UserError

if TYPE_CHECKING:
    from raretag.config.settings import Config
    from raretag.runs.folder import Resume
    from raretag.runs.run import Run

DataChanged = Annotated[
    bool, typer.Option("--data-changed", help="Continue even though the data has changed since the run was trained.")
]


def train(
    run: Annotated[
        Path | None,
        typer.Argument(
            help="With --resume: the run folder to continue, or `auto` to start the run in --out or continue it."
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Your own file, or a data set by name; default: the embedded digits.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="A name from `raretag list methods`, or your own package.module:Class; default: what suits the data."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A YAML file of settings, such as the config.yaml of a run.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="Change one setting, e.g. --set train.epochs=4.")
    ] = None,
    test: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of the items to test on, if the data has no test part of its own."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed for the split of the data, the model and the method.")] = None,
    devices: Annotated[
        int | None, typer.Option(min=1, help="Number of processes that train together on this machine.")
    ] = None,
    on: Annotated[
        str, typer.Option(metavar="here|ray", help="Where the processes run: on this machine, or on a Ray cluster.")
    ] = "here",
    effort: Annotated[
        str | None,
        typer.Option(
            metavar="quick|default|best",
            help="How many learners the default method for feature vectors and texts tries.",
        ),
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Allow pretrained weights to be downloaded if they are not installed.")
    ] = False,
    fine_tune: Annotated[
        bool,
        typer.Option(
            "--fine-tune", help="Also train the encoder of the photographs or texts; --method names its loss."
        ),
    ] = False,
    log: Annotated[
        list[str] | None,
        typer.Option(
            "--logger",  # torchrun would take `--log` for an option of its own
            help="Where the numbers are sent: tensorboard, mlflow, wandb, package.module:Class or none; repeatable.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; default: runs/DATA-METHOD-SEED.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run where it stopped; `--resume auto` also starts one.")
    ] = False,
    data_changed: DataChanged = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing run folder.")] = False,
) -> None:
    """Train a model and measure it.

    Without arguments, it trains on the embedded long-tailed digits.
    """
    from raretag.cli.results import print_results, result_of, row_name
    from raretag.config.settings import compose
    from raretag.runs.folder import is_finished, is_first_process, refuse_existing
    from raretag.runs.manifest import CONFIG, edited, sentence
    from raretag.runs.record import read_record

    changes = set_ or []
    auto = resume and run == Path("auto")
    run = None if auto else run
    if resume and overwrite:
        raise UserError("--resume continues a run and --overwrite replaces it: give one of them")
    if run is not None and not resume:
        hint = f"data comes after --data: --data {run}" if run.is_file() else "name a new one with --out"
        raise UserError(f"'{run}' was given, but a run folder is an argument of --resume only; {hint}")
    tuned = (method or "auto") if fine_tune else None  # the method of the network, not of the frozen features
    direct: dict[str, Any] = {"method__name": None if fine_tune else method, "fine_tune__name": tuned}
    direct |= {"data__test": test, "train__devices": devices, "log": log or None}
    direct["encoder__download"] = True if download else None
    settings = compose(config, changes, data, seed=seed, effort=effort, **direct)
    folder = run or out or Path("runs") / f"{data_title(settings)}-{file_name(settings.method.name)}-{settings.seed}"
    if resume and not (auto and not (folder / CONFIG).is_file()):
        given = any(value is not None for value in (data, method, config, test, seed, devices)) or bool(changes)
        settings = stored_settings(folder, settings if given else None)
    check_names(settings)
    resuming: Resume = "auto" if auto else resume
    options: dict[str, Any] = {"resume": resuming, "overwrite": overwrite, "data_changed": data_changed}
    refuse_existing(folder, resume=resuming, overwrite=overwrite)  # before torch is loaded, and again by the engine
    if resume and is_finished(folder):
        if is_first_process():
            record = read_record(folder)
            for name in edited(folder):
                screen(error=True).print(f"remark: {sentence(name)}")
            print_results({row_name(record): record})
            screen().print(f"{folder} was already finished, so nothing was done; `raretag report {folder}` explains it")
            give(result_of(folder, record))
        return
    if on not in ("here", "ray"):
        raise UserError(f"--on {on}; expected here or ray")
    name = "" if settings.method.name == "auto" else f"{settings.method.name} "
    screen(error=True).print(f"training {name}on {data_title(settings)} into {folder}")

    if on == "ray":
        from raretag.integrations.ray import train_on_ray

        train_on_ray(settings, folder, **options)
        record = read_record(folder)
        print_results({row_name(record): record})
        screen().print(f"the run is in {folder}; `raretag report {folder}` explains it")
        give(result_of(folder, record))
        return

    from raretag.cli.progress import run_with_bar
    from raretag.core import stopping
    from raretag.core.listener import SILENT
    from raretag.core.processes import count, leave  # torch is loaded here
    from raretag.engine.run import run as run_silently

    if not is_first_process():
        with stopping.at_steps():  # it ends with the first one
            run_silently(settings, folder, **options, listener=SILENT)
        leave()
        return
    way_on = f"stopped; `raretag train --resume {folder}` continues it"
    stopping.last_words(way_on)
    try:
        found = run_with_bar(settings, folder, **options)
    except (KeyboardInterrupt, stopping.Stopped) as stopped:
        if (folder / "folds").is_dir():
            way_on += " with the folds that are fitted"
        elif not any((folder / name).is_file() for name in ("last.ckpt", "held_out.safetensors")):
            way_on += " from the beginning: nothing was worth keeping yet"
        screen(error=True).print(way_on)
        if count() > 1:  # the others cannot go on alone
            stopping.end(stopping.code_of(stopped))
        raise SystemExit(stopping.code_of(stopped)) from None
    leave()
    print_results({row_name(found.record): found.record})
    signs = [sign.replace("RUN", str(folder)) for sign in signs_of_missing(found)]
    for sign in signs:
        screen().print(f"missing tags? {sign}")
    screen().print(f"the run is in {folder}; `raretag report {folder}` explains it")
    give(result_of(folder, found.record) | {"signs_of_missing_tags": signs})


def signs_of_missing(run: Run) -> list[str]:
    """Whether a table of tags, which says nothing of unknown labels, leaves some out."""
    if run.data is None or run.record.data.notes.get("absent") != "negative":
        return []
    from raretag.suggestions.signs import signs_in_labels, signs_in_scores

    labels, scores = run.data.train.labels, run.logits.get("validation")
    out_of_fold = scores is not None and not run.data.held_out and len(scores) == len(labels)
    by_scores = signs_in_scores(scores.double().numpy(), labels) if out_of_fold and scores is not None else []
    return by_scores or signs_in_labels(labels)


def data_title(settings: Config) -> str:
    """The data in one word."""
    file = data_file(settings)
    return settings.data.name if file is None else file.stem


def data_file(settings: Config) -> Path | None:
    """The file that the data is read from, if it is the user's own."""
    from raretag.config.settings import READERS

    option = dict(READERS.values()).get(settings.data.name)
    return Path(str(settings.data.options[option])) if option in settings.data.options else None


def file_name(name: str) -> str:
    """A method's name as part of a folder's name: `my_package.losses:MyLoss` is MyLoss there."""
    return name.rpartition(":")[2]


def stored_settings(folder: Path, given: Config | None) -> Config:
    """The settings of the run to be resumed; other settings on the command line are a mistake."""
    from raretag.config.settings import checked, flat, read

    if not (folder / "config.yaml").is_file():
        raise UserError(f"'{folder}' is not a run folder (no config.yaml in it), so there is nothing to resume")
    settings = checked(read(folder / "config.yaml"))
    if given is None:
        return settings
    before, after = flat(settings.model_dump()), flat(given.model_dump(exclude_unset=True))
    for key, value in after.items():
        if value != "auto" and before.get(key) != value:
            raise UserError(
                f"{key} is {value!r} here but {before.get(key)!r} in '{folder}': a resumed run keeps its settings; "
                "use another --out for new ones"
            )
    return settings


def check_names(settings: Config) -> None:
    """Find misspelt names before torch is loaded."""
    from raretag.config.settings import READERS
    from raretag.core import registry

    name, file = settings.data.name, data_file(settings)
    is_folder = Path(name).is_dir()
    if not registry.is_known("data", name) and (is_folder or any(mark in name for mark in "./\\")):
        if is_folder:
            raise UserError(f"'{name}' is a folder and not a run folder (no config.yaml in it); expected a data file")
        state = f"is not one of {', '.join(READERS)}" if Path(name).exists() else "does not exist"
        raise UserError(f"the data file '{name}' {state}; data sets by name: `raretag list data`")
    roots = [Path(), *(Path(root) for root in (settings.data.root, os.environ.get("RARETAG_DATA")) if root)]
    if file is not None and not any((root / file.expanduser()).exists() for root in roots):
        raise UserError(f"the data file '{file}' does not exist")
    rooms = {
        "data": settings.data,
        "methods": settings.method,
        "models": settings.model,
        "sampling": settings.sampler,
        "models.heads": settings.head,
    }
    for name in settings.log:
        if name not in ("auto", "none"):
            registry.refuse_unknown("integrations.loggers", name)
    for room, chosen in [*rooms.items(), ("models", settings.encoder), ("methods", settings.fine_tune)]:
        if chosen.name not in ("auto", "none"):
            registry.refuse_unknown(room, chosen.name)
