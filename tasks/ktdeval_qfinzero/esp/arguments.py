"""Arguments of the event calls, read into values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ktdeval_qfinzero.data.rows import EventType
from ktdeval_qfinzero.data.stores import Span, Tags
from ktdeval_qfinzero.data.words import words
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.esp.reading import Key, available
from ktdeval_qfinzero.esp.types import EconomicCalendar, EventsQuery, Filters, NewsQuery, StreamQuery, TimelineQuery
from ktdeval_qfinzero.moments import DAY, parse_moment
from ktdeval_qfinzero.paging import read_cursor
from ktdeval_qfinzero.view import View

_DAY_LENGTH = len("2025-01-06")


def unknown_tickers(view: View, tickers: Sequence[str]) -> list[str]:
    """Tickers that are not listed as of the clock. Raises ServiceError: `unavailable`."""
    if not tickers:
        return []
    with available("price"):
        listed = {row.symbol for row in view.symbols()}
    return [ticker for ticker in tickers if ticker not in listed]


def read_tags(given: Filters, types: Sequence[EventType] | None = None) -> Tags:
    """Filters of a call; `types` where it has no argument for them. Raises ServiceError: `invalid_argument`."""
    tickers = None if isinstance(given, EconomicCalendar) else given.tickers
    asked = given.event_types if isinstance(given, EventsQuery | StreamQuery | TimelineQuery) else types
    tags = Tags(types=tuple(asked or ()), tickers=tuple(dict.fromkeys(tickers or ())), markets=tuple(given.markets or ()))
    if isinstance(given, NewsQuery):
        return replace(tags, text=_read_words(given.keyword, "keyword"), publisher=_read_words(given.publisher, "publisher"))
    return replace(tags, least=given.min_importance)


def _read_words(text: str | None, field: str) -> str:
    """Text to look for; one without a letter or digit would find everything."""
    if text is not None and not words(text):
        raise invalid(field, "expected at least one word")
    return text or ""


def read_end(text: str, field: str) -> int:
    """First moment that no longer belongs to a window; an end that is a day includes all of it. Raises ServiceError:
    `invalid_argument`.
    """
    return parse_moment(text, field) + (DAY if len(text) == _DAY_LENGTH else 0)


def window_of(start_ns: int, end_ns: int, field: str) -> Span:
    """Moments [start, end). Raises ServiceError: `invalid_argument`: nothing lies between them."""
    if start_ns >= end_ns:
        raise invalid(field, "must lie after the start; windows include their start and not their end")
    return Span(start_ns, end_ns)


def read_after(cursor: str | None) -> Key | None:
    """Key that a page continues after; None at the first page. Raises ServiceError: `invalid_argument`: not a cursor."""
    if cursor is None:
        return None
    time_ns, row_id = read_cursor(cursor, (int, str))
    return int(time_ns), str(row_id)
