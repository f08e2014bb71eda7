"""JSON Schemas of the event calls: arguments, and what is given for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ktdeval.api import JsonValue
from ktdeval_qfinzero.data.rows import CALENDAR_TYPES, IMPORTANCE, NEWS_TYPES
from ktdeval_qfinzero.operations import Schema

MOST_ROWS: Final = 500
_MOMENT_LENGTH: Final = 40


# ---- arguments


def tickers(description: str = "Only events about one of these.") -> Schema:
    """A list of tickers."""
    return {
        "type": "array",
        "items": {"type": "string", "pattern": "^[A-Z][A-Z0-9.]{0,9}$"},
        "maxItems": 100,
        "description": f"{description} Tickers in capitals, such as AVLN; those that are not listed are named under `unknown`.",
    }


def limit(default: int, what: str = "Events") -> Schema:
    """Rows of a page."""
    return {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_ROWS,
        "default": default,
        "description": f"{what} of one answer at most; `next_cursor` leads to the rest.",
    }


def moment(description: str) -> Schema:
    """A moment or a day."""
    text = f"{description} A moment such as 2025-01-06T14:30:00Z (UTC without an offset), or a day."
    return {"type": "string", "maxLength": _MOMENT_LENGTH, "description": text}


def minutes(default: int, description: str) -> Schema:
    """A length of time."""
    return {"type": "integer", "minimum": 1, "maximum": 527_040, "default": default, "description": description}


def least(default: str) -> Schema:
    """The least importance."""
    return {
        "type": "string",
        "enum": list(IMPORTANCE),
        "default": default,
        "description": "The least importance that events are to have.",
    }


def view(default: str) -> Schema:
    """How much of an event is given."""
    text = "compact: without payload and releases; full: with them."
    return {"type": "string", "enum": ["compact", "full"], "default": default, "description": text}


def identifier(description: str) -> Schema:
    """An id in a path."""
    return {"type": "string", "minLength": 1, "maxLength": 200, "description": description}


EVENT_TYPES: Final[Schema] = {
    "type": "array",
    "items": {"type": "string", "enum": [*CALENDAR_TYPES, *NEWS_TYPES]},
    "maxItems": 6,
    "description": "Only events of these types; all when absent or empty.",
}
MARKETS: Final[Schema] = {
    "type": "array",
    "items": {"type": "string", "enum": ["us", "global", "crypto"]},
    "maxItems": 3,
    "description": "Only events of these markets; all when absent or empty.",
}
CURSOR: Final[Schema] = {
    "type": "string",
    "maxLength": 500,
    "description": "The `next_cursor` of the answer before, with the other arguments unchanged; absent for the first page.",
}
STREAM_CURSOR: Final[Schema] = {
    "type": "string",
    "maxLength": 500,
    "description": "The `next_cursor` of the answer before: gives what is known since. HEAD or absent: the last five minutes.",
}


def words_to_find(description: str) -> Schema:
    """A text to look for."""
    return {"type": "string", "minLength": 1, "maxLength": 200, "description": description}


# ---- results


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _text_or_null(description: str) -> Schema:
    return {"type": ["string", "null"], "description": description}


def _count(description: str) -> Schema:
    return {"type": "integer", "minimum": 0, "description": description}


def _texts(description: str) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _list(items: Schema, description: str) -> Schema:
    return {"type": "array", "items": items, "description": description}


def _object(properties: Mapping[str, JsonValue], optional: tuple[str, ...] = ()) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def answer(properties: Mapping[str, JsonValue], optional: tuple[str, ...] = ()) -> Schema:
    """An answer: the moment that it is as of, and the rest."""
    return _object({"as_of_ts": _text("The clock: nothing that became known later is in the answer."), **properties}, optional)


UNKNOWN: Final = _texts("Tickers asked for that are not listed as of the clock.")
NEXT: Final = _text_or_null("Cursor of the next page; null when this is the last.")

_RELEASE: Final = _object(
    {
        "available_utc": _text("When the values became known."),
        "values": {"type": "object", "description": "The values, by name."},
    }
)
EVENT_PROPERTIES: Final[Mapping[str, JsonValue]] = {
    "event_id": _text("Id; of an article the id of the article."),
    "event_type": {"type": "string", "enum": [*CALENDAR_TYPES, *NEWS_TYPES], "description": "What kind of event it is."},
    "title": _text("Title."),
    "time_utc": _text("When it is due, or was published."),
    "importance": {"type": "string", "enum": list(IMPORTANCE), "description": "Importance."},
    "status": {
        "type": "string",
        "enum": ["scheduled", "occurred", "updated"],
        "description": "scheduled: no outcome is known yet; occurred: it is; updated: it has been revised since.",
    },
    "tickers": _texts("Whom it is about; empty for what concerns the whole market."),
    "country": _text_or_null("Country that it concerns; null where it is none in particular."),
    "market": {"type": "string", "enum": ["us", "global", "crypto"], "description": "Market that it concerns."},
    "snippet": _text("The outcome, or the article, in short."),
    "source": _text("Where it comes from."),
    "releases": _list(_RELEASE, "Full view, calendar events: what was released so far, oldest first."),
    "payload": {
        "type": "object",
        "description": "Full view: values known so far by name. Of a calendar event those expected, overlaid with those released, "
        "and surprise = actual − expected, surprise_pct in percent of |expected|; what is not released has no key. "
        "Of an article its author, address, publisher, keywords and insights.",
    },
}
"""An event (table 4 of the QFinZero paper)."""

_FULL_ONLY: Final = ("releases", "payload")
EVENT: Final = _object(EVENT_PROPERTIES, _FULL_ONLY)
UPDATE: Final = _object(
    {
        "known_utc": _text("When this became known; what the stream is sorted by, with the id."),
        "change": {
            "type": "string",
            "enum": ["announced", "changed", "released", "revised", "published"],
            "description": "announced: it stands in the calendar; changed: estimate or date, before it is due; released, "
            "revised: its outcome came out; published: an article.",
        },
        **EVENT_PROPERTIES,
    },
    _FULL_ONLY,
)
TRIGGER: Final = _object(
    {
        "trigger_time_utc": _text("When the event is due."),
        "event_id": _text("Its id."),
        "reason_codes": {
            "type": "array",
            "items": {"type": "string", "enum": ["HIGH_IMPORTANCE", "TIME_IMMINENT", "MATCH_WATCHLIST"]},
            "description": "TIME_IMMINENT: due in less than 30 minutes; MATCH_WATCHLIST: about a ticker asked for.",
        },
        "event": EVENT,
    }
)
BUCKET: Final = _object(
    {
        "bucket_start_utc": _text("First moment of the bucket."),
        "bucket_end_utc": _text("First moment after it."),
        "count": _count("Events in it; exact, whichever of them this page lists."),
        "events": _list(EVENT, "Its events that this page lists, compact."),
    }
)
EVENTS_PAGE: Final = answer({"events": _list(EVENT, "By time and id."), "unknown": UNKNOWN, "next_cursor": NEXT})
EVENT_ANSWER: Final = answer(EVENT_PROPERTIES, ("releases",))
STREAM_PAGE: Final = answer(
    {
        "events": _list(UPDATE, "What became known, oldest first, each event as it stood then."),
        "unknown": UNKNOWN,
        "more": {"type": "boolean", "description": "Whether the next call gives more at once, without the clock going forward."},
        "next_cursor": _text("Where the stream goes on; never null, for it has no end."),
    }
)
TRIGGERS_PAGE: Final = answer({"triggers": _list(TRIGGER, "Soonest first."), "unknown": UNKNOWN, "next_cursor": NEXT})
TIMELINE_PAGE: Final = answer(
    {
        "total": _count("Events of all buckets."),
        "buckets": _list(BUCKET, "All buckets of the window in order, empty ones too; the last may be shorter."),
        "unknown": UNKNOWN,
        "next_cursor": _text_or_null("Cursor of the page that lists further events; null when all are listed."),
    }
)
ARTICLE_ANSWER: Final = answer(
    {
        "id": _text("Id."),
        "title": _text("Title."),
        "published_utc": _text("When it was published."),
        "tickers": _texts("Whom it is about."),
        "article_url": _text("Link to the original."),
        "author": _text("Author."),
        "description": _text_or_null("Short summary."),
        "image_url": _text_or_null("Image."),
        "keywords": _texts("The publisher's keywords."),
        "publisher": {"type": "object", "description": "Name, homepage_url, logo_url."},
        "insights": _list({"type": "object"}, "Ticker, sentiment and reasoning of each."),
        "body": _text("The whole text."),
    }
)
COVERAGE_ANSWER: Final = answer(
    {
        "first_day": _text("First day looked at."),
        "last_day": _text("Last day looked at."),
        "calendars": _list(
            _object(
                {
                    "event_type": _text("Type."),
                    "count": _count("Events due on these days."),
                    "days": _count("Days (UTC) with at least one."),
                    "scheduled": _count("Events without an outcome."),
                    "occurred": _count("Events with an outcome that stands."),
                    "updated": _count("Events with a revised outcome."),
                    "first_time_utc": _text_or_null("When the first is due; null where there is none."),
                    "last_time_utc": _text_or_null("When the last is due; null where there is none."),
                }
            ),
            "One for each type of calendar.",
        ),
    }
)
FRESHNESS_ANSWER: Final = answer(
    {
        "sources": _list(
            _object(
                {
                    "source": _text("macro_calendar, earnings or news."),
                    "latest_utc": _text_or_null("When something last became known, of whatever kind of change."),
                    "age_minutes": {"type": ["integer", "null"], "description": "Whole minutes from then to the clock."},
                }
            ),
            "One for each source.",
        )
    }
)
