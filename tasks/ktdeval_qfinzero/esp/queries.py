"""Calls that find events and articles: by moment, by id, by calendar and by word."""

from __future__ import annotations

from msgspec.structs import asdict

from ktdeval_qfinzero.data.rows import NEWS_TYPES, EventRow, NewsRow
from ktdeval_qfinzero.data.stores import Span, Tags
from ktdeval_qfinzero.errors import invalid, not_found
from ktdeval_qfinzero.esp import types
from ktdeval_qfinzero.esp.reading import (
    Wanted,
    article_payload,
    available,
    event_shown,
    page_of,
    read_after,
    read_end,
    read_tags,
    unknown_tickers,
    wanted_rows,
    window_of,
)
from ktdeval_qfinzero.moments import DAY, MINUTE, moment_text, parse_moment
from ktdeval_qfinzero.schemas import Answer
from ktdeval_qfinzero.view import View


def query_events(view: View, given: types.EventsQuery) -> types.EventsPage:
    """Find scheduled events and published news by time, type, ticker, market and importance."""
    return _page(view, _query_span(view, given), read_tags(given), given)


def get_event(view: View, given: types.OneEvent) -> Answer:
    """Get one event in full by its event id (the whole text of an article is at ESP.news.body)."""
    row: EventRow | NewsRow | None = None
    if given.event_id.isascii():
        with available("calendar"):
            row = view.event(given.event_id)
        if row is None:
            with available("news"):
                row = view.article(given.event_id)
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
    with available("news"):
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
    wanted = Wanted(span, tags, read_after(given.cursor), block=given.limit + 1)
    rows, next_cursor = page_of(wanted_rows(view, wanted), given.limit)
    return types.EventsPage(
        as_of_ts=moment_text(view.as_of_ns),
        events=[event_shown(row, given.view) for row in rows],
        unknown=unknown_tickers(view, tags.tickers),
        next_cursor=next_cursor,
    )
