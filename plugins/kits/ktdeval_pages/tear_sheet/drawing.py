"""Small daily plots as SVG elements, drawn without a library. Coordinates are integers to keep
pages short, and classes take their colours from the page's style.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from ktdeval.market import FloatArray
from ktdeval_pages.day_labels import dated_positions

WIDTH, HEIGHT = 1600, 530
"""Size of a plot in its own units; four units are about a pixel."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 192, 24, 30, 84
_MAX_TICKS = 5


@dataclass(frozen=True)
class PlotLine:
    """A line of [n] values; NaN leaves a gap."""

    values: FloatArray
    role: str  # CSS class of the line


@dataclass(frozen=True)
class Area:
    """Area between two lines of [n] values."""

    low: FloatArray
    high: FloatArray
    role: str = "band"


@dataclass(frozen=True)
class Fall:
    """A drawdown, marked by a shade over its days, its number and a dot at its trough."""

    number: int
    start: int  # indices of days
    trough: int
    stop: int  # day of the recovery, or the last day
    low: float  # value of the line at the trough


@dataclass(frozen=True)
class DayPlot:
    """Contents of a plot over [n] days."""

    label: str  # text alternative, with the main figures
    days: Sequence[str]  # [n] ISO days
    lines: Sequence[PlotLine]
    areas: Sequence[Area] = ()
    bars: FloatArray | None = None  # [n] bars, which start at 0
    starts: Sequence[int] = ()  # indices of days before which a vertical line is drawn
    falls: Sequence[Fall] = ()
    is_share: bool = True  # whether values are fractions, which are shown in per cent
    has_zero: bool = True  # whether the axis always includes 0


class _Scale:
    """Positions of days and values in a plot."""

    def __init__(self, days: int, low: float, high: float) -> None:
        self._days = max(days - 1, 1)
        self._low = low
        self._reach = high - low

    def x(self, day: float) -> int:
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * day / self._days)

    def y(self, value: float) -> int:
        share = (value - self._low) / self._reach
        return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * share)


def draw(plot: DayPlot) -> Markup:
    """Return a plot as an element of a page."""
    low, high = _reach(plot)
    ticks = _ticks(low, high)
    scale = _Scale(len(plot.days), min(low, ticks[0]), max(high, ticks[-1]))

    parts = [_falls(plot.falls, scale), _areas(plot, scale), _grid(plot, ticks, scale)]
    parts.append(_starts(plot, scale))
    if plot.bars is not None:
        parts.append(_bars(plot.bars, scale))
    for line in plot.lines:
        parts.append(f'<path class="{line.role}" d="{_path(line.values, scale)}"/>')
    parts += [_fall_marks(plot.falls, scale), _day_axis(plot.days, scale)]

    inner = Markup("".join(parts))  # noqa: S704 - numbers, classes and ISO days alone
    label = escape(plot.label)
    view = f"0 0 {WIDTH} {HEIGHT}"
    return Markup('<svg viewBox="{}" role="img" aria-label="{}">{}</svg>').format(
        view, label, inner
    )


def _reach(plot: DayPlot) -> tuple[float, float]:
    """Return the lowest and highest value shown, which are never equal."""
    columns = [line.values for line in plot.lines]
    for area in plot.areas:
        columns += [area.low, area.high]
    if plot.bars is not None:
        columns.append(plot.bars)

    values = np.concatenate(columns)
    values = values[np.isfinite(values)]
    low, high = 0.0, 0.0
    if len(values):
        low, high = float(values.min()), float(values.max())
    if plot.has_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low < 1e-9:
        high = low + 0.01 if plot.is_share else low + 1.0

    return low, high


def _ticks(low: float, high: float) -> list[float]:
    """Return round values from `low` to `high`."""
    rough = (high - low) / (_MAX_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [step * number for number in range(first, last + 1)]


def _grid(plot: DayPlot, ticks: Sequence[float], scale: _Scale) -> str:
    decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    if plot.is_share:
        decimals = max(0, decimals - 2)

    lines = []
    texts = []
    for tick in ticks:
        y = scale.y(tick)
        lines.append(f"M{_LEFT} {y}H{WIDTH - _RIGHT}")
        texts.append(
            f'<text x="{_LEFT - 20}" y="{y + 15}">{_tick_text(plot, tick, decimals)}</text>'
        )

    zero = ""
    if ticks[0] < 0 < ticks[-1]:
        zero = f'<path class="zero" d="M{_LEFT} {scale.y(0.0)}H{WIDTH - _RIGHT}"/>'

    return (
        f'<path class="grid-line" d="{"".join(lines)}"/>{zero}<g class="end">{"".join(texts)}</g>'
    )


def _tick_text(plot: DayPlot, tick: float, decimals: int) -> str:
    text = f"{tick:.{decimals}f}"
    if plot.is_share:
        text = f"{100 * tick:.{decimals}f}\N{NARROW NO-BREAK SPACE}%"
    if not tick:
        text = text.lstrip("-")
    return text.replace("-", "\N{MINUS SIGN}")


def _day_axis(days: Sequence[str], scale: _Scale) -> str:
    last = len(days) - 1
    texts = []
    for position in dated_positions(len(days)):
        anchor = ""  # in the middle
        if position == 0:
            anchor = ' class="start"'
        elif position == last:
            anchor = ' class="end"'  # the outer labels stay inside the plot
        x, y = scale.x(position), HEIGHT - 24
        texts.append(f'<text{anchor} x="{x}" y="{y}">{days[position]}</text>')

    return "".join(texts)


def _starts(plot: DayPlot, scale: _Scale) -> str:
    if not plot.starts:
        return ""
    lines = [f"M{scale.x(start - 0.5)} {_TOP}V{HEIGHT - _BOTTOM}" for start in plot.starts]
    return f'<path class="start-line" d="{"".join(lines)}"/>'


def _falls(falls: Sequence[Fall], scale: _Scale) -> str:
    """Return the shades of drawdowns, over the height of the plot."""
    if not falls:
        return ""
    shades = []
    for fall in falls:
        left, right = scale.x(fall.start), scale.x(fall.stop)
        shades.append(f"M{left} {_TOP}H{right}V{HEIGHT - _BOTTOM}H{left}z")
    return f'<path class="fall" d="{"".join(shades)}"/>'


def _fall_marks(falls: Sequence[Fall], scale: _Scale) -> str:
    """Return a dot at the trough of each drawdown, and its number at the top of its shade."""
    dots = []
    numbers = []
    for fall in falls:
        middle = (scale.x(fall.start) + scale.x(fall.stop)) // 2
        dots.append(f"M{scale.x(fall.trough)} {scale.y(fall.low)}h0")
        numbers.append(
            f'<text class="fall-number" x="{middle}" y="{_TOP + 40}">{fall.number}</text>'
        )

    if not dots:
        return ""
    return f'<path class="trough" d="{"".join(dots)}"/>{"".join(numbers)}'


def _bars(values: FloatArray, scale: _Scale) -> str:
    width = min(max(2, round(0.8 * (scale.x(1) - scale.x(0)))), 2 * _RIGHT)
    base = scale.y(0.0)
    bars = []
    for day, value in enumerate(values.tolist()):
        if math.isfinite(value) and value:
            bars.append(f"M{scale.x(day)} {base}V{scale.y(value)}")

    return f'<path class="bars" stroke-width="{width}" d="{"".join(bars)}"/>'


def _path(values: FloatArray, scale: _Scale) -> str:
    """Return the path of a line, with a gap where values are missing."""
    parts = []
    for start, stop in _runs(np.isfinite(values)):
        days = range(start, stop)
        parts.append(_polyline([(scale.x(day), scale.y(values[day])) for day in days]))
    return "".join(parts)


def _polyline(points: Sequence[tuple[int, int]]) -> str:
    """Return a path through the points. Steps are relative to the previous point, and a minus sign
    replaces the space between two numbers. Both keep pages short.
    """
    x, y = points[0]
    parts = [f"M{x} {y}l0 0" if len(points) == 1 else f"M{x} {y}l"]
    for (before_x, before_y), (x, y) in itertools.pairwise(points):
        for step in (x - before_x, y - before_y):
            is_first = parts[-1].endswith("l")
            parts.append(str(step) if step < 0 or is_first else f" {step}")

    return "".join(parts)


def _areas(plot: DayPlot, scale: _Scale) -> str:
    parts = []
    for area in plot.areas:
        for start, stop in _runs(np.isfinite(area.low) & np.isfinite(area.high)):
            days = range(start, stop)
            upper = [(scale.x(day), scale.y(area.high[day])) for day in days]
            lower = [(scale.x(day), scale.y(area.low[day])) for day in reversed(days)]
            parts.append(f'<path class="{area.role}" d="{_polyline([*upper, *lower])}z"/>')

    return "".join(parts)


def _runs(known: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the start and stop of each run of True values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    pairs = edges.reshape(-1, 2).tolist()
    return [(start, stop) for start, stop in pairs]
