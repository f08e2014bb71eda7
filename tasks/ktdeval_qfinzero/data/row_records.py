"""Rows as JSON records: what stores on disk keep, checked before it is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktdeval.api import DataError, JsonValue, dumps_canonical, loads_strict
from ktdeval_qfinzero.data.rows import CALENDAR_TYPES, IMPORTANCE, NEWS_TYPES, EventRow, NewsRow, Release

ROW_ID: Final = re.compile(r"[A-Za-z0-9_.:=+\-]{1,200}")
"""What an event or an article may be called: it stands in paths and cursors."""

_LARGEST: Final = 2**63 - 1
_LAST_NS: Final = 2**62
_MARKETS: Final = ("us", "global", "crypto")


@dataclass(frozen=True, slots=True)
class Written:
    """What a call of writing did: rows that were new, the same as stored, or other ones under an id that was there."""

    new: int = 0
    same: int = 0
    replaced: int = 0


def event_record(row: EventRow) -> dict[str, JsonValue]:
    """The record of an event, its releases as [[available_ns, values], …]."""
    return {
        "event_id": row.event_id,
        "event_type": row.event_type,
        "title": row.title,
        "time_ns": row.time_ns,
        "announced_ns": row.announced_ns,
        "importance": row.importance,
        "tickers": list(row.tickers),
        "country": row.country,
        "market": row.market,
        "expected": dict(row.expected),
        "releases": [[release.available_ns, dict(release.values)] for release in row.releases],
        "source": row.source,
    }


def event_of(record: Mapping[str, Any]) -> EventRow:
    """The event of a record."""
    return EventRow(
        **{
            **record,
            "tickers": tuple(record["tickers"]),
            "releases": tuple(Release(available_ns, values) for available_ns, values in record["releases"]),
        }
    )


def news_record(row: NewsRow) -> dict[str, JsonValue]:
    """The record of an article."""
    return {
        "id": row.id,
        "event_type": row.event_type,
        "title": row.title,
        "published_ns": row.published_ns,
        "importance": row.importance,
        "tickers": list(row.tickers),
        "description": row.description,
        "body": row.body,
        "article_url": row.article_url,
        "author": row.author,
        "publisher": dict(row.publisher),
        "market": row.market,
        "keywords": list(row.keywords),
        "image_url": row.image_url,
        "insights": [dict(insight) for insight in row.insights],
        "source": row.source,
    }


def news_of(record: Mapping[str, Any]) -> NewsRow:
    """The article of a record."""
    lists = {name: tuple(record[name]) for name in ("tickers", "keywords", "insights")}
    return NewsRow(**{**record, **lists})


def searched_text(row: NewsRow) -> str:
    """What an article is found by: title, description and body."""
    return f"{row.title} {row.description} {row.body}"


def checked_event(row: EventRow) -> dict[str, JsonValue]:
    """The record of an event that can be stored.

    Raises:
        DataError: an id, a type or a moment that can't be; releases out of order; values that are not JSON.
    """
    record = event_record(row)
    moments = [row.time_ns, row.announced_ns, *(release.available_ns for release in row.releases)]
    problem = _problem(record, row.event_id, CALENDAR_TYPES, moments)
    released = [release.available_ns for release in row.releases]
    if not problem and released != sorted(released):
        problem = "its releases are not in the order of their moments"
    if problem:
        raise DataError(f"event {_shown(row.event_id)}: {problem}")
    return record


def checked_article(row: NewsRow) -> dict[str, JsonValue]:
    """The record of an article that can be stored.

    Raises:
        DataError: an id, a type or a moment that can't be; values that are not JSON.
    """
    record = news_record(row)
    problem = _problem(record, row.id, NEWS_TYPES, [row.published_ns])
    if problem:
        raise DataError(f"article {_shown(row.id)}: {problem}")
    return record


def bounded(number: int) -> int:
    """The number, as far as the integers of a database go."""
    return max(-_LARGEST, min(number, _LARGEST))


def _shown(row_id: str) -> str:
    return ascii(str(row_id)[:200])


def _problem(record: Mapping[str, JsonValue], row_id: str, types: tuple[str, ...], moments: list[int]) -> str:
    """What is wrong with a record; empty where nothing is."""
    if not isinstance(row_id, str) or not ROW_ID.fullmatch(row_id):
        return "an id has 1 to 200 letters, digits and characters of _.:=+-"
    if record["event_type"] not in types:
        return f"its type is none of {', '.join(types)}"
    if record["importance"] not in IMPORTANCE or record["market"] not in _MARKETS:
        return f"its importance is none of {', '.join(IMPORTANCE)}, or its market none of {', '.join(_MARKETS)}"
    if not all(type(moment) is int and 0 <= moment < _LAST_NS for moment in moments):
        return "a moment is not a whole number of nanoseconds since 1970"
    try:
        text = dumps_canonical(record)
        text.encode()
    except (TypeError, ValueError) as error:
        return f"it can't be written as JSON ({type(error).__name__})"
    return "" if loads_strict(text) == record else "it is not plain JSON: a tuple, or a key that is not text"
