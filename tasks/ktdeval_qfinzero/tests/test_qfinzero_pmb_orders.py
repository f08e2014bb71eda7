"""The order lifecycle: refusal, rejection, waiting, fills, expiry and modification.

Where the public broker gets something wrong or lacks it, a test shows that ours does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ktdeval.testing import not_empty, on_each_row
from ktdeval_qfinzero.timestamps import DAY, MINUTE
from qfinzero_plays import Line, on_each_play, run_play
from support.qfinzero.qfinzero_broker_play import (
    FLAT,
    FREE,
    Play,
    Row,
    begun,
    daily,
    market,
    minutes,
    table,
)
from support.qfinzero.qfinzero_calls import refused
from support.qfinzero.qfinzero_world import at, small_dataset

CALL = "O:AVLN250117C00100000"
PUT = "O:AVLN250117P00100000"
SOON = "O:AVLN250107C00100000"
MIDNIGHT = at("2025-01-06T00:00:00Z")
THREE: Row = (3, 3, 3, 3, 1_000)


def flat(price: float, volume: float = 1_000_000) -> Row:
    return (price, price, price, price, volume)


def options(call: list[Row | None], put: list[Row | None], **more: Any) -> Play:
    """A minute of a session in stock, call and put has passed."""
    play = Play(
        market({"AVLN": minutes([FLAT] * 10), CALL: minutes(call), PUT: minutes(put)}), **more
    )
    play.step()

    return play


def code(reason: str) -> str:
    return reason.partition(":")[0]


@on_each_play
def test_orders_as_played(lines: Sequence[Line]) -> None:
    run_play(lines)


# ---- what is refused


@on_each_row(
    "order_type, more, field",
    ("LIMIT", {}, "limit_price"),
    ("STOP", {}, "stop_price"),
    ("STOP_LIMIT", {"limit_price": 1.0}, "stop_price"),
    ("MARKET", {"limit_price": 1.0}, "limit_price"),
    ("LIMIT", {"limit_price": 1.0, "stop_price": 1.0}, "stop_price"),
    ("LIMIT", {"limit_price": 100.001}, "limit_price"),
    ("LIMIT", {"limit_price": 1e-05}, "limit_price"),
    ("LIMIT", {"limit_price": 100.005}, "limit_price"),
    ("MARKET", {"time_in_force": "GTD"}, "expire_ts"),
    ("MARKET", {"time_in_force": "GTD", "expire_ts": "2025-01-06T14:30:00Z"}, "expire_ts"),
    ("MARKET", {"expire_ts": "2025-01-07"}, "expire_ts"),
)
def test_prices_and_times_that_do_not_fit_the_order_are_refused(
    order_type: str, more: dict[str, Any], field: str
) -> None:
    play = Play([FLAT])
    error = refused(play.order, "BUY", order_type, **more)

    assert (error.code, error.field) == ("invalid_argument", f"order.{field}")
    assert play.order("BUY", "LIMIT", limit_price=0.1234).limit_e4 == 1_234, (
        "below a dollar, prices have four decimals"
    )


@on_each_row(
    "instrument",
    ({"type": "STOCK", "contract": "O:AVLN250117C00100000"},),
    ({"type": "STOCK", "symbol": "AVLN", "contract": "O:AVLN250117C00100000"},),
    ({"type": "OPTION", "symbol": "AVLN"},),
    ({"type": "OPTION", "contract": "AVLN"},),
    ({"type": "STOCK", "symbol": "avln"},),
    # not in the universe
    ({"type": "STOCK", "symbol": "BRKT"},),
    ({"type": "STOCK", "symbol": "NONE"},),
    ({"type": "OPTION", "contract": "O:AVLN250117C00100000"},),
)
def test_instruments_that_are_none_or_not_of_the_session_are_refused(
    instrument: dict[str, str],
) -> None:
    order = {"instrument": instrument, "side": "BUY", "order_type": "MARKET", "qty": 1}
    assert refused(Play([FLAT]).call, "order.place", order=order).code == "invalid_argument"


def test_contracts_must_be_listed_and_alive() -> None:
    play = Play(market({"AVLN": minutes([FLAT])}), universe={"stocks": ["AVLN"], "options": [CALL]})
    assert "no such contract is listed" in str(refused(play.order, "BUY", "MARKET", 1, CALL))

    universe = {"stocks": ["AVLN"], "options": [SOON]}
    bars = market({"AVLN": minutes([FLAT]), SOON: minutes([FLAT])})
    play = Play(bars, universe=universe)
    play.step(2 * 390 - 1)
    play.order("BUY", "MARKET", 1, SOON)
    play.step()

    assert "expired" in str(refused(play.order, "BUY", "MARKET", 1, SOON))
    assert "expired" in str(refused(Play, bars, universe=universe, start="2025-01-08T14:30:00Z"))


# ---- filling


@pytest.mark.parametrize(
    ("side", "order_type", "more", "rows", "config", "prices"),
    [
        # on the bar after it, at its open
        ("BUY", "MARKET", {}, [(101, 102, 101, 102, 1_000_000)], FREE, [101.0]),
        ("BUY", "MARKET", {}, [None, None, flat(99)], FREE, [99.0]),  # orders wait for bars
        ("BUY", "MARKET", {}, [None] * 400, FREE, []),  # nothing fills on a price of days ago
        # never above its stop
        ("SELL", "STOP", {"stop_price": 98.0}, [(100, 100, 97, 97.5, 1_000_000)], {}, [97.99]),
        # not improved by the close
        ("BUY", "LIMIT", {"limit_price": 99.0}, [(100, 101, 91, 92, 1_000_000)], FREE, [99.0]),
        # A stop-limit order latches: below the stop it needs no second test.
        (
            "BUY",
            "STOP_LIMIT",
            {"stop_price": 103.0, "limit_price": 104.0},
            [(106, 107, 105, 106, 1_000), flat(99)],
            FREE,
            [99.0],
        ),
        # no volume triggers nothing
        ("BUY", "STOP", {"stop_price": 105.0}, [(100, 110, 90, 100, 0), FLAT], FREE, []),
    ],
)
def test_orders_fill_on_bars_that_come_after_them(
    side: str,
    order_type: str,
    more: dict[str, Any],
    rows: list[Row | None],
    config: dict[str, Any],
    prices: list[float],
) -> None:
    play = begun(*rows, config=config)
    order = play.order(side, order_type, time_in_force="GTC", **more)

    assert order.status == "ACCEPTED"

    play.step(len(rows))
    assert play.prices() == prices
    assert (order.status, order.triggered) == (
        ("FILLED" if prices else "ACCEPTED"),
        bool(prices and "stop_price" in more),
    )


def test_a_day_is_one_tick_wherever_in_it_a_store_puts_its_bars() -> None:
    eastern = MIDNIGHT + 5 * 60 * MINUTE
    bars = {
        "AVLN": table([MIDNIGHT, MIDNIGHT + DAY], [FLAT, FLAT]),
        CALL: table([eastern, eastern + DAY], [THREE] * 2),
    }
    play = daily(bars)
    play.order("BUY", "LIMIT", 1, symbol=CALL, limit_price=3.0)
    play.order("BUY", "LIMIT", 1, limit_price=100.0)
    play.step()

    assert len(play.state.trades) == 2
    assert len({trade.ts_ns for trade in play.state.trades}) == 1

    day = Play(small_dataset(), start="2025-01-06T21:00:00Z", frequency="1d", end_ts="2025-01-17")
    order = day.order("BUY", "MARKET", 1, CALL)
    day.step()

    assert (order.status, day.held(CALL)) == ("FILLED", 1)


# ---- modification


@on_each_row(
    "updates, error",
    ({}, "invalid_argument"),
    ({"stop_price": 99.0}, "invalid_argument"),
    ({"limit_price": 99.001}, "invalid_argument"),
    ({"qty": 1_000_000}, "conflict"),
)
def test_a_modification_that_can_not_be_leaves_the_order_as_it_was(
    updates: dict[str, Any], error: str
) -> None:
    play = begun(FLAT)
    order = play.order("BUY", "LIMIT", limit_price=50.0)
    assert refused(play.call, "order.modify", order_id=order.id, updates=updates).code == error
    assert order.status == "ACCEPTED"


# ---- spreads


@on_each_row(
    "legs, field",
    ([["BUY", "O:AVLN250117C00100000", 1], ["SELL", "O:AVLN250117C00100000", 1]], "legs"),
    ([["BUY", "O:AVLN250117C00100000", 1], ["SELL", "BRKT", 1]], "legs"),
    (
        [["BUY", "O:AVLN250117C00100000", 1000], ["SELL", "O:AVLN250117P00100000", 1]],
        "legs[0].ratio",
    ),
)
def test_legs_that_make_no_spread_are_refused(legs: Any, field: str) -> None:
    assert refused(options([THREE], [THREE]).spread, *legs, qty=10_000).field == field


# ---- settings


SETTINGS = {
    "fees": {
        "stock_per_share_e4": 100,
        "option_per_contract_e4": 10_000,
        "option_exercise_e4": 10_000,
    },
    "fills": {"slippage_bps": 50, "option_spread_bps": 500, "max_volume_pct": 1},
    "margin": {
        "long_initial_pct": 100,
        "long_maintenance_pct": 60,
        "short_initial_pct": 100,
        "short_maintenance_pct": 90,
        "short_minimum_e4": 1_000_000,
        "option_short_pct": 90,
        "option_short_floor_pct": 90,
        "debit_interest_bps": 2_000,
        "call_days": 0,
    },
}


@pytest.mark.slow
def test_every_setting_does_something() -> None:
    usual = [outcome_of({}, orders) for orders in PLAYS]
    for group, values in not_empty(SETTINGS.items()):
        for name, value in not_empty(values.items()):
            changed = {group: {name: value}}
            assert any(
                outcome_of(changed, orders) != as_usual
                for orders, as_usual in zip(PLAYS, usual, strict=True)
            ), (group, name)


PLAYS = ([("BUY", 1_950, "AVLN")], [("BUY", 2, CALL), ("SELL", 8, PUT)], [("SELL", 700, "AVLN")])


def outcome_of(config: dict[str, Any], orders: list[tuple[str, int, str]]) -> list[Any]:
    """What came of stock on margin, options bought, written and exercised, or a short sale, and a
    fall in price.
    """
    starts = [MIDNIGHT + day * DAY for day in (0, 1, 2, 4, 7, 8, 9)]
    stock = [flat(100, 60_000)] * 4 + [flat(60, 60_000)] * 3
    option = [flat(3, 5_000)] * 7
    bars = {"AVLN": table(starts, stock), CALL: table(starts, option), PUT: table(starts, option)}
    span = {"frequency": "1d", "start": "2025-01-06T00:00:00Z", "end_ts": "2025-01-15"}
    play = Play(market(bars, "day"), cash=100_000, config=config, **span)
    play.step()

    for side, qty, symbol in orders:
        play.order(side, "MARKET", qty, symbol, time_in_force="GTC")

    play.step(2)
    if play.held(CALL):
        play.call("option.exercise", contract=CALL, qty=1)

    play.step(4)

    return [
        [event.type, event.data]
        for event in play.broker.log.events()
        if event.type != "SESSION_CREATED"
    ]
