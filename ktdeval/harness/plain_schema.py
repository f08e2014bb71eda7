"""JSON Schema of forms: a fast check of the few rules that they use, which most submissions follow, and rules in words.

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

_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_LENGTHS = (("minLength", "maxLength", "characters"), ("minItems", "maxItems", "items"))


def in_words(schema: Mapping[str, JsonValue]) -> str:
    """Return what a schema asks of a value: `a whole number from 1 to 100`, `one of BUY, SELL`."""
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    kinds = schema.get("type", "value")
    words = " or ".join(_KINDS.get(kind, f"a {kind}") for kind in ([kinds] if isinstance(kinds, str) else kinds))
    if "exclusiveMinimum" in schema:
        words += f" above {schema['exclusiveMinimum']}" + (f" and at most {schema['maximum']}" if "maximum" in schema else "")
    else:
        words += _span(schema.get("minimum"), schema.get("maximum"), "")
    for least, most, what in _LENGTHS:
        words += " of" + _span(schema.get(least), schema.get(most), f" {what}") if {least, most} & schema.keys() else ""
    return words + (f", in the form {schema['pattern']}" if "pattern" in schema else "")


def _span(least: JsonValue, most: JsonValue, unit: str) -> str:
    if least is None and most is None:
        return ""
    if least is None or most is None:
        return f" at {'most' if least is None else 'least'} {most if least is None else least}{unit}"
    return f" {least} to {most}{unit}" if unit else f" from {least} to {most}"
