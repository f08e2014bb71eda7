"""Figures as Vega-Lite specs with inline data, from the templates in `vega_specs.yaml`.

Fields of the rows, by kind of figure:
    lines    panel, line, day, value, low, high, least, most, n: fractions by ISO day
    forest   panel, row, value, low, high, reference, n: fractions
    scatter  line, x, value, low, high, n
    gap      day, first, second, hold, gap, event
    votes    day, line, action, hold, sentiment
Colours are those for a light page. A dark page replaces each colour by using its design token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from ktdeval.cards import clean
from ktdeval.values import load_yaml
from ktdeval_compare.papers.figures.definitions import PaperFigure
from ktdeval_compare.papers.table_writing import notes_of
from ktdeval_pages.colours import SERIES, TOKENS
from ktdeval_pages.day_labels import dated_positions
from ktdeval_pages.marks import SCHEMA, Spec, light

WIDTH = 640  #: width of a figure without panels, in pixels
DASHES: Sequence[Sequence[int]] = ((1, 0), (6, 3), (2, 2))
"""Dash patterns of the first eight lines, of the next eight, and of all others."""

GAP_DASHES: Sequence[Sequence[int]] = ((1, 0), (1, 0), (6, 3))
"""Dash patterns of two runs and of Buy & Hold. A run that never trades coincides with Buy &
Hold.
"""

_CONDITION = "only_with"


def vega_spec(figure: PaperFigure, frame: pd.DataFrame) -> Spec:
    """Return the complete Vega-Lite spec for a figure."""
    values = _common_values(figure) | _VALUES[figure.kind](figure, frame)
    if figure.kind in _PANEL_HEIGHTS:
        drawn = _in_panels(figure, frame, values)
    else:
        drawn = fill_spec(_specs()[figure.kind], values)

    return {
        "$schema": SCHEMA,
        "title": {
            "text": clean(figure.caption),
            "subtitle": clean(figure.source),
            "anchor": "start",
        },
        "description": ". ".join([figure.caption, *map(clean, notes_of(frame))]),
        "usermeta": {"figure": figure.name, "notes": [clean(note) for note in notes_of(frame)]},
        "config": fill_spec(_specs()["config"], values),
        **drawn,
    }


@cache
def _specs() -> Mapping[str, Any]:
    return load_yaml(Path(__file__).with_name("vega_specs.yaml"))


def fill_spec(part: Any, values: Mapping[str, Any]) -> Any:
    """Return part of a spec, with the names in `values` replaced by their values. A list item is
    omitted if the value that its `only_with` names is empty.
    """
    if isinstance(part, dict):
        return {name: fill_spec(of, values) for name, of in part.items() if name != _CONDITION}
    if isinstance(part, list):
        return [fill_spec(item, values) for item in part if _is_shown(item, values)]
    if isinstance(part, str):
        return values.get(part, part)
    return part


def _is_shown(item: Any, values: Mapping[str, Any]) -> bool:
    return not isinstance(item, dict) or bool(values[item.get(_CONDITION, "=width")])


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as JSON objects, with null for undefined figures."""
    rows = []
    for record in frame.to_dict("records"):
        row = {}
        for name, value in record.items():
            is_undefined = value is None or (not isinstance(value, str) and bool(pd.isna(value)))
            row[str(name)] = None if is_undefined else value
        rows.append(row)

    return rows


def distinct(values: Iterable[Any]) -> list[str]:
    """Return strings in order of first occurrence, without duplicates."""
    return [str(value) for value in dict.fromkeys(values)]


def dash_of(at: int) -> Sequence[int]:
    """Return the dash pattern for the line with this index."""
    return DASHES[min(at // len(SERIES), len(DASHES) - 1)]


# -- panels


#: height of one panel, for each kind of figure that has panels
_PANEL_HEIGHTS: Mapping[str, Callable[[pd.DataFrame], int]] = {
    "lines": lambda frame: 320 if frame["panel"].nunique() == 1 else 190,
    "forest": lambda frame: 24 * frame["row"].nunique() + 20,
}


def _in_panels(figure: PaperFigure, frame: pd.DataFrame, values: Mapping[str, Any]) -> Spec:
    """Return a figure with one panel, or with several panels side by side."""
    panels = distinct(frame["panel"])
    rows = values["=records"]
    template = _specs()[figure.kind]
    height = _PANEL_HEIGHTS[figure.kind](frame)
    if len(panels) == 1:
        drawn = fill_spec(template, values)
        return {"data": {"values": rows}, "width": WIDTH, "height": height, **drawn}

    columns = min(figure.max_columns, len(panels))
    size = {"width": WIDTH // columns - 20, "height": height}
    if figure.kind == "lines":
        # windows have different days, and assets have different price ranges
        pictures = [_picture_of_days(panel, values, template, size) for panel in panels]
        return {"concat": pictures, "columns": columns}

    facet = {"field": "panel", "type": "nominal", "sort": panels, "header": {"title": None}}
    # a class has a row only in the panels of the metrics that are defined for the class
    resolve = {"y": "independent"}
    if figure.settings.get("has_own_axes"):
        resolve["x"] = "independent"

    return {
        "data": {"values": rows},
        "facet": facet,
        "columns": columns,
        "spec": {**size, **fill_spec(template, values)},
        "resolve": {"scale": resolve},
    }


def _picture_of_days(
    panel: str, values: Mapping[str, Any], template: Spec, size: Mapping[str, int]
) -> Spec:
    """Return the spec of one panel with lines, for a figure with several panels."""
    rows = [row for row in values["=records"] if row["panel"] == panel]
    own = {**values, "=days": named_days(row["day"] for row in rows)}
    title = {"text": panel, "anchor": "start", "color": light("ink")}
    return {
        "title": {**title, "fontSize": 11, "fontWeight": 600},
        "data": {"values": rows},
        **size,
        **fill_spec(template, own),
    }


def named_days(days: Iterable[str]) -> list[str]:
    """Return the days to label on the time axis: the first day, the last day, and some trading days
    between them. A day without trading is never labelled.
    """
    shown = sorted(set(days))
    return [shown[at] for at in dated_positions(len(shown))]


# -- values


def _common_values(figure: PaperFigure) -> dict[str, Any]:
    colours = {f"${name}": colour.light for name, colour in TOKENS.items()}
    return {
        **colours,
        "=series": [light(token) for token in SERIES],
        "=width": WIDTH,
        "=x_title": figure.x_title,
        "=y_title": figure.y_title,
        "=bar": 0,
    }


def _line_values(figure: PaperFigure, frame: pd.DataFrame) -> dict[str, Any]:
    lines = distinct(frame["line"])
    low, high = figure.band or ("", "")
    return {
        "=days": named_days(frame["day"]),
        "=records": with_ends(figure, records_of(frame)),
        "=lines": lines,
        "=dashes": [list(dash_of(at)) for at in range(len(lines))],
        "=periods": [dict(period) for period in frame.attrs.get("periods", [])],
        "=band_low": low,
        "=band_high": high,
        "=ends": figure.ends,
    }


def with_ends(figure: PaperFigure, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows for lines. If a figure has bars at the ends of lines, the last row of each
    line also has the ends of the bar (`end_low` and `end_high`) and the date at which to draw it
    (`end`, after the last day).
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


def _forest_values(_figure: PaperFigure, frame: pd.DataFrame) -> dict[str, Any]:
    return {
        "=records": records_of(frame),
        "=rows": distinct(frame["row"]),
        "=reference": str(frame.attrs["reference"]),
    }


def _scatter_values(_figure: PaperFigure, frame: pd.DataFrame) -> dict[str, Any]:
    return {"=records": records_of(frame), "=lines": distinct(frame["line"])}


def _gap_values(_figure: PaperFigure, frame: pd.DataFrame) -> dict[str, Any]:
    names = list(frame.attrs["names"])
    worths = frame.melt("day", ["first", "second", "hold"], "line")
    worths["line"] = worths["line"].map(dict(zip(("first", "second", "hold"), names, strict=True)))
    events = frame.loc[frame["event"].notna(), ["day"]].reset_index(drop=True)
    events["mark"] = [str(number) for number in range(1, len(events) + 1)]
    return {
        "=days": named_days(frame["day"]),
        "=bar": _bar_width(len(frame)),
        "=lines": names,
        "=dashes": [list(dashes) for dashes in GAP_DASHES],
        "=worths": records_of(worths),
        "=events": records_of(events),
        "=gaps": records_of(frame[["day", "gap", "change", "documents", "titles"]]),
    }


def _bar_width(days: int) -> float:
    """Return the width of a bar in pixels, if there are `days` bars."""
    return max(2.0, round(0.7 * WIDTH / days, 1))


def _vote_values(_figure: PaperFigure, frame: pd.DataFrame) -> dict[str, Any]:
    prices = frame.drop_duplicates("day")[["day", "hold", "sentiment"]]
    prices = prices.fillna({"sentiment": "not rated"})
    lines = distinct(frame["line"])
    values = {
        "=days": named_days(frame["day"]),
        "=bar": _bar_width(len(prices)),
        "=lines": lines,
        "=height": 26 * len(lines),
        "=prices": records_of(prices),
        "=decisions": records_of(frame[["day", "line", "action", "n"]]),
    }
    for kind, used in (("action", frame["action"]), ("sentiment", prices["sentiment"])):
        tokens: Mapping[str, str] = _specs()[f"{kind}s"]
        shown = [name for name in tokens if name in set(used)]
        values[f"={kind}s"] = shown
        values[f"={kind}_colours"] = [light(tokens[name]) for name in shown]

    return values


_VALUES: Mapping[str, Callable[[PaperFigure, pd.DataFrame], dict[str, Any]]] = {
    "lines": _line_values,
    "forest": _forest_values,
    "scatter": _scatter_values,
    "gap": _gap_values,
    "votes": _vote_values,
}
