"""Confidence intervals for daily series by the stationary block bootstrap (Politis and Romano
1994). The methods were chosen by their measured coverage.

Days are resampled in blocks of random length, so that the dependence between neighbouring days is
preserved. The mean length is the automatic choice of Politis and White (2004, corrected 2009).
Means and ratios get studentised intervals: each resample's figure is divided by its own HAC
standard error, so that a short window gets an interval of the necessary width. The Bartlett kernel
uses `floor(1.3 * sqrt(n))` lags (Lazarus, Lewis, Stock and Watson 2018). Figures without a standard
error, such as the drawdown, get percentile intervals. Each interval records the measured coverage
of its kind.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.stats.block_length import stationary_block_length
from ktdeval.stats.data_limits import (
    MIN_RETURNS,
    dominance_words,
    dominant_return,
)
from ktdeval.stats.intervals import Interval, no_interval
from ktdeval.stats.performance_metrics import benchmark_levels, benchmark_problem
from ktdeval.stats.resampling import Resampling
from ktdeval.stats.series import (
    NO_VARIANCE,
    TRADING_DAYS,
    Series,
    has_no_variance,
    information_ratio,
    level_problem,
    simple_returns,
)
from ktdeval.trading.ledger import Ledger
from ktdeval.values.disk.files import csv_rows
from ktdeval.values.seeds import derive_seed

Kind = Literal["mean", "ratio", "drawdown"]
"""`mean`: daily means, sums and total returns; `ratio`: Sharpe and information ratios."""

MEASURED_LEVEL = 0.95  #: nominal coverage of the measured intervals
DAYS = (20, 43, 120, 250, 548)  #: lengths of the simulated windows, in days

_COVERAGE = csv_rows(Path(__file__).with_name("coverage.csv"))
PROCESSES = tuple(_COVERAGE[0])[2:]
"""The simulated daily processes, in the order of the table's figures. Their means are 0.06 % and
their standard deviations 1.2 % a day.
"""


def _read_coverage() -> Mapping[str, Mapping[int, tuple[float, ...]]]:
    measured: dict[str, dict[int, tuple[float, ...]]] = {}
    for row in _COVERAGE:
        figures = tuple(float(row[name]) for name in PROCESSES)
        measured.setdefault(row["kind"], {})[int(row["days"])] = figures

    return measured


MEASURED = _read_coverage()
"""Kind -> days -> coverage under each process, from 2,000 samples (standard error 0.005)."""


def measured_coverage(kind: Kind, days: int) -> float | None:
    """Return the lowest measured coverage over the simulated processes, for the longest simulated
    window of at most `days`; None if all simulated windows are longer.
    """
    rows = MEASURED.get(kind, {})
    lengths = [length for length in rows if length <= days]
    if not lengths:
        return None
    return min(rows[max(lengths)])


Draws = npt.NDArray[np.float64]  #: [draws, n] resampled series

DAILY_METRICS = ("total_return", "sharpe", "max_drawdown", "information_ratio")
"""Metrics of a daily series that have intervals."""

# at the upper end of an informative interval; floats overflow beyond e^709
_LARGEST_GROWTH = math.log(1e6)

#: minimum days; with fewer days, a block bootstrap is not meaningful, so no interval is given
MIN_DAYS = MIN_RETURNS


Terms = Callable[[Draws], tuple[npt.NDArray[np.float64], Draws]]
"""Maps [draws, n] series to [draws] figures and to each day's influence, [draws, n], whose HAC
standard error is the standard error of the figure. The influence overwrites the series, because a
new array would take as long as the computation.
"""


def block_days(series: Series) -> float:
    """Return the automatic mean block length in days for a series of at least `MIN_DAYS` days. It
    is at least 1 and at most a third of the days.
    """
    return min(max(stationary_block_length(series), 1.0), len(series) / 3)


def stationary_indices(n: int, block: float, draws: int, seed: int) -> npt.NDArray[np.int32]:
    """Return the days in each resample. Blocks have `block` days on average (at least 1) and wrap
    around the end. The distribution is that of `arch.bootstrap.StationaryBootstrap`, but everything
    is drawn at once. Shape: [draws, n].
    """
    return Resamples(n, draws, seed).indices(block)


# days of resamples per step, so that the arrays stay in the processor's cache
_DAYS_AT_ONCE = 1 << 14


class Resamples:
    """Resamples for series of n days, drawn with a single seed. Series with equal mean block
    lengths share the days drawn, and all series share the underlying random numbers.
    """

    def __init__(self, n: int, draws: int, seed: int) -> None:
        self._n = n
        self._draws = draws
        self._seed = seed

    def indices(self, block: float) -> npt.NDArray[np.int32]:
        """Return the days in each resample, from `stationary_indices`: [draws, n]."""
        if block <= 1:
            return self._single_days
        return np.concatenate(list(self._draw_block(block)))

    @cached_property
    def _single_days(self) -> npt.NDArray[np.int32]:
        """Days drawn individually, as for blocks of one day. Shape: [draws, n]."""
        rng = np.random.default_rng(self._seed)
        return rng.integers(0, self._n, (self._draws, self._n), dtype=np.int32)

    def parts(self, block: float) -> Iterator[npt.NDArray[np.int32]]:
        """Yield the rows of `indices` in order, as many at a time as fit the processor's cache."""
        if block > 1:
            return self._draw_block(block)

        rows = max(1, _DAYS_AT_ONCE // self._n)
        starts = range(0, self._draws, rows)
        return (self._single_days[start : start + rows] for start in starts)

    def _draw_block(self, block: float) -> Iterator[npt.NDArray[np.int32]]:
        n = self._n
        chance, first_days = self._chance
        rows = max(1, _DAYS_AT_ONCE // n)
        column = np.tile(np.arange(n, dtype=np.int32), rows)
        turn = np.uint32(n)
        blocks = 0
        for first in range(0, self._draws, rows):
            part = np.empty((min(rows, self._draws - first), n), dtype=np.int32)
            # Politis and Romano (1994): lengths are geometric with mean `block`.
            begins = chance[first : first + rows] < np.float32(1 / block)
            begins[:, 0] = True
            starts = np.flatnonzero(begins)
            # An offset plus the index within the resample gives the day, modulo n days.
            offsets = first_days[blocks : blocks + len(starts)] - column.take(starts)
            offsets += n * (offsets < 0).astype(np.int32)
            block_of = np.cumsum(begins, dtype=np.intp)
            block_of -= 1
            # `clip` skips a bounds check; all indices are valid.
            offset_of = offsets.take(block_of, mode="clip").reshape(part.shape)
            np.add(offset_of, column[:n], out=part)
            # Days are below 2n. Unsigned, a day minus n is huge if the day is below n.
            unsigned = part.view(np.uint32)
            np.minimum(unsigned, unsigned - turn, out=unsigned)
            blocks += len(starts)
            yield part

    @cached_property
    def _chance(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        """Random numbers, [draws, n], that decide whether a block begins, and the first day of each
        possible block. The first days are drawn last, however many there are.
        """
        rng = np.random.default_rng(self._seed)
        chance = rng.random((self._draws, self._n), dtype=np.float32)
        return chance, rng.integers(0, self._n, self._draws * self._n, dtype=np.int32)


@lru_cache(maxsize=1024)
def _remember_interval(*_asked: object) -> list[Interval]:
    """Return a list, empty at first, that caches an interval, because scoring a card again, or
    verifying it, needs the same thousands of resamples.
    """
    return []


def _series_digest(values: npt.NDArray[np.float64]) -> tuple[tuple[int, ...], str]:
    return values.shape, hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


class Bootstrap:
    """A daily series, [n]. All intervals use the same resamples.

    `seeded_by`: a series that seeds the draws instead of the values, for use if the last bits of
    the values depend on the processor. `resolution`: a standard deviation below which the values
    vary only by rounding. `days`: the day of each value, [n], to name one in a reason. `problem`:
    the reason why no interval can be computed, or None.
    """

    def __init__(
        self,
        values: Series,
        resampling: Resampling | None = None,
        seeded_by: Series | None = None,
        resolution: float = NO_VARIANCE,
        days: npt.NDArray[np.datetime64] | None = None,
    ) -> None:
        self.values = np.ascontiguousarray(values)
        self._days = days
        self.seeded_by = self.values if seeded_by is None else seeded_by
        self.resampling = resampling or Resampling()
        self.problem = _series_problem(values, resolution)

    @cached_property
    def return_problem(self) -> str | None:
        """Reason why returns have no interval of their total or their ratio, or None. In addition
        to `problem`, a single day may decide whether a resample contains it.
        """
        if self.problem is not None:
            return self.problem

        largest = dominant_return(self.values, self.resampling.max_day_share)
        if largest is None:
            return None
        day = f"day {largest + 1}" if self._days is None else str(self._days[largest])
        return dominance_words(self.values, largest, day)

    @cached_property
    def block_days(self) -> float:
        """Mean block length in days."""
        return block_days(self.values)

    @cached_property
    def indices(self) -> npt.NDArray[np.int32]:
        """Days in each resample. Shape: [draws, n]."""
        return self._resamples.indices(self.block_days)

    @cached_property
    def _resamples(self) -> Resamples:
        seed = self.resampling.seed
        if seed is None:
            # Adding 0.0 turns -0.0 into 0.0, so that equal series have equal bytes.
            content = (self.seeded_by + 0.0).astype("<f8").tobytes()
            seed = derive_seed(hashlib.sha256(content).hexdigest(), "intervals")

        return Resamples(len(self.values), self.resampling.draws, seed)

    def of_columns(self, columns: Mapping[str, Series]) -> dict[str, Bootstrap]:
        """Return bootstraps of other series over these days, [n] each, from the same draws."""
        own = {}
        for name, values in columns.items():
            other = Bootstrap(values, self.resampling, self.seeded_by)
            other._resamples = self._resamples
            own[name] = other

        return own

    def _blocks(self, series: Draws) -> Iterator[Draws]:
        """Yield resamples of a series, as many at a time as fit the processor's cache."""
        for rows in self._resamples.parts(self.block_days):
            # `clip` skips a bounds check; all indices are valid.
            yield series.take(rows, mode="clip")

    def total_return(self) -> Interval:
        """Return the interval for the total return over n days of simple returns, `exp(n * mean log
        growth) - 1`. The true value is the growth of the process.
        """
        if self.problem is None and not self.values.min() > -1:
            return self._none("a day lost everything")
        if self.return_problem is not None:
            return self._none(self.return_problem)

        n = len(self.values)
        growth = self._studentise(np.log1p, _mean_terms, "mean")
        if (
            growth.high is not None
            and n * (growth.high + (growth.monte_carlo_se or 0.0)) > _LARGEST_GROWTH
        ):
            return self._none(
                "too few days moved: its upper end is more than a million times the capital"
            )

        return growth.transform_ends(lambda value: math.expm1(n * value))

    def ratio(self, days_a_year: int = TRADING_DAYS) -> Interval:
        """Return the interval for the annualised ratio of mean to standard deviation. For returns,
        this is the Sharpe ratio; for excess returns, the information ratio.
        """
        if self.return_problem is not None:
            return self._none(self.return_problem)

        return self._studentise(None, _ratio_terms, "ratio").transform_ends(
            lambda value: value * math.sqrt(days_a_year)
        )

    def mean(self) -> Interval:
        """Return the interval for the mean."""
        return self._studentise(None, _mean_terms, "mean")

    def sum(self) -> Interval:
        """Return the interval for the sum over the n days, such as a line of an attribution."""
        return self.mean().transform_ends(lambda value: value * len(self.values))

    def max_drawdown(self) -> Interval:
        """Return the interval for the maximum drawdown of the same process over the same number of
        days. The true value is the median of its distribution.
        """
        if self.problem or not self.values.min() > -1:
            return self._none(self.problem or "a day lost everything")

        tail = (1 - self.resampling.level) / 2
        figures = np.concatenate([drawdowns(drawn) for drawn in self._blocks(self.values)])
        (low, high), errors = _quantiles(figures, [tail, 1 - tail])

        return self._interval(low, high, "drawdown", max(errors))

    def _studentise(
        self, transform: Callable[[Draws], Draws] | None, terms: Terms, kind: Kind
    ) -> Interval:
        if self.problem:
            return self._none(self.problem)

        values = _series_digest(self.values)
        seeded_by = _series_digest(self.seeded_by)
        stored = _remember_interval(values, seeded_by, self.resampling, transform, terms, kind)
        if not stored:
            stored.append(self._draw_studentised(transform, terms, kind))

        return stored[0]

    def _draw_studentised(
        self, transform: Callable[[Draws], Draws] | None, terms: Terms, kind: Kind
    ) -> Interval:
        series = self.values
        if transform is not None:
            series = transform(series)

        # By the rule of Lazarus, Lewis, Stock and Watson (2018)
        lags = int(1.3 * math.sqrt(len(self.values)))
        figure, influence = terms(series[None, :].copy())
        centre = float(figure[0])
        spread = float(_hac_errors(influence, lags)[0])

        figure_parts = []
        error_parts = []
        for resamples in self._blocks(series):
            some_figures, influences = terms(resamples)
            figure_parts.append(some_figures)
            error_parts.append(_hac_errors(influences, lags))

        figures = np.concatenate(figure_parts)
        errors = np.concatenate(error_parts)
        if not spread > 0 or not (errors > 0).all():
            return self._none("a resample has no variance")

        # Götze and Künsch (1996): divide by each resample's own error, not by the sample's error
        pivots = (figures - centre) / errors
        level = self.resampling.level
        if kind == "mean":
            # A symmetric interval, because its simulated coverage for means was closer to nominal.
            # For ratios, equal-tailed intervals were closer.
            (below,), noise = _quantiles(np.abs(pivots), [level])
            above = below
        else:
            # The upper quantile of the pivots gives the lower end, and vice versa.
            (lowest, below), noise = _quantiles(pivots, [(1 - level) / 2, (1 + level) / 2])
            above = -lowest

        low = centre - below * spread
        high = centre + above * spread
        return self._interval(low, high, kind, max(noise) * spread)

    def _interval(self, low: float, high: float, kind: Kind, monte_carlo: float) -> Interval:
        settings = self.resampling
        n = len(self.values)
        measured = None
        if settings.level == MEASURED_LEVEL:
            measured = measured_coverage(kind, n)

        method = "stationary bootstrap, percentile"
        if kind in ("mean", "ratio"):
            method = "stationary bootstrap, studentised"

        return Interval(
            low,
            high,
            settings.level,
            method,
            n,
            self.block_days,
            settings.draws,
            measured,
            monte_carlo_se=monte_carlo,
        )

    def _none(self, reason: str) -> Interval:
        return no_interval(reason, len(self.values), self.resampling.level)


def episode_intervals(
    ledger: Ledger, market: MarketSnapshot, resampling: Resampling | None = None
) -> dict[str, Interval]:
    """Return intervals for an episode's four daily metrics, keyed by name. Raises DataError if the
    ledger's days are not days of `market`.
    """
    settings = resampling or Resampling()
    n = len(ledger.steps)
    problem = level_problem(ledger.nav)
    if problem:
        return dict.fromkeys(DAILY_METRICS, no_interval(problem, n, settings.level))

    resolution = ledger.return_resolution
    own = Bootstrap(ledger.returns, settings, resolution=resolution, days=ledger.days)
    levels = benchmark_levels(ledger, market)

    problem = benchmark_problem(market, levels)
    if problem:
        excess = no_interval(f"benchmark: {problem}", n, settings.level)
    else:
        excess = _excess_interval(ledger, simple_returns(levels), settings)

    return {
        "total_return": own.total_return(),
        "sharpe": own.ratio(ledger.days_a_year),
        "max_drawdown": own.max_drawdown(),
        "information_ratio": excess,
    }


def _excess_interval(ledger: Ledger, benchmark: Series, settings: Resampling) -> Interval:
    """Return the interval for the information ratio; no interval if the ratio is undefined."""
    resolution = ledger.return_resolution
    excess = Bootstrap(
        ledger.returns - benchmark, settings, resolution=resolution, days=ledger.days
    )
    interval = excess.ratio(ledger.days_a_year)
    ratio = information_ratio(ledger.returns, benchmark, ledger.days_a_year, resolution)
    if interval.reason is None and ratio.reason is not None:
        return no_interval(ratio.reason, len(ledger.steps), settings.level)

    return interval


def drawdowns(returns: Draws) -> npt.NDArray[np.float64]:
    """Return the maximum drawdown of each series of simple returns. Shape: [draws]. `returns` must
    be above -1; the starting capital is the first peak.
    """
    wealth = np.cumsum(np.log1p(returns), axis=-1)
    peaks = np.maximum(np.maximum.accumulate(wealth, axis=-1), 0.0)
    wealth -= peaks

    return np.asarray(-np.expm1(wealth.min(axis=-1)))


def _series_problem(values: Series, resolution: float) -> str | None:
    if len(values) < MIN_DAYS:
        return f"fewer than {MIN_DAYS} days"
    if not np.isfinite(values).all():
        return "a daily value is missing"
    if has_no_variance(float(values.std(ddof=1)), resolution):
        return "the series has no variance"

    return None


def _mean_terms(series: Draws) -> tuple[npt.NDArray[np.float64], Draws]:
    means = series.mean(axis=-1)
    return means, np.subtract(series, means[:, None], out=series)


def _ratio_terms(series: Draws) -> tuple[npt.NDArray[np.float64], Draws]:
    """Return the mean over the standard deviation, and its influence terms. By the delta method,
    the term of a day with standardised value z is `z - ratio/2 * (z^2 - 1)`.
    """
    n = series.shape[-1]
    means, scores = _mean_terms(series)
    spread = np.sqrt(np.einsum("ij,ij->i", scores, scores) / (n - 1))

    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = means / spread
        scores /= spread[:, None]

    return ratios, scores - 0.5 * ratios[:, None] * (scores * scores - 1.0)


def _hac_errors(influence: Draws, lags: int) -> npt.NDArray[np.float64]:
    """Return Newey-West standard errors of the means of [draws, n] terms. Shape: [draws].

    The Bartlett sum over lags is computed in an equivalent form: the sum of squares of all moving
    sums of `lags + 1` terms, with zeros before and after the series, divided by `lags + 1`. The
    terms are overwritten with their running sums.
    """
    n = influence.shape[-1]
    width = lags + 1
    sums = np.cumsum(influence, axis=-1, out=influence)
    inner = sums[:, width:] - sums[:, :-width]
    tail = sums[:, -1:] - sums[:, n - width : n - 1]
    total = sum(np.einsum("ij,ij->i", part, part) for part in (sums[:, :width], inner, tail))

    return np.asarray(np.sqrt(total / (width * n * (n - 1))))


def _quantiles(
    values: npt.NDArray[np.float64], levels: list[float]
) -> tuple[list[float], list[float]]:
    """Return quantiles, and their Monte-Carlo standard errors.

    A quantile is at rank `level * (draws + 1)`. On average, the fraction `level` of an infinite
    population is below it. The standard error is a quarter of the distance between the quantiles at
    `level ± 2 sqrt(level (1 - level) / draws)`, because the number of draws below a quantile is
    binomial (Serfling 1980, section 2.6).
    """
    below = []
    above = []
    for level in levels:
        distance = 2 * math.sqrt(level * (1 - level) / len(values))
        below.append(max(level - distance, 0.0))
        above.append(min(level + distance, 1.0))

    # A single call for all points, because each call sorts the values.
    points = [*levels, *below, *above]
    quantiles = np.quantile(values, points, method="weibull").reshape(3, len(levels))
    errors = (quantiles[2] - quantiles[1]) / 4

    return quantiles[0].tolist(), errors.tolist()
