"""One-cancels-other orders, brackets sent by fills, and restrictions on an order whose bar has
begun, on hand-made bars.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ktdeval.testing import on_each_row
from ktdeval_qfinzero.pmb.broker import verify
from ktdeval_qfinzero.pmb.log import state_of_log
from ktdeval_qfinzero.timestamps import DAY
from qfinzero_plays import Line, on_each_play, run_play
from support.qfinzero.qfinzero_broker_play import (
    FLAT,
    Play,
    Row,
    begun,
    daily,
    market,
    minutes,
    table,
)
from support.qfinzero.qfinzero_calls import refused
from support.qfinzero.qfinzero_world import at

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


@on_each_play
def test_brackets_as_played(lines: Sequence[Line]) -> None:
    run_play(lines)


# ---- one cancels the other


def pair(play: Play, qty: int = 100) -> None:
    profit = play.order("SELL", "LIMIT", qty, limit_price=110.0)
    play.order("SELL", "STOP", qty, stop_price=90.0, oco_with=profit.id)


# Bars as open, high and low; of 100 shares bought at 100 a limit at 110 and a stop at 90 are sold.
@on_each_row(
    "row, price, statuses",
    ([100, 112, 99], 110, ["FILLED", "FILLED", "CANCELLED"]),
    ([100, 101, 88], 90, ["FILLED", "CANCELLED", "FILLED"]),
    # both are reached: the worse one
    ([100, 112, 88], 90, ["FILLED", "CANCELLED", "FILLED"]),
    # the open is known to come first
    ([115, 115, 88], 115, ["FILLED", "FILLED", "CANCELLED"]),
    ([85, 112, 85], 85, ["FILLED", "CANCELLED", "FILLED"]),
)
def test_one_cancels_the_other_and_the_worse_one_is_first(
    row: list[float], price: float, statuses: list[str]
) -> None:
    play = holding(bar(*row), CALM)
    pair(play)
    play.step(2)
    check(play, [100.0, price], statuses)

    assert play.held() == 0


@on_each_row(
    "asked, words",
    ({"oco_with": "ord-000009"}, "no such single working order"),
    ({"oco_with": "ord-000001"}, "no such single working order"),
    ({"oco_with": "ord-000002", "qty": 99}, "100 open; give the same"),
    ({"oco_with": "ord-000002", "side": "BUY"}, "side SELL"),
)
def test_what_can_not_be_a_group_is_refused_in_one_line(asked: dict[str, Any], words: str) -> None:
    play = holding(CALM)
    play.order("SELL", "LIMIT", limit_price=110.0)
    order = {"side": "SELL", "order_type": "STOP", "stop_price": 90.0, **asked}
    assert words in str(refused(play.order, **order))


# ---- brackets


# An order to buy, then bars as open, high and low; the bracket takes profit at 110 and loss at 95.
@on_each_row(
    "kind, prices, rows, fills, statuses",
    ("MARKET", {}, [[100, 101, 99], [100, 111, 99]], [100, 110], ["FILLED", "FILLED", "CANCELLED"]),
    ("MARKET", {}, [[100, 101, 99], [100, 101, 94]], [100, 95], ["FILLED", "CANCELLED", "FILLED"]),
    # the stop is passed at an open
    ("MARKET", {}, [[100, 101, 99], [93, 111, 92]], [100, 93], ["FILLED", "CANCELLED", "FILLED"]),
    # On the bar of the fill: the worse one; after its open the profit is sure.
    ("MARKET", {}, [[100, 111, 94], [100, 101, 99]], [100, 95], ["FILLED", "CANCELLED", "FILLED"]),
    ("MARKET", {}, [[100, 111, 96], [100, 101, 99]], [100, 110], ["FILLED", "FILLED", "CANCELLED"]),
    # no bar has a price of 110
    (
        "MARKET",
        {},
        [[112, 113, 111.5], [100, 101, 99]],
        [112, 112],
        ["FILLED", "FILLED", "CANCELLED"],
    ),
    # 111 may have been before 98, 94 can't.
    (
        "LIMIT",
        {"limit_price": 98},
        [[100, 111, 97], [100, 101, 99]],
        [98],
        ["FILLED", "ACCEPTED", "ACCEPTED"],
    ),
    (
        "LIMIT",
        {"limit_price": 98},
        [[100, 111, 94], [100, 101, 99]],
        [98, 95],
        ["FILLED", "CANCELLED", "FILLED"],
    ),
    # 94 may have been before 103.
    (
        "STOP",
        {"stop_price": 103},
        [[100, 111, 94], [100, 101, 99]],
        [103, 95],
        ["FILLED", "CANCELLED", "FILLED"],
    ),
    # bought below its stop
    (
        "LIMIT",
        {"limit_price": 98},
        [[94, 96, 93], [100, 101, 99]],
        [94, 94],
        ["FILLED", "CANCELLED", "FILLED"],
    ),
)
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


@on_each_row(
    "prices, field",
    ({"take_profit_price": 95.0, "stop_loss_price": 96.0}, "order.stop_loss_price"),
    ({"take_profit_price": 99.0, "limit_price": 99.0}, "order.take_profit_price"),
    ({"stop_loss_price": 99.0, "limit_price": 98.0}, "order.stop_loss_price"),
    ({"stop_loss_price": 98.001, "limit_price": 99.0}, "order.stop_loss_price"),
    (
        {"kind": "STOP_LIMIT", "stop_loss_price": 105.0, "stop_price": 100.0, "limit_price": 110.0},
        "order.stop_loss_price",
    ),
    (
        {
            "kind": "STOP_LIMIT",
            "take_profit_price": 105.0,
            "stop_price": 100.0,
            "limit_price": 110.0,
        },
        "order.take_profit_price",
    ),
)
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
