"""The services over HTTP: one route for each operation, made from the catalogue, with one form of error for whatever goes wrong."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import Lifespan

from ktdeval.api import JsonValue, loads_strict
from ktdeval_qfinzero.access.dispatch import DEFECT, Answer, Dispatcher, answer_of, error_answer
from ktdeval_qfinzero.access.openapi import OPEN_SCHEMA, openapi_document
from ktdeval_qfinzero.access.workspaces import HEADER
from ktdeval_qfinzero.errors import ServiceError, invalid, not_found
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.operations import Catalogue, Operation, Schema

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,3})?")
_TRUTH = {"true": True, "false": False}

Endpoint = Callable[[Request], Awaitable[Response]]


class ServiceApp(FastAPI):
    """The application behind the guard.

    Args:
        catalogue: the operations.
        dispatcher: runs them.
        is_guarded: whether a token is asked for, which the document says.
        lifespan: what runs as long as the application does.
    """

    def __init__(
        self, catalogue: Catalogue, dispatcher: Dispatcher, *, is_guarded: bool, lifespan: Lifespan[FastAPI] | None = None
    ) -> None:
        # FastAPI's own pages of documentation load scripts from another site.
        super().__init__(title="QFinZero services", docs_url=None, redoc_url=None, lifespan=lifespan, redirect_slashes=False)
        self._document = openapi_document(catalogue, is_guarded=is_guarded)
        for operation in catalogue.operations:
            self._route(operation.path, operation.method, _operation_endpoint(dispatcher, operation))
        self._route("/workspaces", "POST", _opening_endpoint(dispatcher))
        self._route("/workspaces/{workspace_id}", "DELETE", _dropping_endpoint(dispatcher))
        self.add_exception_handler(HTTPException, _on_http_error)
        self.add_exception_handler(ServiceError, _on_service_error)
        self.add_exception_handler(Exception, _on_defect)

    def openapi(self) -> dict[str, Any]:
        """The document, made from the operations' schemas instead of from Python annotations."""
        return self._document

    def _route(self, path: str, method: str, endpoint: Endpoint) -> None:
        self.add_api_route(path, endpoint, methods=[method], response_model=None)


def _operation_endpoint(dispatcher: Dispatcher, operation: Operation) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        workspace_id = _workspace_of(request)
        given = _query(request, operation) if operation.method == "GET" else await _body(request, operation)
        return _response(await dispatcher.call(operation, workspace_id, {**given, **request.path_params}))

    return endpoint


def _opening_endpoint(dispatcher: Dispatcher) -> Endpoint:
    wanted = Operation("workspaces.open", "POST", "/workspaces", "", OPEN_SCHEMA["properties"], (), {}, lambda *_: None)

    async def endpoint(request: Request) -> Response:
        given = wanted.read(await _body(request, wanted))
        workspace_id = dispatcher.workspaces.open(given.get("as_of_ts"))
        as_of_ts = moment_text(dispatcher.workspaces.find(workspace_id).workspace.clock.as_of_ns)
        return _response(answer_of(HTTPStatus.CREATED, {"workspace_id": workspace_id, "as_of_ts": as_of_ts}))

    return endpoint


def _dropping_endpoint(dispatcher: Dispatcher) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        workspace_id = request.path_params["workspace_id"]
        if not dispatcher.workspaces.drop(workspace_id):
            raise not_found("workspace_id", "there is no such workspace")
        return _response(answer_of(HTTPStatus.OK, {"workspace_id": workspace_id, "dropped": True}))

    return endpoint


def _workspace_of(request: Request) -> str:
    found = request.headers.getlist(HEADER)
    if len(found) != 1:
        raise invalid(HEADER, "every call names its workspace in this header; POST /workspaces opens one and gives its id")
    return found[0]


def _query(request: Request, operation: Operation) -> dict[str, JsonValue]:
    """Arguments of a GET, of the types that their schemas say."""
    given: dict[str, JsonValue] = {}
    for name, text in request.query_params.multi_items():
        if name in given:
            raise invalid(name, "given more than once; separate several values by commas")
        if name in operation.path_parameters:
            raise invalid(name, "stands in the path already")
        schema = operation.properties.get(name)
        given[name] = text if schema is None else read_text(text, schema, name)
    return given


def read_text(text: str, schema: Schema, field: str) -> JsonValue:
    """A query parameter as the JSON value that its schema wants.

    Raises:
        ServiceError: `invalid_argument`: it can't be read as that.
    """
    kind = schema.get("type", "string")
    kinds = kind if isinstance(kind, list) else [kind]
    if "string" in kinds:
        return text
    if "boolean" in kinds and text in _TRUTH:
        return _TRUTH[text]
    if "integer" in kinds and _INTEGER.fullmatch(text):
        return int(text)
    if "number" in kinds and _NUMBER.fullmatch(text):
        return float(text)
    raise invalid(field, f"expected type {' or '.join(map(str, kinds))}")


async def _body(request: Request, operation: Operation) -> Mapping[str, JsonValue]:
    """Arguments of a POST: one JSON object, or nothing."""
    if request.query_params:
        raise invalid("arguments", "stand in the body, not in the query")
    body = await request.body()
    if not body:
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise invalid("Content-Type", "expected application/json")
    try:
        given = loads_strict(body)
    except (ValueError, RecursionError) as error:
        raise invalid("body", "expected one JSON object in UTF-8, without NaN or Infinity") from error
    if not isinstance(given, dict):
        raise invalid("body", "expected one JSON object")
    for name in operation.path_parameters:
        if name in given:
            raise invalid(name, "stands in the path already")
    return given


def _response(answer: Answer) -> Response:
    return Response(answer.text, answer.status, {"cache-control": "no-store"}, "application/json")


async def _on_service_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return _response(error_answer(error))


async def _on_http_error(_: Request, error: Exception) -> Response:
    """No such route, or not with this method."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return _response(error_answer(not_found("path", "there is no such path; /openapi.json lists them")))
    said = invalid("request", "this path does not take that method; /openapi.json lists what it takes").to_json()
    response = _response(answer_of(error.status_code, said))
    response.headers.update(error.headers or {})
    return response


async def _on_defect(_: Request, __: Exception) -> Response:
    return _response(answer_of(HTTPStatus.INTERNAL_SERVER_ERROR, DEFECT))
