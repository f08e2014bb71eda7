"""Matching of orders against bars: each rule separately, and invariants over all bars and orders."""

from __future__ import annotations

from dataclasses import astuple
from datetime import date

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.testing import on_each_row
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.pmb.bar_feed import NEVER, DayFrame
from ktdeval_qfinzero.pmb.broker_types import Bar, Fill, FillRules, Instrument, Order
from ktdeval_qfinzero.pmb.matching import (
    BarMatch,
    SpreadLeg,
    add_slippage,
    capacity,
    match,
    match_spread,
    price_step,
)
from ktdeval_qfinzero.pmb.tick_execution import next_tick
from ktdeval_qfinzero.timestamps import MINUTE
from support.qfinzero.qfinzero_broker_play import OPEN

STOCK = Instrument("STOCK", "AVLN")
CALL = Instrument("OPTION", OptionContract("AVLN", date(2025, 1, 17), 1_000_000, "C").symbol)
NO_COST = FillRules(slippage_bps=0, option_spread_bps=0, max_volume_pct=100)
PLENTY = 10**9


def bar(open_: float, high: float, low: float, close: float, volume: int = 1_000_000) -> Bar:
    return Bar(*(round(price * 10_000) for price in (open_, high, low, close)), volume)


def order(
    side: str,
    limit: float | None = None,
    stop: float | None = None,
    qty: int = 100,
    instrument: Instrument = STOCK,
) -> Order:
    order_type = {
        (False, False): "MARKET",
        (True, False): "LIMIT",
        (False, True): "STOP",
        (True, True): "STOP_LIMIT",
    }
    kind = order_type[limit is not None, stop is not None]
    prices = {
        name: None if value is None else round(value * 10_000)
        for name, value in (("limit_e4", limit), ("stop_e4", stop))
    }

    return Order("o", 1, "a", "s", "", instrument, side, kind, qty, "GTC", OPEN, **prices)  # type: ignore[arg-type]


def match_bar(order_: Order, bar_: Bar, left: int, rules: FillRules) -> BarMatch:
    """An order on a whole bar: at its open, and inside where nothing happened there."""
    at_open = match(order_, bar_, left, rules, at_open=True)
    return match(order_, bar_, left, rules, at_open=False) if at_open == BarMatch() else at_open


def price(order_: Order, bar_: Bar, rules: FillRules = NO_COST) -> float | None:
    fill = match_bar(order_, bar_, PLENTY, rules).fill
    return None if fill is None else fill.price_e4 / 10_000


# --- Prices
# -----------------------------------------------------------------------------------------------------------------------


@on_each_row(
    "side, instrument, open_, costs, found",
    ("BUY", "STOCK", 100, {}, 100),
    ("SELL", "STOCK", 100, {}, 100),
    # as it is, without slippage
    ("BUY", "STOCK", 100.0001, {}, 100.0001),
    # slippage is against the trader, to the next cent
    ("BUY", "STOCK", 100, {"slippage_bps": 2}, 100.02),
    ("SELL", "STOCK", 100, {"slippage_bps": 2}, 99.98),
    ("BUY", "STOCK", 30, {"slippage_bps": 2}, 30.01),
    ("SELL", "STOCK", 30, {"slippage_bps": 2}, 29.99),
    # below a dollar: to a hundredth of a cent
    ("BUY", "STOCK", 0.5, {"slippage_bps": 10}, 0.5005),
    # half the spread
    ("BUY", "CALL", 10, {"option_spread_bps": 100}, 10.05),
    ("SELL", "CALL", 10, {"option_spread_bps": 100}, 9.95),
    ("BUY", "STOCK", 10, {"option_spread_bps": 100}, 10),
)
def test_a_market_order_fills_at_the_open_with_its_costs(
    side: str, instrument: str, open_: float, costs: dict[str, int], found: float
) -> None:
    rules = FillRules(**{"slippage_bps": 0, "option_spread_bps": 0, "max_volume_pct": 100, **costs})
    sent = order(side, instrument={"STOCK": STOCK, "CALL": CALL}[instrument])
    assert price(sent, bar(open_, open_ * 1.1, open_ * 0.9, open_), rules) == found


def test_prices_have_steps_and_a_sale_brings_at_least_one() -> None:
    assert (
        price_step("STOCK", 9_999),
        price_step("STOCK", 10_000),
        price_step("OPTION", 9_999),
    ) == (1, 100, 100)
    assert add_slippage(100, "SELL", CALL, FillRules(option_spread_bps=10_000)) == 100
    assert add_slippage(50, "SELL", CALL, FillRules()) == 50, (
        "no more than the market pays, which a limit may have bought at"
    )


@pytest.mark.parametrize(
    ("side", "limits", "stops"),
    [
        # Limits fill at the open where that is better, else at their price where that is reached
        # inside the bar.
        ("BUY", {101.0: 100.0, 100.0: 100.0, 97.0: 97.0, 95.0: 95.0, 94.99: None}, {}),
        ("SELL", {99.0: 100.0, 103.0: 103.0, 105.0: 105.0, 105.01: None}, {}),
        # Stops fill at their price, or at an open that has passed it.
        ("BUY", {}, {103.0: 103.0, 99.0: 100.0, 105.01: None}),
        ("SELL", {}, {97.0: 97.0, 101.0: 100.0, 94.99: None}),
    ],
)
def test_a_limit_or_stop_order_fills_at_its_price_or_the_open(
    side: str, limits: dict[float, float | None], stops: dict[float, float | None]
) -> None:
    wide = bar(100, 105, 95, 98)
    assert {limit: price(order(side, limit=limit), wide) for limit in limits} == limits
    assert {stop: price(order(side, stop=stop), wide) for stop in stops} == stops


def test_triggered_stop_fills_as_market_and_stop_limit_within_its_limit() -> None:
    waiting = order("BUY", stop=103)
    waiting.triggered = True

    assert price(waiting, bar(90, 91, 89, 90)) == 90
    assert price(order("BUY", limit=104, stop=103), bar(100, 105, 95, 98)) == 103
    assert price(order("SELL", limit=96, stop=97), bar(100, 105, 95, 98)) == 97


def test_a_stop_limit_order_beyond_its_limit_triggers_and_waits() -> None:
    waiting = order("BUY", limit=101, stop=99)
    # 98 may have come before the stop was reached
    gapped = match_bar(waiting, bar(102, 103, 98, 99), PLENTY, NO_COST)

    assert (gapped.triggered, gapped.fill) == (True, None)

    waiting.triggered = True
    assert price(waiting, bar(102, 103, 101, 102)) == 101  # no stop to be reached again


# --- Quantities
# -------------------------------------------------------------------------------------------------------------------


def test_fills_take_at_most_their_share_of_the_volume() -> None:
    assert capacity(bar(1, 1, 1, 1, 1_005), FillRules(max_volume_pct=10)) == 100
    assert match_bar(order("BUY", qty=500), bar(1, 1, 1, 1), 100, NO_COST).fill == Fill(100, 10_000)
    assert match_bar(order("BUY"), bar(1, 1, 1, 1), 0, NO_COST).fill is None
    assert match_bar(order("BUY", stop=1), bar(1, 1, 1, 1), 0, NO_COST).triggered, (
        "even where nothing can be filled"
    )


def test_a_spread_fills_at_the_opens_within_its_net_limit() -> None:
    legs = [
        SpreadLeg(order("BUY", instrument=CALL, qty=2), bar(10, 11, 9, 10), 2),
        SpreadLeg(order("SELL", qty=200), bar(8, 9, 7, 8), 200),
    ]
    at_market = match_spread(legs, None, 2, NO_COST)

    assert at_market == (Fill(2, 100_000), Fill(200, 80_000))
    assert match_spread(legs, 20_000, 2, NO_COST) == at_market  # 10 − 8 a share
    assert match_spread(legs, 19_999, 2, NO_COST) is None

    legs = [
        SpreadLeg(order("BUY", qty=100), bar(10, 11, 9, 10), 100),
        SpreadLeg(order("SELL", qty=100), bar(8, 9, 7, 8), 99),
    ]

    assert match_spread(legs, None, 1, NO_COST) is None, "in full or not at all"


# --- Laws
# -------------------------------------------------------------------------------------------------------------------------

CENTS = st.integers(100, 20_000).map(lambda cents: cents * 100)


@st.composite
def some_bars(draw: st.DrawFn) -> Bar:
    prices = draw(st.lists(CENTS, min_size=4, max_size=4).map(sorted))
    open_, close = draw(st.permutations([prices[1], prices[2]]))
    return Bar(open_, prices[3], prices[0], close, draw(st.integers(1, 10_000)))


@st.composite
def some_orders(draw: st.DrawFn) -> Order:
    limit, stop = (draw(st.none() | CENTS) for _ in range(2))
    instrument = draw(st.sampled_from((STOCK, CALL)))
    side = draw(st.sampled_from(("BUY", "SELL")))
    drawn = order(side, instrument=instrument, qty=draw(st.integers(1, 1_000)))
    drawn.limit_e4 = limit
    drawn.stop_e4 = stop
    drawn.triggered = stop is not None and draw(st.booleans())

    return drawn


RULES = st.builds(FillRules, st.integers(0, 200), st.integers(0, 2_000), st.integers(1, 100))


@pytest.mark.exhaustive
@given(some_orders(), some_bars(), RULES, st.integers(0, 1_000))
def test_no_fill_is_better_than_its_bar_or_stop_or_worse_than_its_limit(
    order_: Order, bar_: Bar, rules: FillRules, left: int
) -> None:
    matched = match_bar(order_, bar_, left, rules)
    if (fill := matched.fill) is None:
        return

    assert 0 < fill.qty <= min(order_.qty, left)

    buys = order_.side == "BUY"
    assert fill.price_e4 >= bar_.low_e4 if buys else fill.price_e4 <= bar_.high_e4

    if order_.limit_e4 is not None:
        assert fill.price_e4 <= order_.limit_e4 if buys else fill.price_e4 >= order_.limit_e4
        assert bar_.low_e4 <= fill.price_e4 <= bar_.high_e4

    if matched.triggered:  # on the bar that triggers it
        assert order_.stop_e4 is not None
        assert (
            fill.price_e4 >= order_.stop_e4 if buys else fill.price_e4 <= max(order_.stop_e4, 100)
        )


@given(st.integers(1, 10**8), RULES, st.sampled_from((STOCK, CALL)))
def test_slippage_never_helps_and_costs_at_most_its_rate_and_one_step(
    price_e4: int, rules: FillRules, instrument: Instrument
) -> None:
    rate = (
        2 * rules.slippage_bps + (rules.option_spread_bps if instrument is CALL else 0)
    ) / 20_000
    bought = add_slippage(price_e4, "BUY", instrument, rules)
    sold = add_slippage(price_e4, "SELL", instrument, rules)

    assert price_e4 <= bought < price_e4 * (1 + rate) + 101
    assert max(0, price_e4 * (1 - rate) - 101) < sold <= price_e4

    if rate:
        assert bought % price_step(instrument.kind, bought) == 0


@pytest.mark.exhaustive
@given(
    some_orders(),
    st.lists(some_bars() | st.none(), min_size=1, max_size=8),
    st.integers(0, 7),
    st.integers(-1, 9),
)
def test_the_next_tick_of_an_order_is_the_first_at_which_it_can_act(
    order_: Order, bars: list[Bar | None], first: int, accepted: int
) -> None:
    order_.accepted_ns = OPEN + accepted * MINUTE - 1
    acts_at = next_tick([order_], frame_of(bars), first)
    for tick, each in enumerate(bars):
        late = tick >= first and OPEN + tick * MINUTE >= order_.accepted_ns
        outcome = match_bar(order_, each, PLENTY, NO_COST) if late and each is not None else None
        if outcome is not None and (outcome.triggered or outcome.fill is not None):
            assert acts_at == tick
            return

    assert acts_at == NEVER


def frame_of(bars: list[Bar | None]) -> DayFrame:
    """A day of some minutes with one stock, or the call instead."""
    rows = [(0,) * 5 if each is None else astuple(each) for each in bars]
    values = np.array(rows, np.int64)[:, None, :]
    starts = OPEN + np.arange(len(bars), dtype=np.int64) * MINUTE
    parts = [values[:, :, index] for index in range(5)]
    marks = np.zeros((len(bars) + 1, 1), np.int64)

    return DayFrame(
        date(2025, 1, 6),
        starts,
        starts + MINUTE,
        (STOCK,),
        {STOCK.id: 0, CALL.id: 0},
        *parts,
        marks,
    )
