"""A trading session on a market made by hand: an account, a session of days or minutes, and what became of orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np

from ktdeval_qfinzero.data.rows import BarKey, Bars, BorrowRow, ContractRow, DividendRow, SplitRow, SymbolRow
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.moments import day_start
from ktdeval_qfinzero.pmb.events import Event
from ktdeval_qfinzero.pmb.margin import MarginState, margin_state
from ktdeval_qfinzero.pmb.values import Account, Instrument, Order
from ktdeval_qfinzero.trading_hours import trading_hours
from ktdeval_qfinzero.workspace import Workspace
from qfinzero_margin import e4, ids_for
from qfinzero_memory import MemoryPrices
from qfinzero_world import at, small_dataset

FREE: dict[str, Any] = {
    "fees": {"stock_per_share_e4": 0, "option_per_contract_e4": 0},
    "fills": {"slippage_bps": 0, "option_spread_bps": 0, "max_volume_pct": 100},
}
"""No costs, so that amounts can be worked out in the head."""
Price = float | tuple[float, float]


def trading_days(first: date, count: int) -> list[date]:
    hours = trading_hours()
    row = hours.row_of(first)
    assert row is not None
    return [hours.day(row + step) for step in range(count)]


def bars(starts: Sequence[int], prices: Sequence[Price]) -> Bars:
    """Bars of (open, close), or of one price that does not move."""
    pairs = [price if isinstance(price, tuple) else (price, price) for price in prices]
    open_, close = (np.array([e4(pair[side]) for pair in pairs], np.int64) for side in (0, 1))
    count = len(pairs)
    return Bars(
        np.array(starts, np.int64), open_, np.maximum(open_, close), np.minimum(open_, close), close,
        np.full(count, 1e9), np.ones(count, np.int64),
    )  # fmt: skip


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
        table: dict[BarKey, Bars] = {}
        for symbol, values in self.days.items():
            dates = trading_days(self.first, len(values))
            known = [(day_start(day), value) for day, value in zip(dates, values, strict=True) if value is not None]
            table[self._kind(symbol), symbol, "day"] = bars([start for start, _ in known], [value for _, value in known])
        for symbol, (starts, minute_values) in self.minutes.items():
            table[self._kind(symbol), symbol, "minute"] = bars(starts, minute_values)
        early = at("2024-12-01T00:00:00Z")
        stocks = sorted({symbol for asset_class, symbol, _ in table if asset_class == "stock"})
        return MemoryPrices(
            table,
            [SymbolRow(symbol, "stock", symbol, "technology", early) for symbol in stocks],
            [ContractRow(each.symbol, each.underlying, each.expiry, each.strike_e4, each.right, early) for each in self.listed],
            (),
            self.dividends,
            self.splits,
            self.borrow,
        )

    @staticmethod
    def _kind(symbol: str) -> Any:
        return "option" if symbol.startswith("O:") else "stock"


class TradingSession:
    """One account and one session on a market.

    Args:
        market: prices.
        cash, type: of the account.
        days: length of the session.
        config: execution_config on top of `FREE`.
        frequency, universe: of the session; by default all that the market has.
    """

    def __init__(
        self,
        market: Market,
        cash: float = 100_000,
        type: str = "MARGIN",
        days: int = 10,
        config: dict[str, Any] | None = None,
        frequency: str = "1d",
        universe: dict[str, list[str]] | None = None,
    ) -> None:
        dates = trading_days(market.first, days + 1)
        dataset = small_dataset()
        info = replace(dataset.info, first_day=dates[0], last_day=dates[-1], default_as_of_ns=trading_hours().close_of(dates[0]))
        info = replace(info, minute_first_day=dates[0], minute_last_day=dates[-1])
        self.workspace = Workspace(replace(dataset, info=info, prices=market.prices()))
        self.broker = self.workspace.broker
        self.seen: list[Event] = []
        self.account_id = self._run("account.create", account_type=type, initial_cash=cash).id
        symbols = sorted({*market.days, *market.minutes})
        universe = universe or {
            "stocks": [symbol for symbol in symbols if not symbol.startswith("O:")],
            "options": [each.symbol for each in market.listed],
        }
        self.session_id = self._run(
            "session.create",
            account_id=self.account_id,
            frequency=frequency,
            start_ts=dates[1].isoformat(),
            end_ts=dates[-1].isoformat(),
            universe=universe,
            execution_config={name: {**FREE.get(name, {}), **(config or {}).get(name, {})} for name in ("fees", "fills", "margin")},
        ).id

    @property
    def account(self) -> Account:
        return self.broker.state.accounts[self.account_id]

    @property
    def cash(self) -> float:
        return self.account.cash_e4 / 10_000

    @property
    def equity(self) -> float:
        return self.state.equity_e4 / 10_000

    @property
    def state(self) -> MarginState:
        rules = self.broker.state.sessions[self.session_id].rules
        return margin_state(self.account, self.broker.engine.marks(), rules)

    def qty(self, instrument: Instrument) -> int:
        position = self.account.positions.get(instrument.id)
        return 0 if position is None else position.qty

    def order(self, side: str, qty: int, instrument: Instrument, **more: Any) -> Order:
        """Place an order, at the market unless there is a limit_price."""
        name = "symbol" if instrument.kind == "STOCK" else "contract"
        order = {
            "instrument": {"type": instrument.kind, name: instrument.symbol},
            "side": side,
            "order_type": "LIMIT" if "limit_price" in more else "MARKET",
            "qty": qty,
            "time_in_force": "GTC",
            **more,
        }
        return self.broker.state.orders[self.call("order.place", order=order).id]

    def spread(self, *legs: tuple[str, Instrument], qty: int = 1) -> Order:
        """Place a spread at the market."""
        wanted = [{"instrument": {"type": "OPTION", "contract": leg.symbol}, "side": side, "ratio": 1} for side, leg in legs]
        return self.broker.state.orders[self.call("spread.place", legs=wanted, qty=qty).id]

    def call(self, command: str, **given: Any) -> Any:
        return self._run(command, **ids_for(command, self.session_id, self.account_id), **given)

    def step(self, ticks: int = 1) -> list[Event]:
        """Let ticks pass; what happened."""
        found = list(self.broker.step(self.session_id, ticks))
        self.seen.extend(found)
        return found

    def until(self, text: str) -> None:
        self._run("session.step", session_id=self.session_id, until_ts=text)

    def events(self, type: str) -> list[Event]:
        """All events of a type so far."""
        return [event for event in self.broker.log.events(after=0) if event.type == type]

    def _run(self, command: str, **given: Any) -> Any:
        return self.broker.execute(command, given)
