"""Rules of a JSON Schema in words that say what to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ktdeval.jsonio import JsonValue

_KINDS: Final = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_LENGTHS: Final = (("minLength", "maxLength", "characters"), ("minItems", "maxItems", "items"))


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
