"""Building blocks of all figures, as Vega-Lite specs: layers, axes, legends and settings.

Colours are those of a light page. They use the hex codes of the design tokens, so that a dark page
can replace each of them with the token's dark colour.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ktdeval.values import load_yaml
from ktdeval_pages.colours import SERIES, TOKENS
from ktdeval_pages.day_labels import dated_positions

Spec = dict[str, Any]
Rows = list[dict[str, Any]]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
SOLID = (1, 0)  #: dash pattern of a solid line


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A name in a legend, and the appearance of its marks."""

    name: str
    token: str  # name of the colour token
    dash: Sequence[int] = SOLID  # lengths of the line's strokes and gaps, in pixels


def light(token: str) -> str:
    """Return a design token's colour on a light page."""
    return TOKENS[token].light


def whole_spec(drawn: Spec, description: str, **fields: Any) -> Spec:
    """Return a picture as a separate spec. `description` is the text alternative, and `fields` are
    additional fields of the spec, such as `title`.
    """
    head = {"$schema": SCHEMA, "description": description, "config": settings()}
    return {**head, **fields, **drawn}


@cache
def settings() -> Spec:
    """Return the appearance of axes, legends and titles for figures in files."""
    colours = {name: colour.light for name, colour in TOKENS.items()}
    look: Spec = _colour_tokens(look_of("file"), colours)
    return look


@cache
def look_of(place: Literal["file", "page"]) -> Spec:
    """Return the shared appearance of figures, adapted to a file or a page. Colours are given as
    tokens such as `$ink`.
    """
    groups = load_yaml(Path(__file__).with_name("figure_settings.yaml"))
    look: Spec = dict(groups["shared"])
    for part, own in groups[place].items():
        look[part] = {**look[part], **own} if part in look else own
    return look


def _colour_tokens(part: Any, colours: Mapping[str, str]) -> Any:
    """Return settings with the name of each token replaced by its colour."""
    if isinstance(part, dict):
        return {name: _colour_tokens(value, colours) for name, value in part.items()}
    if isinstance(part, list):
        return [_colour_tokens(value, colours) for value in part]
    if isinstance(part, str) and part.startswith("$"):
        return colours[part[1:]]
    return part


def series_of(names: Iterable[str]) -> list[LegendEntry]:
    """Return legend entries for names, with the series colours in order."""
    return [LegendEntry(name, token) for name, token in zip(names, SERIES, strict=False)]


def finite(value: float | None, scale: float = 1.0) -> float | None:
    """Return a number in an axis's unit; None if it is undefined, so that nothing is drawn."""
    if value is None or not math.isfinite(value):
        return None
    return float(scale * value)


def path_rows(xs: Iterable[float], ys: Iterable[float], **fields: Any) -> Rows:
    """Return the points of one line: rows with `x`, `y` and the same `fields` in each."""
    return [{"x": float(x), "y": finite(y), **fields} for x, y in zip(xs, ys, strict=True)]


def band_rows(
    xs: Iterable[float], lows: Iterable[float], highs: Iterable[float], **fields: Any
) -> Rows:
    """Return the points of one area: rows with `x`, `low`, `high` and the same `fields` in each."""
    rows = []
    for x, low, high in zip(xs, lows, highs, strict=True):
        rows.append({"x": float(x), "low": finite(low), "high": finite(high), **fields})
    return rows


def below_each_other(parts: list[Spec]) -> Spec:
    """Stack pictures vertically into one, each with its own legend."""
    channels = ("stroke", "strokeDash", "fill")
    return {"vconcat": parts, "resolve": {"scale": dict.fromkeys(channels, "independent")}}


# -- layers


def layer(kind: str, encoding: Spec, rows: Rows | None = None, **style: Any) -> Spec:
    """Return a layer with marks of one kind. Without `rows`, it uses the rows of the enclosing
    picture.
    """
    drawn: Spec = {"mark": {"type": kind, **style}, "encoding": encoding}
    if rows is not None:
        drawn["data"] = {"values": rows}
    return drawn


def lines(rows: Rows, x: Spec, y: Spec, series: Sequence[LegendEntry], width: float = 1.6) -> Spec:
    """Return lines with a legend. Rows with the same `name`, which is the name of a series, form
    one line, or one line for each `part`. `width` is the line width in pixels.
    """
    encoding = {
        "x": x,
        "y": y,
        "stroke": colour_series(series),
        "strokeDash": dash_series(series),
        "detail": {"field": "part"},
    }
    return layer("line", encoding, rows, strokeWidth=width)


def areas(rows: Rows, x: Spec, y: Spec, series: Sequence[LegendEntry], **style: Any) -> Spec:
    """Return areas between `low` and `high` with a legend. Rows with the same `name` form one area,
    or one area for each `part`.
    """
    encoding = {
        **interval(y, "y"),
        "x": x,
        "fill": colour_series(series, "square"),
        "detail": {"field": "part"},
    }
    return layer("area", encoding, rows, **style)


def curves(rows: Rows, x: Spec, y: Spec, series: Sequence[LegendEntry]) -> list[Spec]:
    """Return lines with points, over areas that show their intervals. Rows have `x`, `y`, `low`,
    `high` and `name`; `low` and `high` are None without an interval.
    """
    fill = colour_series(series)
    band = layer("area", {**interval(y, "y"), "x": x, "fill": fill}, rows, opacity=0.12)
    band["transform"] = [{"filter": "isValid(datum.low) && isValid(datum.high)"}]
    points = layer("point", {"x": x, "y": y, "fill": fill}, rows, size=18, strokeWidth=0)
    return [band, lines(rows, x, y, series), points]


def interval(axis: Spec, channel: str) -> Spec:
    """Return the channels of marks from `low` to `high` along an axis, `x` or `y`."""
    return {channel: {**axis, "field": "low"}, f"{channel}2": {"field": "high"}}


def stroke_at(value: float, axis: Spec, channel: str, role: str = "muted") -> Spec:
    """Return a stroke across the whole picture at a value of an axis, `x` or `y`. `role` is the
    design token for its colour.
    """
    place = {**axis, "datum": value}
    del place["field"]
    return layer("rule", {channel: place}, [{}], color=light(role), strokeWidth=0.7)


# -- channels


def measure(field: str, title: str, scale: Spec | None = None, **axis: Any) -> Spec:
    """Return an axis of numbers, which need not include zero. `axis` contains fields of a Vega-Lite
    axis.
    """
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"zero": False, **(scale or {})},
        "title": title or None,
        "axis": {"tickCount": 5, **axis},
    }


def places(first: float, last: float) -> Spec:
    """Return the scale of an axis that ends at these values."""
    return {"domain": [first, last], "nice": False, "zero": False}


def ticks(labels: Mapping[int, str] | Mapping[float, str]) -> Spec:
    """Return fields of an axis with labels only at these values."""
    values = json.dumps(list(labels))
    words = json.dumps(list(labels.values()))
    label = f"{words}[indexof({values}, datum.value)]"
    # a logarithmic axis omits values beyond its count
    count = 10 * len(labels)
    return {"values": list(labels), "labelExpr": label, "labelOverlap": False, "tickCount": count}


def day_ticks(days: Sequence[object]) -> Spec:
    """Return fields for an axis of day numbers, on which weekends take no space. A few days are
    labelled, and the outer labels stay inside the picture.
    """
    labels = {position: str(days[position]) for position in dated_positions(len(days))}
    return {**ticks(labels), "labelFlush": 30}


def legend(columns: int = 3, symbol: str = "stroke") -> Spec:
    """Return a legend above the picture."""
    return {
        "title": None,
        "orient": "top",
        "columns": columns,
        "labelLimit": 300,
        "symbolType": symbol,
        "symbolStrokeWidth": 2.5,
        "symbolOpacity": 1,
    }


def colour_series(series: Sequence[LegendEntry], symbol: str = "stroke") -> Spec:
    """Return the colours of series, keyed by name."""
    names = [one.name for one in series]
    return {
        "field": "name",
        "type": "nominal",
        "scale": {"domain": names, "range": [light(one.token) for one in series]},
        "legend": legend(symbol=symbol),
    }


def dash_series(series: Sequence[LegendEntry]) -> Spec:
    """Return the dash patterns of series, keyed by name, for the same legend as their colours."""
    names = [one.name for one in series]
    return {
        "field": "name",
        "type": "nominal",
        "scale": {"domain": names, "range": [list(one.dash) for one in series]},
        "legend": legend(),
    }
