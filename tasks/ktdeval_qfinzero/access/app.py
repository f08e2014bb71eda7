"""The whole server: HTTP routes, their OpenAPI document and the Model Context Protocol, behind one guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.routing import Route

from ktdeval_qfinzero.access.dispatch import Dispatcher
from ktdeval_qfinzero.access.guard import Guard, Security
from ktdeval_qfinzero.access.http import ServiceApp
from ktdeval_qfinzero.access.mcp_http import McpEndpoint
from ktdeval_qfinzero.access.workspaces import Workspaces
from ktdeval_qfinzero.operations import Catalogue

if TYPE_CHECKING:
    from starlette.types import ASGIApp

MCP_PATH = "/mcp"


def server_app(catalogue: Catalogue, workspaces: Workspaces, security: Security) -> ASGIApp:
    """The application.

    Args:
        catalogue: the operations.
        workspaces: what calls act on; HTTP and MCP clients share their number.
        security: who may call.
    """
    dispatcher = Dispatcher(workspaces)
    endpoint = McpEndpoint(catalogue, dispatcher)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with endpoint.run():
            yield

    app = ServiceApp(catalogue, dispatcher, is_guarded=security.token is not None, lifespan=lifespan)
    app.router.routes.append(Route(MCP_PATH, endpoint=endpoint))
    return Guard(app, security)
