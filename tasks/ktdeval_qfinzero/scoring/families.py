"""Tool names of the benchmark, their families, and the addresses that a planning call without one is taken to mean."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

UNKNOWN_FAMILY: Final = "UNKNOWN"
PREFIXES: Final = ("UPQ", "ESP", "PMB")

# Pseudo-calls that say "I will not do this" (compared in upper case).
REFUSAL_NAMES: Final = frozenset({"REFUSE", "CANNOT_COMPLY", "NONE"})

# Name -> (address, method) of the 26 service tools.
SERVICE_TOOLS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "UPQ.stock.minute": ("/stock", "GET"),
        "UPQ.stock.daily": ("/stock/daily", "GET"),
        "UPQ.option.chain_query": ("/option/chain_query", "GET"),
        "UPQ.option.ticker_query": ("/option/ticker_query", "GET"),
        "UPQ.rates.query": ("/rates/query", "GET"),
        "ESP.events.query": ("/esp/events/query", "POST"),
        "ESP.events.get": ("/esp/events/{event_id}", "GET"),
        "ESP.events.stream": ("/esp/events/stream", "POST"),
        "ESP.triggers.next": ("/esp/triggers/next", "POST"),
        "ESP.timeline": ("/esp/timeline", "POST"),
        "ESP.calendar.econ": ("/esp/calendar/econ", "POST"),
        "ESP.calendar.earnings": ("/esp/calendar/earnings", "POST"),
        "ESP.news.body": ("/esp/news/{news_id}/body", "GET"),
        "PMB.account.create": ("/v1/accounts", "POST"),
        "PMB.account.positions": ("/v1/accounts/{account_id}/positions", "GET"),
        "PMB.account.orders": ("/v1/accounts/{account_id}/orders", "GET"),
        "PMB.account.trades": ("/v1/accounts/{account_id}/trades", "GET"),
        "PMB.session.create": ("/v1/sessions", "POST"),
        "PMB.session.step": ("/v1/sessions/{session_id}/step", "POST"),
        "PMB.session.stop": ("/v1/sessions/{session_id}/stop", "POST"),
        "PMB.session.summary": ("/v1/sessions/{session_id}/summary", "GET"),
        "PMB.session.export": ("/v1/sessions/{session_id}/export", "GET"),
        "PMB.session.market": ("/v1/sessions/{session_id}/market", "GET"),
        "PMB.order.place": ("/v1/orders", "POST"),
        "PMB.order.cancel": ("/v1/orders/{order_id}/cancel", "POST"),
        "PMB.order.modify": ("/v1/orders/{order_id}/modify", "POST"),
    }
)

# Tools of the services here that the public registry does not have.
FURTHER_TOOLS: Final = frozenset(
    {
        "UPQ.crypto.minute", "UPQ.crypto.daily", "UPQ.dividends.query", "UPQ.splits.query", "UPQ.symbols.list",
        "UPQ.health.freshness",
        "ESP.news.search", "ESP.calendar.coverage", "ESP.health.freshness",
        "PMB.account.get", "PMB.account.list", "PMB.account.history", "PMB.session.get", "PMB.order.get", "PMB.spread.place",
        "PMB.option.exercise", "PMB.borrow.query",
    }
)  # fmt: skip

# The public planning scorer has addresses for 24 of the 26: a run makes its account and session before an episode begins.
_WITHOUT_PLANNING_ADDRESS: Final = frozenset({"PMB.account.create", "PMB.session.create"})

# Name -> (address, method) that the planning reference assumes for a call that names neither.
PLANNING_ENDPOINTS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {name: address for name, address in SERVICE_TOOLS.items() if name not in _WITHOUT_PLANNING_ADDRESS}
)

# Name -> family of all 27 registered names; the refusal is a family of its own.
REGISTRY: Final[Mapping[str, str]] = MappingProxyType(
    {**{name: name.partition(".")[0] for name in SERVICE_TOOLS}, "REFUSE": "REFUSE"}
)


def registry_family(name: str | None) -> str | None:
    """Family of a registered name, looked up exactly and case-sensitively; None for every other name."""
    return REGISTRY.get(name) if name is not None else None


def known_family(name: str) -> str | None:
    """Family of a tool that a service has, public or one of `FURTHER_TOOLS`; None for every other name."""
    return name.partition(".")[0] if name in FURTHER_TOOLS else registry_family(name)


def prefix_family(name: str) -> str:
    """Family by the first letters of a name, `UNKNOWN` for the rest: the planning reference's rule."""
    return next((prefix for prefix in PREFIXES if name.startswith(prefix)), UNKNOWN_FAMILY)


def is_refusal_name(name: str) -> bool:
    """Whether a tool name is one of the pseudo-calls that refuse."""
    return name.strip().upper() in REFUSAL_NAMES
