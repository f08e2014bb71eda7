"""Services over the Model Context Protocol, with one tool per operation, generated from the
catalogue. Written for SDK version 2.

Over HTTP, each session has its own workspace, which is opened with the session and dropped when the
session ends.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.message import SessionMessage
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request

from ktdeval_qfinzero.access.guarded_dispatch import (
    CallAnswer,
    check_json,
    check_size,
    dispatch,
    error_answer,
)
from ktdeval_qfinzero.access.workspaces import HEADER, MAX_BODY_BYTES, WorkspaceLimits, Workspaces
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.errors import ServiceError, invalid, not_found
from ktdeval_qfinzero.operations import Catalogue, Operation

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

NAME = "qfinzero"
INSTRUCTIONS = Path(__file__).with_name("instructions.md").read_text(encoding="utf-8").rstrip("\n")

Context = ServerRequestContext[Any, Any]
WorkspaceOf = Callable[[Context], str]
"""Returns the id of the workspace on which a request acts; raises ServiceError if it is missing."""
VersionsFor = Callable[[Context], Sequence[str]]
"""Returns the protocol versions that may be used by a client that asks for them."""


def mcp_server(
    catalogue: Catalogue,
    workspaces: Workspaces,
    workspace_of: WorkspaceOf,
    versions_for: VersionsFor,
) -> Server:
    """Make an MCP server with the catalogue's tools.

    `workspaces`: workspaces on which calls act; `workspace_of`: returns the workspace of a request;
    `versions_for`: returns the answer to `server/discover`.
    """
    tools = [_mcp_tool(operation) for operation in catalogue.operations]
    schemas = {tool.name: tool.input_schema for tool in tools}

    async def list_tools(
        _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            operation = catalogue.find(params.name)
            workspace_id = workspace_of(context)
        except ServiceError as error:
            return _result(error_answer(error))
        return _result(await dispatch(workspaces, operation, workspace_id, params.arguments or {}))

    server: Server = Server(
        NAME,
        version=version("ktdeval"),
        title="QFinZero services",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )

    async def discover(context: Context, _: types.RequestParams) -> types.DiscoverResult:
        return types.DiscoverResult(
            supported_versions=list(versions_for(context)),
            capabilities=server.get_capabilities(protocol_version=context.protocol_version),
            instructions=INSTRUCTIONS,
        )

    server.add_request_handler("server/discover", types.RequestParams, discover)
    return server


async def serve_stdio(
    catalogue: Catalogue, dataset: Dataset, limits: WorkspaceLimits, logs: Path | None = None
) -> None:
    """Serve one client over this process's stdin and stdout until the client closes one of them.
    The client has one workspace throughout. Raises ServiceError if the clock can't start at the
    requested time.
    """
    workspaces = Workspaces(dataset, replace(limits, most=1, idle_s=math.inf), lambda: 0.0, logs)
    workspace_id = workspaces.open()
    served = types.version.MODERN_PROTOCOL_VERSIONS
    server = mcp_server(catalogue, workspaces, lambda _: workspace_id, lambda _: served)

    async def strict_lines() -> AsyncIterator[str]:
        """Yield lines that are messages in strict JSON. Other lines are answered here, because the
        SDK takes the last of duplicate fields and does not answer lines that are not messages.
        """
        async for line in await anyio.open_file(
            sys.stdin.fileno(), encoding="utf-8", errors="surrogateescape", closefd=False
        ):
            try:
                _check_message(line)
            except ServiceError as error:
                await write.send(SessionMessage(make_refusal(line, error)))
            else:
                yield line

    try:
        async with stdio_server(strict_lines()) as (read, write):  # type: ignore[arg-type]  # only iterated
            await server.run(read, write, server.create_initialization_options())
    except* BrokenPipeError:
        pass  # the client has stopped reading


def _check_message(line: str) -> None:
    """Raise ServiceError if a line is too long, not strict JSON, or not a message."""
    check_size(len(line))
    check_json(line)
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError as error:
        raise invalid(
            "body", "expected a request, notification or response of JSON-RPC 2.0, in UTF-8"
        ) from error

    if isinstance(message, types.JSONRPCNotification) and "id" in json.loads(line):
        raise invalid("id", "the id of a request is a text or a whole number")


def make_refusal(message: bytes | str, error: ServiceError) -> types.JSONRPCError:
    """Return the answer to a message that is refused before it is carried out, with the id of its
    request if the id can be read.
    """
    try:
        request = json.loads(message)
    except (ValueError, RecursionError):
        request = None

    request_id = request.get("id") if isinstance(request, dict) else None
    code = (
        types.PARSE_ERROR
        if request is None and error.code == "invalid_argument"
        else types.INVALID_REQUEST
    )
    # A lone surrogate can't be sent back.
    is_text = (
        isinstance(request_id, str) and request_id == request_id.encode(errors="ignore").decode()
    )
    echoed = request_id if type(request_id) is int or is_text else None

    return types.JSONRPCError(
        jsonrpc="2.0", id=echoed, error=types.ErrorData(code=code, message=error.message)
    )


def _mcp_tool(operation: Operation) -> types.Tool:
    return types.Tool(
        name=operation.wire_name,
        title=operation.name,
        description=operation.summary,
        input_schema=operation.parameters,
        output_schema=dict(operation.result),
        annotations=types.ToolAnnotations(
            read_only_hint=not operation.changes, open_world_hint=False
        ),
    )


def _result(answer: CallAnswer) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text)]
    if answer.is_error:
        # Structured content must follow the tool's output schema, even for clients that ignore
        # isError.
        return types.CallToolResult(content=content, is_error=True)
    return types.CallToolResult(content=content, structured_content=answer.payload)


SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"
_SESSIONS_A_WORKSPACE = 16


class McpEndpoint:
    """MCP endpoint at one path.

    Versions of the protocol up to 2025-11-25 have sessions, which begin with a handshake. Later
    versions have no sessions, so their requests must name a workspace in the header that HTTP calls
    use. A client that asks for the versions without this header is offered only versions with
    sessions. `workspaces`: workspaces on which calls act.
    """

    def __init__(self, catalogue: Catalogue, workspaces: Workspaces) -> None:
        self._workspaces = workspaces
        self._sessions: dict[str, str] = {}
        limits = workspaces.limits
        self._manager = StreamableHTTPSessionManager(
            mcp_server(catalogue, workspaces, self._workspace_of, _versions_for),
            json_response=True,
            session_idle_timeout=limits.idle_s,
            # sessions of a dropped workspace stay until they time out as idle
            max_sessions=_SESSIONS_A_WORKSPACE * limits.most,
            max_request_body_size=MAX_BODY_BYTES,
        )

    def run(self) -> AbstractAsyncContextManager[None]:
        """Return the context in which sessions live."""
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Raises ServiceError `unavailable` if there are too many workspaces to
        begin a session.
        """
        headers = Headers(scope=scope)
        session = headers.get(SESSION)
        # also if the request names no version
        has_sessions = (
            headers.get(VERSION, HANDSHAKE_PROTOCOL_VERSIONS[0]) in HANDSHAKE_PROTOCOL_VERSIONS
        )

        if scope["method"] == "POST" and session is None and HEADER not in headers and has_sessions:
            await self._begin(scope, receive, send)
            return

        if session is not None and scope["method"] == "DELETE":
            send = _at_start(send, self._end)

        await self._manager.handle_request(scope, receive, send)

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that may begin a session. The workspace opened for it is kept only if a
        session begins.
        """
        workspace_id = self._workspaces.open()
        has_begun = False

        def settle(session: str | None) -> None:
            nonlocal has_begun
            if session is None:
                self._workspaces.drop(workspace_id)
            else:
                has_begun = True
                # Sessions without a workspace are removed.
                held = {
                    name: of_name
                    for name, of_name in self._sessions.items()
                    if of_name in self._workspaces
                }
                self._sessions = {**held, session: workspace_id}

        try:
            await self._manager.handle_request(scope, receive, _at_start(send, settle))
        finally:
            if not has_begun:  # possibly no answer was sent
                self._workspaces.drop(workspace_id)

    def _end(self, session: str | None) -> None:
        """Drop the workspace of a session that has ended."""
        self._workspaces.drop(self._sessions.pop(session or "", ""))

    def _workspace_of(self, context: Context) -> str:
        """Return the workspace that a request names, or else the workspace of its session."""
        headers = _headers(context)
        named = headers.get(HEADER)
        if named is not None:
            return named

        session = headers.get(SESSION)
        if session is None:
            raise invalid(
                HEADER,
                "this version of the protocol has no sessions: open a workspace with POST"
                " /workspaces and send its id in this header, or connect with version"
                f" {HANDSHAKE_PROTOCOL_VERSIONS[-1]}",
            )
        if session not in self._sessions:
            raise not_found(
                SESSION,
                "the workspace of this session is gone, for nobody used it for long; connect anew",
            )

        return self._sessions[session]


def _at_start(send: Send, on_start: Callable[[str | None], None]) -> Send:
    """Return a `send` that calls `on_start` before the answer begins, with the answer's session, or
    with None if the answer is an error.
    """

    async def send_reported(message: Message) -> None:
        if message["type"] == "http.response.start":
            is_error = message["status"] >= HTTPStatus.BAD_REQUEST
            on_start(None if is_error else Headers(raw=message.get("headers", [])).get(SESSION))
        await send(message)

    return send_reported


def _versions_for(context: Context) -> Sequence[str]:
    return MODERN_PROTOCOL_VERSIONS if HEADER in _headers(context) else HANDSHAKE_PROTOCOL_VERSIONS


def _headers(context: Context) -> Headers:
    request = context.request
    return request.headers if isinstance(request, Request) else Headers()
