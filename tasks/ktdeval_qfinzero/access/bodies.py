"""Bodies of requests, read in one place for HTTP and MCP: bounded in size and time, and strict JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from starlette.datastructures import Headers

from ktdeval.jsonio import loads_untrusted
from ktdeval_qfinzero.access.dispatch import error_answer
from ktdeval_qfinzero.access.workspaces import MOST_BODY_BYTES
from ktdeval_qfinzero.errors import ServiceError, invalid

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


def is_json(headers: Headers) -> bool:
    """Whether a request says that its body is JSON."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


class Bodies:
    """Middleware that reads a body before anything is done with it; a client that breaks off is left alone.
    `limit_s`: seconds in which it has to come.
    """

    def __init__(self, app: ASGIApp, limit_s: float) -> None:
        self._app = app
        self._limit_s = limit_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its whole body, or answer it with an error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            body = await self._read(headers, receive)
            if body and is_json(headers):
                check_json(body)
        except ServiceError as error:
            close = {"connection": "close"} if error.code == "timeout" else {}
            await error_answer(error).response(close)(scope, receive, send)
            return
        if body is None:
            return
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_read() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, receive_read, send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """The body; None where the client broke off."""
        declared = headers.get("content-length", "")
        body, is_more = bytearray(), True
        _check_size(int(declared[:18]) if declared.isdecimal() else 0)
        try:
            with anyio.fail_after(self._limit_s):
                while is_more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    is_more = message.get("more_body", False)
                    _check_size(len(body))
        except TimeoutError as error:
            raise ServiceError("timeout", f"the body of a request has {self._limit_s:g} s to come") from error
        return bytes(body)


def _check_size(count: int) -> None:
    if count > MOST_BODY_BYTES:
        raise ServiceError("too_large", f"a request's body has at most {MOST_BODY_BYTES} bytes")


def check_json(body: bytes | str) -> None:
    """Refuse what is not strict JSON; raises ServiceError `invalid_argument`."""
    try:
        loads_untrusted(body)
    except ValueError as error:
        doubled = f" ({error})" if "stands twice" in str(error) else ""
        message = f"expected strict JSON in UTF-8, without NaN, Infinity or fields that stand twice{doubled}"
        raise invalid("body", message) from error
