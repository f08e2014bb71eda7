"""What lies ahead and around: the next triggers, and a timeline of buckets."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from ktdeval.api import JsonValue
from ktdeval_qfinzero.data.memory import row_key
from ktdeval_qfinzero.data.rows import CALENDAR_TYPES, EventRow
from ktdeval_qfinzero.data.stores import Span, Tags
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.esp.arguments import read_after, read_end, read_tags, unknown_tickers, window_of
from ktdeval_qfinzero.esp.reading import Key, Wanted, calendar_rows, wanted_rows
from ktdeval_qfinzero.esp.rendering import event_json
from ktdeval_qfinzero.moments import DAY, MINUTE, moment_text, parse_moment
from ktdeval_qfinzero.operations import Arguments
from ktdeval_qfinzero.paging import write_cursor
from ktdeval_qfinzero.view import View

if TYPE_CHECKING:
    from ktdeval_qfinzero.workspace import Workspace

IMMINENT_NS: Final = 30 * MINUTE
MOST_BUCKETS: Final = 1000
LONGEST_TIMELINE_NS: Final = 366 * DAY
_AROUND_NS: Final = 6 * 60 * MINUTE


def next_triggers(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """Scheduled events to come within the horizon, soonest first, each with the reasons to look at it."""
    view, limit = workspace.view, arguments["limit"]
    tags = read_tags(arguments, CALENDAR_TYPES)
    span = Span(view.as_of_ns + 1, view.as_of_ns + arguments["horizon_minutes"] * MINUTE + 1)
    found = list(islice(_watched(view, Wanted(span, tags, read_after(arguments))), limit + 1))
    rows = found[:limit]
    return {
        "as_of_ts": moment_text(view.as_of_ns),
        "triggers": [
            {
                "trigger_time_utc": moment_text(row.time_ns),
                "event_id": row.event_id,
                "reason_codes": _reasons(row, tags, view.as_of_ns),
                "event": event_json(row),
            }
            for row in rows
        ],
        "unknown": unknown_tickers(view, tags.tickers),
        "next_cursor": write_cursor(*row_key(rows[-1])) if len(found) > limit else None,
    }


def timeline(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """How many events fall into each bucket of a window, and the events themselves page by page."""
    view = workspace.view
    span, width_ns = _grid(view.as_of_ns, arguments)
    tags = read_tags(arguments)
    listing = _Listing(span.start_ns, width_ns, read_after(arguments), arguments["limit"])
    counts = [0] * -((span.start_ns - span.end_ns) // width_ns)
    for row in wanted_rows(view, Wanted(span, tags)):
        key = row_key(row)
        bucket = (key[0] - span.start_ns) // width_ns
        counts[bucket] += 1
        if listing.takes(key):
            listing.events.setdefault(bucket, []).append(event_json(row, "compact"))
    starts = range(span.start_ns, span.end_ns, width_ns)
    return {
        "as_of_ts": moment_text(view.as_of_ns),
        "total": sum(counts),
        "buckets": [
            {
                "bucket_start_utc": moment_text(start_ns),
                "bucket_end_utc": moment_text(min(start_ns + width_ns, span.end_ns)),
                "count": count,
                "events": listing.events.get(number, []),
            }
            for number, (start_ns, count) in enumerate(zip(starts, counts, strict=True))
        ],
        "unknown": unknown_tickers(view, tags.tickers),
        "next_cursor": listing.next_cursor,
    }


@dataclass(slots=True)
class _Listing:
    """The page of events that a timeline lists, filled in order."""

    start_ns: int
    width_ns: int
    after: Key | None
    room: int
    last: Key | None = None
    next_cursor: str | None = None
    events: dict[int, list[JsonValue]] = field(default_factory=dict)

    def takes(self, key: Key) -> bool:
        """Whether the event of a key belongs to the page; the first that does not find room any more makes the cursor."""
        if self.after is not None and key <= self.after:
            return False
        if self.room:
            self.room, self.last = self.room - 1, key
            return True
        if self.next_cursor is None and self.last is not None:
            self.next_cursor = write_cursor(*self.last)
        return False


def _watched(view: View, wanted: Wanted) -> Iterator[EventRow]:
    """Events about watched tickers and those of the whole market, which are about no ticker; all where none is watched."""
    tags = wanted.tags
    if not tags.tickers:
        return calendar_rows(view, wanted)
    everywhere = calendar_rows(view, replace(wanted, tags=replace(tags, tickers=())))
    of_the_market = (row for row in everywhere if not row.tickers)
    return heapq.merge(calendar_rows(view, wanted), of_the_market, key=row_key)


def _reasons(row: EventRow, tags: Tags, now_ns: int) -> list[JsonValue]:
    reasons = {
        "HIGH_IMPORTANCE": row.importance == "high",
        "TIME_IMMINENT": row.time_ns - now_ns < IMMINENT_NS,
        "MATCH_WATCHLIST": not set(tags.tickers).isdisjoint(row.tickers),
    }
    return [reason for reason, holds in reasons.items() if holds]


def _grid(now_ns: int, arguments: Arguments) -> tuple[Span, int]:
    """The window and the width of its buckets.

    Raises:
        ServiceError: `invalid_argument`: too long, or too many buckets.
    """
    start_ns = parse_moment(arguments["start_utc"], "start_utc") if "start_utc" in arguments else max(0, now_ns - _AROUND_NS)
    end_ns = read_end(arguments, "end_utc") if "end_utc" in arguments else now_ns + _AROUND_NS
    span = window_of(start_ns, end_ns, "end_utc" if "end_utc" in arguments else "start_utc")
    width_ns = arguments["bucket_minutes"] * MINUTE
    if span.end_ns - span.start_ns > LONGEST_TIMELINE_NS:
        raise invalid("end_utc", "a timeline is at most 366 days long")
    if span.end_ns - span.start_ns > MOST_BUCKETS * width_ns:
        raise invalid("bucket_minutes", f"at most {MOST_BUCKETS} buckets: take wider ones, or a shorter window")
    return span, width_ns
