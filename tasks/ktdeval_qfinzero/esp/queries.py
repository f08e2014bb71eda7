"""Operations on events and articles: queries by time, id, calendar and word; the next triggers; a
timeline of buckets; and the coverage of the stores as of the clock. The stream gives all updates
once each, in the order in which they became known.
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

from ktdeval_qfinzero.cursors import page_of, write_cursor
from ktdeval_qfinzero.data.rows import (
    CALENDAR_TYPES,
    NEWS_TYPES,
    EventRow,
    EventType,
    MomentSpan,
    NewsRow,
    PageBounds,
    TagFilters,
    as_known,
    known_moments,
    row_key,
)
from ktdeval_qfinzero.errors import invalid, not_found
from ktdeval_qfinzero.esp import answers, arguments
from ktdeval_qfinzero.esp.event_stream import (
    BLOCK,
    Key,
    StoreQuery,
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
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.schemas import Nothing
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_of, moment_text, parse_moment


def query_events(view: DatasetView, given: arguments.EventsQuery) -> answers.EventsPage:
    """Find scheduled events and published news by time, type, ticker, market and importance."""
    return _page(view, _query_span(view, given), read_tags(given), given)


def get_event(view: DatasetView, given: arguments.OneEvent) -> answers.EventShown:
    """Get one event in full by its event id (the whole text of an article is at ESP.news.body)."""
    row: EventRow | NewsRow | None = None
    if given.event_id.isascii():
        row = view.event(given.event_id) or view.article(given.event_id)
    if row is None:
        raise not_found("event_id", "there is no such event as of the clock")

    return event_shown(row)


def economic_calendar(view: DatasetView, given: arguments.EconomicCalendar) -> answers.EventsPage:
    """List macroeconomic releases of some days, with consensus, previous and, once released, actual
    values.
    """
    return _calendar(view, read_tags(given, ("macro_calendar",)), given)


def earnings_calendar(view: DatasetView, given: arguments.EarningsCalendar) -> answers.EventsPage:
    """List earnings reports of some days, with estimates and, once released, actual values."""
    return _calendar(view, read_tags(given, ("earnings",)), given)


def search_news(view: DatasetView, given: arguments.NewsQuery) -> answers.EventsPage:
    """Search published articles by words, publisher and tickers."""
    if given.end_utc is None:
        end_ns = view.as_of_ns + 1
    else:
        end_ns = read_end(given.end_utc, "end_utc")

    if given.start_utc is None:
        start_ns = max(0, end_ns - 7 * DAY)
    else:
        start_ns = parse_moment(given.start_utc, "start_utc")

    span = window_of(start_ns, end_ns, "start_utc" if given.end_utc is None else "end_utc")
    return _page(view, span, read_tags(given, NEWS_TYPES), given)


def news_body(view: DatasetView, given: arguments.OneArticle) -> answers.Article:
    """Get an article with its whole text."""
    row = view.article(given.news_id) if given.news_id.isascii() else None
    if row is None:
        raise not_found("news_id", "there is no such article as of the clock")

    return answers.Article(
        id=row.id,
        title=row.title,
        published_utc=moment_text(row.published_ns),
        tickers=list(row.tickers),
        article_url=row.article_url,
        author=row.author,
        description=row.description or None,
        image_url=row.image_url or None,
        keywords=list(row.keywords),
        publisher=dict(row.publisher),
        insights=[dict(insight) for insight in row.insights],
        body=row.body,
    )


def _query_span(view: DatasetView, given: arguments.EventsQuery) -> MomentSpan:
    """Return the time span of a query. Events due exactly now are treated as past events."""
    _check_bounds(given)
    if given.start_utc is not None and given.end_utc is not None:
        start_ns = parse_moment(given.start_utc, "start_utc")
        end_ns = read_end(given.end_utc, "end_utc")
        return window_of(start_ns, end_ns, "end_utc")

    now_ns = view.as_of_ns
    horizon_ns = given.horizon_minutes * MINUTE
    if given.mode == "upcoming":
        return MomentSpan(now_ns + 1, now_ns + horizon_ns + 1)

    return MomentSpan(max(0, now_ns - horizon_ns + 1), now_ns + 1)


def _check_bounds(given: arguments.EventsQuery) -> None:
    """Raise ServiceError `invalid_argument` unless a query has both bounds in mode `window`, or no
    bounds in the other modes.
    """
    for name, bound in (("start_utc", given.start_utc), ("end_utc", given.end_utc)):
        if given.mode != "window" and bound is not None:
            raise invalid(
                name,
                "goes with mode window only; the other modes count horizon_minutes from the clock",
            )
        if given.mode == "window" and bound is None:
            raise invalid(name, "required and missing: mode window goes from start_utc to end_utc")


def _calendar(
    view: DatasetView,
    tags: TagFilters,
    given: arguments.EconomicCalendar | arguments.EarningsCalendar,
) -> answers.EventsPage:
    """Return a calendar's events, by default those of the clock's day and the seven days
    after it.
    """
    if given.start_date is None:
        start_ns = view.as_of_ns // DAY * DAY
    else:
        start_ns = parse_moment(given.start_date, "start_date")

    if given.end_date is None:
        end_ns = start_ns // DAY * DAY + 8 * DAY
    else:
        end_ns = read_end(given.end_date, "end_date")

    span = window_of(start_ns, end_ns, "start_date" if given.end_date is None else "end_date")
    return _page(view, span, tags, given)


def _page(
    view: DatasetView,
    span: MomentSpan,
    tags: TagFilters,
    given: arguments.EventsQuery
    | arguments.EconomicCalendar
    | arguments.EarningsCalendar
    | arguments.NewsQuery,
) -> answers.EventsPage:
    query = StoreQuery(span, tags, read_after(given.cursor), block=given.limit + 1)
    rows, next_cursor = page_of(event_rows(view, query), given.limit, row_key)
    return answers.EventsPage(
        events=[event_shown(row, given.view) for row in rows],
        unknown=unknown_tickers(view, tags.tickers),
        next_cursor=next_cursor,
    )


IMMINENT_NS: Final = 30 * MINUTE
MAX_BUCKETS: Final = 1000
LONGEST_TIMELINE_NS: Final = 366 * DAY
_AROUND_NS: Final = 6 * 60 * MINUTE


def next_triggers(view: DatasetView, given: arguments.TriggersQuery) -> answers.TriggersPage:
    """Get the next scheduled events worth waking up for, with the reasons."""
    tags = read_tags(given, CALENDAR_TYPES)
    span = MomentSpan(view.as_of_ns + 1, view.as_of_ns + given.horizon_minutes * MINUTE + 1)
    query = StoreQuery(span, tags, read_after(given.cursor))
    rows, next_cursor = page_of(_find_watched(view, query), given.limit, row_key)
    triggers = [
        answers.Trigger(
            trigger_time_utc=moment_text(row.time_ns),
            event_id=row.event_id,
            reason_codes=_reasons(row, tags, view.as_of_ns),
            event=event_shown(row),
        )
        for row in rows
    ]

    return answers.TriggersPage(
        triggers=triggers,
        unknown=unknown_tickers(view, tags.tickers),
        next_cursor=next_cursor,
    )


def timeline(view: DatasetView, given: arguments.TimelineQuery) -> answers.Timeline:
    """Count and list events in equal buckets of time."""
    span, width_ns = _grid(view.as_of_ns, given)
    tags = read_tags(given)
    after = read_after(given.cursor)
    buckets = _empty_buckets(span, width_ns)
    # one more than shown, to detect a next page
    listed: list[tuple[answers.Bucket, EventRow | NewsRow]] = []

    for row in event_rows(view, StoreQuery(span, tags)):
        key = row_key(row)
        bucket = buckets[(key[0] - span.start_ns) // width_ns]
        bucket.count += 1
        if len(listed) <= given.limit and (after is None or key > after):
            listed.append((bucket, row))

    for bucket, row in listed[: given.limit]:
        bucket.events.append(event_shown(row, "compact"))

    next_cursor = None
    if len(listed) > given.limit:
        _, last_shown = listed[-2]
        next_cursor = write_cursor(*row_key(last_shown))

    return answers.Timeline(
        total=sum(bucket.count for bucket in buckets),
        buckets=buckets,
        unknown=unknown_tickers(view, tags.tickers),
        next_cursor=next_cursor,
    )


def _empty_buckets(span: MomentSpan, width_ns: int) -> list[answers.Bucket]:
    buckets: list[answers.Bucket] = []
    for start_ns in range(span.start_ns, span.end_ns, width_ns):
        end_ns = min(start_ns + width_ns, span.end_ns)
        buckets.append(
            answers.Bucket(
                bucket_start_utc=moment_text(start_ns),
                bucket_end_utc=moment_text(end_ns),
                count=0,
                events=[],
            )
        )

    return buckets


def _find_watched(view: DatasetView, query: StoreQuery) -> Iterator[EventRow]:
    """Yield events about watched tickers, and events that concern the whole market and have no
    ticker. If no ticker is watched, yield all events.
    """
    tags = query.tags
    if not tags.tickers:
        return calendar_rows(view, query)

    of_any_ticker = dataclasses.replace(tags, tickers=())
    everywhere = calendar_rows(view, dataclasses.replace(query, tags=of_any_ticker))
    of_the_market = (row for row in everywhere if not row.tickers)
    return heapq.merge(calendar_rows(view, query), of_the_market, key=row_key)


def _reasons(row: EventRow, tags: TagFilters, now_ns: int) -> list[answers.Reason]:
    reasons: list[answers.Reason] = []
    if row.importance == "high":
        reasons.append("HIGH_IMPORTANCE")
    if row.time_ns - now_ns < IMMINENT_NS:
        reasons.append("TIME_IMMINENT")
    if not set(tags.tickers).isdisjoint(row.tickers):
        reasons.append("MATCH_WATCHLIST")

    return reasons


def _grid(now_ns: int, given: arguments.TimelineQuery) -> tuple[MomentSpan, int]:
    """Return the window and the width of its buckets. Raises ServiceError `invalid_argument` if the
    window is too long or has too many buckets.
    """
    if given.start_utc is None:
        start_ns = max(0, now_ns - _AROUND_NS)
    else:
        start_ns = parse_moment(given.start_utc, "start_utc")

    if given.end_utc is None:
        end_ns = now_ns + _AROUND_NS
    else:
        end_ns = read_end(given.end_utc, "end_utc")

    span = window_of(start_ns, end_ns, "start_utc" if given.end_utc is None else "end_utc")
    length_ns = span.end_ns - span.start_ns
    width_ns = given.bucket_minutes * MINUTE
    if length_ns > LONGEST_TIMELINE_NS:
        raise invalid("end_utc", "a timeline is at most 366 days long")
    if length_ns > MAX_BUCKETS * width_ns:
        raise invalid(
            "bucket_minutes",
            f"at most {MAX_BUCKETS} buckets: take wider ones, or a shorter window",
        )

    return span, width_ns


HEAD: Final = "HEAD"
_BEGINNING_NS: Final = 5 * MINUTE  #: How far back a stream without a cursor begins


@dataclass(frozen=True, slots=True)
class KnownUpdate:
    """An update that became known."""

    known_ns: int  #: when the update became known
    row: EventRow | NewsRow  #: the event as known then, without later releases; or the article

    @property
    def key(self) -> Key:
        """Unique key by which updates are sorted."""
        return self.known_ns, row_key(self.row)[1]

    @property
    def change(self) -> answers.Change:
        """Kind of change."""
        row = self.row
        if isinstance(row, NewsRow):
            return "published"

        earlier = known_moments(row)[:-1]
        if status_of(row) == "scheduled":
            return "changed" if earlier else "announced"

        had_outcome = bool(earlier) and status_of(as_known(row, earlier[-1])) != "scheduled"
        return "revised" if had_outcome else "released"


def calendar_updates(
    view: DatasetView, tags: TagFilters, after: Key, block: int = BLOCK
) -> Iterator[KnownUpdate]:
    """Yield updates to events that became known by now and after a key, in the order of their keys.
    The key (time, "") gives all updates from this time onwards. Raises ServiceError `unavailable`
    if a store fails.
    """
    chosen = of_types(tags, CALENDAR_TYPES)
    if chosen is None:
        return

    while True:
        page = [KnownUpdate(*pair) for pair in view.updates(chosen, PageBounds(block, after))]
        yield from page
        if len(page) < block:
            return

        after = page[-1].key


def stream_events(view: DatasetView, given: arguments.StreamQuery) -> answers.StreamPage:
    """Follow what becomes known: announcements, releases, revisions and news, each once, in the
    order they became known.
    """
    tags = read_tags(given)
    after = None if given.cursor == HEAD else read_after(given.cursor)
    if after is None:  # (time, "") sorts before all updates of this time, since no id is empty
        after = (max(0, view.as_of_ns - _BEGINNING_NS + 1), "")

    updates = heapq.merge(
        calendar_updates(view, tags, after, given.limit + 1),
        _article_updates(view, tags, after, given.limit + 1),
        key=lambda update: update.key,
    )
    first_updates = list(islice(updates, given.limit + 1))
    more = len(first_updates) > given.limit
    page = first_updates[: given.limit]
    position = page[-1].key if more else max(after, (view.as_of_ns + 1, ""))

    return answers.StreamPage(
        events=[_update_shown(update, given.view) for update in page],
        unknown=unknown_tickers(view, tags.tickers),
        more=more,
        next_cursor=write_cursor(*position),
    )


def _article_updates(
    view: DatasetView, tags: TagFilters, after: Key, block: int
) -> Iterator[KnownUpdate]:
    query = StoreQuery(MomentSpan(after[0], view.as_of_ns + 1), tags, after, block=block)
    for row in news_rows(view, query):
        yield KnownUpdate(row.published_ns, row)


def _update_shown(update: KnownUpdate, view: arguments.EventView) -> answers.UpdateShown:
    event = asdict(event_shown(update.row, view))
    return answers.UpdateShown(
        known_utc=moment_text(update.known_ns), change=update.change, **event
    )


_LOOKS_BACK_NS: Final = (DAY, 7 * DAY, 31 * DAY, 366 * DAY)


def coverage(view: DatasetView, given: arguments.CoverageQuery) -> answers.Coverage:
    """Summarise what the calendars hold for the days around the clock."""
    today_ns = view.as_of_ns // DAY * DAY
    span = MomentSpan(max(0, today_ns - given.days * DAY), today_ns + (given.days + 1) * DAY)
    calendars: list[answers.CalendarCovered] = []
    for kind in CALENDAR_TYPES:
        rows = calendar_rows(view, StoreQuery(span, TagFilters(types=(kind,))))
        calendars.append(_describe_coverage(kind, list(rows)))

    return answers.Coverage(
        first_day=day_of(span.start_ns).isoformat(),
        last_day=day_of(span.end_ns - 1).isoformat(),
        calendars=calendars,
    )


def freshness(view: DatasetView, given: Nothing) -> answers.Freshness:  # noqa: ARG001 - all functions of operations take both
    """Say when each source of events last had something new."""

    def updates_since(kind: EventType, start_ns: int) -> Iterator[int]:
        tags = TagFilters(types=(kind,))
        return (update.known_ns for update in calendar_updates(view, tags, (start_ns, "")))

    def articles_since(start_ns: int) -> Iterator[int]:
        query = StoreQuery(MomentSpan(start_ns, view.as_of_ns + 1))
        return (row.published_ns for row in news_rows(view, query))

    sources: list[answers.SourceShown] = []
    for kind in CALENDAR_TYPES:
        latest_ns = _latest(view, partial(updates_since, kind))
        sources.append(_source_shown(view, kind, latest_ns))

    sources.append(_source_shown(view, "news", _latest(view, articles_since)))
    return answers.Freshness(sources=sources)


def _source_shown(view: DatasetView, source: str, latest_ns: int | None) -> answers.SourceShown:
    if latest_ns is None:
        return answers.SourceShown(source=source, latest_utc=None, age_minutes=None)

    return answers.SourceShown(
        source=source,
        latest_utc=moment_text(latest_ns),
        age_minutes=(view.as_of_ns - latest_ns) // MINUTE,
    )


def _describe_coverage(kind: str, rows: list[EventRow]) -> answers.CalendarCovered:
    statuses = Counter(status_of(row) for row in rows)
    days = {row.time_ns // DAY for row in rows}

    return answers.CalendarCovered(
        event_type=kind,
        count=len(rows),
        days=len(days),
        scheduled=statuses["scheduled"],
        occurred=statuses["occurred"],
        updated=statuses["updated"],
        first_time_utc=moment_text(rows[0].time_ns) if rows else None,
        last_time_utc=moment_text(rows[-1].time_ns) if rows else None,
    )


def _latest(view: DatasetView, since: Callable[[int], Iterator[int]]) -> int | None:
    """Return the last of some ascending times. Stores give the oldest first, so the window is
    widened until it contains one.
    """
    for back_ns in (*_LOOKS_BACK_NS, view.as_of_ns):
        latest = max(since(max(0, view.as_of_ns - back_ns)), default=None)
        if latest is not None:
            return latest
    return None
