"""Pictures of a board: declared against executed, live against backfilled, gains at rising costs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ktdeval_pages.colours import SERIES, TOKENS
from ktdeval_pages.marks import (
    Rows,
    Spec,
    interval,
    layer,
    light,
    lines,
    measure,
    series_of,
    stroke_at,
    whole_spec,
)
from ktdeval_pages.rendering import svg_of
from ktdeval_published.report import AccountTrack, BoardReport, EntrantReport

_WIDTH = 400
_ROW = 22  #: height of an entrant, in pixels
_USED = ("paper", "ink", "muted", "rule", "band", "band2", "other", *SERIES)
_VARIABLES = {TOKENS[name].light: f"var(--{name})" for name in _USED}


@dataclass(frozen=True)
class Picture:
    """Picture with its texts."""

    title: str
    note: str
    svg: Markup


def pictures_of(report: BoardReport) -> list[Picture]:
    """Return the pictures of a board, without those that its form can't have."""
    found = [_declared_picture(report), _live_picture(report), _cost_picture(report)]
    return [one for one in found if one is not None]


def _draw(title: str, note: str, text: str, drawn: Spec) -> Picture:
    head, _, inner = svg_of(whole_spec(drawn, f"{title}. {text}")).partition(">")
    inner = re.sub(r"<[^>]+>", _adapt_tag, inner)
    return Picture(title, note, Markup(f"{head}>{inner}"))  # noqa: S704 - vl-convert's


def _adapt_tag(match: re.Match[str]) -> str:
    """Return a tag with the colours and font of the page."""
    tag = re.sub(r' font-family="[^"]*"', "", match[0])
    return re.sub(r"#[0-9a-f]{6}\b", lambda code: _VARIABLES.get(code[0], code[0]), tag)


def _picture(layers: list[Spec], rows: int) -> Spec:
    fit = {"type": "fit-x", "contains": "padding"}
    height = max(60, _ROW * rows)
    return {"layer": layers, "width": _WIDTH, "height": height, "autosize": fit}


def _names(entrants: Sequence[EntrantReport]) -> Spec:
    """Return the axis of entrants, in the order of the report."""
    return {
        "field": "entrant",
        "type": "nominal",
        "title": None,
        "sort": [one.name for one in entrants],
        "axis": {"labelLimit": 190, "ticks": False, "domain": False},
    }


def _result(track: AccountTrack) -> float:
    """Return a result in the unit of the picture: per cent, or currency without a capital."""
    if track.total_return is not None:
        return 100 * track.total_return
    return track.gain or 0.0


def _unit(report: BoardReport, entrants: Sequence[EntrantReport]) -> str:
    has_return = any(
        track.total_return is not None
        for one in entrants
        for track in (one.declared, one.executed)
        if track is not None
    )
    return "return, %" if has_return else f"gain, {report.currency}"


def _declared_picture(report: BoardReport) -> Picture | None:
    entrants = [one for one in report.entrants if one.declared and one.executed]
    if not entrants:
        return None
    rows: Rows = []
    spans: Rows = []
    for one in entrants:
        assert one.declared is not None
        assert one.executed is not None
        declared, executed = _result(one.declared), _result(one.executed)
        rows.append({"entrant": one.name, "value": declared, "name": "declared"})
        rows.append({"entrant": one.name, "value": executed, "name": "executed"})
        spans.append({"entrant": one.name, "low": declared, "high": executed})

    x = measure("value", _unit(report, entrants), grid=True)
    y = _names(entrants)
    series = series_of(["declared", "executed"])
    colour = _colours(["declared", "executed"], [light(one.token) for one in series])
    drawn = [
        stroke_at(0.0, x, "x"),
        layer("rule", {**interval(x, "x"), "y": y}, spans, color=light("muted"), strokeWidth=1.5),
        layer("point", {"x": x, "y": y, "color": colour}, rows, filled=True, opacity=1, size=55),
    ]
    text = "; ".join(
        f"{one.name} {_result(one.declared):.2f} declared, {_result(one.executed):.2f} executed"
        for one in entrants
        if one.declared and one.executed
    )
    note = "A line joins what an entrant declares with what its orders yield under the rules."
    return _draw("Declared against executed", note, text, _picture(drawn, len(entrants)))


def _colours(names: list[str], colours: list[str]) -> Spec:
    return {
        "field": "name",
        "type": "nominal",
        "scale": {"domain": names, "range": colours},
        "legend": {"orient": "top", "title": None, "symbolType": "circle"},
    }


def _live_picture(report: BoardReport) -> Picture | None:
    entrants = [
        one
        for one in report.entrants
        if one.live is not None
        if one.live.sharpe_before.value is not None or one.live.sharpe_after.value is not None
    ]
    if not entrants:
        return None
    rows: Rows = []
    names = ["published before", "published after"]
    for one in entrants:
        assert one.live is not None
        for name, estimate in zip(
            names, (one.live.sharpe_before, one.live.sharpe_after), strict=True
        ):
            row = {"entrant": one.name, "value": estimate.value, "name": name}
            if estimate.low is not None:
                row |= {"low": estimate.low, "high": estimate.high}
            rows.append(row)

    x = measure("value", "annual Sharpe ratio, with its 95 % interval", grid=True)
    y = _names(entrants)
    offset = {"yOffset": {"field": "name", "type": "nominal", "sort": names}}
    colour = _colours(names, [light(one.token) for one in series_of(names)])
    place = {"y": y, **offset, "color": colour}
    bars = [row for row in rows if "low" in row]
    points = [row for row in rows if row["value"] is not None]
    drawn = [
        stroke_at(0.0, x, "x"),
        layer("rule", {**interval(x, "x"), **place}, bars, strokeWidth=2),
        layer("point", {"x": x, **place}, points, filled=True, opacity=1, size=40),
    ]
    text = "; ".join(f"{row['entrant']}, {row['name']}: {row['value']:.2f}" for row in points)
    note = "Days by the moment of publication; an interval that holds zero is no evidence."
    return _draw("Live against backfilled", note, text, _picture(drawn, 2 * len(entrants)))


def _cost_picture(report: BoardReport) -> Picture | None:
    entrants = [one for one in report.entrants if one.costs and not one.problem]
    if not entrants:
        return None
    rows: Rows = []
    for one in entrants:
        for step in one.costs[0].steps:
            rows.append({"x": step.bps, "y": step.gain, "name": "one entrant", "part": one.name})

    series = series_of(["one entrant"])
    x = {**measure("x", "cost a side, basis points"), "field": "x"}
    y = {**measure("y", f"gain, {report.currency}", grid=True), "field": "y"}
    drawn = [stroke_at(0.0, y, "y"), lines(rows, x, y, series, 1.2)]
    before = sum(one.costs[0].steps[0].gain > 0 for one in entrants)
    last = entrants[0].costs[0].steps[-1].bps
    after = sum(one.costs[0].steps[-1].gain > 0 for one in entrants)
    text = f"{before} of {len(entrants)} gain before costs, {after} at {last:g} basis points a side"
    note = f"{text} ({entrants[0].costs[0].name})."
    return _draw("Gains at rising costs", note, text, _picture(drawn, 10))
