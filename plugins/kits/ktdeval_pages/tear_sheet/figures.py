"""Figures of a track, and of several windows with their mean."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ktdeval import stats
from ktdeval.market import FloatArray
from ktdeval.stats import MetricValue
from ktdeval.values import load_yaml
from ktdeval_pages.tear_sheet.tracks import Track, TrackHolding, WindowTracks


class FigureWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Label, unit, range and definition of a figure."""

    label: str
    definition: str
    unit: str = "fraction"
    signed: bool = False
    low: float = -math.inf  # limits of the figure's possible values
    high: float = math.inf


class SheetWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Contents of `words.yaml`, with figures in the order of the page."""

    performance: Mapping[str, FigureWords]
    book: Mapping[str, FigureWords]
    plots: Mapping[str, FigureWords]
    tables: Mapping[str, FigureWords]

    def definitions(self, has_book: bool) -> dict[str, str]:
        """Return the definitions, keyed by label, in the order of the page. Equal labels appear
        once. Without a book, figures on holdings and trades are omitted.
        """
        found: dict[str, str] = {}
        for group in (self.performance, self.book, self.plots, self.tables):
            for name, words in group.items():
                if has_book or not self._is_of_book(name):
                    found.setdefault(words.label, words.definition)
        return found

    def _is_of_book(self, name: str) -> bool:
        return name in self.book or name in ("exposures", "sectors", "factors", "holdings")


WORDS = msgspec.convert(load_yaml(Path(__file__).with_name("words.yaml")), SheetWords)

_TO_BENCHMARK = ("beta", "information_ratio")
"""Figures that relate a track to its benchmark, so the benchmark lacks them."""

_ROLLING_DAYS = (126, 63, 20)
"""Window lengths for rolling figures, in days. The first one that a track covers twice is used."""

_TOP_HOLDINGS = 10
_EXTREME_DAYS = 5
_BINS_A_SIDE = 10  #: maximum number of histogram bins on each side of 0
MIN_HISTOGRAM_DAYS = 20
_MIN_YEARLY_DAYS = 60
"""Minimum number of days for which an annual ratio is shown without an interval."""


def performance(track: Track) -> dict[str, MetricValue]:
    """Return a track's growth and risk figures, keyed by name."""
    n = len(track.days) - 1
    if track.problem:
        return {name: MetricValue(None, n, track.problem) for name in WORDS.performance}

    found = _of_levels(track.levels, track.days_a_year, track.resolution)
    market = track.benchmark_returns
    if market is None:
        missing = MetricValue(None, n, f"no benchmark: {track.no_benchmark}")
        return found | dict.fromkeys(_TO_BENCHMARK, missing)

    found["beta"] = stats.beta(track.returns, market)
    ratio = stats.information_ratio(track.returns, market, track.days_a_year, track.resolution)
    active = track.returns - market
    found["information_ratio"] = _with_interval(ratio, active, track.days_a_year, track.resolution)
    return found


def benchmark_performance(track: Track) -> dict[str, MetricValue]:
    """Return the same figures for the benchmark; empty without a benchmark."""
    if track.benchmark is None:
        return {}
    return _of_levels(track.benchmark, track.days_a_year, stats.NO_VARIANCE)


def _of_levels(levels: FloatArray, days_a_year: int, resolution: float) -> dict[str, MetricValue]:
    returns = stats.simple_returns(levels)
    n = len(returns)
    cagr = stats.cagr(levels, days_a_year)
    calmar = stats.calmar(levels, days_a_year)
    no_year = stats.yearly_return_problem(n, float(days_a_year))
    if no_year is not None:
        cagr = MetricValue(None, n, no_year)
        calmar = cagr

    sharpe = stats.sharpe(returns, days_a_year, resolution)
    sortino = stats.sortino(returns, days_a_year, resolution)
    if n < _MIN_YEARLY_DAYS:
        sortino = MetricValue(None, n, f"fewer than {_MIN_YEARLY_DAYS} days")

    return {
        "total_return": stats.total_return(levels),
        "cagr": cagr,
        "volatility": stats.volatility(returns, days_a_year),
        "sharpe": _with_interval(sharpe, returns, days_a_year, resolution),
        "sortino": sortino,
        "max_drawdown": stats.max_drawdown(levels),
        "calmar": calmar,
        "hit_rate": stats.hit_rate(returns),
    }


def _with_interval(
    ratio: MetricValue, returns: FloatArray, days_a_year: int, resolution: float
) -> MetricValue:
    """Return a Sharpe ratio with the `low` and `high` of its 95 % interval in the detail. It is
    undefined if the track is too short for an interval.
    """
    if ratio.value is None:
        return ratio

    interval = stats.Bootstrap(returns, resolution=resolution).ratio(days_a_year)
    if interval.low is not None and interval.high is not None:
        return MetricValue(
            ratio.value, ratio.n, detail={"low": interval.low, "high": interval.high}
        )
    if len(returns) < _MIN_YEARLY_DAYS:
        return MetricValue(None, ratio.n, interval.reason or "no interval")
    return ratio


@dataclass(frozen=True)
class BookFigure:
    """Mean and range of a figure over the days of a track, or None with a `reason`."""

    mean: float | None
    lowest: float | None
    highest: float | None
    reason: str = ""


def book_figures(track: Track) -> dict[str, BookFigure]:
    """Return exposures, turnover and holdings over the days of a track, keyed by name; empty
    without a book.
    """
    found: dict[str, BookFigure] = {}
    if track.book is None:
        return found

    for name in WORDS.book:
        values: FloatArray = getattr(track.book, name)
        if not len(values):
            found[name] = BookFigure(None, None, None, "no steps")
        elif np.isnan(values).any():
            found[name] = BookFigure(None, None, None, "the NAV is not positive on a day")
        else:
            mean = stats.mean(values)
            found[name] = BookFigure(mean, float(values.min()), float(values.max()))

    return found


def yearly_turnover(track: Track) -> MetricValue:
    """Return the annual two-way turnover as a multiple of the NAV: the mean over days times the
    days per year.
    """
    n = len(track.days) - 1
    if track.book is None:
        return MetricValue(None, n, "the trades are not known")

    days = book_figures(track)["turnover"]
    if days.mean is None:
        return MetricValue(None, n, days.reason)
    return MetricValue(days.mean * track.days_a_year, n)


def rolling_days(track: Track) -> int | None:
    """Return the length in days of the window for a track's rolling figures: 126, 63 or 20, but at
    most half of the track's days. Return None if the track is too short.
    """
    returns = len(track.days) - 1
    return next((days for days in _ROLLING_DAYS if 2 * days <= returns), None)


def rolling_volatility(returns: FloatArray, days: int, days_a_year: int) -> FloatArray:
    """Return [n] annualised rolling standard deviations (ddof 1) of [n] returns, each over the last
    `days` returns. They are NaN before the first complete window.
    """
    stretches = np.lib.stride_tricks.sliding_window_view(returns, days)
    rolling = stretches.std(axis=1, ddof=1) * math.sqrt(days_a_year)
    return np.concatenate([np.full(days - 1, np.nan), rolling])


@dataclass(frozen=True)
class Histogram:
    """Days grouped by their return, in bins of equal width around 0."""

    centres: FloatArray  # [bins] centre of each bin, as a return
    counts: FloatArray  # [bins] number of days of the account
    benchmark: FloatArray | None  # [bins] number of days of the benchmark


def histogram(track: Track) -> Histogram | str:
    """Return the histogram of a track's daily returns, or the reason why it is undefined."""
    if track.problem:
        return track.problem
    if len(track.returns) < MIN_HISTOGRAM_DAYS:
        return f"fewer than {MIN_HISTOGRAM_DAYS} days"

    market = track.benchmark_returns
    both = track.returns if market is None else np.concatenate([track.returns, market])
    largest = float(np.abs(both).max())
    if largest <= track.resolution:
        return "no day has a return other than 0"

    rough = largest / _BINS_A_SIDE
    power = 10.0 ** math.floor(math.log10(rough))
    width = next(power * step for step in (1, 2, 5, 10) if power * step >= rough)
    side = math.ceil(largest / width - 0.5) + 1  # adds an empty bin at each end
    centres = width * np.arange(-side, side + 1, dtype=np.float64)
    edges = width * (np.arange(-side, side + 2) - 0.5)
    counts = np.histogram(track.returns, edges)[0].astype(np.float64)
    of_market = None
    if market is not None:
        of_market = np.histogram(market, edges)[0].astype(np.float64)
    return Histogram(centres, counts, of_market)


def extreme_days(track: Track) -> tuple[list[int], list[int]]:
    """Return the days with the largest gains and those with the largest losses, at most five each,
    as indices into the returns. Ties are in chronological order.
    """
    if track.problem:
        return [], []

    returns = track.returns
    upwards = np.argsort(returns, kind="stable")
    downwards = np.argsort(-returns, kind="stable")
    best = [int(day) for day in downwards[:_EXTREME_DAYS] if returns[day] > 0.0]
    worst = [int(day) for day in upwards[:_EXTREME_DAYS] if returns[day] < 0.0]
    return best, worst


def over_seeds(values: Sequence[MetricValue]) -> MetricValue:
    """Return the median over the seeds of a window. It is undefined if the figure is undefined for
    any seed.
    """
    for value in values:
        if value.value is None or len(values) == 1:
            return value

    known = [value.value for value in values if value.value is not None]
    return MetricValue(statistics.median(known), len(known))


@dataclass(frozen=True)
class WindowRow:
    """Medians over the seeds of one window."""

    window: WindowTracks
    figures: Mapping[str, MetricValue]  # figures of the agent, keyed by name
    benchmark: MetricValue  # total return of the benchmark
    turnover: MetricValue  # annual turnover


def window_row(window: WindowTracks) -> WindowRow:
    """Return the figures of a window."""
    of_seeds = [performance(track) for track in window.tracks]
    figures = {}
    for name in WORDS.performance:
        figures[name] = over_seeds([found[name] for found in of_seeds])

    shown = window.shown
    reason = f"no benchmark: {shown.no_benchmark}"
    missing = MetricValue(None, 0, reason)
    benchmark = benchmark_performance(shown).get("total_return", missing)
    turnover = over_seeds([yearly_turnover(track) for track in window.tracks])
    return WindowRow(window, figures, benchmark, turnover)


def over_windows(values: Sequence[MetricValue], windows: Sequence[WindowTracks]) -> MetricValue:
    """Return the mean over windows, with the `low` and `high` of its 95 % interval in the detail.
    It is undefined if the figure is undefined for any window.
    """
    known = [value.value for value in values if value.value is not None]
    missing = len(values) - len(known)
    if missing:
        return MetricValue(None, len(known), f"not defined in {missing} of {len(values)} windows")

    spans = []
    for window in windows:
        days = window.shown.days
        spans.append((str(days[1]), str(days[-1])))

    return stats.mean_with_interval(np.array(known), stats.overlap_correlation(spans))


def top_holdings(track: Track) -> list[TrackHolding]:
    """Return the assets held on the most days. Ties are broken by the larger mean weight."""
    if track.book is None:
        return []

    holdings = list(track.book.holdings.values())
    holdings.sort(key=lambda one: (-one.days, -abs(one.mean_weight), one.code))
    return holdings[:_TOP_HOLDINGS]
