"""What both servers share: who may ask, how much, and a start that is safe by default.

A page of another site, open in the same browser, can send requests to any address of this machine. So the name that a
request was sent to must be ours (else another site could give its own name to this machine), and what a browser says
of the origin of a request must be this server.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from raretag.core.errors import UserError
from raretag.core.stopping import Stopped

if TYPE_CHECKING:
    from starlette.requests import Request

LOCAL = ("127.0.0.1", "localhost", "[::1]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def need_server() -> None:
    """Both servers come with the extra `review`."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(f"the server needs the package {error.name}: pip install 'raretag[review]'") from None


class Guard:
    """ASGI middleware: refuses other hosts and origins, and adds the headers. `hosts`: names, with or without port.

    Args:
        app: What answers requests that are let in.
        hosts: The names under which this server may be asked.
        prefix: What every path begins with; a secret, compared in constant time. Empty: none.
        must_name_origin: Requests that change something must say where they come from, as browsers do.
    """

    def __init__(self, app: Any, hosts: Iterable[str], prefix: str = "", *, must_name_origin: bool = False) -> None:
        self.app, self.prefix, self.must_name_origin = app, prefix, must_name_origin
        self.hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                there = {name for name, _ in message["headers"]}
                added = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in there]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        reason = self.refusal(scope["method"], scope["path"], headers)
        if reason is None:
            await self.app(scope, receive, with_headers)
            return
        status, words = reason
        kind = [(b"content-type", b"text/plain; charset=utf-8")]
        await with_headers({"type": "http.response.start", "status": status, "headers": kind})
        await send({"type": "http.response.body", "body": words.encode()})

    def refusal(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str] | None:
        """Status and reason, or None for a request that is let in."""
        host = headers.get("host", "").lower()
        if not self.hosts & {"*", host, host.rpartition(":")[0]}:
            return 421, "this server does not answer under that name\n"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return 403, "the request comes from another site\n"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "the request comes from another site\n"
        if self.must_name_origin and origin is None and method not in ("GET", "HEAD"):
            return 403, "the request does not say where it comes from\n"
        if self.prefix and not hmac.compare_digest(path[: len(self.prefix)].encode(), self.prefix.encode()):
            return 403, "the address lacks the token that was printed when the server started\n"
        return None


async def body_of(request: Request, most: int) -> bytes:
    """The body of a request; `TooLargeError` if it is longer than `most` bytes, whatever its header says."""
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > most:
            raise TooLargeError(f"the request is longer than {most:,} bytes")
    return bytes(found)


class TooLargeError(Exception):
    """A body that is longer than allowed."""


def listen(host: str, port: int) -> socket.socket:
    """A socket of this address; port 0: a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"the address {host}:{port} cannot be used: {getattr(error, 'strerror', None) or error}"
        ) from None
    # Connections inherit it. Without it the head of an answer waits 40 ms for its body: asyncio sets it only on sockets
    # whose protocol was named.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def names_of(host: str, given: Iterable[str] = ()) -> list[str]:
    """The names under which a server on this address is asked."""
    everywhere = False
    with contextlib.suppress(ValueError):
        everywhere = ipaddress.ip_address(host).is_unspecified
    return [*LOCAL, *given, *([] if everywhere else [host])]


def serve(app: Any, listening: socket.socket, *, stopped: Callable[[], None] = lambda: None, grace: int = 10) -> None:
    """Answer requests until SIGINT or SIGTERM; what is under way is finished, for `grace` seconds at most."""
    import uvicorn

    settings = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=5,
        timeout_graceful_shutdown=grace,
        h11_max_incomplete_event_size=1 << 16,
    )
    try:
        with contextlib.suppress(KeyboardInterrupt, Stopped):
            uvicorn.Server(settings).run(sockets=[listening])
    finally:
        stopped()
        listening.close()
