"""Who may call: the name that a request was sent to, the page that it comes from, and the token that it carries."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders

from ktdeval_qfinzero.access.dispatch import error_answer
from ktdeval_qfinzero.errors import ServiceError, invalid

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
CHALLENGE: Final = 'Bearer realm="qfinzero"'


@dataclass(frozen=True, repr=False)
class Security:
    """Who may call.
    `hosts`: names that a request may be sent to, which keeps a web page from reaching a server on the reader's own machine by a
    name of its own (DNS rebinding); None: any, as where a token is asked for, which such a page does not have; `token`: what every
    request must carry; None: nothing is asked for.
    """

    hosts: frozenset[str] | None = LOOPBACK_NAMES
    token: str | None = None


class Guard:
    """Middleware that answers requests of those who may not call, and forbids browsers to guess at types of content.
    `security`: who may call it.
    """

    def __init__(self, app: ASGIApp, security: Security) -> None:
        self._app = app
        self._security = security

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with an error."""

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-content-type-options"] = "nosniff"
            await send(message)

        if scope["type"] == "http":
            try:
                _check_source(Headers(scope=scope), self._security)
            except ServiceError as error:
                challenge = {"www-authenticate": CHALLENGE} if error.code == "unauthorized" else {}
                await error_answer(error).response(challenge)(scope, receive, send_marked)
                return
        await self._app(scope, receive, send_marked)


def _check_source(headers: Headers, security: Security) -> None:
    host = headers.get("host", "")
    if security.hosts is not None and urlsplit(f"//{host}").hostname not in security.hosts:
        raise invalid("Host", f"this server answers to {', '.join(sorted(security.hosts))} only")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        raise invalid("Origin", "pages of other sites may not call this server")
    if security.token is not None and not _is_bearer(headers.get("authorization", ""), security.token):
        raise ServiceError("unauthorized", "send the server's token in the header Authorization: Bearer TOKEN")


def _is_bearer(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    is_same = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), token.encode())
    return is_same and scheme.lower() == "bearer"
