"""Parts that Chat Completions and Responses share: errors, tools, the form of the reply.

Sources: the types of the `openai` package (`openai.types.chat`, `openai.types.responses`) and
platform.openai.com/docs/guides/error-codes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval.harness import NO_TOOL, ToolSpec
from ktdeval.values import JsonObject
from ktdeval_command.wire.bridge_request import ANY_OBJECT, NO_PARAMETERS, required_choice
from ktdeval_command.wire.refusals import RefusalKind, WireRefusal
from ktdeval_command.wire.request_fields import Fields

# HTTP status, `type` and `code` of an error, by kind. A used-up budget is what the API calls
# `insufficient_quota`.
_ERRORS: dict[RefusalKind, tuple[int, str, str | None]] = {
    "bad_request": (400, "invalid_request_error", None),
    "unsupported": (400, "invalid_request_error", "unsupported_parameter"),
    "unauthorized": (401, "invalid_request_error", "invalid_api_key"),
    "not_found": (404, "invalid_request_error", "unknown_url"),
    "too_large": (413, "invalid_request_error", "request_too_large"),
    "context_exceeded": (400, "invalid_request_error", "context_length_exceeded"),
    "leak_stopped": (400, "invalid_request_error", "leak_stopped"),
    "budget_spent": (429, "insufficient_quota", "insufficient_quota"),
    "rate_limited": (429, "rate_limit_error", "rate_limit_exceeded"),
    "overloaded": (503, "server_error", "overloaded"),
    "timeout": (504, "server_error", "timeout"),
    "forbidden": (403, "permission_error", "provider_refuses"),
    "failed": (502, "server_error", "model_call_failed"),
}


def write_error(refusal: WireRefusal) -> tuple[int, JsonObject]:
    """Return the HTTP status and the body of a refusal."""
    status, kind, code = _ERRORS[refusal.kind]
    error = {
        "message": refusal.message,
        "type": kind,
        "param": refusal.field or None,
        "code": code,
    }
    return status, {"error": error}


def read_function(fields: Fields) -> ToolSpec:
    """Return a tool from its name, description and parameters; without parameters it takes none (as
    `FunctionDefinition.parameters` says).
    """
    name = fields.needed_name("name")
    description = fields.text("description") or ""
    parameters = fields.mapping("parameters")
    if parameters is None:
        parameters = NO_PARAMETERS
    fields.ignore_rest()  # such as `strict`: the model may not enforce schemas

    return ToolSpec(name, description, parameters)


def plain_choice(fields: Fields, choice: object, tools: Sequence[ToolSpec]) -> str | None:
    """Return the choice that `none`, `auto` or `required` stand for."""
    if choice in (None, "auto"):
        return None
    if choice == "none":
        return NO_TOOL if tools else None
    if choice != "required":
        fields.wrong("tool_choice", "none, auto, required or an object")
    return required_choice(fields, "tool_choice", "required", tools)


def read_format(fields: Fields | None, schema_of: str) -> JsonObject | None:
    """Return the schema that a reply must follow; None where it is free. `schema_of`: field that
    holds name and schema; empty where they are fields of `fields`.
    """
    if fields is None:
        return None

    kind = fields.kind(("text", "json_object", "json_schema"))
    if kind == "text":
        return None
    if kind == "json_object":
        return ANY_OBJECT

    holder = fields.needed_child(schema_of) if schema_of else fields
    schema = holder.mapping("schema")
    holder.take("name")
    holder.ignore_rest()  # such as `strict`
    if schema is None:
        holder.wrong("schema", "a JSON Schema, is missing")
    return schema
