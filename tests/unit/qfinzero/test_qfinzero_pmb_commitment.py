"""Nothing can be taken back once a bar that it works in has begun: the bar's beginning may have been shown by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktdeval_qfinzero.data.rows import BorrowRow
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.moments import DAY, MINUTE
from ktdeval_qfinzero.pmb.broker import verify
from qfinzero_broker_play import EARLY, FLAT, OPEN, Play, market, minutes, table
from qfinzero_world import at

MIDNIGHT = at("2025-01-06T00:00:00Z")
FALL = (90.0, 104.0, 80.0, 82.0, 1_000_000)
CALL = "O:AVLN250117C00100000"
STARTS = [MIDNIGHT - 3 * DAY, MIDNIGHT, MIDNIGHT + DAY]
DAYS = {"AVLN": table(STARTS, [FLAT, FLAT, FALL]), CALL: table(STARTS, [(5, 5, 5, 5, 1_000)] * 3)}
NOON, EVE = "2025-01-07T17:00:00Z", "2025-01-07T14:00:00Z"


def daily(to: str = EVE) -> Play:
    """A session of days on the morning of a fall, with a long position and a call."""
    play = Play(market(DAYS, "day"), frequency="1d", start="2025-01-06T00:00:00Z", end_ts="2025-01-15")
    play.order("BUY", "MARKET", 300)
    play.order("BUY", "MARKET", 1, symbol=CALL)
    play.step()
    play.until(to)
    return play


TAKING_BACK: dict[str, Callable[[Play, str], Any]] = {
    "cancel": lambda play, order_id: play.call("order.cancel", order_id=order_id),
    "modify": lambda play, order_id: play.call("order.modify", order_id=order_id, updates={"qty": 1}),
    "stop": lambda play, order_id: play.call("session.stop"),
    "exercise": lambda play, order_id: play.call("option.exercise", contract=CALL, qty=1),
}
ORDERS = [
    ("LIMIT", {"limit_price": 85.0}),
    ("STOP", {"stop_price": 103.0}),
    ("STOP_LIMIT", {"stop_price": 103.0, "limit_price": 103.5}),
]


@pytest.mark.parametrize("attempt", TAKING_BACK)
@pytest.mark.parametrize(("kind", "prices"), ORDERS)
def test_an_order_in_a_bar_that_has_begun_can_not_be_taken_back(attempt: str, kind: str, prices: dict[str, float]) -> None:
    play = daily()
    order = play.order("BUY", kind, time_in_force="GTC", **prices)
    play.until(NOON)
    assert (order.status, len(play.state.trades)) == ("ACCEPTED", 2)
    with pytest.raises(ServiceError, match=r"works in the bar that ends at 2025-01-07T21:00:00Z") as refused:
        TAKING_BACK[attempt](play, order.id)
    assert refused.value.code == "conflict"
    play.step()
    assert (order.status, play.held()) == ("FILLED", 400), "the bar decides, whatever was tried in it"
    verify(play.broker.log.to_lines(), play.dataset)


def test_what_an_open_fills_is_bound_by_it_and_told_when_its_volume_is_known() -> None:
    """How much an open fills depends on the volume of the whole bar, so a fill that is told earlier would tell of the volume."""
    play = daily()
    market_order, limit = play.order("SELL", "MARKET", 50), play.order("BUY", "LIMIT", 60, limit_price=95.0)
    gapped = play.order("SELL", "STOP", 70, stop_price=95.0)
    spread = play.spread(("SELL", "AVLN", 100), ("BUY", CALL, 1), net_limit_price=0.0)
    orders = (market_order, limit, gapped, *spread)
    play.until("2025-01-07T14:30:00Z")
    free = play.order("BUY", "MARKET", 10)
    play.call("order.cancel", order_id=free.id)  # at the very moment of the open nothing is shown
    play.until("2025-01-07T14:30:01Z")
    assert len(play.state.trades) == 2
    for order in (market_order, limit, gapped):
        with pytest.raises(ServiceError, match="works in the bar"):
            play.call("order.cancel", order_id=order.id)
        with pytest.raises(ServiceError, match="works in the bar"):
            play.call("order.modify", order_id=order.id, updates={"qty": 1})
    play.step()
    assert [order.status for order in (market_order, limit, gapped, *spread)] == ["FILLED"] * len(orders)
    assert sorted(play.prices()[2:]) == [5.0, 90.0, 90.0, 90.0, 90.0]


def test_an_order_that_came_after_the_open_is_free_until_the_next_one() -> None:
    play = daily(NOON)
    order = play.order("BUY", "MARKET", time_in_force="GTC")
    changed = play.call("order.modify", order_id=order.id, updates={"qty": 7})
    play.call("order.cancel", order_id=changed.id)
    play.order("BUY", "MARKET", time_in_force="GTC")
    play.call("session.stop")
    assert play.held() == 300


def test_a_minute_is_a_bar_too() -> None:
    """News of the minute is out before its bar is: an order that waits in it stays."""
    play = Play([FLAT, (101, 102, 90, 91, 1_000_000)])
    bought, limit = play.order("BUY", "LIMIT", limit_price=100.0), play.order("BUY", "LIMIT", limit_price=95.0)
    play.step()
    play.order("SELL", "MARKET", 100)
    play.until("2025-01-06T14:31:30Z")
    assert (bought.status, limit.status, play.prices()) == ("FILLED", "ACCEPTED", [100.0])
    with pytest.raises(ServiceError, match="14:32:00Z"):
        play.call("order.cancel", order_id=limit.id)
    play.step()
    assert play.prices() == [100.0, 101.0, 95.0]


def test_a_clock_that_others_set_forward_binds_too() -> None:
    play = daily()
    sold, waits = play.order("SELL", "MARKET"), play.order("SELL", "LIMIT", limit_price=103.0)
    play.broker.clock.advance(at(NOON))
    assert (play.held(), sold.status, waits.status) == (300, "ACCEPTED", "ACCEPTED")
    for order in (sold, waits):
        with pytest.raises(ServiceError, match="works in the bar"):
            play.call("order.cancel", order_id=order.id)
    verify(play.broker.log.to_lines(), play.dataset)


@pytest.mark.parametrize("stops", [(), (NOON,), ("2025-01-07T14:30:00.001Z", "2025-01-07T14:31:00Z", NOON, "2025-01-07T20:59:59Z")])
def test_where_the_clock_stops_changes_no_fill(stops: tuple[str, ...]) -> None:
    play = daily()
    play.order("SELL", "MARKET", 50)
    play.order("SELL", "STOP_LIMIT", 70, stop_price=95.0, limit_price=91.0)  # 90 is below its limit: it waits for the next bar
    play.order("BUY", "LIMIT", 80, limit_price=85.0)
    play.order("SELL", "STOP", 90, stop_price=84.0)
    for stop in stops:
        play.until(stop)
    play.until("2025-01-07T21:00:00Z")
    fills = [(trade.order_id, trade.qty, trade.price_e4) for trade in play.state.trades[2:]]
    assert fills == [("ord-000003", 50, 900_000), ("ord-000006", 90, 840_000), ("ord-000005", 80, 850_000)]
    assert play.account.cash_e4 == 10_000_000_000 - 300_000_000 - 5_000_000 + 45_000_000 + 75_600_000 - 68_000_000


@pytest.mark.parametrize("stop_first", [True, False])
def test_the_stop_of_a_bar_comes_before_its_limit_whichever_was_sent_first(stop_first: bool) -> None:
    """The bar reaches both 110 and 90 and has room for one of them: the worse one is taken."""
    wide = (100.0, 112.0, 88.0, 100.0, 100.0)
    play = Play([FLAT, FLAT, wide])
    play.step()
    play.order("BUY", "MARKET")
    play.step()
    wishes: list[tuple[str, dict[str, float]]] = [("STOP", {"stop_price": 90.0}), ("LIMIT", {"limit_price": 110.0})]
    for kind, prices in wishes if stop_first else wishes[::-1]:
        play.order("SELL", kind, **prices)
    play.step()
    assert play.prices() == [100.0, 90.0]


def test_locates_are_those_of_the_bars_start() -> None:
    rows = [BorrowRow("AVLN", EARLY, 1_000, 0), BorrowRow("AVLN", OPEN + MINUTE + MINUTE // 2, 0, 0)]
    play = Play(market({"AVLN": minutes([FLAT, FLAT, FLAT])}, borrow_rows=rows))
    play.step()
    sold = play.order("SELL", "MARKET")
    play.step()
    with_none = play.order("SELL", "MARKET")
    assert (sold.status, with_none.reason[:9]) == ("FILLED", "NO_LOCATE")
