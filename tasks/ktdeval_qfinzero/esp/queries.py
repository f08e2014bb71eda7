"""Calls that find events and articles: by moment, id, calendar and word; the next triggers, and a timeline of buckets."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterator
from typing import Final

from msgspec.structs import asdict

from ktdeval_qfinzero.data.rows import CALENDAR_TYPES, NEWS_TYPES, EventRow, NewsRow, row_key
from ktdeval_qfinzero.data.stores import Span, Tags
from ktdeval_qfinzero.errors import invalid, not_found
from ktdeval_qfinzero.esp import types
from ktdeval_qfinzero.esp.reading import (
    StoreQuery,
    article_payload,
    calendar_rows,
    event_rows,
    event_shown,
    page_of,
    read_after,
    read_end,
    read_tags,
    unknown_tickers,
    window_of,
)
from ktdeval_qfinzero.moments import DAY, MINUTE, moment_text, parse_moment
from ktdeval_qfinzero.schemas import Answer, write_cursor
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
    rows, next_cursor = page_of(event_rows(view, query), given.limit)
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
    rows, next_cursor = page_of(_watched(view, StoreQuery(span, tags, read_after(given.cursor))), given.limit)
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
