"""Rows of calendars and news as one sorted stream that is read in pages, the filters that select
rows, and events in the form of answers.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeGuard, TypeVar

from ktdeval.masking import beginning
from ktdeval.values import JsonValue
from ktdeval_qfinzero.cursors import read_cursor
from ktdeval_qfinzero.data.rows import (
    CALENDAR_TYPES,
    NEWS_TYPES,
    EventRow,
    EventType,
    MomentSpan,
    NewsRow,
    PageBounds,
    TagFilters,
    row_key,
    words,
)
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.esp import answers, arguments
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.timestamps import DAY, moment_text, parse_moment

Key = tuple[int, str]
Row = TypeVar("Row", EventRow, NewsRow)

BLOCK: Final = 4000  #: Number of rows read at once if all are wanted


@dataclass(frozen=True, slots=True)
class StoreQuery:
    """Query of the stores."""

    span: MomentSpan  #: span in which events are due and articles published
    tags: TagFilters = field(default_factory=TagFilters)  #: filters
    after: Key | None = None  #: key of the row after which to begin
    block: int = BLOCK  #: number of rows read at once


def event_rows(view: DatasetView, query: StoreQuery) -> Iterator[EventRow | NewsRow]:
    """Yield calendar events and articles by (time, id). Raises ServiceError `unavailable` if a
    store fails, so a result is never partial without notice.
    """
    return heapq.merge(calendar_rows(view, query), news_rows(view, query), key=row_key)


def calendar_rows(view: DatasetView, query: StoreQuery) -> Iterator[EventRow]:
    """Yield calendar events by (time_ns, event_id)."""
    return _pages(view.events, query, CALENDAR_TYPES)


def news_rows(view: DatasetView, query: StoreQuery) -> Iterator[NewsRow]:
    """Yield articles by (published_ns, id)."""
    return _pages(view.news, query, NEWS_TYPES)


def of_types(tags: TagFilters, known: tuple[EventType, ...]) -> TagFilters | None:
    """Return tags restricted to the event types that a source can have; None if the source can have
    no wanted type.
    """
    if not tags.types:
        return tags
    chosen = tuple(kind for kind in tags.types if kind in known)
    return replace(tags, types=chosen) if chosen else None


def _pages(
    read: Callable[[MomentSpan, TagFilters, PageBounds], Sequence[Row]],
    query: StoreQuery,
    known: tuple[EventType, ...],
) -> Iterator[Row]:
    tags = of_types(query.tags, known)
    after = query.after
    while tags is not None:
        page = read(query.span, tags, PageBounds(query.block, after))
        yield from page
        if len(page) < query.block:
            return

        after = row_key(page[-1])


_DAY_LENGTH = len("2025-01-06")


def unknown_tickers(view: DatasetView, tickers: Sequence[str]) -> list[str]:
    """Return the tickers that are not listed as of the clock. Raises ServiceError `unavailable` if
    a store fails.
    """
    if not tickers:
        return []
    listed = {row.symbol for row in view.symbols()}
    return [ticker for ticker in tickers if ticker not in listed]


FilteredQuery = (
    arguments.EventsQuery
    | arguments.StreamQuery
    | arguments.TriggersQuery
    | arguments.TimelineQuery
    | arguments.EconomicCalendar
    | arguments.EarningsCalendar
    | arguments.NewsQuery
)


def read_tags(given: FilteredQuery, kinds: Sequence[EventType] | None = None) -> TagFilters:
    """Return the filters of a call. `kinds`: event types of the call, if it has no argument for
    them. Raises ServiceError `invalid_argument` if a filter is malformed.
    """
    kinds = getattr(given, "event_types", kinds)
    tickers: Sequence[str] | None = getattr(given, "tickers", None)
    tags = TagFilters(
        types=tuple(kinds or ()),
        tickers=tuple(dict.fromkeys(tickers or ())),
        markets=tuple(given.markets or ()),
    )
    if isinstance(given, arguments.NewsQuery):
        text = _read_words(given.keyword, "keyword")
        publisher = _read_words(given.publisher, "publisher")
        return replace(tags, text=text, publisher=publisher)

    return replace(tags, least=given.min_importance)


def _read_words(text: str | None, field: str) -> str:
    """Return the text to search for. Text without a letter or digit is refused, since it would
    match everything.
    """
    if text is not None and not words(text):
        raise invalid(field, "expected at least one word")
    return text or ""


def read_end(text: str, field: str) -> int:
    """Return the first nanosecond after a window that ends at `text`; a day is included whole.
    Raises ServiceError `invalid_argument` if the text is neither a time nor a day.
    """
    return parse_moment(text, field) + (DAY if len(text) == _DAY_LENGTH else 0)


def window_of(start_ns: int, end_ns: int, field: str) -> MomentSpan:
    """Return the span [start, end). Raises ServiceError `invalid_argument` if it is empty."""
    if start_ns >= end_ns:
        raise invalid(
            field, "the window must end after it starts; its start is included, its end is not"
        )
    return MomentSpan(start_ns, end_ns)


def read_after(cursor: str | None) -> Key | None:
    """Return the key after which a page continues; None for the first page. Raises ServiceError
    `invalid_argument` if the text is not a cursor.
    """
    if cursor is None:
        return None
    time_ns, row_id = read_cursor(cursor, (int, str))
    return int(time_ns), str(row_id)


SNIPPET_CHARACTERS: Final = 280

_OUTCOMES: Final = (
    ("actual", "consensus", "surprise"),
    ("eps_actual", "eps_estimated", "eps_surprise"),
    ("revenue_actual", "revenue_estimated", "revenue_surprise"),
)  #: Name of a released value, of the expected value, and of their difference

_SNIPPET_VALUES: Final = (
    ("actual", "actual"),
    ("consensus", "consensus"),
    ("previous", "previous"),
    ("surprise_pct", "surprise %"),
    ("eps_actual", "EPS"),
    ("eps_estimated", "EPS estimated"),
    ("eps_surprise_pct", "EPS surprise %"),
    ("revenue_actual", "revenue"),
    ("revenue_estimated", "revenue estimated"),
    ("revenue_surprise_pct", "revenue surprise %"),
)  #: Values that a snippet names, with the words for them

_LARGEST: Final = 1e15


def status_of(row: EventRow | NewsRow) -> answers.Status:
    """Return the status of an event, from the releases in its row, which are those known at the
    time of the query.

    The status is `scheduled` until the first outcome, then `occurred`, and `updated` after a later
    outcome. Releases before the event is due (a new estimate, another date) are not outcomes. The
    status of an article is `occurred`.
    """
    if isinstance(row, NewsRow):
        return "occurred"

    released = {
        release.available_ns for release in row.releases if release.available_ns >= row.time_ns
    }
    if not released:
        return "scheduled"

    return "occurred" if len(released) == 1 else "updated"


def payload_of(row: EventRow) -> dict[str, JsonValue]:
    """Return the expected values overlaid with the released ones, and their differences. Values
    that are not released have no key.
    """
    payload: dict[str, JsonValue] = dict(row.expected)
    for release in row.releases:
        payload |= release.values

    for actual, expected, name in _OUTCOMES:
        payload |= _surprise(payload.get(actual), payload.get(expected), name)

    return payload


def event_shown(row: EventRow | NewsRow, view: arguments.EventView = "full") -> answers.EventShown:
    """Return an event in the form of answers; `full` adds the payload and, for calendar events, the
    single releases.
    """
    if isinstance(row, EventRow):
        return _calendar_event_shown(row, view)
    return _article_shown(row, view)


def _calendar_event_shown(row: EventRow, view: arguments.EventView) -> answers.EventShown:
    payload = payload_of(row)
    event = answers.EventShown(
        event_id=row.event_id,
        event_type=row.event_type,
        title=row.title,
        time_utc=moment_text(row.time_ns),
        importance=row.importance,
        status=status_of(row),
        tickers=list(row.tickers),
        country=row.country,
        market=row.market,
        snippet=_shortened_snippet(_outcome_text(payload)),
        source=row.source,
    )
    if view == "full":
        event.payload = payload
        event.releases = [
            answers.ReleaseShown(
                available_utc=moment_text(release.available_ns), values=dict(release.values)
            )
            for release in row.releases
        ]

    return event


def _article_shown(row: NewsRow, view: arguments.EventView) -> answers.EventShown:
    event = answers.EventShown(
        event_id=row.id,
        event_type=row.event_type,
        title=row.title,
        time_utc=moment_text(row.published_ns),
        importance=row.importance,
        status=status_of(row),
        tickers=list(row.tickers),
        country="US" if row.market == "us" else None,
        market=row.market,
        snippet=_shortened_snippet(row.description),
        source=row.source,
    )
    if view == "full":
        event.payload = {
            "article_url": row.article_url,
            "author": row.author,
            "description": row.description or None,
            "image_url": row.image_url or None,
            "keywords": list(row.keywords),
            "publisher": dict(row.publisher),
            "insights": [dict(insight) for insight in row.insights],
        }

    return event


def _surprise(actual: JsonValue, expected: JsonValue, name: str) -> dict[str, JsonValue]:
    """Return the difference actual − expected, and this difference in percent of the expected
    value; empty if either is not a number.
    """
    if not (_is_number(actual) and _is_number(expected)):
        return {}

    surprise: dict[str, JsonValue] = {name: round(actual - expected, 6)}
    if expected:
        surprise[f"{name}_pct"] = round(100 * (actual - expected) / abs(expected), 4)

    return surprise


def _is_number(value: JsonValue) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < _LARGEST


def _outcome_text(payload: Mapping[str, JsonValue]) -> str:
    """Return the released values in one line, such as `actual 3.1, consensus 3.0`."""
    parts: list[str] = []
    for name, label in _SNIPPET_VALUES:
        value = payload.get(name)
        if isinstance(value, str):
            parts.append(f"{label} {value}")
        elif isinstance(value, int | float):
            parts.append(f"{label} {json.dumps(value)}")

    return ", ".join(parts)


def _shortened_snippet(text: str) -> str:
    """Return at most `SNIPPET_CHARACTERS` characters, cut between words; an ellipsis marks
    a cut.
    """
    return beginning(text, SNIPPET_CHARACTERS)
