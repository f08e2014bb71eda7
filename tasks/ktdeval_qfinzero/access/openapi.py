"""OpenAPI 3.1 document of the HTTP service, made from the operations' own schemas."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

from ktdeval.jsonio import JsonValue
from ktdeval.yamlio import load_yaml
from ktdeval_qfinzero.access import types
from ktdeval_qfinzero.access.workspaces import HEADER
from ktdeval_qfinzero.errors import STATUS
from ktdeval_qfinzero.operations import Catalogue, Operation
from ktdeval_qfinzero.schemas import Schema, schema_of

JsonObject = dict[str, JsonValue]

_TEXTS: Final = load_yaml(Path(__file__).with_name("openapi.yaml"))


def _unused(*_: Any) -> Any:
    raise NotImplementedError("the server opens and drops workspaces itself")


_OPEN, _DROP = "Open a workspace: a clock and a broker of one's own.", "Drop a workspace with all it holds."
OPENING: Final = Operation("workspaces.open", "POST", "/workspaces", _OPEN, types.OpenWorkspace, types.Opened, _unused)
DROPPING: Final = Operation(
    "workspaces.drop", "DELETE", "/workspaces/{workspace_id}", _DROP, types.DropWorkspace, types.Dropped, _unused
)


def openapi_document(catalogue: Catalogue, *, is_guarded: bool) -> JsonObject:
    """Make the document. `is_guarded`: whether the server asks for a token."""
    paths: JsonObject = {}
    for operation in (OPENING, DROPPING, *catalogue.operations):
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, is_guarded)
    security: JsonObject = {"security": [{"token": []}]} if is_guarded else {}
    scheme: JsonObject = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if is_guarded else {}
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {"title": "QFinZero services", "version": version("ktdeval"), "description": _TEXTS["about"]},
        "tags": [{"name": name, "description": text} for name, text in _TEXTS["families"].items()],
        **security,
        "paths": paths,
        "components": {
            **scheme,
            "schemas": {"Error": schema_of(types.ErrorEnvelope)},
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


def _operation(operation: Operation, is_guarded: bool) -> JsonObject:
    in_path, opens = operation.path_parameters, operation is OPENING
    in_query = [name for name in operation.properties if name not in in_path and operation.method == "GET"]
    header: list[JsonValue] = [] if operation in (OPENING, DROPPING) else [{"$ref": "#/components/parameters/Workspace"}]
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
        "responses": {"201" if opens else "200": _content("The answer.", operation.result), **_errors(is_guarded)},
    }
    if operation.method == "POST":
        schema = {
            **operation.parameters,
            "properties": {name: dict(part) for name, part in operation.properties.items() if name not in in_path},
            "required": [name for name in operation.required if name not in in_path],
        }
        described["requestBody"] = {"required": bool(schema["required"]), "content": {"application/json": {"schema": schema}}}
    return described


def _parameter(operation: Operation, name: str, location: Literal["path", "query"]) -> JsonObject:
    schema = dict(operation.properties[name])
    required = name in operation.required
    return {"name": name, "in": location, "required": required, "description": schema["description"], "schema": schema}


def _errors(is_guarded: bool) -> JsonObject:
    """Every error that any call may answer with."""
    schema: JsonObject = {"$ref": "#/components/schemas/Error"}
    kinds = {code: status for code, status in STATUS.items() if is_guarded or code != "unauthorized"}
    responses = {str(status): _content(_TEXTS["errors"][code], schema) for code, status in kinds.items()}
    return {**responses, "500": _content("A defect of the service.", schema)}


def _content(description: str, schema: Schema) -> JsonObject:
    return {"description": description, "content": {"application/json": {"schema": dict(schema)}}}
