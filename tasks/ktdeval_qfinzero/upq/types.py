"""Types of the price queries (they take `arguments.yaml` and answer `answers.yaml`), and how texts in arguments are read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final, Literal

from ktdeval.fields import near_matches
from ktdeval_qfinzero import instruments
from ktdeval_qfinzero.data import rows
from ktdeval_qfinzero.data.rows import Span
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.instruments import parse_tickers
from ktdeval_qfinzero.moments import DAY, day_start, parse_day, parse_moment
from ktdeval_qfinzero.schemas import load_types
from ktdeval_qfinzero.upq import columns

Mode = Literal["none", "split", "total"]
PriceField = Literal["close", "open"]
ListedClass = Literal["stock", "crypto"]
DayStatus = Literal["complete", "incomplete", "no_session"]

MOST_TICKERS: Final = 200
MOST_VALUED: Final = 10_000  #: Rows of a page with Greeks: each takes a search for its volatility
VALUES: Final = ("open", "high", "low", "close", "volume", "transactions")
"""Fields of a bar that a caller may choose from, besides the row's key."""
TERMS: Final = ("contract", "ticker", "underlying", "expiry", "strike", "type")  #: Fields of an option row that are not of its bar


def read_days(start: str, end: str) -> tuple[date, date]:
    """Days `start` to `end`, both included. Raises ServiceError: `invalid_argument`: not days, or the end lies before the start."""
    first, last = parse_day(start, "start"), parse_day(end, "end")
    if first > last:
        raise invalid("end", "lies before start; the range is start to end, both included")
    return first, last


def read_moments(start: str, end: str) -> Span:
    """Moments `start` to `end`, both included, a day as a whole. Raises ServiceError: `invalid_argument`."""
    first, last = parse_moment(start, "start"), parse_moment(end, "end", end_of_day=True)
    if first > last:
        raise invalid("end", "lies before start; the range is start to end, both included")
    return Span(first, last + 1)


def span_of(first: date, last: date) -> Span:
    """Moments of the days [first, last]."""
    return Span(day_start(first), day_start(last) + DAY)


def read_tickers(text: str) -> tuple[str, ...]:
    """Tickers asked for, in alphabetical order, each once. Raises ServiceError: `invalid_argument`: not tickers, or too many."""
    tickers = parse_tickers(text, "tickers")
    if len(tickers) > MOST_TICKERS:
        raise invalid("tickers", f"at most {MOST_TICKERS} in one call")
    return tuple(sorted(tickers))


def read_names(given: str | None, field: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names separated by commas, in the order of `known`; all where absent. Raises ServiceError: `invalid_argument`: unknown."""
    if given is None:
        return tuple(known)
    asked = {part.strip() for part in given.split(",")}
    for name in sorted(asked - set(known)):
        raise invalid(field, f"only these are known, separated by commas: {', '.join(known)}{near_matches(name[:40], known)}")
    return tuple(name for name in known if name in asked)


_LISTED = {"TENOR_YEARS": ", ".join(rows.TENOR_YEARS), "TERMS": ", ".join(TERMS), "VALUES": ", ".join(VALUES)}
_KNOWN = {**vars(instruments), **vars(rows), **vars(columns), **globals(), **_LISTED}

__getattr__ = load_types(_KNOWN, *map(Path(__file__).with_name, ("arguments.yaml", "answers.yaml")))
