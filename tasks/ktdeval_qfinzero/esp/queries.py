"""Calls on events and articles: by moment, id, calendar and word; the next triggers, a timeline of buckets, and the stream of
everything in the order in which it became known, each thing once; how much the stores hold as of the clock.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from msgspec.structs import asdict

from ktdeval_qfinzero.data.rows import (
    CALENDAR_TYPES,
    NEWS_TYPES,
    EventRow,
    EventType,
    NewsRow,
    Page,
    Span,
    Tags,
    as_known,
    known_moments,
    row_key,
)
from ktdeval_qfinzero.errors import invalid, not_found
from ktdeval_qfinzero.esp import types
from ktdeval_qfinzero.esp.reading import (
    BLOCK,
    Key,
    StoreQuery,
    article_payload,
    calendar_rows,
    event_rows,
    event_shown,
    news_rows,
    of_types,
    read_after,
    read_end,
    read_tags,
    status_of,
    unknown_tickers,
    window_of,
)
from ktdeval_qfinzero.moments import DAY, MINUTE, day_of, moment_text, parse_moment
from ktdeval_qfinzero.schemas import Answer, page_of, write_cursor
from ktdeval_qfinzero.view import View


def query_events(view: View, given: types.EventsQuery) -> types.EventsPage:
    """Find scheduled events and published news by time, type, ticker, market and importance."""
    return _page(view, _query_span(view, given), read_tags(given), given)


def get_event(view: View, given: types.OneEvent) -> Answer:
    """Get one event in full by its event id (the whole text of an article is at ESP.news.body)."""
    row = (view.event(given.event_id) or view.article(given.event_id)) if given.event_id.isascii() else None
    if row is None:
        raise not_found("event_id", "there is no such event as of the clock")
    answer: Answer = types.EventAnswer(as_of_ts=moment_text(view.as_of_ns), **asdict(event_shown(row)))
    return answer


def economic_calendar(view: View, given: types.EconomicCalendar) -> types.EventsPage:
    """List macroeconomic releases of some days, with consensus, previous and, once released, actual values."""
    return _calendar(view, read_tags(given, ("macro_calendar",)), given)


def earnings_calendar(view: View, given: types.EarningsCalendar) -> types.EventsPage:
    """List earnings reports of some days, with estimates and, once released, actual values."""
    return _calendar(view, read_tags(given, ("earnings",)), given)


def search_news(view: View, given: types.NewsQuery) -> types.EventsPage:
    """Search published articles by words, publisher and tickers."""
    end_ns = view.as_of_ns + 1 if given.end_utc is None else read_end(given.end_utc, "end_utc")
    start_ns = max(0, end_ns - 7 * DAY) if given.start_utc is None else parse_moment(given.start_utc, "start_utc")
    span = window_of(start_ns, end_ns, "start_utc" if given.end_utc is None else "end_utc")
    return _page(view, span, read_tags(given, NEWS_TYPES), given)


def news_body(view: View, given: types.OneArticle) -> types.Article:
    """Get an article with its whole text."""
    row = view.article(given.news_id) if given.news_id.isascii() else None
    if row is None:
        raise not_found("news_id", "there is no such article as of the clock")
    return types.Article(
        as_of_ts=moment_text(view.as_of_ns),
        id=row.id,
        title=row.title,
        published_utc=moment_text(row.published_ns),
        tickers=list(row.tickers),
        **article_payload(row),
        body=row.body,
    )


def _query_span(view: View, given: types.EventsQuery) -> Span:
    """The window of a query. What happens at the present moment has happened."""
    now_ns, horizon_ns = view.as_of_ns, given.horizon_minutes * MINUTE
    bounds = {"start_utc": given.start_utc, "end_utc": given.end_utc}
    for name, bound in bounds.items():
        if given.mode != "window" and bound is not None:
            raise invalid(name, "goes with mode window only; the other modes count horizon_minutes from the clock")
        if given.mode == "window" and bound is None:
            raise invalid(name, "required and missing: mode window goes from start_utc to end_utc")
    if given.start_utc is not None and given.end_utc is not None:
        return window_of(parse_moment(given.start_utc, "start_utc"), read_end(given.end_utc, "end_utc"), "end_utc")
    if given.mode == "upcoming":
        return Span(now_ns + 1, now_ns + horizon_ns + 1)
    return Span(max(0, now_ns - horizon_ns + 1), now_ns + 1)


def _calendar(view: View, tags: Tags, given: types.EconomicCalendar | types.EarningsCalendar) -> types.EventsPage:
    start_ns = view.as_of_ns // DAY * DAY if given.start_date is None else parse_moment(given.start_date, "start_date")
    end_ns = start_ns // DAY * DAY + 8 * DAY if given.end_date is None else read_end(given.end_date, "end_date")
    return _page(view, window_of(start_ns, end_ns, "start_date" if given.end_date is None else "end_date"), tags, given)


def _page(
    view: View, span: Span, tags: Tags, given: types.EventsQuery | types.EconomicCalendar | types.EarningsCalendar | types.NewsQuery
) -> types.EventsPage:
    query = StoreQuery(span, tags, read_after(given.cursor), block=given.limit + 1)
    rows, next_cursor = page_of(event_rows(view, query), given.limit, row_key)
    return types.EventsPage(
        as_of_ts=moment_text(view.as_of_ns),
        events=[event_shown(row, given.view) for row in rows],
        unknown=unknown_tickers(view, tags.tickers),
        next_cursor=next_cursor,
    )


IMMINENT_NS: Final = 30 * MINUTE
MOST_BUCKETS: Final = 1000
LONGEST_TIMELINE_NS: Final = 366 * DAY
_AROUND_NS: Final = 6 * 60 * MINUTE


def next_triggers(view: View, given: types.TriggersQuery) -> types.TriggersPage:
    """Get the next scheduled events worth waking up for, with the reasons."""
    tags = read_tags(given, CALENDAR_TYPES)
    span = Span(view.as_of_ns + 1, view.as_of_ns + given.horizon_minutes * MINUTE + 1)
    rows, next_cursor = page_of(_watched(view, StoreQuery(span, tags, read_after(given.cursor))), given.limit, row_key)
    triggers = [
        types.Trigger(moment_text(row.time_ns), row.event_id, _reasons(row, tags, view.as_of_ns), event_shown(row)) for row in rows
    ]
    return types.TriggersPage(
        as_of_ts=moment_text(view.as_of_ns),
        triggers=triggers,
        unknown=unknown_tickers(view, tags.tickers),
        next_cursor=next_cursor,
    )


def timeline(view: View, given: types.TimelineQuery) -> types.Timeline:
    """Count and list events in equal buckets of time."""
    span, width_ns = _grid(view.as_of_ns, given)
    tags, after = read_tags(given), read_after(given.cursor)
    buckets = [
        types.Bucket(moment_text(start_ns), moment_text(min(start_ns + width_ns, span.end_ns)), 0, [])
        for start_ns in range(span.start_ns, span.end_ns, width_ns)
    ]
    listed: list[tuple[types.Bucket, EventRow | NewsRow]] = []  # and one more, by which it is known that there is a next page
    for row in event_rows(view, StoreQuery(span, tags)):
        bucket = buckets[(row_key(row)[0] - span.start_ns) // width_ns]
        bucket.count += 1
        if len(listed) <= given.limit and (after is None or row_key(row) > after):
            listed.append((bucket, row))
    for bucket, row in listed[: given.limit]:
        bucket.events.append(event_shown(row, "compact"))
    return types.Timeline(
        as_of_ts=moment_text(view.as_of_ns),
        total=sum(bucket.count for bucket in buckets),
        buckets=buckets,
        unknown=unknown_tickers(view, tags.tickers),
        next_cursor=write_cursor(*row_key(listed[-2][1])) if len(listed) > given.limit else None,
    )


def _watched(view: View, query: StoreQuery) -> Iterator[EventRow]:
    """Events about watched tickers and those of the whole market, which are about no ticker; all where none is watched."""
    tags = query.tags
    if not tags.tickers:
        return calendar_rows(view, query)
    everywhere = calendar_rows(view, dataclasses.replace(query, tags=dataclasses.replace(tags, tickers=())))
    of_the_market = (row for row in everywhere if not row.tickers)
    return heapq.merge(calendar_rows(view, query), of_the_market, key=row_key)


def _reasons(row: EventRow, tags: Tags, now_ns: int) -> list[types.Reason]:
    reasons: dict[types.Reason, bool] = {
        "HIGH_IMPORTANCE": row.importance == "high",
        "TIME_IMMINENT": row.time_ns - now_ns < IMMINENT_NS,
        "MATCH_WATCHLIST": not set(tags.tickers).isdisjoint(row.tickers),
    }
    return [reason for reason, holds in reasons.items() if holds]


def _grid(now_ns: int, given: types.TimelineQuery) -> tuple[Span, int]:
    """Window and the width of its buckets. Raises ServiceError: `invalid_argument`: too long, or too many buckets."""
    start_ns = max(0, now_ns - _AROUND_NS) if given.start_utc is None else parse_moment(given.start_utc, "start_utc")
    end_ns = now_ns + _AROUND_NS if given.end_utc is None else read_end(given.end_utc, "end_utc")
    span = window_of(start_ns, end_ns, "start_utc" if given.end_utc is None else "end_utc")
    width_ns = given.bucket_minutes * MINUTE
    if span.end_ns - span.start_ns > LONGEST_TIMELINE_NS:
        raise invalid("end_utc", "a timeline is at most 366 days long")
    if span.end_ns - span.start_ns > MOST_BUCKETS * width_ns:
        raise invalid("bucket_minutes", f"at most {MOST_BUCKETS} buckets: take wider ones, or a shorter window")
    return span, width_ns


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
