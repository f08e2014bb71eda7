"""HTTP endpoints for operations: parse a request's arguments into JSON values, and answer the
request.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ktdeval.harness import in_words
from ktdeval.values import JsonValue, loads_strict
from ktdeval_qfinzero.access.guarded_dispatch import dispatch, is_json
from ktdeval_qfinzero.access.workspaces import HEADER, Workspaces
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.operations import Operation
from ktdeval_qfinzero.schemas import Schema

Endpoint = Callable[[Request], Awaitable[Response]]

_INTEGER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,3})?", re.ASCII)
_TRUTH: Final = {"true": True, "false": False}


def operation_endpoint(workspaces: Workspaces, operation: Operation) -> Endpoint:
    """Return the endpoint that answers requests for an operation."""

    async def endpoint(request: Request) -> Response:
        workspace_ids = request.headers.getlist(HEADER)
        if len(workspace_ids) != 1:
            raise invalid(
                HEADER,
                "every call names its workspace in this header; POST /workspaces opens one and"
                " gives its id",
            )

        given = await request_arguments(request, operation)
        answer = await dispatch(workspaces, operation, workspace_ids[0], given)
        return answer.response()

    return endpoint


async def request_arguments(request: Request, operation: Operation) -> dict[str, JsonValue]:
    """Return the arguments in a request's path and in its query or body."""
    if operation.method == "GET" and await request.body():
        raise invalid("arguments", "stand in the query, not in the body")

    given = _query(request, operation) if operation.method == "GET" else await json_body(request)
    for name in operation.path_parameters:
        if name in given:
            raise invalid(name, "stands in the path already")

    return {**given, **request.path_params}


def _query(request: Request, operation: Operation) -> dict[str, JsonValue]:
    """Return the query parameters, with the types in their schemas."""
    given: dict[str, JsonValue] = {}
    for name, text in request.query_params.multi_items():
        if name in given:
            raise invalid(name, "given more than once; separate several values by commas")

        given[name] = _read_text(text, operation.properties.get(name, {}), name)

    return given


def _read_text(text: str, schema: Schema, field: str) -> JsonValue:
    """Return a query parameter as a JSON value of the type in its schema."""
    kind = schema.get("type", "string")
    if kind == "string":
        return text
    if kind == "boolean" and text in _TRUTH:
        return _TRUTH[text]
    if kind == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "number" and _NUMBER.fullmatch(text):
        return float(text)

    raise invalid(field, f"give `{field}` as {in_words(schema)}")


async def json_body(request: Request) -> dict[str, JsonValue]:
    """Return the fields of a POST, whose body is one JSON object or empty. `BoundedBodyReader` has
    already read and checked the body.
    """
    if request.query_params:
        raise invalid("arguments", "stand in the body, not in the query")

    body = await request.body()
    if not body:
        return {}
    if not is_json(request.headers):
        raise invalid("Content-Type", "expected application/json")

    given = loads_strict(body)
    if not isinstance(given, dict):
        raise invalid("body", "expected one JSON object")

    return given
