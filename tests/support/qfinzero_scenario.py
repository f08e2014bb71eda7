"""One client's day: every operation of the services at least once, with arguments that they accept, each using what came before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

Call = tuple[str, dict[str, Any]]
Scenario = Generator[Call, dict[str, Any], None]
Played = list[tuple[str, dict[str, Any], dict[str, Any]]]

CONTRACT, FARTHER = "O:AVLN250117C00100000", "O:AVLN250117C00105000"
DAYS = {"start": "2025-01-02", "end": "2025-01-06"}
MINUTES = {"start": "2025-01-06T14:30:00Z", "end": "2025-01-06T14:40:00Z"}


def prices() -> Scenario:
    yield "UPQ.health.freshness", {}
    yield "UPQ.symbols.list", {"limit": 2}
    yield "UPQ.stock.daily", {"tickers": "AVLN,NONE", **DAYS, "indicators": "ma_2,macd", "adjust": "total"}
    yield "UPQ.stock.minute", {"tickers": "AVLN,CSTL", **MINUTES, "limit": 15}
    yield "UPQ.crypto.daily", {"tickers": "BTCX", **DAYS}
    yield "UPQ.crypto.minute", {"tickers": "BTCX", **MINUTES}
    yield "UPQ.option.chain_query", {"underlying": "AVLN", "date": "2025-01-06", "type": "C", "include_greeks": True, "limit": 5}
    yield "UPQ.option.ticker_query", {"contract": CONTRACT, **DAYS, "include_greeks": True}
    yield "UPQ.rates.query", {**DAYS, "tenors": "3M,10Y"}
    yield "UPQ.dividends.query", {"tickers": "AVLN", "start": "2025-01-01", "end": "2025-02-01"}
    yield "UPQ.splits.query", {"tickers": "CSTL", "start": "2025-01-01", "end": "2025-02-01"}


def events() -> Scenario:
    yield "ESP.health.freshness", {}
    yield "ESP.calendar.coverage", {}
    found = yield "ESP.events.query", {"mode": "just_happened", "horizon_minutes": 1440, "event_types": ["breaking_news"]}
    event_id = found["events"][0]["event_id"]
    yield "ESP.events.get", {"event_id": event_id}
    yield "ESP.news.body", {"news_id": event_id}
    yield "ESP.events.stream", {"tickers": ["BRKT"], "limit": 1}
    yield "ESP.triggers.next", {"tickers": ["BRKT"], "horizon_minutes": 10_000}
    yield "ESP.timeline", {"bucket_minutes": 120}
    yield "ESP.calendar.econ", {"start_date": "2025-01-06", "end_date": "2025-01-17"}
    yield "ESP.calendar.earnings", {"start_date": "2025-01-06", "end_date": "2025-01-31", "min_importance": "high"}
    yield "ESP.news.search", {"keyword": "guidance"}


def trading() -> Scenario:
    yield "PMB.borrow.query", {"tickers": "AVLN,CSTL"}
    opened = yield "PMB.account.create", {"initial_cash": 500_000, "account_type": "MARGIN"}
    account = {"account_id": opened["account_id"]}
    yield "PMB.account.list", {}
    yield "PMB.account.get", account
    universe = {"stocks": ["AVLN", "BRKT"], "options": [CONTRACT, FARTHER]}
    span = {"start_ts": "2025-01-07", "end_ts": "2025-01-10", "frequency": "1d"}
    begun = yield (
        "PMB.session.create",
        {**account, **span, "universe": universe, "execution_config": {"fills": {"max_volume_pct": 20}}},
    )
    session = {"session_id": begun["session_id"]}
    both = {**session, **account}
    yield "PMB.session.get", session
    buy = {"instrument": {"type": "STOCK", "symbol": "AVLN"}, "side": "BUY", "order_type": "MARKET", "qty": 100}
    placed = yield "PMB.order.place", {**both, "order": buy, "client_order_id": "first"}
    yield "PMB.order.get", {"order_id": placed["order_id"]}
    low = {**buy, "order_type": "LIMIT", "limit_price": 60.0, "time_in_force": "GTC", "qty": 10}
    resting = yield "PMB.order.place", {**both, "order": low}
    changed = yield "PMB.order.modify", {**both, "order_id": resting["order_id"], "updates": {"qty": 5}}
    yield "PMB.order.cancel", {**both, "order_id": changed["new_order_id"]}
    yield "PMB.session.step", {**session, "step": 1}
    option = {"instrument": {"type": "OPTION", "contract": CONTRACT}, "side": "BUY", "order_type": "MARKET", "qty": 2}
    yield "PMB.order.place", {**both, "order": option}
    other = {"type": "OPTION", "contract": FARTHER}
    legs = [{"instrument": option["instrument"], "side": "BUY"}, {"instrument": other, "side": "SELL"}]
    yield "PMB.spread.place", {**both, "legs": legs, "qty": 1}
    yield "PMB.session.step", {**session, "step": 1}
    yield "PMB.session.market", session
    yield "PMB.account.positions", account
    yield "PMB.account.orders", {**account, **session}
    yield "PMB.account.trades", {**account, "limit": 1}
    yield "PMB.option.exercise", {**both, "contract": CONTRACT, "qty": 1}
    yield "PMB.session.step", {**session, "until_ts": "2025-01-10T12:00:00Z"}
    yield "PMB.account.history", account
    yield "PMB.session.summary", session
    yield "PMB.session.export", {**session, "format": "json"}
    yield "PMB.session.stop", session


def day() -> Scenario:
    """Everything, in order."""
    yield from prices()
    yield from events()
    yield from trading()


def played(scenario: Scenario, call: Callable[[str, dict[str, Any]], dict[str, Any]]) -> Played:
    """Calls of a scenario with their answers."""
    told: Played = []
    name, arguments = next(scenario)
    while True:
        answer = call(name, arguments)
        told.append((name, arguments, answer))
        try:
            name, arguments = scenario.send(answer)
        except StopIteration:
            return told


async def played_async(scenario: Scenario, call: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]) -> Played:
    """The same with a client that is awaited."""
    told: Played = []
    name, arguments = next(scenario)
    while True:
        answer = await call(name, arguments)
        told.append((name, arguments, answer))
        try:
            name, arguments = scenario.send(answer)
        except StopIteration:
            return told
