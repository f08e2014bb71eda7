"""The log: the state is what its events make of it, its commands bring about the same bytes, and what was changed in it shows."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from ktdeval.errors import DataError
from ktdeval.jsonio import sha256_hex
from ktdeval_qfinzero.data.stores import Dataset, DatasetInfo
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.moments import Clock, day_of, moment_text
from ktdeval_qfinzero.pmb.broker import Broker, rerun, verify
from ktdeval_qfinzero.pmb.engine import Observer
from ktdeval_qfinzero.pmb.frames import ticks_by
from ktdeval_qfinzero.pmb.log import state_of_log
from qfinzero_broker_play import FLAT, Play, thing
from qfinzero_invariants import InvariantWatch, check_invariants
from qfinzero_memory import MemoryCalendars, MemoryNews
from qfinzero_synthetic import generate_minutes
from qfinzero_world import at, small_dataset

CALL, HIGHER = "O:AVLN250117C00090000", "O:AVLN250117C00095000"


def everything() -> Play:
    """A session of days with every command and most events: dividends, a split, expiry, a short position, refusals."""
    play = Play(small_dataset(), start="2025-01-06T21:00:00Z", frequency="1d", end_ts="2025-01-24", config={})
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


def test_the_book_is_what_its_events_make_of_it() -> None:
    play = everything()
    assert state_of_log(play.broker.log.to_lines()) == play.state
    check_invariants(play.state)


def test_the_commands_bring_about_the_same_bytes() -> None:
    assert rerun(lines(), small_dataset()) == lines()
    verify(lines(), small_dataset())


def test_the_log_has_every_command_and_every_refusal() -> None:
    told = [json.loads(line) for line in lines()]
    assert [each["seq"] for each in told] == list(range(len(told)))
    moments = [each["ts_ns"] for each in told]
    assert moments == sorted(moments)
    commands = {each["type"] for each in told if each["kind"] == "command"}
    assert commands == {
        "account.create", "session.create", "session.step", "order.place", "order.modify", "order.cancel", "spread.place",
        "option.exercise", "clock.move",
    }  # fmt: skip
    assert [each["data"]["code"] for each in told if each["type"] == "COMMAND_REFUSED"] == ["conflict", "not_found"]
    assert {"DIVIDEND", "POSITION_SPLIT", "OPTION_EXERCISED", "OPTION_EXPIRED", "BORROW_FEE"} <= {each["type"] for each in told}


def test_each_line_is_chained_to_the_one_before_by_its_hash() -> None:
    last = "0" * 64
    for line in lines():
        told = json.loads(line)
        written = told.pop("hash")
        last = sha256_hex(last + json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
        assert last == written


@pytest.mark.parametrize("place", [0, 1, 7, -1])
def test_a_changed_line_is_found(place: int) -> None:
    changed = list(lines())
    told = json.loads(changed[place])
    told["ts_ns"] += 1
    changed[place] = json.dumps(told, sort_keys=True, separators=(",", ":"))
    with pytest.raises(DataError, match=f"line {place % len(changed) + 1}: its hash"):
        state_of_log(changed)


@pytest.mark.parametrize("order", [[1, 2, 3, 4], [0, 1, 2, 4], [0, 2, 1], [0, 0, 1]])
def test_missing_moved_and_repeated_lines_are_found(order: list[int]) -> None:
    with pytest.raises(DataError, match="line"):
        state_of_log([lines()[place] for place in order])


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"seq": 0}'])
def test_what_is_no_log_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="line 1"):
        state_of_log([text])
    with pytest.raises(DataError, match="first line"):
        state_of_log([])


def forged(*, drop_last: bool = False) -> list[str]:
    """The log with a trade at a better price and all hashes made anew, or without its last line."""
    told = [json.loads(line) for line in lines()]
    trade = next(each for each in told if each["type"] == "TRADE")
    trade["data"]["price_e4"] -= 0 if drop_last else 100
    last, found = "0" * 64, []
    for each in told[: -1 if drop_last else None]:
        each.pop("hash")
        last = sha256_hex(last + json.dumps(each, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
        found.append(json.dumps({**each, "hash": last}, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
    return found


def test_a_log_whose_hashes_were_made_anew_is_found_by_its_commands() -> None:
    state_of_log(forged())
    with pytest.raises(DataError, match="gives something else"):
        verify(forged(), small_dataset())


def test_a_log_without_its_last_events_is_found_by_its_commands() -> None:
    with pytest.raises(DataError, match="lines"):
        verify(forged(drop_last=True), small_dataset())


def test_a_log_is_rerun_on_the_data_that_it_was_made_with_only() -> None:
    dataset = small_dataset()
    with pytest.raises(DataError, match="other data"):
        rerun(lines(), replace(dataset, info=replace(dataset.info, content_id="1" * 64)))


def test_a_log_does_not_depend_on_what_a_caller_does_with_its_arguments_later() -> None:
    play = Play([FLAT])
    order: dict[str, Any] = {"instrument": thing("AVLN"), "side": "BUY", "order_type": "LIMIT", "qty": 1, "limit_price": 1.0}
    play.call("order.place", order=order)
    order["qty"] = 2
    verify(play.broker.log.to_lines(), play.dataset)


# --- Long sessions ----------------------------------------------------------------------------------------------------------------


def generated(symbols: int, days: int) -> Dataset:
    """A generated market of minutes."""
    prices = generate_minutes(symbols, days)
    starts = next(iter(prices.bar_table.values())).start_ns
    first, last = day_of(int(starts[0])), day_of(int(starts[-1]))
    info = DatasetInfo("generated", True, "0" * 64, first, last, first, last, int(starts[0]))
    return Dataset(info, prices, MemoryCalendars(), MemoryNews())


def play_orders(dataset: Dataset, orders: int, on_tick: Observer | None) -> tuple[Broker, int]:
    """A session over all minutes with orders of all types at even distances, and the number of its ticks."""
    broker = Broker(dataset, Clock(dataset.info.default_as_of_ns), on_tick)
    account = broker.execute("account.create", {"account_type": "MARGIN", "initial_cash": 1_000_000}).id
    symbols = [row.symbol for row in dataset.prices.symbols(broker.clock.as_of_ns)]
    start, end = broker.clock.as_of_ns, dataset.info.last_day.isoformat()
    asked = {"frequency": "1m", "start_ts": moment_text(start), "end_ts": end, "universe": {"stocks": symbols}}
    both = {"account_id": account, "session_id": broker.execute("session.create", {"account_id": account, **asked}).id}
    ticks = ticks_by(broker.state.sessions[both["session_id"]].end_ns, "1m") - ticks_by(start, "1m")
    chance = np.random.default_rng(5)
    for number in range(orders):
        symbol = symbols[int(chance.integers(len(symbols)))]
        price = broker.engine.marks().get(f"STOCK:{symbol}", 1_000_000) / 10_000
        near = max(1.0, round(float(price * chance.uniform(0.99, 1.01)), 2))
        order_type = ("MARKET", "LIMIT", "STOP", "STOP_LIMIT")[int(chance.integers(4))]
        order: dict[str, Any] = {"instrument": thing(symbol), "side": ("BUY", "SELL")[number % 2], "order_type": order_type}
        order |= {"qty": int(chance.integers(1, 100)), "time_in_force": ("DAY", "GTC")[int(chance.integers(2))]}
        order |= {"limit_price": near} if "LIMIT" in order_type else {}
        order |= {"stop_price": near} if "STOP" in order_type else {}
        broker.execute("order.place", {**both, "order": order})
        broker.step(both["session_id"], ticks * (number + 1) // orders - ticks * number // orders)
    return broker, ticks


def check_long_session(symbols: int, days: int, orders: int) -> float:
    """Play, check at each tick, state_of_log and rerun; ticks a second of the first run, with all checks."""
    dataset, watch = generated(symbols, days), InvariantWatch()
    start = time.perf_counter()
    broker, ticks = play_orders(dataset, orders, watch)
    seconds = time.perf_counter() - start
    assert watch.ticks == ticks
    assert len(broker.state.orders) == orders
    assert len(broker.state.trades) > orders // 4
    check_invariants(broker.state)
    written = broker.log.to_lines()
    assert state_of_log(written) == broker.state
    assert rerun(written, dataset) == written
    return ticks / seconds


def test_a_session_of_a_month_is_replayed_bit_for_bit() -> None:
    check_long_session(symbols=10, days=20, orders=200)


@pytest.mark.slow
def test_a_session_of_a_year_is_replayed_bit_for_bit() -> None:
    check_long_session(symbols=50, days=252, orders=1_000)
