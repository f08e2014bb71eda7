"""Shares of successes against statsmodels, scipy and counting by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from ktdeval.stats.intervals import clopper_pearson_upper, poisson_binomial, wilson

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])
chances = st.lists(st.floats(0, 1), max_size=40)


@st.composite
def counts(draw):
    n = draw(st.integers(1, 500))
    return draw(st.integers(0, n)), n


@pytest.mark.slow
@given(count=counts(), level=LEVELS)
def test_wilson_equals_statsmodels(count, level):
    successes, n = count
    interval = wilson(successes, n, level)

    assert (interval.low, interval.high) == pytest.approx(
        proportion_confint(successes, n, alpha=1 - level, method="wilson"), abs=1e-12
    )
    assert interval.low <= successes / n <= interval.high
    assert (interval.level, interval.n, interval.kind) == (level, n, "Wilson score")


def test_shares_by_hand_and_at_their_ends():
    # One success in four at z = 1 (level 0.6827): (1/4 + 1/8 ± sqrt(3/64 + 1/64)) / (5/4) = (3/8 ±
    # 1/4) / (5/4).
    interval = wilson(1, 4, 2 * stats.norm.cdf(1) - 1)
    assert (interval.low, interval.high) == pytest.approx((0.1, 0.5))
    assert (wilson(0, 200).low, wilson(200, 200).high) == (0.0, 1.0)
    assert wilson(0, 200).high == pytest.approx(1 - wilson(200, 200).low)
    assert (wilson(0, 0).low, wilson(0, 0).reason) == (None, "no trials")
    assert clopper_pearson_upper(0, 0) == clopper_pearson_upper(7, 7) == 1.0
    # (1 - p)^n = 0.05, the rule of three: about 3 / n.
    assert clopper_pearson_upper(0, 200) == pytest.approx(1 - 0.05 ** (1 / 200))


@pytest.mark.parametrize("function", [wilson, clopper_pearson_upper])
@pytest.mark.parametrize(
    ("successes", "n", "level"),
    [(-1, 5, 0.95), (6, 5, 0.95), (1, 5, 0.0), (1, 5, 1.0), (1, 5, math.nan)],
)
def test_shares_and_levels_outside_their_range_are_refused(function, successes, n, level):
    with pytest.raises(ValueError, match="must be between"):
        function(successes, n, level)


@pytest.mark.exhaustive
@given(count=counts(), level=LEVELS)
def test_the_exact_upper_bound_equals_scipy_and_statsmodels(count, level):
    successes, n = count
    bound = clopper_pearson_upper(successes, n, level)
    test = stats.binomtest(successes, n, alternative="less").proportion_ci(level, method="exact")

    assert bound == pytest.approx(test.high, abs=1e-9)
    assert bound == pytest.approx(
        proportion_confint(successes, n, alpha=2 * (1 - level), method="beta")[1], abs=1e-9
    )


@pytest.mark.exhaustive
@given(chances=chances)
def test_the_poisson_binomial_equals_scipy(chances):
    ours = poisson_binomial(chances)
    assert ours.sum() == pytest.approx(1)

    if chances:
        assert ours == pytest.approx(
            stats.poisson_binom(chances).pmf(np.arange(len(chances) + 1)), abs=1e-10
        )


@pytest.mark.slow
@given(n=st.integers(1, 60), share=st.floats(0.01, 0.99))
def test_with_equal_chances_it_is_the_binomial(n, share):
    ours = poisson_binomial([share] * n)
    assert ours == pytest.approx(stats.binom.pmf(np.arange(n + 1), n, share), abs=1e-12)


def test_two_coins_by_hand():
    assert poisson_binomial([0.5, 0.25]) == pytest.approx([0.375, 0.5, 0.125])
    assert poisson_binomial([]).tolist() == [1.0]
    with pytest.raises(ValueError, match=r"0 and 1, got 1\.5"):
        poisson_binomial([0.2, 1.5])
