"""JSON Schema of submission forms: a fast check of the few rules that they use, and rules in words.

The check is separate from `ktdeval.values.kinds`, because forms come as JSON Schema: tasks and
plugins write them, with alternatives of objects that no annotation describes. It is separate from
`jsonschema`, because that makes an object for each rule of each value: with ten orders it takes
longer than the step's request. Most submissions follow their form; only the others need a
validator, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ktdeval.values.strict_json import JsonValue

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
}
_NUMBERS = _TYPES["number"]


def plainly_follows(value: JsonValue, schema: Mapping[str, Any] | bool) -> bool:
    """Whether a value follows a schema (draft 2020-12); False also where only a validator can
    decide.
    """
    if isinstance(schema, bool):
        return schema
    return all(
        rule in _RULES and _RULES[rule](value, argument, schema)
        for rule, argument in schema.items()
    )


def _has(value: JsonValue, names: Any) -> bool:
    return type(value) is dict and all(name in value for name in names)


def _any_of(value: JsonValue, branches: Any, _: Mapping[str, Any]) -> bool:
    return any(plainly_follows(value, branch) for branch in branches)


_RULES: Mapping[str, Callable[[Any, Any, Mapping[str, Any]], bool]] = {
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
    "items": lambda value, each, _: (
        type(value) is list and all(plainly_follows(item, each) for item in value)
    ),
    "required": lambda value, names, _: _has(value, names),
    "anyOf": _any_of,
    "properties": lambda value, schemas, _: (
        type(value) is dict
        and all(
            plainly_follows(item, schemas[name]) for name, item in value.items() if name in schemas
        )
    ),
    "additionalProperties": lambda value, allowed, schema: (
        allowed is False
        and type(value) is dict
        and value.keys() <= schema.get("properties", {}).keys()
    ),
}
"""Rule name -> whether a value follows the rule; its arguments are the value, the rule's own value,
and its schema.
"""

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


def in_words(schema: Mapping[str, Any]) -> str:
    """Return what a schema asks of a value: `a whole number from 1 to 100`, `one of BUY, SELL`."""
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"

    for word in ("anyOf", "oneOf"):
        if word in schema:
            alternatives = [_alternative_in_words(branch) for branch in schema[word]]
            return " or ".join(dict.fromkeys(alternatives))

    words = _kinds_in_words(schema.get("type", "value"))
    words += _bounds_in_words(schema)
    for least, most, unit in _LENGTHS:
        if least in schema or most in schema:
            words += " of" + _span(schema.get(least), schema.get(most), f" {unit}")

    if "pattern" in schema:
        words += f", in the form {schema['pattern']}"

    return words


def _alternative_in_words(schema: Mapping[str, Any]) -> str:
    if "required" in schema:
        return f"an object with {', '.join(schema['required'])}"

    return in_words(schema)


def _kinds_in_words(kinds: str | Sequence[str]) -> str:
    names = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join(_KINDS.get(name, f"a {name}") for name in names)


def _bounds_in_words(schema: Mapping[str, Any]) -> str:
    if "exclusiveMinimum" not in schema:
        return _span(schema.get("minimum"), schema.get("maximum"), "")

    words = f" above {schema['exclusiveMinimum']}"
    if "maximum" in schema:
        words += f" and at most {schema['maximum']}"

    return words


def _span(least: Any, most: Any, unit: str) -> str:
    if least is None and most is None:
        return ""
    if least is None:
        return f" at most {most}{unit}"
    if most is None:
        return f" at least {least}{unit}"

    return f" {least} to {most}{unit}" if unit else f" from {least} to {most}"
