"""`raretag serve`: the model of a run over HTTP. POST /predict, GET /labels, /health, /openapi.json, and a page."""

from __future__ import annotations

import asyncio
import hmac
import html
import json
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from raretag.core.errors import UserError
from raretag.data.inputs.mixed import KIND as MIXED
from raretag.data.inputs.mixed import columns_of
from raretag.serve.asked import Asked, BusyError, Found
from raretag.serve.model import Model
from raretag.serve.predictions import Predictions
from raretag.serve.web import LOCAL, Guard, TooLargeError, body_of


def build_server(asked: Asked, hosts: Any = LOCAL, token: str = "") -> Any:
    """The ASGI application; with a token, requests need `Authorization: Bearer TOKEN`."""
    limits = asked.limits

    async def predict(request: Request) -> Response:
        try:
            body = await asyncio.wait_for(body_of(request, limits.bytes), limits.seconds)
            items, form = _read(request, body)
            top = _top(form)
            found = await asked.predict(asked.items(items), 1 if top is None else top)
            return JSONResponse({"predictions": _rows(found, top, form)})
        except UserError as error:
            return _trouble(400, str(error))
        except TooLargeError as error:
            return _trouble(413, str(error))
        except BusyError:
            return _trouble(503, f"{limits.waiting} requests are waiting already", {"retry-after": "1"})
        except (TimeoutError, asyncio.TimeoutError):
            return _trouble(504, f"not answered within {limits.seconds:g} seconds")

    async def labels(request: Request) -> Response:
        start = request.query_params.get("start", "0")
        if not (start.isascii() and start.isdigit() and len(start) < 12):
            return _trouble(400, "start is not a number; expected how many labels to leave out")
        return JSONResponse({"total": len(asked.model.labels), "labels": asked.model.label_rows(int(start))})

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "waiting": asked.waiting, "model": asked.model.seal[:16]})

    async def openapi(_: Request) -> Response:
        return JSONResponse(description(asked))

    async def page(_: Request) -> Response:
        return HTMLResponse(readable(description(asked)))

    @asynccontextmanager
    async def life(_: Any) -> Any:
        yield
        asked.close()  # what is under way is finished first

    routes = [
        Route("/predict", predict, methods=["POST"]),
        Route("/labels", labels),
        Route("/health", health),
        Route("/openapi.json", openapi),
        Route("/", page),
    ]
    app: Any = Starlette(routes=routes, lifespan=life)
    return Guard(Bearer(app, token) if token else app, hosts)


class Bearer:
    """Lets in who knows the token; /health stays open, for those who only watch."""

    def __init__(self, app: Any, token: str) -> None:
        self.app, self.expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers") or ()).get(b"authorization", b"")
        if scope["type"] != "http" or scope["path"] == "/health" or hmac.compare_digest(given, self.expected):
            await self.app(scope, receive, send)
        else:
            await _trouble(401, "expected Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"})(
                scope, receive, send
            )


def _read(request: Request, body: bytes) -> tuple[Any, dict[str, Any]]:
    """Items, and how the answer shall look."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind.startswith("image/"):
        return [body], dict(request.query_params)
    if kind != "application/json":
        raise UserError(
            f"the content type is {kind or 'missing'!r}; expected application/json, or image/jpeg and the like"
        )
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise UserError("the request is not JSON") from None
    if not isinstance(given, dict):
        raise UserError("expected an object with 'items'")
    return given.get("items"), given


def _top(form: dict[str, Any]) -> int | None:
    """How many of the likeliest labels to give, if any."""
    if form.get("top") is None:
        return None
    try:
        return int(form["top"])
    except (TypeError, ValueError, OverflowError):
        raise UserError("top is not a number; expected how many of the likeliest labels to give") from None


def _rows(found: Found, top: int | None, form: dict[str, Any]) -> list[dict[str, Any]]:
    """By default the chosen labels; with `top` the likeliest too; with `probabilities` all, in the order of /labels."""
    rows: list[dict[str, Any]] = [{"labels": _scored(some)} for some in found.chosen_pairs()]
    if top is not None:
        for row, some in zip(rows, found.top(top), strict=True):
            row["top"] = _scored(some)
    if form.get("probabilities") in (True, "true", "1"):
        if not isinstance(found, Predictions):
            raise UserError("this model ranks its labels and does not score them all; ask for top instead")
        for row, p in zip(rows, found.probabilities.tolist(), strict=True):
            row["probabilities"] = p
    return rows


def _scored(pairs: list[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"label": label, "probability": p} for label, p in pairs]


def _trouble(status: int, words: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": words}, status, headers=headers)


def description(asked: Asked) -> dict[str, Any]:
    """OpenAPI 3.1, for this model."""
    limits, reads = asked.limits, asked.reads
    shape = asked.converter.description.get("shape") or asked.model.card.input_shape
    item: dict[str, Any] = {"type": "string", "example": "a text"}
    if reads == "images":
        item = {"type": "object", "properties": {"image": {"type": "string", "contentEncoding": "base64"}}}
    elif asked.converter.kind == MIXED:
        item = {"type": "object", "required": columns_of(asked.converter.description), "properties": columns(asked)}
    elif reads != "texts":
        item = {"type": "array", "items": {"type": "number"}, "description": f"of shape {list(shape)}"}
        if asked.columns:
            some = {"type": "object", "additionalProperties": {"type": "number"}, "example": {"0": 1.5}}
            item = {"oneOf": [item, {**some, "description": "the columns that are not 0, counted from 0"}]}
    scored = {"type": "object", "properties": {"label": {"type": "string"}, "probability": {"type": "number"}}}
    request: dict[str, Any] = {
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": {"type": "array", "minItems": 1, "maxItems": limits.items, "items": item},
            "top": {"type": "integer", "minimum": 1, "description": "also give the likeliest labels, chosen or not"},
        },
    }
    thresholds = "all labels have one threshold"
    if isinstance(asked.model, Model):
        every = {"type": "boolean", "description": "also give all, in the order of /labels"}
        request["properties"]["probabilities"] = every
        thresholds = "each label has its own threshold"
    row = {
        "type": "object",
        "properties": {
            "labels": {"type": "array", "items": scored, "description": "chosen: above the threshold"},
            "top": {"type": "array", "items": scored},
            "probabilities": {"type": "array", "items": {"type": "number"}},
        },
    }
    answer = {"type": "object", "properties": {"predictions": {"type": "array", "items": row}}}
    content: dict[str, Any] = {"application/json": {"schema": request}}
    if reads == "images":
        content["image/*"] = {"schema": {"type": "string", "format": "binary"}}
    failures = {
        "400": "the request is not what this model reads",
        "413": f"longer than {limits.megabytes:g} MB",
        "503": f"{limits.waiting} requests are waiting already",
        "504": f"not answered within {limits.seconds:g} seconds",
    }
    said = {status: {"description": words} for status, words in failures.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"raretag: {len(asked.model.labels)} labels from {reads}",
            "version": asked.model.seal[:16],
            "description": f"Probabilities are calibrated, and {thresholds}.",
        },
        "paths": {
            "/predict": {
                "post": {
                    "summary": f"Labels of {reads}",
                    "requestBody": {"required": True, "content": content},
                    "responses": {
                        "200": {"description": "one row per item", "content": {"application/json": {"schema": answer}}},
                        **said,
                    },
                }
            },
            "/labels": _plain(
                "Labels with their thresholds and training positives; ?start=N leaves out N of very many"
            ),
            "/health": _plain("Whether the server answers, and how many requests wait"),
        },
    }


def columns(asked: Asked) -> dict[str, Any]:
    """What each column of a table may hold."""
    found: dict[str, Any] = {name: {"type": ["string", "null"]} for name in columns_of(asked.converter.description)}
    for one in asked.converter.description["columns"] or ():
        known = {"type": ["number", "null"]} if one["kind"] == "number" else {"examples": one["values"][:20]}
        found[one["column"]] = found[one["column"]] | known
    return found


def _plain(summary: str) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": {"200": {"description": "JSON"}}}}


def readable(found: dict[str, Any]) -> str:
    """The description as a page without scripts."""
    parts = [f"<h1>{html.escape(found['info']['title'])}</h1><p>{html.escape(found['info']['description'])}</p>"]
    for path, methods in found["paths"].items():
        for method, about in methods.items():
            parts.append(f"<h2>{method.upper()} {html.escape(path)}</h2><p>{html.escape(about['summary'])}</p>")
            schemas = about.get("requestBody", {}).get("content", {})
            for kind, one in schemas.items():
                shown = html.escape(json.dumps(one["schema"], indent=2))
                parts.append(f"<p>{html.escape(kind)}</p><pre>{shown}</pre>")
            lines = [
                f"<li>{status}: {html.escape(one['description'])}</li>" for status, one in about["responses"].items()
            ]
            parts.append(f"<ul>{''.join(lines)}</ul>")
    link = '<p><a href="openapi.json">openapi.json</a></p>'
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>raretag</title><body>{"".join(parts)}{link}'
