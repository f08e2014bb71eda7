"""Fast check of JSON Schema: whether a value follows a schema of the few rules that forms use, which most submissions do.

A validator looks at each rule of each value with an object of its own; with ten orders that takes longer than the step's request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ktdeval.jsonio import JsonObject, JsonValue

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "number": (int, float), "integer": (int,), "boolean": (bool,),
}  # fmt: skip
_NUMBERS = _TYPES["number"]


def plainly_follows(value: JsonValue, schema: JsonObject | bool) -> bool:
    """Whether a value follows a schema (draft 2020-12); False also where only a validator can decide."""
    if isinstance(schema, bool):
        return schema
    return all(rule in _RULES and _RULES[rule](value, argument, schema) for rule, argument in schema.items())


def _has(value: JsonValue, names: Any) -> bool:
    return type(value) is dict and all(name in value for name in names)


def _one_of(value: JsonValue, branches: Any, _: JsonObject) -> bool:
    # Exactly one must hold, so "no" must be as certain as "yes" here: it is where branches only name fields.
    plain = all(type(branch) is dict and branch.keys() == {"required"} for branch in branches)
    return plain and sum(_has(value, branch["required"]) for branch in branches) == 1


_RULES: Mapping[str, Callable[[JsonValue, Any, JsonObject], bool]] = {
    "$schema": lambda *_: True,
    "title": lambda *_: True,
    "description": lambda *_: True,
    "type": lambda value, name, _: type(name) is str and type(value) in _TYPES.get(name, ()),
    "enum": lambda value, words, _: type(value) is str and value in words,
    "minLength": lambda value, least, _: type(value) is str and len(value) >= least,
    "maxLength": lambda value, most, _: type(value) is str and len(value) <= most,
    "minimum": lambda value, least, _: type(value) in _NUMBERS and value >= least,
    "maximum": lambda value, most, _: type(value) in _NUMBERS and value <= most,
    "exclusiveMinimum": lambda value, below, _: type(value) in _NUMBERS and value > below,
    "minItems": lambda value, least, _: type(value) is list and len(value) >= least,
    "maxItems": lambda value, most, _: type(value) is list and len(value) <= most,
    "items": lambda value, each, _: type(value) is list and all(plainly_follows(item, each) for item in value),
    "required": lambda value, names, _: _has(value, names),
    "oneOf": _one_of,
    "properties": lambda value, schemas, _: (
        type(value) is dict and all(plainly_follows(item, schemas[name]) for name, item in value.items() if name in schemas)
    ),
    "additionalProperties": lambda value, allowed, schema: (
        allowed is False and type(value) is dict and value.keys() <= schema.get("properties", {}).keys()
    ),
}
"""Rule name -> whether a value follows the rule; its arguments are the value, the rule's own value, and its schema."""
