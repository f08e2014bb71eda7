"""Access rules, limits on request bodies, and dispatch of client calls. The calls to a workspace
run one at a time, each operation in a thread, with a bounded answer.
"""

from __future__ import annotations

import hmac
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from ktdeval.values import JsonValue, RefusedBody, ambiguity, content_length, loads_untrusted
from ktdeval_qfinzero.access.workspaces import HEADER, MAX_BODY_BYTES, HeldWorkspace, Workspaces
from ktdeval_qfinzero.errors import ServiceError, invalid
from ktdeval_qfinzero.operations import Operation

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOG = logging.getLogger(__name__)

DEFECT: dict[str, JsonValue] = {
    "error": {
        "code": "internal",
        "message": "the service failed on this call, which is a defect of it; its log says more",
    }
}
"""Answer to a call that raised an unexpected exception; the log has the traceback."""


@dataclass(frozen=True)
class CallAnswer:
    """Outcome of a call."""

    status: int  # HTTP status: 200, or the error's status
    payload: JsonValue  # answer of the operation, or the error envelope
    text: str  # answer as compact JSON

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        """Return the HTTP response."""
        return Response(
            self.text,
            self.status,
            {"cache-control": "no-store", **(headers or {})},
            "application/json",
        )

    @property
    def is_error(self) -> bool:
        """True if the answer is an error envelope."""
        return self.status >= HTTPStatus.BAD_REQUEST


def answer_of(status: int, payload: JsonValue) -> CallAnswer:
    """Return an answer with its text. Raises ValueError if the payload contains NaN or infinity."""
    return CallAnswer(
        status,
        payload,
        json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")),
    )


def error_answer(error: ServiceError) -> CallAnswer:
    """Return the answer to a refused call."""
    return answer_of(error.status, error.to_json())


async def dispatch(
    workspaces: Workspaces, operation: Operation, workspace_id: str, given: JsonValue
) -> CallAnswer:
    """Run an operation for a client. Calls to one workspace run one after the other; calls to
    different workspaces run concurrently.

    A refusal gives an error answer. An unexpected exception is logged and gives an error answer
    without its details.
    """
    try:
        held = workspaces.find(workspace_id)
        try:
            return await _take_turn(held, operation, given)
        finally:
            workspaces.touch(held)
    except ServiceError as error:
        return error_answer(error)
    except Exception:  # noqa: BLE001 - a defect must not take the server down; the log says more
        _LOG.exception("a defect of a service")
        return answer_of(HTTPStatus.INTERNAL_SERVER_ERROR, DEFECT)


async def _take_turn(held: HeldWorkspace, operation: Operation, given: JsonValue) -> CallAnswer:
    held.check_room()
    held.waiting += 1
    try:
        async with held.turn:
            return await to_thread.run_sync(_carry_out, held, operation, given)
    finally:
        held.waiting -= 1


def _carry_out(held: HeldWorkspace, operation: Operation, given: JsonValue) -> CallAnswer:
    try:
        return answer_of(HTTPStatus.OK, operation.call(held.workspace, given))
    finally:
        held.save_log()  # refused calls are logged too


LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
CHALLENGE: Final = 'Bearer realm="qfinzero"'
_ONCE: Final = (HEADER.lower(), "mcp-session-id")
_PORT: Final = re.compile(r":\d*$")


@dataclass(frozen=True, repr=False)
class AccessRules:
    """Access rules.

    `hosts`: host names that a request may name. The restriction keeps a web page from reaching a
    server on the reader's own machine under the page's name (DNS rebinding). None allows any name,
    which is safe if a token is required, since such a page does not have the token.
    """

    hosts: frozenset[str] | None = LOOPBACK_NAMES
    token: str | None = None  # token required with every data request; None if no token is required


class ClientGuard:
    """Middleware that refuses unauthorised requests and forbids browsers to sniff content types.

    `security`: who may call; `is_public`: which requests need no token.
    """

    def __init__(
        self, app: ASGIApp, security: AccessRules, is_public: Callable[[Scope], bool]
    ) -> None:
        self._app = app
        self._security = security
        self._is_public = is_public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with an error."""

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-content-type-options"] = "nosniff"
            await send(message)

        if scope["type"] == "http":
            try:
                headers = Headers(scope=scope)
                problem = ambiguity(headers.items(), _ONCE)
                if problem is not None:
                    raise invalid("headers", problem)
                _check_source(headers, self._security)
                if self._security.token is not None and not self._is_public(scope):
                    _check_token(headers, self._security.token)
            except ServiceError as error:
                more = {}
                if error.code == "unauthorized":
                    more["www-authenticate"] = CHALLENGE
                if error.field == "headers":
                    more["connection"] = "close"  # the end of the request's body is unknown
                await error_answer(error).response(more)(scope, receive, send_marked)
                return

        await self._app(scope, receive, send_marked)


def _check_source(headers: Headers, security: AccessRules) -> None:
    host = headers.get("host", "")
    if security.hosts is not None and _PORT.sub("", host).strip("[]").lower() not in security.hosts:
        raise invalid("Host", f"this server answers to {', '.join(sorted(security.hosts))} only")

    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise invalid("Origin", "pages of other sites may not call this server")


def _check_token(headers: Headers, token: str) -> None:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    is_same = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), token.encode())
    if not is_same or scheme.lower() != "bearer":
        raise ServiceError(
            "unauthorized", "send the server's token in the header Authorization: Bearer TOKEN"
        )


def is_json(headers: Headers) -> bool:
    """Return whether a request declares its body as JSON."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


class BoundedBodyReader:
    """Middleware for HTTP and MCP that reads a body before anything else. The body is limited in
    size and time, and must be strict JSON if it is declared as JSON. A client that disconnects gets
    no answer.

    `limit_s`: number of seconds within which the body has to arrive; `refusal`: (path, body as far
    as it was read, error) -> answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        limit_s: float,
        refusal: Callable[[str, bytes, ServiceError], CallAnswer],
    ) -> None:
        self._app = app
        self._limit_s = limit_s
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its whole body, or answer it with an error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        headers = Headers(scope=scope)
        body = None
        try:
            body = await self._read(headers, receive)
            if body and is_json(headers):
                check_json(body)
        except ServiceError as error:
            close = {"connection": "close"} if error.code == "timeout" else {}
            await self._refusal(scope["path"], body or b"", error).response(close)(
                scope, receive, send
            )
            return

        if body is None:
            return

        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_read() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, receive_read, send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """Return the body; None if the client disconnected."""
        declared = headers.get("content-length", "0")
        body = bytearray()
        is_more = True
        try:
            check_size(content_length(declared))
        except RefusedBody as error:
            raise invalid("Content-Length", "expected a whole number") from error

        try:
            with anyio.fail_after(self._limit_s):
                while is_more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None

                    body += message.get("body", b"")
                    is_more = message.get("more_body", False)
                    check_size(len(body))
        except TimeoutError as error:
            raise ServiceError(
                "timeout", f"the body of a request has {self._limit_s:g} s to come"
            ) from error

        return bytes(body)


def check_size(count: int) -> None:
    """Raise ServiceError `too_large` if a body is too long."""
    if count > MAX_BODY_BYTES:
        raise ServiceError("too_large", f"a request's body has at most {MAX_BODY_BYTES} bytes")


def check_json(body: bytes | str) -> None:
    """Raise ServiceError `invalid_argument` if a body is not strict JSON."""
    try:
        loads_untrusted(body)
    except ValueError as error:
        doubled = f" ({error})" if "appears twice" in str(error) else ""
        message = (
            "expected strict JSON in UTF-8, without NaN, Infinity, huge numbers or fields that"
            f" appear twice{doubled}"
        )
        raise invalid("body", message) from error
