"""Figures as Vega-Lite specs, with their data inside.

The rows of each kind of figure:
    lines    panel, line, day, value, low, high, least, most, n: fractions by ISO day
    forest   panel, row, value, low, high, reference, n: fractions
    scatter  line, x, value, low, high, n
    gap      day, first, second, hold, gap, event
    votes    day, line, action, hold, sentiment
Colours are those of a light page; a page in the dark changes them by their design tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import pandas as pd

from ktdeval.cards import clean
from ktdeval_compare.papers.figures.definitions import PaperFigure
from ktdeval_compare.papers.table_writing import notes_of
from ktdeval_pages.colours import SERIES
from ktdeval_pages.marks import SCHEMA, Spec, light, stroke_at

WIDTH = 640  #: of a figure without panels, in pixels
ACTIONS: Mapping[str, str] = {
    "BUY": "series1",
    "HOLD": "band2",
    "SELL": "series2",
    "split": "series4",
    "none": "muted",
}
"""Token of the colour of each decision; `split`: no majority of the seeds; `none`: a failure."""

SENTIMENTS: Mapping[str, str] = {
    "bullish": "good",
    "neutral": "other",
    "bearish": "bad",
    "not rated": "paper",
}
DASHES: Sequence[Sequence[int]] = ((1, 0), (6, 3), (2, 2))
"""Of the first eight lines, of the next eight, and of those after them."""

GAP_DASHES: Sequence[Sequence[int]] = ((1, 0), (1, 0), (6, 3))
"""Of two runs and Buy & Hold, which a run that never trades lies on."""

_SHARE = ".2~%"


def vega_spec(figure: PaperFigure, frame: pd.DataFrame) -> Spec:
    """Return a figure as a whole Vega-Lite spec."""
    drawn = _DRAWERS[figure.kind](figure, frame)
    return {
        "$schema": SCHEMA,
        "title": {
            "text": clean(figure.caption),
            "subtitle": clean(figure.source),
            "anchor": "start",
        },
        "description": ". ".join([figure.caption, *map(clean, notes_of(frame))]),
        "usermeta": {"figure": figure.name, "notes": [clean(note) for note in notes_of(frame)]},
        "config": _config(),
        **drawn,
    }


def _config() -> Spec:
    return {
        "background": light("paper"),
        "view": {"stroke": None},
        "axis": {
            "labelColor": light("muted"),
            "titleColor": light("muted"),
            "gridColor": light("rule"),
            "titleFontWeight": 400,
        },
        "axisX": {"grid": False},
        "range": {"category": [light(token) for token in SERIES]},
        "line": {"strokeWidth": 1.8, "strokeJoin": "round"},
        "header": {"title": None, "labelAnchor": "start", "labelFontWeight": 600},
    }


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as JSON, null where a figure is not defined."""
    rows = []
    for record in frame.to_dict("records"):
        row = {}
        for name, value in record.items():
            is_undefined = value is None or (not isinstance(value, str) and bool(pd.isna(value)))
            row[str(name)] = None if is_undefined else value
        rows.append(row)

    return rows


def distinct(values: Iterable[Any]) -> list[str]:
    """Return texts in the order in which they come first."""
    return [str(value) for value in dict.fromkeys(values)]


# -- parts of specs


def _day_axis(is_shown: bool = True, padding: float = 0) -> Spec:
    axis: Spec | None = None
    if is_shown:
        axis = {"title": None, "format": "%-d %b %y", "tickCount": 5}
        axis |= {"labelOverlap": True, "labelSeparation": 6}
    return {
        "field": "day",
        "type": "temporal",
        "scale": {"type": "utc", "padding": padding},
        "axis": axis,
    }


def _measure(field: str, title: str, form: str = _SHARE) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"zero": False},
        "title": title,
        "axis": {"format": form, "tickCount": 5},
    }


def _legend(columns: int = 2) -> Spec:
    return {
        "title": None,
        "orient": "top",
        "columns": columns,
        "labelLimit": 300,
        "symbolType": "stroke",
        "symbolStrokeWidth": 2.5,
        "symbolOpacity": 1,
    }


def _colour(lines: Sequence[str]) -> Spec:
    return {
        "field": "line",
        "type": "nominal",
        "scale": {"domain": list(lines)},
        "legend": _legend(),
    }


def _dash(lines: Sequence[str]) -> Spec:
    return {
        "field": "line",
        "type": "nominal",
        "scale": {"domain": list(lines), "range": [list(dash_of(at)) for at in range(len(lines))]},
        "legend": _legend(),
    }


def dash_of(at: int) -> Sequence[int]:
    """Return the dashes of a line by its place."""
    return DASHES[min(at // len(SERIES), len(DASHES) - 1)]


def _tips(*pairs: tuple[str, str, str]) -> list[Spec]:
    """Return the fields that a mark tells under the pointer: field, title and format."""
    tips = []
    for field, title, form in pairs:
        tip: Spec = {"field": field, "title": title}
        if form == "day":
            tip |= {"type": "temporal", "format": "%Y-%m-%d"}
        elif form:
            tip |= {"type": "quantitative", "format": form}
        else:
            tip["type"] = "nominal"
        tips.append(tip)

    return tips


def _in_panels(figure: PaperFigure, rows: list[dict[str, Any]], spec: Spec, height: int) -> Spec:
    """Return layers as one picture, or as one for each panel."""
    panels = distinct([row["panel"] for row in rows])
    data = {"values": rows}
    if len(panels) == 1:
        return {"data": data, "width": WIDTH, "height": height, **spec}

    columns = min(figure.max_columns, len(panels))
    facet = {"field": "panel", "type": "nominal", "sort": panels, "header": {"title": None}}
    inner = {"width": WIDTH // columns - 20, "height": height, **spec}
    return {"data": data, "facet": facet, "columns": columns, "spec": inner}


# -- kinds


def _lines(figure: PaperFigure, frame: pd.DataFrame) -> Spec:
    """Lines by day, with bands, bars at their ends, and periods of events behind them."""
    rows = with_ends(figure, records_of(frame))
    lines = distinct(frame["line"])
    colour = _colour(lines)
    layers: list[Spec] = []
    periods = frame.attrs.get("periods", [])
    if periods:
        layers += _period_layers(periods)

    if figure.band:
        low, high = figure.band
        band = {
            "x": _day_axis(),
            "y": _measure(low, figure.y_title),
            "y2": {"field": high},
            "color": colour,
        }
        layers.append({"mark": {"type": "area", "opacity": 0.14}, "encoding": band})

    value = _measure("value", figure.y_title)
    line = {"x": _day_axis(), "y": value, "color": colour, "strokeDash": _dash(lines)}
    layers.append(stroke_at(0.0, value, "y"))
    layers.append({"mark": {"type": "line"}, "encoding": line})
    if figure.ends:
        end = {
            "x": {"field": "end", "type": "temporal", "scale": {"type": "utc"}},
            "y": _measure("end_low", figure.y_title),
            "y2": {"field": "end_high"},
            "color": colour,
        }
        mark = {"type": "rule", "strokeWidth": 2}
        filtered = [{"filter": "isValid(datum.end_low)"}]
        layers.append({"transform": filtered, "mark": mark, "encoding": end})

    shares = [("value", "mean", "+.2%"), *((name, name, "+.2%") for name in figure.band)]
    tips = _tips(("line", "line", ""), ("day", "day", "day"), *shares, ("n", "n", "d"))
    seen = {"x": _day_axis(), "y": value, "color": colour, "tooltip": tips}
    layers.append({"mark": {"type": "point", "opacity": 0, "size": 80}, "encoding": seen})
    height = 320 if frame["panel"].nunique() == 1 else 190
    spec = _in_panels(figure, rows, {"layer": layers}, height)
    if "facet" in spec:
        # windows have other days, and assets other moves
        spec["resolve"] = {"scale": {"x": "independent", "y": "independent"}}
    return spec


def with_ends(figure: PaperFigure, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of lines; where bars stand at their ends, the last row of each line has `end`, a
    day of its own after the last one, `end_low` and `end_high`.
    """
    if not figure.ends:
        return rows

    low, high = figure.ends
    last = {(row["panel"], row["line"]): row for row in rows}
    places: dict[str, int] = {}
    days = [date.fromisoformat(row["day"]) for row in rows]
    step = max(1, (max(days) - min(days)).days // 40)
    for (panel, _), row in last.items():
        if row[low] is None:
            continue

        places[panel] = places.get(panel, 0) + 1
        after = date.fromisoformat(row["day"]) + timedelta(days=step * places[panel])
        row.update(end=after.isoformat(), end_low=row[low], end_high=row[high])

    return rows


def _period_layers(periods: Sequence[Mapping[str, str]]) -> list[Spec]:
    """Return a grey part behind the lines for each period, and its name."""
    data = {"values": [dict(period) for period in periods]}
    first = {"field": "first", "type": "temporal", "scale": {"type": "utc"}}
    shade = {"type": "rect", "color": light("band"), "opacity": 0.8}
    name = {"type": "text", "align": "left", "dx": 3, "fontSize": 10, "color": light("muted")}
    return [
        {"data": data, "mark": shade, "encoding": {"x": first, "x2": {"field": "last"}}},
        {
            "data": data,
            "mark": name,
            "encoding": {"x": first, "y": {"value": 8}, "text": {"field": "name"}},
        },
    ]


def _forest(figure: PaperFigure, frame: pd.DataFrame) -> Spec:
    """Values with intervals, one below the other; a stroke is what they are set against."""
    rows = records_of(frame)
    y = {
        "field": "row",
        "type": "nominal",
        "sort": distinct(frame["row"]),
        "title": None,
        "axis": {"labelLimit": 190, "ticks": False, "domain": False},
    }
    x = _measure("value", figure.x_title, ".1~%") | {"scale": {"zero": True}}
    low = x | {"field": "low"}
    stroke = {"type": "tick", "color": light("ink"), "thickness": 2, "size": 14}
    tips = _tips(
        ("row", "row", ""),
        ("value", "value", ".2%"),
        ("low", "low", ".2%"),
        ("high", "high", ".2%"),
        ("reference", str(frame.attrs["reference"]), ".2%"),
        ("n", "n", "d"),
    )
    bar = {"type": "rule", "strokeWidth": 2.5, "color": light("series1"), "opacity": 0.6}
    point = {"type": "point", "filled": True, "size": 60, "color": light("series1")}
    layers = [
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": bar,
            "encoding": {"x": low, "x2": {"field": "high"}, "y": y},
        },
        {"mark": stroke, "encoding": {"x": x | {"field": "reference"}, "y": y}},
        {"mark": point, "encoding": {"x": x, "y": y, "tooltip": tips}},
    ]
    height = 24 * frame["row"].nunique() + 20
    spec = _in_panels(figure, rows, {"layer": layers}, height)
    if "facet" in spec:
        # a class has a row only in the panels of the metrics that it has
        resolve = {"y": "independent"}
        if figure.settings.get("has_own_axes"):
            resolve["x"] = "independent"
        spec["resolve"] = {"scale": resolve}
    return spec


def _scatter(figure: PaperFigure, frame: pd.DataFrame) -> Spec:
    """Points with an interval upwards and downwards."""
    colour = _colour(distinct(frame["line"]))
    colour["legend"] |= {"symbolType": "circle", "symbolSize": 80}
    x = {
        "field": "x",
        "type": "quantitative",
        "title": figure.x_title,
        "axis": {"format": "~r", "tickCount": 5},
    }
    y = _measure("value", figure.y_title)
    tips = _tips(
        ("line", "line", ""),
        ("x", figure.x_title, ".4f"),
        ("value", "mean", "+.2%"),
        ("low", "low", "+.2%"),
        ("high", "high", "+.2%"),
        ("n", "n", "d"),
    )
    bar = {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}, "color": colour}
    point = {"type": "point", "filled": True, "size": 80, "opacity": 1}
    return {
        "data": {"values": records_of(frame)},
        "width": WIDTH,
        "height": 320,
        "layer": [
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": bar,
            },
            {"mark": point, "encoding": {"x": x, "y": y, "color": colour, "tooltip": tips}},
        ],
    }


def gap_lines(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the three lines of a figure of a gap, a row each day: day, line, value."""
    rows = []
    for field, name in zip(("first", "second", "hold"), frame.attrs["names"], strict=True):
        for day, value in zip(frame["day"], frame[field], strict=True):
            rows.append({"day": str(day), "line": name, "value": float(value)})

    return rows


def event_marks(frame: pd.DataFrame) -> list[dict[str, str]]:
    """Return the days of the marked events and their numbers in the notes."""
    days = frame.loc[frame["event"].notna(), "day"]
    return [{"day": str(day), "mark": str(number)} for number, day in enumerate(days, 1)]


def _gap(figure: PaperFigure, frame: pd.DataFrame) -> Spec:
    """Two lines and Buy & Hold, above bars of the gap; events are numbered strokes."""
    colour = _colour(list(frame.attrs["names"]))
    tips = _tips(("line", "line", ""), ("day", "day", "day"), ("value", "worth", ".4f"))
    room = bar_width(len(frame))
    line = {
        "x": _day_axis(is_shown=False, padding=room),
        "y": _measure("value", figure.y_title, ".2f"),
    }
    dash = _dash(frame.attrs["names"])
    dash["scale"]["range"] = [list(dashes) for dashes in GAP_DASHES]
    line |= {"color": colour, "strokeDash": dash}
    events = {"values": event_marks(frame)}
    stroke = {"type": "rule", "strokeDash": [3, 3], "color": light("muted")}
    number = {"type": "text", "dx": 6, "fontWeight": 600, "color": light("ink")}
    on_day = {"x": _day_axis(is_shown=False, padding=room)}
    above: list[Spec] = [
        {"data": events, "mark": stroke, "encoding": on_day},
        {
            "data": events,
            "mark": number,
            "encoding": {**on_day, "y": {"value": 6}, "text": {"field": "mark"}},
        },
        {"mark": {"type": "line"}, "encoding": line},
        {
            "mark": {"type": "point", "opacity": 0, "size": 80},
            "encoding": {**line, "tooltip": tips},
        },
    ]
    fields = ["day", "gap", "change", "documents", "titles"]
    sides = {
        "condition": {"test": "datum.gap < 0", "value": light("series2")},
        "value": light("series1"),
    }
    gaps = _tips(
        ("day", "day", "day"),
        ("gap", "gap", "+.4f"),
        ("change", "to the next day", "+.4f"),
        ("documents", "documents", "d"),
        ("titles", "titles", ""),
    )
    bars = {
        "x": _day_axis(padding=room),
        "y": _measure("gap", "gap (×)", "+.2f") | {"scale": {"zero": True}},
        "color": sides,
        "tooltip": gaps,
    }
    return {
        "spacing": 8,
        "resolve": {"scale": {"x": "shared"}},
        "vconcat": [
            {
                "data": {"values": gap_lines(frame)},
                "width": WIDTH,
                "height": 220,
                "layer": above,
            },
            {
                "data": {"values": records_of(frame[fields])},
                "width": WIDTH,
                "height": 110,
                "layer": [
                    {"data": events, "mark": stroke, "encoding": {"x": _day_axis(padding=room)}},
                    {"mark": {"type": "bar", "size": room}, "encoding": bars},
                ],
            },
        ],
    }


def bar_width(days: int) -> float:
    """Return the width of a bar of one of so many days, in pixels."""
    return max(2.0, round(0.7 * WIDTH / days, 1))


def price_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the price's line of a figure of votes, a row each day: day, hold, sentiment."""
    rows = []
    for row in frame.drop_duplicates("day").to_dict("records"):
        sentiment = row["sentiment"] or "not rated"
        rows.append({"day": str(row["day"]), "hold": float(row["hold"]), "sentiment": sentiment})

    return rows


def _votes(figure: PaperFigure, frame: pd.DataFrame) -> Spec:
    """The price, whose days have the colour of their sentiment, above a square a day and run."""
    room = bar_width(frame["day"].nunique())
    x = _day_axis(is_shown=False, padding=room)
    y = _measure("hold", figure.y_title, ".2f")
    prices = price_rows(frame)
    used = distinct([row["sentiment"] for row in prices])
    sentiments = [name for name in SENTIMENTS if name in used]
    feeling = {
        "field": "sentiment",
        "type": "nominal",
        "scale": {"domain": sentiments, "range": [light(SENTIMENTS[one]) for one in sentiments]},
        "legend": {"title": "news", "orient": "top", "symbolType": "circle", "symbolSize": 60},
    }
    point = {"type": "point", "filled": True, "size": 46, "opacity": 1, "stroke": light("muted")}
    point |= {"strokeWidth": 0.8}
    tips = _tips(("day", "day", "day"), ("hold", "worth", ".4f"), ("sentiment", "news", ""))
    actions = [name for name in ACTIONS if name in set(frame["action"])]
    decided = {
        "field": "action",
        "type": "nominal",
        "scale": {"domain": actions, "range": [light(ACTIONS[one]) for one in actions]},
        "legend": {"title": "decision", "orient": "top", "symbolType": "square"},
    }
    square = {"type": "rect", "width": room}
    cells = {
        "x": _day_axis(padding=room),
        "y": {
            "field": "line",
            "type": "nominal",
            "sort": distinct(frame["line"]),
            "title": None,
            "axis": {"labelLimit": 190, "ticks": False, "domain": False},
            "scale": {"paddingInner": 0.25},
        },
        "color": decided,
        "tooltip": _tips(("line", "run", ""), ("day", "day", "day"), ("action", "decision", "")),
    }
    fields = ["day", "line", "action", "n"]
    return {
        "spacing": 8,
        "resolve": {"scale": {"x": "shared", "color": "independent"}},
        "vconcat": [
            {
                "data": {"values": prices},
                "width": WIDTH,
                "height": 200,
                "layer": [
                    {
                        "mark": {"type": "line", "color": light("ink")},
                        "encoding": {"x": x, "y": y},
                    },
                    {
                        "mark": point,
                        "encoding": {"x": x, "y": y, "color": feeling, "tooltip": tips},
                    },
                ],
            },
            {
                "data": {"values": records_of(frame[fields])},
                "width": WIDTH,
                "height": 26 * frame["line"].nunique(),
                "mark": square,
                "encoding": cells,
            },
        ],
    }


_DRAWERS: Mapping[str, Callable[[PaperFigure, pd.DataFrame], Spec]] = {
    "lines": _lines,
    "forest": _forest,
    "scatter": _scatter,
    "gap": _gap,
    "votes": _votes,
}
