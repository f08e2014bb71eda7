"""Rewrite JSON Schemas into the subset that a provider supports.

Providers refuse or misread some keywords. A rewritten schema admits every document that the
original admits. Most keywords can be omitted: this only admits more documents, and a reply is
checked against the original schema anyway. Some keywords must be omitted in pairs, because one
excludes the documents that the other does not admit: a closed object and its pattern properties,
the rest of a list and its first items. A part that can't be expressed at all is an error, never a
stricter schema.

Sources: Anthropic's page on structured outputs, "JSON Schema limitations"; Gemini's page on
structured output, "JSON Schema support", and the field `responseJsonSchema` in the Gemini API
reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktdeval.values import JsonValue
from ktdeval_models.remote.wire_words import wire_words

Body = dict[str, Any]
Schema = Mapping[str, JsonValue]

_CLOSED_WORDS = frozenset(wire_words("anthropic")["schema_words"])
_READ_WORDS = frozenset(wire_words("google")["schema_words"])
_ALTERNATIVES = ("anyOf", "oneOf")
_DEFINITIONS = ("$defs", "definitions")
# supported string formats (Anthropic, "JSON Schema limitations")
_FORMATS = (
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "uri",
    "ipv4",
    "ipv6",
    "uuid",
)
# Anthropic's limits per request on optional fields, and on fields with several types
_MAX_OPTIONAL = 24
_MAX_UNIONS = 16
# lookaround, back references and word boundaries
_HARD_PATTERN = re.compile(r"\(\?[=!<]|\\[1-9bB]")


class InexpressibleError(Exception):
    """A part of a schema that a provider can't express. The message identifies the part and says
    what kind of part it is.
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where or 'the whole'}: {what}")


def _schemas_by_name(schema: Schema, word: str) -> Schema:
    """Return a keyword's schemas keyed by name, such as the schemas in `properties`; empty if
    absent.
    """
    value = schema.get(word)
    return value if isinstance(value, Mapping) else {}


def _keyword_list(schema: Schema, word: str) -> Sequence[JsonValue]:
    """Return the list in a keyword, such as `required`; empty if absent."""
    value = schema.get(word)
    return value if isinstance(value, list) else ()


# --- Anthropic: every object is closed


def closed_schema(schema: Schema) -> Body:
    """Return a schema in the form required by Anthropic's structured outputs.

    Raises InexpressibleError if the schema has an object or value without a fixed form, refers to
    itself, or has more optional fields or unions than the provider can compile.
    """
    closed = _close_schema(schema, "")
    if _refers_to_itself(closed):
        raise InexpressibleError("", "a schema that refers to itself")

    optional = 0
    unions = 0
    for part in _subschemas(closed):
        if "properties" in part:
            optional += len(part["properties"]) - len(part.get("required", ()))

        if "anyOf" in part or isinstance(part.get("type"), list):
            unions += 1

    if optional > _MAX_OPTIONAL:
        raise InexpressibleError("", f"{optional} optional fields, of at most {_MAX_OPTIONAL}")

    if unions > _MAX_UNIONS:
        raise InexpressibleError("", f"{unions} fields of several types, of at most {_MAX_UNIONS}")

    return closed


def _close_schema(schema: JsonValue, where: str) -> Body:
    if not isinstance(schema, Mapping) or not _is_typed(schema):
        raise InexpressibleError(where, "a value of any form")

    closed: Body = {word: value for word, value in schema.items() if word in _CLOSED_WORDS}
    for word in _DEFINITIONS:
        if word in schema:
            closed[word] = {}
            for name, part in _schemas_by_name(schema, word).items():
                closed[word][name] = _close_schema(part, f"{where}.{word}.{name}")

    branches = _alternatives(schema)
    if branches:
        closed["anyOf"] = [_close_schema(branch, where) for branch in branches]

    if _admits(schema, "object"):
        closed |= _closed_object(schema, where)

    if _admits(schema, "array"):
        closed["items"] = _closed_items(schema, where)

    return _with_known_values(closed)


def _with_known_values(closed: Body) -> Body:
    """Return a schema without the keyword values that the provider does not support."""
    least = closed.get("minItems")
    if isinstance(least, int):
        # The page on structured outputs: only 0 and 1
        closed["minItems"] = min(least, 1)

    if closed.get("format") not in _FORMATS:
        closed.pop("format", None)

    if _HARD_PATTERN.search(str(closed.get("pattern", ""))):
        del closed["pattern"]

    return closed


def _closed_object(schema: Schema, where: str) -> Body:
    if schema.get("additionalProperties") is not False or "patternProperties" in schema:
        raise InexpressibleError(where, "an object with names of the writer's own")

    parts = _schemas_by_name(schema, "properties")
    properties = {}
    for name, part in parts.items():
        properties[name] = _close_schema(part, f"{where}.{name}".lstrip("."))

    required = [name for name in _keyword_list(schema, "required") if name in parts]
    return {"properties": properties, "required": required, "additionalProperties": False}


def _closed_items(schema: Schema, where: str) -> Body:
    items = schema.get("items")
    if "prefixItems" in schema or not isinstance(items, Mapping):
        raise InexpressibleError(where, "a list of anything")
    return _close_schema(items, f"{where}[]")


# --- Gemini: some keywords are omitted


def readable_schema(schema: Schema) -> Body:
    """Return a schema without the keywords that Gemini refuses or misreads.

    Gemini reads an alternative as a complete type, so alternatives that only list required fields
    are omitted. Gemini also reads `oneOf` as `anyOf`. Each enumeration is given a type, and null
    becomes an alternative.
    """
    if "$ref" in schema:  # no other keyword may be next to this one
        target = str(schema["$ref"]).replace("#/definitions/", "#/$defs/")
        return {"$ref": target, **_all_definitions(schema)}

    readable: Body = {}
    for word, value in schema.items():
        # Keywords that contain schemas are rewritten below.
        if word in _READ_WORDS and not isinstance(value, Mapping | bool):
            readable[word] = value

    readable |= _all_definitions(schema)
    readable |= _readable_parts(schema)
    branches = _alternatives(schema)
    if branches:
        readable["anyOf"] = [readable_schema(branch) for branch in branches]

    if "const" in schema:
        return _readable_enum(readable, [schema["const"]])
    if "enum" in schema:
        return _readable_enum(readable, _keyword_list(schema, "enum"))
    return readable


def _all_definitions(schema: Schema) -> Body:
    """Return all definitions in a schema under one keyword."""
    definitions = {}
    for word in _DEFINITIONS:
        for name, part in _schemas_by_name(schema, word).items():
            definitions[name] = _readable_part(part)

    return {"$defs": definitions} if definitions else {}


def _readable_part(part: JsonValue) -> Body:
    """Return a readable schema; `true`, which admits anything, becomes an empty schema."""
    return readable_schema(part if isinstance(part, Mapping) else {})


def _readable_parts(schema: Schema) -> Body:
    """Return the keywords of an object or list whose values are schemas."""
    parts: Body = {}
    if "properties" in schema:
        properties = _schemas_by_name(schema, "properties")
        parts["properties"] = {name: _readable_part(part) for name, part in properties.items()}

    if "prefixItems" in schema:
        parts["prefixItems"] = [
            _readable_part(part) for part in _keyword_list(schema, "prefixItems")
        ]

    items = schema.get("items")
    if isinstance(items, Mapping):
        parts["items"] = readable_schema(items)

    more = schema.get("additionalProperties", True)
    # Without the pattern, the names that it admits would be refused.
    if "patternProperties" not in schema and more is not True:
        parts["additionalProperties"] = False
        if isinstance(more, Mapping):
            parts["additionalProperties"] = readable_schema(more)

    return parts


def _readable_enum(readable: Body, values: Sequence[JsonValue]) -> Body:
    """Return a schema whose enumeration holds strings and numbers. If it has other values, the
    schema has only a type.
    """
    readable.pop("enum", None)
    others = [value for value in values if value is not None]
    if not all(_is_text_or_number(value) for value in others):
        return readable
    if not others:
        return {**readable, "type": "null"}

    listed = {**readable, "enum": others}
    if all(isinstance(value, str) for value in others):
        listed["type"] = "string"

    if None not in values:
        return listed

    outer: Body = {}
    for word in ("title", "description"):
        if word in listed:
            outer[word] = listed.pop(word)

    outer["anyOf"] = [listed, {"type": "null"}]
    return outer


def _is_text_or_number(value: JsonValue) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


# --- common to both providers


def _alternatives(schema: Schema) -> list[Schema]:
    """Return the alternatives of a schema if all of them are complete types; empty if any
    alternative is only a condition.
    """
    for word in _ALTERNATIVES:
        branches = _keyword_list(schema, word)
        types = [part for part in branches if isinstance(part, Mapping) and _is_typed(part)]
        if types and len(types) == len(branches):
            return types

    return []


def _is_typed(schema: Schema) -> bool:
    """Return whether a schema specifies its type or its values."""
    if schema.keys() & {"type", "enum", "const", "$ref"}:
        return True
    return bool(_alternatives(schema))


def _admits(schema: Schema, kind: str) -> bool:
    """Return whether a schema lists a type. A schema that has only an enumeration, a reference or
    alternatives lists none.
    """
    kinds = schema.get("type", ())
    return kind == kinds or (isinstance(kinds, list) and kind in kinds)


def _subschemas(schema: Body) -> Iterator[Body]:
    """Yield a schema and all schemas inside it."""
    yield schema
    for word in ("properties", *_DEFINITIONS):
        for part in schema.get(word, {}).values():
            yield from _subschemas(part)

    for part in schema.get("anyOf", ()):
        yield from _subschemas(part)

    if "items" in schema:
        yield from _subschemas(schema["items"])


def _references(schema: Body) -> set[str]:
    """Return the targets of the references in a schema."""
    return {part["$ref"] for part in _subschemas(schema) if "$ref" in part}


def _refers_to_itself(schema: Body) -> bool:
    """Return whether a definition refers back to itself, or a reference has no definition."""
    leads: dict[str, set[str]] = {}
    for word in _DEFINITIONS:
        for name, part in schema.get(word, {}).items():
            leads[f"#/{word}/{name}"] = _references(part)

    if not _references(schema) <= leads.keys():
        return True

    # Remove definitions without references until nothing changes; a cycle remains.
    while leads:
        ends = [name for name, targets in leads.items() if not targets & leads.keys()]
        if not ends:
            return True

        for name in ends:
            del leads[name]

    return False
