"""Bootstrap intervals: the law of the resamples, identities, independent forms, and how often the
truth is covered.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.stats import bootstrap
from ktdeval.stats.block_length import MIN_VALUES, stationary_block_length
from ktdeval.stats.bootstrap import (
    Bootstrap,
    drawdowns,
    episode_intervals,
    stationary_indices,
)
from ktdeval.stats.intervals import Interval, no_interval
from ktdeval.stats.resampling import Resampling
from ktdeval.stats.series import max_drawdown, newey_west_mean
from support.figures.metric_cases import market, nav_ledger

KINDS = ("total_return", "ratio", "max_drawdown", "mean", "sum")


def returns(days: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0006, 0.012, days)


def interval(kind: str, series: np.ndarray, resampling: Resampling | None = None) -> Interval:
    make: Callable[[], Interval] = getattr(Bootstrap(series, resampling), kind)
    return make()


# -- resamples
# ----------------------------------------------------------------------------------------------------------


def steps_on(indices: np.ndarray, n: int) -> float:
    """Share of places that hold the day after the one before, around the end."""
    return float(((indices[:, 1:] - indices[:, :-1]) % n == 1).mean())


@pytest.mark.slow
@pytest.mark.parametrize("block", [1.0, 2.5, 10.0])
def test_resamples_have_the_law_of_archs_stationary_bootstrap(block: float) -> None:
    from arch.bootstrap import StationaryBootstrap  # slow to load

    n = 80
    draws = 1500
    ours = stationary_indices(n, block, draws, seed=1)
    source = StationaryBootstrap(block, np.arange(n), seed=2)  # type: ignore[arg-type]
    theirs = np.array([source.update_indices() for _ in range(draws)])
    # A block goes on with probability 1 - 1/block; a new one follows on by chance once in n.
    expected = 1 - 1 / block + 1 / block / n

    for indices in (ours, theirs):
        assert indices.min() == 0
        assert indices.max() == n - 1
        assert steps_on(indices, n) == pytest.approx(expected, abs=0.01)
        assert np.bincount(indices.ravel(), minlength=n).std() / draws < 0.15


def test_very_long_series_is_resampled_one_draw_at_a_time() -> None:
    n = 40_000
    indices = stationary_indices(n, 50.0, draws=3, seed=0)

    assert indices.shape == (3, n)
    assert steps_on(indices, n) == pytest.approx(1 - 1 / 50, abs=0.002)


def test_blocks_wrap_around_the_end_and_equal_seeds_give_equal_intervals() -> None:
    indices = stationary_indices(5, 1e9, draws=50, seed=0)
    assert ((indices - indices[:, :1]) % 5 == np.arange(5)).all()

    smooth = np.convolve(returns(300), np.ones(12) / 12, "valid")
    assert 4 < bootstrap.block_days(smooth) <= len(smooth) / 3
    assert bootstrap.block_days(returns(300)) < 4
    assert bootstrap.block_days(np.tile([0.01, -0.01], 20)) >= 1

    one, again, other = (
        interval("ratio", returns(100), Resampling(seed=seed)) for seed in (3, 3, 4)
    )

    assert one == again != other


# -- formulas
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lags", [0, 1, 4, 18])
def test_batched_hac_errors_equal_those_one_by_one(lags: int) -> None:
    series = np.random.default_rng(0).normal(size=(6, 60))
    influence = series - series.mean(axis=1, keepdims=True)
    expected = [newey_west_mean(row, lags).se for row in series]
    assert bootstrap._hac_errors(influence, lags) == pytest.approx(expected, rel=1e-10)


def test_the_influence_of_a_ratio_is_its_derivative() -> None:
    # Weights moved towards one day change the ratio (with ddof 0) by that day's influence.
    series = returns(40)
    nudge = 1e-6

    def ratio(weights: np.ndarray) -> float:
        mean = weights @ series
        return float(mean / np.sqrt(weights @ (series - mean) ** 2))

    even = np.full(40, 1 / 40)
    slopes = [
        (ratio((1 - nudge) * even + nudge * (np.arange(40) == day)) - ratio(even)) / nudge
        for day in range(40)
    ]
    _, influence = bootstrap._ratio_terms(series[None, :])

    assert influence[0] == pytest.approx(slopes, rel=0.05, abs=0.02)


@pytest.mark.slow
@given(st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=50))
def test_batched_drawdowns_equal_the_metric(changes: list[float]) -> None:
    nav = np.concatenate([[1.0], np.cumprod(1 + np.array(changes))])
    assert drawdowns(np.array([changes]))[0] == pytest.approx(max_drawdown(nav).value, abs=1e-12)


def test_total_return_is_the_growth_form_of_the_mean() -> None:
    of = Bootstrap(returns(120))
    grown = Bootstrap(np.log1p(returns(120)))
    grown.__dict__.update(_resamples=of._resamples, block_days=of.block_days)
    growth = grown.mean()
    total = of.total_return()

    assert (total.low, total.high) == pytest.approx(
        (math.expm1(120 * growth.low), math.expm1(120 * growth.high)), rel=1e-12
    )

    mean = of.mean()
    total = of.sum()

    assert (total.low, total.high) == pytest.approx((120 * mean.low, 120 * mean.high))


@pytest.mark.parametrize("kind", ["ratio", "mean", "sum"])
@given(factor=st.floats(0.01, 100))
@settings(max_examples=10)
def test_intervals_scale_as_their_figures_do(kind: str, factor: float) -> None:
    small, large = (
        interval(kind, series, Resampling(draws=999, seed=0))
        for series in (returns(60), factor * returns(60))
    )
    scale = 1.0 if kind == "ratio" else factor

    assert (large.low, large.high) == pytest.approx(
        (scale * small.low, scale * small.high), rel=1e-6
    )


@pytest.mark.slow
@given(st.integers(0, 1000))
@settings(max_examples=20)
def test_intervals_contain_their_figure(seed: int) -> None:
    series = returns(50, seed)
    ratio = series.mean() / series.std(ddof=1) * math.sqrt(252)
    figures = {
        "total_return": np.prod(1 + series) - 1,
        "ratio": ratio,
        "mean": series.mean(),
        "sum": series.sum(),
    }

    for kind, figure in figures.items():
        ends = interval(kind, series, Resampling(draws=199))
        assert ends.low < figure < ends.high


@pytest.mark.slow
def test_on_many_independent_days_a_mean_has_the_classic_interval() -> None:
    series = returns(2000)
    ends = interval("mean", series)
    reach = 1.96 * series.std(ddof=1) / math.sqrt(2000)

    assert (ends.low, ends.high) == pytest.approx(
        (series.mean() - reach, series.mean() + reach), abs=0.15 * reach
    )


@pytest.mark.exhaustive
def test_a_percentile_interval_is_that_of_arch() -> None:
    from arch.bootstrap import StationaryBootstrap

    series = np.convolve(returns(203), np.ones(4) / 2, "valid")
    of = Bootstrap(series, Resampling(draws=4999))
    source = StationaryBootstrap(of.block_days, series, seed=5)  # type: ignore[arg-type]
    low, high = source.conf_int(
        lambda drawn: bootstrap.drawdowns(drawn[None, :])[0], reps=4999, method="percentile"
    )[:, 0]
    ends = of.max_drawdown()

    assert (ends.low, ends.high) == pytest.approx((low, high), abs=0.06 * (high - low))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["total_return", "ratio", "max_drawdown"])
def test_the_stated_monte_carlo_error_is_the_spread_of_an_end_over_seeds(kind: str) -> None:
    """Four runs of one NAV once differed by 18 points: what is left of that stands on the
    interval.
    """
    ends = [interval(kind, returns(43), Resampling(seed=seed)) for seed in range(20)]
    spread = max(np.std([(one.low, one.high) for one in ends], axis=0, ddof=1))
    stated = np.mean([one.monte_carlo_se for one in ends])

    assert stated == pytest.approx(spread, rel=0.4)
    assert stated < 0.02 * (ends[0].high - ends[0].low)


def plain_newey_west(terms: np.ndarray, lags: int) -> float:
    """Standard error of the mean of terms in order of time, Bartlett weights, sums written out."""
    n = len(terms)
    total = sum(term * term for term in terms)

    for lag in range(1, lags + 1):
        total += (
            2 * (1 - lag / (lags + 1)) * sum(terms[day] * terms[day - lag] for day in range(lag, n))
        )

    return math.sqrt(total / (n * (n - 1)))


def plain_ratio(days: np.ndarray, lags: int) -> tuple[float, float]:
    """Mean over standard deviation (ddof 1) of a series, and its standard error by the delta
    method.
    """
    ratio = days.mean() / days.std(ddof=1)
    scores = (days - days.mean()) / days.std(ddof=1)

    return ratio, plain_newey_west(scores - ratio / 2 * (scores**2 - 1), lags)


def test_the_interval_of_a_ratio_is_that_of_its_definition_written_out() -> None:
    values = np.random.default_rng(8).normal(0.001, 0.01, 43)
    bootstrap = Bootstrap(values, Resampling(draws=199, seed=4))
    lags = int(1.3 * math.sqrt(43))
    centre, spread = plain_ratio(values, lags)
    pivots = []

    for rows in bootstrap.indices:
        ratio, error = plain_ratio(values[rows], lags)
        pivots.append((ratio - centre) / error)

    low, high = np.quantile(pivots, [0.025, 0.975], method="weibull")

    interval = bootstrap.ratio(days_a_year=1)

    assert (interval.low, interval.high) == pytest.approx(
        (centre - high * spread, centre - low * spread), rel=1e-10
    )


def test_one_series_has_one_interval_and_another_series_other_resamples() -> None:
    """The seed is the series' own: neither its storage nor who asks can change an end."""
    series = returns(60)
    strided = np.column_stack([series, series])[:, 0]

    assert (
        interval("ratio", series) == interval("ratio", strided) == interval("ratio", series.copy())
    )
    assert not np.array_equal(Bootstrap(series).indices, Bootstrap(returns(60, 1)).indices)


# -- what has no interval
# -----------------------------------------------------------------------------------------------


NO_INTERVAL = [
    (np.array([]), KINDS, "fewer than 20 days"),
    (returns(19), KINDS, "fewer than 20 days"),
    (np.full(40, 0.001), KINDS, "the series has no variance"),
    (np.append(returns(40), math.nan), KINDS, "a daily value is missing"),
    (np.append(returns(40), math.inf), KINDS, "a daily value is missing"),
    (np.append(returns(40), -1.0), ("total_return", "max_drawdown"), "a day lost everything"),
    (0.05 * (np.arange(60) % 15 == 3), ("ratio",), "a resample has no variance"),
    # A day in the market, and a share of a cent in it on the others
    (
        0.1 * (np.arange(60) == 30) + returns(60) * 1e-6,
        ("total_return", "ratio"),
        "one day (day 31, +10.00 %) carries 100 % of the squares of all returns",
    ),
]


@pytest.mark.parametrize(("series", "kinds", "reason"), NO_INTERVAL)
def test_no_interval_comes_with_a_reason(
    series: np.ndarray, kinds: tuple[str, ...], reason: str
) -> None:
    for kind in kinds:
        ends = interval(kind, series)
        assert (ends.low, ends.high, ends.reason) == (None, None, reason)
        assert json.loads(json.dumps(ends.to_json(), allow_nan=False))["reason"] == reason


def test_twenty_days_are_enough_for_an_interval() -> None:
    for kind in KINDS:
        ends = interval(kind, returns(20, 1))
        assert ends.reason is None
        assert ends.n == 20


@pytest.mark.parametrize(("scale", "is_given"), [(30, True), (31, False)])
def test_total_return_interval_is_given_only_below_a_million(scale: int, is_given: bool) -> None:
    series = np.expm1(scale * returns(60))
    of = Bootstrap(series, Resampling(draws=200, seed=3))
    growth = of.of_columns({"log growth": np.log1p(series)})["log growth"].mean()
    assert growth.high is not None
    assert growth.monte_carlo_se is not None
    with_error = 60 * (growth.high + growth.monte_carlo_se)
    assert 60 * growth.high < math.log(1e6)
    assert (with_error < math.log(1e6)) == is_given

    assert (of.total_return().high is not None) == is_given


def test_a_single_move_is_a_drawdown_with_an_interval() -> None:
    assert interval("max_drawdown", 0.05 * (np.arange(60) == 30)).reason is None


@pytest.mark.parametrize(
    ("low", "high", "reason"),
    [
        (1.0, None, None),
        (None, None, None),
        (2.0, 1.0, None),
        (0.0, math.inf, None),
        (0.0, 1.0, "why"),
    ],
)
def test_an_interval_is_two_finite_ends_or_a_reason(
    low: float | None, high: float | None, reason: str | None
) -> None:
    with pytest.raises(ValueError, match="interval"):
        Interval(low, high, 0.95, "kind", 3, reason=reason)


def test_an_interval_without_ends_keeps_its_reason_where_it_is_transformed() -> None:
    assert no_interval("why", 3).transform_ends(math.exp) == no_interval("why", 3)


# -- episodes
# -----------------------------------------------------------------------------------------------------------


def test_an_episode_without_days_or_risk_has_reasons() -> None:
    assert {each.reason for each in episode_intervals(nav_ledger([]), market()).values()} == {
        "no steps"
    }
    assert {
        each.reason for each in episode_intervals(nav_ledger([1000] * 5), market()).values()
    } == {"fewer than 20 days"}

    gap = market(benchmark=[100.0, math.nan, 99.0, 99.0, 102.0, 103.0])
    intervals = episode_intervals(nav_ledger([1000] * 5), gap)

    assert intervals["information_ratio"].reason == "benchmark: a level is missing"


# -- coverage
# -----------------------------------------------------------------------------------------------------------


def test_measured_coverage_is_complete_and_taken_from_the_shorter_window() -> None:
    assert set(bootstrap.MEASURED) == {"mean", "ratio", "drawdown"}

    for kind, rows in bootstrap.MEASURED.items():
        assert tuple(rows) == bootstrap.DAYS
        for days, row in rows.items():
            assert len(row) == len(bootstrap.PROCESSES)
            exact = kind != "drawdown" and days >= 43
            assert all(0.93 <= share <= 0.97 if exact else 0 < share < 1 for share in row), (
                kind,
                days,
            )

    ratios = bootstrap.MEASURED["ratio"]

    assert (
        bootstrap.measured_coverage("ratio", 60)
        == interval("ratio", returns(60)).coverage
        == min(ratios[43])
    )
    assert bootstrap.measured_coverage("ratio", 548) == min(ratios[548])
    assert bootstrap.measured_coverage("ratio", 19) is None
    assert interval("ratio", returns(60), Resampling(level=0.9)).coverage is None


@pytest.mark.exhaustive
def test_coverage_equals_the_table() -> None:
    samples = 400
    hits = {"mean": 0, "ratio": 0}
    rng = np.random.default_rng(11)
    growth = 0.0006 - 0.012**2 / 2

    for sample in range(samples):
        of = Bootstrap(rng.normal(0.0006, 0.012, 43), Resampling(draws=399, seed=sample))
        total = of.total_return()
        ratio = of.ratio()
        hits["mean"] += total.low <= math.expm1(43 * growth) <= total.high
        hits["ratio"] += ratio.low <= 0.05 * math.sqrt(252) <= ratio.high

    for kind, count in hits.items():
        # Four binomial standard errors, and one percentage point for the fewer draws.
        expected = bootstrap.MEASURED[kind][43][0]
        assert count / samples == pytest.approx(
            expected, abs=0.01 + 4 * math.sqrt(expected * (1 - expected) / samples)
        )


# -- the automatic block length

SEEDS = st.integers(0, 2**32 - 1)


def autoregressive(coefficient: float, shocks: np.ndarray) -> np.ndarray:
    values = np.empty_like(shocks)
    last = 0.0
    for day, shock in enumerate(shocks):
        last = values[day] = coefficient * last + shock

    return values


def padded(middle: list[int], days: int) -> np.ndarray:
    """The middle among zeros, later ones than earlier if their number is odd."""
    before = (days - len(middle)) // 2
    return np.array([0] * before + middle + [0] * (days - before - len(middle)), dtype=np.float64)


# -- by hand
# ------------------------------------------------------------------------------------------------------------


BY_HAND = [
    # n = 16, so the band is 2 sqrt(log10(16) / 16) = 0.549. Sums of products at lags 0, 1, 2: 6,
    # -1, -2; then zeros. All autocorrelations are within the band: m = 1, M = 2, w(1/2) = 1, w(1) =
    # 0. 16 G = 2 * 1 * -1 = -2; 16 s2 = 6 - 2 = 4; b^3 = 2 * 2^2 / (2 * 4^2) * 16 = 4.
    (padded([1, 1, -2], 16), 4 ** (1 / 3)),
    # n = 25, band 0.473. Sums at lags 0 to 7: 12, 6, -1, -2, -1, -2, -4, -2. 6/12 is outside the
    # band and nothing after it is: m = 2, M = 4, weights 1, 1, 1/2, 0. 25 G = 2 * (6 - 2 - 3) = 2;
    # 25 s2 = 12 + 2 * (6 - 1 - 1) = 20; b^3 = 1/4.
    (padded([2, 2, 0, -1, -1, 0, -1, -1], 25), 0.25 ** (1 / 3)),
    # n = 16: sums 8, 5, 2, -1, -4, -3, -2, -1. Lags 1 and 4 (-4/7) are outside the band, and only 5
    # to 8 are left: M = 4 + 5 = 9, weights 1, 1, 1, 1, 8/9, 6/9, 4/9. 16 G = -620/9, 16 s2 = 28/9,
    # b^3 = (155/7)^2 * 16, which is more than ceil(16 / 3) cubed.
    (padded([1, 1, 1, 1, -1, -1, -1, -1], 16), 6),
    # Sums 2 and -1: m = 1, M = 2, 16 s2 = 2 - 2 * 1 = 0, but G is not 0: a long-run variance of
    # zero gives the cap.
    (padded([1, -1], 16), 6),
    (np.full(32, 0.25), 0),
]


@pytest.mark.parametrize(("series", "length"), BY_HAND)
def test_a_length_by_hand(series: np.ndarray, length: float) -> None:
    assert stationary_block_length(series) == pytest.approx(length, rel=1e-15)


# -- against arch
# -------------------------------------------------------------------------------------------------------


def arch_length(series: np.ndarray) -> float:
    from arch.bootstrap import optimal_block_length

    with np.errstate(divide="ignore", invalid="ignore"):  # a short series may vary at one end only
        return float(optimal_block_length(series)["stationary"].iloc[0])


@pytest.mark.slow
@settings(max_examples=60)
@given(seed=SEEDS, days=st.integers(MIN_VALUES, 550), coefficient=st.floats(-0.99, 0.99))
def test_lengths_are_those_of_arch_on_any_autoregression(
    seed: int, days: int, coefficient: float
) -> None:
    series = autoregressive(coefficient, np.random.default_rng(seed).normal(size=days))
    assert stationary_block_length(series) == pytest.approx(arch_length(series), rel=1e-12)


# -- laws
# ---------------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@given(seed=SEEDS, days=st.integers(20, 200), factor=st.floats(1e-6, 1e6), shift=st.floats(-10, 10))
def test_the_length_depends_on_neither_scale_sign_level_nor_direction(
    seed: int, days: int, factor: float, shift: float
) -> None:
    series = autoregressive(0.4, np.random.default_rng(seed).normal(size=days))
    length = stationary_block_length(series)
    for other in (factor * series, -series, series + shift, series[::-1]):
        assert stationary_block_length(other) == pytest.approx(length, rel=1e-6)


WRONG = [np.append(np.zeros(30), wrong) for wrong in (np.nan, np.inf, -np.inf, 1e61)]


@pytest.mark.parametrize(
    "values", [*WRONG, np.zeros((20, 2)), np.arange(MIN_VALUES - 1.0), np.zeros(0)]
)
def test_a_series_without_enough_finite_values_is_refused(values: np.ndarray) -> None:
    with pytest.raises(
        ValueError, match="one series of at least 9 finite values, all below 1e\\+60"
    ):
        stationary_block_length(values)
