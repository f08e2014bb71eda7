"""Calls that find events and articles: by moment, by id, by calendar and by word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.api import JsonValue
from ktdeval_qfinzero.data.memory import row_key
from ktdeval_qfinzero.data.rows import NEWS_TYPES
from ktdeval_qfinzero.data.stores import Span, Tags
from ktdeval_qfinzero.errors import invalid, not_found
from ktdeval_qfinzero.esp.arguments import read_after, read_end, read_tags, read_window, unknown_tickers, window_of
from ktdeval_qfinzero.esp.reading import Wanted, available, first_page
from ktdeval_qfinzero.esp.rendering import article_json, event_json
from ktdeval_qfinzero.moments import DAY, MINUTE, moment_text, parse_moment
from ktdeval_qfinzero.operations import Arguments
from ktdeval_qfinzero.paging import write_cursor
from ktdeval_qfinzero.view import View

if TYPE_CHECKING:
    from ktdeval_qfinzero.workspace import Workspace


def query_events(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """Events of a window, which lies around the clock or is given."""
    view = workspace.view
    return _page(view, _query_span(view, arguments), read_tags(arguments), arguments)


def get_event(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """One event or article, in full."""
    view, event_id = workspace.view, arguments["event_id"]
    row = None
    if event_id.isascii():
        with available("calendar"):
            row = view.event(event_id)
        if row is None:
            with available("news"):
                article = view.article(event_id)
            if article is not None:
                return {"as_of_ts": moment_text(view.as_of_ns), **event_json(article)}
    if row is None:
        raise not_found("event_id", "there is no such event as of the clock")
    return {"as_of_ts": moment_text(view.as_of_ns), **event_json(row)}


def economic_calendar(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """Macroeconomic events of some days."""
    return _calendar(workspace.view, read_tags(arguments, ("macro_calendar",)), arguments)


def earnings_calendar(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """Earnings of some days."""
    return _calendar(workspace.view, read_tags(arguments, ("earnings",)), arguments)


def search_news(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """Articles by words, publisher and tickers."""
    view = workspace.view
    end_ns = read_end(arguments, "end_utc") if "end_utc" in arguments else view.as_of_ns + 1
    start_ns = parse_moment(arguments["start_utc"], "start_utc") if "start_utc" in arguments else max(0, end_ns - 7 * DAY)
    span = window_of(start_ns, end_ns, "end_utc" if "end_utc" in arguments else "start_utc")
    return _page(view, span, read_tags(arguments, NEWS_TYPES), arguments)


def news_body(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """One article with its text."""
    view, news_id = workspace.view, arguments["news_id"]
    with available("news"):
        row = view.article(news_id) if news_id.isascii() else None
    if row is None:
        raise not_found("news_id", "there is no such article as of the clock")
    return {"as_of_ts": moment_text(view.as_of_ns), **article_json(row)}


def _query_span(view: View, arguments: Arguments) -> Span:
    """The window of a query. What happens at the present moment has happened."""
    now_ns, horizon_ns = view.as_of_ns, arguments["horizon_minutes"] * MINUTE
    if arguments["mode"] != "window":
        for name in ("start_utc", "end_utc"):
            if name in arguments:
                raise invalid(name, "goes with mode window only; the other modes count horizon_minutes from the clock")
        return Span(now_ns + 1, now_ns + horizon_ns + 1) if arguments["mode"] == "upcoming" else _past(now_ns, horizon_ns)
    for name in ("start_utc", "end_utc"):
        if name not in arguments:
            raise invalid(name, "required and missing: mode window goes from start_utc to end_utc")
    return read_window(arguments, "start_utc", "end_utc")


def _past(now_ns: int, horizon_ns: int) -> Span:
    return Span(max(0, now_ns - horizon_ns + 1), now_ns + 1)


def _calendar(view: View, tags: Tags, arguments: Arguments) -> JsonValue:
    if "start_date" in arguments:
        start_ns = parse_moment(arguments["start_date"], "start_date")
    else:
        start_ns = view.as_of_ns // DAY * DAY
    end_ns = read_end(arguments, "end_date") if "end_date" in arguments else start_ns // DAY * DAY + 8 * DAY
    field = "end_date" if "end_date" in arguments else "start_date"
    return _page(view, window_of(start_ns, end_ns, field), tags, arguments)


def _page(view: View, span: Span, tags: Tags, arguments: Arguments) -> JsonValue:
    rows, more = first_page(view, Wanted(span, tags, read_after(arguments)), arguments["limit"])
    events = [event_json(row, arguments["view"]) for row in rows]
    last = rows[-1] if rows else None
    return {
        "as_of_ts": moment_text(view.as_of_ns),
        "events": events,
        "unknown": unknown_tickers(view, tags.tickers),
        "next_cursor": write_cursor(*row_key(last)) if more and last is not None else None,
    }
