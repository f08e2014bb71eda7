"""Margin, shorting and the life of options through the broker: what the public reference gets wrong
or lacks.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from ktdeval_qfinzero.data.rows import BorrowRow, DividendRow
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.pmb.broker_types import Instrument
from ktdeval_qfinzero.timestamps import MINUTE
from qfinzero_broker_play import FLAT, Play, Price, begun, by_days
from qfinzero_calls import ask, refused
from qfinzero_margin import STOCK, e4
from qfinzero_world import at
from tables import on_each_row

LENT = [BorrowRow("AVLN", 0, 1_000_000, 360)]
"""Any number of shares at 3.6% a year: $0.01 a day for each $100."""
NO_POWER = "INSUFFICIENT_BUYING_POWER"


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


# ---- margin and shorting


def test_every_order_is_checked_when_it_is_placed() -> None:
    trader = session(*[100] * 4, days=3)
    for side, qty, accepted in (
        ("BUY", 2_900, False),
        ("SELL", 100_000, False),
        ("BUY", 2_000, True),
        ("BUY", 1, False),
    ):
        order = trader.send(side, qty, STOCK)  # one that the account can't bear is on record too
        assert (order.status, order.reason[: len(NO_POWER)]) == (
            ("ACCEPTED", "") if accepted else ("REJECTED", NO_POWER)
        )

    trader.step()

    assert (trader.held(STOCK), trader.margin.buying_power_e4) == (2_000, 0)
    assert trader.send("SELL", 50_000, STOCK).reason.startswith(NO_POWER), (
        "through zero is no closing"
    )

    trader.send("SELL", 2_200, STOCK)
    trader.step()

    assert trader.held(STOCK) == -200


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


def test_a_margin_call_that_is_not_met_is_liquidated() -> None:
    trader = falling(5, config={"margin": {"debit_interest_bps": 0}})
    trader.step()

    assert trader.account.margin_call_due == date(2025, 1, 8)
    assert trader.send("BUY", 1, STOCK).reason.startswith("MARGIN_RESTRICTED")

    trader.step(2)
    assert 0 < trader.held(STOCK) < 2_000
    assert (trader.margin.deficit_e4, trader.account.margin_call_due) == (0, None)

    (forced,) = [order for order in trader.broker.state.orders.values() if order.forced]
    assert (forced.side, forced.status) == ("SELL", "FILLED")


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


def test_a_margin_call_that_is_met_in_time_is_not_liquidated() -> None:
    trader = falling(4)
    trader.step()
    trader.send("SELL", 1_000, STOCK)
    trader.step(2)

    assert (trader.held(STOCK), len(trader.events("MARGIN_CALL_MET"))) == (1_000, 1)


def test_borrowing_shares_and_cash_costs_for_every_calendar_day() -> None:
    """$100,000 at 3.6%: $10 a night; the 8th (the 9th is no trading day) has two, the 10th, a
    Friday, three. Cash at 7.2%: $20.
    """
    short = session(*[100] * 7, days=6)
    short.send("SELL", 1_000, STOCK)
    short.step(4)

    assert [event.data.cash_e4 for event in short.events("BORROW_FEE")] == [
        e4(-10),
        e4(-10),
        e4(-20),
        e4(-30),
    ]
    assert short.account.borrow_fees_e4 == e4(70)

    borrower = session(*[100] * 4, days=3, config={"margin": {"debit_interest_bps": 720}})
    borrower.send("BUY", 2_000, STOCK)
    borrower.step(2)

    assert borrower.account.interest_e4 == e4(20) + e4(20.004)


def test_in_a_cash_account_sales_settle_on_the_next_trading_day() -> None:
    """Minutes, so that something can be bought on the day of the sale."""
    play = begun(FLAT, FLAT, cash=100_000, account_type="CASH")
    for side in ("BUY", "SELL"):
        play.order(side, "MARKET", 1_000)
        play.step()

    assert play.cash == 100_000
    assert play.order("BUY", "MARKET", 1).reason.startswith("UNSETTLED_FUNDS")

    play.until("2025-01-07T14:31:00Z")
    assert play.order("BUY", "MARKET", 1_000).status == "ACCEPTED"


def test_day_trades_are_not_counted() -> None:
    """There is no pattern-day-trader rule; the documentation says so."""
    trader = session(*[100] * 8, days=7, cash=2_000)
    for _ in range(5):
        trader.send("BUY", 10, STOCK)
        trader.send("SELL", 10, STOCK)
        trader.step()

    assert len(trader.broker.state.trades) == 10


@on_each_row
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


def test_a_spread_requires_its_greatest_loss_only() -> None:
    short = option("P", 100)
    long = option("P", 95)
    trader = session(*[100] * 3, options={short: [4, 4, 4], long: [2, 2, 2]}, days=2, cash=300)

    assert trader.send("SELL", 1, short).reason.startswith(NO_POWER)
    assert trader.spread(("SELL", short.symbol, 1), ("BUY", long.symbol, 1))[0].status == "ACCEPTED"

    trader.step()
    assert (trader.held(short), trader.held(long), trader.margin.maintenance_e4) == (-1, 1, e4(300))
    assert trader.send("SELL", 1, long).reason.startswith(NO_POWER)


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


@on_each_row
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
def test_expiry_is_at_the_close_of_the_exchange_at_the_last_price_until_then(
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


def test_an_expiry_on_a_holiday_settles_at_the_session_before() -> None:
    call = option("C", 100, date(2025, 4, 18))
    trader = by_days(
        {"AVLN": [100, 100, 100, 110, 110], call.symbol: [3, 3, 3, 3]},
        days=4,
        first=date(2025, 4, 14),
    )
    trader.send("BUY", 1, call)
    trader.step(3)
    (event,) = trader.events("OPTION_EXERCISED")

    assert event.ts_ns == at("2025-04-17T20:00:00Z")


def test_an_option_settles_when_no_session_runs_any_more() -> None:
    trader, call = with_option("C", "BUY", 110, 110, 110, days=1)
    trader.step()

    assert trader.broker.state.sessions[trader.session_id].status == "FINISHED"

    trader.workspace.clock.advance(at("2025-01-08T20:59:00Z"))
    assert trader.held(call) == 1

    trader.workspace.clock.advance(at("2025-01-08T21:00:00Z"))
    assert (trader.held(call), trader.held(STOCK)) == (0, 100)


@pytest.mark.parametrize("root", ["BRK.B", "X1"])
def test_roots_with_digits_or_dots_are_options_too(root: str) -> None:
    call = option("C", 100, underlying=root)
    trader = by_days({root: [100, 100, 110, 110], call.symbol: [3, 3, 3, 3]}, days=3)
    trader.send("BUY", 1, call)
    trader.step(3)

    assert trader.held(Instrument("STOCK", root)) == 100


@pytest.mark.parametrize(("type_", "cash", "left"), [("MARGIN", 100_000, 99_700), ("CASH", 300, 0)])
def test_a_holder_can_forbid_the_exercise_also_one_that_he_could_not_pay(
    type_: str, cash: float, left: float
) -> None:
    trader, call = with_option("C", "BUY", 110, 110, cash=cash, type=type_)
    trader.step()
    trader.call("option.exercise", contract=call.symbol, do_not_exercise=True)
    trader.step(2)

    assert (trader.held(call), trader.held(STOCK)) == (0, 0)
    assert trader.cash == left


def test_a_holder_can_exercise_early() -> None:
    fee = {"fees": {"option_exercise_e4": e4(5)}}
    trader, call = with_option(
        "C", "BUY", 110, 110, qty=3, expiry=date(2025, 1, 17), marks=[3, 3, 10, 10], config=fee
    )
    trader.step(2)
    trader.call("option.exercise", contract=call.symbol, qty=2)

    assert (trader.held(call), trader.held(STOCK)) == (1, 200)
    assert trader.cash == pytest.approx(100_000 - 900 - 20_000 - 10)
    assert "1 contracts are held" in str(
        refused(trader.call, "option.exercise", contract=call.symbol, qty=2)
    )


def test_a_cash_account_exercises_for_the_strike_and_not_for_the_price_of_the_shares() -> None:
    late = {"expiry": date(2025, 1, 17), "marks": [3, 3, 50, 50]}
    trader, call = with_option("C", "BUY", 150, 150, cash=10_300, type="CASH", **late)
    trader.step(2)
    trader.call("option.exercise", contract=call.symbol, qty=1)

    assert (trader.held(STOCK), trader.cash) == (100, 0)


def test_a_short_call_is_assigned_before_a_dividend_that_its_holder_would_exercise_for() -> None:
    call = option("C", 90, date(2025, 1, 17))
    dividend = DividendRow("AVLN", date(2025, 1, 8), date(2025, 1, 20), e4(1), 0)
    trader = session(*[100] * 5, options={call: [10.5] * 5}, days=4, dividend_rows=[dividend])
    trader.send("SELL", 1, call)
    trader.step()

    assert trader.held(call) == -1

    trader.step()
    assert (trader.held(call), trader.held(STOCK)) == (0, -100)

    trader.step()
    assert trader.account.dividends_e4 == e4(-100)


def test_a_delivery_that_an_account_can_not_carry_is_made_and_the_margin_call_follows() -> None:
    trader, _ = with_option("C", "BUY", 110, 110, 110, 110, qty=3, days=5, cash=1_000)
    trader.step(3)

    assert trader.held(STOCK) == 300
    assert trader.cash == pytest.approx(-29_900, abs=20)

    (called,) = trader.events("MARGIN_CALL")
    assert called.ts_ns == at("2025-01-08T21:00:00Z")


def test_accounts_are_worth_the_same_whichever_way_an_option_ends() -> None:
    """Delivery, by expiry or by exercise, is worth the intrinsic value at the close."""
    (by_expiry, _), (by_exercise, call) = (
        with_option("C", "BUY", 110, 110, qty=2, marks=[3, 3, 10, 10]) for _ in range(2)
    )

    for trader in (by_expiry, by_exercise):
        trader.step(2)

    by_exercise.call("option.exercise", contract=call.symbol, qty=2)
    for trader in (by_expiry, by_exercise):
        trader.step()
        assert trader.equity == 100_000 - 600 + 2_000


def test_an_instrument_whose_first_price_is_of_this_tick_does_not_stop_the_next_order() -> None:
    other = Instrument("STOCK", "BRKT")
    trader = by_days({"AVLN": [None, 100, 100], "BRKT": [50, 50, 50]}, days=2)
    trader.send("BUY", 10, STOCK, limit_price=101)
    trader.send("BUY", 10, other)
    trader.step()

    assert (trader.held(STOCK), trader.held(other)) == (10, 10)
