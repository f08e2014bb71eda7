"""Plots of a track."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ktdeval import stats
from ktdeval.market import FloatArray
from ktdeval.stats import Rolling
from ktdeval_pages.tear_sheet.drawing import Area, DayPlot, Fall, PlotLine, draw
from ktdeval_pages.tear_sheet.figures import (
    WORDS,
    histogram,
    rolling_days,
    rolling_volatility,
)
from ktdeval_pages.tear_sheet.tracks import Book, Days, GroupExposures, Track
from ktdeval_pages.value_formatting import figure, percent


@dataclass(frozen=True)
class SheetPlot:
    """A plot in the form that the page shows."""

    title: str
    definition: str
    keys: Sequence[tuple[str, str]]  # role and name of each line
    svg: Markup | None  # None with `reason`
    reason: str = ""  # why the plot is undefined


class TrackPlots:
    """Draws the plots of one track. `others` contains the tracks of other seeds on the same days.
    `name` is the label of the track's lines.
    """

    def __init__(
        self, track: Track, others: Sequence[Track], name: str, benchmark_name: str
    ) -> None:
        self._track = track
        self._others = others
        self._name = name
        self._benchmark_name = benchmark_name
        self._days = [str(day) for day in track.days]

    def all(self) -> list[SheetPlot]:
        """Return all plots in the order of the page. Plots of holdings are included only with a
        book.
        """
        plots = [
            self._cumulative(),
            self._underwater(),
            self._rolling_sharpe(),
            self._rolling_beta(),
            self._rolling_volatility(),
            self._histogram(),
        ]
        book = self._track.book
        if book is not None:
            plots += [
                self._exposures(book),
                self._turnover(book),
                self._by_day("names", book.names, is_share=False),
                self._by_day("largest", book.largest),
                self._groups("sectors", book.sectors, is_share=True),
                self._groups("factors", book.factors, is_share=False),
            ]
        return plots

    def _plot(
        self,
        name: str,
        plot: DayPlot | None,
        keys: Sequence[tuple[str, str]] = (),
        reason: str = "",
        days: int | None = None,
    ) -> SheetPlot:
        words = WORDS.plots[name]
        title = words.label if days is None else f"{words.label}, {days} days"
        svg = None if plot is None else draw(plot)
        return SheetPlot(title, words.definition, keys, svg, reason)

    def _day_plot(
        self, name: str, text: str, lines: Sequence[PlotLine], **options: object
    ) -> DayPlot:
        label = f"{self._track.name}: {WORDS.plots[name].label}. {text}"
        starts = self._track.starts
        return DayPlot(label, self._days, lines, starts=starts, **options)  # type: ignore[arg-type]

    def _cumulative(self) -> SheetPlot:
        track = self._track
        keys = [("agent", self._name)]
        lines = []
        for other in self._others:
            lines.append(PlotLine(_growth(other.levels), "other"))
        if self._others:
            keys.append(("other", "other seeds"))

        text = f"The {self._name} ends at {percent(float(_growth(track.levels)[-1]))}"
        if track.benchmark is not None:
            growth = _growth(track.benchmark)
            lines.append(PlotLine(growth, "benchmark"))
            keys.append(("benchmark", self._benchmark_name))
            text += f", {self._benchmark_name} at {percent(float(growth[-1]))}"

        areas = []
        own = _growth(track.levels)
        if track.claimed is not None:
            claimed = _claimed_growth(track.claimed, track.levels)
            lines.append(PlotLine(claimed, "second"))
            keys.append(("second", "as claimed"))
            text += f"; {_claim_words(track.claimed, track.days)}"
            if np.isfinite(claimed).all():
                areas = [Area(np.minimum(own, claimed), np.maximum(own, claimed))]

        lines.append(PlotLine(own, "agent"))
        falls = _marked_falls(track)
        if falls:
            keys.append(("fall", "worst drawdowns"))
            text += f"; shaded: its {len(falls)} worst drawdowns"
        plot = self._day_plot("cumulative", f"{text}.", lines, areas=areas, falls=falls)
        return self._plot("cumulative", plot, keys)

    def _underwater(self) -> SheetPlot:
        track = self._track
        if track.problem:
            return self._plot("underwater", None, reason=track.problem)

        falls = stats.underwater(track.levels)
        lines = [PlotLine(falls, "agent")]
        keys = [("agent", self._name)]
        text = f"The {self._name} falls by at most {percent(-float(falls.min()), signed=False)}"
        if track.benchmark is not None:
            others = stats.underwater(track.benchmark)
            lines.insert(0, PlotLine(others, "benchmark"))
            keys.append(("benchmark", self._benchmark_name))
            fall = percent(-float(others.min()), signed=False)
            text += f", {self._benchmark_name} by {fall}"

        areas = [Area(falls, np.zeros(len(falls)))]
        plot = self._day_plot("underwater", f"{text}.", lines, areas=areas)
        return self._plot("underwater", plot, keys)

    def _rolling_sharpe(self) -> SheetPlot:
        track = self._track
        window = rolling_days(track)
        if track.problem or window is None:
            return self._plot("rolling_sharpe", None, reason=track.problem or _TOO_SHORT)

        rolling = stats.rolling_sharpe(track.returns, window, track.days_a_year, track.resolution)
        return self._rolling("rolling_sharpe", rolling)

    def _rolling_beta(self) -> SheetPlot:
        track = self._track
        window = rolling_days(track)
        market = track.benchmark_returns
        if market is None:
            return self._plot("rolling_beta", None, reason=f"no benchmark: {track.no_benchmark}")
        if track.problem or window is None:
            return self._plot("rolling_beta", None, reason=track.problem or _TOO_SHORT)

        return self._rolling("rolling_beta", stats.rolling_beta(track.returns, market, window))

    def _rolling_volatility(self) -> SheetPlot:
        track = self._track
        window = rolling_days(track)
        if track.problem or window is None:
            return self._plot("rolling_volatility", None, reason=track.problem or _TOO_SHORT)

        own = rolling_volatility(track.returns, window, track.days_a_year)
        lines = [PlotLine(_with_base(own), "agent")]
        keys = [("agent", self._name)]
        market = track.benchmark_returns
        if market is not None:
            other = rolling_volatility(market, window, track.days_a_year)
            lines.insert(0, PlotLine(_with_base(other), "benchmark"))
            keys.append(("benchmark", self._benchmark_name))

        known = own[np.isfinite(own)]
        lowest, highest = (percent(float(end), signed=False) for end in (known.min(), known.max()))
        text = f"Over {window} days, from {lowest} to {highest}."
        plot = self._day_plot("rolling_volatility", text, lines)
        return self._plot("rolling_volatility", plot, keys, days=window)

    def _histogram(self) -> SheetPlot:
        found = histogram(self._track)
        if isinstance(found, str):
            return self._plot("histogram", None, reason=found)

        keys = [("agent", self._name)]
        lines = []
        if found.benchmark is not None:
            lines.append(PlotLine(found.benchmark, "benchmark"))
            keys.append(("benchmark", self._benchmark_name))

        width = percent(float(found.centres[1] - found.centres[0]), signed=False)
        label = f"{self._track.name}: {WORDS.plots['histogram'].label}. Bins of {width}."
        bins = [percent(float(centre)) for centre in found.centres]
        plot = DayPlot(label, bins, lines, bars=found.counts, is_share=False)
        return self._plot("histogram", plot, keys)

    def _groups(self, name: str, exposures: GroupExposures, *, is_share: bool) -> SheetPlot:
        """Return the groups with the largest mean size. The file with the series contains all
        groups.
        """
        if not exposures.lines:
            return self._plot(name, None, reason=exposures.reason or "nothing was ever held")

        sizes = {}
        for group, values in exposures.lines.items():
            known = np.abs(values[np.isfinite(values)])
            sizes[group] = float(known.mean()) if len(known) else -1.0

        largest = sorted(sizes, key=lambda group: (-sizes[group], group))[: len(_GROUP_ROLES)]
        keys = list(zip(_GROUP_ROLES, largest, strict=False))
        lines = [PlotLine(_with_base(exposures.lines[group]), role) for role, group in keys]
        text = f"Lines: {', '.join(largest)}; of {len(sizes)}."
        return self._plot(name, self._day_plot(name, text, lines, is_share=is_share), keys)

    def _rolling(self, name: str, rolling: Rolling) -> SheetPlot:
        known = rolling.values[np.isfinite(rolling.values)]
        if not len(known):
            reason = "no stretch of days has returns that vary"
            return self._plot(name, None, reason=reason, days=rolling.window)

        lowest, highest = (figure(float(end)) for end in (known.min(), known.max()))
        text = f"Over {rolling.window} days, from {lowest} to {highest}."
        lines = [PlotLine(_with_base(rolling.values), "agent")]
        areas = [Area(_with_base(rolling.low), _with_base(rolling.high))]
        plot = self._day_plot(name, text, lines, areas=areas, is_share=False)
        keys = [("band", "95 % band")]
        return self._plot(name, plot, keys, days=rolling.window)

    def _exposures(self, book: Book) -> SheetPlot:
        lines = []
        keys: list[tuple[str, str]] = []
        means = []
        for name, role in (("gross", "agent"), ("net", "net"), ("cash", "cash")):
            values: FloatArray = getattr(book, name)
            lines.append(PlotLine(_with_base(values), role))
            keys.append((role, name))
            if np.isfinite(values).all():
                means.append(f"{name} {percent(stats.mean(values), signed=False)}")

        text = f"Means: {', '.join(means)}." if means else "The NAV is not positive on a day."
        return self._plot("exposures", self._day_plot("exposures", text, lines), keys)

    def _turnover(self, book: Book) -> SheetPlot:
        values = book.turnover
        text = _mean_text(values, is_share=True)
        plot = self._day_plot("turnover", text, [], bars=_with_base(values))
        return self._plot("turnover", plot)

    def _by_day(self, name: str, values: FloatArray, *, is_share: bool = True) -> SheetPlot:
        lines = [PlotLine(_with_base(values), "agent")]
        plot = self._day_plot(name, _mean_text(values, is_share), lines, is_share=is_share)
        return self._plot(name, plot)


_GROUP_ROLES = ("agent", "second", "net", "cash")
"""Line styles for groups, in the order of group size."""

_MARKED_FALLS = 3
"""Number of drawdowns that are marked on the curve; the table has five."""

_TOO_SHORT = "fewer than 40 days; a rolling figure needs twice its 20 days"


def _marked_falls(track: Track) -> list[Fall]:
    """Return the worst drawdowns as marked on the curve, numbered as in their table."""
    if track.problem:
        return []

    growth = _growth(track.levels)
    last = len(track.levels) - 1
    falls = []
    for number, one in enumerate(stats.worst_drawdowns(track.levels, _MARKED_FALLS), start=1):
        stop = last if one.end is None else one.end
        falls.append(Fall(number, one.start, one.trough, stop, float(growth[one.trough])))
    return falls


def _growth(levels: FloatArray) -> FloatArray:
    return np.asarray(levels / levels[0] - 1.0)


def _claimed_growth(claimed: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the growth of a claimed value, which begins on its first day where the account is."""
    first = int(np.flatnonzero(np.isfinite(claimed))[0])
    start = levels[first] / levels[0]
    return np.asarray(claimed / claimed[first] * start - 1.0)


def _claim_words(claimed: FloatArray, days: Days) -> str:
    """Return what a file claims over its own days, whatever the account did before and after."""
    known = np.flatnonzero(np.isfinite(claimed))
    growth = float(claimed[known[-1]] / claimed[known[0]] - 1.0)
    return f"its file claims {percent(growth)} from {days[known[0]]} to {days[known[-1]]}"


def _with_base(values: FloatArray) -> FloatArray:
    """Return the values with an additional value for the base day, which is unknown."""
    return np.concatenate([[np.nan], values])


def _mean_text(values: FloatArray, is_share: bool) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return "Not defined on any day."
    mean = stats.mean(known)
    if is_share:
        return f"On average {percent(mean, signed=False)}."
    return f"On average {figure(mean)}."
