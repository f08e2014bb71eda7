"""Model Context Protocol over HTTP: each session has a workspace of its own, opened with it and dropped when it ends."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import TYPE_CHECKING

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request

from ktdeval_qfinzero.access.mcp_server import Context, mcp_server
from ktdeval_qfinzero.access.workspaces import HEADER, MOST_BODY_BYTES, Workspaces
from ktdeval_qfinzero.errors import invalid, not_found
from ktdeval_qfinzero.operations import Catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import Message, Receive, Scope, Send

SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"


class McpEndpoint:
    """Answers at one path.

    Versions of the protocol up to 2025-11-25 have sessions, begun by a handshake. Later ones have none: their requests must name a
    workspace themselves, in the header that HTTP calls use. A client that asks and sends no such header is told of the former only.

    Args:
        catalogue: the operations.
        workspaces: what calls act on.
    """

    def __init__(self, catalogue: Catalogue, workspaces: Workspaces) -> None:
        self._workspaces = workspaces
        self._sessions: dict[str, str] = {}
        limits = workspaces.limits
        self._manager = StreamableHTTPSessionManager(
            mcp_server(catalogue, workspaces, self._workspace_of, _versions_for),
            json_response=True,
            session_idle_timeout=limits.idle_s,
            max_sessions=limits.most,
            max_request_body_size=MOST_BODY_BYTES,
        )

    def run(self) -> AbstractAsyncContextManager[None]:
        """Sessions live inside this context."""
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; raises ServiceError `unavailable`: there are too many workspaces to begin a session."""
        headers = Headers(scope=scope)
        session = headers.get(SESSION)
        if scope["method"] == "POST" and session is None and HEADER not in headers and _is_handshake(headers):
            await self._begin(scope, receive, send)
            return
        if session is not None and scope["method"] == "DELETE":
            send = _at_start(send, self._end)
        await self._manager.handle_request(scope, receive, send)

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what may be the first request of a session; the workspace stays only if it is."""
        workspace_id = self._workspaces.open()
        has_begun = False

        def settle(session: str | None) -> None:
            nonlocal has_begun
            if session is None:
                self._workspaces.drop(workspace_id)
            else:
                has_begun = True
                self._bind(session, workspace_id)

        try:
            await self._manager.handle_request(scope, receive, _at_start(send, settle))
        finally:
            if not has_begun:  # nor was anything answered, maybe
                self._workspaces.drop(workspace_id)

    def _bind(self, session: str, workspace_id: str) -> None:
        """Give a session its workspace, and forget sessions whose workspace is gone."""
        self._sessions = {name: held for name, held in self._sessions.items() if held in self._workspaces}
        self._sessions[session] = workspace_id

    def _end(self, session: str | None) -> None:
        """Drop the workspace of a session that has ended."""
        self._workspaces.drop(self._sessions.pop(session or "", ""))

    def _workspace_of(self, context: Context) -> str:
        """Workspace that a request names, or that of its session."""
        headers = _headers(context)
        named = headers.get(HEADER)
        if named is not None:
            return named
        session = headers.get(SESSION)
        if session is None:
            raise invalid(
                HEADER,
                "this version of the protocol has no sessions: open a workspace with POST /workspaces and send its id in this "
                f"header, or connect with version {HANDSHAKE_PROTOCOL_VERSIONS[-1]}",
            )
        if session not in self._sessions:
            raise not_found(SESSION, "the workspace of this session is gone, for nobody used it for long; connect anew")
        return self._sessions[session]


def _at_start(send: Send, told: Callable[[str | None], None]) -> Send:
    """A `send` that, before an answer begins, tells which session it belongs to; None where it is an error."""

    async def send_told(message: Message) -> None:
        if message["type"] == "http.response.start":
            is_error = message["status"] >= HTTPStatus.BAD_REQUEST
            told(None if is_error else Headers(raw=message.get("headers", [])).get(SESSION))
        await send(message)

    return send_told


def _is_handshake(headers: Headers) -> bool:
    """Whether a request speaks a version with sessions, as those do that do not say."""
    return headers.get(VERSION, HANDSHAKE_PROTOCOL_VERSIONS[0]) in HANDSHAKE_PROTOCOL_VERSIONS


def _versions_for(context: Context) -> Sequence[str]:
    return MODERN_PROTOCOL_VERSIONS if HEADER in _headers(context) else HANDSHAKE_PROTOCOL_VERSIONS


def _headers(context: Context) -> Headers:
    request = context.request
    return request.headers if isinstance(request, Request) else Headers()
