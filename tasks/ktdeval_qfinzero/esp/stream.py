"""Stream: everything in the order in which it became known, each thing once; and how much the stores hold as of the clock."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from msgspec.structs import asdict

from ktdeval_qfinzero.data.rows import CALENDAR_TYPES, EventRow, EventType, NewsRow, as_known, known_moments, row_key
from ktdeval_qfinzero.data.stores import Page, Span, Tags
from ktdeval_qfinzero.esp import types
from ktdeval_qfinzero.esp.reading import (
    BLOCK,
    Key,
    StoreQuery,
    calendar_rows,
    event_shown,
    news_rows,
    of_types,
    read_after,
    read_tags,
    status_of,
    unknown_tickers,
)
from ktdeval_qfinzero.moments import DAY, MINUTE, day_of, moment_text
from ktdeval_qfinzero.schemas import write_cursor
from ktdeval_qfinzero.view import View

HEAD: Final = "HEAD"
_BEGINNING_NS: Final = 5 * MINUTE  #: How far back a stream without a cursor begins


@dataclass(frozen=True, slots=True)
class Update:
    """Something that became known."""

    known_ns: int  #: when
    row: EventRow | NewsRow  #: the event as it stood then, with no later release; or the article

    @property
    def key(self) -> Key:
        """Key that updates are sorted by; no two have the same."""
        return self.known_ns, row_key(self.row)[1]

    @property
    def change(self) -> types.Change:
        """Kind of news."""
        row = self.row
        if isinstance(row, NewsRow):
            return "published"
        earlier = known_moments(row)[:-1]
        if status_of(row) == "scheduled":
            return "changed" if earlier else "announced"
        had_outcome = bool(earlier) and status_of(as_known(row, earlier[-1])) != "scheduled"
        return "revised" if had_outcome else "released"


def calendar_updates(view: View, tags: Tags, after: Key, block: int = BLOCK) -> Iterator[Update]:
    """Updates of events that became known by now and after a key ((moment, "") for all from a moment on), by key. Raises
    ServiceError: `unavailable`.
    """
    chosen = of_types(tags, CALENDAR_TYPES)
    if chosen is None:
        return
    while True:
        page = [Update(*pair) for pair in view.updates(chosen, Page(block, after))]
        yield from page
        if len(page) < block:
            return
        after = page[-1].key


def stream_events(view: View, given: types.StreamQuery) -> types.StreamPage:
    """Follow what becomes known: announcements, releases, revisions and news, each once, in the order they became known."""
    tags, after = read_tags(given), None if given.cursor == HEAD else read_after(given.cursor)
    if after is None:  # (moment, "") comes before everything of that moment, for no id is empty
        after = (max(0, view.as_of_ns - _BEGINNING_NS + 1), "")
    query = StoreQuery(Span(after[0], view.as_of_ns + 1), tags, after, block=given.limit + 1)
    articles = (Update(row.published_ns, row) for row in news_rows(view, query))
    updates = heapq.merge(calendar_updates(view, tags, after, given.limit + 1), articles, key=lambda update: update.key)
    first_updates = list(islice(updates, given.limit + 1))
    more, page = len(first_updates) > given.limit, first_updates[: given.limit]
    position = page[-1].key if more else max(after, (view.as_of_ns + 1, ""))
    return types.StreamPage(
        as_of_ts=moment_text(view.as_of_ns),
        events=[
            types.UpdateShown(known_utc=moment_text(each.known_ns), change=each.change, **asdict(event_shown(each.row, given.view)))
            for each in page
        ],
        unknown=unknown_tickers(view, tags.tickers),
        more=more,
        next_cursor=write_cursor(*position),
    )


_LOOKS_BACK_NS: Final = (DAY, 7 * DAY, 31 * DAY, 366 * DAY)


def coverage(view: View, given: types.CoverageQuery) -> types.Coverage:
    """Summarise what the calendars hold for the days around the clock."""
    today_ns = view.as_of_ns // DAY * DAY
    span = Span(max(0, today_ns - given.days * DAY), today_ns + (given.days + 1) * DAY)
    return types.Coverage(
        as_of_ts=moment_text(view.as_of_ns),
        first_day=day_of(span.start_ns).isoformat(),
        last_day=day_of(span.end_ns - 1).isoformat(),
        calendars=[_covered(kind, list(calendar_rows(view, StoreQuery(span, Tags(types=(kind,)))))) for kind in CALENDAR_TYPES],
    )


def freshness(view: View, given: types.Nothing) -> types.Freshness:  # noqa: ARG001 - all functions of operations take both
    """Say when each source of events last had something new."""

    def updates_since(kind: EventType, start_ns: int) -> Iterator[int]:
        return (update.known_ns for update in calendar_updates(view, Tags(types=(kind,)), (start_ns, "")))

    def articles_since(start_ns: int) -> Iterator[int]:
        return (row.published_ns for row in news_rows(view, StoreQuery(Span(start_ns, view.as_of_ns + 1))))

    latest: dict[str, int | None] = {kind: _latest(view, partial(updates_since, kind)) for kind in CALENDAR_TYPES}
    latest["news"] = _latest(view, articles_since)
    sources = [
        types.SourceShown(source, None if ns is None else moment_text(ns), None if ns is None else (view.as_of_ns - ns) // MINUTE)
        for source, ns in latest.items()
    ]
    return types.Freshness(as_of_ts=moment_text(view.as_of_ns), sources=sources)


def _covered(kind: str, rows: list[EventRow]) -> types.CalendarCovered:
    statuses = Counter(status_of(row) for row in rows)
    days = len({row.time_ns // DAY for row in rows})
    counts = (statuses["scheduled"], statuses["occurred"], statuses["updated"])
    ends = [moment_text(row.time_ns) for row in (rows[0], rows[-1])] if rows else (None, None)
    return types.CalendarCovered(kind, len(rows), days, *counts, *ends)


def _latest(view: View, since: Callable[[int], Iterator[int]]) -> int | None:
    """Last of ascending moments; stores give the oldest first, so the window is widened until there is one."""
    for back_ns in (*_LOOKS_BACK_NS, view.as_of_ns):
        latest = max(since(max(0, view.as_of_ns - back_ns)), default=None)
        if latest is not None:
            return latest
    return None
