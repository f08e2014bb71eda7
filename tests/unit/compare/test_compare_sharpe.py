"""The Sharpe-difference test, corrections for many tests, and the model confidence set."""

from __future__ import annotations

import math

import numpy as np
import pytest
from arch.covariance.kernel import QuadraticSpectral
from hypothesis import given, settings, strategies as st
from statsmodels.tsa.api import VAR

from ktdeval.stats.confidence_set import benjamini_hochberg, holm, tie_groups
from ktdeval.stats.series import sharpe
from ktdeval_compare import sharpe_difference as ledoit_wolf
from ktdeval_compare.sharpe_difference import long_run_covariance, sharpe_difference


def test_corrections_worked_by_hand() -> None:
    # Sorted .01 .02 .03 .04: Holm 4*.01, 3*.02, max(2*.03, .06), max(.04, .06); BH 4/1*.01, 4/2*.02, 4/3*.03, 4/4*.04.
    assert holm([0.02, 0.01, 0.04, 0.03]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert benjamini_hochberg([0.02, 0.01, 0.04, 0.03]) == pytest.approx([0.04, 0.04, 0.04, 0.04])


def test_tests_without_a_p_value_take_no_part() -> None:
    assert holm([0.01, None, 0.04]) == [0.02, None, 0.04]
    assert benjamini_hochberg([None, 0.01]) == [None, 0.01]
    assert holm([]) == []
    with pytest.raises(ValueError, match="lies in"):
        holm([1.5])


def returns(seed: int, days: int = 250, agents: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).standard_t(5, (days, agents)) * 0.01


def test_the_difference_is_that_of_the_two_sharpe_ratios() -> None:
    pair = returns(1)
    found = sharpe_difference(pair[:, 0], pair[:, 1])
    expected = sharpe(pair[:, 0]).value - sharpe(pair[:, 1]).value  # type: ignore[operator]
    assert found.value == pytest.approx(expected, rel=1e-12)
    assert sharpe_difference(pair[:, 1], pair[:, 0]).value == pytest.approx(-expected)
    assert sharpe_difference(pair[:, 1], pair[:, 0]).p == pytest.approx(found.p)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 100.0), st.floats(0.01, 100.0))
def test_leverage_changes_neither_difference_nor_p(first: float, second: float) -> None:
    pair = returns(2)
    plain, scaled = sharpe_difference(pair[:, 0], pair[:, 1]), sharpe_difference(first * pair[:, 0], second * pair[:, 1])
    assert scaled.value == pytest.approx(plain.value, rel=1e-6)
    assert scaled.p == pytest.approx(plain.p, rel=1e-6)


def test_the_kernel_sum_is_that_of_arch() -> None:
    series = returns(3, 200, 3)
    series = series - series.mean(axis=0)
    for bandwidth in (0.5, 3.0, 12.0):
        expected = np.asarray(QuadraticSpectral(series, bandwidth=bandwidth).cov.long_run)
        assert ledoit_wolf._quadratic_spectral(series, bandwidth) == pytest.approx(expected, rel=1e-9)


def test_the_long_run_covariance_is_prewhitened_kernel_and_recoloured() -> None:
    """The same steps with statsmodels' VAR and arch's kernel."""
    chance = np.random.default_rng(4).normal(size=(400, 2))
    series = np.zeros((400, 2))
    for day in range(1, 400):
        series[day] = series[day - 1] @ np.array([[0.4, 0.1], [0.0, 0.2]]).T + chance[day]
    series -= series.mean(axis=0)
    scale = np.sqrt((series**2).mean(axis=0))
    scaled = series / scale
    fit = VAR(scaled).fit(1, trend="n")
    residual = scaled[1:] - scaled[:-1] @ fit.coefs[0].T
    bandwidth = ledoit_wolf._andrews_bandwidth(residual)
    kernel = np.asarray(QuadraticSpectral(residual, bandwidth=bandwidth, center=False).cov.long_run)
    inverse = np.linalg.inv(np.eye(2) - fit.coefs[0])
    expected = inverse @ kernel @ inverse.T * np.outer(scale, scale) * 400 / 398
    assert long_run_covariance(series) == pytest.approx(expected, rel=1e-8)


def test_the_gradient_is_the_derivative() -> None:
    point, step = np.array([0.001, 0.0005, 2e-4, 3e-4]), 1e-9

    def difference(moments: np.ndarray) -> float:
        means, squares = moments[:2], moments[2:]
        ratios = means / np.sqrt(squares - means**2)
        return float(ratios[0] - ratios[1])

    numeric = [(difference(point + step * unit) - difference(point - step * unit)) / (2 * step) for unit in np.eye(4)]
    assert ledoit_wolf._gradient(point[:2], point[2:]) == pytest.approx(numeric, rel=1e-5)


def test_the_standard_error_is_lo_s_for_independent_normal_returns() -> None:
    """Independent series: var(SR1 - SR2) = (2 + SR1²/2 + SR2²/2) / n for normal returns (Lo 2002; Jobson and Korkie 1981)."""
    pair = np.random.default_rng(8).normal([0.1, 0.05], 1.0, (200_000, 2))
    found = sharpe_difference(pair[:, 0], pair[:, 1])
    expected = math.sqrt((2 + 0.1**2 / 2 + 0.05**2 / 2) / 200_000 * 252)
    assert found.se == pytest.approx(expected, rel=0.02)


def test_series_that_have_no_test_have_a_reason() -> None:
    pair = returns(5)
    flat = np.zeros(250)
    assert sharpe_difference(pair[:, 0], flat).reason == "returns have no variance"
    assert sharpe_difference(pair[:, 0], pair[:, 0]).reason == "the two series are the same"
    assert sharpe_difference(pair[:5, 0], pair[:5, 1]).reason == "fewer than 20 days"
    assert sharpe_difference(pair[:, 0], pair[:9, 1]).reason == "the series have other days"
    assert sharpe_difference(pair[:, 0], np.where(flat == 0, np.nan, 0.0)).reason == "a return is missing"
    levered = sharpe_difference(pair[:, 0], 2.0 * pair[:, 0])
    assert levered.value is None
    assert levered.reason == "the difference has no variance"


def test_the_bootstrap_agrees_with_the_normal_form_and_comes_from_its_seed() -> None:
    pair = returns(6, 500)
    boot = sharpe_difference(pair[:, 0], pair[:, 1], draws=2000, seed=3)
    assert boot == sharpe_difference(pair[:, 0], pair[:, 1], draws=2000, seed=3)
    assert boot.p == pytest.approx(sharpe_difference(pair[:, 0], pair[:, 1]).p, abs=0.05)
    assert boot.low < boot.value < boot.high  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.parametrize("days", [43, 430])
def test_placebo_sharpe_differences_are_significant_one_time_in_twenty(days: int) -> None:
    """Correlated fat-tailed returns with volatility clustering and one Sharpe ratio: 5 % ± 1.5 % of at least 1,000 comparisons."""
    comparisons, hits = 2000 if days < 100 else 1000, 0
    chance = np.random.default_rng(17)
    shocks = chance.standard_t(5, (days, 3, comparisons)) / math.sqrt(5 / 3)
    variance = np.ones((3, comparisons))
    series = np.empty_like(shocks)
    for day in range(days):
        series[day] = np.sqrt(variance) * shocks[day]
        variance = 0.05 + 0.1 * series[day] ** 2 + 0.85 * variance
    for number in range(comparisons):
        common, own, other = 0.01 * series[:, :, number].T
        pair = (0.8 * common + 0.6 * own + 0.0005, 0.8 * common + 0.6 * other + 0.0005)
        hits += sharpe_difference(*pair, draws=299, seed=number).p <= 0.05  # type: ignore[operator]
    assert 0.035 <= hits / comparisons <= 0.065


# ---- tied with the best


def test_the_confidence_set_keeps_the_best_and_drops_the_hopeless() -> None:
    table = returns(7, 500, 4) + np.array([0.0, 0.0, 0.0, -0.01])
    found = tie_groups(table)
    assert found.group is not None
    assert found.group[3] > 1
    assert found.group[int(table.mean(axis=0).argmax())] == 1
    assert found == tie_groups(table)


def test_one_agent_under_two_names_is_in_the_set_twice() -> None:
    table = returns(8, 300, 2)
    twice = tie_groups(np.column_stack([table, table[:, 0]]))
    assert twice.p is not None
    assert twice.p[0] == twice.p[2]
    assert tie_groups(np.column_stack([table[:, 0], table[:, 0]])).group == (1, 1)


def test_sets_that_can_not_be_made_have_a_reason() -> None:
    table = returns(9, 300, 2)
    assert tie_groups(table[:, :1]).reason == "one agent is no comparison"
    assert tie_groups(table[:10]).reason == "fewer than 30 days"
    shifted = np.column_stack([table[:, 0], table[:, 0] + 0.25])
    assert tie_groups(shifted).reason == "two agents differ by the same amount every day"


@pytest.mark.slow
def test_the_set_holds_the_best_as_often_as_it_says() -> None:
    """Four equal agents: the true best (any of them; agent 0) is left out at most about 5 % of the time."""
    left_out = sum(tie_groups(returns(100 + k, 250, 4), draws=300, seed=k).group[0] != 1 for k in range(300))  # type: ignore[index]
    assert left_out / 300 <= 0.065
