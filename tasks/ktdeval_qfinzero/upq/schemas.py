"""JSON Schemas (draft 2020-12) of arguments and answers that several price queries share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktdeval.api import JsonValue
from ktdeval_qfinzero.operations import Schema
from ktdeval_qfinzero.paging import MAX_LENGTH
from ktdeval_qfinzero.upq.arguments import MAX_TICKERS


def text(description: str, longest: int = 40, **more: JsonValue) -> Schema:
    """A text argument of bounded length."""
    return {"type": "string", "description": description, "minLength": 1, "maxLength": longest, **more}


def choice(description: str, values: Sequence[str], **more: JsonValue) -> Schema:
    """A word out of some."""
    return {"type": "string", "description": description, "enum": list(values), **more}


def fields(known: Sequence[str], always: Sequence[str]) -> Schema:
    """The argument that chooses fields."""
    return text(f"Fields of a row, comma-separated, out of: {', '.join(known)}. {' and '.join(always)} are always there.", 400)


def limit(most: int, default: int) -> Schema:
    """The argument for the length of a page."""
    return {"type": "integer", "description": "Most rows of one answer.", "minimum": 1, "maximum": most, "default": default}


TICKERS = text(
    f"Tickers in capitals, comma-separated, such as AVLN,BRKT; at most {MAX_TICKERS}. Rows come by ticker, then by time.", 2_400
)
START_DAY = text("First day, such as 2025-01-06; included.")
END_DAY = text("Last day, such as 2025-01-17; included.")
START_MOMENT = text("First moment a bar may start at, such as 2025-01-06T14:30:00Z (UTC where no offset is given), or a day.")
END_MOMENT = text("Last moment a bar may start at, included; a day includes all of it.")
CURSOR = text("next_cursor of the page before, to go on after it with the same other arguments.", MAX_LENGTH)

DAY: Schema = {"type": "string", "format": "date", "description": "Day such as 2025-01-06."}
MOMENT: Schema = {"type": "string", "format": "date-time", "description": "Moment in UTC such as 2025-01-06T14:30:00Z."}
AS_OF: Schema = {"type": "string", "format": "date-time", "description": "The clock: nothing later is in the answer."}
NEXT_CURSOR: Schema = {"type": ["string", "null"], "description": "Where the next page begins; null at the end."}
TICKER: Schema = {"type": "string", "description": "Ticker."}
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


BAR_VALUES: Mapping[str, Schema] = {
    "open": number("First price, in dollars."),
    "high": number("Highest price."),
    "low": number("Lowest price."),
    "close": number("Last price."),
    "volume": number("Shares, contracts or coins traded."),
    "transactions": {"type": "integer", "description": "Trades."},
}
