"""A broker on bars written by hand: minutes from the open of Monday 2025-01-06, as (open, high,
low, close, volume) in dollars, or days from a first one on, as one price or (open, close).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from ktdeval.values import dumps_canonical, sha256_hex
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import BarKey, Bars, BorrowRow, ContractRow, SymbolRow
from ktdeval_qfinzero.instruments import read_contract
from ktdeval_qfinzero.pmb.broker_types import Account, Instrument, Order
from ktdeval_qfinzero.pmb.margin import MarginState, margin_state
from ktdeval_qfinzero.pmb.state_events import BrokerEvent, BrokerState
from ktdeval_qfinzero.timestamps import MINUTE, day_start, moment_text
from ktdeval_qfinzero.trading_hours import trading_hours
from support.qfinzero.qfinzero_calls import ask
from support.qfinzero.qfinzero_margin import ids_for
from support.qfinzero.qfinzero_memory import MemoryPrices
from support.qfinzero.qfinzero_world import at, small_dataset

OPEN = at("2025-01-06T14:30:00Z")
EARLY = at("2024-12-01T00:00:00Z")
Row = tuple[float, float, float, float, float]
FLAT: Row = (100.0, 100.0, 100.0, 100.0, 1_000_000)
FRIDAY = date(2025, 1, 3)
Price = float | tuple[float, float] | Row
FREE: dict[str, Any] = {
    "fees": {"stock_per_share_e4": 0, "option_per_contract_e4": 0},
    "fills": {"slippage_bps": 0, "option_spread_bps": 0, "max_volume_pct": 100},
}
"""No costs and all of the volume, so that amounts can be worked out in the head."""


def with_rules(config: Mapping[str, Any]) -> dict[str, Any]:
    """Rules on top of those that cost nothing."""
    return {
        name: {**FREE.get(name, {}), **config.get(name, {})} for name in ("fees", "fills", "margin")
    }


def table(start_ns: Sequence[int], rows: Sequence[Row]) -> Bars:
    """Bars of rows in dollars."""
    columns = np.array(rows, np.float64).reshape(-1, 5)
    prices = np.round(columns[:, :4] * 10_000).astype(np.int64)
    starts = np.array(start_ns, np.int64)

    return Bars(starts, *prices.T, columns[:, 4], np.ones(len(starts), np.int64))


def minutes(rows: Sequence[Row | None], start_ns: int = OPEN) -> Bars:
    """Bars of successive minutes; None for a minute without a bar."""
    known = [(start_ns + index * MINUTE, row) for index, row in enumerate(rows) if row is not None]
    return table([start for start, _ in known], [row for _, row in known])


def by_day(prices: Sequence[Price | None], first: date = FRIDAY) -> Bars:
    """Bars of successive trading days that everybody trades in; None for a day without a bar."""
    dates = trading_days(first, len(prices))
    known = [
        (day_start(day), price)
        for day, price in zip(dates, prices, strict=True)
        if price is not None
    ]

    return at_prices([start for start, _ in known], [price for _, price in known])


def at_prices(start_ns: Sequence[int], prices: Sequence[Price]) -> Bars:
    return table(start_ns, list(map(row_of, prices)))


def row_of(price: Price) -> Row:
    """Return a liquid bar at a price, or from open to close; a whole row as it is."""
    match price:
        case (_, _, _, _, _):
            return price
        case (opens, closes):
            return (opens, max(opens, closes), min(opens, closes), closes, 1e9)
    return (price, price, price, price, 1e9)


def trading_days(first: date, count: int) -> list[date]:
    hours = trading_hours()
    row = hours.row_of(first)
    assert row is not None
    return [hours.day(row + step) for step in range(count)]


def market(bars: Mapping[str, Bars], resolution: str = "minute", **more: Any) -> Dataset:
    """A market of bars by ticker or OPRA symbol; all stocks can be borrowed."""
    keys = {symbol: "option" if symbol.startswith("O:") else "stock" for symbol in bars}
    bar_table: dict[BarKey, Bars] = {
        (keys[symbol], symbol, resolution): series for symbol, series in bars.items()
    }  # type: ignore[misc]
    stocks = [symbol for symbol, kind in keys.items() if kind == "stock"]
    terms = [contract for symbol in bars if (contract := read_contract(symbol)) is not None]
    small = small_dataset()
    prices = MemoryPrices(
        bar_table,
        [SymbolRow(symbol, "stock", symbol, "technology", EARLY) for symbol in stocks],
        [
            ContractRow(
                each.symbol, each.underlying, each.expiry, each.strike_e4, each.right, EARLY
            )
            for each in terms
        ],
        borrow_rows=[BorrowRow(symbol, EARLY, 1_000_000_000, 0) for symbol in stocks],
    )
    info = replace(small.info, minute_last_day=date(2025, 2, 28))

    return replace(small, info=info, prices=replace(prices, **more))


class Play:
    """One account with one session, on a market, or on rows of AVLN's minutes; without costs by
    default.

    `session` holds other arguments of the session.
    """

    def __init__(
        self,
        dataset: Dataset | Sequence[Row | None],
        cash: float = 1_000_000,
        account_type: str = "MARGIN",
        config: Mapping[str, Any] = FREE,
        start: str = "2025-01-06T14:30:00Z",
        **session: Any,
    ) -> None:
        self.dataset = (
            dataset if isinstance(dataset, Dataset) else market({"AVLN": minutes(dataset)})
        )
        self.workspace = Workspace(self.dataset, at(start))
        self.broker = self.workspace.broker
        self.account_id = self.broker.execute(
            "account.create", {"account_type": account_type, "initial_cash": cash}
        ).id

        assert isinstance(self.dataset.prices, MemoryPrices)

        symbols = [key[1] for key in self.dataset.prices.bar_table if key[0] != "crypto"]
        universe = {
            "stocks": sorted({symbol for symbol in symbols if not symbol.startswith("O:")}),
            "options": sorted({symbol for symbol in symbols if symbol.startswith("O:")}),
        }
        self.begin(
            start,
            "2025-01-10",
            **{"execution_config": dict(config), "universe": universe, **session},
        )

    def begin(self, start: str, end: str, **session: Any) -> None:
        """Begin a session of the account: of AVLN's minutes, unless it is said otherwise."""
        usual = {
            "account_id": self.account_id,
            "frequency": "1m",
            "start_ts": start,
            "end_ts": end,
            "universe": {"stocks": ["AVLN"]},
        }
        self.session_id = self.broker.execute("session.create", {**usual, **session}).id

    @property
    def state(self) -> BrokerState:
        return self.broker.state

    @property
    def account(self) -> Account:
        return self.state.accounts[self.account_id]

    def call(self, command: str, **given: Any) -> Any:
        return self.broker.execute(
            command, {**ids_for(command, self.session_id, self.account_id), **given}
        )

    def ask(self, name: str, **given: Any) -> None:
        """Call an operation about the account or its session, whose answer is `answer`."""
        ids = {"account_id": self.account_id, "session_id": self.session_id}
        takes = catalogue().find(name).takes.__struct_fields__
        own = {key: value for key, value in ids.items() if key in takes}
        self.answer = ask(self.workspace, name, **own, **given)

    def order(
        self, side: str, order_type: str, qty: int = 100, symbol: str = "AVLN", **more: Any
    ) -> Order:
        """Place an order; prices as limit_price and stop_price."""
        client = (
            {"client_order_id": more.pop("client_order_id")} if "client_order_id" in more else {}
        )
        order = {
            "instrument": thing(symbol),
            "side": side,
            "order_type": order_type,
            "qty": qty,
            **more,
        }

        return self.state.orders[self.call("order.place", order=order, **client).id]

    def spread(self, *legs: tuple[str, str, int], qty: int = 1, **more: Any) -> list[Order]:
        """Place a spread of (side, symbol, ratio)."""
        asked = [
            {"side": side, "instrument": thing(symbol), "ratio": ratio}
            for side, symbol, ratio in legs
        ]
        first = self.state.orders[self.call("spread.place", legs=asked, qty=qty, **more).id]

        return list(self.broker.engine.legs_of(first))

    def step(self, ticks: int = 1) -> tuple[BrokerEvent, ...]:
        return self.call("session.step", step=ticks).events

    def until(self, text: str) -> tuple[BrokerEvent, ...]:
        last = len(self.broker.log.entries)
        self.broker.execute("session.step", {"session_id": self.session_id, "until_ts": text})
        return tuple(self.broker.log.events(after=last))

    def prices(self) -> list[float]:
        """Prices of all trades so far, in dollars."""
        return [trade.price_e4 / 10_000 for trade in self.state.trades]

    @property
    def cash(self) -> float:
        return self.account.cash_e4 / 10_000

    @property
    def margin(self) -> MarginState:
        return margin_state(
            self.account, self.broker.engine.marks(), self.state.sessions[self.session_id].rules
        )

    @property
    def equity(self) -> float:
        return self.margin.equity_e4 / 10_000

    def send(self, side: str, qty: int, instrument: Instrument, **more: Any) -> Order:
        """Place an order until it is cancelled, at the market unless there is a limit_price."""
        kind = "LIMIT" if "limit_price" in more else "MARKET"
        return self.order(side, kind, qty, instrument.symbol, **{"time_in_force": "GTC", **more})

    def events(self, type: str) -> list[BrokerEvent]:
        """All events of a type so far."""
        return [event for event in self.broker.log.events(after=0) if event.type == type]

    def held(self, what: str | Instrument = "AVLN") -> int:
        symbol = what if isinstance(what, str) else what.symbol
        kind = "OPTION" if symbol.startswith("O:") else "STOCK"
        position = self.account.positions.get(f"{kind}:{symbol}")
        return 0 if position is None else position.qty


def begun(*rows: Row | None, **more: Any) -> Play:
    """A session of minutes, the first of which has passed at a price of 100."""
    play = Play([FLAT, *rows], **more)
    play.step()
    return play


def daily(bars: Mapping[str, Bars], **more: Any) -> Play:
    """A session of days that begins on Monday 2025-01-06."""
    return Play(
        market(bars, "day", **more),
        frequency="1d",
        start="2025-01-06T00:00:00Z",
        end_ts="2025-01-15",
    )


def by_days(
    prices: Mapping[str, Sequence[Price | None]],
    cash: float = 100_000,
    type: str = "MARGIN",
    days: int = 10,
    config: Mapping[str, Any] | None = None,
    minutes: Mapping[str, tuple[Sequence[int], Sequence[Price]]] | None = None,
    first: date = FRIDAY,
    **more: Any,
) -> Play:
    """A session of some days, the day after the first price of each ticker; `minutes` as (starts,
    prices).

    `config` is put on top of rules without costs; `more` are rows of the market (`borrow_rows`),
    and arguments of the session.
    """
    rows = {name: more.pop(name) for name in tuple(more) if name.endswith("_rows")}
    made = market(
        {symbol: by_day(values, first) for symbol, values in prices.items()}, "day", **rows
    )

    assert isinstance(made.prices, MemoryPrices)

    for symbol, (starts, values) in (minutes or {}).items():
        made.prices.bar_table[
            "option" if symbol.startswith("O:") else "stock", symbol, "minute"
        ] = at_prices(starts, values)  # type: ignore[index]

    dates = trading_days(first, days + 1)
    start = trading_hours().close_of(dates[0])
    span = {
        "first_day": dates[0],
        "last_day": dates[-1],
        "minute_first_day": dates[0],
        "minute_last_day": dates[-1],
    }
    dataset = replace(made, info=replace(made.info, **span, default_as_of_ns=start))
    asked = {
        "frequency": "1d",
        "start_ts": dates[1].isoformat(),
        "end_ts": dates[-1].isoformat(),
        **more,
    }

    return Play(dataset, cash, type, with_rules(config or {}), start=moment_text(start), **asked)


def thing(symbol: str) -> dict[str, str]:
    """An instrument as calls name it."""
    return (
        {"type": "OPTION", "contract": symbol}
        if symbol.startswith("O:")
        else {"type": "STOCK", "symbol": symbol}
    )


def types(events: Sequence[BrokerEvent]) -> list[str]:
    """Types of events, without those of the clock."""
    return [event.type for event in events if event.type != "CLOCK_MOVED"]


def chained(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of a log with their hashes made anew, as by who has changed some."""
    last = "0" * 64
    lines = []

    for each in records:
        plain = {name: value for name, value in each.items() if name != "hash"}
        last = sha256_hex(last + dumps_canonical(plain))
        lines.append(dumps_canonical({**plain, "hash": last}))

    return lines
