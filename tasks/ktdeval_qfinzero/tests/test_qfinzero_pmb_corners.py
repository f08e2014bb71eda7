"""Corners of the broker that only an account in an odd state, a late moment or an odd day comes
to.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import msgspec
import numpy as np
import pytest

from ktdeval_qfinzero.data.rows import BorrowRow, DividendRow, SplitRow, SymbolRow
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.pmb.account_views import summary_shown
from ktdeval_qfinzero.pmb.broker import Broker, verify
from ktdeval_qfinzero.pmb.broker_types import Instrument
from ktdeval_qfinzero.pmb.margin import equity_e4
from ktdeval_qfinzero.pmb.reference_data import BrokerReference
from ktdeval_qfinzero.timestamps import MINUTE, Clock
from qfinzero_broker_play import EARLY, FLAT, FREE, OPEN, Play, by_days, market, minutes, table
from qfinzero_calls import refused
from qfinzero_invariants import check_invariants
from qfinzero_margin import STOCK
from qfinzero_world import at, bars_of, small_dataset, with_prices
from tables import on_each_row

JANUARY = date(2025, 1, 17)
HUNDRED, FIFTY = (OptionContract("AVLN", JANUARY, strike * 10_000, "C") for strike in (100, 50))
CALL = Instrument("OPTION", HUNDRED.symbol)


# --- Prices over splits
# -------------------------------------------------------------------------------------------------------


def split_account() -> Play:
    """100 falls to 50 by 2 for 1 on the third day of the session; the 50 call that was listed
    before it was worth 51 then.
    """
    prices = {
        "AVLN": [100, 100, 100, 50, 50, 50],
        HUNDRED.symbol: [4, 4, 4],
        FIFTY.symbol: [51, 51, 51],
    }
    return by_days(prices, days=5, split_rows=[SplitRow("AVLN", date(2025, 1, 8), 2, 1, EARLY)])


def test_an_adjusted_option_has_its_own_price_and_keeps_its_exercise_instruction() -> None:
    """It is not worth what another of its name was before the split."""
    trader = split_account()
    trader.send("BUY", 1, CALL)
    trader.step(2)
    before = trader.equity
    trader.call("option.exercise", contract=CALL.symbol, do_not_exercise=True)
    trader.step()

    assert (trader.held(Instrument("OPTION", FIFTY.symbol)), trader.equity) == (2, before)
    assert trader.broker.state.do_not_exercise == {(trader.account_id, FIFTY.symbol)}


def test_an_adjusted_option_keeps_its_price_between_sessions() -> None:
    trader = split_account()
    trader.send("BUY", 1, CALL, limit_price=4.0)
    trader.step()
    trader.broker.execute("session.stop", {"session_id": trader.session_id})
    trader.workspace.clock.advance(at("2025-01-13T12:00:00Z"))
    trader.broker.synchronise()
    (split,) = trader.events("POSITION_SPLIT")

    assert split.data.qty_after == 2
    assert [close.equity_e4 for close in trader.broker.state.days[trader.account_id]][1:] == [
        10**9
    ] * 3
    assert trader.equity == 100_000


@pytest.mark.parametrize(
    ("ex_day", "first"),
    [(date(2025, 1, 9), date(2025, 1, 10)), (date(2025, 1, 11), date(2025, 1, 13))],
)
def test_an_ex_day_without_a_session_counts_as_the_next_trading_day(
    ex_day: date, first: date
) -> None:
    prices = [100 if day < first.day else 50 for day in (3, 6, 7, 8, 10, 13, 14)]
    split = SplitRow("AVLN", ex_day, 2, 1, EARLY)
    dividend = DividendRow("AVLN", ex_day, ex_day, 10_000, EARLY)
    trader = by_days({"AVLN": prices}, days=6, split_rows=[split], dividend_rows=[dividend])
    trader.send("BUY", 100, STOCK)
    trader.step(6)
    happened = [*trader.events("POSITION_SPLIT"), *trader.events("DIVIDEND")]

    assert [event.ts_ns for event in happened] == [at(f"{first}T14:30:00Z")] * 2
    assert trader.equity == 100_000 + 200


@pytest.mark.parametrize(
    ("moment", "before", "after"),
    [
        # 19:30 in New York: of old shares, with the dividend
        ("2025-01-08T00:30:00Z", 500_000, 240_000),
        # 04:30 in New York: of new shares, which no account holds before the open
        ("2025-01-08T09:30:00Z", 1_020_000, 500_000),
    ],
)
def test_a_last_price_from_outside_of_sessions_is_about_the_shares_that_are_held(
    moment: str, before: int, after: int
) -> None:
    day = date(2025, 1, 8)
    actions = {
        "split_rows": [SplitRow("BRKT", day, 2, 1, 0)],
        "dividend_rows": [DividendRow("BRKT", day, day, 10_000, 0)],
    }
    late = bars_of(np.array([at(moment)]), np.array([500_000]))
    reference = BrokerReference(
        with_prices(small_dataset(), {("stock", "BRKT", "minute"): late}, **actions)
    )

    for now, mark in (("2025-01-08T13:00:00Z", before), ("2025-01-08T14:30:00Z", after)):
        assert reference.visible_mark(Instrument("STOCK", "BRKT"), at(now)) == mark


def test_a_session_of_days_that_begins_inside_a_day_has_the_prices_of_that_moment() -> None:
    play = Play([FLAT, (104.0, 104.0, 104.0, 104.0, 1_000)])
    play.order("BUY", "LIMIT", limit_price=100.0)
    play.step(2)
    play.call("session.stop")
    play.begin("2025-01-06T15:00:00Z", "2025-01-08", frequency="1d")
    marks = play.broker.engine.marks()

    assert marks["STOCK:AVLN"] == 1_040_000
    assert play.state.sessions[play.session_id].start_equity_e4 == equity_e4(play.account, marks)


# --- Margin calls
# -------------------------------------------------------------------------------------------------------------


def test_a_forced_order_waits_for_volume() -> None:
    """2,000 shares on $100,000; the price falls to 66, and the broker's order to sell waits for a
    bar with volume.
    """
    low = (66.0, 66.0, 66.0, 66.0, 1_000_000)
    still = (66.0, 66.0, 66.0, 66.0, 0)
    play = Play(
        [FLAT, FLAT, low, still, still, low, low, low],
        cash=100_000,
        config={**FREE, "margin": {"call_days": 0}},
    )
    play.order("BUY", "LIMIT", 2_000, limit_price=100.0)
    play.step(3)
    (forced,) = [order for order in play.state.orders.values() if order.forced]
    play.step(2)

    assert (forced.status, play.held()) == ("ACCEPTED", 2_000)

    play.step()
    assert (forced.status, play.held()) == ("FILLED", 2_000 - forced.qty)
    assert play.account.margin_call_due is None


def test_a_liquidation_is_not_escaped_by_ending_the_session() -> None:
    rows: Any = [FLAT, FLAT, (100, 100, 60, 60, 1_000_000), *[(60, 60, 60, 60, 1_000_000)] * 3]
    rules = {**FREE, "margin": {"call_days": 0}}
    play = Play(rows, cash=10_000, config=rules, end_ts="2025-01-06T14:33:00Z")
    play.step()
    play.order("BUY", "MARKET", 190)
    play.step(2)  # the liquidation is sent at the last tick

    assert (play.state.running, play.held(), play.account.margin_call_due is not None) == (
        "",
        190,
        True,
    )

    play.begin("2025-01-06T14:33:00Z", "2025-01-07", execution_config=rules)
    assert "to meet a margin call; step until it is filled" in str(
        refused(play.call, "session.stop")
    )

    play.step()
    assert play.held() < 190

    verify(play.broker.log.to_lines(), play.dataset)


def test_a_forced_order_opens_nothing_when_its_position_is_gone() -> None:
    """Puts are exercised while the broker's order to sell shares waits: without an end to it the
    account would go short.
    """
    put = OptionContract("AVLN", JANUARY, 900_000, "P").symbol
    fall = (65.0, 65.0, 65.0, 65.0, 1_000_000)
    still = (65.0, 65.0, 65.0, 65.0, 0)
    rows = {
        "AVLN": minutes([FLAT, fall, still, fall, fall]),
        put: minutes([(0.5, 0.5, 0.5, 0.5, 100_000)]),
    }
    play = Play(market(rows), cash=102_000, config={**FREE, "margin": {"call_days": 0}})
    play.order("BUY", "LIMIT", 20, symbol=put, limit_price=0.5)
    play.order("BUY", "LIMIT", 2_000, limit_price=100.0)
    play.step(3)
    (forced,) = [order for order in play.state.orders.values() if order.forced]

    assert (forced.side, forced.instrument, forced.status) == ("SELL", STOCK, "ACCEPTED")

    play.call("option.exercise", contract=put, qty=20)
    play.step(2)

    assert play.held() == play.held(put) == 0
    assert (forced.status, forced.filled_qty) == ("CANCELLED", 0)
    assert play.account.cash_e4 == (102_000 - 1_000 - 200_000 + 180_000) * 10_000


def test_the_debt_of_a_bankrupt_account_stays_and_all_its_figures_are_reported() -> None:
    """Short 1,000 at 100 with $60,000; the next day opens at 1,000."""
    trader = by_days({"AVLN": [100, 100, 1_000, 1_000, 1_000, 1_000]}, 60_000, days=5)
    trader.send("SELL", 1_000, STOCK)
    trader.step(5)

    assert trader.held(STOCK) == 0

    debt = 60_000 - 900_000 - trader.account.interest_e4 / 10_000
    assert trader.cash == trader.equity == pytest.approx(debt)
    assert trader.account.interest_e4 > 0

    session = trader.broker.state.sessions[trader.session_id]
    figures: Any = summary_shown(trader.broker.engine, session)
    json.dumps(msgspec.to_builtins(figures), allow_nan=False)

    assert figures.final_equity == trader.equity
    assert figures.total_return == pytest.approx(trader.equity / 60_000 - 1)
    assert figures.sharpe is None
    assert "not positive" in figures.undefined["sharpe"]

    verify(trader.broker.log.to_lines(), trader.workspace.dataset)


def test_the_greatest_amounts_that_are_taken_are_exact() -> None:
    """$1,000,000,000 at 1% of margin carry 100,000 shares at $999,999.99 to the cent."""
    margin = {
        "long_initial_pct": 1,
        "long_maintenance_pct": 1,
        "short_initial_pct": 1,
        "short_maintenance_pct": 1,
    }
    lent = [BorrowRow("AVLN", EARLY, 10**9, 10_000)]
    trader = by_days(
        {"AVLN": [999_999.99] * 5}, 10**9, days=4, config={"margin": margin}, borrow_rows=lent
    )
    trader.send("BUY", 100_000, STOCK)
    trader.step()
    owed = 100_000 * 9_999_999_900 - 10**13
    interest = -(-owed * 700 // 3_600_000)

    assert trader.account.cash_e4 == -owed - interest
    assert trader.margin.equity_e4 == 10**13 - interest

    trader.send("SELL", 200_000, STOCK)
    trader.step(3)
    check_invariants(trader.broker)
    verify(trader.broker.log.to_lines(), trader.workspace.dataset)


# --- Days and moments
# ---------------------------------------------------------------------------------------------------------


def test_a_day_order_within_the_last_minute_is_for_the_next_day() -> None:
    play = Play([FLAT] * 400)
    play.until("2025-01-06T20:59:00Z")
    last = play.order("BUY", "LIMIT", limit_price=90.0)
    play.until("2025-01-06T20:59:30Z")
    next_ = play.order("BUY", "LIMIT", limit_price=90.0)
    play.step()

    assert (last.status, next_.status, next_.expire_ns) == (
        "EXPIRED",
        "ACCEPTED",
        at("2025-01-07T21:00:00Z"),
    )


@on_each_row
def test_an_order_on_the_last_tick_of_a_day_fills_and_its_day_ends_there(
    day: str, start: str, close: str
) -> None:
    end = at(f"{day}T{close}:00Z")
    dataset = market(
        {"AVLN": minutes([FLAT], end - MINUTE)},
        symbol_rows=[SymbolRow("AVLN", "stock", "Avalon", "technology", 0)],
    )
    info = replace(
        dataset.info, minute_first_day=date(2024, 11, 1), minute_last_day=date(2025, 3, 31)
    )
    play = Play(replace(dataset, info=info), start=f"{day}T{start}:00Z", end_ts=day)
    filled = play.order("BUY", "LIMIT", limit_price=100.0)
    waiting = play.order("BUY", "LIMIT", limit_price=99.0)
    play.step(390)

    assert [(trade.ts_ns, trade.qty) for trade in play.state.trades] == [(end, 100)]
    assert (filled.status, waiting.status, waiting.reason[:8]) == ("FILLED", "EXPIRED", "DAY_OVER")
    assert (play.state.sessions[play.session_id].status, play.state.now_ns) == ("FINISHED", end)


def test_the_day_on_which_what_was_held_expired_is_in_the_history() -> None:
    call = OptionContract("AVLN", date(2025, 1, 6), 1_100_000, "C").symbol
    play = Play(
        market({"AVLN": minutes([FLAT] * 10), call: minutes([(1, 1, 1, 1, 100_000)] * 10)}),
        end_ts="2025-01-06T14:35:00Z",
    )
    play.order("BUY", "LIMIT", 1, symbol=call, limit_price=1.0)
    play.step(10)

    assert not play.state.days[play.account_id]

    play.broker.clock.advance(at("2025-01-08T12:00:00Z"))
    play.broker.synchronise()

    assert [
        (close.day, close.equity_e4, close.session_id) for close in play.state.days[play.account_id]
    ] == [("2025-01-06", 9_999_000_000, "")]


def test_an_underlying_without_any_price_before_its_options_expire_is_delivered_all_the_same() -> (
    None
):
    """The stock's first bar is of the day of expiry, and the session of minutes has none of it."""
    call = OptionContract("AVLN", date(2025, 1, 6), 900_000, "C").symbol
    options: Any = market({call: minutes([(9, 9, 9, 9, 100_000)] * 10)}).prices
    stock = market({"AVLN": minutes([FLAT], at("2025-01-06T00:00:00Z"))}, "day")
    play = Play(
        with_prices(stock, options.bar_table, contract_rows=options.contract_rows),
        universe={"options": [call]},
    )
    play.order("BUY", "LIMIT", 1, symbol=call, limit_price=9.0)
    play.until("2025-01-07T15:00:00Z")

    assert (play.held(), play.held(call)) == (100, 0)
    assert play.state.days[play.account_id][0].equity_e4 == (1_000_000 - 900 + 1_000) * 10_000


def test_sessions_and_clocks_end_before_the_calendar_does() -> None:
    assert "end_ts: the broker's calendar ends at the open of 2035-" in str(
        refused(Play, [FLAT], end_ts="2035-12-20")
    )

    play = Play([FLAT])
    play.broker.clock.advance(at("2035-12-20T12:00:00Z"))

    assert "calendar ends" in str(refused(play.step))
    assert "calendar ends" in str(refused(Broker, play.dataset, Clock(at("2036-01-10T00:00:00Z"))))


# --- Orders
# -------------------------------------------------------------------------------------------------------------------


def test_a_clients_id_gives_the_same_order_after_it_was_modified_and_after_its_time() -> None:
    play = Play([FLAT] * 10)
    gtd = {"time_in_force": "GTD", "expire_ts": "2025-01-06T14:33:00Z", "client_order_id": "mine"}
    order = play.order("BUY", "LIMIT", limit_price=90.0, **gtd)
    new = play.state.orders[play.call("order.modify", order_id=order.id, updates={"qty": 50}).id]

    assert play.order("BUY", "LIMIT", limit_price=90.0, **gtd) is order
    assert (order.status, order.replaced_by, new.client_order_id) == ("CANCELLED", new.id, "")

    play.step(5)
    assert play.order("BUY", "LIMIT", limit_price=90.0, **gtd) is order

    for side, limit in (("BUY", 91.0), ("SELL", 90.0)):
        error = refused(play.order, side, "LIMIT", limit_price=limit, **gtd)
        assert (error.code, "client_order_id: the id was used for another order" in str(error)) == (
            "conflict",
            True,
        )

    assert "order.expire_ts" in str(
        refused(play.order, "BUY", "LIMIT", limit_price=90.0, **{**gtd, "client_order_id": "other"})
    )
    assert len(play.state.orders) == 2


def test_a_session_of_minutes_has_a_sharpe_ratio_of_days() -> None:
    """5,000 shares at 100, which close at 101, 99 and 102, on a million: equity of 1,005,000,
    995,000 and 1,010,000.
    """
    ends = [at(f"2025-01-{day:02d}T20:59:00Z") for day in (6, 7, 8)]
    prices = [(price, price, price, price, 1_000_000) for price in (101.0, 99.0, 102.0)]
    play = Play(market({"AVLN": table([OPEN, *ends], [FLAT, *prices])}), end_ts="2025-01-08")
    play.order("BUY", "LIMIT", 5_000, limit_price=100.0)
    play.step(3 * 390)
    figures: Any = summary_shown(play.broker.engine, play.state.sessions[play.session_id])
    levels = np.array([1_000_000, 1_005_000, 995_000, 1_010_000])
    returns = levels[1:] / levels[:-1] - 1

    assert figures.num_days == 3
    assert figures.sharpe == pytest.approx(returns.mean() / returns.std(ddof=1) * 252**0.5)
