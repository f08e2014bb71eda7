"""Documented treatment of JSON Schemas by three providers: which rules they refuse, or do
not enforce.

OpenAI: "Structured model outputs", "Supported schemas" (strict mode): the root is an object; every
object is closed and requires all of its fields; certain words only; at most 5,000 fields, 10
levels, 1,000 values of enumerations, and 120,000 characters of names and values. Its message of
refusal adds that alternatives must not begin with the same field, unless the field's value tells
them apart. ktdeval sends `strict: false`, so nothing is refused: these rules say what keeps a
schema from the strict mode. Anthropic: "Structured outputs", "JSON Schema limitations". Gemini:
"Structured output", "JSON Schema support".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ktdeval_models.remote.requests.schema_rewrites import (
    InexpressibleError,
    closed_schema,
    readable_schema,
)

Schema = Mapping[str, Any]

MAX_FIELDS = 5_000
MAX_LEVELS = 10
MAX_VALUES = 1_000
MAX_CHARACTERS = 120_000
STRICT_WORDS = frozenset(
    {
        *(
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "anyOf",
            "$ref",
            "$defs",
        ),
        *("enum", "const", "description", "title", "pattern", "format"),
        *(
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minItems",
            "maxItems",
        ),
    }
)
# they ask nothing of a document
SILENT_WORDS = frozenset(("description", "title", "default", "$schema"))


def subschemas(schema: Schema) -> Iterator[Schema]:
    """A schema and all inside it."""
    yield schema
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [
        schema[word]
        for word in ("items", "additionalProperties")
        if isinstance(schema.get(word), Mapping)
    ]

    for part in inner:
        yield from subschemas(part)


def words_of(schema: Schema) -> set[str]:
    """The words that ask something of a document."""
    return set[str]().union(*subschemas(schema)) - SILENT_WORDS


def strict_problems(schema: Schema) -> list[str]:
    """Families of OpenAI's strict rules that a schema breaks."""
    found = set()
    if schema.get("type") != "object" or "anyOf" in schema:
        found.add("root")

    for part in subschemas(schema):
        found |= {f"word {word}" for word in part.keys() - STRICT_WORDS}
        if part.get("type") == "object":
            if part.get("additionalProperties") is not False:
                found.add("names")

            if set(part.get("required", ())) != set(part.get("properties", ())):
                found.add("optional")

        if _begin_alike(part.get("anyOf", ())):
            found.add("first_field")

    if _is_large(schema):
        found.add("size")

    return sorted(found)


def _begin_alike(branches: Any) -> bool:
    objects = [branch["properties"] for branch in branches if branch.get("properties")]
    firsts = [
        (next(iter(parts)), json.dumps(next(iter(parts.values())).get("enum"))) for parts in objects
    ]
    return len(set(firsts)) < len(firsts)


def _is_large(schema: Schema) -> bool:
    names: list[str] = []
    values: list[str] = []
    for part in subschemas(schema):
        names += part.get("properties", ())
        values += map(str, part.get("enum", ()))

    characters = sum(map(len, [*names, *values]))
    sizes = (
        (len(names), MAX_FIELDS),
        (len(values), MAX_VALUES),
        (characters, MAX_CHARACTERS),
        (depth(schema), MAX_LEVELS),
    )

    return any(size > most for size, most in sizes)


def depth(schema: Schema) -> int:
    """Levels of objects, one inside another."""
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [
        schema[word]
        for word in ("items", "additionalProperties")
        if isinstance(schema.get(word), Mapping)
    ]
    own = 1 if schema.get("type") == "object" else 0

    return own + max(map(depth, inner), default=0)


def claude_problems(schema: Schema) -> list[str]:
    """Why a schema is not sent to Claude; else the words that are left to the reader of the
    reply.
    """
    try:
        closed = closed_schema(schema)
    except InexpressibleError as error:
        return ["optional_24" if "optional" in str(error) else "names"]

    return _left_out(schema, closed)


def gemini_problems(schema: Schema) -> list[str]:
    """The words that Gemini is not sent, and that are left to the reader of the reply."""
    return _left_out(schema, readable_schema(schema))


def _left_out(schema: Schema, rewritten: Schema) -> list[str]:
    return sorted(f"word {word}" for word in words_of(schema) - words_of(rewritten))


RULES = {"OpenAI strict": strict_problems, "Claude": claude_problems, "Gemini": gemini_problems}
