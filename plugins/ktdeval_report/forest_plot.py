"""Forest plot: estimates from several cards with their intervals, one below the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ktdeval_pages.marks import Rows, Spec, finite, interval, layer, light, measure, stroke_at
from ktdeval_report.canvas import Plot, picture
from ktdeval_report.value_formatting import clean, figure as number

_LONGEST_LINE = 30  # maximum number of characters per line of a label
_LINE = 13  # height of a label's line, in pixels


@dataclass(frozen=True, slots=True)
class ForestPoint:
    """A figure, with its interval if it has one."""

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

    `axis`: title of the axis, including the unit.
    `points`: figures from top to bottom; figures without a value are not drawn.
    `scale`: factor that converts figures to the unit of the axis.
    `signed`: whether figures have a sign in the plot's text alternative.
    """
    known = [point for point in points if point.value is not None]
    rows = [_row_of(place, point, scale) for place, point in enumerate(known)]
    names = [_lines_of(point.name) for point in known]
    max_lines = max(map(len, names))
    # Every row has the height of the tallest label, so that rows are evenly spaced.
    height = (10 + _LINE * max_lines) * len(known)
    text = "; ".join(_point_text(point, scale, signed) for point in known)

    return Plot(name, title, f"{text}.", picture(_layers(rows, names, axis), height))


def _row_of(place: int, point: ForestPoint, scale: float) -> dict[str, float | None]:
    """Return the drawn fields of a point, in the unit of the axis. There is an interval only if
    both ends are known.
    """
    row: dict[str, float | None] = {"place": place, "value": finite(scale * (point.value or 0.0))}
    if point.low is not None and point.high is not None:
        row["low"] = finite(scale * point.low)
        row["high"] = finite(scale * point.high)
    return row


def _layers(rows: Rows, names: list[list[str]], axis: str) -> list[Spec]:
    # values that are zero up to rounding must not be scaled up
    ends = [abs(row.get(end) or 0.0) for row in rows for end in ("value", "low", "high")]
    scale = {"domain": [-1.0, 1.0]} if max(ends) < 1e-9 else None
    x = measure("value", axis, scale, grid=True)
    y = {
        "field": "place",
        "type": "ordinal",
        "title": None,
        "axis": {
            "labelExpr": f"{json.dumps(names)}[datum.value]",
            "labelLineHeight": _LINE,
            "labelOffset": -_LINE * (max(map(len, names)) - 1) / 2,
            "ticks": False,
            "domain": False,
        },
    }
    colour = light("series1")
    bars = [row for row in rows if "low" in row]
    return [
        stroke_at(0.0, x, "x"),
        layer("rule", {**interval(x, "x"), "y": y}, bars, color=colour, strokeWidth=2),
        layer("point", {"x": x, "y": y}, rows, color=colour, filled=True, opacity=1, size=40),
    ]


def _lines_of(name: str) -> list[str]:
    """Return a name with each part, and each part's arguments, on a separate line, which leaves
    room for the plot.
    """
    parts = name.replace(" (", " · (").split(" · ")
    return [_cut_line(clean(part)) for part in parts]


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
