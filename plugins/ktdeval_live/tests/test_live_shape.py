"""Shape of daily differences, and what cards say where intervals may be too short."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ktdeval_live.results.card_types import Excess, LiveInterval
from ktdeval_live.results.interval_assumptions import autocorrelation, doubts, skewness


def excess_of(values: np.ndarray) -> Excess:
    """Return the excess return of some days, without intervals."""
    interval = LiveInterval(n=len(values), mean=0.0)
    return Excess(
        symmetric=interval,
        asymptotic=interval,
        skewness=skewness(values),
        autocorrelation=autocorrelation(values),
    )


def test_figures_by_hand() -> None:
    # deviations 3, -1, -1, -1 five times over: variance 3, third moment (27 - 3) / 4 = 6
    values = np.tile([3.0, -1.0, -1.0, -1.0], 5) + 0.5
    assert skewness(values).value == pytest.approx(6 / 3**1.5)
    # products of neighbours: in each four -3, 1, 1, and -3 to the next: 5 * -1 + 4 * -3 of 60
    assert autocorrelation(values).value == pytest.approx(-17 / 60)


def test_skewness_is_that_of_an_independent_library() -> None:
    values = np.random.default_rng(0).gamma(2.0, 1.0, 100)
    assert skewness(values).value == pytest.approx(float(stats.skew(values)))


def test_few_or_equal_days_have_no_shape() -> None:
    assert skewness(np.arange(19.0)).reason == "fewer than 20 days"
    equal = np.full(20, 0.1)
    for figure in (skewness(equal), autocorrelation(equal)):
        assert (figure.value, figure.reason) == (None, "all days are equal")


def test_ordinary_days_raise_no_doubt() -> None:
    for seed in range(20):
        values = np.random.default_rng(seed).normal(0.0, 0.006, 250)
        assert list(doubts("x", excess_of(values))) == [], seed


def test_crash_and_serial_correlation_are_said() -> None:
    rng = np.random.default_rng(1)
    crash = 0.001 + 0.0003 * rng.standard_normal(100)
    crash[50] = -0.1

    assert "skewness" in next(doubts("Over the index", excess_of(crash)))

    stale = np.random.default_rng(2).standard_normal(250)

    for day in range(1, 250):
        stale[day] += 0.4 * stale[day - 1]

    assert "correlation of +0." in next(doubts("Over the index", excess_of(stale)))
