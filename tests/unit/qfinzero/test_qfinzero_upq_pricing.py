"""Black-Scholes-Merton prices, Greeks and implied volatility, against textbook numbers and the laws they follow."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from ktdeval_qfinzero.upq.pricing import GREEK_NAMES, European, greeks, implied_volatility, price

SPOTS, STRIKES, RATES = st.floats(1, 1_000), st.floats(1, 1_000), st.floats(-0.02, 0.15)
YEARS, VOLATILITIES = st.floats(0.002, 5), st.floats(0.02, 2.0)
ANY = {"spot": SPOTS, "strike": STRIKES, "rate": RATES, "years": YEARS, "volatility": VOLATILITIES, "call": st.booleans()}


def normal(x: float) -> float:
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def test_prices_and_greeks_are_those_of_the_textbook() -> None:
    """Hull's examples: spot 42, strike 40, 10%, 20%, six months; spot 49, strike 50, 5%, 20%, twenty weeks; dividends of 0.50."""
    # ln(42/40) = 0.04879016.
    d1 = (0.04879016416943205 + (0.10 + 0.02) * 0.5) / (0.2 * math.sqrt(0.5))
    d2 = d1 - 0.2 * math.sqrt(0.5)
    call = 42 * normal(d1) - 40 * math.exp(-0.05) * normal(d2)
    put = 40 * math.exp(-0.05) * normal(-d2) - 42 * normal(-d1)
    assert (round(d1, 4), round(d2, 4), round(call, 2), round(put, 2)) == (0.7693, 0.6278, 4.76, 0.81)
    both = price(European(np.array([True, False]), 42.0, 40.0, 0.10, 0.5), 0.2)
    assert both.tolist() == [pytest.approx(call, abs=1e-12), pytest.approx(put, abs=1e-12)]
    found = greeks(European(True, 49.0, 50.0, 0.05, 0.3846), 0.2)
    assert (float(found.delta), float(found.gamma)) == (pytest.approx(0.522, abs=5e-4), pytest.approx(0.066, abs=5e-4))
    assert float(found.theta) * 365 == pytest.approx(-4.31, abs=5e-3)
    assert (float(found.vega) * 100, float(found.rho) * 100) == (pytest.approx(12.1, abs=5e-2), pytest.approx(8.91, abs=5e-3))
    # In two and five months, spot and strike 40, rate 9%, volatility 30%, six months: 3.67.
    deducted = 0.5 * math.exp(-0.09 * 2 / 12) + 0.5 * math.exp(-0.09 * 5 / 12)
    worth = float(price(European(True, 40.0 - deducted, 40.0, 0.09, 0.5), 0.3))
    assert (deducted, worth) == (pytest.approx(0.9742, abs=1e-4), pytest.approx(3.67, abs=5e-3))


@given(**ANY)
@settings(max_examples=60)
def test_call_less_put_is_spot_less_discounted_strike(
    spot: float, strike: float, rate: float, years: float, volatility: float, call: bool
) -> None:
    option = European(np.array([True, False]), spot, strike, rate, years)
    both, found = price(option, volatility), greeks(option, volatility)
    assert both[0] - both[1] == pytest.approx(spot - strike * math.exp(-rate * years), abs=1e-9)
    gaps = [float(values[0] - values[1]) for values in (found.delta, found.gamma, found.vega)]
    assert gaps == [pytest.approx(gap, abs=1e-12) for gap in (1, 0, 0)]


def test_greeks_are_the_slopes_of_the_price() -> None:
    base = {"spot": 103.0, "strike": 100.0, "rate": 0.043, "years": 0.4, "volatility": 0.31}

    def slope(call: bool, name: str, step: float) -> float:
        up, down = ({**base, name: base[name] + sign * step} for sign in (1, -1))
        high, low = (price(European(call, at["spot"], 100.0, at["rate"], at["years"]), at["volatility"]) for at in (up, down))
        return float(high - low) / (2 * step)

    for call in (True, False):
        found = greeks(European(call, 103.0, 100.0, 0.043, 0.4), 0.31)
        ends = [greeks(European(call, spot, 100.0, 0.043, 0.4), 0.31).delta for spot in (102.99, 103.01)]
        assert float(found.delta) == pytest.approx(slope(call, "spot", 1e-4), rel=1e-7)
        assert float(found.gamma) == pytest.approx(float(ends[1] - ends[0]) / 0.02, rel=1e-5)
        assert float(found.theta) == pytest.approx(-slope(call, "years", 1e-5) / 365, rel=1e-6)
        assert float(found.vega) == pytest.approx(slope(call, "volatility", 1e-5) / 100, rel=1e-7)
        assert float(found.rho) == pytest.approx(slope(call, "rate", 1e-5) / 100, rel=1e-7)


def test_without_time_or_volatility_the_price_is_its_lower_bound() -> None:
    option = European(np.array([True, False]), 110.0, 100.0, 0.0, np.array([0.0, 1.0]))
    assert price(option, np.array([0.3, 0.0])).tolist() == [10.0, 0.0]
    assert np.isnan(greeks(option, np.array([0.3, 0.0])).delta).all()


@given(**ANY)
@settings(max_examples=60)
def test_a_price_implies_the_volatility_it_was_made_with(
    spot: float, strike: float, rate: float, years: float, volatility: float, call: bool
) -> None:
    option = European(call, spot, strike, rate, years)
    made = float(price(option, volatility))
    assume(float(made - option.lower_bound) > 1e-6)
    found, status = implied_volatility(option, made)
    assert (status[0], float(price(option, found[0]))) == ("ok", pytest.approx(made, abs=1e-9))
    if float(greeks(option, volatility).vega) > 1e-4:
        assert found[0] == pytest.approx(volatility, abs=1e-8)


def test_a_price_without_a_volatility_says_why() -> None:
    """Spot 110 less strike 100 at no rate: at 10 nothing is left for time. A call is worth less than the stock; at 1000% 107.34."""
    paid = [10.0, 9.0, 10.5, 109.99, 110.0, 200.0, math.nan, math.inf, 0.0, -1.0]
    expected = ["below_intrinsic"] * 2 + ["ok"] + ["no_bracket"] * 3 + ["non_finite_input"] * 4
    found, statuses = implied_volatility(European(True, 110.0, 100.0, 0.0, 0.2), np.array(paid))
    assert (statuses.tolist(), np.isfinite(found).tolist()) == (expected, [status == "ok" for status in expected])
    used_up = European(False, -1.0, 100.0, 0.0, 0.2)  # a spot that dividends have used up
    assert implied_volatility(used_up, 5.0)[1].tolist() == ["non_finite_input"]


def test_arrays_give_what_scalars_give() -> None:
    calls, spots = np.array([True, False, True]), np.array([90.0, 100.0, 110.0])
    together = price(European(calls, spots, 100.0, 0.04, 0.25), 0.3)
    alone = [float(price(European(bool(call), float(spot), 100.0, 0.04, 0.25), 0.3)) for call, spot in zip(calls, spots)]
    assert together.tolist() == alone


@given(**ANY)
@settings(max_examples=60)
def test_anywhere_it_agrees_with_the_calculator_of_quantlib(
    spot: float, strike: float, rate: float, years: float, volatility: float, call: bool
) -> None:
    ql = pytest.importorskip("QuantLib", reason="QuantLib, the independent check, is not installed")
    payoff = ql.PlainVanillaPayoff(ql.Option.Call if call else ql.Option.Put, strike)
    discount = math.exp(-rate * years)
    theirs = ql.BlackCalculator(payoff, spot / discount, volatility * math.sqrt(years), discount)
    option = European(call, spot, strike, rate, years)
    ours = greeks(option, volatility)
    assert float(price(option, volatility)) == pytest.approx(theirs.value(), rel=1e-8, abs=1e-8)
    slopes = (theirs.delta(spot), theirs.gamma(spot), theirs.theta(spot, years) / 365, theirs.vega(years) / 100)
    found = [float(getattr(ours, name)) for name in GREEK_NAMES]
    np.testing.assert_allclose(found, [*slopes, theirs.rho(years) / 100], rtol=1e-8, atol=1e-8)
