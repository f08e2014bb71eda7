"""Parsing of strings in the arguments of the price queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from ktdeval.values import near_matches
from ktdeval_qfinzero.data.rows import MomentSpan
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.instruments import parse_tickers
from ktdeval_qfinzero.timestamps import DAY, day_start, parse_day, parse_moment
from ktdeval_qfinzero.upq.arguments import MAX_TICKERS


def read_days(start: str, end: str) -> tuple[date, date]:
    """Return the days from `start` to `end`, both included. Raises ServiceError `invalid_argument`
    if a string is not a day, or if the end lies before the start.
    """
    first = parse_day(start, "start")
    last = parse_day(end, "end")
    if first > last:
        raise invalid("end", "lies before start; the range is start to end, both included")
    return first, last


def read_moments(start: str, end: str) -> MomentSpan:
    """Return the time span from `start` to `end`, both included, where a day means the whole
    day. Raises ServiceError `invalid_argument` if a string is neither a time nor a day.
    """
    first = parse_moment(start, "start")
    last = parse_moment(end, "end", end_of_day=True)
    if first > last:
        raise invalid("end", "lies before start; the range is start to end, both included")
    return MomentSpan(first, last + 1)


def span_of(first: date, last: date) -> MomentSpan:
    """Return the time span of the days [first, last]."""
    return MomentSpan(day_start(first), day_start(last) + DAY)


def read_tickers(text: str) -> tuple[str, ...]:
    """Return comma-separated tickers in alphabetical order, each once. Raises ServiceError
    `invalid_argument` if one is not a ticker, or there are too many.
    """
    tickers = parse_tickers(text, "tickers")
    if len(tickers) > MAX_TICKERS:
        raise invalid("tickers", f"at most {MAX_TICKERS} in one call")
    return tuple(sorted(tickers))


def read_names(given: str | None, field: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return comma-separated names in the order of `known`; all names if the argument is absent.
    Raises ServiceError `invalid_argument` if a name is unknown.
    """
    if given is None:
        return tuple(known)

    asked = {part.strip() for part in given.split(",")}
    for name in sorted(asked - set(known)):
        raise invalid(
            field,
            "only these are known, separated by commas:"
            f" {', '.join(known)}{near_matches(name[:40], known)}",
        )

    return tuple(name for name in known if name in asked)
