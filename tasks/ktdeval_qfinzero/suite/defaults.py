"""Arguments with the defaults of the tool that is called: leaving one out and giving its default ask for the same."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.schemas import Schema


def with_defaults(tool: str, arguments: JsonValue) -> JsonValue:
    """Arguments of a call with every default of its tool's schema that they leave out, within given objects and lists too.
    Looks at the call alone, never at what is expected. An object that is absent stays so: it may be required. Defaults that have no
    effect beside other arguments are not filled in. `tool`: dotted name; arguments of any other name stay as they are; `arguments`:
    as recorded; what is no object stays as it is.
    """
    try:
        schema = catalogue().find(tool).parameters
    except ServiceError:
        return arguments
    if not isinstance(arguments, Mapping):
        return arguments
    idle = _without_effect(tool, arguments)
    filled: Mapping[str, JsonValue] = _filled(arguments, schema)
    return {name: value for name, value in filled.items() if name in arguments or name not in idle}


def _without_effect(tool: str, arguments: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Arguments that the given ones make idle, as the tools' descriptions say."""
    if tool == "PMB.session.step" and "until_ts" in arguments:
        return ("step",)
    if tool == "ESP.events.query" and arguments.get("mode") == "window":
        return ("horizon_minutes",)
    return ()


def _filled(value: JsonValue, schema: Schema) -> JsonValue:
    if isinstance(value, list):
        return [_filled(item, schema.get("items", {})) for item in value]
    if not isinstance(value, Mapping):
        return value
    parts: Mapping[str, Schema] = schema.get("properties", {})
    absent = {name: part["default"] for name, part in parts.items() if "default" in part and name not in value}
    return {**absent, **{name: _filled(item, parts.get(name, {})) for name, item in value.items()}}
