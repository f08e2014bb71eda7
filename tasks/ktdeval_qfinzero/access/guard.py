"""What every request passes first: the name it was sent to, the page it comes from, the token that it carries, and its size."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ktdeval_qfinzero.access.dispatch import error_answer
from ktdeval_qfinzero.errors import ServiceError, invalid

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY_BYTES: Final = 1_000_000
LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
CHALLENGE: Final = 'Bearer realm="qfinzero"'


@dataclass(frozen=True, repr=False)
class Security:
    """Who may call.

    Attributes:
        hosts: names that a request may be sent to, which keeps a web page from reaching a server on the reader's own machine by a
            name of its own (DNS rebinding); None: any, as where a token is asked for, which such a page does not have.
        token: what every request must carry; None: nothing is asked for.
    """

    hosts: frozenset[str] | None = LOOPBACK_NAMES
    token: str | None = None


class Guard:
    """Wraps an application.

    Args:
        app: the application.
        security: who may call it.
    """

    def __init__(self, app: ASGIApp, security: Security) -> None:
        self._app = app
        self._security = security

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with an error."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._pass(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            _check_source(headers, self._security)
            replay = await _limited(headers, receive)
        except ServiceError as error:
            await _refuse(error, send)
            return

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (b"x-content-type-options", b"nosniff")]}
            await send(message)

        await self._app(scope, replay, send_marked)


def _check_source(headers: Mapping[str, str], security: Security) -> None:
    host = headers.get("host", "")
    if security.hosts is not None and _name_of(host) not in security.hosts:
        raise invalid("Host", f"this server answers to {', '.join(sorted(security.hosts))} only")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        raise invalid("Origin", "pages of other sites may not call this server")
    if security.token is not None and not _is_bearer(headers.get("authorization", ""), security.token):
        raise ServiceError("unauthorized", "send the server's token in the header Authorization: Bearer TOKEN")


def _name_of(host: str) -> str:
    """The name in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_bearer(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    is_same = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), token.encode())
    return is_same and scheme.lower() == "bearer"


async def _limited(headers: Mapping[str, str], receive: Receive) -> Receive:
    """The request's body, read as far as it may be long, to be received again.

    Raises:
        ServiceError: `too_large`.
    """
    declared = headers.get("content-length", "")
    _check_size(int(declared[:18]) if declared.isdecimal() else 0)
    body = bytearray()
    message: Message = {"type": "http.request", "more_body": True}
    while message["type"] == "http.request" and message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
        _check_size(len(body))
    is_whole = message["type"] == "http.request"
    pending: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False} if is_whole else message]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _check_size(count: int) -> None:
    if count > MOST_BODY_BYTES:
        raise ServiceError("too_large", f"a request's body has at most {MOST_BODY_BYTES} bytes")


async def _refuse(error: ServiceError, send: Send) -> None:
    body = error_answer(error).text.encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", CHALLENGE.encode()))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
