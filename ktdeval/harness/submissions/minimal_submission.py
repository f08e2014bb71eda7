"""Smallest value that conforms to a JSON Schema: a trivial submission for any form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from ktdeval.values.documents.strict_json import JsonValue

_FILLER = "trivial "
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")


def smallest_value(schema: Mapping[str, Any]) -> JsonValue:
    """Return the smallest value that conforms to a schema: the first choice, null if allowed, only
    required fields, as few items as allowed, the number closest to 0. Raises ValueError if the
    result does not conform, which means that the schema has an unsupported rule (a pattern, a sum,
    …).
    """
    value = _smallest(schema)
    problem = next(Draft202012Validator(schema).iter_errors(value), None)
    if problem is not None:
        raise ValueError(f"no trivial value is known: {problem.message}")

    return value


def _smallest(schema: Any) -> JsonValue:
    if not isinstance(schema, Mapping):
        return None
    if "const" in schema:
        return schema["const"]  # type: ignore[no-any-return]  # JSON, as all of a schema
    if "enum" in schema:
        return schema["enum"][0]  # type: ignore[no-any-return]
    if "type" not in schema:
        return _of_alternatives(schema)

    kind = schema["type"]
    if isinstance(kind, Sequence) and not isinstance(kind, str):
        kind = "null" if "null" in kind else kind[0]

    return _of_type(str(kind), schema)


def _of_alternatives(schema: Mapping[str, Any]) -> JsonValue:
    """Return a value for the first branch whose value conforms to the whole schema."""
    for word in _ALTERNATIVES:
        for branch in schema.get(word, ()):
            value = _smallest(branch)
            if Draft202012Validator(schema).is_valid(value):
                return value

    return None


def _of_type(kind: str, schema: Mapping[str, Any]) -> JsonValue:
    if kind == "object":
        return _smallest_object(schema)
    if kind == "array":
        item = _smallest(schema.get("items", True))
        return [item] * int(schema.get("minItems", 0))
    if kind == "string":
        return _filler_text(int(schema.get("minLength", 0)), schema.get("maxLength"))
    if kind in ("number", "integer"):
        return _smallest_number(kind, schema)
    if kind == "boolean":
        return False

    return None


def _smallest_object(schema: Mapping[str, Any]) -> JsonValue:
    """Return the required fields, plus any fields that the first matching alternative adds."""
    fields = schema.get("properties", {})
    required = list(schema.get("required", ()))
    made: dict[str, JsonValue] = {name: _smallest(fields.get(name, True)) for name in required}
    if Draft202012Validator(schema).is_valid(made):
        return made

    for word in _ALTERNATIVES:
        for branch in schema.get(word, ()):
            added = [name for name in branch.get("required", ()) if name not in made]
            own = {**fields, **branch.get("properties", {})}
            candidate = {**made, **{name: _smallest(own.get(name, True)) for name in added}}
            if Draft202012Validator(schema).is_valid(candidate):
                return candidate

    return made


def _filler_text(least: int, most: int | None) -> str:
    length = max(least, len(_FILLER.strip()))
    if most is not None:
        length = max(least, min(length, most))

    return (_FILLER * (length // len(_FILLER) + 1))[:length].rstrip() or "x" * length


def _smallest_number(kind: str, schema: Mapping[str, Any]) -> JsonValue:
    """Return the number within the bounds that is closest to 0."""
    step = 1 if kind == "integer" else 0.5
    low = schema.get("minimum", -math.inf)
    high = schema.get("maximum", math.inf)
    if "exclusiveMinimum" in schema:
        low = max(low, schema["exclusiveMinimum"] + step)
    if "exclusiveMaximum" in schema:
        high = min(high, schema["exclusiveMaximum"] - step)

    nearest = min(max(0, low), high)
    if kind == "integer":
        return int(math.ceil(nearest))  # noqa: RUF046 - a schema's bound may have any type
    return float(nearest)
