"""Content of the stores, as of the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from ktdeval_qfinzero.data.rows import CALENDAR_TYPES, EventRow
from ktdeval_qfinzero.data.stores import Span, Tags
from ktdeval_qfinzero.esp.reading import Wanted, calendar_rows, news_rows
from ktdeval_qfinzero.esp.rendering import status_of
from ktdeval_qfinzero.esp.stream import calendar_updates
from ktdeval_qfinzero.esp.types import CalendarCovered, Coverage, CoverageQuery, Freshness, Nothing, SourceShown
from ktdeval_qfinzero.moments import DAY, MINUTE, day_of, moment_text
from ktdeval_qfinzero.view import View

_LOOKS_BACK_NS: Final = (DAY, 7 * DAY, 31 * DAY, 366 * DAY)


def coverage(view: View, given: CoverageQuery) -> Coverage:
    """Summarise what the calendars hold for the days around the clock."""
    today_ns = view.as_of_ns // DAY * DAY
    span = Span(max(0, today_ns - given.days * DAY), today_ns + (given.days + 1) * DAY)
    return Coverage(
        as_of_ts=moment_text(view.as_of_ns),
        first_day=day_of(span.start_ns).isoformat(),
        last_day=day_of(span.end_ns - 1).isoformat(),
        calendars=[_covered(kind, list(calendar_rows(view, Wanted(span, Tags(types=(kind,)))))) for kind in CALENDAR_TYPES],
    )


def freshness(view: View, given: Nothing) -> Freshness:  # noqa: ARG001 - all functions of operations take both
    """Say when each source of events last had something new."""
    latest: dict[str, int | None] = {
        kind: _latest(view, partial(_updates_since, view, Tags(types=(kind,)))) for kind in CALENDAR_TYPES
    }
    latest["news"] = _latest(view, partial(_articles_since, view))
    sources = [
        SourceShown(
            source=source,
            latest_utc=None if latest_ns is None else moment_text(latest_ns),
            age_minutes=None if latest_ns is None else (view.as_of_ns - latest_ns) // MINUTE,
        )
        for source, latest_ns in latest.items()
    ]
    return Freshness(as_of_ts=moment_text(view.as_of_ns), sources=sources)


def _covered(kind: str, rows: list[EventRow]) -> CalendarCovered:
    statuses = Counter(status_of(row) for row in rows)
    return CalendarCovered(
        event_type=kind,
        count=len(rows),
        days=len({row.time_ns // DAY for row in rows}),
        scheduled=statuses["scheduled"],
        occurred=statuses["occurred"],
        updated=statuses["updated"],
        first_time_utc=moment_text(rows[0].time_ns) if rows else None,
        last_time_utc=moment_text(rows[-1].time_ns) if rows else None,
    )


def _updates_since(view: View, tags: Tags, start_ns: int) -> Iterator[int]:
    return (update.known_ns for update in calendar_updates(view, tags, (start_ns, "")))


def _articles_since(view: View, start_ns: int) -> Iterator[int]:
    return (row.published_ns for row in news_rows(view, Wanted(Span(start_ns, view.as_of_ns + 1))))


def _latest(view: View, since: Callable[[int], Iterator[int]]) -> int | None:
    """Last of ascending moments; stores give the oldest first, so the window is widened until there is one."""
    for back_ns in (*_LOOKS_BACK_NS, view.as_of_ns):
        latest = max(since(max(0, view.as_of_ns - back_ns)), default=None)
        if latest is not None:
            return latest
    return None
