"""All operations of the three services. HTTP routes, MCP tools and in-process tools are generated
from this catalogue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Protocol

from ktdeval.harness import Refusal, Tool, json_tool
from ktdeval.masking import Exact
from ktdeval.values import JsonValue
from ktdeval_qfinzero.broker_operations import OPERATIONS as PMB
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.esp.queries import (
    coverage,
    earnings_calendar,
    economic_calendar,
    freshness as events_freshness,
    get_event,
    news_body,
    next_triggers,
    query_events,
    search_news,
    stream_events,
    timeline,
)
from ktdeval_qfinzero.operations import Catalogue, Operation, query
from ktdeval_qfinzero.upq.bars import crypto_daily, crypto_minute, stock_daily, stock_minute
from ktdeval_qfinzero.upq.options import chain_query, ticker_query
from ktdeval_qfinzero.upq.reference import (
    dividends_query,
    freshness,
    rates_query,
    splits_query,
    symbols_list,
)

UPQ: tuple[Operation, ...] = (
    query("UPQ.stock.minute", "/stock", stock_minute),
    query("UPQ.stock.daily", "/stock/daily", stock_daily),
    query("UPQ.crypto.minute", "/crypto", crypto_minute),
    query("UPQ.crypto.daily", "/crypto/daily", crypto_daily),
    query("UPQ.option.chain_query", "/option/chain_query", chain_query),
    query("UPQ.option.ticker_query", "/option/ticker_query", ticker_query),
    query("UPQ.rates.query", "/rates/query", rates_query),
    query("UPQ.dividends.query", "/dividends/query", dividends_query),
    query("UPQ.splits.query", "/splits/query", splits_query),
    query("UPQ.symbols.list", "/symbols", symbols_list),
    query("UPQ.health.freshness", "/health/freshness", freshness),
)
ESP: tuple[Operation, ...] = (
    query("ESP.events.query", "/esp/events/query", query_events, "POST"),
    query("ESP.events.get", "/esp/events/{event_id}", get_event),
    query("ESP.events.stream", "/esp/events/stream", stream_events, "POST"),
    query("ESP.triggers.next", "/esp/triggers/next", next_triggers, "POST"),
    query("ESP.timeline", "/esp/timeline", timeline, "POST"),
    query("ESP.calendar.econ", "/esp/calendar/econ", economic_calendar, "POST"),
    query("ESP.calendar.earnings", "/esp/calendar/earnings", earnings_calendar, "POST"),
    query("ESP.calendar.coverage", "/esp/calendar/coverage", coverage),
    query("ESP.news.search", "/esp/news/search", search_news, "POST"),
    query("ESP.news.body", "/esp/news/{news_id}/body", news_body),
    query("ESP.health.freshness", "/esp/health/freshness", events_freshness),
)  #: Operations of each family, in the order in which models see them


class HasWorkspace(Protocol):
    """Context with which a tool's function is called."""

    @property
    def workspace(self) -> Workspace:
        """Workspace on which the call acts."""


@cache
def catalogue() -> Catalogue:
    """Return the operations of UPQ, ESP and PMB."""
    return Catalogue((*UPQ, *ESP, *PMB))


def answer_call(
    operation: Operation, context: HasWorkspace, arguments: JsonValue
) -> Exact | Refusal:
    """Call an operation as a tool. Return its answer or a refusal, which contains the error
    envelope and is counted by error code.
    """
    try:
        return Exact(operation.call(context.workspace, arguments))
    except ServiceError as error:
        return Refusal(
            Exact(error.to_json()),
            "bad_arguments" if error.code == "invalid_argument" else error.code,
        )


def service_tools(function: Callable[[Operation, Any, Any], Any] = answer_call) -> tuple[Tool, ...]:
    """Return each operation as a tool of a task.

    `function`: (operation, context with a `workspace`, arguments) -> result.
    """
    operations = catalogue().operations
    return tuple(
        json_tool(each.wire_name, each.summary, each.parameters, partial(function, each))
        for each in operations
    )
