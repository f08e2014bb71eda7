"""Stylised facts of a market of daily bars, compared with their ranges in real markets.

The facts are those of Cont (2001), plus breadth, gaps, momentum and reversal. `stylised_facts.csv`
defines each fact, and `fact_ranges.csv` has the ranges with their sources.

A fact based on days is a function of sums over days. A resample gives each day a weight (how often
the day was drawn), so a single matrix product computes all resamples of a sum. Days are resampled
by the stationary block bootstrap, with block lengths chosen for the market's absolute return. A
pair of days at a lag is one observation, assigned to its first day.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval.market import FloatArray
from ktdeval.stats import (
    NO_VARIANCE,
    Bootstrap,
    Interval,
    block_days,
    no_interval,
    stationary_indices,
)
from ktdeval.values import csv_rows, derive_seed
from ktdeval_raw_markets.daily_panels import DailyPanel
from ktdeval_raw_markets.fact_ranges import RANGES, FactRange

Verdict = Literal["inside", "outside", "unclear", "undefined"]

DRAWS = 399  #: number of resamples; with 399, the 2.5 % and 97.5 % points are order statistics
LEVEL = 0.95  #: nominal coverage of the intervals
MIN_RETURNS = 100  #: minimum returns, or pairs of returns, for an asset to be included
MIN_ASSETS = 10  #: minimum assets for a cross-sectional figure
MIN_ASSETS_OF_TENTHS = 20  #: minimum assets for deciles: two in each
#: a sample with fewer days is also compared with real samples of similarly few days
SHORT_DAYS = 500
MIN_MONTHS = 12  #: minimum months for momentum and reversal
TAIL_SHARE = 0.05  #: fraction of absolute returns that Hill's estimate uses
#: number of days after a return over which the leverage effect averages absolute returns
LEVERAGE_DAYS = 5
#: minimum fraction of days with a return for an asset to be included in correlations
NEARLY_ALL = 0.9
_SEED_DIGITS = 9  # digits to which the monthly figures that seed their interval's draws are rounded
_ITERATIONS = 12  # iterations of the power method, starting from the sample's eigenvector

_FACTS = csv_rows(Path(__file__).with_name("stylised_facts.csv"))


@dataclass(frozen=True, slots=True)
class StylisedFact:
    """One fact about a market, and whether its figure is within the range of real markets."""

    fact: str
    kind: str
    words: str
    value: float | None
    interval: Interval
    n: int  #: number of days or months
    n_counts: str  #: what `n` counts
    assets: int
    low: float | None  #: low end of the range in real markets, over all sources
    high: float | None
    sources: tuple[str, ...]
    verdict: Verdict
    reason: str | None  #: why there is no value or no verdict


class _UndefinedError(Exception):
    """A fact that is undefined for a market, for the given reason."""


@dataclass(frozen=True, slots=True)
class _Measured:
    value: float
    interval: Interval
    n: int
    assets: int


# Division warnings are off: figures without a value or variance are NaN, and are reported as such.
@np.errstate(divide="ignore", invalid="ignore")
def stylised_facts(panel: DailyPanel) -> tuple[StylisedFact, ...]:
    """Return all facts about a panel, in the order of `stylised_facts.csv`. Equal panels give equal
    facts. Raises DataError if a price is not positive.
    """
    if (panel.close <= 0).any() or (panel.open <= 0).any():
        raise DataError("stylised facts need positive prices; `ktdeval data check` names the bars")

    sample = _Sample(panel)
    facts = []
    for row in _FACTS:
        reason = None
        measured = None
        try:
            measured = _MEASURES[row["name"]](sample)
        except _UndefinedError as error:
            reason = str(error)

        facts.append(_judge_fact(row, sample, measured, reason))

    return tuple(facts)


def _judge_fact(
    row: Mapping[str, str], sample: _Sample, measured: _Measured | None, reason: str | None
) -> StylisedFact:
    """Compare a figure with its range in real markets."""
    kind = sample.panel.kind
    ranges = _ranges_for(row["name"], kind, len(sample.returns))
    low = min((one.low for one in ranges), default=None)
    high = max((one.high for one in ranges), default=None)
    verdict: Verdict = "undefined"

    if measured is None:
        days, count = sample.returns.shape
        n = days if row["n_counts"] == "days" else 0
        measured_value = None
        interval = no_interval(reason or "", n, LEVEL)
    else:
        n = measured.n
        count = measured.assets
        measured_value = measured.value
        interval = measured.interval
        if low is None or high is None:
            reason = f"no range from real markets is known for assets of kind {kind}"
        else:
            verdict, reason = _verdict(measured.value, interval, low, high)

    calendar = sample.panel.calendar
    return StylisedFact(
        row["name"],
        f"{kind}, {calendar}" if calendar else kind,
        row["words"],
        measured_value,
        interval,
        n,
        row["n_counts"],
        count,
        low,
        high,
        tuple(one.words for one in ranges),
        verdict,
        reason,
    )


def _ranges_for(fact: str, kind: str, days: int) -> list[FactRange]:
    """Return the ranges for comparison with a sample of `days` days. Short samples have their own
    ranges, because autocorrelations over few days vary widely and are too low on average.
    """
    of_fact = (one for one in RANGES if (one.fact, one.kind) == (fact, kind))
    return [one for one in of_fact if one.most_days is None or days < one.most_days]


def _verdict(
    value: float, interval: Interval, low: float, high: float
) -> tuple[Verdict, str | None]:
    """Return a figure's verdict and its reason; `outside` only if its entire interval is."""
    if low <= value <= high:
        return "inside", None
    if interval.low is None or interval.high is None:
        return "unclear", f"outside the range, without an interval: {interval.reason}"
    if interval.low <= high and interval.high >= low:
        return "unclear", "outside the range, but its interval overlaps the range"
    return "outside", None


class _Sample:
    """A panel's returns, and the weights of its days in the sample and in each resample."""

    def __init__(self, panel: DailyPanel) -> None:
        self.panel = panel
        closes = panel.close
        self.returns: FloatArray = np.asarray(closes[1:] / closes[:-1] - 1)
        known = np.isfinite(self.returns)
        sums = np.where(known, self.returns, 0.0).sum(axis=1)
        counts = known.sum(axis=1)
        market = np.full(len(sums), np.nan)
        np.divide(sums, counts, out=market, where=counts > 0)
        #: [T, 1] equal-weight mean return of the assets
        self.market: FloatArray = market[:, None]
        self._weights: FloatArray | None = None
        self.block = 0.0

    @property
    def weights(self) -> FloatArray:
        """Frequency of each day in the sample (once) and in a resample. Shape: [1 + draws, T]."""
        if self._weights is None:
            self._weights = self._draw()
        return self._weights

    def _draw(self) -> FloatArray:
        days = len(self.returns)
        if days < MIN_RETURNS:
            raise _UndefinedError(f"{days} daily returns, fewer than {MIN_RETURNS}")

        sizes = np.nan_to_num(np.abs(self.market[:, 0]))
        if not sizes.std() > 0:
            raise _UndefinedError("the market's return has no variance")

        self.block = block_days(sizes)
        seed = derive_seed("stylised facts", days)
        drawn = stationary_indices(days, self.block, DRAWS, seed)
        cells = drawn + days * np.arange(DRAWS)[:, None]
        counts = np.bincount(cells.ravel(), minlength=DRAWS * days).reshape(DRAWS, days)

        return np.vstack([np.ones(days), counts])

    def make_figure(self, figures: FloatArray, assets: int) -> _Measured:
        """Return a sample's figure with its percentile interval. `figures`: figure of the sample,
        then of each resample, [1 + draws]. Raises _UndefinedError if the sample's figure is NaN.
        """
        days = len(self.returns)
        value = float(figures[0])
        if not math.isfinite(value):
            raise _UndefinedError("the returns have no variance")

        drawn = figures[1:]
        drawn = drawn[np.isfinite(drawn)]
        if len(drawn) < DRAWS // 2:
            interval = no_interval("the figure is undefined in most resamples", days, LEVEL)
            return _Measured(value, interval, days, assets)

        tail = (1 - LEVEL) / 2
        quantiles = np.quantile(drawn, [tail, 0.5, 1 - tail], method="weibull")
        # Resamples have fewer distinct days, so their kurtosis is lower. Therefore only their
        # spread is used.
        low, high = (value + quantiles[[0, 2]] - quantiles[1]).tolist()
        method = "stationary bootstrap, percentiles centred on the figure"
        interval = Interval(low, high, LEVEL, method, days, self.block, len(drawn))

        return _Measured(value, interval, days, assets)

    def median(self, figures: FloatArray) -> _Measured:
        """Return the median over assets. `figures`: [1 + draws, n]; assets without a figure in the
        sample are ignored. Raises _UndefinedError if no asset has a figure.
        """
        known = np.isfinite(figures[0])
        if not known.any():
            raise _UndefinedError(
                f"no asset has {MIN_RETURNS} days with the data that the figure needs, and variance"
            )

        return self.make_figure(np.nanmedian(figures[:, known], axis=1), int(known.sum()))


def _centre_values(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return which of [T, n] values are known (1, else 0), the values minus their column mean (0
    where unknown), and the column means, [n]. Columns with fewer than `MIN_RETURNS` values are NaN.
    """
    known = np.isfinite(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    means = np.full(values.shape[1], np.nan)
    np.divide(sums, counts, out=means, where=counts >= MIN_RETURNS)
    # Powers and products of centred values lose no digits to a large mean.
    return known.astype(np.float64), np.where(known, values - means, 0.0 * means), means


def _variances(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return variances (ddof 0) of the columns of [T, n] values under [D, T] weights. NaN if a
    variance is only rounding. Shape: [D, n].
    """
    known, centred, _ = _centre_values(values)
    total = weights @ known
    return _find_variances(weights @ centred / total, weights @ centred**2 / total)


def _find_variances(mean: FloatArray, square: FloatArray) -> FloatArray:
    """Return variances from means and mean squares; NaN if a variance is only rounding."""
    variances = square - mean**2
    return np.asarray(np.where(variances > NO_VARIANCE**2, variances, np.nan))


def _correlations(weights: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the correlations between the columns of two [T, n] grids under [D, T] weights, over
    the days known in both. With equal weights, they equal `pandas.Series.corr`. Shape: [D, n].
    """
    both = np.isfinite(first) & np.isfinite(second)
    known, one, _ = _centre_values(np.where(both, first, np.nan))
    _, other, _ = _centre_values(np.where(both, second, np.nan))
    total = weights @ known
    mean = weights @ one / total
    other_mean = weights @ other / total
    variance = _find_variances(mean, weights @ one**2 / total)
    other_variance = _find_variances(other_mean, weights @ other**2 / total)
    covariance = weights @ (one * other) / total - mean * other_mean

    return np.asarray(covariance / np.sqrt(variance * other_variance))


def _kurtosis(sample: _Sample) -> _Measured:
    weights = sample.weights
    known, centred, _ = _centre_values(sample.returns)
    total = weights @ known
    mean, second, third, fourth = (weights @ centred**power / total for power in (1, 2, 3, 4))
    central = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4
    return sample.median(central / _variances(weights, sample.returns) ** 2 - 3)


def _tail_index(sample: _Sample) -> _Measured:
    weights = sample.weights
    columns = []
    for column in np.abs(sample.returns).T:
        columns.append(_hill(weights, column))

    return sample.median(np.column_stack(columns))


def _hill(weights: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return Hill's estimates of the tail index of [T] absolute returns under [D, T] weights. The
    estimate is `1 / mean(log(x[i] / x[k + 1]))` over the k largest returns, where k is the integer
    part of `TAIL_SHARE` times the number of returns. Shape: [D].
    """
    known = np.flatnonzero(sizes > 0)
    if len(known) < MIN_RETURNS:
        return np.full(len(weights), np.nan)

    counts = np.floor(TAIL_SHARE * weights[:, known].sum(axis=1))
    # A resample's largest days are among the sample's largest days, if four times as many are
    # taken.
    most = math.ceil(4 * TAIL_SHARE * len(known))
    order = known[np.argsort(-sizes[known], kind="stable")][:most]
    logs = np.log(sizes[order])
    drawn = weights[:, order]
    reached = np.cumsum(drawn, axis=1)
    taken = np.clip(counts[:, None] - (reached - drawn), 0, drawn)
    threshold = (reached <= counts[:, None]).sum(axis=1)
    excess = taken @ logs / counts - logs[np.minimum(threshold, most - 1)]

    # Values tied with the threshold have no excess.
    is_defined = (threshold < most) & (excess > 0)
    return np.asarray(1 / np.where(is_defined, excess, np.nan))


def _autocorrelation(
    sample: _Sample, *, lag: int, of_sizes: bool = False, of_market: bool = False
) -> _Measured:
    """Return the autocorrelation of returns or of their sizes (absolute returns), for assets or for
    the market.
    """
    series = sample.market if of_market else sample.returns
    if of_sizes:
        series = np.abs(series)

    return _correlate_lagged(sample, series[:-lag], series[lag:])


def _correlate_lagged(sample: _Sample, first: FloatArray, later: FloatArray) -> _Measured:
    """Return the median correlation between two [t, n] grids whose rows refer to the first
    t days.
    """
    return sample.median(_correlations(sample.weights[:, : len(first)], first, later))


def _leverage(sample: _Sample, *, of_market: bool = False) -> _Measured:
    series = sample.market if of_market else sample.returns
    sizes = np.abs(series)
    days = len(series) - LEVERAGE_DAYS
    later = np.zeros((max(days, 0), series.shape[1]))
    for lag in range(1, LEVERAGE_DAYS + 1):
        later += sizes[lag : lag + days]

    return _correlate_lagged(sample, series[:days], later / LEVERAGE_DAYS)


def _overnight_share(sample: _Sample) -> _Measured:
    weights = sample.weights
    panel = sample.panel
    overnight = np.log(panel.open[1:] / panel.close[:-1])
    intraday = np.log(panel.close[1:] / panel.open[1:])
    known = np.isfinite(overnight) & np.isfinite(intraday)
    if not known.any():
        raise _UndefinedError("the market has no opening prices")

    # A gap variance of zero means that the market never closes, so the figure is defined.
    night = np.nan_to_num(_variances(weights, np.where(known, overnight, np.nan)))
    day = _variances(weights, np.where(known, intraday, np.nan))
    return sample.median(night / (night + day))


def _volume_volatility(sample: _Sample) -> _Measured:
    turnover = sample.panel.turnover[1:]
    if not (turnover > 0).any():
        raise _UndefinedError("the market has no volumes")

    logs = np.log(np.where(turnover > 0, turnover, np.nan))
    return _correlate_lagged(sample, np.abs(sample.returns), logs)


def _standardisable(sample: _Sample) -> FloatArray:
    """Return the returns of assets that have a return on nearly all days. Shape: [T, n]. Raises
    _UndefinedError if there are too few such assets.
    """
    returns = sample.returns
    counts = np.isfinite(returns).sum(axis=0)
    is_long = counts >= max(NEARLY_ALL * len(returns), MIN_RETURNS)
    varies = np.nanmax(returns, axis=0, initial=-1.0) > np.nanmin(returns, axis=0, initial=1.0)
    own = returns[:, is_long & varies]
    if own.shape[1] < MIN_ASSETS:
        raise _UndefinedError(
            f"{own.shape[1]} assets have returns on {NEARLY_ALL:.0%} of the days and on at"
            f" least {MIN_RETURNS} days; needed: {MIN_ASSETS}"
        )
    return own


def _standardised_product(
    weights: FloatArray, returns: FloatArray, vectors: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return each resample's correlation matrix times the resample's vector in `vectors`, [D, n],
    and the variance of the standardised returns weighted by this vector and summed, [D]. A missing
    return is replaced by the asset's mean.
    """
    _, centred, _ = _centre_values(returns)
    total = weights.sum(axis=1, keepdims=True)
    means = weights @ centred / total
    scales = np.sqrt(weights @ centred**2 / total - means**2)
    scaled = vectors / scales
    sums = (centred @ scaled.T).T - (means * scaled).sum(axis=1, keepdims=True)
    weighted = weights * sums / total
    product = (weighted @ centred - weighted.sum(axis=1, keepdims=True) * means) / scales

    return np.asarray(product), np.asarray((weighted * sums).sum(axis=1))


def _correlation(sample: _Sample) -> _Measured:
    """Return the average correlation. It follows from the variance of the sum of standardised
    returns, which is the sum of all correlations.
    """
    weights = sample.weights
    returns = _standardisable(sample)
    count = returns.shape[1]
    _, total = _standardised_product(weights, returns, np.ones((len(weights), count)))
    return sample.make_figure((total - count) / (count * (count - 1)), count)


def _first_eigenvalue(sample: _Sample) -> _Measured:
    """Return the largest eigenvalue by the power method. It starts from the sample's eigenvector,
    which is close to every resample's eigenvector.
    """
    weights = sample.weights
    returns = _standardisable(sample)
    count = returns.shape[1]
    _, centred, _ = _centre_values(returns)
    matrix = np.corrcoef(centred, rowvar=False)
    vectors = np.tile(np.linalg.eigh(matrix)[1][:, -1], (len(weights), 1))

    for _ in range(_ITERATIONS):
        product, _ = _standardised_product(weights, returns, vectors)
        vectors = product / np.linalg.norm(product, axis=1, keepdims=True)

    _, largest = _standardised_product(weights, returns, vectors)
    return sample.make_figure(largest / count, count)


def _advancing(sample: _Sample) -> FloatArray:
    """Return the fraction of rising assets among assets that moved. Shape: [T, 1]. Raises
    _UndefinedError if the market has too few assets.
    """
    returns = sample.returns
    if returns.shape[1] < MIN_ASSETS:
        raise _UndefinedError(f"{returns.shape[1]} assets, fewer than {MIN_ASSETS}")

    rose = (returns > 0).sum(axis=1)
    moved = rose + (returns < 0).sum(axis=1)
    shares = np.full(len(rose), np.nan)
    np.divide(rose, moved, out=shares, where=moved >= MIN_ASSETS)
    return shares[:, None]


def _breadth(sample: _Sample) -> _Measured:
    weights = sample.weights
    known, centred, means = _centre_values(_advancing(sample))
    figures = means + weights @ centred / (weights @ known)
    return sample.make_figure(figures[:, 0], sample.returns.shape[1])


def _breadth_spread(sample: _Sample) -> _Measured:
    variances = _variances(sample.weights, _advancing(sample))
    return sample.make_figure(np.sqrt(variances[:, 0]), sample.returns.shape[1])


def _months_after(sample: _Sample, *, months: int, of_tenths: bool) -> _Measured:
    """Return the rank correlation, or the difference between deciles in percent, between a past
    return and the next month's return, averaged over non-overlapping months. With `months` = 12,
    the past return is over a year without the last month; with 1, it is over a month.
    """
    month = round(sample.panel.days_a_year / 12)
    skipped = month if months > 1 else 0
    reach = month * months
    closes = sample.panel.close
    least = MIN_ASSETS_OF_TENTHS if of_tenths else MIN_ASSETS
    figures = []

    for row in range(reach, len(closes) - month, month):
        past = closes[row - skipped] / closes[row - reach] - 1
        later = closes[row + month] / closes[row] - 1
        known = np.isfinite(past) & np.isfinite(later)
        if known.sum() < least:
            continue

        if of_tenths:
            figures.append(100 * _tenths(past[known], later[known]))
        else:
            figures.append(_rank_correlation(past[known], later[known]))

    if len(figures) < MIN_MONTHS:
        raise _UndefinedError(
            f"{len(figures)} months with at least {least} assets, fewer than {MIN_MONTHS}"
        )

    series = np.array(figures)
    # The last bits of a correlation depend on the processor.
    drawn = Bootstrap(series, seeded_by=series.round(_SEED_DIGITS))
    return _Measured(float(series.mean()), drawn.mean(), len(series), closes.shape[1])


def _rank_correlation(first: FloatArray, second: FloatArray) -> float:
    return float(pd.Series(first).rank().corr(pd.Series(second).rank()))


def _tenths(past: FloatArray, later: FloatArray) -> float:
    """Return the mean of `later` in the top decile of `past` minus its mean in the bottom
    decile.
    """
    size = len(past) // 10
    order = np.argsort(past, kind="stable")
    return float(later[order[-size:]].mean() - later[order[:size]].mean())


_MEASURES: Mapping[str, Callable[[_Sample], _Measured]] = {
    "excess_kurtosis": _kurtosis,
    "tail_index": _tail_index,
    "return_lag_1": partial(_autocorrelation, lag=1),
    "return_lag_5": partial(_autocorrelation, lag=5),
    "volatility_lag_1": partial(_autocorrelation, lag=1, of_sizes=True),
    "volatility_lag_5": partial(_autocorrelation, lag=5, of_sizes=True),
    "volatility_lag_20": partial(_autocorrelation, lag=20, of_sizes=True),
    "market_volatility_lag_1": partial(_autocorrelation, lag=1, of_sizes=True, of_market=True),
    "market_volatility_lag_5": partial(_autocorrelation, lag=5, of_sizes=True, of_market=True),
    "market_volatility_lag_20": partial(_autocorrelation, lag=20, of_sizes=True, of_market=True),
    "leverage": _leverage,
    "market_leverage": partial(_leverage, of_market=True),
    "correlation": _correlation,
    "first_eigenvalue": _first_eigenvalue,
    "breadth": _breadth,
    "breadth_spread": _breadth_spread,
    "overnight_share": _overnight_share,
    "volume_volatility": _volume_volatility,
    "momentum": partial(_months_after, months=12, of_tenths=False),
    "momentum_spread": partial(_months_after, months=12, of_tenths=True),
    "reversal": partial(_months_after, months=1, of_tenths=False),
    "reversal_spread": partial(_months_after, months=1, of_tenths=True),
}
