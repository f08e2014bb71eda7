"""The smallest p-value of a sign-flip test is one that it can reach; and the error of a Sharpe ratio
of autocorrelated returns, from sums over lags.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ktdeval.stats.paired import sign_flip
from ktdeval.stats.sharpe_significance import SharpeMoments


@pytest.mark.parametrize("blocks", [1, 2, 3, 5, 8])
def test_blocks_that_all_gain_reach_the_smallest_p_and_no_signs_reach_less(blocks: int) -> None:
    """Two of all patterns of signs are as far from zero: all gains and all losses."""
    labels = np.repeat(np.arange(blocks), 2)
    gains = np.tile([1.0, 2.0], blocks)

    test = sign_flip(gains, labels)
    others = [
        sign_flip(gains * np.repeat(signs, 2), labels).p
        for signs in itertools.product((1.0, -1.0), repeat=blocks)
    ]

    assert test.p == test.smallest_p == min(1.0, 2 / 2**blocks)
    assert min(p for p in others if p is not None) == test.smallest_p


@pytest.mark.parametrize("draws", [9, 99])
def test_sampled_patterns_of_which_none_reaches_give_the_smallest_p(draws: int) -> None:
    """The observed pattern is one of `draws` + 1."""
    test = sign_flip(np.ones(60), draws=draws)

    assert (test.method, test.p, test.smallest_p) == ("sampled", 1 / (draws + 1), 1 / (draws + 1))


def lags(first: float, second: float) -> float:
    """Sum of the correlations at all lags: `first` to the lag before, `second` to the lag after."""
    return 1.0 + sum(first**lag + second**lag for lag in range(1, 2_000))


@pytest.mark.parametrize("rho", [-0.6, -0.1, 0.0, 0.2, 0.7])
@pytest.mark.parametrize(("sharpe", "skew", "kurtosis"), [(0.1, 0.0, 3.0), (-0.4, 1.5, 8.0)])
def test_the_error_of_autocorrelated_returns_is_that_of_sums_over_lags(
    rho: float, sharpe: float, skew: float, kurtosis: float
) -> None:
    """A day and the square of another are correlated by rho per day if the day is the earlier one,
    by its square if it is the later one.
    """
    found = SharpeMoments(500, sharpe, skew, kurtosis, rho).error_variance

    of_mean = lags(rho, rho)
    of_both = lags(rho, rho**2)
    of_square = lags(rho**2, rho**2)
    expected = of_mean - of_both * skew * sharpe + of_square * (kurtosis - 1) / 4 * sharpe**2
    assert found == pytest.approx(expected, rel=1e-9)
