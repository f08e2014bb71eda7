"""Stylised facts: planted ones are found, those of independent noise are not, and figures equal
those of pandas, statsmodels and SciPy.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.tsa.stattools import acf

import ktdeval_raw_markets.stylised_facts as module
from ktdeval.errors import DataError
from ktdeval.market import FloatArray
from ktdeval.stats.intervals import Interval
from ktdeval_raw_markets.daily_panels import DailyPanel
from ktdeval_raw_markets.fact_ranges import RANGES
from ktdeval_raw_markets.stylised_facts import (
    LEVERAGE_DAYS,
    StylisedFact,
    stylised_facts,
)

pytestmark = pytest.mark.slow

DAYS = 800
ASSETS = 20


def panel_of(returns: FloatArray, kind: str = "stock", overnight: float = 0.0) -> DailyPanel:
    """A panel of these daily returns, [T, N]; gaps of the opening are noise of this deviation."""
    start = np.ones((1, returns.shape[1]))
    path = np.cumprod(1 + np.nan_to_num(returns), axis=0)
    close = np.vstack([start, np.where(np.isfinite(returns), path, np.nan)])
    gaps = np.random.default_rng(1).normal(0, overnight, close.shape)
    opens = np.vstack([start, close[:-1]]) * np.exp(gaps)
    return DailyPanel(kind, opens, close, np.full(close.shape, 1e6))


def by_name(panel: DailyPanel) -> dict[str, StylisedFact]:
    return {fact.fact: fact for fact in stylised_facts(panel)}


def noise(seed: int = 0, days: int = DAYS, assets: int = ASSETS) -> FloatArray:
    return np.random.default_rng(seed).normal(0, 0.01, (days, assets))


def garch(seed: int = 0) -> FloatArray:
    """Independent GARCH(1,1) series."""
    shocks = noise(seed) / 0.01
    returns = np.empty_like(shocks)
    variance = np.ones(ASSETS)
    for row in range(DAYS):
        returns[row] = shocks[row] * np.sqrt(variance)
        variance = 0.05 + 0.15 * returns[row] ** 2 + 0.80 * variance

    return 0.01 * returns


def with_leverage() -> FloatArray:
    """Volatility rises after falls and sinks after rises."""
    shocks = noise() / 0.01
    level = np.zeros(ASSETS)
    returns = np.empty_like(shocks)
    for row in range(DAYS):
        returns[row] = 0.01 * np.exp(level) * shocks[row]
        level = 0.9 * level - 0.15 * shocks[row]

    return returns


@cache
def facts_of_noise() -> dict[str, StylisedFact]:
    return by_name(panel_of(noise()))


def excludes_zero(interval: Interval) -> bool:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low > 0 or interval.high < 0


# ---- planted facts


@pytest.mark.exhaustive
def test_planted_clusters_of_volatility_are_found() -> None:
    facts = by_name(panel_of(garch()))
    for lag in (1, 5):
        fact = facts[f"volatility_lag_{lag}"]
        assert fact.value is not None
        assert fact.value > 0.1
        assert excludes_zero(fact.interval)

    assert facts["volatility_lag_1"].verdict == "inside"
    assert not excludes_zero(facts["return_lag_1"].interval)
    assert facts["excess_kurtosis"].value > facts_of_noise()["excess_kurtosis"].value + 1


def test_independent_noise_lacks_stylised_facts_of_real_markets() -> None:
    facts = facts_of_noise()
    for lag in (1, 5):
        assert facts[f"volatility_lag_{lag}"].value == pytest.approx(0, abs=0.02)
        assert not excludes_zero(facts[f"volatility_lag_{lag}"].interval)
        assert facts[f"volatility_lag_{lag}"].verdict == "outside"

    assert facts["excess_kurtosis"].verdict == "outside"
    assert facts["correlation"].verdict == "outside"
    assert facts["return_lag_1"].verdict == "inside"


def test_a_planted_leverage_effect_is_found() -> None:
    leverage = by_name(panel_of(with_leverage()))["leverage"]
    assert leverage.value is not None
    assert leverage.value < -0.1
    assert excludes_zero(leverage.interval)
    assert not excludes_zero(facts_of_noise()["leverage"].interval)


def test_a_planted_correlation_is_found() -> None:
    common = noise(seed=5, assets=1)
    facts = by_name(panel_of(np.sqrt(0.3) * common + np.sqrt(0.7) * noise()))
    correlation = facts["correlation"]
    assert correlation.value == pytest.approx(0.3, abs=0.05)
    assert correlation.interval.low < 0.3 < correlation.interval.high
    # Of equal correlations c, the largest eigenvalue is 1 + (N - 1) c.
    share = (1 + (ASSETS - 1) * 0.3) / ASSETS
    assert facts["first_eigenvalue"].value == pytest.approx(share, abs=0.05)
    assert facts["breadth_spread"].value > facts_of_noise()["breadth_spread"].value + 0.1


def test_a_planted_share_of_the_night_is_found() -> None:
    share = by_name(panel_of(noise(), overnight=0.005))["overnight_share"]
    # Close to open has variance 0.25; open to close undoes the gap and adds a day's return, 1.25.
    assert share.value == pytest.approx(0.25 / 1.5, abs=0.02)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("sign", "fact"), [(1, "momentum"), (-1, "reversal")])
def test_planted_momentum_and_reversal_are_found(sign: int, fact: str) -> None:
    returns = noise(days=1500)
    if fact == "momentum":
        returns += np.linspace(-0.002, 0.002, ASSETS)  # assets differ in their mean
    else:
        months = np.arange(len(returns)) // 21 % 2
        returns += np.outer(2.0 * months - 1, np.linspace(-0.004, 0.004, ASSETS))

    found = by_name(panel_of(returns))
    assert found[fact].value * sign > 0.1
    assert found[f"{fact}_spread"].value * sign > 1
    assert excludes_zero(found[fact].interval)
    assert found[fact].n_counts == "months"


def test_turnover_that_follows_moves_is_found() -> None:
    panel = panel_of(noise())
    moves = np.abs(np.vstack([np.zeros((1, ASSETS)), panel.close[1:] / panel.close[:-1] - 1]))
    traded = DailyPanel("stock", panel.open, panel.close, np.exp(100 * moves))
    assert by_name(traded)["volume_volatility"].value == pytest.approx(1, abs=1e-6)


# ---- other libraries


def with_gaps() -> pd.DataFrame:
    """Prices of which some are missing."""
    prices = pd.DataFrame(np.cumprod(1 + garch(), axis=0))
    missing = np.random.default_rng(2).random(prices.shape) < 0.02
    return prices.mask(missing)


@pytest.mark.parametrize("lag", [1, 5, 20])
def test_autocorrelations_are_those_of_pandas_also_with_gaps(lag: int) -> None:
    prices = with_gaps()
    grid = prices.to_numpy()
    found = by_name(DailyPanel("stock", np.full_like(grid, np.nan), grid, grid))
    sizes = prices.pct_change(fill_method=None).abs()
    expected = np.median([sizes[column].autocorr(lag) for column in sizes])
    assert found[f"volatility_lag_{lag}"].value == pytest.approx(expected, rel=1e-9)


def test_autocorrelations_are_near_those_of_statsmodels() -> None:
    """Its denominator has all days, so that the two differ by a share of lag / days."""
    returns = garch()
    found = by_name(panel_of(returns))
    theirs = np.array([acf(np.abs(column), nlags=20) for column in returns.T])
    for lag in (1, 5, 20):
        expected = np.median(theirs[:, lag])
        assert found[f"volatility_lag_{lag}"].value == pytest.approx(expected, abs=0.005)


def test_kurtosis_and_leverage_are_those_of_scipy_and_pandas() -> None:
    returns = garch()
    found = by_name(panel_of(returns))
    expected = np.median(stats.kurtosis(returns))
    assert found["excess_kurtosis"].value == pytest.approx(expected, rel=1e-6)

    table = pd.DataFrame(returns)
    later = table.abs().rolling(LEVERAGE_DAYS).mean().shift(-LEVERAGE_DAYS)
    expected = table.corrwith(later).median()
    assert found["leverage"].value == pytest.approx(expected, rel=1e-6)


def test_correlation_and_eigenvalue_are_those_of_the_matrix() -> None:
    returns = 0.5 * noise(seed=5, assets=1) + noise()
    matrix = np.corrcoef(returns, rowvar=False)
    found = by_name(panel_of(returns))
    assert found["correlation"].value == pytest.approx(matrix[np.triu_indices(ASSETS, 1)].mean())
    expected = np.linalg.eigvalsh(matrix)[-1] / ASSETS
    assert found["first_eigenvalue"].value == pytest.approx(expected, rel=1e-6)


def test_the_tail_index_of_a_power_law_is_its_exponent() -> None:
    rng = np.random.default_rng(3)
    sizes = 0.001 * (1 + rng.pareto(3, (4000, 5)))
    returns = np.clip(sizes, 0, 0.5) * rng.choice([-1, 1], sizes.shape)
    assert by_name(panel_of(returns))["tail_index"].value == pytest.approx(3, abs=0.15)


def test_hills_estimate_of_a_hand_worked_sample() -> None:
    """Of 100 sizes the 5 largest are 2 times the 6th: 1 / log 2."""
    sizes = np.array([4.0] * 5 + [2.0] + [1.0] * 94)
    [estimate] = module._hill(np.ones((1, 100)), sizes)
    assert estimate == pytest.approx(1 / np.log(2))


def test_a_resample_weighs_days_as_if_they_were_repeated() -> None:
    returns = garch()[:200, :3]
    drawn = np.sort(np.random.default_rng(4).integers(0, 199, 199))
    weights = np.bincount(drawn, minlength=199)[None, :].astype(float)
    [found] = module._correlations(weights, returns[:-1], returns[1:])
    for column in range(3):
        expected = np.corrcoef(returns[drawn, column], returns[drawn + 1, column])[0, 1]
        assert found[column] == pytest.approx(expected)


# ---- what is undefined


def with_holes() -> FloatArray:
    """101 days; most assets lack two of them, which is less than a tenth, and too much."""
    returns = noise(days=101)
    returns[5, 9:] = np.nan
    return returns


@pytest.mark.parametrize(
    ("panel", "fact", "says"),
    [
        (panel_of(noise(days=60)), "volatility_lag_1", "60 daily returns, fewer than 100"),
        (panel_of(noise(days=110)), "volatility_lag_20", "no asset has 100 days"),
        (panel_of(noise(days=300)), "momentum", "2 months with at least 10 assets, fewer than 12"),
        (panel_of(noise(assets=2)), "correlation", "2 assets have returns on 90% of the days"),
        (panel_of(noise(assets=2)), "breadth", "2 assets, fewer than 10"),
        (panel_of(with_holes()), "correlation", "9 assets have returns on 90% of the days"),
        (panel_of(0 * noise()), "excess_kurtosis", "the market's return has no variance"),
        (
            panel_of(noise(), kind="bond"),
            "breadth",
            "no range from real markets is known for assets of kind",
        ),
    ],
)
def test_a_fact_that_a_market_cannot_have_is_undefined_with_its_reason(
    panel: DailyPanel, fact: str, says: str
) -> None:
    found = by_name(panel)[fact]
    assert found.verdict == "undefined"
    assert says in found.reason
    if found.kind == "stock":
        assert found.value is None
        assert found.interval.low is None


def test_a_market_without_openings_or_volumes_lacks_only_their_facts() -> None:
    close = panel_of(noise()).close
    nothing = np.full_like(close, np.nan)
    found = by_name(DailyPanel("stock", nothing, close, nothing))
    assert found["overnight_share"].reason == "the market has no opening prices"
    assert found["volume_volatility"].reason == "the market has no volumes"
    assert found["breadth"].value is not None


def test_prices_that_are_not_positive_are_refused() -> None:
    close = panel_of(noise()).close.copy()
    close[3, 2] = 0
    with pytest.raises(DataError, match="positive prices; `ktdeval data check` names the bars"):
        stylised_facts(DailyPanel("stock", close, close, close))


def test_a_figure_that_most_resamples_lack_has_no_interval() -> None:
    sample = module._Sample(panel_of(noise(days=120)))
    figures = np.full(1 + module.DRAWS, np.nan)
    figures[:9] = 0.5
    measured = sample.make_figure(figures, assets=3)
    assert measured.value == 0.5
    assert measured.interval.reason == "the figure is undefined in most resamples"


# ---- verdicts and ranges


@pytest.mark.parametrize(
    ("value", "low", "high", "verdict"),
    [
        (0.2, 0.1, 0.3, "inside"),
        (0.0, -0.05, 0.05, "outside"),
        (0.08, 0.02, 0.14, "unclear"),
        (0.5, 0.45, 0.55, "outside"),
    ],
)
def test_outside_is_only_what_its_interval_does_not_excuse(
    value: float, low: float, high: float, verdict: str
) -> None:
    interval = Interval(low, high, 0.95, "percentile", 100)
    assert module._verdict(value, interval, 0.1, 0.4)[0] == verdict


def test_few_days_are_compared_with_few_days_too() -> None:
    few, many = (module._ranges_for("volatility_lag_5", "stock", days) for days in (300, 900))
    assert set(many) < set(few)
    assert min(one.low for one in few) < min(one.low for one in many)


def test_each_range_is_of_a_known_fact_in_order_and_has_a_source() -> None:
    names = {row["name"] for row in module._FACTS}
    assert {one.fact for one in RANGES} == names == set(module._MEASURES)
    for one in RANGES:
        assert one.low <= one.high
        assert one.source
        assert one.basis


def test_equal_panels_give_equal_facts() -> None:
    assert by_name(panel_of(noise())) == facts_of_noise()
