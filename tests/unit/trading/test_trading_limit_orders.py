"""Orders with a limit: at which price of a day's bar they fill, how much of them, and what they can't
be used for. Money is in CNY of an account without costs, unless said.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from ktdeval.errors import InvariantError
from ktdeval.market.venues.execution import Execution
from ktdeval.market.venues.venue import find_venue
from ktdeval.testing import snapshot_of_days
from ktdeval.trading.daily_settlement import check_step
from ktdeval.trading.executor import settle
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.order_outcomes import REJECTIONS
from ktdeval.trading.rule_breaches import known_breaches
from ktdeval.trading.trading_day import TradingDay
from ktdeval.trading.types import Account, Order, Outcome, Position, TradingConfig
from support.market.trading_market import CODES
from support.searching import examples

FREE = TradingConfig(
    buy_fee_bps=0.0, sell_fee_bps=0.0, min_fee_cny=0.0, max_weight=1.0, limit_orders=True
)
TICKS = 10_000
CASH = Account(100_000_000, {})  # 1,000,000 CNY
HELD = Account(0, {0: Position(1_000), 1: Position(1_000)})
BAR = (10.0, 10.4, 9.6, 10.2)  # open, high, low and close of the fill day


def days(
    *bars: tuple[float, float, float, float], config: TradingConfig = FREE, **more: Any
) -> TradingDay:
    """The fill day of main-board names with these bars; the closes before were 10."""
    codes = (CODES["main2"], CODES["main"])[: len(bars)]
    before = [10.0] * len(bars)
    opens, highs, lows, closes = (list(column) for column in zip(*bars, strict=True))
    market = snapshot_of_days(codes, [before, opens], [before, closes], **more)
    shown = dataclasses.replace(
        market, id="", high=np.array([before, highs]), low=np.array([before, lows])
    )
    return MarketTape.from_snapshot(shown, config).day(1)


def limited(side: Any, limit: float, shares: int | None = 1_000, **more: Any) -> Order:
    """An order with a limit in CNY of the first name."""
    fields = {"asset": 0, **more}
    asset = fields.pop("asset")
    return Order(asset, side, 0.5, "", shares=shares, limit_ticks=round(limit * TICKS), **fields)


def outcome(day: TradingDay, order: Order, account: Account | None = None) -> Outcome:
    """How one order ends, with all checks of the day."""
    if account is None:
        account = CASH if order.side == "BUY" else HELD
    return settle(account, day, (order,), 0).outcomes[0]


@pytest.mark.parametrize(
    ("side", "limit", "filled_at"),
    [
        ("BUY", 10.2, 10.0),  # inside: at the open, not at the limit
        ("BUY", 10.0, 10.0),
        ("BUY", 9.9, 9.9),  # the bar trades through it
        ("BUY", 9.6, None),  # touched, not traded through
        ("BUY", 9.6001, 9.6001),
        ("BUY", 9.0, None),
        ("SELL", 9.8, 10.0),
        ("SELL", 10.0, 10.0),
        ("SELL", 10.3, 10.3),
        ("SELL", 10.4, None),
        ("SELL", 10.3999, 10.3999),
        ("SELL", 11.0, None),
    ],
)
def test_limit_order_fills_at_the_open_or_at_its_limit_if_traded_through(
    side: str, limit: float, filled_at: float | None
) -> None:
    ended = outcome(days(BAR, BAR), limited(side, limit))
    if filled_at is None:
        assert ended == Outcome("rejected", "limit", REJECTIONS["limit"])
        return

    price = round(filled_at * TICKS)
    assert ended == Outcome("filled", None, "", 1_000, price, price * 1_000 // 100)


@pytest.mark.parametrize("fill", ["next_close", "same_close"])
@pytest.mark.parametrize(
    ("side", "limit", "is_filled"),
    [("BUY", 10.0, True), ("BUY", 9.9, False), ("SELL", 10.0, True), ("SELL", 10.1, False)],
)
def test_of_a_venue_that_fills_at_a_close_that_close_alone_counts(
    fill: Any, side: str, limit: float, is_filled: bool
) -> None:
    venue = dataclasses.replace(find_venue("frictionless"), fill=fill, currency="CNY")
    wide = (10.0, 12.0, 8.0, 10.0)
    day = days(wide, wide, config=dataclasses.replace(FREE, venue=venue))
    ticks = day.rules.scales[0].ticks_per_unit
    order = replace(limited(side, limit, shares=10), limit_ticks=round(limit * ticks))
    ended = outcome(day, order)

    assert ended.rule == (None if is_filled else "limit")
    assert ended.price_ticks == 10 * ticks * is_filled


@pytest.mark.parametrize("side", ["BUY", "SELL"])
def test_a_bar_whose_extremes_are_not_known_fills_at_the_open_alone(side: str) -> None:
    bar = (10.0, np.nan, np.nan, 10.2)
    day = days(bar, bar)
    assert outcome(day, limited(side, 10.0)).status == "filled"
    assert outcome(day, limited(side, 9.9 if side == "BUY" else 10.1)).rule == "limit"


def test_a_target_weight_is_sized_at_the_open() -> None:
    order = limited("BUY", 9.8, shares=None, target_weight=0.1)
    ended = outcome(days(BAR, BAR), order)
    # 10 % of 1,000,000 CNY at 10.00, paid at 9.80
    assert (ended.shares, ended.notional_minor) == (10_000, 9_800_000)


@pytest.mark.parametrize(
    ("side", "limit", "filled_at"),
    [
        # Two shares for one: 20.20 becomes 10.10, 19.80 becomes 9.90.
        ("BUY", 20.2, 10.0),
        ("BUY", 19.8, 9.9),
        ("BUY", 19.2, None),
        ("SELL", 20.6, 10.3),
        # Half a tick is rounded against the order.
        ("BUY", 19.8001, 9.9),
        ("SELL", 20.6001, 10.3001),
    ],
)
def test_a_factor_change_of_the_fill_day_changes_the_limit(
    side: str, limit: float, filled_at: float | None
) -> None:
    codes = (CODES["main2"],)
    market = snapshot_of_days(codes, [[20.0], [10.0]], [[20.0], [10.2]], factor=[[1.0], [2.0]])
    bars = dataclasses.replace(
        market, id="", high=np.array([[20.0], [10.4]]), low=np.array([[20.0], [9.6]])
    )
    day = MarketTape.from_snapshot(bars, FREE).day(1)
    account = CASH if side == "BUY" else Account(0, {0: Position(500)})
    ended = settle(account, day, (limited(side, limit),), 0).outcomes[0]

    assert ended.price_ticks == round((filled_at or 0) * TICKS)


# ---- several orders


def test_what_a_sell_brings_in_after_the_open_pays_for_no_buy_of_the_day() -> None:
    day = days(BAR, BAR)
    held = Account(0, {0: Position(1_000)})
    buy = Order(1, "BUY", 0.5, "", shares=900)

    late = settle(held, day, (limited("SELL", 10.3), buy), 0)
    assert [each.rule for each in late.outcomes] == [None, "cash"]
    assert late.after.cash_minor == 1_030_000

    at_open = settle(held, day, (limited("SELL", 9.9), buy), 0)
    assert [each.rule for each in at_open.outcomes] == [None, None]


def test_name_sold_after_the_open_is_still_held_while_buys_fill() -> None:
    day = days(BAR, BAR, config=dataclasses.replace(FREE, max_positions=1))
    account = Account(10_000_000, {0: Position(1_000)})
    buy = Order(1, "BUY", 0.5, "", shares=100)

    late = settle(account, day, (limited("SELL", 10.3), buy), 0)
    assert [each.rule for each in late.outcomes] == [None, "position_limit"]

    at_open = settle(account, day, (limited("SELL", 9.9), buy), 0)
    assert [each.rule for each in at_open.outcomes] == [None, None]


# ---- with execution

IMPACT = Execution(impact=1.0, max_participation=1.0, half_spread_bps=10.0)


def priced_days(execution: Execution) -> TradingDay:
    """A fill day as `BAR` after thirty days of a name that moves by 2 % and trades 10,000 shares."""
    closes = [[10.0 if row % 2 else 10.2] for row in range(31)]
    closes.append([10.2])
    opens = [*closes[:-1], [10.0]]
    market = snapshot_of_days((CODES["main2"],), opens, closes, volume=[[10_000.0]] * 32)
    high = market.high.copy()
    low = market.low.copy()
    high[-1], low[-1] = 10.4, 9.6
    shown = dataclasses.replace(market, id="", high=high, low=low)
    config = dataclasses.replace(FREE, execution=execution)
    return MarketTape.from_snapshot(shown, config).day(31)


@pytest.mark.parametrize(("side", "sign"), [("BUY", 1), ("SELL", -1)])
def test_an_order_is_cut_to_what_spread_and_impact_leave_within_the_limit(
    side: str, sign: int
) -> None:
    day = priced_days(IMPACT)
    account = CASH if side == "BUY" else Account(0, {0: Position(10_000)})

    def filled(limit: float, shares: int) -> Outcome:
        order = limited(side, limit, shares=shares)
        return settle(account, day, (order,), 30).outcomes[0]

    limit = 10.0 + sign * 0.07
    cut = filled(limit, 10_000)
    assert (cut.status, cut.rule) == ("partially_filled", "limit")
    assert sign * cut.price_ticks <= sign * round(limit * TICKS)

    # The price of one lot more, by an order without a limit, is beyond it.
    more = Order(0, side, 0.5, "", shares=cut.shares + 100)  # type: ignore[arg-type]
    (beyond,) = settle(account, day, (more,), 30).outcomes
    assert sign * beyond.price_ticks > sign * round(limit * TICKS)

    # Half the spread is 0.01: no lot is to be had for less.
    assert filled(10.0 + sign * 0.005, 100).rule == "limit"


def test_limit_must_be_exceeded_by_spread_and_impact_after_the_open() -> None:
    day = priced_days(Execution(half_spread_bps=10.0))
    # The lowest price is 9.60, and half the spread of it 0.0096.
    assert settle(CASH, day, (limited("BUY", 9.6095),), 30).outcomes[0].rule == "limit"
    (ended,) = settle(CASH, day, (limited("BUY", 9.6096),), 30).outcomes
    assert (ended.status, ended.price_ticks) == ("filled", 96_096)


def test_the_rest_of_an_order_that_volume_cuts_keeps_its_limit() -> None:
    execution = Execution(max_participation=0.1, rest="carry")
    order = limited("BUY", 9.9, shares=5_000)
    booked = settle(CASH, priced_days(execution), (order,), 30)

    assert [(each.rule, each.shares) for each in booked.outcomes] == [("volume", 1_000)]
    assert booked.after.working == (replace(order, shares=4_000),)

    # A limit that is not reached ends the order: it was good for the day.
    missed = settle(CASH, priced_days(execution), (limited("BUY", 9.0),), 30)
    assert missed.after.working == ()


# ---- checks


def test_a_limit_is_of_no_use_to_a_task_without_limit_orders() -> None:
    day = days(BAR, config=dataclasses.replace(FREE, limit_orders=False))
    assert day.low_ticks == ()
    assert outcome(day, limited("BUY", 11.0)).rule == "schema"


@pytest.mark.parametrize(
    ("limit", "price"),
    [(9.9, 9.8), (9.9, 9.8999), (9.9, 10.0), (9.6, 9.6), (10.2, 10.1), (9.0, 9.0)],
)
def test_fill_at_a_price_outside_the_limit_or_day_stops_the_engine(
    limit: float, price: float
) -> None:
    day = days(BAR)
    order = limited("BUY", limit)
    ticks = round(price * TICKS)
    notional = ticks * 10
    positions = {0: Position(1_000, 1_000)}
    booked = settle(CASH, day, (), 0)
    held = 10_200 * 100
    forged = replace(
        booked,
        action=(order,),
        outcomes=(Outcome("filled", None, "", 1_000, ticks, notional),),
        after=Account(CASH.cash_minor - notional, positions),
        holdings_minor=held,
        nav_minor=CASH.cash_minor - notional + held,
    )

    with pytest.raises(InvariantError, match="at a price that the day does not have"):
        check_step(forged, day, 0)


@pytest.mark.parametrize(
    ("limit", "price"), [(10.1, 10.1001), (10.1, 10.2), (10.1, 10.0), (10.4, 10.4)]
)
def test_sale_at_a_price_outside_the_limit_or_day_stops_the_engine(
    limit: float, price: float
) -> None:
    ticks = round(price * TICKS)
    notional = ticks * 10
    booked = settle(Account(0, {0: Position(1_000)}), days(BAR), (), 0)
    forged = replace(
        booked,
        action=(limited("SELL", limit),),
        outcomes=(Outcome("filled", None, "", 1_000, ticks, notional),),
        after=Account(notional, {}),
        holdings_minor=0,
        nav_minor=notional,
    )

    with pytest.raises(InvariantError, match="at a price that the day does not have"):
        check_step(forged, days(BAR), 0)


def test_limit_orders_are_not_assumed_filled_in_pre_trade_rule_checks() -> None:
    one = dataclasses.replace(FREE, max_positions=2)
    full = Account(100_000, {0: Position(1_000), 1: Position(1_000)})
    values = {0: 1_000_000, 1: 1_000_000}

    def broken(*orders: Order) -> list[tuple[int, str]]:
        return [tuple(each) for each in known_breaches(full, values, orders, one)]

    whole = limited("SELL", 12.0, shares=None, target_weight=0.0)
    assert broken(whole, limited("SELL", 11.0, shares=500)) == []
    assert broken(limited("BUY", 9.0, shares=100), Order(0, "BUY", 0.5, "", shares=100)) == []


@pytest.mark.exhaustive
@examples(200)
@given(
    bar=st.tuples(*[st.integers(95_000, 105_000)] * 4),
    orders=st.lists(
        st.tuples(
            st.sampled_from(["BUY", "SELL"]),
            st.integers(0, 1),
            st.integers(90_000, 110_000),
            st.integers(1, 40),
        ),
        max_size=6,
    ),
    execution=st.sampled_from([None, IMPACT, Execution(half_spread_bps=5.0, inside_bar=True)]),
)
def test_no_fill_is_beyond_its_limit_or_outside_the_bars_prices(
    bar: tuple[int, ...], orders: list[tuple[Any, int, int, int]], execution: Execution | None
) -> None:
    opened, closed, *others = (ticks / TICKS for ticks in bar)
    low = min(opened, closed, *others)
    high = max(opened, closed, *others)
    config = FREE if execution is None else dataclasses.replace(FREE, execution=execution)
    day = days((opened, high, low, closed), (opened, high, low, closed), config=config)
    action = tuple(
        Order(asset, side, 0.5, "", shares=100 * lots, limit_ticks=limit)
        for side, asset, limit, lots in orders
    )
    account = Account(10_000_000, {0: Position(2_000), 1: Position(2_000)})
    booked = settle(account, day, action, 0)

    for order, ended in booked.fills:
        if not ended.shares:
            continue

        sign = 1 if order.side == "BUY" else -1
        price = ended.price_ticks
        assert sign * price <= sign * order.limit_ticks
        assert sign * price >= min(sign * day.open_ticks[0], sign * order.limit_ticks)
        if execution is None:
            is_at_open = price == day.open_ticks[0]
            is_in_bar = day.low_ticks[0] < price < day.high_ticks[0]
            assert is_at_open or (price == order.limit_ticks and is_in_bar)

    paid = sum(
        ended.notional_minor if order.side == "SELL" else -ended.notional_minor
        for order, ended in booked.fills
    )
    assert booked.after.cash_minor == account.cash_minor + paid >= 0
