"""Parts of requests that Chat Completions and Responses share: tools, and the format of the reply."""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval.harness import NO_TOOL, ToolSpec
from ktdeval.values import JsonObject
from ktdeval_command.wire.bridge_request import ANY_OBJECT, NO_PARAMETERS, required_choice
from ktdeval_command.wire.request_fields import Fields


def read_function(fields: Fields) -> ToolSpec:
    """Return a tool from its name, description and parameters. Without `parameters` the tool takes
    none (see `FunctionDefinition.parameters`).
    """
    name = fields.needed_name("name")
    description = fields.text("description") or ""
    parameters = fields.mapping("parameters")
    if parameters is None:
        parameters = NO_PARAMETERS
    fields.ignore_rest()  # such as `strict`: the model may not enforce schemas

    return ToolSpec(name, description, parameters)


def plain_choice(fields: Fields, choice: object, tools: Sequence[ToolSpec]) -> str | None:
    """Return the tool choice for `none`, `auto` or `required`."""
    if choice in (None, "auto"):
        return None
    if choice == "none":
        return NO_TOOL if tools else None
    if choice != "required":
        fields.wrong("tool_choice", "none, auto, required or an object")
    return required_choice(fields, "tool_choice", "required", tools)


def read_format(fields: Fields | None, schema_of: str) -> JsonObject | None:
    """Return the schema that a reply must follow; None if the reply's format is free. `schema_of`:
    field that contains name and schema; empty if both are fields of `fields`.
    """
    if fields is None:
        return None

    kind = fields.kind(("text", "json_object", "json_schema"))
    if kind == "text":
        return None
    if kind == "json_object":
        return ANY_OBJECT

    holder = fields.needed_child(schema_of) if schema_of else fields
    schema = holder.needed_schema("schema")
    holder.take("name")
    holder.ignore_rest()  # such as `strict`
    return schema
