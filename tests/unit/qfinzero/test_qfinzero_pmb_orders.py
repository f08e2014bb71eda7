"""Orders from placement to their end: what is refused, what is rejected, how they wait, fill, expire and are changed."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval_qfinzero.errors import ServiceError
from qfinzero_broker_play import FLAT, FREE, Play, Row, market, minutes, types
from qfinzero_world import small_dataset

CALL, PUT = "O:AVLN250117C00100000", "O:AVLN250117P00100000"


def rising(count: int, first: float = 100.0) -> list[Row]:
    """Minutes that rise by a dollar each."""
    return [(first + step, first + step + 1, first + step, first + step + 1, 1_000_000) for step in range(count)]


def two(rows: list[Row], other: list[Row]) -> Play:
    return Play(market({"AVLN": minutes(rows), "BRKT": minutes(other)}))


# --- What is refused --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order_type", "more", "field"),
    [
        ("LIMIT", {}, "order.limit_price"),
        ("STOP", {}, "order.stop_price"),
        ("STOP_LIMIT", {"limit_price": 1.0}, "order.stop_price"),
        ("MARKET", {"limit_price": 1.0}, "order.limit_price"),
        ("LIMIT", {"limit_price": 1.0, "stop_price": 1.0}, "order.stop_price"),
        ("LIMIT", {"limit_price": 100.001}, "order.limit_price"),
        ("LIMIT", {"limit_price": 0.00001}, "order.limit_price"),
        ("LIMIT", {"limit_price": 100.005}, "order.limit_price"),
        ("MARKET", {"time_in_force": "GTD"}, "order.expire_ts"),
        ("MARKET", {"time_in_force": "GTD", "expire_ts": "2025-01-06T14:30:00Z"}, "order.expire_ts"),
        ("MARKET", {"expire_ts": "2025-01-07"}, "order.expire_ts"),
    ],
)
def test_prices_and_times_that_do_not_fit_the_order_are_refused(order_type: str, more: dict[str, Any], field: str) -> None:
    with pytest.raises(ServiceError) as caught:
        Play([FLAT]).order("BUY", order_type, **more)
    assert (caught.value.code, caught.value.field) == ("invalid_argument", field)


def test_a_stock_below_a_dollar_takes_prices_of_four_decimals() -> None:
    assert Play([FLAT]).order("BUY", "LIMIT", limit_price=0.1234).limit_e4 == 1_234


@pytest.mark.parametrize(
    "instrument",
    [
        {"type": "STOCK", "contract": CALL},
        {"type": "STOCK", "symbol": "AVLN", "contract": CALL},
        {"type": "OPTION", "symbol": "AVLN"},
        {"type": "OPTION", "contract": "AVLN"},
        {"type": "STOCK", "symbol": "avln"},
        {"type": "STOCK", "symbol": "BRKT"},  # not in the universe
        {"type": "OPTION", "contract": CALL},
    ],
)
def test_instruments_that_are_none_or_not_of_the_session_are_refused(instrument: dict[str, str]) -> None:
    play = Play([FLAT])
    with pytest.raises(ServiceError) as caught:
        play.call("order.place", order={"instrument": instrument, "side": "BUY", "order_type": "MARKET", "qty": 1})
    assert caught.value.code == "invalid_argument"


def test_contracts_must_be_listed() -> None:
    play = Play(market({"AVLN": minutes([FLAT])}), universe={"stocks": ["AVLN"], "options": [CALL]})
    with pytest.raises(ServiceError, match="no such contract is listed"):
        play.order("BUY", "MARKET", 1, CALL)


def test_contracts_must_be_alive() -> None:
    universe = {"stocks": ["AVLN"], "options": ["O:AVLN250107C00100000"]}
    bars = market({"AVLN": minutes([FLAT]), "O:AVLN250107C00100000": minutes([FLAT])})
    play = Play(bars, universe=universe)
    play.step(2 * 390 - 1)
    play.order("BUY", "MARKET", 1, universe["options"][0])
    play.step()
    with pytest.raises(ServiceError, match="expired"):
        play.order("BUY", "MARKET", 1, universe["options"][0])
    with pytest.raises(ServiceError, match="expired"):
        Play(bars, universe=universe, start="2025-01-08T14:30:00Z")


def test_orders_need_a_running_session_of_their_account() -> None:
    play = Play([FLAT])
    other = play.broker.execute("account.create", {"account_type": "CASH", "initial_cash": 1}).id
    order = {"instrument": {"type": "STOCK", "symbol": "AVLN"}, "side": "BUY", "order_type": "MARKET", "qty": 1}
    for account_id, session_id, code in ((other, play.session_id, "conflict"), (play.account_id, "sess-000009", "not_found")):
        with pytest.raises(ServiceError) as caught:
            play.broker.execute("order.place", {"session_id": session_id, "account_id": account_id, "order": order})
        assert caught.value.code == code
    play.call("session.stop")
    with pytest.raises(ServiceError, match="STOPPED"):
        play.order("BUY", "MARKET")


# --- What is rejected, on record --------------------------------------------------------------------------------------------------


def test_what_the_account_can_not_bear_is_an_order_on_record() -> None:
    play = Play([FLAT] * 3, cash=1_000)
    play.step()
    rejected = play.order("BUY", "MARKET", 21)
    assert (rejected.status, rejected.reason.split(":")[0]) == ("REJECTED", "INSUFFICIENT_BUYING_POWER")
    play.step()
    assert play.order("BUY", "MARKET", 20).status == "ACCEPTED"


def test_working_orders_tie_up_buying_power_until_they_end() -> None:
    play = Play([FLAT] * 3, cash=1_000)
    play.step()
    first = play.order("BUY", "LIMIT", 10, limit_price=90)
    assert play.order("BUY", "LIMIT", 20, limit_price=90).status == "REJECTED"
    play.call("order.cancel", order_id=first.id)
    assert play.order("BUY", "LIMIT", 20, limit_price=90).status == "ACCEPTED"


def test_a_market_order_without_any_known_price_is_rejected() -> None:
    play = two([FLAT] * 3, [FLAT] * 3)
    assert play.order("BUY", "MARKET").reason.startswith("NO_MARK")
    assert play.order("BUY", "LIMIT", limit_price=100.0).status == "ACCEPTED"


def test_a_fill_that_the_account_can_not_bear_any_more_cancels_the_order() -> None:
    rows: list[Row] = [FLAT, FLAT, (150, 150, 150, 150, 1_000_000)]
    play = Play(rows, cash=1_000)
    play.step(2)
    order = play.order("BUY", "MARKET", 19)  # costs 1,900 at the last price and 2,850 at the next
    assert order.status == "ACCEPTED"
    play.step()
    assert (order.status, order.reason.split(":")[0], play.held()) == ("CANCELLED", "INSUFFICIENT_BUYING_POWER", 0)


# --- Filling ----------------------------------------------------------------------------------------------------------------------


def test_an_order_fills_on_the_bar_after_it_not_on_the_one_before() -> None:
    play = Play(rising(5))
    play.step(2)
    order = play.order("BUY", "MARKET")
    assert order.status == "ACCEPTED"
    play.step()
    assert play.prices() == [102.0]


def test_the_first_bar_of_a_session_can_fill_what_was_sent_at_its_start() -> None:
    play = Play(rising(2))
    play.order("BUY", "LIMIT", limit_price=100.0)
    play.step()
    assert play.prices() == [100.0]


def test_orders_wait_for_bars() -> None:
    play = Play([FLAT, None, None, (99, 99, 99, 99, 1_000_000)])
    play.step()
    order = play.order("BUY", "MARKET")
    play.step(2)
    assert order.status == "ACCEPTED"
    play.step()
    assert (order.status, play.prices()) == ("FILLED", [99.0])


def test_bars_without_volume_fill_and_trigger_nothing() -> None:
    play = Play([FLAT, (100, 110, 90, 100, 0), FLAT])
    play.step()
    play.order("BUY", "STOP", stop_price=105.0)
    play.step(2)
    assert not play.state.orders["ord-000001"].triggered


def test_orders_share_a_bars_volume_in_the_order_of_their_arrival() -> None:
    thin: Row = (100, 100, 100, 100, 1_000)
    play = Play([FLAT] + [thin] * 4, config={**FREE, "fills": {**FREE["fills"], "max_volume_pct": 10}})
    play.step()
    first, second = play.order("BUY", "MARKET", 150), play.order("BUY", "LIMIT", 100, limit_price=101.0)
    play.step()
    assert (first.filled_qty, first.status, second.filled_qty) == (100, "PARTIALLY_FILLED", 0)
    play.step()
    assert (first.status, second.filled_qty, second.status) == ("FILLED", 50, "PARTIALLY_FILLED")
    play.step()
    assert (second.status, play.held()) == ("FILLED", 250)


def test_fees_are_paid_from_cash() -> None:
    play = Play([FLAT] * 2, config={})
    play.step()
    play.order("BUY", "MARKET", 1_000)
    play.step()
    assert play.account.fees_e4 == 5_000  # half a dollar
    assert play.account.cash_e4 == 10_000 * 1_000_000 - 1_000 * 1_000_100 - 5_000


def test_a_stop_limit_order_latches_and_then_waits_as_a_limit_order() -> None:
    rows: list[Row] = [FLAT, (106, 107, 105, 106, 1_000_000), (106, 107, 104.5, 106, 1_000_000), FLAT]
    play = Play(rows)
    play.step()
    order = play.order("BUY", "STOP_LIMIT", stop_price=103.0, limit_price=104.5)
    assert types(play.step()) == ["ORDER_TRIGGERED"]
    assert (order.triggered, order.filled_qty) == (True, 0)
    play.step()
    assert play.prices() == [104.5]


def test_round_trips_leave_profit_and_nothing_held() -> None:
    play = Play(rising(6))
    play.step()
    play.order("BUY", "MARKET", 100)
    play.step()
    play.order("SELL", "MARKET", 150)  # through zero
    play.step()
    play.order("BUY", "MARKET", 50)
    play.step()
    position = play.account.positions["STOCK:AVLN"]
    assert (position.qty, position.cost_e4, position.realized_e4) == (0, 0, 10_000 * (100 * 1 - 50 * 1))
    assert play.account.cash_e4 == 10_000 * (1_000_000 + 50)


# --- Ends -------------------------------------------------------------------------------------------------------------------------


def test_day_orders_expire_at_the_close_and_others_do_not() -> None:
    play = Play([FLAT])
    play.step()
    day = play.order("BUY", "LIMIT", 1, limit_price=50.0)
    lasting = play.order("BUY", "LIMIT", 1, limit_price=50.0, time_in_force="GTC")
    play.step(388)
    assert day.status == "ACCEPTED"
    play.step()
    assert (day.status, day.reason.split(":")[0], lasting.status) == ("EXPIRED", "DAY_OVER", "ACCEPTED")


def test_a_day_order_after_the_close_is_for_the_next_day() -> None:
    play = Play([FLAT])
    play.step(390)
    order = play.order("BUY", "LIMIT", 1, limit_price=50.0)
    play.step(389)
    assert order.status == "ACCEPTED"
    play.step()
    assert order.status == "EXPIRED"


def test_gtd_orders_expire_at_their_moment_and_may_fill_on_the_bar_that_ends_then() -> None:
    rows: list[Row] = [FLAT, FLAT, (90, 90, 90, 90, 1_000_000), (80, 80, 80, 80, 1_000_000)]
    play = Play(rows)
    play.step()
    good = play.order("BUY", "LIMIT", 1, limit_price=95.0, time_in_force="GTD", expire_ts="2025-01-06T14:33:00Z")
    late = play.order("BUY", "LIMIT", 1, limit_price=85.0, time_in_force="GTD", expire_ts="2025-01-06T14:33:30Z")
    play.step(3)
    assert (good.status, late.status) == ("FILLED", "EXPIRED")  # the bar that fills it would end after its time


def test_a_gtd_order_expires_between_ticks_too() -> None:
    play = Play([FLAT])
    play.step()
    order = play.order("BUY", "LIMIT", 1, limit_price=50.0, time_in_force="GTD", expire_ts="2025-01-06T23:00:00Z")
    play.until("2025-01-06T22:59:59Z")
    assert order.status == "ACCEPTED"
    play.until("2025-01-06T23:00:00Z")
    assert order.status == "EXPIRED"


def test_cancelling_ends_an_order_once() -> None:
    play = Play([FLAT] * 2)
    play.step()
    order = play.order("BUY", "LIMIT", limit_price=50.0)
    play.call("order.cancel", order_id=order.id)
    assert (order.status, play.state.working) == ("CANCELLED", {})
    with pytest.raises(ServiceError, match="CANCELLED"):
        play.call("order.cancel", order_id=order.id)


# --- Modification -----------------------------------------------------------------------------------------------------------------


def test_a_modification_is_a_new_order_without_its_place_in_time() -> None:
    play = Play([FLAT] * 3)
    play.step()
    order = play.order("BUY", "LIMIT", limit_price=50.0)
    changed = play.state.orders[play.call("order.modify", order_id=order.id, updates={"limit_price": 100.0}).id]
    assert (order.status, order.replaced_by, changed.replaces, changed.limit_e4) == ("CANCELLED", changed.id, order.id, 1_000_000)
    assert changed.seq > order.seq
    play.step()
    assert changed.status == "FILLED"


def test_a_modified_quantity_counts_what_is_filled() -> None:
    play = Play([FLAT, (100, 100, 100, 100, 60), (100, 100, 100, 100, 1_000_000)])
    play.step()
    order = play.order("BUY", "LIMIT", 100, limit_price=100.0)
    play.step()
    assert order.filled_qty == 60
    with pytest.raises(ServiceError, match="60 are filled"):
        play.call("order.modify", order_id=order.id, updates={"qty": 60})
    changed = play.state.orders[play.call("order.modify", order_id=order.id, updates={"qty": 80}).id]
    assert changed.qty == 20
    play.step()
    assert play.held() == 80


def test_a_modification_keeps_what_was_reached_and_when_it_expires() -> None:
    play = Play([FLAT, (106, 107, 105, 106, 1_000_000), FLAT])
    play.step()
    order = play.order("BUY", "STOP_LIMIT", stop_price=103.0, limit_price=104.0)
    play.step()
    with pytest.raises(ServiceError, match="reached already"):
        play.call("order.modify", order_id=order.id, updates={"stop_price": 110.0})
    changed = play.state.orders[play.call("order.modify", order_id=order.id, updates={"limit_price": 104.5}).id]
    assert (changed.triggered, changed.expire_ns) == (True, order.expire_ns)


@pytest.mark.parametrize(
    ("updates", "code"),
    [
        ({}, "invalid_argument"),
        ({"stop_price": 99.0}, "invalid_argument"),
        ({"limit_price": 99.001}, "invalid_argument"),
        ({"qty": 1_000_000}, "conflict"),
    ],
)
def test_a_modification_that_can_not_be_leaves_the_order_as_it_was(updates: dict[str, Any], code: str) -> None:
    play = Play([FLAT] * 2)
    play.step()
    order = play.order("BUY", "LIMIT", limit_price=50.0)
    with pytest.raises(ServiceError) as caught:
        play.call("order.modify", order_id=order.id, updates=updates)
    assert (caught.value.code, order.status) == (code, "ACCEPTED")


# --- Spreads ----------------------------------------------------------------------------------------------------------------------


def options(call: list[Row | None], put: list[Row | None]) -> Play:
    return Play(market({"AVLN": minutes([FLAT] * 10), CALL: minutes(call), PUT: minutes(put)}))


def test_a_spread_waits_until_all_its_legs_have_a_bar() -> None:
    price: Row = (3, 3, 3, 3, 1_000)
    play = options([price, price, None, price], [price, None, price, price])
    play.step()
    legs = play.spread(("BUY", CALL, 1), ("SELL", PUT, 1), qty=10)
    play.step(2)
    assert [leg.status for leg in legs] == ["ACCEPTED", "ACCEPTED"]
    play.step()
    assert [leg.status for leg in legs] == ["FILLED", "FILLED"]
    assert (play.held(CALL), play.held(PUT)) == (10, -10)


def test_a_spread_fills_only_within_its_net_limit() -> None:
    play = options([(5, 5, 5, 5, 1_000)] * 2 + [(4, 4, 4, 4, 1_000)] * 2, [(3, 3, 3, 3, 1_000)] * 4)
    play.step()
    legs = play.spread(("BUY", CALL, 1), ("SELL", PUT, 1), net_limit_price=1.0)
    play.step()
    assert legs[0].status == "ACCEPTED"  # 5 − 3 is 2
    play.step()
    assert play.prices() == [4.0, 3.0]


def test_a_leg_takes_the_whole_spread_with_it() -> None:
    price: Row = (3, 3, 3, 3, 1_000)
    play = options([price] * 3, [price] * 3)
    play.step()
    legs = play.spread(("BUY", CALL, 1), ("BUY", PUT, 2), net_limit_price=1.0)
    with pytest.raises(ServiceError, match="spread"):
        play.call("order.modify", order_id=legs[1].id, updates={"qty": 1})
    play.call("order.cancel", order_id=legs[1].id)
    assert [leg.status for leg in legs] == ["CANCELLED", "CANCELLED"]


@pytest.mark.parametrize(
    ("legs", "field"),
    [
        ((("BUY", CALL, 1), ("SELL", CALL, 1)), "legs"),
        ((("BUY", CALL, 1), ("SELL", "BRKT", 1)), "legs"),
        ((("BUY", CALL, 1_000), ("SELL", PUT, 1)), "legs[0].ratio"),
    ],
)
def test_legs_that_make_no_spread_are_refused(legs: Any, field: str) -> None:
    price: Row = (3, 3, 3, 3, 1_000)
    with pytest.raises(ServiceError) as caught:
        options([price], [price]).spread(*legs, qty=10_000)
    assert caught.value.field == field


def test_shares_and_calls_can_be_traded_as_one() -> None:
    play = options([(3, 3, 3, 3, 1_000)] * 3, [(3, 3, 3, 3, 1_000)] * 3)
    play.step()
    play.spread(("BUY", "AVLN", 100), ("SELL", CALL, 1), qty=2, net_limit_price=97.0)
    play.step()
    assert (play.held(), play.held(CALL)) == (200, -2)


# --- A client's own ids -----------------------------------------------------------------------------------------------------------


def test_a_clients_id_stands_for_one_order() -> None:
    play = Play([FLAT] * 2)
    play.step()
    first = play.order("BUY", "LIMIT", limit_price=50.0, client_order_id="mine")
    again = play.order("BUY", "LIMIT", limit_price=50.0, client_order_id="mine")
    assert (again.id, len(play.state.orders)) == (first.id, 1)
    with pytest.raises(ServiceError) as caught:
        play.order("BUY", "LIMIT", limit_price=51.0, client_order_id="mine")
    assert (caught.value.code, caught.value.field) == ("conflict", "client_order_id")


def test_a_spread_has_a_clients_id_too() -> None:
    price: Row = (3, 3, 3, 3, 1_000)
    play = options([price] * 3, [price] * 3)
    play.step()
    first = play.spread(("BUY", CALL, 1), ("BUY", PUT, 1), client_order_id="both")
    assert play.spread(("BUY", CALL, 1), ("BUY", PUT, 1), client_order_id="both") == first
    with pytest.raises(ServiceError, match="another order"):
        play.spread(("BUY", CALL, 1), ("BUY", PUT, 1), qty=2, client_order_id="both")


def test_options_of_a_day_session_trade_on_bars_of_days() -> None:
    play = Play(small_dataset(), start="2025-01-06T21:00:00Z", frequency="1d", end_ts="2025-01-17")
    order = play.order("BUY", "MARKET", 1, CALL)
    play.step()
    assert (order.status, play.held(CALL)) == ("FILLED", 1)
