"""Figures as SVG, drawn by matplotlib of the rows of which Vega-Lite specs are made."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import pandas as pd

from ktdeval.cards import clean
from ktdeval.errors import UsageError
from ktdeval.values import install_command
from ktdeval_compare.papers.figures.definitions import PaperFigure
from ktdeval_compare.papers.figures.vega_specs import (
    ACTIONS,
    GAP_DASHES,
    SENTIMENTS,
    dash_of,
    distinct,
    event_marks,
    gap_lines,
    light,
    price_rows,
    records_of,
    with_ends,
)
from ktdeval_compare.papers.table_writing import notes_of
from ktdeval_pages.colours import SERIES
from ktdeval_pages.figure_files import svg_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

Row = Mapping[str, Any]
Legend = list[tuple["Artist", str]]

_WIDTH = 8.0  #: inches
_LINE = 0.155  #: inches of a line of small text
_FONT = 8.0
_LETTERS = 140  #: in a line of notes
_SETTINGS: Any = {
    # equal figures give equal bytes
    "svg.hashsalt": "ktdeval",
    "svg.fonttype": "path",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": _FONT,
    "axes.titlesize": _FONT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.5,
    "grid.color": light("rule"),
    "axes.edgecolor": light("muted"),
    "axes.labelcolor": light("muted"),
    "xtick.color": light("muted"),
    "ytick.color": light("muted"),
    "text.color": light("ink"),
}


def figure_svg(figure: PaperFigure, frame: pd.DataFrame) -> bytes:
    """Return a figure as SVG, with a legend above and its notes below. Raises UsageError: matplotlib
    (extra `report`) is not installed.
    """
    try:
        import matplotlib  # noqa: PLC0415 - heavy, and an extra
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise UsageError(
            f"an SVG is drawn with matplotlib, which is not installed: {install_command('report')};"
            " or write --out FILE.html"
        ) from error

    draw = _DRAWERS[figure.kind]
    notes = _wrapped_notes(frame)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        body_height = _height(figure, frame)
        names = _legend_names(figure, frame)
        columns = _legend_columns(names)
        head_height = 0.45 + _LINE * 1.15 * math.ceil(len(names) / columns)
        foot_height = 0.1 + _LINE * len(notes)
        heights = [head_height, body_height, foot_height]

        drawn = Figure(figsize=(_WIDTH, math.fsum(heights)), layout="constrained")
        parts = drawn.subfigures(3, 1, squeeze=False, height_ratios=heights)
        head, body, foot = parts[:, 0]
        legend = draw(body, figure, frame)
        caption = f"{clean(figure.caption)}\n{clean(figure.source)}"
        head.text(0.01, 1.0 - 0.05 / head_height, caption, va="top", fontsize=_FONT + 1)
        if legend:
            head.legend(
                [handle for handle, _ in legend],
                [name for _, name in legend],
                loc="lower left",
                ncols=columns,
                frameon=False,
                borderaxespad=0.1,
            )

        text = "\n".join(notes)
        foot.text(0.01, 1.0, text, va="top", fontsize=_FONT - 1, color=light("muted"))
        return svg_of(drawn)


def _wrapped_notes(frame: pd.DataFrame) -> list[str]:
    lines: list[str] = []
    for note in notes_of(frame):
        lines += textwrap.wrap(clean(note), _LETTERS, subsequent_indent="  ")
    return lines


def _panels(frame: pd.DataFrame) -> list[str]:
    return distinct(frame["panel"])


def _height(figure: PaperFigure, frame: pd.DataFrame) -> float:
    """Return the height of the picture between legend and notes, in inches."""
    if figure.kind == "gap":
        return 4.2
    if figure.kind == "votes":
        return 3.0 + 0.3 * frame["line"].nunique()
    if figure.kind == "scatter":
        return 3.6

    rows = math.ceil(len(_panels(frame)) / _columns(figure, frame))
    if figure.kind == "forest":
        return rows * (0.75 + 0.24 * frame["row"].nunique())
    return rows * (3.6 if len(_panels(frame)) == 1 else 2.3)


def _columns(figure: PaperFigure, frame: pd.DataFrame) -> int:
    return min(figure.most_columns, len(_panels(frame)))


def _legend_names(figure: PaperFigure, frame: pd.DataFrame) -> list[str]:
    """Return the names that the legend will have."""
    if figure.kind in ("lines", "scatter"):
        return distinct(frame["line"])
    if figure.kind == "gap":
        return list(frame.attrs["names"])
    if figure.kind == "forest":
        return ["value and interval", str(frame.attrs["reference"])]
    used = [name for name in ACTIONS if name in set(frame["action"])]
    return [*used, *distinct([row["sentiment"] for row in price_rows(frame)])]


def _legend_columns(names: Sequence[str]) -> int:
    """Return how many names stand beside each other."""
    longest = max(len(name) for name in names)
    return max(1, min(len(names), 4, int(105 / (longest + 7))))


# -- axes


def _day_number(day: str) -> float:
    """Return a day as matplotlib counts them: days since 1970."""
    return float((date.fromisoformat(day) - date(1970, 1, 1)).days)


def _label_days(axes: Axes, days: Sequence[str], most: int) -> None:
    """Name a few of these days below axes, far enough from each other."""
    shown = sorted(set(days))
    count = min(most, len(shown))
    places = [0]
    if count > 1:
        places = sorted({round(at * (len(shown) - 1) / (count - 1)) for at in range(count)})

    chosen = [shown[place] for place in places]
    axes.set_xticks([_day_number(day) for day in chosen], chosen)
    axes.grid(visible=False, axis="x")


def _in_percent(axes: Axes, axis: str) -> None:
    from matplotlib.ticker import PercentFormatter  # noqa: PLC0415 - as above

    which = axes.xaxis if axis == "x" else axes.yaxis
    which.set_major_formatter(PercentFormatter(1.0))


def _number(value: Any) -> float:
    """Return a figure, NaN where it is not defined: nothing is drawn there."""
    return math.nan if value is None else float(value)


def _series_colour(at: int) -> str:
    return light(SERIES[at % len(SERIES)])


def _dashes(lengths: Sequence[int]) -> Any:
    """Return a line style of matplotlib: lengths of strokes and gaps, (1, 0) a whole line."""
    return "-" if tuple(lengths) == (1, 0) else (0, tuple(lengths))


# -- kinds


def _lines(body: SubFigure, figure: PaperFigure, frame: pd.DataFrame) -> Legend:
    rows = with_ends(figure, records_of(frame))
    panels = _panels(frame)
    columns = _columns(figure, frame)
    grid = body.subplots(math.ceil(len(panels) / columns), columns, squeeze=False)
    names = distinct(frame["line"])
    legend: dict[str, Artist] = {}

    for axes, panel in zip(grid.flat, panels, strict=False):
        own = [row for row in rows if row["panel"] == panel]
        for at, name in enumerate(names):
            points = [row for row in own if row["line"] == name]
            if points:
                legend.setdefault(name, _draw_line(axes, figure, points, at))

        days = [row["day"] for row in own]
        for period in frame.attrs.get("periods", []):
            _draw_period(axes, period, min(days), max(days))

        axes.axhline(0.0, color=light("muted"), linewidth=0.6, zorder=0.5)
        axes.set_ylabel(figure.y_title)
        axes.set_title(panel, loc="left")
        _in_percent(axes, "y")
        _label_days(axes, days, 6 if columns == 1 else 3)

    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)

    return [(legend[name], name) for name in names]


def _draw_line(axes: Axes, figure: PaperFigure, rows: Sequence[Row], at: int) -> Artist:
    """Draw one line with its band, and the bar at its end."""
    days = [_day_number(row["day"]) for row in rows]
    colour = _series_colour(at)
    values = [row["value"] for row in rows]
    (line,) = axes.plot(days, values, color=colour, linewidth=1.3, linestyle=_dashes(dash_of(at)))
    if figure.band:
        low, high = figure.band
        lows = [_number(row[low]) for row in rows]
        highs = [_number(row[high]) for row in rows]
        axes.fill_between(days, lows, highs, color=colour, alpha=0.14, linewidth=0)

    last = rows[-1]
    if "end" in last:
        place = _day_number(last["end"])
        axes.vlines(place, last["end_low"], last["end_high"], color=colour, linewidth=1.6)

    return line


def _draw_period(axes: Axes, period: Mapping[str, str], first: str, last: str) -> None:
    begin = _day_number(max(period["first"], first))
    end = _day_number(min(period["last"], last))
    axes.axvspan(begin, end, color=light("band"), alpha=0.8, linewidth=0, zorder=0)
    axes.annotate(
        period["name"],
        (begin, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(2, -2),
        textcoords="offset points",
        va="top",
        fontsize=_FONT - 1,
        color=light("muted"),
    )


def _forest(body: SubFigure, figure: PaperFigure, frame: pd.DataFrame) -> Legend:
    panels = _panels(frame)
    columns = _columns(figure, frame)
    shares = not figure.settings.get("has_own_axes")
    grid = body.subplots(math.ceil(len(panels) / columns), columns, squeeze=False, sharex=shares)
    colour = light("series1")
    legend: Legend = []
    for axes, panel in zip(grid.flat, panels, strict=False):
        own = [row for row in records_of(frame) if row["panel"] == panel]
        places = list(range(len(own)))[::-1]
        for place, row in zip(places, own, strict=True):
            if row["low"] is not None and row["high"] is not None:
                axes.hlines(place, row["low"], row["high"], color=colour, alpha=0.6, linewidth=2.2)

        values = [_number(row["value"]) for row in own]
        references = [_number(row["reference"]) for row in own]
        (points,) = axes.plot(values, places, "o", color=colour, markersize=5)
        (strokes,) = axes.plot(references, places, "|", color=light("ink"), markersize=11)
        strokes.set_markeredgewidth(1.8)
        legend = [(points, "value and interval"), (strokes, str(frame.attrs["reference"]))]

        axes.set_yticks(places, [_cut(row["row"]) for row in own])
        axes.set_ylim(-0.6, len(own) - 0.4)
        axes.grid(visible=False, axis="y")
        axes.set_title(panel, loc="left")
        axes.set_xlabel(figure.x_title)
        axes.tick_params(labelbottom=True)
        axes.locator_params(axis="x", nbins=5)
        _in_percent(axes, "x")

    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    return legend


def _cut(name: str) -> str:
    return name if len(name) <= 34 else f"{name[:33]}…"


def _scatter(body: SubFigure, figure: PaperFigure, frame: pd.DataFrame) -> Legend:
    axes = body.subplots()
    legend: Legend = []
    for at, row in enumerate(records_of(frame)):
        colour = _series_colour(at)
        (point,) = axes.plot(row["x"], row["value"], "o", color=colour, markersize=7)
        if row["low"] is not None:
            axes.vlines(row["x"], row["low"], row["high"], color=colour, linewidth=1.6)
        legend.append((point, row["line"]))

    axes.set_xlabel(figure.x_title)
    axes.set_ylabel(figure.y_title)
    _in_percent(axes, "y")
    return legend


def _mark_events(axes: Axes, frame: pd.DataFrame, is_numbered: bool) -> None:
    for event in event_marks(frame):
        place = _day_number(event["day"])
        axes.axvline(place, color=light("muted"), linestyle=(0, (3, 3)), linewidth=0.8, zorder=0.5)
        if is_numbered:
            axes.annotate(
                event["mark"],
                (place, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(2, -1),
                textcoords="offset points",
                va="top",
            )


def _gap(body: SubFigure, figure: PaperFigure, frame: pd.DataFrame) -> Legend:
    above, below = body.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    legend: Legend = []
    rows = gap_lines(frame)
    for at, name in enumerate(frame.attrs["names"]):
        own = [row for row in rows if row["line"] == name]
        days = [_day_number(row["day"]) for row in own]
        values = [row["value"] for row in own]
        style = _dashes(GAP_DASHES[at])
        (line,) = above.plot(days, values, color=_series_colour(at), linewidth=1.3, linestyle=style)
        legend.append((line, name))

    gaps = [float(gap) for gap in frame["gap"]]
    colours = [light("series2" if gap < 0 else "series1") for gap in gaps]
    below.bar([_day_number(str(day)) for day in frame["day"]], gaps, 0.7, color=colours)
    below.axhline(0.0, color=light("muted"), linewidth=0.6)
    _mark_events(above, frame, is_numbered=True)
    _mark_events(below, frame, is_numbered=False)
    above.set_ylabel(figure.y_title)
    below.set_ylabel("gap (×)")
    _label_days(below, [str(day) for day in frame["day"]], 6)
    above.grid(visible=False, axis="x")
    return legend


def _votes(body: SubFigure, figure: PaperFigure, frame: pd.DataFrame) -> Legend:
    from matplotlib.patches import Patch  # noqa: PLC0415 - as above

    names = distinct(frame["line"])
    above, below = body.subplots(2, 1, sharex=True, height_ratios=[2.6, 0.3 * len(names) + 0.1])
    prices = price_rows(frame)
    days = [_day_number(row["day"]) for row in prices]
    above.plot(days, [row["hold"] for row in prices], color=light("ink"), linewidth=1.2)
    legend: Legend = []
    for action, token in ACTIONS.items():
        own = frame[frame["action"] == action]
        if len(own):
            places = [_day_number(str(day)) for day in own["day"]]
            lines = [len(names) - 1 - names.index(line) for line in own["line"]]
            bottoms = [line - 0.35 for line in lines]
            below.bar(places, 0.7, 0.86, bottom=bottoms, color=light(token))
            legend.append((Patch(color=light(token)), action))

    for sentiment, token in SENTIMENTS.items():
        rated = [row for row in prices if row["sentiment"] == sentiment]
        if rated:
            (points,) = above.plot(
                [_day_number(row["day"]) for row in rated],
                [row["hold"] for row in rated],
                "o",
                color=light(token),
                markeredgecolor=light("muted"),
                markersize=4.5,
            )
            legend.append((points, sentiment))

    below.set_yticks(range(len(names)), [_cut(name) for name in reversed(names)])
    below.set_ylim(-0.5, len(names) - 0.5)
    below.grid(visible=False)
    above.set_ylabel(figure.y_title)
    _label_days(below, [row["day"] for row in prices], 6)
    above.grid(visible=False, axis="x")
    return legend


_DRAWERS: Mapping[str, Callable[[SubFigure, PaperFigure, pd.DataFrame], Legend]] = {
    "lines": _lines,
    "forest": _forest,
    "scatter": _scatter,
    "gap": _gap,
    "votes": _votes,
}
