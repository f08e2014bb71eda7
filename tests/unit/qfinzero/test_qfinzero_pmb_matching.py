"""How orders meet bars: each rule by itself, and laws over all bars and orders."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.moments import MINUTE
from ktdeval_qfinzero.pmb.frames import NEVER, Frame
from ktdeval_qfinzero.pmb.matching import Leg, capacity, match, match_spread, price_step, slipped
from ktdeval_qfinzero.pmb.ticks import next_tick
from ktdeval_qfinzero.pmb.values import Bar, Fill, FillRules, Instrument, Order
from qfinzero_broker_play import OPEN

STOCK = Instrument("STOCK", "AVLN")
CALL = Instrument("OPTION", OptionContract("AVLN", date(2025, 1, 17), 1_000_000, "C").symbol)
NO_COST = FillRules(slippage_bps=0, option_spread_bps=0, max_volume_pct=100)
PLENTY = 10**9


def bar(open_: float, high: float, low: float, close: float, volume: int = 1_000_000) -> Bar:
    return Bar(*(round(price * 10_000) for price in (open_, high, low, close)), volume)


def order(
    side: str, limit: float | None = None, stop: float | None = None, qty: int = 100, instrument: Instrument = STOCK
) -> Order:
    order_type = {(False, False): "MARKET", (True, False): "LIMIT", (False, True): "STOP", (True, True): "STOP_LIMIT"}
    kind = order_type[limit is not None, stop is not None]
    prices = {name: None if value is None else round(value * 10_000) for name, value in (("limit_e4", limit), ("stop_e4", stop))}
    return Order("o", 1, "a", "s", "", instrument, side, kind, qty, "GTC", OPEN, **prices)  # type: ignore[arg-type]


def price(order_: Order, bar_: Bar, rules: FillRules = NO_COST) -> float | None:
    fill = match(order_, bar_, PLENTY, rules).fill
    return None if fill is None else fill.price_e4 / 10_000


# --- Prices -----------------------------------------------------------------------------------------------------------------------


def test_a_market_order_fills_at_the_open() -> None:
    assert price(order("BUY"), bar(100, 105, 95, 104)) == 100
    assert price(order("SELL"), bar(100, 105, 95, 104)) == 100


@pytest.mark.parametrize(
    ("side", "open_", "paid"), [("BUY", 100, 100.02), ("SELL", 100, 99.98), ("BUY", 30, 30.01), ("SELL", 30, 29.99)]
)
def test_slippage_is_against_the_trader_to_the_next_cent(side: str, open_: float, paid: float) -> None:
    assert price(order(side), bar(open_, open_ + 1, open_ - 1, open_), FillRules(slippage_bps=2)) == paid


def test_below_a_dollar_stocks_are_quoted_in_steps_of_a_hundredth_of_a_cent() -> None:
    assert (price_step("STOCK", 9_999), price_step("STOCK", 10_000), price_step("OPTION", 9_999)) == (1, 100, 100)
    assert price(order("BUY"), bar(0.5, 0.6, 0.4, 0.5), FillRules(slippage_bps=10)) == 0.5005


def test_a_sale_brings_at_least_one_step() -> None:
    assert slipped(100, "SELL", CALL, FillRules(option_spread_bps=10_000)) == 100


def test_an_option_market_order_pays_half_the_spread_and_slippage() -> None:
    rules = FillRules(slippage_bps=0, option_spread_bps=100)
    assert price(order("BUY", instrument=CALL), bar(10, 11, 9, 10), rules) == 10.05
    assert price(order("SELL", instrument=CALL), bar(10, 11, 9, 10), rules) == 9.95
    assert price(order("BUY"), bar(10, 11, 9, 10), rules) == 10


@pytest.mark.parametrize(
    ("side", "limit", "found"),
    [
        ("BUY", 101.0, 100.0),  # the open is better
        ("BUY", 100.0, 100.0),
        ("BUY", 97.0, 97.0),  # reached inside the bar
        ("BUY", 95.0, 95.0),
        ("BUY", 94.99, None),
        ("SELL", 99.0, 100.0),
        ("SELL", 103.0, 103.0),
        ("SELL", 105.0, 105.0),
        ("SELL", 105.01, None),
    ],
)
def test_a_limit_order_fills_at_the_open_or_its_limit(side: str, limit: float, found: float | None) -> None:
    assert price(order(side, limit=limit), bar(100, 105, 95, 98)) == found


@pytest.mark.parametrize(
    ("side", "stop", "found"),
    [
        ("BUY", 103.0, 103.0),
        ("BUY", 99.0, 100.0),  # gapped over: the open
        ("BUY", 105.01, None),
        ("SELL", 97.0, 97.0),
        ("SELL", 101.0, 100.0),
        ("SELL", 94.99, None),
    ],
)
def test_a_stop_order_fills_at_its_stop_or_the_worse_open(side: str, stop: float, found: float | None) -> None:
    assert price(order(side, stop=stop), bar(100, 105, 95, 98)) == found


def test_a_stop_order_that_was_triggered_fills_as_a_market_order() -> None:
    waiting = order("BUY", stop=103)
    waiting.triggered = True
    assert price(waiting, bar(90, 91, 89, 90)) == 90


def test_a_stop_limit_order_fills_on_its_trigger_bar_within_its_limit() -> None:
    assert price(order("BUY", limit=104, stop=103), bar(100, 105, 95, 98)) == 103
    assert price(order("SELL", limit=96, stop=97), bar(100, 105, 95, 98)) == 97


def test_a_stop_limit_order_beyond_its_limit_triggers_and_waits() -> None:
    waiting = order("BUY", limit=101, stop=99)
    gapped = match(waiting, bar(102, 103, 98, 99), PLENTY, NO_COST)  # 98 may have come before the stop was reached
    assert (gapped.triggered, gapped.fill) == (True, None)
    waiting.triggered = True
    assert price(waiting, bar(102, 103, 101, 102)) == 101  # no stop to be reached again


# --- Quantities -------------------------------------------------------------------------------------------------------------------


def test_fills_take_at_most_their_share_of_the_volume() -> None:
    assert capacity(bar(1, 1, 1, 1, 1_005), FillRules(max_volume_pct=10)) == 100
    assert match(order("BUY", qty=500), bar(1, 1, 1, 1), 100, NO_COST).fill == Fill(100, 10_000)
    assert match(order("BUY"), bar(1, 1, 1, 1), 0, NO_COST).fill is None


def test_a_stop_is_triggered_even_where_nothing_can_be_filled() -> None:
    assert match(order("BUY", stop=1), bar(1, 1, 1, 1), 0, NO_COST).triggered


def test_a_spread_fills_at_the_opens_within_its_net_limit() -> None:
    legs = [Leg(order("BUY", instrument=CALL, qty=2), bar(10, 11, 9, 10), 2), Leg(order("SELL", qty=200), bar(8, 9, 7, 8), 200)]
    at_market = match_spread(legs, None, 2, NO_COST)
    assert at_market == (Fill(2, 100_000), Fill(200, 80_000))
    assert match_spread(legs, 20_000, 2, NO_COST) == at_market  # 10 − 8 a share
    assert match_spread(legs, 19_999, 2, NO_COST) is None


def test_a_spread_fills_in_full_or_not_at_all() -> None:
    legs = [Leg(order("BUY", qty=100), bar(10, 11, 9, 10), 100), Leg(order("SELL", qty=100), bar(8, 9, 7, 8), 99)]
    assert match_spread(legs, None, 1, NO_COST) is None


# --- Laws -------------------------------------------------------------------------------------------------------------------------

CENTS = st.integers(100, 20_000).map(lambda cents: cents * 100)


@st.composite
def some_bars(draw: st.DrawFn) -> Bar:
    prices = draw(st.lists(CENTS, min_size=4, max_size=4).map(sorted))
    open_, close = draw(st.permutations([prices[1], prices[2]]))
    return Bar(open_, prices[3], prices[0], close, draw(st.integers(1, 10_000)))


@st.composite
def some_orders(draw: st.DrawFn) -> Order:
    limit, stop = (draw(st.none() | CENTS) for _ in range(2))
    instrument, side = draw(st.sampled_from((STOCK, CALL))), draw(st.sampled_from(("BUY", "SELL")))
    found = order(side, instrument=instrument, qty=draw(st.integers(1, 1_000)))
    found.limit_e4, found.stop_e4 = limit, stop
    found.triggered = stop is not None and draw(st.booleans())
    return found


RULES = st.builds(FillRules, st.integers(0, 200), st.integers(0, 2_000), st.integers(1, 100))


@given(some_orders(), some_bars(), RULES, st.integers(0, 1_000))
def test_no_fill_is_better_than_its_bar_or_worse_than_its_limit(order_: Order, bar_: Bar, rules: FillRules, left: int) -> None:
    fill = match(order_, bar_, left, rules).fill
    if fill is None:
        return
    assert 0 < fill.qty <= min(order_.qty, left)
    buys = order_.side == "BUY"
    assert fill.price_e4 >= bar_.low_e4 if buys else fill.price_e4 <= bar_.high_e4
    if order_.limit_e4 is not None:
        assert fill.price_e4 <= order_.limit_e4 if buys else fill.price_e4 >= order_.limit_e4
        assert bar_.low_e4 <= fill.price_e4 <= bar_.high_e4


@given(some_orders(), some_bars(), RULES)
def test_a_stop_is_never_filled_at_a_better_price_on_the_bar_that_triggers_it(order_: Order, bar_: Bar, rules: FillRules) -> None:
    found = match(order_, bar_, PLENTY, rules)
    if found.triggered and found.fill is not None:
        assert order_.stop_e4 is not None
        if order_.side == "BUY":
            assert found.fill.price_e4 >= order_.stop_e4
        else:
            assert found.fill.price_e4 <= max(order_.stop_e4, 100)


@given(st.integers(1, 10**8), RULES, st.sampled_from((STOCK, CALL)))
def test_slippage_never_helps_and_never_costs_more_than_its_rate_and_a_step(
    price_e4: int, rules: FillRules, instrument: Instrument
) -> None:
    rate = (2 * rules.slippage_bps + (rules.option_spread_bps if instrument is CALL else 0)) / 20_000
    bought, sold = slipped(price_e4, "BUY", instrument, rules), slipped(price_e4, "SELL", instrument, rules)
    assert price_e4 <= bought < price_e4 * (1 + rate) + 101
    assert max(0, price_e4 * (1 - rate) - 101) < sold <= max(price_e4, 100)
    if rate:
        assert bought % price_step(instrument.kind, bought) == 0


@given(some_orders(), st.lists(some_bars() | st.none(), min_size=1, max_size=8), st.integers(0, 7), st.integers(-1, 9))
def test_the_next_tick_of_an_order_is_the_first_at_which_it_can_act(
    order_: Order, bars: list[Bar | None], first: int, accepted: int
) -> None:
    order_.accepted_ns = OPEN + accepted * MINUTE - 1
    found = next_tick(order_, frame_of(bars), first)
    for tick, each in enumerate(bars):
        late = tick >= first and OPEN + tick * MINUTE >= order_.accepted_ns
        outcome = match(order_, each, PLENTY, NO_COST) if late and each is not None else None
        if outcome is not None and (outcome.triggered or outcome.fill is not None):
            assert found == tick
            return
    assert found == NEVER


def frame_of(bars: list[Bar | None]) -> Frame:
    """A day of some minutes with one stock, or the call in its place."""
    rows = [(0,) * 5 if each is None else tuple(getattr(each, name) for name in Bar.__dataclass_fields__) for each in bars]
    values = np.array(rows, np.int64)[:, None, :]
    starts = OPEN + np.arange(len(bars), dtype=np.int64) * MINUTE
    parts = [values[:, :, place] for place in range(5)]
    marks = np.zeros((len(bars) + 1, 1), np.int64)
    return Frame(date(2025, 1, 6), starts, starts + MINUTE, (STOCK,), {STOCK.id: 0, CALL.id: 0}, *parts, marks)
