"""The OpenAPI 3.1 document of the HTTP service, made from the operations' own schemas."""

from __future__ import annotations

from importlib.metadata import version
from typing import get_args

from ktdeval.api import JsonValue
from ktdeval_qfinzero.access.workspaces import HEADER
from ktdeval_qfinzero.errors import STATUS, Code
from ktdeval_qfinzero.operations import Catalogue, Operation, Schema

JsonObject = dict[str, JsonValue]

FAMILIES = {
    "UPQ": "Prices, options, rates and corporate actions as of the clock.",
    "ESP": "Calendars, news and what triggers next, as of the clock.",
    "PMB": "The paper broker: accounts, sessions that step the clock, orders and options.",
    "workspaces": "A clock and a broker of one's own.",
}
_ABOUT = f"""Price, event and broker services of one clock. Every call acts on a workspace, which has a clock and a broker of its
own: open one with `POST /workspaces` and send its id in the header `{HEADER}`. Nothing that became known after the clock's moment
is ever answered; the clock goes forward when a broker's session is stepped, and never back. Errors have one form."""
_MEANING: dict[str, str] = {
    "invalid_argument": "An argument, or the request itself, can't be used.",
    "unauthorized": "The server's token is missing or wrong.",
    "not_found": "There is no such thing, or not yet as of the clock; or no such workspace.",
    "conflict": "The present state does not allow it.",
    "too_large": "The request is too large.",
    "unavailable": "Too many workspaces, or too many calls wait for this one.",
}

ERROR_SCHEMA: JsonObject = {
    "type": "object",
    "description": "What is wrong and how to mend it.",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"enum": [*get_args(Code), "internal"], "description": "the kind of error"},
                "message": {"type": "string", "description": "one line"},
                "field": {"type": "string", "description": "the argument concerned, with its place inside"},
            },
            "required": ["code", "message"],
            "additionalProperties": False,
        }
    },
    "required": ["error"],
    "additionalProperties": False,
}

_MOMENT: JsonObject = {"type": "string", "description": "where the workspace's clock stands"}
_WORKSPACE_ID: JsonObject = {"type": "string", "minLength": 1, "maxLength": 64, "description": "the workspace's id"}
OPENED_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"workspace_id": _WORKSPACE_ID, "as_of_ts": _MOMENT},
    "required": ["workspace_id", "as_of_ts"],
    "additionalProperties": False,
}
DROPPED_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"workspace_id": _WORKSPACE_ID, "dropped": {"const": True, "description": "it is gone"}},
    "required": ["workspace_id", "dropped"],
    "additionalProperties": False,
}
OPEN_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "as_of_ts": {
            "type": "string",
            "maxLength": 40,
            "description": "where the clock starts, such as 2025-01-06T21:00:00Z; the server's own start when left out",
        }
    },
    "additionalProperties": False,
}


def openapi_document(catalogue: Catalogue, *, is_guarded: bool) -> JsonObject:
    """The document.

    Args:
        catalogue: the operations.
        is_guarded: whether the server asks for a token.
    """
    paths: JsonObject = {}
    for operation in catalogue.operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, is_guarded)
    security: JsonObject = {"security": [{"token": []}]} if is_guarded else {}
    scheme: JsonObject = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if is_guarded else {}
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {"title": "QFinZero services", "version": version("ktdeval"), "description": _ABOUT},
        "tags": [{"name": name, "description": text} for name, text in FAMILIES.items()],
        **security,
        "paths": {**_workspace_paths(is_guarded), **paths},
        "components": {
            **scheme,
            "schemas": {"Error": ERROR_SCHEMA},
            "parameters": {
                "Workspace": {
                    "name": HEADER,
                    "in": "header",
                    "required": True,
                    "description": "the workspace that the call acts on; POST /workspaces opens one",
                    "schema": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9_-]+$"},
                }
            },
        },
    }


def body_schema(operation: Operation) -> JsonObject:
    """The schema of a POST's body: all arguments but those of the path."""
    in_path = operation.path_parameters
    return {
        **operation.parameters,
        "properties": {name: dict(schema) for name, schema in operation.properties.items() if name not in in_path},
        "required": [name for name in operation.required if name not in in_path],
    }


def _operation(operation: Operation, is_guarded: bool) -> JsonObject:
    described: JsonObject = {
        "operationId": operation.wire_name,
        "summary": operation.summary,
        "description": f"Called `{operation.name}` where a call is written down.",
        "tags": [operation.family],
        "parameters": [{"$ref": "#/components/parameters/Workspace"}, *_parameters(operation)],
        "responses": {"200": _content("The answer.", operation.result), **_errors(is_guarded)},
    }
    if operation.method == "POST":
        schema = body_schema(operation)
        described["requestBody"] = {"required": bool(schema["required"]), "content": {"application/json": {"schema": schema}}}
    return described


def _parameters(operation: Operation) -> list[JsonValue]:
    """Parameters of the path, and of a GET those of the query."""
    in_path = operation.path_parameters
    path = [_parameter(name, "path", operation.properties[name], required=True) for name in in_path]
    if operation.method == "POST":
        return path
    query = [name for name in operation.properties if name not in in_path]
    return path + [_parameter(name, "query", operation.properties[name], required=name in operation.required) for name in query]


def _parameter(name: str, place: str, schema: Schema, *, required: bool) -> JsonObject:
    return {"name": name, "in": place, "required": required, "description": schema["description"], "schema": dict(schema)}


def _workspace_paths(is_guarded: bool) -> JsonObject:
    opening = {
        "operationId": "workspaces_open",
        "summary": "Open a workspace: a clock and a broker of one's own.",
        "tags": ["workspaces"],
        "requestBody": {"required": False, "content": {"application/json": {"schema": OPEN_SCHEMA}}},
        "responses": {"201": _content("The workspace.", OPENED_SCHEMA), **_errors(is_guarded)},
    }
    dropping = {
        "operationId": "workspaces_drop",
        "summary": "Drop a workspace and all that is in it.",
        "tags": ["workspaces"],
        "parameters": [_parameter("workspace_id", "path", _WORKSPACE_ID, required=True)],
        "responses": {"200": _content("It is gone.", DROPPED_SCHEMA), **_errors(is_guarded)},
    }
    return {"/workspaces": {"post": opening}, "/workspaces/{workspace_id}": {"delete": dropping}}


def _errors(is_guarded: bool) -> JsonObject:
    """Every error that any call may answer with."""
    schema: JsonObject = {"$ref": "#/components/schemas/Error"}
    found = {
        str(status): _content(_MEANING[code], schema) for code, status in STATUS.items() if is_guarded or code != "unauthorized"
    }
    return {**found, "500": _content("A defect of the service.", schema)}


def _content(description: str, schema: Schema) -> JsonObject:
    return {"description": description, "content": {"application/json": {"schema": dict(schema)}}}
