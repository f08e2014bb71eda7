"""JSON Schemas (draft 2020-12) of arguments and answers that all services share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktdeval.api import JsonValue
from ktdeval_qfinzero.operations import Schema
from ktdeval_qfinzero.paging import MAX_LENGTH


def text(description: str, longest: int = 40, **more: JsonValue) -> Schema:
    """A text argument of bounded length."""
    return {"type": "string", "description": description, "minLength": 1, "maxLength": longest, **more}


def choice(description: str, values: Sequence[str], **more: JsonValue) -> Schema:
    """A word out of some."""
    return {"type": "string", "description": description, "enum": list(values), **more}


def limit(most: int, default: int) -> Schema:
    """The argument for the length of a page."""
    return {"type": "integer", "description": "Most rows of one answer.", "minimum": 1, "maximum": most, "default": default}


CURSOR = text("next_cursor of the page before, to go on after it with the same other arguments.", MAX_LENGTH)

DAY: Schema = {"type": "string", "format": "date", "description": "Day such as 2025-01-06."}
MOMENT: Schema = {"type": "string", "format": "date-time", "description": "Moment in UTC such as 2025-01-06T14:30:00Z."}
AS_OF: Schema = {"type": "string", "format": "date-time", "description": "The clock: nothing later is in the answer."}
NEXT_CURSOR: Schema = {"type": ["string", "null"], "description": "Where the next page begins; null at the end."}
UNKNOWN: Schema = {
    "type": "array",
    "items": {"type": "string"},
    "description": "What was asked for that is not listed, as of the clock.",
}


def number(description: str, **more: JsonValue) -> Schema:
    """A number of an answer."""
    return {"type": "number", "description": description, **more}


def maybe(schema: Schema) -> Schema:
    """The same, or null where it is missing."""
    return {**schema, "type": [schema["type"], "null"]}


def row(properties: Mapping[str, Schema], required: Sequence[str], **more: JsonValue) -> Schema:
    """An object of an answer, with no other properties."""
    return {
        "type": "object",
        "properties": {name: dict(schema) for name, schema in properties.items()},
        "required": list(required),
        "additionalProperties": False,
        **more,
    }


def rows(properties: Mapping[str, Schema], required: Sequence[str], description: str, **more: JsonValue) -> Schema:
    """A list of objects of an answer."""
    return {"type": "array", "description": description, "items": row(properties, required, **more)}


def answer(**properties: Schema) -> Schema:
    """An answer: all properties are always there."""
    everything = {"as_of_ts": AS_OF, **properties}
    return row(everything, tuple(everything))
