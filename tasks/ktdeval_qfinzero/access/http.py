"""Server with a route for each operation, the OpenAPI 3.1 document generated from the operations'
schemas, and the Model Context Protocol, behind one access check.

Starlette provides the routes, and its exception handlers give all errors one form. Arguments are
not bound to function parameters, as in frameworks on top of Starlette, because an operation reads
its arguments itself, in the same way for HTTP, MCP and calls in the process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ktdeval.values import JsonValue, load_yaml
from ktdeval_qfinzero.access import types
from ktdeval_qfinzero.access.endpoints import Endpoint, operation_endpoint, request_arguments
from ktdeval_qfinzero.access.guarded_dispatch import (
    DEFECT,
    AccessRules,
    BoundedBodyReader,
    CallAnswer,
    ClientGuard,
    answer_of,
    error_answer,
)
from ktdeval_qfinzero.access.mcp import McpEndpoint, make_refusal
from ktdeval_qfinzero.access.pages.app import is_public, page_routes
from ktdeval_qfinzero.access.pages.page_settings import DEFAULT_PAGES, PageSettings
from ktdeval_qfinzero.access.pages.playground import Playground
from ktdeval_qfinzero.access.workspaces import HEADER, Workspaces
from ktdeval_qfinzero.errors import STATUS, ServiceError, invalid, not_found
from ktdeval_qfinzero.operations import Catalogue, Operation
from ktdeval_qfinzero.schemas import Schema, schema_of
from ktdeval_qfinzero.timestamps import moment_text

MCP_PATH: Final = "/mcp"


def server_app(
    catalogue: Catalogue,
    workspaces: Workspaces,
    security: AccessRules,
    pages: PageSettings = DEFAULT_PAGES,
) -> Starlette:
    """Make the application.

    `workspaces`: workspaces on which calls act; HTTP and MCP clients share the limit on their
    number. `security`: who may call; `pages`: settings of the pages. The application's
    `state.chat_runs` contains the chat runs, which `serve` ends.
    """
    mcp = McpEndpoint(catalogue, workspaces)
    document = answer_of(
        HTTPStatus.OK, openapi_document(catalogue, is_guarded=security.token is not None)
    )

    async def give_document(_: Request) -> Response:
        return document.response()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            async with mcp.run():
                yield
        finally:
            playground.runs.stop_all()

    playground = Playground(workspaces, pages)
    app = Starlette(
        routes=[
            _route("/openapi.json", "GET", give_document),
            *_workspace_routes(workspaces),
            *(
                _route(each.path, each.method, operation_endpoint(workspaces, each))
                for each in catalogue.operations
            ),
            Route(MCP_PATH, mcp),
            *page_routes(workspaces, pages, playground),
        ],
        middleware=[
            Middleware(ClientGuard, security, is_public),
            Middleware(BoundedBodyReader, workspaces.limits.body_s, _refusal),
        ],
        exception_handlers={
            HTTPException: _on_http_error,
            ServiceError: _on_service_error,
            Exception: _on_defect,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.chat_runs = playground.runs
    return app


def _route(path: str, method: str, endpoint: Endpoint) -> Route:
    route = Route(path, endpoint, methods=[method])
    route.methods = {method}  # without the HEAD that GET adds, since the document has none
    return route


def _workspace_routes(workspaces: Workspaces) -> list[Route]:
    async def opening(request: Request) -> Response:
        read = OPENING.read(await request_arguments(request, OPENING))
        given = msgspec.convert(read, types.OpenWorkspace)
        workspace_id = workspaces.open(given.as_of_ts)
        as_of_ts = moment_text(workspaces.find(workspace_id).workspace.clock.as_of_ns)
        return answer_of(
            HTTPStatus.CREATED, {"workspace_id": workspace_id, "as_of_ts": as_of_ts}
        ).response()

    async def dropping(request: Request) -> Response:
        workspace_id = request.path_params["workspace_id"]
        if not workspaces.drop(workspace_id):
            raise not_found("workspace_id", "there is no such workspace")
        return answer_of(HTTPStatus.OK, {"workspace_id": workspace_id, "dropped": True}).response()

    return [
        _route(OPENING.path, OPENING.method, opening),
        _route(DROPPING.path, DROPPING.method, dropping),
    ]


def _refusal(path: str, body: bytes, error: ServiceError) -> CallAnswer:
    """Return the answer to a refused request, in the form of the protocol at its path. `body`: the
    body as far as it was read.
    """
    if path != MCP_PATH:
        return error_answer(error)
    return answer_of(
        error.status, make_refusal(body, error).model_dump(by_alias=True, exclude_unset=True)
    )


async def _on_service_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return _refusal(request.url.path, b"", error).response()


async def _on_http_error(_: Request, error: Exception) -> Response:
    """Answer a request for an unknown route, or with a method that the route does not have."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return error_answer(
            not_found("path", "there is no such path; /openapi.json lists them")
        ).response()
    envelope = invalid(
        "request", "this path does not take that method; /openapi.json lists what it takes"
    ).to_json()
    return answer_of(error.status_code, envelope).response(error.headers)


async def _on_defect(_: Request, __: Exception) -> Response:
    return answer_of(HTTPStatus.INTERNAL_SERVER_ERROR, DEFECT).response()


JsonObject = dict[str, JsonValue]

_TEXTS: Final = load_yaml(Path(__file__).with_name("openapi.yaml"))


def _refuse_use(*_: Any) -> Any:
    raise NotImplementedError("the server opens and drops workspaces itself")


_OPEN = "Open a workspace: a clock and a broker of one's own."
_DROP = "Drop a workspace with all it holds."
OPENING: Final = Operation(
    "workspaces.open",
    "POST",
    "/workspaces",
    _OPEN,
    types.OpenWorkspace,
    types.Opened,
    _refuse_use,
    is_timed=False,
)
DROPPING: Final = Operation(
    "workspaces.drop",
    "DELETE",
    "/workspaces/{workspace_id}",
    _DROP,
    types.DropWorkspace,
    types.Dropped,
    _refuse_use,
    is_timed=False,
)


def openapi_document(catalogue: Catalogue, *, is_guarded: bool) -> JsonObject:
    """Make the OpenAPI document. `is_guarded`: whether the server asks for a token."""
    paths: dict[str, JsonObject] = {}
    for operation in (OPENING, DROPPING, *catalogue.operations):
        methods = paths.setdefault(operation.path, {})
        methods[operation.method.lower()] = _operation(operation, is_guarded)

    security: JsonObject = {"security": [{"token": []}]} if is_guarded else {}
    schemes: JsonObject = {"securitySchemes": _TEXTS["security_schemes"]} if is_guarded else {}
    return {
        **_TEXTS["head"],
        "info": {
            "title": "QFinZero services",
            "version": version("ktdeval"),
            "description": _TEXTS["about"],
        },
        "tags": [{"name": name, "description": text} for name, text in _TEXTS["families"].items()],
        **security,
        "paths": paths,
        "components": {
            **schemes,
            "schemas": {"Error": schema_of(types.ErrorEnvelope)},
            "parameters": {"Workspace": {"name": HEADER, **_TEXTS["workspace_parameter"]}},
        },
    }


def _operation(operation: Operation, is_guarded: bool) -> JsonObject:
    in_path = operation.path_parameters
    opens = operation is OPENING
    in_query = [
        name for name in operation.properties if name not in in_path and operation.method == "GET"
    ]
    header: list[JsonValue] = (
        [] if operation in (OPENING, DROPPING) else [{"$ref": "#/components/parameters/Workspace"}]
    )
    described: JsonObject = {
        "operationId": operation.wire_name,
        "summary": operation.summary,
        "description": f"Called `{operation.name}` where a call is written down.",
        "tags": [operation.family],
        "parameters": [
            *header,
            *(_parameter(operation, name, "path") for name in in_path),
            *(_parameter(operation, name, "query") for name in in_query),
        ],
        "responses": {
            "201" if opens else "200": _json_content("The answer.", operation.result),
            **_errors(is_guarded),
        },
    }

    if operation.method == "POST":
        schema = {
            **operation.parameters,
            "properties": {
                name: dict(part)
                for name, part in operation.properties.items()
                if name not in in_path
            },
            "required": [name for name in operation.required if name not in in_path],
        }
        described["requestBody"] = {
            "required": bool(schema["required"]),
            "content": {"application/json": {"schema": schema}},
        }

    return described


def _parameter(operation: Operation, name: str, location: Literal["path", "query"]) -> JsonObject:
    schema = dict(operation.properties[name])
    return {
        "name": name,
        "in": location,
        "required": name in operation.required,
        "description": schema["description"],
        "schema": schema,
    }


def _errors(is_guarded: bool) -> JsonObject:
    """Return all errors that calls can return."""
    schema: JsonObject = {"$ref": "#/components/schemas/Error"}
    kinds = {
        code: status for code, status in STATUS.items() if is_guarded or code != "unauthorized"
    }
    responses = {
        str(status): _json_content(_TEXTS["errors"][code], schema) for code, status in kinds.items()
    }

    return {**responses, "500": _json_content("A defect of the service.", schema)}


def _json_content(description: str, schema: Schema) -> JsonObject:
    return {"description": description, "content": {"application/json": {"schema": dict(schema)}}}
