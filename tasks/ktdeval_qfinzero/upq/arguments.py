"""Arguments of the price queries, read into values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from ktdeval.api import near_matches
from ktdeval_qfinzero.data.stores import Span
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.instruments import parse_tickers
from ktdeval_qfinzero.moments import DAY, day_start, parse_day, parse_moment
from ktdeval_qfinzero.operations import Arguments

MAX_TICKERS = 200


def read_days(arguments: Arguments) -> tuple[date, date]:
    """The days `start` to `end`, both included.

    Raises:
        ServiceError: `invalid_argument`: not days, or the end lies before the start.
    """
    first, last = parse_day(arguments["start"], "start"), parse_day(arguments["end"], "end")
    if first > last:
        raise invalid("end", "lies before start; the range is start to end, both included")
    return first, last


def read_moments(arguments: Arguments) -> Span:
    """The moments `start` to `end`, both included; an end that is a day includes all of it.

    Raises:
        ServiceError: `invalid_argument`: not moments, or the end lies before the start.
    """
    first, last = parse_moment(arguments["start"], "start"), parse_moment(arguments["end"], "end", end_of_day=True)
    if first > last:
        raise invalid("end", "lies before start; the range is start to end, both included")
    return Span(first, last + 1)


def span_of(first: date, last: date) -> Span:
    """The moments of the days [first, last]."""
    return Span(day_start(first), day_start(last) + DAY)


def read_tickers(arguments: Arguments) -> tuple[str, ...]:
    """The tickers asked for, in alphabetical order, each once.

    Raises:
        ServiceError: `invalid_argument`: not tickers, or too many.
    """
    tickers = parse_tickers(arguments["tickers"], "tickers")
    if len(tickers) > MAX_TICKERS:
        raise invalid("tickers", f"at most {MAX_TICKERS} in one call")
    return tuple(sorted(tickers))


def read_names(arguments: Arguments, field: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names separated by commas, each once, in the order of `known`; all of them where the argument is absent.

    Raises:
        ServiceError: `invalid_argument`: a name that is not known.
    """
    given = arguments.get(field)
    if given is None:
        return tuple(known)
    wanted = {part.strip() for part in given.split(",")}
    for name in sorted(wanted - set(known)):
        raise invalid(field, f"only these are known, separated by commas: {', '.join(known)}{near_matches(name[:40], known)}")
    return tuple(name for name in known if name in wanted)
