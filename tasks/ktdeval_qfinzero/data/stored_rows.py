"""All rows of a calendar or news file, for those who make new ones of them or check them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ktdeval_qfinzero.data.memory import row_key
from ktdeval_qfinzero.data.rows import EventRow, NewsRow
from ktdeval_qfinzero.data.sqlite_calendars import open_calendars
from ktdeval_qfinzero.data.sqlite_news import open_news
from ktdeval_qfinzero.data.stores import Page, Span, Tags

_AT_ONCE = 20_000
_ALWAYS = 2**63 - 2
Row = TypeVar("Row", EventRow, NewsRow)


def stored_events(path: Path) -> list[EventRow]:
    """Every event of a file with all its releases, by (time_ns, event_id).

    Raises:
        DataError: the file is missing or damaged.
    """
    store = open_calendars(path)
    return _all(lambda page: store.events(Span(-_ALWAYS, _ALWAYS), Tags(), page, _ALWAYS))


def stored_news(path: Path) -> list[NewsRow]:
    """Every article of a file, by (published_ns, id).

    Raises:
        DataError: the file is missing or damaged.
    """
    store = open_news(path)
    return _all(lambda page: store.news(Span(-_ALWAYS, _ALWAYS), Tags(), page, _ALWAYS))


def _all(query: Callable[[Page], Sequence[Row]]) -> list[Row]:
    rows: list[Row] = []
    while True:
        found = query(Page(_AT_ONCE, row_key(rows[-1]) if rows else None))
        rows += found
        if len(found) < _AT_ONCE:
            return rows
