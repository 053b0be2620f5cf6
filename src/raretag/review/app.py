"""The server of the page: plain files, JSON, and pictures made from the items. Nothing is taken in but answers."""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from raretag.core.errors import UserError
from raretag.review.desk import Desk, Filter
from raretag.review.training import Trainer
from raretag.serve.web import LOCAL, Guard, TooLargeError, body_of

SCRIPTS = ("page.js", "dom.js", "item.js", "grid.js", "training.js")
KINDS = {"page.html": "text/html", "page.css": "text/css", "icon.svg": "image/svg+xml"}
KINDS.update(dict.fromkeys(SCRIPTS, "text/javascript"))
MOST_BYTES = 1 << 20
SIDES = (240, 960)  # pixels of a picture in the grid, and alone
_NAME = re.compile(r"[^\x00-\x1f]{1,60}")

Handler = Callable[[Request], Awaitable[Response]]


def new_token() -> str:
    return secrets.token_urlsafe(24)


def build_app(desk: Desk, trainer: Trainer, token: str, hosts: Any = LOCAL) -> Any:
    """The ASGI application; every address begins with /TOKEN/."""

    async def asset(request: Request) -> Response:
        name = request.path_params.get("name", "page.html")
        if name not in KINDS:
            return Response("there is no such file\n", 404)
        content = (files("raretag.review") / "assets" / name).read_bytes()
        return Response(content, media_type=KINDS[name])

    lock = threading.RLock()  # requests come in several threads

    def alone(handle: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def locked(given: Any) -> Any:
            with lock:
                return handle(given)

        return locked

    def summary(_: Any) -> Any:
        return {**desk.summary(), "training": None if trainer.round is None else trainer.round.as_dict()}

    def listed(request: Request) -> Any:
        wanted = Filter.read(request.query_params)
        mode = request.query_params.get("mode")
        if mode == "label":
            return {"questions": desk.select(wanted).tolist()}
        if mode == "labels":
            return {"labels": desk.labels(wanted)}
        return {"items": desk.items(wanted)}

    def questions(request: Request) -> Any:
        numbers = _numbers(request.query_params.get("numbers", ""), len(desk.questions))
        return {"questions": [desk.question(number, look=True) for number in numbers]}

    def item(request: Request) -> Any:
        return desk.item(int(request.path_params["row"]))

    async def picture(request: Request) -> Response:
        row, side = int(request.path_params["row"]), int(request.path_params["side"])
        if side not in SIDES or row >= len(desk.data.train):
            return Response("there is no such picture\n", 404)
        made = await run_in_threadpool(desk.picture, row, side)
        if made is None:
            return Response("this item has no picture\n", 404)
        return Response(made, media_type="image/jpeg", headers={"cache-control": "private, max-age=600"})

    def answer(given: dict[str, Any]) -> Any:
        by = _name(given.get("by"))
        answers = [(str(one["item"]), str(one["label"]), str(one["answer"])) for one in given["answers"]]
        desk.answer(by, answers, settles=given.get("settles") is True)
        return {"written": len(answers), "summary": summary(None)}

    def undo(given: dict[str, Any]) -> Any:
        taken = desk.log.undo(_name(given.get("by")))
        return {
            "undone": [{"item": i, "label": x, "row": desk.places.row.get(i)} for i, x in taken],
            "summary": summary(None),
        }

    def train(_: dict[str, Any]) -> Any:
        with lock:
            desk.log.refresh()
            answers = desk.log.answers()
        return trainer.start(answers).as_dict()

    def stop(_: dict[str, Any]) -> Any:
        trainer.stop()
        return None if trainer.round is None else trainer.round.as_dict()

    def at(path: str, handle: Handler, method: str = "GET") -> Route:
        """The token is part of every path, so that all relative addresses of the page carry it."""
        return Route(f"/{token}/{path}", handle, methods=[method])

    routes = [
        at("", asset),
        at("{name}", asset),
        at("api/summary", _reads(alone(summary))),
        at("api/list", _reads(alone(listed))),
        at("api/questions", _reads(alone(questions))),
        at("api/items/{row:int}", _reads(alone(item))),
        at("pictures/{side:int}/{row:int}", picture),
        at("api/answers", _writes(alone(answer)), "POST"),
        at("api/undo", _writes(alone(undo)), "POST"),
        at("api/train", _writes(train), "POST"),
        at("api/stop", _writes(stop), "POST"),
    ]
    return Guard(Starlette(routes=routes), hosts, f"/{token}/", must_name_origin=True)


def _reads(handle: Callable[[Request], Any]) -> Handler:
    async def answer(request: Request) -> Response:
        return await _answered(handle, request)

    return answer


def _writes(handle: Callable[[dict[str, Any]], Any]) -> Handler:
    """JSON only: no form of another page can send that without being asked first."""

    async def answer(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return JSONResponse({"error": "expected application/json"}, 415)
        try:
            given = json.loads(await body_of(request, MOST_BYTES))
        except TooLargeError as error:
            return JSONResponse({"error": str(error)}, 413)
        except (ValueError, RecursionError):
            return JSONResponse({"error": "the request is not JSON"}, 400)
        return await _answered(handle, given if isinstance(given, dict) else {})

    return answer


async def _answered(handle: Callable[[Any], Any], given: Any) -> Response:
    try:
        return JSONResponse(await run_in_threadpool(handle, given))
    except UserError as error:
        return JSONResponse({"error": str(error)}, 400)
    except (KeyError, TypeError, ValueError) as error:
        return JSONResponse({"error": f"the request is incomplete: {error}"}, 400)


def _name(given: Any) -> str:
    name = str(given or "").strip()
    if not _NAME.fullmatch(name):
        raise UserError("the name of who answers is missing or too long; expected 1 to 60 letters")
    return name


def _numbers(text: str, below: int) -> list[int]:
    found = [int(word) for word in text.split(",") if word.strip()][:200]
    if any(not 0 <= number < below for number in found):
        raise UserError(f"there is no such question; expected numbers below {below}")
    return found
