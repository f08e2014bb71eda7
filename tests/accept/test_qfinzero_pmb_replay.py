"""The log: the state is what its events make of it, its commands bring about the same bytes, and
what was changed in it shows.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from ktdeval.errors import DataError
from ktdeval.values import dumps_canonical
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import DatasetInfo
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.pmb.bar_feed import ticks_by
from ktdeval_qfinzero.pmb.broker import COMMANDS, Broker, rerun, verify
from ktdeval_qfinzero.pmb.log import state_of_log
from ktdeval_qfinzero.timestamps import Clock, day_of, moment_text
from ktdeval_qfinzero.trading_hours import trading_hours
from support.qfinzero.qfinzero_broker_play import FLAT, Play, chained, thing
from support.qfinzero.qfinzero_invariants import check_invariants
from support.qfinzero.qfinzero_memory import MemoryCalendars, MemoryNews
from support.qfinzero.qfinzero_synthetic import generate_minutes
from support.qfinzero.qfinzero_world import at, small_dataset

CALL = "O:AVLN250117C00090000"
HIGHER = "O:AVLN250117C00095000"


def everything() -> Play:
    """A session of days with every command and most events: dividends, a split, expiry, a short
    position, refusals.
    """
    play = Play(
        small_dataset(),
        start="2025-01-06T21:00:00Z",
        frequency="1d",
        end_ts="2025-01-24",
        config={},
    )
    play.order("BUY", "MARKET", 100, client_order_id="a")
    play.order("BUY", "MARKET", 100, client_order_id="a")
    play.order("SELL", "MARKET", 20, "BRKT")
    play.order("BUY", "MARKET", 15, "CSTL")
    play.order("BUY", "MARKET", 100_000)
    play.spread(("BUY", CALL, 1), ("SELL", HIGHER, 1), qty=2)
    play.step(2)
    order = play.order("BUY", "LIMIT", 10, limit_price=20.0, time_in_force="GTC")
    play.call("order.modify", order_id=order.id, updates={"qty": 5})
    play.call("order.cancel", order_id="ord-000008")

    for attempt in ({"order_id": order.id}, {"order_id": "ord-000099"}):
        with pytest.raises(ServiceError):
            play.call("order.cancel", **attempt)

    play.call("option.exercise", contract=CALL, qty=1)
    play.call("option.exercise", contract=CALL, do_not_exercise=True)
    play.until("2025-01-15T12:00:00Z")
    play.broker.clock.advance(at("2025-01-16T12:00:00Z"))
    play.step(10)

    return play


@cache
def lines() -> tuple[str, ...]:
    return everything().broker.log.to_lines()


def log_entries() -> list[Any]:
    return [json.loads(line) for line in lines()]


def test_state_follows_from_events_and_rerun_commands_give_the_same_log() -> None:
    play = everything()
    assert play.broker.log.to_lines() == lines() == rerun(lines(), small_dataset())
    assert state_of_log(lines()) == play.state

    check_invariants(play.broker)
    verify(lines(), small_dataset())
    order: dict[str, Any] = {
        "instrument": thing("AVLN"),
        "side": "BUY",
        "order_type": "LIMIT",
        "qty": 1,
        "limit_price": 1.0,
    }
    play = Play([FLAT])
    play.call("order.place", order=order)
    order["qty"] = 2  # what a caller does with its arguments later is no part of the log
    verify(play.broker.log.to_lines(), play.dataset)


def test_log_has_every_command_and_refusal_in_a_hash_chain() -> None:
    assert [each["seq"] for each in log_entries()] == list(range(len(log_entries())))

    moments = [each["ts_ns"] for each in log_entries()]
    assert moments == sorted(moments)
    assert {each["type"] for each in log_entries() if each["kind"] == "command"} == {*COMMANDS} - {
        "session.stop"
    }
    assert [
        each["data"]["code"] for each in log_entries() if each["type"] == "COMMAND_REFUSED"
    ] == [
        "conflict",
        "not_found",
    ]
    assert {"DIVIDEND", "POSITION_SPLIT", "OPTION_EXERCISED", "OPTION_EXPIRED", "BORROW_FEE"} <= {
        each["type"] for each in log_entries()
    }
    assert chained(log_entries()) == list(lines())


def test_changed_missing_moved_or_repeated_log_lines_are_found() -> None:
    for index in (0, 1, 7, len(lines()) - 1):
        changed = log_entries()
        changed[index]["ts_ns"] += 1
        with pytest.raises(DataError, match=f"line {index + 1}: its hash"):
            state_of_log([dumps_canonical(each) for each in changed])

    for order in ([1, 2, 3, 4], [0, 1, 2, 4], [0, 2, 1], [0, 0, 1]):
        with pytest.raises(DataError, match="line"):
            state_of_log([lines()[index] for index in order])

    for text in ("", "nonsense", "[]", "{}", '{"seq": 0}'):
        with pytest.raises(DataError, match="line 1"):
            state_of_log([text])

    with pytest.raises(DataError, match="first line"):
        state_of_log([])


def test_rehashed_or_truncated_log_is_found_by_replaying_its_commands() -> None:
    forged = log_entries()
    next(each for each in forged if each["type"] == "TRADE")["data"]["price_e4"] -= 100
    state_of_log(chained(forged))

    with pytest.raises(DataError, match="gives something else"):
        verify(chained(forged), small_dataset())

    with pytest.raises(DataError, match="lines"):
        verify(lines()[:-1], small_dataset())

    other = replace(small_dataset(), info=replace(small_dataset().info, content_id="1" * 64))
    with pytest.raises(DataError, match="other data"):
        rerun(lines(), other)


@pytest.mark.parametrize("value", [None, [], {}, "x", -1, 10**30, 1.5])
@pytest.mark.parametrize(
    ("type_", "name"),
    [("session.step", "step"), ("order.place", "order"), ("TRADE", "order_id"), ("TRADE", "qty")],
)
def test_a_log_that_no_broker_wrote_is_refused_and_crashes_nothing(
    type_: str, name: str, value: Any
) -> None:
    play = Play([FLAT] * 5)
    play.order("BUY", "LIMIT", limit_price=100.0)
    play.step(2)
    forged = [json.loads(line) for line in play.broker.log.to_lines()]
    next(each for each in forged if each["type"] == type_)["data"][name] = value

    with pytest.raises(DataError, match="broker log"):
        verify(chained(forged), play.dataset)

    with pytest.raises(DataError, match="broker log"):
        state_of_log([dumps_canonical(each) for each in forged])

    unfit = {
        "seq": len(forged),
        "ts_ns": 0,
        "kind": "event",
        "type": "ORDER_TRIGGERED",
        "data": {"order_id": "ord-000009"},
    }

    with pytest.raises(DataError, match="does not fit what was before"):
        state_of_log(chained([*map(json.loads, play.broker.log.to_lines()), unfit]))


# --- Long sessions
# ----------------------------------------------------------------------------------------------------------------


def generated(symbols: int, days: int) -> Dataset:
    """A generated market of minutes."""
    prices = generate_minutes(symbols, days)
    starts = next(iter(prices.bar_table.values())).start_ns
    first = day_of(int(starts[0]))
    last = day_of(int(starts[-1]))
    info = DatasetInfo("generated", True, "0" * 64, first, last, first, last, int(starts[0]))

    return Dataset(info, prices, MemoryCalendars(), MemoryNews())


def play_orders(dataset: Dataset, orders: int) -> Broker:
    """A session over all minutes with orders of all types at even distances."""
    broker = Broker(dataset, Clock(dataset.info.default_as_of_ns))
    account = broker.execute(
        "account.create", {"account_type": "MARGIN", "initial_cash": 1_000_000}
    ).id
    symbols = [row.symbol for row in dataset.prices.symbols(broker.clock.as_of_ns)]
    start = broker.clock.as_of_ns
    end = dataset.info.last_day.isoformat()
    asked = {
        "frequency": "1m",
        "start_ts": moment_text(start),
        "end_ts": end,
        "universe": {"stocks": symbols},
    }
    both = {
        "account_id": account,
        "session_id": broker.execute("session.create", {"account_id": account, **asked}).id,
    }
    ticks = ticks_by(
        trading_hours(), broker.state.sessions[both["session_id"]].end_ns, "1m"
    ) - ticks_by(trading_hours(), start, "1m")
    chance = np.random.default_rng(5)

    for number in range(orders):
        symbol = symbols[int(chance.integers(len(symbols)))]
        price = broker.engine.marks().get(f"STOCK:{symbol}", 1_000_000) / 10_000
        near = max(1.0, round(float(price * chance.uniform(0.99, 1.01)), 2))
        order_type = ("MARKET", "LIMIT", "STOP", "STOP_LIMIT")[int(chance.integers(4))]
        order: dict[str, Any] = {
            "instrument": thing(symbol),
            "side": ("BUY", "SELL")[number % 2],
            "order_type": order_type,
        }
        order |= {
            "qty": int(chance.integers(1, 100)),
            "time_in_force": ("DAY", "GTC")[int(chance.integers(2))],
        }
        order |= {"limit_price": near} if "LIMIT" in order_type else {}
        order |= {"stop_price": near} if "STOP" in order_type else {}
        broker.execute("order.place", {**both, "order": order})
        passing = ticks * (number + 1) // orders - ticks * number // orders
        broker.execute("session.step", {"session_id": both["session_id"], "step": passing})
        check_invariants(broker)

    return broker


def check_long_session(symbols: int, days: int, orders: int) -> None:
    """Play, check, and bring state and log about again."""
    dataset = generated(symbols, days)
    broker = play_orders(dataset, orders)

    assert len(broker.state.orders) == orders
    assert len(broker.state.trades) > orders // 4

    recorded = broker.log.to_lines()

    assert state_of_log(recorded) == broker.state
    assert rerun(recorded, dataset) == recorded


def test_a_session_of_a_month_is_replayed_bit_for_bit() -> None:
    check_long_session(symbols=5, days=20, orders=100)


@pytest.mark.exhaustive
def test_a_session_of_a_year_is_replayed_bit_for_bit() -> None:
    check_long_session(symbols=50, days=252, orders=1_000)
