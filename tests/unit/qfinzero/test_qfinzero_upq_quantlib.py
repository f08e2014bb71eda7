"""Black-Scholes-Merton prices and Greeks against QuantLib, to 1e-8."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval_qfinzero.upq.pricing import GREEK_NAMES, European, greeks, price

ql = pytest.importorskip("QuantLib", reason="QuantLib, the independent check, is not installed")

ANY = {
    "spot": st.floats(1, 1_000),
    "strike": st.floats(1, 1_000),
    "rate": st.floats(-0.02, 0.15),
    "years": st.floats(0.002, 5),
    "volatility": st.floats(0.02, 2.0),
    "call": st.booleans(),
}


def test_a_grid_agrees_with_the_engine_of_quantlib() -> None:
    today = ql.Date(6, 1, 2025)
    ql.Settings.instance().evaluationDate = today
    grid = list(itertools.product((80.0, 100.0, 125.0), (0.0, 0.043), (3, 46, 730), (0.1, 0.35, 1.2), (True, False)))
    spot, rate, days, volatility, call = (np.array(column) for column in zip(*grid, strict=True))
    option = European(call.astype(bool), spot, 100.0, rate, days / 365)
    ours, value = greeks(option, volatility), price(option, volatility)
    for i, (spot_i, rate_i, days_i, volatility_i, call_i) in enumerate(grid):
        counter = ql.Actual365Fixed()
        process = ql.BlackScholesProcess(
            ql.QuoteHandle(ql.SimpleQuote(spot_i)),
            ql.YieldTermStructureHandle(ql.FlatForward(today, rate_i, counter)),
            ql.BlackVolTermStructureHandle(ql.BlackConstantVol(today, ql.NullCalendar(), volatility_i, counter)),
        )
        payoff = ql.PlainVanillaPayoff(ql.Option.Call if call_i else ql.Option.Put, 100.0)
        theirs = ql.VanillaOption(payoff, ql.EuropeanExercise(today + days_i))
        theirs.setPricingEngine(ql.AnalyticEuropeanEngine(process))
        expected = (theirs.NPV(), theirs.delta(), theirs.gamma(), theirs.theta() / 365, theirs.vega() / 100, theirs.rho() / 100)
        found = (value[i], *(getattr(ours, name)[i] for name in GREEK_NAMES))
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@given(**ANY)
@settings(max_examples=150)
def test_anywhere_it_agrees_with_the_calculator_of_quantlib(
    spot: float, strike: float, rate: float, years: float, volatility: float, call: bool
) -> None:
    payoff = ql.PlainVanillaPayoff(ql.Option.Call if call else ql.Option.Put, strike)
    discount = math.exp(-rate * years)
    theirs = ql.BlackCalculator(payoff, spot / discount, volatility * math.sqrt(years), discount)
    option = European(call, spot, strike, rate, years)
    ours = greeks(option, volatility)
    assert float(price(option, volatility)) == pytest.approx(theirs.value(), rel=1e-8, abs=1e-8)
    expected = {
        "delta": theirs.delta(spot),
        "gamma": theirs.gamma(spot),
        "theta": theirs.theta(spot, years) / 365,
        "vega": theirs.vega(years) / 100,
        "rho": theirs.rho(years) / 100,
    }
    for name, value in expected.items():
        assert float(getattr(ours, name)) == pytest.approx(value, rel=1e-8, abs=1e-8), name
