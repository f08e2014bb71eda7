"""The automatic block length: worked by hand, against `arch` on random series, by its laws, and at its edges."""

from __future__ import annotations

import numpy as np
import pytest
from arch.bootstrap import optimal_block_length
from hypothesis import given, settings, strategies as st

from ktdeval.stats.bootstrap import MIN_VALUES, block_days, stationary_block_length

SEEDS = st.integers(0, 2**32 - 1)


def autoregressive(coefficient: float, shocks: np.ndarray) -> np.ndarray:
    values, last = np.empty_like(shocks), 0.0
    for day, shock in enumerate(shocks):
        last = values[day] = coefficient * last + shock
    return values


def padded(middle: list[int], days: int) -> np.ndarray:
    """The middle among zeros, later ones than earlier if their number is odd."""
    before = (days - len(middle)) // 2
    return np.array([0] * before + middle + [0] * (days - before - len(middle)), dtype=np.float64)


# -- by hand ------------------------------------------------------------------------------------------------------------


BY_HAND = [
    # n = 16, so the band is 2 sqrt(log10(16) / 16) = 0.549. Sums of products at lags 0, 1, 2: 6, -1, -2; then zeros. All
    # autocorrelations are within the band: m = 1, M = 2, w(1/2) = 1, w(1) = 0.
    # 16 G = 2 * 1 * -1 = -2; 16 s2 = 6 - 2 = 4; b^3 = 2 * 2^2 / (2 * 4^2) * 16 = 4.
    (padded([1, 1, -2], 16), 4 ** (1 / 3)),
    # n = 25, band 0.473. Sums at lags 0 to 7: 12, 6, -1, -2, -1, -2, -4, -2. 6/12 is outside the band and nothing after it is:
    # m = 2, M = 4, weights 1, 1, 1/2, 0. 25 G = 2 * (6 - 2 - 3) = 2; 25 s2 = 12 + 2 * (6 - 1 - 1) = 20; b^3 = 1/4.
    (padded([2, 2, 0, -1, -1, 0, -1, -1], 25), 0.25 ** (1 / 3)),
    # n = 16: sums 8, 5, 2, -1, -4, -3, -2, -1. Lags 1 and 4 (-4/7) are outside the band, and only 5 to 8 are left: M = 4 + 5 = 9,
    # weights 1, 1, 1, 1, 8/9, 6/9, 4/9. 16 G = -620/9, 16 s2 = 28/9, b^3 = (155/7)^2 * 16, which is more than ceil(16 / 3) cubed.
    (padded([1, 1, 1, 1, -1, -1, -1, -1], 16), 6),
    # Sums 2 and -1: m = 1, M = 2, 16 s2 = 2 - 2 * 1 = 0, but G is not 0: a long-run variance of zero gives the cap.
    (padded([1, -1], 16), 6),
    (np.zeros(30), 0),
]


@pytest.mark.parametrize(("series", "length"), BY_HAND)
def test_a_length_by_hand(series: np.ndarray, length: float) -> None:
    assert stationary_block_length(series) == pytest.approx(length, rel=1e-15)


# -- against arch -------------------------------------------------------------------------------------------------------


def arch_length(series: np.ndarray) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):  # a short series may vary at one end only
        return float(optimal_block_length(series)["stationary"].iloc[0])


@pytest.mark.parametrize("days", [20, 43, 60, 121, 250, 548])
def test_lengths_are_those_of_arch(days: int) -> None:
    rng = np.random.default_rng(days)
    shocks = [rng.normal(0.0006, 0.012, days), 0.01 * rng.standard_t(2.5, days)]
    smooth = [np.convolve(shocks[0], np.ones(width), "same") for width in (2, 5, 12)]
    dependent = [autoregressive(coefficient, each) for coefficient in (-0.9, -0.3, 0.2, 0.5, 0.8, 0.97) for each in shocks]
    for series in [*shocks, *smooth, *dependent, np.cumsum(shocks[0]), np.round(shocks[0], 2)]:
        assert stationary_block_length(series) == pytest.approx(arch_length(series), rel=1e-12)


@settings(max_examples=60)
@given(seed=SEEDS, days=st.integers(MIN_VALUES, 120), coefficient=st.floats(-0.99, 0.99))
def test_lengths_are_those_of_arch_on_any_autoregression(seed: int, days: int, coefficient: float) -> None:
    series = autoregressive(coefficient, np.random.default_rng(seed).normal(size=days))
    assert stationary_block_length(series) == pytest.approx(arch_length(series), rel=1e-12)


# -- laws ---------------------------------------------------------------------------------------------------------------


@given(seed=SEEDS, days=st.integers(20, 200), factor=st.floats(1e-6, 1e6), shift=st.floats(-10, 10))
def test_the_length_depends_on_neither_scale_sign_level_nor_direction(seed: int, days: int, factor: float, shift: float) -> None:
    series = autoregressive(0.4, np.random.default_rng(seed).normal(size=days))
    length = stationary_block_length(series)
    for other in (factor * series, -series, series + shift, series[::-1]):
        assert stationary_block_length(other) == pytest.approx(length, rel=1e-6)


def test_more_dependence_makes_longer_blocks() -> None:
    shocks = np.random.default_rng(3).normal(size=500)
    lengths = [stationary_block_length(autoregressive(coefficient, shocks)) for coefficient in (0.2, 0.5, 0.9)]
    assert lengths == sorted(lengths)
    assert lengths[0] < 6 < 15 < lengths[-1]


# -- edges --------------------------------------------------------------------------------------------------------------


def test_a_constant_is_resampled_by_single_days_and_a_column_is_as_its_copy() -> None:
    assert block_days(np.full(32, 0.25)) == 1
    table = np.random.default_rng(5).normal(size=(90, 3))
    assert stationary_block_length(table[:, 1]) == stationary_block_length(table[:, 1].copy())


WRONG = [np.append(np.zeros(30), wrong) for wrong in (np.nan, np.inf, -np.inf, 1e61)]


@pytest.mark.parametrize("values", [*WRONG, np.zeros((20, 2)), np.arange(MIN_VALUES - 1.0), np.zeros(0)])
def test_what_is_no_series_of_enough_finite_values_is_refused(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="one series of at least 9 finite values, all below 1e\\+60"):
        stationary_block_length(values)
