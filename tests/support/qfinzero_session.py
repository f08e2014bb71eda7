"""A trading session on a market made by hand: an account, a session of days or minutes, and what became of orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from ktdeval_qfinzero.data.rows import BarKey, Bars, BorrowRow, ContractRow, DividendRow, SplitRow, SymbolRow
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.moments import day_start, moment_text
from ktdeval_qfinzero.pmb.events import Event
from ktdeval_qfinzero.pmb.margin import MarginState, margin_state
from ktdeval_qfinzero.pmb.values import Instrument, Order
from ktdeval_qfinzero.trading_hours import trading_hours
from qfinzero_broker_play import EARLY, FREE, Play, table
from qfinzero_memory import MemoryPrices
from qfinzero_world import small_dataset

Price = float | tuple[float, float]
"""A bar's open and close, or one price that does not move."""


def trading_days(first: date, count: int) -> list[date]:
    hours = trading_hours()
    row = hours.row_of(first)
    assert row is not None
    return [hours.day(row + step) for step in range(count)]


def bars(starts: Sequence[int], prices: Sequence[Price]) -> Bars:
    pairs = [price if isinstance(price, tuple) else (price, price) for price in prices]
    return table(starts, [(open_, max(open_, close), min(open_, close), close, 1e9) for open_, close in pairs])


@dataclass
class Market:
    """Prices of days from a first one on, by ticker or OPRA symbol; minutes as (starts, prices); the session begins a day later."""

    first: date = date(2025, 1, 3)
    days: dict[str, list[Price | None]] = field(default_factory=dict)
    minutes: dict[str, tuple[list[int], list[Price]]] = field(default_factory=dict)
    dividends: list[DividendRow] = field(default_factory=list)
    splits: list[SplitRow] = field(default_factory=list)
    borrow: list[BorrowRow] = field(default_factory=list)
    listed: list[OptionContract] = field(default_factory=list)

    def prices(self) -> MemoryPrices:
        found: dict[BarKey, Bars] = {}
        for symbol, values in self.days.items():
            dates = trading_days(self.first, len(values))
            known = [(day_start(day), value) for day, value in zip(dates, values, strict=True) if value is not None]
            found[self._kind(symbol), symbol, "day"] = bars([start for start, _ in known], [value for _, value in known])
        for symbol, (starts, minute_values) in self.minutes.items():
            found[self._kind(symbol), symbol, "minute"] = bars(starts, minute_values)
        stocks = sorted({symbol for asset_class, symbol, _ in found if asset_class == "stock"})
        rows = [SymbolRow(symbol, "stock", symbol, "technology", EARLY) for symbol in stocks]
        terms = [ContractRow(each.symbol, each.underlying, each.expiry, each.strike_e4, each.right, EARLY) for each in self.listed]
        return MemoryPrices(found, rows, terms, (), self.dividends, self.splits, self.borrow)

    @staticmethod
    def _kind(symbol: str) -> Any:
        return "option" if symbol.startswith("O:") else "stock"


class TradingSession(Play):
    """One account and one session of some days on a market, all of which is its universe by default.

    `config` is put on top of rules without costs.
    """

    def __init__(
        self,
        market: Market,
        cash: float = 100_000,
        type: str = "MARGIN",
        days: int = 10,
        config: dict[str, Any] | None = None,
        **session: Any,
    ) -> None:
        dates, dataset = trading_days(market.first, days + 1), small_dataset()
        span = {"first_day": dates[0], "last_day": dates[-1], "minute_first_day": dates[0], "minute_last_day": dates[-1]}
        start = trading_hours().close_of(dates[0])
        dataset = replace(dataset, info=replace(dataset.info, **span, default_as_of_ns=start), prices=market.prices())
        rules = {name: {**FREE.get(name, {}), **(config or {}).get(name, {})} for name in ("fees", "fills", "margin")}
        asked = {"frequency": "1d", "start_ts": dates[1].isoformat(), "end_ts": dates[-1].isoformat(), **session}
        super().__init__(dataset, cash, type, rules, start=moment_text(start), **asked)

    @property
    def cash(self) -> float:
        return self.account.cash_e4 / 10_000

    @property
    def equity(self) -> float:
        return self.margin.equity_e4 / 10_000

    @property
    def margin(self) -> MarginState:
        return margin_state(self.account, self.broker.engine.marks(), self.state.sessions[self.session_id].rules)

    def qty(self, instrument: Instrument) -> int:
        return self.held(instrument.symbol)

    def send(self, side: str, qty: int, instrument: Instrument, **more: Any) -> Order:
        """Place an order, at the market unless there is a limit_price."""
        order_type = "LIMIT" if "limit_price" in more else "MARKET"
        return self.order(side, order_type, qty, instrument.symbol, **{"time_in_force": "GTC", **more})

    def events(self, type: str) -> list[Event]:
        """All events of a type so far."""
        return [event for event in self.broker.log.events(after=0) if event.type == type]
