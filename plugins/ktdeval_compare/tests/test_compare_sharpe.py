"""Corrections for multiple tests, and differences between Sharpe ratios: checked by hand, against
other libraries, and by error rates.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm
from statsmodels.stats.multitest import multipletests
from statsmodels.tsa.vector_ar.var_model import VAR

from ktdeval.stats.confidence_set import benjamini_hochberg, holm
from ktdeval.stats.series import sharpe
from ktdeval_compare.pairs import sharpe_difference as ledoit_wolf
from ktdeval_compare.pairs.sharpe_difference import long_run_covariance, sharpe_difference


def test_corrections_worked_by_hand() -> None:
    # Sorted .01 .02 .03 .04: Holm 4*.01, 3*.02, max(2*.03, .06), max(.04, .06); BH 4/1*.01,
    # 4/2*.02, 4/3*.03, 4/4*.04.
    assert holm([0.02, 0.01, 0.04, 0.03]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert benjamini_hochberg([0.02, 0.01, 0.04, 0.03]) == pytest.approx([0.04, 0.04, 0.04, 0.04])
    # Tests without a p-value are ignored.
    assert (holm([0.01, None, 0.04]), holm([]), benjamini_hochberg([None, 0.01])) == (
        [0.02, None, 0.04],
        [],
        [None, 0.01],
    )

    with pytest.raises(ValueError, match="must be between 0 and 1"):
        holm([1.5])


def test_corrections_are_those_of_statsmodels_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gc.collect", lambda: 0)  # which is called each time
    chance = np.random.default_rng(1)
    for count in range(1, 60):
        # with some ties
        p_values = (chance.random(count) ** 3).round(chance.integers(1, 17)).tolist()
        assert holm(p_values) == multipletests(p_values, method="holm")[1].tolist()
        assert benjamini_hochberg(p_values) == multipletests(p_values, method="fdr_bh")[1].tolist()


def returns(seed: int, days: int = 250, agents: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).standard_t(5, (days, agents)) * 0.01


@pytest.mark.slow
@settings(max_examples=40)
@given(st.floats(0.01, 100.0), st.floats(0.01, 100.0))
def test_the_difference_is_that_of_the_two_sharpe_ratios_at_any_leverage(
    first: float, second: float
) -> None:
    one, other = returns(2).T
    plain = sharpe_difference(one, other)
    turned = sharpe_difference(other, one)
    scaled = sharpe_difference(first * one, second * other)
    expected = sharpe(one).value - sharpe(other).value  # type: ignore[operator]

    assert (plain.value, turned.value, turned.p) == pytest.approx(
        (expected, -expected, plain.p), rel=1e-9
    )
    assert (scaled.value, scaled.p) == pytest.approx((plain.value, plain.p), rel=1e-6)


def test_the_long_run_covariance_is_prewhitened_kernel_and_recoloured() -> None:
    """The same steps with statsmodels' VAR and arch's kernel."""
    from arch.covariance.kernel import QuadraticSpectral

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


@pytest.mark.parametrize(
    ("columns", "top", "bottom"),
    [
        # by hand: 1, 2, 1, 2, 1 has the coefficient 8 / 10, and residuals 1.2, -0.6 in turn
        ([[1, 2, 1, 2, 1]], 4 * 0.8**2 * 0.9**2 / 0.2**8, 0.9**2 / 0.2**4),
        # 1, 0, 1, 0, 1 has the coefficient 0, and residuals 0, 1 in turn
        (
            [[1, 2, 1, 2, 1], [1, 0, 1, 0, 1]],
            4 * 0.8**2 * 0.9**2 / 0.2**8,
            0.9**2 / 0.2**4 + 0.5**2,
        ),
        # the coefficient is bounded by 0.97: 1, 1, 1, 1, 1 has residuals of 0.03
        ([[1, 1, 1, 1, 1]], 4 * 0.97**2 * 0.03**4 / 0.03**8, 0.03**4 / 0.03**4),
    ],
)
def test_the_bandwidth_is_andrews_of_an_ar_1_of_each_column(
    columns: list[list[float]], top: float, bottom: float
) -> None:
    series = np.array(columns, dtype=float).T

    bandwidth = ledoit_wolf._andrews_bandwidth(series)

    assert bandwidth == pytest.approx(1.3221 * (top / bottom * 5) ** 0.2)


def test_bootstrap_ratios_are_those_of_blocks_around_a_circle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each by definition: the difference in a sample of whole blocks minus the observed one,
    divided by a standard error from block sums; drawn three at a time.
    """
    monkeypatch.setattr(ledoit_wolf, "_CHUNK", 3)
    pair = returns(3, 23)
    days = 23
    block = 4
    blocks = 5

    ratios = ledoit_wolf._bootstrap_ratios(pair, 7, block, 11)

    generator = np.random.default_rng(11)
    starts = np.concatenate([generator.integers(0, days, (size, blocks)) for size in (3, 3, 1)])
    observed = pair.mean(axis=0) / pair.std(axis=0, ddof=1)
    expected = []

    for of_draw in starts:
        rows = np.concatenate([np.arange(start, start + block) % days for start in of_draw])
        sample = pair[rows]
        sharpes = sample.mean(axis=0) / sample.std(axis=0, ddof=1)
        moments = np.column_stack([sample, sample**2])
        gradient = ledoit_wolf._gradient(sample.mean(axis=0), (sample**2).mean(axis=0))
        along = (moments - moments.mean(axis=0)) @ gradient
        error = math.sqrt((along.reshape(blocks, block).sum(axis=1) ** 2).sum()) / len(rows)
        change = sharpes[0] - sharpes[1] - observed[0] + observed[1]
        expected.append(abs(change) / error)

    assert ratios == pytest.approx(expected)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_an_interval_reaches_as_far_as_its_quantile_of_the_error(confidence: float) -> None:
    first, second = returns(6, 500).T

    normal = sharpe_difference(first, second, confidence=confidence)
    boot = sharpe_difference(first, second, draws=300, seed=3, confidence=confidence)

    reach = norm.ppf((1 + confidence) / 2) * normal.se

    assert (normal.low, normal.high) == pytest.approx((normal.value - reach, normal.value + reach))
    assert normal.p == pytest.approx(2 * norm.sf(abs(normal.value) / normal.se))

    ratios = ledoit_wolf._bootstrap_ratios(np.column_stack([first, second]), 300, 4, 3)
    reach = np.quantile(ratios, confidence) * normal.se

    assert (boot.low, boot.high) == pytest.approx((boot.value - reach, boot.value + reach))

    beyond = (ratios >= abs(boot.value) / boot.se).sum()
    assert boot.p == pytest.approx((1 + beyond) / 301)


def test_the_gradient_is_the_derivative() -> None:
    point = np.array([0.001, 0.0005, 2e-4, 3e-4])
    step = 1e-9

    def difference(moments: np.ndarray) -> float:
        means = moments[:2]
        squares = moments[2:]
        ratios = means / np.sqrt(squares - means**2)
        return float(ratios[0] - ratios[1])

    numeric = [
        (difference(point + step * unit) - difference(point - step * unit)) / (2 * step)
        for unit in np.eye(4)
    ]

    assert ledoit_wolf._gradient(point[:2], point[2:]) == pytest.approx(numeric, rel=1e-5)


@pytest.mark.slow
def test_the_standard_error_is_lo_s_for_independent_normal_returns() -> None:
    """Independent series: var(SR1 - SR2) = (2 + SR1²/2 + SR2²/2) / n for normal returns (Lo 2002;
    Jobson and Korkie 1981).
    """
    pair = np.random.default_rng(8).normal([0.1, 0.05], 1.0, (200_000, 2))
    test = sharpe_difference(pair[:, 0], pair[:, 1])
    expected = math.sqrt((2 + 0.1**2 / 2 + 0.05**2 / 2) / 200_000 * 252)

    assert test.se == pytest.approx(expected, rel=0.02)


def test_series_that_have_no_test_have_a_reason() -> None:
    (one, other), flat = returns(5).T, np.zeros(250)
    for first, second, reason in (
        (one, flat, "returns have no variance"),
        (one, one, "the two series are the same"),
        (one[:5], other[:5], "fewer than 20 days"),
        (one, other[:9], "the series have different days"),
        (one, np.full(250, np.nan), "a return is missing"),
        (one, 2.0 * one, "the difference has no variance"),
    ):
        test = sharpe_difference(first, second)
        assert (test.value, test.reason) == (None, reason)


def test_an_agent_that_moved_on_one_day_has_a_p_and_no_interval(
    recwarn: pytest.WarningsRecorder,
) -> None:
    # resamples without that day have no ratio; they count as evidence against a difference
    one = 0.05 * (np.arange(250) == 7)
    test = sharpe_difference(one, returns(5)[:, 0], draws=200)

    assert (test.low, test.high, test.reason) == (
        None,
        None,
        "no interval: too many resamples have no variance",
    )
    assert test.value is not None
    assert test.p > 0.3
    assert not recwarn.list


@pytest.mark.slow
def test_the_bootstrap_agrees_with_the_normal_form_and_comes_from_its_seed() -> None:
    pair = returns(6, 500)
    boot = sharpe_difference(pair[:, 0], pair[:, 1], draws=2000, seed=3)

    assert boot == sharpe_difference(pair[:, 0], pair[:, 1], draws=2000, seed=3)
    assert boot.p == pytest.approx(sharpe_difference(pair[:, 0], pair[:, 1]).p, abs=0.05)
    assert boot.low < boot.value < boot.high  # type: ignore[operator]


@pytest.mark.exhaustive
@pytest.mark.parametrize("days", [43, 430])
def test_placebo_sharpe_differences_are_significant_one_time_in_twenty(days: int) -> None:
    """Correlated fat-tailed returns with volatility clustering and one Sharpe ratio: 5 % ± 1.5 % of
    at least 1,000 comparisons.
    """
    comparisons = 2000 if days < 100 else 1000
    hits = 0
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
        # 99 draws: five of a hundred places are within the level, exactly.
        hits += sharpe_difference(*pair, draws=99, seed=number).p <= 0.05  # type: ignore[operator]

    assert 0.035 <= hits / comparisons <= 0.065
