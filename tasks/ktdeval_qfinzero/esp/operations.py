"""The operations of the event stream pipeline."""

from __future__ import annotations

from typing import Final

from ktdeval_qfinzero.esp import schemas
from ktdeval_qfinzero.esp.health import coverage, freshness
from ktdeval_qfinzero.esp.outlook import next_triggers, timeline
from ktdeval_qfinzero.esp.queries import (
    earnings_calendar,
    economic_calendar,
    get_event,
    news_body,
    query_events,
    search_news,
)
from ktdeval_qfinzero.esp.stream import stream_events
from ktdeval_qfinzero.operations import Operation, Schema

_START_DATE: Final = schemas.moment("First day (UTC); the clock's day when absent.")
_END_DATE: Final = schemas.moment("Last day (UTC), which is included; seven days after the first when absent.")
_NAMED_DAYS: Final[dict[str, Schema]] = {"start_date": _START_DATE, "end_date": _END_DATE}

_EVENTS: Final = (
    Operation(
        "ESP.events.query",
        "POST",
        "/esp/events/query",
        "Find scheduled events and published news by time, type, ticker, market and importance.",
        {
            "mode": {
                "type": "string",
                "enum": ["upcoming", "just_happened", "window"],
                "default": "upcoming",
                "description": "upcoming: after the clock, at most horizon_minutes; just_happened: up to the clock, as far back; "
                "window: from start_utc to end_utc.",
            },
            "start_utc": schemas.moment("Mode window: the window's first moment."),
            "end_utc": schemas.moment("Mode window: the first moment after the window; a day is included whole."),
            "horizon_minutes": schemas.minutes(60, "Modes upcoming and just_happened: how far to look from the clock."),
            "event_types": schemas.EVENT_TYPES,
            "tickers": schemas.tickers(),
            "markets": schemas.MARKETS,
            "min_importance": schemas.least("low"),
            "limit": schemas.limit(50),
            "cursor": schemas.CURSOR,
            "view": schemas.view("compact"),
        },
        (),
        schemas.EVENTS_PAGE,
        query_events,
    ),
    Operation(
        "ESP.events.get",
        "GET",
        "/esp/events/{event_id}",
        "Get one event in full by its event id (the whole text of an article is at ESP.news.body).",
        {"event_id": schemas.identifier("Id of the event, as other calls give it.")},
        ("event_id",),
        schemas.EVENT_ANSWER,
        get_event,
    ),
    Operation(
        "ESP.events.stream",
        "POST",
        "/esp/events/stream",
        "Follow what becomes known: announcements, releases, revisions and news, each once, in the order they became known.",
        {
            "cursor": schemas.STREAM_CURSOR,
            "event_types": schemas.EVENT_TYPES,
            "tickers": schemas.tickers(),
            "markets": schemas.MARKETS,
            "min_importance": schemas.least("low"),
            "limit": schemas.limit(50),
            "view": schemas.view("full"),
        },
        (),
        schemas.STREAM_PAGE,
        stream_events,
    ),
    Operation(
        "ESP.triggers.next",
        "POST",
        "/esp/triggers/next",
        "Get the next scheduled events worth waking up for, with the reasons.",
        {
            "tickers": schemas.tickers("The watchlist: only events about one of these, and those about the whole market."),
            "markets": schemas.MARKETS,
            "min_importance": schemas.least("medium"),
            "horizon_minutes": schemas.minutes(1440, "How far to look ahead of the clock."),
            "limit": schemas.limit(5, "Triggers"),
            "cursor": schemas.CURSOR,
        },
        (),
        schemas.TRIGGERS_PAGE,
        next_triggers,
    ),
    Operation(
        "ESP.timeline",
        "POST",
        "/esp/timeline",
        "Count and list events in equal buckets of time.",
        {
            "tickers": schemas.tickers(),
            "event_types": schemas.EVENT_TYPES,
            "markets": schemas.MARKETS,
            "min_importance": schemas.least("low"),
            "start_utc": schemas.moment("First moment; six hours before the clock when absent."),
            "end_utc": schemas.moment("First moment after the window (a day is whole); six hours after the clock when absent."),
            "bucket_minutes": schemas.minutes(60, "Width of a bucket; a timeline has at most 1000 of them and 366 days."),
            "limit": schemas.limit(200, "Events listed (counts are exact whatever it is)"),
            "cursor": schemas.CURSOR,
        },
        (),
        schemas.TIMELINE_PAGE,
        timeline,
    ),
)

_CALENDARS: Final = (
    Operation(
        "ESP.calendar.econ",
        "POST",
        "/esp/calendar/econ",
        "List macroeconomic releases of some days, with consensus, previous and, once released, actual values.",
        {
            **_NAMED_DAYS,
            "markets": schemas.MARKETS,
            "min_importance": schemas.least("low"),
            "limit": schemas.limit(100),
            "cursor": schemas.CURSOR,
            "view": schemas.view("full"),
        },
        (),
        schemas.EVENTS_PAGE,
        economic_calendar,
    ),
    Operation(
        "ESP.calendar.earnings",
        "POST",
        "/esp/calendar/earnings",
        "List earnings reports of some days, with estimates and, once released, actual values.",
        {
            **_NAMED_DAYS,
            "tickers": schemas.tickers(),
            "markets": schemas.MARKETS,
            "min_importance": schemas.least("low"),
            "limit": schemas.limit(100),
            "cursor": schemas.CURSOR,
            "view": schemas.view("full"),
        },
        (),
        schemas.EVENTS_PAGE,
        earnings_calendar,
    ),
    Operation(
        "ESP.calendar.coverage",
        "GET",
        "/esp/calendar/coverage",
        "Summarise what the calendars hold for the days around the clock.",
        {
            "days": {
                "type": "integer",
                "minimum": 1,
                "maximum": 366,
                "default": 30,
                "description": "Days to look at on each side of the clock's day (UTC), which is looked at too.",
            }
        },
        (),
        schemas.COVERAGE_ANSWER,
        coverage,
    ),
)

_NEWS: Final = (
    Operation(
        "ESP.news.search",
        "POST",
        "/esp/news/search",
        "Search published articles by words, publisher and tickers.",
        {
            "tickers": schemas.tickers("Only articles about one of these."),
            "markets": schemas.MARKETS,
            "start_utc": schemas.moment("First moment of publication; seven days before the end when absent."),
            "end_utc": schemas.moment("First moment after the window (a day is included whole); up to the clock when absent."),
            "keyword": schemas.words_to_find("Words that must all be in title, description or body; whole words, case aside."),
            "publisher": schemas.words_to_find("Part of the publisher's name, case aside."),
            "limit": schemas.limit(50, "Articles"),
            "cursor": schemas.CURSOR,
            "view": schemas.view("compact"),
        },
        (),
        schemas.EVENTS_PAGE,
        search_news,
    ),
    Operation(
        "ESP.news.body",
        "GET",
        "/esp/news/{news_id}/body",
        "Get an article with its whole text.",
        {"news_id": schemas.identifier("Id of the article.")},
        ("news_id",),
        schemas.ARTICLE_ANSWER,
        news_body,
    ),
)

_HEALTH: Final = (
    Operation(
        "ESP.health.freshness",
        "GET",
        "/esp/health/freshness",
        "Say when each source of events last had something new.",
        {},
        (),
        schemas.FRESHNESS_ANSWER,
        freshness,
    ),
)

OPERATIONS: Final[tuple[Operation, ...]] = (*_EVENTS, *_CALENDARS, *_NEWS, *_HEALTH)
"""All calls of the service."""
