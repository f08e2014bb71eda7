"""Margin, shorting and the life of options through the broker: what the public reference gets wrong
or lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from ktdeval.testing import on_each_row
from ktdeval_qfinzero.data.rows import BorrowRow, DividendRow
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.pmb.broker_types import Instrument
from ktdeval_qfinzero.timestamps import MINUTE
from qfinzero_plays import Line, on_each_play, run_play
from support.qfinzero.qfinzero_broker_play import Play, Price, by_days
from support.qfinzero.qfinzero_calls import ask, refused
from support.qfinzero.qfinzero_margin import STOCK, e4
from support.qfinzero.qfinzero_world import at

LENT = [BorrowRow("AVLN", 0, 1_000_000, 360)]
"""Any number of shares at 3.6% a year: $0.01 a day for each $100."""


def option(
    right: str, strike: float, expiry: date = date(2025, 1, 8), underlying: str = "AVLN"
) -> Instrument:
    contract = OptionContract(underlying, expiry, e4(strike), right)  # type: ignore[arg-type]
    return Instrument("OPTION", contract.symbol)


def session(
    *stock: Price | None, options: dict[Instrument, list[Price | None]] | None = None, **more: Any
) -> Play:
    """A session in AVLN, whose first price is of the day before the session; its last one lasts."""
    rows = {instrument.symbol: prices for instrument, prices in (options or {}).items()}
    return by_days({"AVLN": stock, **rows}, borrow_rows=LENT, **more)


def with_option(
    right: str,
    side: str,
    *stock: Price | None,
    qty: int = 1,
    expiry: date = date(2025, 1, 8),
    marks: Any = (3, 3, 3, 3),
    **more: Any,
) -> tuple[Play, Instrument]:
    """A session in which an option struck at 100 is bought or sold on the first day."""
    instrument = option(right, 100, expiry)
    trader = session(100, 100, *stock, options={instrument: list(marks)}, **{"days": 3, **more})
    trader.send(side, qty, instrument)

    return trader, instrument


@on_each_play
def test_defects_as_played(lines: Sequence[Line]) -> None:
    run_play(lines)


# ---- margin and shorting


def falling(days: int, **more: Any) -> Play:
    """2,000 shares on $100,000; on the second day the price falls from 100 to 66."""
    trader = session(100, 100, (100, 66), *[66] * (days - 2), days=days, **more)
    trader.send("BUY", 2_000, STOCK)
    trader.step()

    return trader


def test_a_margin_call_is_of_the_tick_that_brings_it() -> None:
    trader = falling(3)
    assert not trader.events("MARGIN_CALL")

    trader.step()
    (call,) = trader.events("MARGIN_CALL")
    close = next(event for event in trader.events("DAY_CLOSED") if event.data.day == "2025-01-07")

    assert call.ts_ns == close.ts_ns == at("2025-01-07T21:00:00Z")
    assert call.data.equity_e4 == close.data.equity_e4 < close.data.maintenance_e4

    account = ask(trader.workspace, "PMB.account.get", account_id=trader.account_id)["account"]
    assert account["margin_status"] == "MARGIN_CALL"
    assert account["equity"] < account["maintenance_requirement"], "figures of one tick"


def test_a_liquidation_leaves_a_cushion_for_charges() -> None:
    """At a price that stays, 37 trading days: without a cushion the charges of the next close
    brought the next deficit, and there were 35 forced sales.
    """
    trader = falling(37)
    for _ in range(36):
        trader.step()

    forced = [order for order in trader.broker.state.orders.values() if order.forced]
    assert [order.status for order in forced] == ["FILLED", "FILLED"]

    first, second = (date.fromisoformat(call.data.due) for call in trader.events("MARGIN_CALL"))
    assert (second - first).days > 30
    assert len(trader.events("INTEREST")) == 37, "each close is charged"


@on_each_row(
    "orders, dividends",
    ([["BUY", 1]], 50),
    ([["SELL", 1]], -50),
    # bought on the ex-day
    ([["BUY", 3]], 0),
    # sold on the ex-day
    ([["BUY", 1], ["SELL", 3]], 50),
)
def test_who_holds_shares_when_the_ex_day_opens_has_the_dividend(
    orders: list[tuple[str, int]], dividends: float
) -> None:
    dividend = DividendRow("AVLN", date(2025, 1, 8), date(2025, 1, 10), 5_000, 0)
    trader = session(*[100] * 7, days=6, dividend_rows=[dividend])
    for day in range(1, 6):
        for side, on in orders:
            if on == day:
                trader.send(side, 100, STOCK)

        trader.step()

    assert trader.account.dividends_e4 == e4(dividends)


# ---- answers


def test_another_currency_is_refused() -> None:
    trader = session(100, days=1)
    error = refused(ask, trader.workspace, "PMB.account.create", base_currency="EUR")
    assert "base_currency" in str(error)


@pytest.mark.parametrize("name", ["constraints", "no_overnight", "force_flatten", "margin_config"])
def test_a_setting_that_would_do_nothing_is_refused(name: str) -> None:
    """The public reference takes constraints against overnight positions and ignores them."""
    trader = session(100, days=1)
    error = refused(ask, trader.workspace, "PMB.account.create", **{name: True})
    assert "only these are known" in str(error)


# ---- expiry


# Struck at 100; prices of the stock and of the option by day, null for a day without a bar.
@on_each_row(
    "right, side, prices, marks, shares, cash",
    ("C", "BUY", [110, 110], [3, 3, 3, 3], 100, 89700),
    ("C", "SELL", [110, 110], [3, 3, 3, 3], -100, 110_300),
    ("P", "BUY", [90, 90], [3, 3, 3, 3], -100, 109_700),
    ("P", "SELL", [90, 90], [3, 3, 3, 3], 100, 90300),
    # out of the money
    ("C", "BUY", [100, 100], [3, 3, 3, 3], 0, 99700),
    # an underlying without a bar on the day counts at its last close
    ("C", "BUY", [110, None, 110], [3, 3, 3, 3], 100, 89700),
    # so does an option without a bar on its last day
    ("C", "BUY", [110, 110], [3, 3, None, None], 100, 89700),
    # the threshold of exercise is one cent
    ("C", "BUY", [100, 100.01], [3, 3, 3, 3], 100, 89700),
    ("C", "BUY", [100, 100.005], [3, 3, 3, 3], 0, 99700),
)
def test_options_in_the_money_deliver_shares_long_and_short_alike(
    right: str, side: str, prices: Any, marks: list[Any], shares: int, cash: float
) -> None:
    trader, instrument = with_option(right, side, *prices, marks=marks)
    trader.step(3)

    assert (trader.held(instrument), trader.held(STOCK)) == (0, shares)
    assert trader.cash == pytest.approx(cash, abs=3 if side == "SELL" or right == "P" else 0.02)
    assert len(trader.events("OPTION_EXPIRED")) == (0 if shares else 1)


def minute_session(prices: dict[str, float], call: Instrument) -> Play:
    """A session of minutes on 2025-01-06 with AVLN's prices by time of day in UTC."""
    starts = [at(f"2025-01-06T{time}:00Z") for time in prices]
    trades = [at("2025-01-06T14:30:00Z"), at("2025-01-06T14:31:00Z")]
    minutes: Any = {"AVLN": (starts, list(prices.values())), call.symbol: (trades, [3.0, 3.0])}

    return by_days({"AVLN": [100.0], call.symbol: [3.0]}, days=1, minutes=minutes, frequency="1m")


@pytest.mark.parametrize(
    "prices", [{"14:30": 100, "20:13": 112}, {"14:30": 100, "20:59": 112, "22:30": 90}]
)
def test_expiry_is_at_the_exchanges_close_at_the_last_price_until_then(
    prices: dict[str, float],
) -> None:
    call = option("C", 100, date(2025, 1, 6))
    trader = minute_session(prices, call)
    trader.step(5)

    assert trader.workspace.clock.as_of_ns == at("2025-01-06T14:30:00Z") + 5 * MINUTE, (
        "ticks without a bar lose no minute"
    )

    trader = minute_session(prices, call)
    trader.send("BUY", 1, call)
    trader.step(390)
    (event,) = trader.events("OPTION_EXERCISED")

    assert (trader.held(STOCK), event.ts_ns, event.data.spot_e4) == (
        100,
        at("2025-01-06T21:00:00Z"),
        e4(112),
    )
