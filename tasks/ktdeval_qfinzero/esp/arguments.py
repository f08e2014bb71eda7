"""Arguments of the event calls, read into values."""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval.api import JsonValue
from ktdeval_qfinzero.data.rows import EventType
from ktdeval_qfinzero.data.stores import Span, Tags
from ktdeval_qfinzero.data.words import words
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.esp.reading import Key, available
from ktdeval_qfinzero.instruments import TICKER
from ktdeval_qfinzero.moments import DAY, parse_moment
from ktdeval_qfinzero.operations import Arguments
from ktdeval_qfinzero.paging import read_cursor
from ktdeval_qfinzero.view import View

_DAY_LENGTH = len("2025-01-06")


def read_tickers(arguments: Arguments) -> tuple[str, ...]:
    """The tickers asked for, each once.

    Raises:
        ServiceError: `invalid_argument`.
    """
    tickers = tuple(dict.fromkeys(arguments.get("tickers", ())))
    if not all(TICKER.fullmatch(ticker) for ticker in tickers):
        raise invalid("tickers", "expected tickers in capitals, such as AVLN")
    return tickers


def unknown_tickers(view: View, tickers: Sequence[str]) -> list[JsonValue]:
    """Those that are not listed as of the clock.

    Raises:
        ServiceError: `unavailable`.
    """
    if not tickers:
        return []
    with available("price"):
        listed = {row.symbol for row in view.symbols()}
    return [ticker for ticker in tickers if ticker not in listed]


def read_tags(arguments: Arguments, types: tuple[EventType, ...] = ()) -> Tags:
    """The filters of a call; `types` where it has no argument for them.

    Raises:
        ServiceError: `invalid_argument`.
    """
    return Tags(
        types=tuple(arguments.get("event_types", ())) or types,
        tickers=read_tickers(arguments),
        markets=tuple(arguments.get("markets", ())),
        least=arguments.get("min_importance", "low"),
        text=read_text(arguments, "keyword"),
        publisher=read_text(arguments, "publisher"),
    )


def read_text(arguments: Arguments, field: str) -> str:
    """A text to look for; empty where none is given.

    Raises:
        ServiceError: `invalid_argument`: there is no letter or digit in it, so that it would find everything.
    """
    text = arguments.get(field)
    if text is None:
        return ""
    if not words(text):
        raise invalid(field, "expected at least one word")
    return str(text)


def read_window(arguments: Arguments, start: str, end: str) -> Span:
    """The moments [start, end); an end that is a day includes all of it.

    Raises:
        ServiceError: `invalid_argument`: not moments, or nothing lies between them.
    """
    return window_of(parse_moment(arguments[start], start), read_end(arguments, end), end)


def read_end(arguments: Arguments, field: str) -> int:
    """The first moment that no longer belongs to a window.

    Raises:
        ServiceError: `invalid_argument`.
    """
    text = arguments[field]
    return parse_moment(text, field) + (DAY if len(text) == _DAY_LENGTH else 0)


def window_of(start_ns: int, end_ns: int, field: str) -> Span:
    """The moments [start, end).

    Raises:
        ServiceError: `invalid_argument`: nothing lies between them.
    """
    if start_ns >= end_ns:
        raise invalid(field, "must lie after the start; windows include their start and not their end")
    return Span(start_ns, end_ns)


def read_after(arguments: Arguments) -> Key | None:
    """The key that a page continues after; None at the first page.

    Raises:
        ServiceError: `invalid_argument`: not a cursor.
    """
    text = arguments.get("cursor")
    if text is None:
        return None
    time_ns, row_id = read_cursor(text, (int, str))
    return int(time_ns), str(row_id)
