"""Orders of which one cancels the other, brackets of fills, and what binds an order whose bar has
begun: on bars by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktdeval_qfinzero.data.rows import BorrowRow
from ktdeval_qfinzero.pmb.broker import verify
from ktdeval_qfinzero.pmb.log import state_of_log
from ktdeval_qfinzero.timestamps import DAY, MINUTE
from qfinzero_broker_play import EARLY, FLAT, OPEN, Play, Row, begun, daily, market, minutes, table
from qfinzero_calls import refused
from qfinzero_world import at
from tables import on_each_row

PLENTY = 1_000_000
CALM: Row = (100.0, 101.0, 99.0, 100.0, PLENTY)


def bar(open_: float, high: float, low: float, volume: int = PLENTY) -> Row:
    return (open_, high, low, open_, volume)


def holding(*rows: Row) -> Play:
    """100 shares bought at 100; the rows follow."""
    play = begun(FLAT, *rows)
    play.order("BUY", "MARKET")
    play.step()

    return play


def bracket(
    *rows: Row,
    kind: str = "MARKET",
    side: str = "BUY",
    profit: float = 110.0,
    loss: float = 95.0,
    **more: Any,
) -> Play:
    """An order with both sides of a bracket, from the second bar on."""
    play = begun(*rows)
    play.order(
        side, kind, take_profit_price=profit, stop_loss_price=loss, time_in_force="GTC", **more
    )

    return play


def check(play: Play, fills: list[float], statuses: list[str]) -> None:
    """What filled and what became of each order; state and log follow from the commands."""
    assert play.prices() == fills
    assert [order.status for order in play.state.orders.values()] == statuses

    verify(play.broker.log.to_lines(), play.dataset)
    assert state_of_log(play.broker.log.to_lines()) == play.state


# ---- one cancels the other


def pair(play: Play, qty: int = 100) -> None:
    profit = play.order("SELL", "LIMIT", qty, limit_price=110.0)
    play.order("SELL", "STOP", qty, stop_price=90.0, oco_with=profit.id)


@on_each_row
def test_one_cancels_the_other_and_the_worse_one_is_first(
    row: list[float], price: float, statuses: list[str]
) -> None:
    play = holding(bar(*row), CALM)
    pair(play)
    play.step(2)
    check(play, [100.0, price], statuses)

    assert play.held() == 0


def test_a_part_that_fills_ties_up_nothing_in_the_other() -> None:
    """$20,000 for 100 at 99 or at 101: after 90 at 99, $11,090 are left, of which 10 at 99 and 10
    at 101 tie up $2,000.
    """
    play = begun(bar(100, 100, 99, 90), FLAT, cash=20_000, account_type="CASH")
    lower = play.order("BUY", "LIMIT", limit_price=99.0, time_in_force="GTC")
    higher = play.order("BUY", "STOP", stop_price=101.0, oco_with=lower.id, time_in_force="GTC")
    play.step()

    assert (play.cash, lower.open_qty, higher.open_qty) == (11_090.0, 10, 10)
    assert play.order("BUY", "LIMIT", 101, limit_price=90.01).reason.startswith(
        "INSUFFICIENT_BUYING_POWER"
    )
    assert play.order("BUY", "LIMIT", 101, limit_price=90.0).status == "ACCEPTED"  # $9,090


def test_a_part_that_fills_is_taken_from_the_other() -> None:
    play = holding(bar(100, 112, 99, 30), bar(100, 100, 88), CALM)
    pair(play)
    play.step()

    assert [(order.filled_qty, order.open_qty) for order in play.state.working.values()] == [
        (30, 70),
        (0, 70),
    ]

    play.step(2)
    check(play, [100.0, 110.0, 90.0], ["FILLED", "CANCELLED", "FILLED"])

    assert play.held() == 0


def test_a_modified_order_stays_in_its_group() -> None:
    play = holding(bar(100, 112, 99), CALM)
    pair(play)
    play.call("order.modify", order_id="ord-000002", updates={"limit_price": 111.0})
    play.step()
    check(play, [100.0, 111.0], ["FILLED", "CANCELLED", "CANCELLED", "FILLED"])


@on_each_row
def test_what_can_not_be_a_group_is_refused_in_one_line(asked: dict[str, Any], words: str) -> None:
    play = holding(CALM)
    play.order("SELL", "LIMIT", limit_price=110.0)
    order = {"side": "SELL", "order_type": "STOP", "stop_price": 90.0, **asked}
    assert words in str(refused(play.order, **order))


# ---- brackets

F = "FILLED"
C = "CANCELLED"
A = "ACCEPTED"


@on_each_row
def test_the_bracket_of_a_fill_works_from_that_fill_on(
    kind: str,
    prices: dict[str, float],
    rows: list[list[float]],
    fills: list[float],
    statuses: list[str],
) -> None:
    play = bracket(*[bar(*row) for row in rows], kind=kind, **prices)
    play.step(2)
    check(play, fills, statuses)

    assert [order.parent_id for order in play.state.orders.values()] == [
        "",
        "ord-000001",
        "ord-000001",
    ]


def test_a_bracket_of_a_sale_is_mirrored() -> None:
    play = bracket(CALM, bar(100, 106, 89), side="SELL", profit=90.0, loss=105.0)
    play.step(2)
    check(play, [100.0, 105.0], [F, C, F])


def test_each_part_of_a_fill_has_a_bracket_of_its_own() -> None:
    play = bracket(bar(100, 101, 99, 40), bar(100, 101, 99), bar(100, 111, 99))
    play.step(3)
    check(play, [100.0, 100.0, 110.0, 110.0], [F, F, C, F, C])

    assert [order.qty for order in play.state.orders.values()][1::2] == [40, 60]
    assert play.held() == 0


def test_a_bracket_stays_in_the_bar_that_runs() -> None:
    play = bracket(bar(100, 111, 94), CALM)
    play.until("2025-01-06T14:31:30Z")

    assert [order.status for order in play.state.orders.values()] == [A]
    assert "works in the bar" in str(refused(play.call, "order.cancel", order_id="ord-000001"))

    play.step()
    check(play, [100.0, 95.0], [F, C, F])


@on_each_row
def test_a_bracket_on_the_wrong_side_is_refused(prices: dict[str, float], field: str) -> None:
    play = Play(market({"AVLN": minutes([FLAT, CALM])}))
    assert (
        refused(
            play.order,
            "BUY",
            prices.pop("kind", "LIMIT" if "limit_price" in prices else "MARKET"),
            **prices,
        ).field
        == field
    )


def test_a_modified_order_stays_on_its_side_of_the_bracket() -> None:
    play = bracket(CALM, CALM, kind="LIMIT", limit_price=99.0)
    for limit in (95.0, 110.0):
        updates = {"limit_price": limit}
        error = refused(play.call, "order.modify", order_id="ord-000001", updates=updates)
        assert error.field == "updates"

    play.call("order.modify", order_id="ord-000001", updates={"limit_price": 109.99})


# -- what an order is bound by


MIDNIGHT = at("2025-01-06T00:00:00Z")
FALL = (90.0, 104.0, 80.0, 82.0, 1_000_000)
CALL = "O:AVLN250117C00100000"
STARTS = [MIDNIGHT - 3 * DAY, MIDNIGHT, MIDNIGHT + DAY]
DAYS = {"AVLN": table(STARTS, [FLAT, FLAT, FALL]), CALL: table(STARTS, [(5, 5, 5, 5, 1_000)] * 3)}
NOON = "2025-01-07T17:00:00Z"
EVE = "2025-01-07T14:00:00Z"


def before_a_fall(to: str = EVE) -> Play:
    """A session of days on the morning of a fall, with a long position and a call."""
    play = daily(DAYS)
    play.order("BUY", "MARKET", 300)
    play.order("BUY", "MARKET", 1, symbol=CALL)
    play.step()
    play.until(to)

    return play


TAKING_BACK: dict[str, Callable[[Play, str], Any]] = {
    "cancel": lambda play, order_id: play.call("order.cancel", order_id=order_id),
    "modify": lambda play, order_id: play.call(
        "order.modify", order_id=order_id, updates={"qty": 1}
    ),
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
def test_an_order_in_a_bar_that_has_begun_can_not_be_taken_back(
    attempt: str, kind: str, prices: dict[str, float]
) -> None:
    play = before_a_fall()
    order = play.order("BUY", kind, time_in_force="GTC", **prices)
    play.until(NOON)

    assert (order.status, len(play.state.trades)) == ("ACCEPTED", 2)

    error = refused(TAKING_BACK[attempt], play, order.id)
    assert (error.code, "works in the bar that ends at 2025-01-07T21:00:00Z" in error.message) == (
        "conflict",
        True,
    )

    play.step()
    assert (order.status, play.held()) == ("FILLED", 400), (
        "the bar decides, whatever was tried in it"
    )

    verify(play.broker.log.to_lines(), play.dataset)


def test_a_fill_at_the_open_is_reported_when_its_volume_is_known() -> None:
    """How much an open fills depends on the volume of the whole bar, so a fill that is told earlier
    would tell of the volume.
    """
    play = before_a_fall()
    market_order = play.order("SELL", "MARKET", 50)
    limit = play.order("BUY", "LIMIT", 60, limit_price=95.0)
    gapped = play.order("SELL", "STOP", 70, stop_price=95.0)
    spread = play.spread(("SELL", "AVLN", 100), ("BUY", CALL, 1), net_limit_price=0.0)
    orders = (market_order, limit, gapped, *spread)
    play.until("2025-01-07T14:30:00Z")
    free = play.order("BUY", "MARKET", 10)
    play.call("order.cancel", order_id=free.id)  # at the very moment of the open nothing is shown
    play.until("2025-01-07T14:30:01Z")

    assert len(play.state.trades) == 2

    for order in (market_order, limit, gapped):
        assert "works in the bar" in str(refused(play.call, "order.cancel", order_id=order.id))
        assert "works in the bar" in str(
            refused(play.call, "order.modify", order_id=order.id, updates={"qty": 1})
        )

    play.step()

    assert [order.status for order in (market_order, limit, gapped, *spread)] == ["FILLED"] * len(
        orders
    )
    assert sorted(play.prices()[2:]) == [5.0, 90.0, 90.0, 90.0, 90.0]


def test_an_order_that_came_after_the_open_is_free_until_the_next_one() -> None:
    play = before_a_fall(NOON)
    order = play.order("BUY", "MARKET", time_in_force="GTC")
    changed = play.call("order.modify", order_id=order.id, updates={"qty": 7})
    play.call("order.cancel", order_id=changed.id)
    play.order("BUY", "MARKET", time_in_force="GTC")
    play.call("session.stop")

    assert play.held() == 300


def test_a_minute_is_a_bar_too() -> None:
    """News of the minute is out before its bar is: an order that waits in it stays."""
    play = Play([FLAT, (101, 102, 90, 91, 1_000_000)])
    bought = play.order("BUY", "LIMIT", limit_price=100.0)
    limit = play.order("BUY", "LIMIT", limit_price=95.0)
    play.step()
    play.order("SELL", "MARKET", 100)
    play.until("2025-01-06T14:31:30Z")

    assert (bought.status, limit.status, play.prices()) == ("FILLED", "ACCEPTED", [100.0])
    assert "14:32:00Z" in str(refused(play.call, "order.cancel", order_id=limit.id))

    play.step()
    assert play.prices() == [100.0, 101.0, 95.0]


@pytest.mark.parametrize(
    "stops",
    [
        (),
        (NOON,),
        ("2025-01-07T14:30:00.001Z", "2025-01-07T14:31:00Z", NOON, "2025-01-07T20:59:59Z"),
    ],
)
def test_where_the_clock_stops_changes_no_fill(stops: tuple[str, ...]) -> None:
    play = before_a_fall()
    play.order("SELL", "MARKET", 50)
    # 90 is below its limit: it waits for the next bar
    play.order("SELL", "STOP_LIMIT", 70, stop_price=95.0, limit_price=91.0)
    play.order("BUY", "LIMIT", 80, limit_price=85.0)
    play.order("SELL", "STOP", 90, stop_price=84.0)

    for stop in stops:
        play.until(stop)

    play.until("2025-01-07T21:00:00Z")
    fills = [(trade.order_id, trade.qty, trade.price_e4) for trade in play.state.trades[2:]]

    assert fills == [
        ("ord-000003", 50, 900_000),
        ("ord-000006", 90, 840_000),
        ("ord-000005", 80, 850_000),
    ]
    assert (
        play.account.cash_e4
        == 10_000_000_000 - 300_000_000 - 5_000_000 + 45_000_000 + 75_600_000 - 68_000_000
    )


@pytest.mark.parametrize("stop_first", [True, False])
def test_the_stop_of_a_bar_comes_before_its_limit_whichever_was_sent_first(
    stop_first: bool,
) -> None:
    """The bar reaches both 110 and 90 and has room for one of them: the worse one is taken."""
    play = holding(bar(100, 112, 88, 100))
    wishes: list[tuple[str, dict[str, float]]] = [
        ("STOP", {"stop_price": 90.0}),
        ("LIMIT", {"limit_price": 110.0}),
    ]

    for kind, prices in wishes if stop_first else wishes[::-1]:
        play.order("SELL", kind, **prices)

    play.step()

    assert play.prices() == [100.0, 90.0]


def test_locates_are_taken_at_the_bars_start() -> None:
    rows = [
        BorrowRow("AVLN", EARLY, 1_000, 0),
        BorrowRow("AVLN", OPEN + MINUTE + MINUTE // 2, 0, 0),
    ]
    play = Play(market({"AVLN": minutes([FLAT, FLAT, FLAT])}, borrow_rows=rows))
    play.step()
    sold = play.order("SELL", "MARKET")
    play.step()
    with_none = play.order("SELL", "MARKET")

    assert (sold.status, with_none.reason[:9]) == ("FILLED", "NO_LOCATE")
