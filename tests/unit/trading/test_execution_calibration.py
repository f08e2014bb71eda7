"""Estimators of spreads: planted spreads are found, and examples by hand; presets as the reference
stock has them.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from execution_calibration import (
    DailyPrices,
    Market,
    abdi_ranaldo_terms,
    compare,
    corwin_schultz_terms,
    preset_half_spread_bps,
    roll_spread,
    simulated,
    spread_of,
)


@pytest.mark.parametrize(
    ("estimator", "within"),
    [
        ("Roll 1984", 0.1),
        # 390 trades a day see less than the whole range, which it takes for a spread.
        ("Corwin-Schultz 2012", 0.15),
        ("Abdi-Ranaldo 2017", 0.05),
    ],
)
def test_a_planted_spread_is_found(estimator: str, within: float) -> None:
    prices = simulated(sigma=0.01, spread=0.02, days=120, assets=20)
    assert spread_of(prices, estimator) == pytest.approx(0.02, rel=within)


def test_a_spread_is_found_of_what_is_between_bid_and_ask_alone() -> None:
    # A price that never moves: closes alternate between bid 1 and ask 1.02 (log distance s).
    closes = np.array([[1.0], [1.02]] * 50)
    prices = DailyPrices(np.full_like(closes, 1.02), np.full_like(closes, 1.0), closes)
    spread = math.log(1.02)
    distances = abdi_ranaldo_terms(prices)[:-1]

    assert distances == pytest.approx((spread / 2) ** 2)
    assert spread_of(prices, "Abdi-Ranaldo 2017") == pytest.approx(spread)
    # A two-day range that is no wider than a day's is all spread: 2 (e^s - 1) / (1 + e^s).
    assert corwin_schultz_terms(prices)[1:] == pytest.approx(2 * 0.02 / 2.02)


def test_a_covariance_above_zero_has_a_spread_below_zero() -> None:
    assert roll_spread(-0.0001) == pytest.approx(0.02)
    assert roll_spread(0.0001) == pytest.approx(-0.02)


def test_presets_at_the_reference_stock_are_their_constants() -> None:
    reference = {"price": 40.0, "volume": 1e6, "sigma": 0.02}
    assert preset_half_spread_bps("us_equity", "spread", reference) == pytest.approx(8.21)
    assert preset_half_spread_bps("us_equity", "sqrt", reference) == pytest.approx(2.08)

    # an eighth of the activity by its volume: twice the spread
    thin = {**reference, "volume": 1e6 / 8}
    assert preset_half_spread_bps("us_equity", "spread", thin) == pytest.approx(16.42, rel=1e-6)


@pytest.mark.slow
def test_a_market_is_compared_by_buckets_of_activity() -> None:
    prices = simulated(sigma=0.01, spread=0.01, days=42, assets=10)
    market = Market(
        name="planted",
        venue="us_equity",
        months=np.arange(42) // 21,
        prices=prices,
        price=np.full(10, 40.0),
        volume=np.geomspace(1e5, 1e8, 10),
    )
    found = compare(market, draws=20)

    assert len(found) == 5
    assert [bucket.activity for bucket in found] == sorted(bucket.activity for bucket in found)
    halves = [bucket.presets["spread"] for bucket in found]
    assert halves == sorted(halves, reverse=True)
    for bucket in found:
        estimate = bucket.estimates["Abdi-Ranaldo 2017"]
        assert estimate.half_spread == pytest.approx(50, rel=0.3)
        assert estimate.interval[0] <= estimate.half_spread <= estimate.interval[1]
