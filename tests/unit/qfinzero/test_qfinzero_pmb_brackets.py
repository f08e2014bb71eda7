"""Orders of which one cancels the other, and brackets that each fill of an order sends: on bars worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.pmb.broker import verify
from ktdeval_qfinzero.pmb.log import state_of_log
from qfinzero_broker_play import FLAT, Play, Row, market, minutes
from tables import on_each_row

PLENTY = 1_000_000
CALM: Row = (100.0, 101.0, 99.0, 100.0, PLENTY)


def bar(open_: float, high: float, low: float, volume: int = PLENTY) -> Row:
    return (open_, high, low, open_, volume)


def holding(*rows: Row) -> Play:
    """100 shares bought at 100; the rows follow."""
    play = Play([FLAT, FLAT, *rows])
    play.step()
    play.order("BUY", "MARKET")
    play.step()
    return play


def bracket(*rows: Row, kind: str = "MARKET", side: str = "BUY", profit: float = 110.0, loss: float = 95.0, **more: Any) -> Play:
    """An order with both sides of a bracket, from the second bar on."""
    play = Play([FLAT, *rows])
    play.step()
    play.order(side, kind, take_profit_price=profit, stop_loss_price=loss, time_in_force="GTC", **more)
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


@pytest.mark.parametrize(
    ("row", "price", "statuses"),
    [
        (bar(100, 112, 99), 110.0, ["FILLED", "FILLED", "CANCELLED"]),
        (bar(100, 101, 88), 90.0, ["FILLED", "CANCELLED", "FILLED"]),
        (bar(100, 112, 88), 90.0, ["FILLED", "CANCELLED", "FILLED"]),  # both are reached: the worse one
        (bar(115, 115, 88), 115.0, ["FILLED", "FILLED", "CANCELLED"]),  # the open is known to come first
        (bar(85, 112, 85), 85.0, ["FILLED", "CANCELLED", "FILLED"]),
    ],
)
def test_one_cancels_the_other_and_the_worse_one_is_first(row: Row, price: float, statuses: list[str]) -> None:
    play = holding(row, CALM)
    pair(play)
    play.step(2)
    check(play, [100.0, price], statuses)
    assert play.held() == 0


def test_a_part_that_fills_is_taken_from_the_other() -> None:
    play = holding(bar(100, 112, 99, 30), bar(100, 100, 88), CALM)
    pair(play)
    play.step()
    assert [(order.filled_qty, order.open_qty) for order in play.state.working.values()] == [(30, 70), (0, 70)]
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
    with pytest.raises(ServiceError, match=words):
        play.order(asked.pop("side", "SELL"), "STOP", asked.pop("qty", 100), stop_price=90.0, **asked)


# ---- brackets

F, C, A = "FILLED", "CANCELLED", "ACCEPTED"


@pytest.mark.parametrize(
    ("kind", "prices", "rows", "fills", "statuses"),
    [
        ("MARKET", {}, [CALM, bar(100, 111, 99)], [100, 110], [F, F, C]),
        ("MARKET", {}, [CALM, bar(100, 101, 94)], [100, 95], [F, C, F]),
        ("MARKET", {}, [CALM, bar(93, 111, 92)], [100, 93], [F, C, F]),  # the stop is passed at an open
        ("MARKET", {}, [bar(100, 111, 94), CALM], [100, 95], [F, C, F]),  # on the bar of the fill: the worse one
        ("MARKET", {}, [bar(100, 111, 96), CALM], [100, 110], [F, F, C]),  # after its open the profit is sure
        ("LIMIT", {"limit_price": 98.0}, [bar(100, 111, 97), CALM], [98], [F, A, A]),  # 111 may have been before 98
        ("LIMIT", {"limit_price": 98.0}, [bar(100, 111, 94), CALM], [98, 95], [F, C, F]),  # 94 can't
        ("STOP", {"stop_price": 103.0}, [bar(100, 111, 94), CALM], [103, 95], [F, C, F]),  # 94 may have been before 103
        ("LIMIT", {"limit_price": 98.0}, [bar(94, 96, 93), CALM], [94, 94], [F, C, F]),  # bought below its stop
    ],
)
def test_the_bracket_of_a_fill_works_from_that_fill_on(
    kind: str, prices: dict[str, float], rows: list[Row], fills: list[float], statuses: list[str]
) -> None:
    play = bracket(*rows, kind=kind, **prices)
    play.step(2)
    check(play, [float(price) for price in fills], statuses)
    assert [order.parent_id for order in play.state.orders.values()] == ["", "ord-000001", "ord-000001"]


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
    with pytest.raises(ServiceError, match="works in the bar"):
        play.call("order.cancel", order_id="ord-000001")
    play.step()
    check(play, [100.0, 95.0], [F, C, F])


@on_each_row
def test_a_bracket_on_the_wrong_side_is_refused(prices: dict[str, float], field: str) -> None:
    play = Play(market({"AVLN": minutes([FLAT, CALM])}))
    with pytest.raises(ServiceError) as refused:
        play.order("BUY", "LIMIT" if "limit_price" in prices else "MARKET", **prices)
    assert refused.value.field == field
