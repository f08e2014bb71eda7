"""Orders from placement to their end: what is refused, what is rejected, how they wait, fill,
expire and are changed.

Where the public broker gets something wrong or lacks it, a test shows that ours does not.
"""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval_qfinzero.pmb.broker import verify
from ktdeval_qfinzero.timestamps import DAY, MINUTE
from loops import not_empty
from qfinzero_broker_play import (
    FLAT,
    FREE,
    OPEN,
    Play,
    Row,
    begun,
    daily,
    market,
    minutes,
    table,
    thing,
    types,
)
from qfinzero_calls import refused
from qfinzero_world import at, small_dataset
from tables import on_each_row

CALL = "O:AVLN250117C00100000"
PUT = "O:AVLN250117P00100000"
SOON = "O:AVLN250107C00100000"
NO_POWER = "INSUFFICIENT_BUYING_POWER"
MIDNIGHT = at("2025-01-06T00:00:00Z")
THREE: Row = (3, 3, 3, 3, 1_000)


def flat(price: float, volume: float = 1_000_000) -> Row:
    return (price, price, price, price, volume)


def rising(count: int) -> list[Row]:
    """Minutes that rise by a dollar each, from 100."""
    return [
        (100.0 + step, 101.0 + step, 100.0 + step, 101.0 + step, 1_000_000) for step in range(count)
    ]


def options(call: list[Row | None], put: list[Row | None], **more: Any) -> Play:
    """A minute of a session in stock, call and put has passed."""
    play = Play(
        market({"AVLN": minutes([FLAT] * 10), CALL: minutes(call), PUT: minutes(put)}), **more
    )
    play.step()

    return play


def code(reason: str) -> str:
    return reason.partition(":")[0]


# ---- what is refused


@on_each_row
def test_prices_and_times_that_do_not_fit_the_order_are_refused(
    order_type: str, more: dict[str, Any], field: str
) -> None:
    play = Play([FLAT])
    error = refused(play.order, "BUY", order_type, **more)

    assert (error.code, error.field) == ("invalid_argument", f"order.{field}")
    assert play.order("BUY", "LIMIT", limit_price=0.1234).limit_e4 == 1_234, (
        "below a dollar, prices have four decimals"
    )


@on_each_row
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


def test_orders_need_a_running_session_of_their_account() -> None:
    play = Play([FLAT], end_ts="2025-01-06T14:31:00Z")
    other = play.broker.execute("account.create", {"account_type": "CASH", "initial_cash": 1}).id
    order = {"instrument": thing("AVLN"), "side": "BUY", "order_type": "MARKET", "qty": 1}

    for ids, error in (
        ({"account_id": other}, "conflict"),
        ({"session_id": "sess-000009"}, "not_found"),
    ):
        assert refused(play.call, "order.place", order=order, **ids).code == error

    play.step()

    assert "FINISHED" in str(refused(play.order, "BUY", "MARKET"))

    stopped = Play([FLAT])
    stopped.call("session.stop")

    assert "STOPPED" in str(refused(stopped.order, "BUY", "MARKET"))


# ---- what is rejected, on record


def test_working_orders_tie_up_buying_power_until_they_end() -> None:
    play = begun(FLAT, FLAT, cash=1_000)
    first = play.order("BUY", "LIMIT", 10, limit_price=90)

    assert play.order("BUY", "LIMIT", 20, limit_price=90).status == "REJECTED"

    play.call("order.cancel", order_id=first.id)
    assert play.order("BUY", "LIMIT", 20, limit_price=90).status == "ACCEPTED"


def test_a_market_order_without_any_known_price_is_rejected() -> None:
    play = Play([FLAT] * 3)
    assert play.order("BUY", "MARKET").reason.startswith("NO_MARK")
    assert play.order("BUY", "LIMIT", limit_price=100.0).status == "ACCEPTED"


def test_a_fill_that_the_account_can_not_bear_any_more_cancels_the_order() -> None:
    play = begun(FLAT, flat(150), cash=1_000)
    play.step()
    order = play.order("BUY", "MARKET", 19)  # costs 1,900 at the last price and 2,850 at the next

    assert order.status == "ACCEPTED"

    play.step()
    assert (order.status, code(order.reason), play.held()) == ("CANCELLED", NO_POWER, 0)


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


def test_orders_share_a_bars_volume_in_the_order_of_their_arrival() -> None:
    play = begun(
        *[flat(100, 1_000)] * 4, config={**FREE, "fills": {**FREE["fills"], "max_volume_pct": 10}}
    )
    first = play.order("BUY", "MARKET", 150)
    second = play.order("BUY", "LIMIT", 100, limit_price=101.0)
    seen = []

    for _ in range(3):
        play.step()
        seen.append((first.status, first.filled_qty, second.status, second.filled_qty))

    assert seen == [
        ("PARTIALLY_FILLED", 100, "ACCEPTED", 0),
        ("FILLED", 150, "PARTIALLY_FILLED", 50),
        ("FILLED", 150, "FILLED", 100),
    ]

    thin = begun(flat(100, 1), flat(100, 100), config={"fills": {"max_volume_pct": 50}})
    order = thin.order("BUY", "MARKET", 500)
    thin.step()

    assert order.filled_qty == 0, "half of one share is none"

    thin.step()
    assert (order.filled_qty, order.status) == (50, "PARTIALLY_FILLED")


def test_fees_are_paid_from_cash() -> None:
    play = begun(FLAT, config={})
    play.order("BUY", "MARKET", 1_000)
    play.step()

    assert play.account.fees_e4 == 5_000  # half a dollar
    assert play.account.cash_e4 == 10_000 * 1_000_000 - 1_000 * 1_000_100 - 5_000


def test_a_stop_limit_order_triggers_with_an_event_and_then_waits_as_a_limit_order() -> None:
    play = begun((106, 107, 105, 106, 1_000_000), (106, 107, 104.5, 106, 1_000_000), FLAT)
    order = play.order("BUY", "STOP_LIMIT", stop_price=103.0, limit_price=104.5)

    assert types(play.step()) == ["ORDER_TRIGGERED"]
    assert (order.triggered, order.filled_qty) == (True, 0)

    play.step()
    assert play.prices() == [104.5]


def test_round_trips_leave_profit_and_nothing_held() -> None:
    play = Play(rising(6))
    play.step()
    for side, qty in (("BUY", 100), ("SELL", 150), ("BUY", 50)):  # through zero
        play.order(side, "MARKET", qty)
        play.step()

    position = play.account.positions["STOCK:AVLN"]

    assert (position.qty, position.cost_e4, position.realized_e4) == (
        0,
        0,
        10_000 * (100 * 1 - 50 * 1),
    )
    assert play.account.cash_e4 == 10_000 * (1_000_000 + 50)


def test_nothing_fills_at_or_shows_a_close_that_is_not_known_yet() -> None:
    play = daily(
        {"AVLN": table([MIDNIGHT, MIDNIGHT + DAY], [FLAT, (100, 130, 100, 130, 1_000_000)])}
    )
    play.until("2025-01-07T14:29:00Z")
    play.order("BUY", "MARKET")
    play.until("2025-01-07T20:59:59Z")

    assert (play.held(), play.broker.engine.marks()["STOCK:AVLN"]) == (0, 1_000_000)

    play.step()
    assert play.prices() == [100.0]  # the open that came after the order, not the close


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


# ---- ends


def test_day_orders_expire_at_the_close_and_others_do_not() -> None:
    play = begun()
    day = play.order("BUY", "LIMIT", 1, limit_price=50.0)
    lasting = play.order("BUY", "LIMIT", 1, limit_price=50.0, time_in_force="GTC")
    play.step(388)

    assert day.status == "ACCEPTED"

    play.step()
    assert (day.status, code(day.reason), lasting.status) == ("EXPIRED", "DAY_OVER", "ACCEPTED")

    after_the_close = play.order("BUY", "LIMIT", 1, limit_price=50.0)
    play.step(389)

    assert after_the_close.status == "ACCEPTED", "it is for the next day"

    play.step()
    assert after_the_close.status == "EXPIRED"


def test_gtd_orders_expire_at_their_moment_and_may_fill_on_the_bar_that_ends_then() -> None:
    play = begun(FLAT, flat(90), flat(80))
    dated = {"time_in_force": "GTD"}
    good = play.order(
        "BUY", "LIMIT", 1, limit_price=95.0, expire_ts="2025-01-06T14:33:00Z", **dated
    )
    late = play.order(
        "BUY", "LIMIT", 1, limit_price=85.0, expire_ts="2025-01-06T14:33:30Z", **dated
    )
    between = play.order(
        "BUY", "LIMIT", 1, limit_price=50.0, expire_ts="2025-01-06T23:00:00Z", **dated
    )
    play.step(3)

    # the bar that fills it would end after its time
    assert (good.status, late.status) == ("FILLED", "EXPIRED")

    play.until("2025-01-06T22:59:59Z")
    assert between.status == "ACCEPTED"

    play.until("2025-01-06T23:00:00Z")
    assert (between.status, between.expire_ns) == ("EXPIRED", at("2025-01-06T23:00:00Z")), (
        "between ticks too"
    )


def test_cancelling_ends_an_order_once_and_stopping_a_session_ends_the_rest() -> None:
    play = begun(FLAT)
    order, other = (
        play.order("BUY", "LIMIT", limit_price=50.0, time_in_force="GTC") for _ in range(2)
    )
    play.call("order.cancel", order_id=order.id)

    assert (order.status, list(play.state.working)) == ("CANCELLED", [other.id])
    assert "CANCELLED" in str(refused(play.call, "order.cancel", order_id=order.id))

    play.call("session.stop")
    assert (other.status, code(other.reason), play.state.working) == ("EXPIRED", "SESSION_OVER", {})


def test_orders_for_an_option_that_expires_end_with_an_event() -> None:
    contract = "O:AVLN250106C00100000"
    play = Play(market({"AVLN": minutes([FLAT]), contract: minutes([THREE])}))
    play.step()
    order = play.order("BUY", "LIMIT", 1, contract, limit_price=1.0, time_in_force="GTC")

    assert types(play.step(389)) == ["ORDER_EXPIRED", "DAY_CLOSED"]
    assert code(order.reason) == "CONTRACT_EXPIRED"


# ---- modification


def test_a_modification_is_a_new_order_without_its_place_in_time_and_replays() -> None:
    play = begun(FLAT, FLAT)
    order = play.order("BUY", "LIMIT", limit_price=50.0)
    changed = play.state.orders[
        play.call("order.modify", order_id=order.id, updates={"limit_price": 100.0}).id
    ]

    assert (order.status, order.replaced_by, changed.replaces, changed.limit_e4) == (
        "CANCELLED",
        changed.id,
        order.id,
        1_000_000,
    )
    assert changed.seq > order.seq

    play.step()
    assert changed.status == "FILLED"

    lines = play.broker.log.to_lines()
    verify(lines, play.dataset)

    assert any('"order.modify"' in line for line in lines)


def test_a_modified_quantity_includes_fills() -> None:
    play = begun(flat(100, 60), FLAT)
    order = play.order("BUY", "LIMIT", 100, limit_price=100.0)
    play.step()

    assert order.filled_qty == 60
    assert "60 are filled" in str(
        refused(play.call, "order.modify", order_id=order.id, updates={"qty": 60})
    )

    changed = play.state.orders[
        play.call("order.modify", order_id=order.id, updates={"qty": 80}).id
    ]
    play.step()

    assert (changed.qty, play.held()) == (20, 80)


def test_a_modification_keeps_what_was_reached_and_when_it_expires() -> None:
    play = begun((106, 107, 105, 106, 1_000_000), FLAT)
    order = play.order("BUY", "STOP_LIMIT", stop_price=103.0, limit_price=104.0)
    play.step()

    assert "reached already" in str(
        refused(play.call, "order.modify", order_id=order.id, updates={"stop_price": 110.0})
    )

    changed = play.state.orders[
        play.call("order.modify", order_id=order.id, updates={"limit_price": 104.5}).id
    ]

    assert (changed.triggered, changed.expire_ns) == (True, order.expire_ns)


@on_each_row
def test_a_modification_that_can_not_be_leaves_the_order_as_it_was(
    updates: dict[str, Any], error: str
) -> None:
    play = begun(FLAT)
    order = play.order("BUY", "LIMIT", limit_price=50.0)
    assert refused(play.call, "order.modify", order_id=order.id, updates=updates).code == error
    assert order.status == "ACCEPTED"


# ---- spreads


def test_a_spread_waits_until_all_its_legs_have_a_bar_and_fills_them_together() -> None:
    play = options([THREE, THREE, None, THREE], [THREE, None, THREE, THREE])
    legs = play.spread(("BUY", CALL, 1), ("SELL", PUT, 1), qty=10)
    play.step(2)

    assert [leg.status for leg in legs] == ["ACCEPTED", "ACCEPTED"]

    play.step()
    assert [leg.status for leg in legs] == ["FILLED", "FILLED"]
    assert (play.held(CALL), play.held(PUT)) == (10, -10)
    assert len({trade.ts_ns for trade in play.state.trades}) == 1


def test_a_spread_fills_only_within_its_net_limit() -> None:
    play = options([(5, 5, 5, 5, 1_000)] * 2 + [(4, 4, 4, 4, 1_000)] * 2, [THREE] * 4)
    legs = play.spread(("BUY", CALL, 1), ("SELL", PUT, 1), net_limit_price=1.0)
    play.step()

    assert legs[0].status == "ACCEPTED"  # 5 − 3 is 2

    play.step()
    assert play.prices() == [4.0, 3.0]


def test_a_leg_takes_the_whole_spread_with_it() -> None:
    play = options([THREE] * 3, [THREE] * 3)
    legs = play.spread(("BUY", CALL, 1), ("BUY", PUT, 2), net_limit_price=1.0)

    assert "spread" in str(
        refused(play.call, "order.modify", order_id=legs[1].id, updates={"qty": 1})
    )

    play.call("order.cancel", order_id=legs[1].id)
    assert [leg.status for leg in legs] == ["CANCELLED", "CANCELLED"]


def test_spreads_need_buying_power() -> None:
    legs = options([flat(3)] * 4, [flat(3)] * 4, cash=5_000).spread(
        ("SELL", CALL, 1), ("SELL", PUT, 1), qty=100
    )
    assert [(leg.status, code(leg.reason)) for leg in legs] == [("REJECTED", NO_POWER)] * 2


@on_each_row
def test_legs_that_make_no_spread_are_refused(legs: Any, field: str) -> None:
    assert refused(options([THREE], [THREE]).spread, *legs, qty=10_000).field == field


def test_shares_and_calls_can_be_traded_as_one() -> None:
    play = options([THREE] * 3, [THREE] * 3)
    play.spread(("BUY", "AVLN", 100), ("SELL", CALL, 1), qty=2, net_limit_price=97.0)
    play.step()
    assert (play.held(), play.held(CALL)) == (200, -2)


def test_a_spread_has_a_clients_id_too() -> None:
    play = options([THREE] * 3, [THREE] * 3)
    first = play.spread(("BUY", CALL, 1), ("BUY", PUT, 1), client_order_id="both")

    assert play.spread(("BUY", CALL, 1), ("BUY", PUT, 1), client_order_id="both") == first
    assert "another order" in str(
        refused(play.spread, ("BUY", CALL, 1), ("BUY", PUT, 1), qty=2, client_order_id="both")
    )


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


def test_ticks_are_those_of_the_exchange_whichever_instruments_have_bars() -> None:
    play = Play(market({"AVLN": minutes([FLAT, None, None, FLAT]), "BRKT": minutes([None, FLAT])}))
    play.step(3)
    assert play.broker.clock.as_of_ns == OPEN + 3 * MINUTE
