"""`raretag review` and `raretag serve`: a page to answer suggestions, and a server to ask for predictions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raretag.cli.progress import give, screen
from raretag.cli.train import DataChanged
from raretag.core.errors import UserError

if TYPE_CHECKING:
    from raretag.config.settings import Config
    from raretag.data.dataset import DataSet
    from raretag.suggestions.listing import Suggestions

LOOPBACK = ("127.0.0.1", "::1", "localhost")
Host = Annotated[
    str, typer.Option(help="The address to listen on; any other than 127.0.0.1 can be reached from outside.")
]
Names = Annotated[
    list[str] | None, typer.Option("--name", help="Another host name that this server answers to; * for any.")
]


def review(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    data: Annotated[
        str | None, typer.Argument(help="Data set or file to look at instead of the run's training data.")
    ] = None,
    suggestions: Annotated[
        Path | None,
        typer.Option(help="Folder of the list; default: RUN/suggestions, which is created if it does not exist."),
    ] = None,
    max_missing: Annotated[int, typer.Option(min=1, help="Largest number of missing positives to list.")] = 500,
    folds: Annotated[int, typer.Option(min=2, help="Number of trainings, if the list has to be made.")] = 5,
    data_changed: DataChanged = False,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any that is free.")] = 0,
    name: Names = None,
) -> None:
    """Answer suggestions on a page in the browser, then train again with the answers.

    Every answer is on the disk before the next item is shown, so you can stop and continue at any time.
    """
    from raretag.cli.train import check_names
    from raretag.config.settings import compose
    from raretag.serve.web import listen, names_of, need_server, serve

    need_server()
    if not (run / "record.json").is_file():
        raise UserError(f"'{run}' is not the folder of a finished run; `raretag train --out {run}` makes one")
    settings = compose(run / "config.yaml", [], data)
    check_names(settings)
    listening = listen(host, port)  # before the work: a port in use is known at once
    note = screen(error=True).print
    place = suggestions or run / "suggestions"
    found, items = open_list(run, settings, place, max_missing, folds, data_changed=data_changed)

    from raretag.review.app import build_app, new_token
    from raretag.review.desk import Desk
    from raretag.review.log import AnswerLog
    from raretag.review.training import Trainer

    folder = run / "review"
    log = AnswerLog(folder / "answers.jsonl")
    desk, trainer = Desk(run.name, settings, items, found, log), Trainer(run, settings, folder)
    token = new_token()
    app = build_app(desk, trainer, token, names_of(host, name or ()))
    shown = f"[{host}]" if ":" in host else host
    note(f"answers are kept in {log.path}; Ctrl+C stops the server, and the same command continues", soft_wrap=True)
    if host not in LOOPBACK:
        note("anyone who can reach this address and has its token can read the items and answer", soft_wrap=True)
    address = f"http://{shown}:{listening.getsockname()[1]}/{token}/"
    screen().print(address)
    give({"address": address, "answers": log.path, "suggestions": len(found)})
    serve(app, listening, stopped=trainer.stop)


def open_list(
    run: Path, settings: Config, folder: Path, most: int, folds: int, *, data_changed: bool = False
) -> tuple[Suggestions, DataSet]:
    """The list in a folder, made if it is not there, and the data that it is about."""
    from raretag.cli.progress import FoldBar
    from raretag.cli.suggest import duration
    from raretag.cli.train import data_title
    from raretag.runs.lock import writing
    from raretag.suggestions import job
    from raretag.suggestions.listing import read_all, write_all

    title = data_title(settings)
    if (folder / "suggestions.jsonl").is_file():
        found, about = read_all(folder)
        if about.get("data") not in (None, title):
            raise UserError(
                f"the list in '{folder}' is about '{about['data']}', not '{title}': name another --suggestions"
            )
        return found, job.load_for(run, settings, data_changed=data_changed)
    seconds = duration(job.expected_seconds(run, folds))
    screen(error=True).print(f"making the list: {settings.method.name} is trained {folds} times{seconds}")
    with writing(run, screen(error=True).print), FoldBar(folds) as bar:
        items = job.load_for(run, settings, data_changed=data_changed)
        options = job.SuggestOptions(most=most, folds=folds, teach=True)
        found, _ = job.suggest_for(settings, run / "out_of_fold", options, data=items, listener=bar)
    if not found.suggestions:
        raise UserError("there is nothing to ask: no label of any item is unknown or negative")
    found = job.with_previews(found, settings)
    write_all(folder, found, {"run": run.name, "data": title, "method": settings.method.name, "folds": folds})
    return found, items


def serve(
    run: Annotated[
        Path, typer.Argument(help="The folder of a finished run; card.json and model.safetensors are enough.")
    ],
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any that is free.")] = 8000,
    name: Names = None,
    max_items: Annotated[int, typer.Option(min=1, help="Largest number of items in one request.")] = 256,
    max_megabytes: Annotated[float, typer.Option(help="Largest size of one request, in megabytes.")] = 32.0,
    max_seconds: Annotated[float, typer.Option(help="Longest time for one request, including its wait.")] = 30.0,
    max_waiting: Annotated[int, typer.Option(min=1, help="Largest number of waiting requests; more are refused.")] = 64,
    device: Annotated[str, typer.Option(help="Where the model runs: cpu, cuda, cuda:1, mps.")] = "cpu",
) -> None:
    """Answer requests for predictions over HTTP: /predict, /labels, /health, /openapi.json.

    If the variable RARETAG_TOKEN is set, requests need the header `Authorization: Bearer TOKEN`.
    """
    from raretag.serve.web import listen, names_of, need_server
    from raretag.serve.web import serve as answer

    need_server()

    from raretag.serve.asked import Asked, Limits
    from raretag.serve.model import load
    from raretag.serve.server import build_server

    asked = Asked(load(run, device=device), Limits(max_items, max_megabytes, max_seconds, max_waiting))
    token = os.environ.get("RARETAG_TOKEN", "")
    listening = listen(host, port)
    if host not in LOOPBACK and not token:
        screen(error=True).print(
            "anyone who can reach this address can use the model: set RARETAG_TOKEN to require a token"
        )
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    screen().print(address)
    give({"address": address})
    answer(build_server(asked, names_of(host, name or ()), token), listening, grace=int(max_seconds) + 1)
