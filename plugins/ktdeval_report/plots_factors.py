"""Plots of an attribution, and of figures with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ktdeval_report.canvas import Plot, colour, quiet
from ktdeval_report.plots import held_to, label_days, places_of
from ktdeval_report.render import clean
from ktdeval_report.study import WindowStudy, parts_of
from ktdeval_report.text import figure as number, percent

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

Values = npt.NDArray[np.float64]

_LONGEST_LINE = 30


def attribution_plot(window: WindowStudy) -> Plot | None:
    """Linked contributions so far, stacked: above zero what helped, below zero what cost; None where there are none."""
    attribution = window.episode.attribution
    if attribution is None or attribution.linked.lines is None:
        return None
    parts = {name: 100.0 * np.cumsum(part) for name, part in parts_of(attribution, attribution.linked_lines).items()}
    total = np.sum(list(parts.values()), axis=0)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        places, step = places_of(len(total))
        above, below = np.zeros(len(total)), np.zeros(len(total))
        for role, (name, part) in zip(("one", "two", "five", "three", "four"), _with_gap(parts), strict=True):
            if part is None:
                continue
            gain, cost = np.maximum(part, 0.0), np.minimum(part, 0.0)
            for base, change in ((above, gain), (below, cost)):
                low, high = held_to(base, places), held_to(base + change, places)
                label = name if change is gain else None
                axes.fill_between(places, low, high, step=step, color=colour(role), linewidth=0.0, label=label)
            above, below = above + gain, below + cost
        axes.axhline(0.0, color=colour("ink"), linewidth=0.7)
        axes.plot(total, color=colour("paper"), linewidth=3.6)
        axes.plot(total, color=colour("ink"), linewidth=1.7, label="total return")
        axes.set_ylabel("linked contribution, %")
        label_days(axes, list(attribution.days))
        axes.margins(x=0.0)
        quiet(axes)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=3, handlelength=1.2, columnspacing=1.2)

    text = "At the end " + ", ".join(f"{name} {percent(float(part[-1]) / 100)}" for name, part in parts.items())
    text += f"; together the total return of {percent(float(total[-1]) / 100)}."
    note = "Carino-linked with the factor of the whole episode: what stands at the end adds to the total return."
    return Plot("attribution", f"{window.name}: where the return came from", text, draw, 3.9, note)


def _with_gap(parts: dict[str, Values]) -> list[tuple[str, Values | None]]:
    """Return the parts in the order of their colours; industry has none unless it was fitted."""
    return [(name, parts.get(name)) for name in ("common", "style", "industry", "selection", "trading")]


def exposures_plot(window: WindowStudy) -> Plot | None:
    """One small plot a style factor, all on one scale; None where there is no attribution."""
    attribution = window.episode.attribution
    if attribution is None or not attribution.factor_names:
        return None
    exposures, names = attribution.exposures, attribution.factor_names
    reach = max(float(np.abs(exposures).max()), 0.1) * 1.05
    rows = -(-len(names) // 3)

    def draw(figure: FigureBase) -> None:
        grid = figure.subplots(rows, 3, sharex=True, sharey=True, squeeze=False)
        spots, step = places_of(len(exposures))
        for place, axes in enumerate(grid.flat):
            if place >= len(names):
                axes.set_visible(False)
                continue
            values = held_to(exposures[:, place], spots)
            axes.fill_between(spots, np.maximum(values, 0.0), 0.0, step=step, color=colour("one"), linewidth=0)
            axes.fill_between(spots, np.minimum(values, 0.0), 0.0, step=step, color=colour("two"), linewidth=0)
            axes.axhline(0.0, color=colour("muted"), linewidth=0.6)
            axes.set_title(names[place], loc="left")
            axes.set_ylim(-reach, reach)
            axes.set_xlim(-0.5, len(exposures) - 0.5)
            axes.set_xticks([])
            quiet(axes)
        figure.supxlabel(f"{attribution.days[0]} … {attribution.days[-1]}", fontsize="medium", color=colour("ink"))

    means = attribution.mean_exposures()
    text = "Means: " + ", ".join(
        f"{name} {number(float(value) if np.isfinite(value) else None, signed=True)}"
        for name, value in zip(names, means, strict=True)
    )
    note = "In standard deviations over the index's names, of the whole NAV: cash dilutes them."
    return Plot("exposures", f"{window.name}: style exposures", f"{text}.", draw, 1.15 * rows + 0.4, note)


@dataclass(frozen=True)
class Point:
    """A figure with its interval, where it has one."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None


def forest_plot(name: str, title: str, axis: str, points: Sequence[Point], scale: float = 100.0) -> Plot:
    """Figures with intervals one below the other, against zero. `axis`: what the axis shows, with its unit. `points`: from top to
    bottom; those without a value are left out. `scale`: from the figures' unit to the axis's.
    """
    known = [point for point in points if point.value is not None]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        rows = np.arange(len(known))[::-1]
        axes.axvline(0.0, color=colour("muted"), linewidth=0.8)
        for row, point in zip(rows, known, strict=True):
            if point.low is not None and point.high is not None:
                axes.hlines(row, scale * point.low, scale * point.high, color=colour("one"), linewidth=2.0)
        axes.plot(
            [scale * (point.value or 0.0) for point in known],
            rows,
            color=colour("one"),
            marker="o",
            markersize=5.5,
            linestyle="none",
        )
        axes.set_yticks(rows, [_lines_of(point.name) for point in known])
        axes.set_ylim(-0.7, len(known) - 0.3)
        axes.set_xlabel(axis)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        quiet(axes, horizontal=False)

    text = "; ".join(_point_text(point, scale) for point in known)
    lines = max((point.name.count(" · ") + 1 for point in known), default=1)
    return Plot(name, title, f"{text}.", draw, 0.9 + (0.1 + 0.16 * lines) * len(known))


def _lines_of(name: str) -> str:
    """A name that has parts on as many lines, so that figures keep their room."""
    lines = [clean(part) for part in name.split(" · ")]
    return "\n".join(line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…" for line in lines)


def _point_text(point: Point, scale: float) -> str:
    unit = "fraction" if scale == 100.0 else "ratio"
    text = f"{point.name} {number(point.value, unit, signed=True)}"
    if point.low is None:
        return f"{text}, no interval"
    return f"{text}, interval {number(point.low, unit, signed=True)} to {number(point.high, unit, signed=True)}"
