"""Operations of ESP."""

from __future__ import annotations

from ktdeval_qfinzero.esp.health import coverage, freshness
from ktdeval_qfinzero.esp.outlook import next_triggers, timeline
from ktdeval_qfinzero.esp.queries import earnings_calendar, economic_calendar, get_event, news_body, query_events, search_news
from ktdeval_qfinzero.esp.stream import stream_events
from ktdeval_qfinzero.esp.types import EventAnswer
from ktdeval_qfinzero.operations import Operation, query

OPERATIONS: tuple[Operation, ...] = (
    query("ESP.events.query", "POST", "/esp/events/query", query_events),
    query("ESP.events.get", "GET", "/esp/events/{event_id}", get_event, EventAnswer),
    query("ESP.events.stream", "POST", "/esp/events/stream", stream_events),
    query("ESP.triggers.next", "POST", "/esp/triggers/next", next_triggers),
    query("ESP.timeline", "POST", "/esp/timeline", timeline),
    query("ESP.calendar.econ", "POST", "/esp/calendar/econ", economic_calendar),
    query("ESP.calendar.earnings", "POST", "/esp/calendar/earnings", earnings_calendar),
    query("ESP.calendar.coverage", "GET", "/esp/calendar/coverage", coverage),
    query("ESP.news.search", "POST", "/esp/news/search", search_news),
    query("ESP.news.body", "GET", "/esp/news/{news_id}/body", news_body),
    query("ESP.health.freshness", "GET", "/esp/health/freshness", freshness),
)  #: All of them, in the order in which models see them
