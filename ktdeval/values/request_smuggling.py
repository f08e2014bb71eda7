"""Requests over HTTP that can be read in two ways: a proxy could take one of them, the server behind
it the other (RFC 9112, section 11.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http import HTTPStatus
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_ONCE = frozenset({
    "authorization", "content-length", "content-type", "host", "origin", "proxy-authorization",
    "transfer-encoding",
})  # fmt: skip


def ambiguity(headers: Iterable[tuple[str, str]], once: Iterable[str] = ()) -> str | None:
    """Return why a request with these headers can be read in two ways; None if it can't be. `once`:
    further names of headers that a request has at most once, in small letters.
    """
    counts = Counter(name.lower() for name, _ in headers)
    for name in (*sorted(_ONCE), *once):
        if counts[name] > 1:
            return f"the header {name} appears more than once"

    if counts["content-length"] and counts["transfer-encoding"]:
        return "a request has content-length or transfer-encoding, not both"
    return None


def has_body(headers: Iterable[tuple[str, str]]) -> bool:
    """Whether a body follows a request with these headers."""
    given = {name.lower(): value.strip() for name, value in headers}
    return "transfer-encoding" in given or given.get("content-length", "0") != "0"


def of_scope(scope: Message) -> list[tuple[str, str]]:
    """Return the headers of a request to an ASGI application, in order."""
    headers = []
    for name, value in scope["headers"]:
        headers.append((name.decode("latin-1"), value.decode("latin-1")))
    return headers


class AmbiguousRequestGuard:
    """ASGI middleware that answers a request which can be read in two ways with 400, and closes its
    connection.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        problem = None
        if scope["type"] in ("http", "websocket"):
            problem = ambiguity(of_scope(scope))
        if problem is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": problem})
        else:
            await _refuse(send, problem)


async def _refuse(send: Send, problem: str) -> None:
    body = f"{problem}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    start = {"type": "http.response.start", "status": HTTPStatus.BAD_REQUEST, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
