"""OpenAPI 3.1 document of the HTTP service, made from the operations' own schemas."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.access.workspaces import HEADER
from ktdeval_qfinzero.errors import STATUS, Code
from ktdeval_qfinzero.operations import Catalogue, Operation
from ktdeval_qfinzero.schemas import Arguments, Row, Schema, said, schema_of

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
    "timeout": "The request's body took too long.",
    "too_large": "The request is too large.",
    "unavailable": "Too many workspaces, or too many calls wait for this one.",
}


class ErrorInfo(Row):
    """A refusal or a defect."""

    code: Annotated[Literal[Code, "internal"], said("Kind of error.")]
    message: Annotated[str, said("One line.")]
    field: Annotated[str, said("The argument concerned, with its place inside.")] | UnsetType = UNSET


class ErrorEnvelope(Row):
    """Form of every error."""

    error: Annotated[ErrorInfo, said("What is wrong and how to fix it.")]


WorkspaceId = Annotated[str, Meta(description="Id of the workspace.", min_length=1, max_length=64)]


_START = Meta(
    description="Where the clock starts, such as 2025-01-06T21:00:00Z; the server's own start when left out.", max_length=40
)


class OpenWorkspace(Arguments):
    """A workspace to be opened."""

    as_of_ts: Annotated[str, _START] | None = None


class DropWorkspace(Arguments):
    """A workspace to be dropped."""

    workspace_id: WorkspaceId


class Opened(Row):
    """A new workspace."""

    workspace_id: WorkspaceId
    as_of_ts: Annotated[str, said("Where the workspace's clock stands.")]


class Dropped(Row):
    """A workspace that is gone."""

    workspace_id: WorkspaceId
    dropped: Annotated[bool, said("It is gone.")]


def _unused(*_: Any) -> Any:
    raise NotImplementedError("the server opens and drops workspaces itself")


OPENING: Final = Operation(
    "workspaces.open", "POST", "/workspaces", "Open a workspace: a clock and a broker of one's own.", OpenWorkspace, Opened, _unused
)
_DROP = "Drop a workspace with all it holds."
DROPPING: Final = Operation("workspaces.drop", "DELETE", "/workspaces/{workspace_id}", _DROP, DropWorkspace, Dropped, _unused)


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
        "info": {"title": "QFinZero services", "version": version("ktdeval"), "description": _ABOUT},
        "tags": [{"name": name, "description": text} for name, text in FAMILIES.items()],
        **security,
        "paths": paths,
        "components": {
            **scheme,
            "schemas": {"Error": schema_of(ErrorEnvelope)},
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


def _parameter(operation: Operation, name: str, place: Literal["path", "query"]) -> JsonObject:
    schema = dict(operation.properties[name])
    required = name in operation.required
    return {"name": name, "in": place, "required": required, "description": schema["description"], "schema": schema}


def _errors(is_guarded: bool) -> JsonObject:
    """Every error that any call may answer with."""
    schema: JsonObject = {"$ref": "#/components/schemas/Error"}
    found = {
        str(status): _content(_MEANING[code], schema) for code, status in STATUS.items() if is_guarded or code != "unauthorized"
    }
    return {**found, "500": _content("A defect of the service.", schema)}


def _content(description: str, schema: Schema) -> JsonObject:
    return {"description": description, "content": {"application/json": {"schema": dict(schema)}}}
