"""Events and articles as JSON records: what stores on disk keep, and what their content is hashed from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from ktdeval.errors import DataError
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict
from ktdeval_qfinzero.data.rows import CALENDAR_TYPES, IMPORTANCE, NEWS_TYPES, EventRow, NewsRow, Release

ROW_ID: Final = re.compile(r"[A-Za-z0-9_.:=+\-]{1,200}")  #: Ids of events and articles: they stand in paths and cursors

_LAST_NS: Final = 2**62
_MARKETS: Final = ("us", "global", "crypto")
Text = TypeVar("Text", EventRow, NewsRow)


def record_of(row: EventRow | NewsRow) -> dict[str, JsonValue]:
    """Return the record of a row: its fields, releases as [[available_ns, values], …]."""
    return {name: _plain(getattr(row, name)) for name in row.__slots__}


def row_of(record: Mapping[str, Any], kind: type[Text]) -> Text:
    """Return the row of a record."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
    if kind is EventRow:
        values["releases"] = tuple(Release(available_ns, released) for available_ns, released in record["releases"])
    make: Callable[..., Text] = kind
    return make(**values)


def checked_record(row: EventRow | NewsRow) -> dict[str, JsonValue]:
    """Return the record of a row that can be stored. Raises DataError: an id, a type or a moment that can't be; releases out of
    order; values that are not JSON.
    """
    record, is_event = record_of(row), isinstance(row, EventRow)
    row_id, types = (row.event_id, CALENDAR_TYPES) if isinstance(row, EventRow) else (row.id, NEWS_TYPES)
    problem = _problem(record, row_id, types)
    if problem:
        raise DataError(f"{'event' if is_event else 'article'} {str(row_id)[:200]!a}: {problem}")
    return record


def _plain(value: Any) -> JsonValue:
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Release):
        return [value.available_ns, dict(value.values)]
    return dict(value) if isinstance(value, Mapping) else value


def _problem(record: Mapping[str, JsonValue], row_id: str, types: tuple[str, ...]) -> str:
    """Return what is wrong with a record; empty where nothing is."""
    released = [available_ns for available_ns, _ in record.get("releases", ())]
    moments = [record[name] for name in ("time_ns", "announced_ns", "published_ns") if name in record] + released
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
    if loads_strict(text) != record:
        return "it is not plain JSON: a tuple, or a key that is not text"
    return "" if released == sorted(released) else "its releases are not in the order of their moments"
