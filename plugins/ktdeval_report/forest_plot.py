"""Forest plot: estimates of several cards with their intervals, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ktdeval_report.canvas import Plot, colour, quiet
from ktdeval_report.value_formatting import clean, figure as number

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

_LONGEST_LINE = 30  # characters of a label


@dataclass(frozen=True, slots=True)
class ForestPoint:
    """A figure with its interval, where it has one."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None


def forest_plot(
    name: str,
    title: str,
    axis: str,
    points: Sequence[ForestPoint],
    scale: float = 100.0,
    signed: bool = True,
) -> Plot:
    """Plot figures with intervals, one below the other, against zero.

    `axis`: what the axis shows, with its unit.
    `points`: from top to bottom; those without a value are not drawn.
    `scale`: factor from the figures' unit to that of the axis.
    `signed`: whether the text of the plot gives figures a sign.
    """
    known = [point for point in points if point.value is not None]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        rows = np.arange(len(known))[::-1]
        axes.axvline(0.0, color=colour("muted"), linewidth=0.8)

        for row, point in zip(rows, known, strict=True):
            if point.low is None or point.high is None:
                continue

            left = scale * point.low
            right = scale * point.high
            axes.hlines(row, left, right, color=colour("series1"), linewidth=2.0)

        values = [scale * (point.value or 0.0) for point in known]
        axes.plot(
            values, rows, color=colour("series1"), marker="o", markersize=5.5, linestyle="none"
        )
        # what is nothing is not drawn as large
        ends: list[float] = []
        for point in known:
            ends += [end for end in (point.value, point.low, point.high) if end is not None]

        if max(abs(scale * end) for end in ends) < 1e-9:
            axes.set_xlim(-1.0, 1.0)

        axes.set_yticks(rows, [_lines_of(point.name) for point in known])
        axes.set_ylim(-0.7, len(known) - 0.3)
        axes.set_xlabel(axis)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        quiet(axes, horizontal=False)

    text = "; ".join(_point_text(point, scale, signed) for point in known)
    most_lines = 1
    for point in known:
        most_lines = max(most_lines, _lines_of(point.name).count("\n") + 1)

    # Every point gets the room of the longest name, so that rows are equally far apart.
    height = 0.9 + (0.1 + 0.16 * most_lines) * len(known)
    return Plot(name, title, f"{text}.", draw, height)


def _lines_of(name: str) -> str:
    """Return a name with each of its parts and its arguments on a line of its own, so that the
    figures keep their room.
    """
    parts = name.replace(" (", " · (").split(" · ")
    return "\n".join(_cut_line(clean(part)) for part in parts)


def _cut_line(line: str) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{line[: _LONGEST_LINE - 1]}…"


def _point_text(point: ForestPoint, scale: float, signed: bool) -> str:
    unit = "fraction" if scale == 100.0 else "ratio"
    text = f"{point.name} {number(point.value, unit, signed=signed)}"
    if point.low is None:
        return f"{text}, no interval"

    low = number(point.low, unit, signed=signed)
    high = number(point.high, unit, signed=signed)
    return f"{text}, interval {low} to {high}"
