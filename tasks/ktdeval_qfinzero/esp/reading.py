"""Rows of calendars and news as one sorted stream, read in pages as far as they are needed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, TypeVar

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.rows import CALENDAR_TYPES, NEWS_TYPES, EventRow, EventType, NewsRow, row_key
from ktdeval_qfinzero.data.stores import Page, Span, Tags
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.view import View

Key = tuple[int, str]
Row = TypeVar("Row", EventRow, NewsRow)

BLOCK: Final = 4000  #: Rows that are read at once where all are wanted

ALL_TIME: Final = Span(0, 2**62)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Query of the stores."""

    span: Span  #: when events are due and articles published
    tags: Tags = field(default_factory=Tags)  #: filters
    after: Key | None = None  #: key of the row after which to begin
    block: int = BLOCK  #: rows that are read at once


def wanted_rows(view: View, wanted: Wanted) -> Iterator[EventRow | NewsRow]:
    """Calendar events and articles by (time, id). Raises ServiceError: `unavailable`: a store fails; nothing is given in part."""
    return heapq.merge(calendar_rows(view, wanted), news_rows(view, wanted), key=row_key)


def calendar_rows(view: View, wanted: Wanted) -> Iterator[EventRow]:
    """Calendar events by (time_ns, event_id)."""
    tags = calendar_tags(wanted.tags)
    return iter(()) if tags is None else _pages(view.events, "calendar", replace(wanted, tags=tags))


def news_rows(view: View, wanted: Wanted) -> Iterator[NewsRow]:
    """Articles by (published_ns, id)."""
    tags = _of_types(wanted.tags, NEWS_TYPES)
    return iter(()) if tags is None else _pages(view.news, "news", replace(wanted, tags=tags))


def first_page(view: View, wanted: Wanted, limit: int) -> tuple[list[EventRow | NewsRow], bool]:
    """At most `limit` rows, and whether there are more."""
    found = list(islice(wanted_rows(view, replace(wanted, block=limit + 1)), limit + 1))
    return found[:limit], len(found) > limit


@contextmanager
def available(source: str) -> Iterator[None]:
    """Failures of a store as `unavailable`. Raises ServiceError: `unavailable`."""
    try:
        yield
    except (OSError, DataError) as error:
        raise ServiceError("unavailable", f"the {source} store can't be read ({type(error).__name__})") from error


def calendar_tags(tags: Tags) -> Tags | None:
    """Filters as calendars take them; None where only articles are wanted."""
    return _of_types(tags, CALENDAR_TYPES)


def _of_types(tags: Tags, types: tuple[EventType, ...]) -> Tags | None:
    """Tags with those types that a source can have; None where it has none of the ones wanted."""
    if not tags.types:
        return tags
    chosen = tuple(kind for kind in tags.types if kind in types)
    return replace(tags, types=chosen) if chosen else None


def _pages(read: Callable[[Span, Tags, Page], Sequence[Row]], source: str, wanted: Wanted) -> Iterator[Row]:
    after = wanted.after
    while True:
        with available(source):
            found = read(wanted.span, wanted.tags, Page(wanted.block, after))
        yield from found
        if len(found) < wanted.block:
            return
        after = row_key(found[-1])
