"""Services over the Model Context Protocol: one tool for each operation, made from the catalogue. Written for SDK version 2."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from ktdeval_qfinzero.access.dispatch import Answer, dispatch, error_answer
from ktdeval_qfinzero.access.workspaces import Limits, Workspaces
from ktdeval_qfinzero.data.stores import Dataset
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.operations import Catalogue, Operation

NAME = "qfinzero"
INSTRUCTIONS = """Price services (upq_*), event services (esp_*) and a paper broker (pmb_*) that share one clock, yours alone.
Every answer has `as_of_ts`, the clock's moment. Nothing that became known later is ever answered: what can't be seen yet looks as
if it did not exist. The clock only goes forward: when a broker's session begins later than the clock, and with each of its steps
(pmb_session_step). To trade: pmb_account_create; pmb_session_create, whose universe lists the tickers and contracts that may be
traded; pmb_order_place; then pmb_session_step. An order fills on bars that begin after it was placed. An answer whose `next_cursor`
is not null has more: call again with it as `cursor`. Times are UTC, prices in dollars. An error says what is wrong and how to fix
it."""

Context = ServerRequestContext[Any, Any]
WorkspaceOf = Callable[[Context], str]
"""Gives the id of the workspace that a request acts on; raises ServiceError where it has none."""
VersionsFor = Callable[[Context], Sequence[str]]
"""Gives the protocol versions that a client which asks is told of."""


def mcp_server(catalogue: Catalogue, workspaces: Workspaces, workspace_of: WorkspaceOf, versions_for: VersionsFor) -> Server:
    """A server of the catalogue's tools.
    `workspaces`: what calls act on; `workspace_of`: tells whose workspace a request acts on; `versions_for`: what `server/discover`
    says.
    """
    tools = [_tool(operation) for operation in catalogue.operations]
    schemas = {tool.name: tool.input_schema for tool in tools}

    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
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


async def serve_stdio(catalogue: Catalogue, dataset: Dataset, limits: Limits) -> None:
    """Serve one client over this process's stdin and stdout, until it closes them. It has one workspace as long as it stays.
    Raises ServiceError if the clock can't start there.
    """
    workspaces = Workspaces(dataset, replace(limits, most=1, idle_s=math.inf), lambda: 0.0)
    workspace_id = workspaces.open()
    served = types.version.MODERN_PROTOCOL_VERSIONS
    server = mcp_server(catalogue, workspaces, lambda _: workspace_id, lambda _: served)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _tool(operation: Operation) -> types.Tool:
    return types.Tool(
        name=operation.wire_name,
        title=operation.name,
        description=operation.summary,
        input_schema=operation.parameters,
        output_schema=dict(operation.result),
        annotations=types.ToolAnnotations(read_only_hint=not operation.changes, open_world_hint=False),
    )


def _result(answer: Answer) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text)]
    if answer.is_error:
        # Structured content has to follow the tool's output schema, also in the eyes of clients that don't look at isError.
        return types.CallToolResult(content=content, is_error=True)
    return types.CallToolResult(content=content, structured_content=answer.payload)
