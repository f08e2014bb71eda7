"""Newey-West standard errors against statsmodels, by hand, and at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from statsmodels.regression.linear_model import OLS

from ktdeval.stats.series import automatic_lags, newey_west_mean

series = st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=80)


@pytest.mark.parametrize("lags", [0, 1, 5, 20])
def test_mean_and_error_equal_statsmodels(lags: int) -> None:
    values = np.cumsum(np.random.default_rng(3).normal(size=300)) / 10
    fit = OLS(values, np.ones(300)).fit(cov_type="HAC", cov_kwds={"maxlags": lags, "use_correction": True})
    found = newey_west_mean(values, lags)
    assert found.mean == pytest.approx(fit.params[0], rel=1e-12)
    assert found.se == pytest.approx(fit.bse[0], rel=1e-10)


def test_error_by_hand() -> None:
    # Deviations 1, -1, 1, -1: g(0) = 4, g(1) = -3, weight 1/2: 4 - 3 = 1; sqrt(1 / (4 * 3)).
    assert newey_west_mean([2.0, 0.0, 2.0, 0.0], 1) == pytest.approx((1.0, math.sqrt(1 / 12)))


@given(series, st.floats(0.01, 100))
def test_it_scales_with_the_series_and_without_lags_is_the_classic_error_of_a_mean(values: list[float], factor: float) -> None:
    expected = np.std(values, ddof=1) / math.sqrt(len(values))
    assert newey_west_mean(values, 0).se == pytest.approx(expected, rel=1e-9, abs=1e-15)
    before, after = newey_west_mean(values), newey_west_mean(np.array(values) * factor)
    assert after.se == pytest.approx(before.se * factor, rel=1e-6, abs=1e-9)
    assert newey_west_mean(values[::-1]).se == pytest.approx(before.se, rel=1e-6, abs=1e-9)


def test_automatic_lags_follow_newey_and_west_and_what_has_no_error_is_refused() -> None:
    assert [automatic_lags(n) for n in (2, 43, 100, 548)] == [1, 3, 4, 5]
    for values in ([], [1.0], [1.0, math.nan], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="at least two finite values"):
            newey_west_mean(values)
    with pytest.raises(ValueError, match="4 lags for 4 values: give 0 to 3"):
        newey_west_mean([1.0, 2.0, 3.0, 4.0], 4)
