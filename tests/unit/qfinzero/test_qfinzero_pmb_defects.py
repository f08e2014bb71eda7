"""What the public broker gets wrong or lacks in its accounts, sessions and orders: one test each, that ours does not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.moments import DAY, MINUTE, moment_text
from ktdeval_qfinzero.operations import Catalogue
from ktdeval_qfinzero.pmb.broker import rerun, verify
from ktdeval_qfinzero.pmb.log import state_of_log
from ktdeval_qfinzero.pmb.operations import OPERATIONS
from ktdeval_qfinzero.workspace import Workspace
from qfinzero_broker_play import FLAT, FREE, OPEN, Play, Row, market, minutes, table, thing, types
from qfinzero_memory import MemoryPrices
from qfinzero_world import at, small_dataset

CATALOGUE = Catalogue(OPERATIONS)
CALL, PUT = "O:AVLN250117C00100000", "O:AVLN250117P00100000"
MIDNIGHT = at("2025-01-06T00:00:00Z")


def days(*rows: Row, symbol: str = "AVLN", **more: Any) -> Play:
    """A session of days from Monday 2025-01-06 on, clock at its midnight."""
    offsets = [0, 1, 2, 4, 7, 8, 9][: len(rows)]  # the 9th was a holiday, then a weekend
    bars = {symbol: table([MIDNIGHT + day * DAY for day in offsets], list(rows))}
    return Play(market(bars, "day"), frequency="1d", start="2025-01-06T00:00:00Z", end_ts="2025-01-15", **more)


def answer(workspace: Workspace, name: str, **given: Any) -> Any:
    return CATALOGUE.answer(workspace, name, given)


# --- The account ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "reason"), [("BUY", "INSUFFICIENT_BUYING_POWER"), ("SELL", "INSUFFICIENT_BUYING_POWER")])
def test_purchases_and_short_sales_need_buying_power(side: str, reason: str) -> None:
    play = Play([FLAT] * 2, cash=10_000)
    play.step()
    assert play.order(side, "MARKET", 1_000).reason.startswith(reason)


def test_a_caller_can_not_name_the_price_of_a_trade() -> None:
    workspace = Workspace(small_dataset())
    order = {"instrument": thing("AVLN"), "side": "BUY", "order_type": "MARKET", "qty": 1, "price": 1.0}
    refused = answer(workspace, "PMB.order.place", session_id="sess-000001", account_id="acct-000001", order=order)
    assert (refused["error"]["code"], refused["error"]["field"]) == ("invalid_argument", "order")


def test_nothing_fills_at_or_shows_a_close_that_is_not_known_yet() -> None:
    play = days(FLAT, (100, 130, 100, 130, 1_000_000))
    play.until("2025-01-07T14:29:00Z")
    play.order("BUY", "MARKET")
    play.until("2025-01-07T20:59:59Z")
    assert play.held() == 0
    assert play.broker.engine.marks()["STOCK:AVLN"] == 1_000_000
    play.step()
    assert play.prices() == [100.0]  # the open that came after the order, not the close


def test_a_day_session_shows_only_bars_of_days_that_are_over() -> None:
    workspace = Workspace(small_dataset(), at("2025-01-06T20:59:00Z"))
    account_id = answer(workspace, "PMB.account.create")["account_id"]
    span = {"start_ts": "2025-01-06T20:59:00Z", "end_ts": "2025-01-08", "frequency": "1d", "universe": {"stocks": ["AVLN"]}}
    session_id = answer(workspace, "PMB.session.create", account_id=account_id, **span)["session_id"]
    assert answer(workspace, "PMB.session.market", session_id=session_id)["bars"][0]["end_ts"] == "2025-01-03T21:00:00Z"
    answer(workspace, "PMB.session.step", session_id=session_id)
    assert answer(workspace, "PMB.session.market", session_id=session_id)["bars"][0]["end_ts"] == "2025-01-06T21:00:00Z"


def test_nothing_fills_on_a_price_of_days_ago() -> None:
    play = Play([FLAT])
    play.step()
    order = play.order("BUY", "MARKET", time_in_force="GTC")
    play.step(500)
    assert (order.status, play.held()) == ("ACCEPTED", 0)


def test_days_go_forward_only_and_pass_over_holidays() -> None:
    play = days(FLAT)
    play.step(3)
    assert moment_text(play.broker.clock.as_of_ns) == "2025-01-08T21:00:00Z"
    play.step()
    assert moment_text(play.broker.clock.as_of_ns) == "2025-01-10T21:00:00Z"  # the markets were closed on the 9th
    with pytest.raises(ServiceError, match="later moment"):
        play.until("2025-01-08T21:00:00Z")
    with pytest.raises(ServiceError, match="can't go back"):
        play.broker.clock.advance(OPEN)


def test_accounts_hold_options() -> None:
    price: Row = (3, 3, 3, 3, 1_000)
    play = Play(market({"AVLN": minutes([FLAT] * 3), CALL: minutes([price] * 3)}))
    play.step()
    play.order("BUY", "MARKET", 2, CALL)
    play.step()
    assert (play.held(CALL), play.account.cash_e4) == (2, 10_000 * (1_000_000 - 600))


def test_an_account_is_made_again_from_its_log() -> None:
    play = Play([FLAT] * 3)
    play.order("BUY", "LIMIT", limit_price=100.0)
    play.step(2)
    assert state_of_log(play.broker.log.to_lines()).accounts == play.state.accounts


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        ("fees", "stock_per_share_e4", 100),
        ("fees", "option_per_contract_e4", 10_000),
        ("fees", "option_exercise_e4", 10_000),
        ("fills", "slippage_bps", 50),
        ("fills", "option_spread_bps", 500),
        ("fills", "max_volume_pct", 1),
        ("margin", "long_initial_pct", 100),
        ("margin", "long_maintenance_pct", 60),
        ("margin", "short_initial_pct", 100),
        ("margin", "short_maintenance_pct", 90),
        ("margin", "short_minimum_e4", 1_000_000),
        ("margin", "option_short_pct", 90),
        ("margin", "option_short_floor_pct", 90),
        ("margin", "debit_interest_bps", 2_000),
        ("margin", "call_days", 0),
    ],
)
def test_every_setting_does_something(group: str, name: str, value: int) -> None:
    assert told({group: {name: value}}) != told({})


def told(config: dict[str, Any]) -> list[Any]:
    """What came of stock on margin, a short sale, options bought, written and exercised, and a fall in price."""
    stock: list[Row] = [(100, 100, 100, 100, 60_000)] * 4 + [(60, 60, 60, 60, 60_000)] * 3
    option: list[Row] = [(3, 3, 3, 3, 5_000)] * 7
    plays = []
    for orders in ([("BUY", 1_950, "AVLN")], [("SELL", 700, "AVLN")], [("BUY", 2, CALL), ("SELL", 8, PUT)]):
        play = Play(market({"AVLN": minutes(stock), CALL: minutes(option), PUT: minutes(option)}), cash=100_000, config=config)
        play.step()
        for side, qty, symbol in orders:
            play.order(side, "MARKET", qty, symbol, time_in_force="GTC")
        play.step(2)
        if play.held(CALL):
            play.call("option.exercise", contract=CALL, qty=1)
        play.step(800)
        plays.append([[event.type, event.data] for event in play.broker.log.events() if event.type != "SESSION_CREATED"])
    return plays


def test_a_session_trades_the_account_itself() -> None:
    play = Play([FLAT] * 5)
    play.order("BUY", "LIMIT", limit_price=100.0)
    play.step()
    play.call("session.stop")
    asked = {"frequency": "1m", "start_ts": "2025-01-06T14:31:00Z", "end_ts": "2025-01-07", "universe": {"stocks": ["AVLN"]}}
    play.session_id = play.broker.execute("session.create", {"account_id": play.account_id, **asked}).id
    play.order("SELL", "MARKET")
    play.step()
    assert (play.held(), play.account.initial_cash_e4) == (0, 10_000 * 1_000_000)


# --- Sessions ---------------------------------------------------------------------------------------------------------------------


def test_the_summary_has_a_sharpe_ratio_and_the_share_of_commands_that_were_refused() -> None:
    workspace = Workspace(small_dataset(), at("2025-01-06T21:00:00Z"))
    account = {"account_id": answer(workspace, "PMB.account.create")["account_id"]}
    span = {"start_ts": "2025-01-06T21:00:00Z", "end_ts": "2025-01-31", "frequency": "1d", "universe": {"stocks": ["AVLN"]}}
    session = {"session_id": answer(workspace, "PMB.session.create", **account, **span)["session_id"]}
    order = {"instrument": thing("AVLN"), "side": "BUY", "order_type": "MARKET", "qty": 100}
    answer(workspace, "PMB.order.place", **account, **session, order=order)
    answer(workspace, "PMB.order.place", **account, **session, order={**order, "instrument": thing("BRKT")})
    answer(workspace, "PMB.session.step", **session, step=10)
    summary = answer(workspace, "PMB.session.summary", **session)
    assert isinstance(summary["sharpe"], float)
    assert summary["invalid_action_rate"] == pytest.approx(1 / 3)


def test_stepping_a_session_that_is_over_is_refused() -> None:
    play = Play([FLAT])
    play.call("session.stop")
    with pytest.raises(ServiceError) as caught:
        play.step()
    assert caught.value.code == "conflict"


def test_what_an_account_locks_and_borrows_is_shown() -> None:
    workspace = Workspace(small_dataset(), at("2025-01-06T21:00:00Z"))
    account = {"account_id": answer(workspace, "PMB.account.create", initial_cash=10_000)["account_id"]}
    span = {"start_ts": "2025-01-06T21:00:00Z", "end_ts": "2025-01-31", "frequency": "1d", "universe": {"stocks": ["AVLN"]}}
    session = {"session_id": answer(workspace, "PMB.session.create", **account, **span)["session_id"]}
    order = {"instrument": thing("AVLN"), "side": "BUY", "order_type": "MARKET", "qty": 150}
    answer(workspace, "PMB.order.place", **account, **session, order=order)
    assert answer(workspace, "PMB.account.get", **account)["account"]["reserved"] > 0
    after = answer(workspace, "PMB.session.step", **session)["account"]
    assert (after["reserved"], after["cash"] < 0) == (0, True)


# --- Orders -----------------------------------------------------------------------------------------------------------------------


def test_a_sell_stop_never_fills_above_its_stop_price() -> None:
    play = Play([FLAT, (100, 100, 97, 97.5, 1_000_000)], config={})
    play.step()
    play.order("SELL", "STOP", stop_price=98.0)
    play.step()
    assert play.prices() == [97.99]


def test_a_limit_order_is_not_improved_by_the_close() -> None:
    play = Play([FLAT, (100, 101, 91, 92, 1_000_000)])
    play.step()
    play.order("BUY", "LIMIT", limit_price=99.0)
    play.step()
    assert play.prices() == [99.0]


def test_a_limit_order_that_the_market_opens_beyond_fills_at_the_open() -> None:
    play = Play([FLAT, (90, 101, 89, 100, 1_000_000)])
    play.step()
    play.order("BUY", "LIMIT", limit_price=99.0)
    play.step()
    assert play.prices() == [90.0]


def test_day_and_gtd_orders_expire() -> None:
    play = Play([FLAT])
    play.step()
    day = play.order("BUY", "LIMIT", limit_price=1.0)
    dated = play.order("BUY", "LIMIT", limit_price=1.0, time_in_force="GTD", expire_ts="2025-01-07T15:00:00Z")
    play.step(800)
    assert (day.status, dated.status, dated.expire_ns) == ("EXPIRED", "EXPIRED", at("2025-01-07T15:00:00Z"))


def test_a_bar_fills_no_more_than_a_share_of_its_volume() -> None:
    play = Play([FLAT, (100, 100, 100, 100, 1), (100, 100, 100, 100, 100)], config={"fills": {"max_volume_pct": 50}})
    play.step()
    order = play.order("BUY", "MARKET", 500)
    play.step()
    assert order.filled_qty == 0
    play.step()
    assert (order.filled_qty, order.status) == (50, "PARTIALLY_FILLED")


def test_finished_sessions_take_no_orders() -> None:
    play = Play([FLAT], end_ts="2025-01-06T14:31:00Z")
    play.step()
    with pytest.raises(ServiceError, match="FINISHED"):
        play.order("BUY", "MARKET")


def test_unknown_instruments_are_refused() -> None:
    with pytest.raises(ServiceError) as caught:
        Play([FLAT]).order("BUY", "MARKET", symbol="NONE")
    assert caught.value.code == "invalid_argument"


def test_another_accounts_session_takes_no_orders() -> None:
    play = Play([FLAT])
    other = play.broker.execute("account.create", {"account_type": "MARGIN", "initial_cash": 1_000}).id
    order = {"instrument": thing("AVLN"), "side": "BUY", "order_type": "MARKET", "qty": 1}
    with pytest.raises(ServiceError, match="another account"):
        play.call("order.place", account_id=other, order=order)


@pytest.mark.parametrize("updates", [{"qty": -5}, {"qty": 0}, {"limit_price": -1.0}, {"limit_price": 1.001}])
def test_an_order_and_its_modification_are_checked_alike(updates: dict[str, Any]) -> None:
    workspace = Workspace(small_dataset(), OPEN)
    account = {"account_id": answer(workspace, "PMB.account.create")["account_id"]}
    span = {"start_ts": moment_text(OPEN), "end_ts": "2025-01-07", "universe": {"stocks": ["AVLN"]}}
    both = {**account, "session_id": answer(workspace, "PMB.session.create", **account, **span)["session_id"]}
    order = {"instrument": thing("AVLN"), "side": "BUY", "order_type": "LIMIT", "qty": 1, "limit_price": 50.0}
    order_id = answer(workspace, "PMB.order.place", **both, order=order)["order_id"]
    refused = answer(workspace, "PMB.order.modify", **both, order_id=order_id, updates=updates)
    assert refused["error"]["code"] == "invalid_argument"
    assert workspace.broker.state.orders[order_id].status == "ACCEPTED"


def test_modifications_are_in_the_log_and_replay() -> None:
    play = Play([FLAT] * 3)
    order = play.order("BUY", "LIMIT", limit_price=50.0)
    play.call("order.modify", order_id=order.id, updates={"limit_price": 100.0})
    play.step()
    verify(play.broker.log.to_lines(), play.dataset)
    assert any('"order.modify"' in line for line in play.broker.log.to_lines())


def test_stopping_a_session_ends_its_orders() -> None:
    play = Play([FLAT] * 3)
    order = play.order("BUY", "LIMIT", limit_price=50.0, time_in_force="GTC")
    play.call("session.stop")
    assert (order.status, order.reason.split(":")[0], play.state.working) == ("EXPIRED", "SESSION_OVER", {})


def test_a_stop_limit_order_stays_triggered() -> None:
    play = Play([FLAT, (106, 107, 105, 106, 1_000_000), (99, 100, 98, 99, 1_000_000)])
    play.step()
    order = play.order("BUY", "STOP_LIMIT", stop_price=103.0, limit_price=104.0)
    play.step()
    assert (order.triggered, order.status) == (True, "ACCEPTED")
    play.step()
    assert play.prices() == [99.0]  # below the stop, which needs no second test


def test_legs_of_a_spread_fill_together_on_one_test() -> None:
    price: Row = (3, 3, 3, 3, 1_000)
    play = Play(market({"AVLN": minutes([FLAT] * 4), CALL: minutes([price] * 4), PUT: minutes([price, None, price, price])}))
    play.step()
    legs = play.spread(("BUY", CALL, 1), ("BUY", PUT, 1))
    play.step()
    assert play.state.trades == []
    play.step()
    assert [leg.status for leg in legs] == ["FILLED", "FILLED"]
    assert len({trade.ts_ns for trade in play.state.trades}) == 1


def test_spreads_need_buying_power() -> None:
    price: Row = (3, 3, 3, 3, 100_000)
    play = Play(market({"AVLN": minutes([FLAT] * 4), CALL: minutes([price] * 4), PUT: minutes([price] * 4)}), cash=5_000)
    play.step()
    legs = play.spread(("SELL", CALL, 1), ("SELL", PUT, 1), qty=100)
    assert [(leg.status, leg.reason.split(":")[0]) for leg in legs] == [("REJECTED", "INSUFFICIENT_BUYING_POWER")] * 2


def test_equal_commands_give_equal_ids_and_bytes() -> None:
    def played() -> Play:
        play = Play([FLAT] * 5, config={})
        play.order("BUY", "LIMIT", limit_price=100.0)
        play.step(3)
        return play

    first, second = played().broker.log.to_lines(), played().broker.log.to_lines()
    assert first == second == rerun(first, played().dataset)
    ids = set(re.findall(r'"(?:order|trade|session|account)_id":"([^"]+)"', "\n".join(first)))
    assert ids == {"", "ord-000001", "trd-000001", "sess-000001", "acct-000001"} - ({""} if "" not in ids else set())


def test_orders_for_an_option_that_expires_end_with_an_event() -> None:
    contract = "O:AVLN250106C00100000"
    price: Row = (3, 3, 3, 3, 1_000)
    play = Play(market({"AVLN": minutes([FLAT]), contract: minutes([price])}))
    play.step()
    order = play.order("BUY", "LIMIT", 1, contract, limit_price=1.0, time_in_force="GTC")
    events = play.step(389)
    assert types(events) == ["ORDER_EXPIRED", "DAY_CLOSED"]
    assert order.reason.startswith("CONTRACT_EXPIRED")


def test_ticks_are_those_of_the_exchange_whichever_instruments_have_bars() -> None:
    sparse = market({"AVLN": minutes([FLAT, None, None, FLAT]), "BRKT": minutes([None, FLAT])})
    play = Play(sparse)
    play.step(3)
    assert play.broker.clock.as_of_ns == OPEN + 3 * MINUTE


def test_a_day_session_fills_every_instrument_at_its_open() -> None:
    rows: list[Row] = [FLAT, (100, 120, 99, 118, 1_000_000)]
    play = days(*rows)
    play.step()
    play.order("BUY", "MARKET")
    play.step()
    assert play.prices() == [100.0]


def test_a_day_is_one_tick_wherever_in_it_a_store_puts_its_bars() -> None:
    eastern_midnight = 5 * 60 * MINUTE
    bars = {"AVLN": table([MIDNIGHT, MIDNIGHT + DAY], [FLAT, FLAT])}
    bars[CALL] = table([MIDNIGHT + eastern_midnight, MIDNIGHT + DAY + eastern_midnight], [(3, 3, 3, 3, 1_000)] * 2)
    play = Play(market(bars, "day"), frequency="1d", start="2025-01-06T00:00:00Z", end_ts="2025-01-07", config=FREE)
    play.order("BUY", "LIMIT", 1, symbol=CALL, limit_price=3.0)
    play.order("BUY", "LIMIT", 1, limit_price=100.0)
    play.step()
    assert len(play.state.trades) == 2
    assert len({trade.ts_ns for trade in play.state.trades}) == 1


def test_there_is_no_way_back_in_time() -> None:
    assert not [operation.name for operation in OPERATIONS if "rewind" in operation.name]


def test_a_clients_id_does_not_hide_another_order() -> None:
    play = Play([FLAT] * 2)
    play.order("BUY", "LIMIT", limit_price=50.0, client_order_id="mine")
    with pytest.raises(ServiceError) as caught:
        play.order("SELL", "LIMIT", limit_price=50.0, client_order_id="mine")
    assert caught.value.code == "conflict"


def test_every_state_of_an_order_can_be_reached() -> None:
    play = Play([FLAT, (100, 100, 100, 100, 10), FLAT], cash=100_000)
    play.step()
    filled = play.order("BUY", "MARKET", 5)
    partly = play.order("BUY", "LIMIT", 10, limit_price=100.0)
    cancelled, expired = (play.order("BUY", "LIMIT", 1, limit_price=1.0) for _ in range(2))
    rejected = play.order("BUY", "MARKET", 1_000_000)
    play.call("order.cancel", order_id=cancelled.id)
    waiting = play.order("BUY", "LIMIT", 1, limit_price=1.0, time_in_force="GTC")
    play.step()
    assert partly.status == "PARTIALLY_FILLED"
    play.step(388)
    states = [order.status for order in (filled, partly, cancelled, expired, rejected, waiting)]
    assert states == ["FILLED", "FILLED", "CANCELLED", "EXPIRED", "REJECTED", "ACCEPTED"]


def test_the_underlying_of_an_option_is_priced_outside_of_the_universe() -> None:
    price: Row = (3, 3, 3, 3, 1_000)
    dataset = market({"AVLN": minutes([FLAT] * 3), CALL: minutes([price] * 3)})
    play = Play(dataset, universe={"stocks": [], "options": [CALL]})
    play.step()
    assert play.order("SELL", "MARKET", 1, CALL).status == "ACCEPTED"


def test_events_are_told_in_plain_dollars_and_moments() -> None:
    dataset = small_dataset()
    assert isinstance(dataset.prices, MemoryPrices)
    workspace = Workspace(replace(dataset), OPEN)
    account = {"account_id": answer(workspace, "PMB.account.create")["account_id"]}
    span = {"start_ts": moment_text(OPEN), "end_ts": "2025-01-07", "universe": {"stocks": ["AVLN"]}}
    both = {**account, "session_id": answer(workspace, "PMB.session.create", **account, **span)["session_id"]}
    order = {"instrument": thing("AVLN"), "side": "BUY", "order_type": "MARKET", "qty": 1}
    answer(workspace, "PMB.order.place", **both, order=order)
    event = answer(workspace, "PMB.session.step", session_id=both["session_id"])["events"][0]
    assert (event["ts"], event["type"], event["data"]["price"]) == ("2025-01-06T14:31:00Z", "TRADE", 100.01)
    assert "_e4" not in json.dumps(event)
