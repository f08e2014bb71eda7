"""What a placebo market keeps of its source, what it destroys, and how often an interval finds
selection where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from ktdeval.attribution import Fit, fit_factors
from ktdeval.errors import DataError
from ktdeval.market import DAILY_LIMIT_PCT, FloatArray, MarketSnapshot
from ktdeval.stats import Bootstrap, Resampling
from ktdeval.values import derive_seed

TRADING_DAYS_PER_YEAR = 252
DRIFT_T = 1.96
MIN_DAYS_OF_DRIFT = 60
HORIZON_DAYS = 20
MIN_DAYS = 3 * HORIZON_DAYS
BOOK_NAMES = 20
BOOK_HOLD_DAYS = 5


DESCRIPTION: Mapping[str, str] = {
    "dispersion_pct": (
        "mean over days of the cross-sectional standard deviation of returns, per cent"
    ),
    "residual_volatility_pct": "standard deviation of daily residuals, per cent",
    "explained_share": "share of the returns' sum of squares that market and styles explain",
    "size_memory_1d": (
        "volatility clustering: autocorrelation of the residuals' absolute values after a day"
    ),
    "size_memory_20d": "the same after 20 days",
    "exposure_memory_20d": (
        "mean over the styles of the exposures' correlation with those of 20 days before"
    ),
    "tracking_pct": (
        "annualised standard deviation of the equally weighted members' return less the"
        " benchmark's, per cent"
    ),
    "tracking_correlation": (
        "correlation of the equally weighted members' daily return with the benchmark's"
    ),
    "residual_memory_1d": "autocorrelation of residuals after a day, pooled over assets",
    "residual_variance_ratio_20d": (
        "variance of the residuals' sums over 20 days, over 20 times that of a day; 1: no memory"
    ),
    "drifting_assets": "share of assets whose mean residual is 1.96 standard errors or more from 0",
    "industry_correlation": "mean correlation of the residuals of two members of an industry",
    "residual_skewness": "skewness of residuals",
    "limit_days": "share of bars that close at the board's limit",
}
"""What `describe` gives, in its order."""

LIKENESS: Mapping[str, str] = {
    "benchmark": "daily returns of the benchmark",
    "members": "daily mean returns of the members",
    "common": "daily common returns (the regressions' intercepts)",
    "style": "daily returns of the nine styles",
    "dispersion": "daily cross-sectional standard deviations of returns",
    "volatility_of_assets": "the assets' residual volatilities, by rank",
    "residuals": "residuals",
}
"""What `likeness` gives the correlation of, in its order; `exposure:NAME` of each style follows."""


def describe(snapshot: MarketSnapshot, first_row: int) -> dict[str, float]:
    """Figures of one market from `first_row` on, over the index members of the day before;
    `DESCRIPTION` says what they are.

    Raises:
        DataError: fewer than 60 days from `first_row` on.
    """
    fit = _fit(snapshot, first_row)
    investable = fit.exposures.investable & fit.has_return
    residuals = np.where(investable, fit.residuals, np.nan)
    returns = np.where(investable, fit.returns, np.nan)
    index = np.exp(_log_levels(snapshot, fit)) - 1.0
    members = np.nanmean(returns, axis=1)
    return {
        "dispersion_pct": float(100.0 * np.nanstd(returns, axis=1).mean()),
        "residual_volatility_pct": float(100.0 * np.sqrt(np.nanmean(residuals**2))),
        "explained_share": float(1.0 - np.nansum(residuals**2) / np.nansum(returns**2)),
        "size_memory_1d": _memory(np.abs(residuals), 1),
        "size_memory_20d": _memory(np.abs(residuals), HORIZON_DAYS),
        "exposure_memory_20d": _exposure_memory(fit, HORIZON_DAYS),
        "tracking_pct": float(
            100.0 * np.sqrt(TRADING_DAYS_PER_YEAR) * (members - index).std(ddof=1)
        ),
        "tracking_correlation": _correlation(members, index),
        "residual_memory_1d": _memory(residuals, 1),
        "residual_variance_ratio_20d": _variance_ratio(residuals, HORIZON_DAYS),
        "drifting_assets": _drifting(residuals),
        "industry_correlation": _industry_correlation(residuals, snapshot.industries),
        "residual_skewness": float(stats.skew(residuals[np.isfinite(residuals)])),
        "limit_days": _limit_days(snapshot, fit),
    }


def likeness(source: MarketSnapshot, placebo: MarketSnapshot, first_row: int) -> dict[str, float]:
    """How alike two markets of the same days and assets are, from `first_row` on: correlations of
    what `LIKENESS` says.

    `exposure:NAME` is the mean over days of the rank correlation of the members' exposures to a
    style.

    Raises:
        DataError: fewer than 60 days from `first_row` on, or the markets are not of the same days
            and assets.
    """
    if source.codes != placebo.codes or not np.array_equal(source.days, placebo.days):
        raise DataError(
            f"{placebo.meta.name} has other days or assets than {source.meta.name}; compare a"
            " market with its placebo"
        )
    one, other = _fit(source, first_row), _fit(placebo, first_row)
    both = one.exposures.investable & one.has_return & other.has_return
    returns = [np.where(both, fit.returns, np.nan) for fit in (one, other)]
    residuals = [np.where(both, fit.residuals, np.nan) for fit in (one, other)]
    spreads = [_asset_volatility(values) for values in residuals]
    known = np.isfinite(spreads[0]) & np.isfinite(spreads[1])
    found = {
        "benchmark": _correlation(_log_levels(source, one), _log_levels(placebo, other)),
        "members": _correlation(np.nanmean(returns[0], axis=1), np.nanmean(returns[1], axis=1)),
        "common": _correlation(one.common, other.common),
        "style": _correlation(one.style.ravel(), other.style.ravel()),
        "dispersion": _correlation(np.nanstd(returns[0], axis=1), np.nanstd(returns[1], axis=1)),
        "volatility_of_assets": float(
            stats.spearmanr(spreads[0][known], spreads[1][known]).statistic
        ),
        "residuals": _correlation(residuals[0][both], residuals[1][both]),
    }
    exposures = {
        name: _rank_correlations(one, other, place) for place, name in enumerate(one.factor_names)
    }
    return found | {
        f"exposure:{name}": float(np.mean(values)) for name, values in exposures.items() if values
    }


def _fit(snapshot: MarketSnapshot, first_row: int) -> Fit:
    if not 1 <= first_row <= len(snapshot.days) - MIN_DAYS:
        raise DataError(
            f"{snapshot.meta.name}: rows from {first_row} on are no {MIN_DAYS} days with a day"
            " before them; begin earlier"
        )
    return fit_factors(snapshot, first_row, len(snapshot.days) - 1, "paper")


def _log_levels(snapshot: MarketSnapshot, fit: Fit) -> FloatArray:
    """[D] daily log returns of the benchmark."""
    logs: FloatArray = np.diff(np.log(snapshot.benchmark[fit.rows.start - 1 : fit.rows.stop]))
    return logs


def _correlation(one: FloatArray, other: FloatArray) -> float:
    known = np.isfinite(one) & np.isfinite(other)
    return float(np.corrcoef(one[known], other[known])[0, 1])


def _memory(values: FloatArray, lag: int) -> float:
    """Autocorrelation of [D, N] values, each asset's less its mean, pooled."""
    centred = values - _column_means(values)
    return _correlation(centred[:-lag].ravel(), centred[lag:].ravel())


def _column_means(values: FloatArray) -> FloatArray:
    count = np.isfinite(values).sum(axis=0)
    means: FloatArray = np.where(np.isfinite(values), values, 0.0).sum(axis=0) / np.where(
        count > 0, count, np.nan
    )
    return means


def _variance_ratio(residuals: FloatArray, days: int) -> float:
    whole = len(residuals) // days * days
    # NaN where a day is missing
    sums = residuals[:whole].reshape(-1, days, residuals.shape[1]).sum(axis=1)
    used = np.isfinite(sums)
    return float((sums[used] ** 2).mean() / (days * np.nanmean(residuals[:whole] ** 2)))


def _asset_volatility(residuals: FloatArray) -> FloatArray:
    count = np.isfinite(residuals).sum(axis=0)
    square = np.where(np.isfinite(residuals), residuals, 0.0) ** 2
    spread: FloatArray = np.sqrt(
        square.sum(axis=0) / np.where(count >= MIN_DAYS_OF_DRIFT, count, np.nan)
    )
    return spread


def _drifting(residuals: FloatArray) -> float:
    """By their own standard errors, of assets with 60 days or more."""
    count = np.isfinite(residuals).sum(axis=0)
    t = _column_means(residuals) / _asset_volatility(residuals) * np.sqrt(count)
    return float((np.abs(t[np.isfinite(t)]) >= DRIFT_T).mean())


def _industry_correlation(residuals: FloatArray, industries: tuple[str, ...]) -> float:
    """Mean product of two members' standardised residuals on a day, over all pairs of an
    industry.
    """
    spread = _asset_volatility(residuals)
    standard = np.where(np.isfinite(residuals), residuals, 0.0) / np.where(
        np.isfinite(spread), spread, np.inf
    )
    there = standard != 0.0
    products = pairs = 0.0
    for name in sorted(set(industries)):
        here = np.array([industry == name for industry in industries])
        own, count = standard[:, here], there[:, here].sum(axis=1)
        products += float((own.sum(axis=1) ** 2 - (own**2).sum(axis=1)).sum())
        pairs += float((count * (count - 1)).sum())
    return products / pairs if pairs else 0.0


def _exposure_memory(fit: Fit, days: int) -> float:
    member = fit.exposures.investable
    both = member[:-days] & member[days:]
    styles = fit.exposures.design[:, 1:].swapaxes(0, 1)
    return float(
        np.mean(
            [
                _correlation(style[:-days][both], style[days:][both])
                for style in styles
                if np.ptp(style[days:][both]) > 0
            ]
        )
    )


def _limit_days(snapshot: MarketSnapshot, fit: Fit) -> float:
    limit = np.array([DAILY_LIMIT_PCT[board] for board in snapshot.boards]) / 100.0
    close = snapshot.close[fit.rows.start : fit.rows.stop]
    with np.errstate(invalid="ignore"):
        reference = close / (1.0 + fit.returns)
        at_limit = np.abs(fit.returns) >= limit - 0.01 / reference
    return float(at_limit[fit.has_return].mean())


def _rank_correlations(one: Fit, other: Fit, place: int) -> list[float]:
    """Of the members' exposures to one style, on every fifth day on which they differ in both
    markets.
    """
    found = []
    for day in range(0, len(one.rows), 5):
        member = one.exposures.investable[day]
        pair = [fit.exposures.design[day, 1 + place, member] for fit in (one, other)]
        if all(np.ptp(values) > 0 for values in pair):
            found.append(float(stats.spearmanr(*pair).statistic))
    return found


# ---- false alpha


@dataclass(frozen=True)
class FalseAlpha:
    """How often intervals of selection left out zero.

    Attributes:
        intervals: how many.
        below, above: share of intervals that lie below zero, and above it.
    """

    intervals: int
    below: float
    above: float

    @property
    def rate(self) -> float:
        """Share of intervals that leave out zero."""
        return self.below + self.above


def books(fit: Fit, seed: int) -> dict[str, FloatArray]:
    """Weights of some long-only books over the days of a fit, each of 20 index members in equal
    weights.

    Every weight is known at the close before its day.

    Returns:
        Name -> [D, N] weights: `momentum`, `low_volatility`, `illiquid` (the highest or lowest
        exposures) and `random`, each renewed every five days; `residual_winners` (the day's largest
        residuals, held for the next day), what a stock picker would live on if residuals had
        memory.
    """
    names = fit.factor_names
    rng = np.random.default_rng(derive_seed(seed, "books"))
    ranks = {
        "momentum": fit.exposures.design[:, 1 + names.index("MOM_12_1")],
        "low_volatility": -fit.exposures.design[:, 1 + names.index("RV_60")],
        "illiquid": fit.exposures.design[:, 1 + names.index("ILLIQ")],
        "random": rng.random(fit.returns.shape),
    }
    found = {name: _held(_best(values, fit), BOOK_HOLD_DAYS) for name, values in ranks.items()}
    yesterday = np.vstack([np.zeros(fit.returns.shape[1]), fit.residuals[:-1]])
    found["residual_winners"] = _best(yesterday, fit)
    return found


def _best(values: FloatArray, fit: Fit) -> FloatArray:
    """[D, N] equal weights of the members with the largest values."""
    order = np.argsort(np.where(fit.exposures.investable, values, -np.inf), axis=1, kind="stable")
    weights = np.zeros(values.shape)
    np.put_along_axis(weights, order[:, -BOOK_NAMES:], 1.0 / BOOK_NAMES, axis=1)
    return weights


def _held(weights: FloatArray, days: int) -> FloatArray:
    held: FloatArray = np.repeat(weights[::days], days, axis=0)[: len(weights)]
    return held


def selection(weights: FloatArray, fit: Fit) -> FloatArray:
    """[D] daily selection of a book, as the attribution has it: sum of weight times residual."""
    daily: FloatArray = np.einsum("dn,dn->d", weights, fit.residuals)
    return daily


def false_alpha(
    series: Mapping[str, FloatArray], window_days: int, resampling: Resampling
) -> dict[str, FalseAlpha]:
    """How often the interval that cards give selection leaves out zero, over windows that don't
    overlap.

    Args:
        series: name -> [D] daily selection.
        window_days: days of a window; what is left at the end is not used.
        resampling: level, draws and seed of the intervals.

    Raises:
        DataError: no window fits.
    """
    found = {}
    for name, values in series.items():
        windows: npt.NDArray[np.float64] = values[
            : len(values) // window_days * window_days
        ].reshape(-1, window_days)
        intervals = [Bootstrap(window, resampling).sum() for window in windows]
        ends = [
            (one.low, one.high) for one in intervals if one.low is not None and one.high is not None
        ]
        if not ends:
            raise DataError(
                f"false alpha of {name}: no window of {window_days} days has an interval; give more"
                " days"
            )
        below, above = (
            np.mean([high < 0 for _, high in ends]),
            np.mean([low > 0 for low, _ in ends]),
        )
        found[name] = FalseAlpha(len(ends), float(below), float(above))
    return found
