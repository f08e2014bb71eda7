"""Plots of an episode, its orders and its attribution, and of figures with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ktdeval.cards import count
from ktdeval.stats import underwater
from ktdeval.trading import Ledger
from ktdeval_pages.colours import SERIES
from ktdeval_pages.marks import (
    LegendEntry,
    Rows,
    Spec,
    areas,
    band_rows,
    colour_series,
    day_ticks,
    finite,
    interval,
    layer,
    light,
    lines,
    measure,
    path_rows,
    places,
    stroke_at,
)
from ktdeval_report.canvas import Plot, picture
from ktdeval_report.card_figures import CardStudy, ReliabilityBin, WindowStudy
from ktdeval_report.value_formatting import clean, figure as number, percent

if TYPE_CHECKING:
    from ktdeval.stats import TraderEnvelope

Values = npt.NDArray[np.float64]

_NAMES = 6
"""Number of assets with a separate area in the plot of weights; the others share one area."""

_PART_ROLES = {
    "common": "series1",
    "style": "series2",
    "industry": "series5",
    "selection": "series3",
    "trading": "series4",
}

_MANY_DAYS = 150
"""With more days, the step of a single day is invisible, and areas are interpolated between points,
which makes smaller pages.
"""

_HEIGHT = 175  #: pixels between the axes of a plot with one part
_INNER_WIDTH = 345  #: pixels between the axes of a plot with several parts
_BENCHMARK = LegendEntry("benchmark", "series2", (5, 2))


def x_positions(days: int) -> tuple[Values, str]:
    """Return the positions of days on the axis, and how areas are interpolated between them.

    If there are only a few days, they are drawn as steps, since a single day would have no width as
    a line.
    """
    if days > _MANY_DAYS:
        return np.arange(days, dtype=np.float64), "linear"
    return np.arange(days + 1, dtype=np.float64) - 0.5, "step-after"


def held_to(values: Values, positions: Values) -> Values:
    """Return one value for each position along the last axis. The last value is repeated if the
    steps need an end point.
    """
    return np.concatenate([values, values[..., -1:]], axis=-1)[..., : len(positions)]


def _day_axis(days: Sequence[object], margin: float = 0.0) -> Spec:
    """Return the axis of day numbers. `margin` is the space at both ends, in days."""
    return measure("x", "", places(-margin, len(days) - 1 + margin), **day_ticks(days))


def _remove_labels(axis: Spec) -> Spec:
    """Return an axis without labels, for a part above another part with the same axis."""
    return {**axis, "axis": {**axis["axis"], "labels": False, "title": None}}


def _stack_areas(positions: Values, parts: Values, names: Sequence[str], side: str = "") -> Rows:
    """Return the parts as stacked areas. `parts` has shape [names, days]."""
    tops = np.cumsum(parts, axis=0)
    rows: Rows = []
    for name, top, part in zip(names, tops, parts, strict=True):
        low = held_to(top - part, positions)
        rows += band_rows(positions, low, held_to(top, positions), name=name, part=side)

    return rows


def _growth(levels: npt.ArrayLike) -> Values:
    values = np.asarray(levels, dtype=np.float64)
    grown: Values = 100.0 * (values / values[0] - 1.0)
    return grown


def _drawdown(levels: npt.ArrayLike) -> Values:
    return 100.0 * underwater(np.asarray(levels, dtype=np.float64))


def equity_plot(window: WindowStudy, benchmark_name: str) -> Plot:
    """Plot the NAV against the benchmark and against random traders with the same activity."""
    ledger = window.ledger
    envelope = window.envelope
    benchmark = window.benchmark
    own = float(ledger.nav[-1] / ledger.nav[0] - 1.0)
    text = f"The agent ends at {percent(own)}"
    if benchmark is not None:
        text += f", {benchmark_name} at {percent(float(benchmark[-1] / benchmark[0] - 1.0))}"

    note = window.no_envelope and f"No random traders: {window.no_envelope}."
    if envelope is not None:
        text += _envelope_text(envelope)
        note = _activity_text(envelope)
        if envelope.reason:
            note += f" No rank among them: {envelope.reason}."

    return Plot(
        "equity",
        f"{window.label}: equity, benchmark and random traders",
        f"{text}.",
        picture(_equity_layers(window), _HEIGHT),
        note,
    )


def _equity_layers(window: WindowStudy) -> list[Spec]:
    ledger = window.ledger
    x = _day_axis([ledger.base_day, *ledger.days])
    y = measure("y", "return since the start, %")
    own: Rows = []
    if window.benchmark is not None:
        own += _day_rows(_growth(window.benchmark), name=_BENCHMARK.name)
    agent = LegendEntry(f"agent, seed {window.seed}", "series1")
    own += _day_rows(_growth(ledger.nav), name=agent.name)

    median = LegendEntry("random, median", "muted", (1, 2))
    others = LegendEntry("other seeds", "series1", (4, 1))
    thin: Rows = []
    for index, other in enumerate(window.others):
        thin += _day_rows(_growth(other.nav), name=others.name, part=index)

    layers = []
    if window.envelope is not None:
        layers.append(_bands(window.envelope, x, y))
        levels = window.envelope.bands
        if len(levels) % 2:
            thin += _day_rows(_growth(levels[len(levels) // 2]), name=median.name)

    drawn = {row["name"] for row in thin + own}
    series = [one for one in (median, others, _BENCHMARK, agent) if one.name in drawn]
    layers += [stroke_at(0.0, y, "y"), lines(thin, x, y, series, 0.8), lines(own, x, y, series)]
    return layers


def _day_rows(values: Values, **fields: object) -> Rows:
    """Return the points of a line with one value per day."""
    return path_rows(range(len(values)), values, **fields)


def _bands(envelope: TraderEnvelope, x: Spec, y: Spec) -> Spec:
    """Return the areas between quantiles of the random traders, widest first."""
    bands = [_growth(band) for band in envelope.bands]
    series = []
    rows: Rows = []
    for index, role in zip(range(len(bands) // 2), ("band", "band2"), strict=False):
        low = envelope.levels[index]
        high = envelope.levels[-1 - index]
        name = f"random, {100 * low:g}–{100 * high:g} %"
        series.append(LegendEntry(name, role))
        rows += band_rows(range(len(bands[index])), bands[index], bands[-1 - index], name=name)

    return areas(rows, x, y, series)


def _envelope_text(envelope: TraderEnvelope) -> str:
    """Return a sentence on the final values of the random traders and the fraction that the agent
    beats.
    """
    lowest = f"{100 * envelope.levels[0]:g} %"
    highest = f"{100 * envelope.levels[-1]:g} %"
    least = _end_of(envelope.bands[0])
    most = _end_of(envelope.bands[-1])
    text = (
        f", {lowest} to {highest} of {len(envelope.returns)} random traders end between {least} and"
        f" {most}"
    )
    if envelope.rank is not None:
        text += f"; the agent beats {100 * envelope.rank:.0f} % of them"

    return text


def _end_of(band: Values) -> str:
    """Return the final value of a line, as a return since its start."""
    return percent(float(band[-1] / band[0] - 1.0))


def _activity_text(envelope: TraderEnvelope) -> str:
    """Return a sentence that compares the random traders' activity with the agent's. The two should
    match.
    """
    own = envelope.agent
    random = envelope.random
    cash = f"{percent(random.cash_ratio, signed=False)} ({percent(own.cash_ratio, signed=False)})"

    return (
        f"Random traders (the agent): turnover {random.turnover:.1f} ({own.turnover:.1f}) a year, "
        f"{random.names:.1f} ({own.names:.1f}) names, cash {cash}."
    )


def drawdown_plot(window: WindowStudy, benchmark_name: str) -> Plot:
    """Plot the drawdowns of the NAV and the benchmark."""
    ledger = window.ledger
    benchmark = window.benchmark
    own = _drawdown(ledger.nav)
    agent = LegendEntry(f"agent, seed {window.seed}", "series1")
    series = [agent]
    rows = _day_rows(own, name=agent.name)
    text = f"The agent falls {percent(-float(own.min()) / 100, signed=False)} below its peak"
    deepest = min(float(own.min()), -0.1)
    if benchmark is not None:
        fall = _drawdown(benchmark)
        deepest = min(deepest, float(fall.min()))
        series.append(_BENCHMARK)
        rows += _day_rows(fall, name=_BENCHMARK.name)
        text += f", {benchmark_name} {percent(-float(fall.min()) / 100, signed=False)}"

    x = _day_axis([ledger.base_day, *ledger.days])
    y = measure("y", "below the peak, %", places(1.05 * deepest, 0.0))
    shade = band_rows(range(len(own)), own, np.zeros(len(own)))
    below = layer("area", {**interval(y, "y"), "x": x}, shade, color=light("band2"))
    drawn = picture([below, lines(rows, x, y, series)], _HEIGHT)

    return Plot("drawdown", f"{window.label}: drawdown", f"{text}.", drawn)


def weights_plot(window: WindowStudy) -> Plot:
    """Plot weights above the notional traded each day. The weights are those of the largest
    holdings, of all others and of cash; for accounts with shorts, the total long and short weights
    are plotted instead.
    """
    ledger = window.ledger
    has_shorts = _has_shorts(ledger)
    if has_shorts:
        weights = _sides(ledger)
        layers = _side_layers(ledger, weights)
    else:
        names, weights = _largest_weights(ledger)
        layers = _name_layers(ledger, names, weights)

    traded = 100.0 * ledger.column("traded_minor") / _positive(ledger, "open_nav_minor")
    drawn = _below_each_other([_part(layers, 190), _part([_traded_layer(ledger, traded)], 60)])
    held = max((len(step.positions) for step in ledger.steps), default=0)
    cash = percent(float(np.nanmean(weights[-1])) / 100, signed=False)
    turnover = percent(float(np.nanmean(traded)) / 100, signed=False)
    short = ""
    if has_shorts:
        short = f"{percent(-float(np.nanmean(weights[1])) / 100, signed=False)} sold short and "

    text = (
        f"At most {count(held, 'name')} at once, {short}{cash} cash on average; {turnover} of the"
        " NAV is traded on an average day."
    )

    return Plot("weights", f"{window.label}: weights at the close, and turnover", text, drawn)


def _below_each_other(parts: list[Spec]) -> Spec:
    return {"vconcat": parts, "spacing": 10}


def _part(layers: list[Spec], height: float) -> Spec:
    """Return one of several vertically stacked parts."""
    return {"layer": layers, "width": _INNER_WIDTH, "height": height}


def _side_layers(ledger: Ledger, sides: Values) -> list[Spec]:
    """Return the lines of long positions, short positions and cash."""
    x = _remove_labels(_day_axis(list(ledger.days), 0.5))
    y = measure("y", "weight, %")
    series = [
        LegendEntry("held", "series1"),
        LegendEntry("sold short", "series2"),
        LegendEntry("cash", "muted"),
    ]
    rows: Rows = []
    for one, values in zip(series, sides, strict=True):
        rows += _day_rows(values, name=one.name)

    return [stroke_at(0.0, y, "y"), lines(rows, x, y, series)]


def _name_layers(ledger: Ledger, names: Sequence[str], weights: Values) -> list[Spec]:
    """Return stacked areas of the named assets, of all others and of cash."""
    x = _remove_labels(_day_axis(list(ledger.days), 0.5))
    y = measure("y", "weight, %", places(0, 100))
    roles = [*SERIES[: len(names)], "other", "band2"]
    every = [*names, "others", "cash"]
    series = [LegendEntry(name, role) for name, role in zip(every, roles, strict=True)]
    positions, step = x_positions(len(ledger.steps))
    rows = _stack_areas(positions, weights, every)
    edge = light("paper")

    return [areas(rows, x, y, series, interpolate=step, stroke=edge, strokeWidth=0.25)]


def _traded_layer(ledger: Ledger, traded: Values) -> Spec:
    """Return a bar for each day's traded notional."""
    rows: Rows = [
        {"low": day - 0.45, "high": day + 0.45, "y": finite(value)}
        for day, value in enumerate(traded)
    ]
    y = measure("y", "traded, %", {"zero": True}, tickCount=3)
    return _bars(rows, _day_axis(list(ledger.days), 0.5), y, "series1")


def _bars(rows: Rows, x: Spec, y: Spec, token: str) -> Spec:
    """Return bars from zero to `y`, each spanning `low` to `high` on the other axis."""
    encoding = {**interval(x, "x"), "y": y, "y2": {"datum": 0}}
    return layer("rect", encoding, rows, color=light(token))


def _has_shorts(ledger: Ledger) -> bool:
    for step in ledger.steps:
        for position in step.positions:
            if position.value_minor < 0:
                return True

    return False


def _sides(ledger: Ledger) -> Values:
    """Return the [3, steps] long positions, short positions (below 0), and cash including the
    proceeds of shorts, in per cent of the NAV.
    """
    held = []
    short = []
    for step in ledger.steps:
        values = [position.value_minor for position in step.positions]
        held.append(sum(value for value in values if value > 0))
        short.append(sum(value for value in values if value < 0))

    sides: Values = (
        100.0
        * np.array([held, short, ledger.column("cash_minor")])
        / _positive(ledger, "nav_minor")
    )

    return sides


def _positive(ledger: Ledger, name: str) -> Values:
    """Return a [steps] NAV in minor units. It is NaN where the account is ruined, since fractions
    of such a NAV are meaningless.
    """
    nav = ledger.column(name)
    return np.where(nav > 0, nav, np.nan)


def _largest_weights(ledger: Ledger) -> tuple[list[str], Values]:
    """Return the codes with the largest weights over the episode, and the [names + 2, steps]
    weights in per cent: those of these codes, of all others, and of cash.
    """
    steps = ledger.steps
    weights: dict[str, Values] = {}
    totals: dict[str, float] = {}
    for index, step in enumerate(steps):
        for code, share in step.weights.items():
            weight = 100.0 * share
            weights.setdefault(code, np.zeros(len(steps)))[index] = weight
            totals[code] = totals.get(code, 0.0) + weight

    names = sorted(totals, key=lambda code: (-totals[code], code))[:_NAMES]
    own = np.array([weights[code] for code in names]).reshape(len(names), len(steps))
    cash = np.array([100.0 * step.cash_minor / step.nav_minor for step in steps])
    others = np.maximum(100.0 - cash - own.sum(axis=0), 0.0)

    return [clean(name) for name in names], np.vstack([own, others, cash])


def reliability_plot(study: CardStudy) -> Plot | None:
    """Plot accuracy against stated confidence for all orders with an outcome, above the number of
    orders. Return None without such orders.
    """
    bins = study.reliability
    if not bins:
        return None

    total = sum(entry.n for entry in bins)
    has_intervals = all(entry.accuracy_low is not None for entry in bins)
    drawn = _below_each_other([_accuracy_part(bins, has_intervals), _orders_part(bins)])
    right = [
        f"confidence {entry.mean_confidence:.2f}, right {entry.accuracy:.2f}, n {entry.n}"
        for entry in bins
    ]
    text = f"{count(total, 'order')} in {count(len(bins), 'bin')}: {'; '.join(right)}"
    note = ""
    if has_intervals:
        note = (
            "Intervals are Wilson's. Orders of one day share its market move, so they are narrower"
            " than they should be."
        )

    return Plot("reliability", "Reliability of stated confidence", f"{text}.", drawn, note)


def _accuracy_part(bins: Sequence[ReliabilityBin], has_intervals: bool) -> Spec:
    """Return a part that shows how often orders were right at each stated confidence."""
    x = _remove_labels(measure("x", "", places(0, 1), grid=True))
    y = measure("y", "share that came out right", places(0, 1))
    stated = LegendEntry("as often as stated", "muted", (5, 2))
    sure = LegendEntry("95 % interval", "series1")
    right = LegendEntry("orders that came out right", "series1")
    points = path_rows(
        [entry.mean_confidence for entry in bins],
        [entry.accuracy for entry in bins],
        name=right.name,
    )
    rows = path_rows([0, 1], [0, 1], name=stated.name) + points
    dots = layer("point", {"x": x, "y": y}, points, color=light("series1"), filled=True, opacity=1)
    series = [stated, right]
    layers = [dots]
    if has_intervals:
        series.insert(1, sure)
        ends: Rows = [
            {
                "x": entry.mean_confidence,
                "low": entry.accuracy_low,
                "high": entry.accuracy_high,
                "name": sure.name,
            }
            for entry in bins
        ]
        encoding = {**interval(y, "y"), "x": x, "stroke": colour_series(series)}
        layers.insert(0, layer("rule", encoding, ends, strokeWidth=1.4))

    return _part([lines(rows, x, y, series), *layers], 195)


def _orders_part(bins: Sequence[ReliabilityBin]) -> Spec:
    """Return a part that shows the number of orders at each confidence."""
    rows: Rows = []
    for entry in bins:
        middle = (entry.low + entry.high) / 2
        rows.append({"low": middle - 0.045, "high": middle + 0.045, "y": entry.n})

    x = measure("x", "stated confidence", places(0, 1))
    y = measure("y", "orders", {"zero": True}, tickCount=3)
    return _part([_bars(rows, x, y, "other")], 60)


# ---- attribution


def attribution_plot(window: WindowStudy) -> Plot | None:
    """Plot cumulative linked contributions as stacked areas, with gains above zero and losses
    below. Return None without an attribution.
    """
    attribution = window.attribution
    if attribution is None or attribution.linked.lines is None:
        return None

    parts = {
        name: 100.0 * np.cumsum(part)
        for name, part in attribution.parts(attribution.linked_lines).items()
    }
    total = np.sum(list(parts.values()), axis=0)
    drawn = picture(_part_layers(parts, total, list(attribution.days)), 215)
    text = "At the end " + ", ".join(
        f"{name} {percent(float(part[-1]) / 100)}" for name, part in parts.items()
    )
    text += f"; together the total return of {percent(float(total[-1]) / 100)}."
    note = (
        "Carino-linked with the factor of the whole episode: what stands at the end adds to the"
        " total return."
    )

    return Plot("attribution", f"{window.label}: where the return came from", text, drawn, note)


def _part_layers(parts: dict[str, Values], total: Values, days: Sequence[object]) -> list[Spec]:
    """Return the areas of the parts, and the line of their sum."""
    positions, step = x_positions(len(total))
    values = np.array(list(parts.values()))
    names = list(parts)  # `industry` is present only if it was fitted
    rows = _stack_areas(positions, np.maximum(values, 0.0), names, "gain")
    rows += _stack_areas(positions, np.minimum(values, 0.0), names, "cost")
    # values that are zero up to rounding must not be scaled up
    is_nothing = np.abs(values).max(initial=0.0) < 1e-9
    x = _day_axis(days, 0.5 if step == "step-after" else 0.0)
    y = measure("y", "linked contribution, %", {"domain": [-1.0, 1.0]} if is_nothing else None)
    series = [LegendEntry(name, _PART_ROLES[name]) for name in names]
    series.append(LegendEntry("total return", "ink"))
    points = _day_rows(total)
    on_day = {"x": x, "y": y}

    return [
        areas(rows, x, y, series, interpolate=step),
        stroke_at(0.0, y, "y", "ink"),
        layer("line", on_day, points, color=light("paper"), strokeWidth=3.6),
        layer("line", on_day, points, color=light("ink"), strokeWidth=1.7),
    ]


def exposures_plot(window: WindowStudy) -> Plot | None:
    """Draw one small plot per style factor, all on the same scale. Return None without an
    attribution.
    """
    attribution = window.attribution
    if attribution is None or not attribution.factor_names:
        return None

    names = attribution.factor_names
    days = attribution.days
    panels = _exposure_panels(attribution.exposures, names)
    title = {
        "text": f"{days[0]} … {days[-1]}",
        "orient": "bottom",
        "anchor": "middle",
        "frame": "group",
    }
    drawn = {"vconcat": [{**panels, "title": title}]}
    means = attribution.mean_exposures()
    text = "Means: " + ", ".join(
        f"{name} {number(float(value) if np.isfinite(value) else None, signed=True)}"
        for name, value in zip(names, means, strict=True)
    )
    note = "In standard deviations over the index's names, of the whole NAV: cash dilutes them."

    return Plot("exposures", f"{window.label}: style exposures", f"{text}.", drawn, note)


def _exposure_panels(exposures: Values, names: Sequence[str]) -> Spec:
    """Return one panel per factor, with the exposures above and below zero. `exposures` has shape
    [days, factors].
    """
    positions, step = x_positions(len(exposures))
    rows: Rows = []
    for name, values in zip(names, exposures.T, strict=True):
        held = held_to(values, positions)
        panel = band_rows(positions, np.minimum(held, 0.0), np.maximum(held, 0.0), factor=name)
        rows += panel

    reach = max(float(np.abs(exposures).max()), 0.1) * 1.05
    x = measure("x", "", places(positions[0], positions[-1]), labels=False, ticks=False)
    y = measure("low", "", places(-reach, reach), tickCount=3)
    layers = [stroke_at(0.0, y, "y")]
    for field, token in (("high", "series1"), ("low", "series2")):
        encoding = {"x": x, "y": {**y, "field": field}, "y2": {"datum": 0}}
        layers.append(layer("area", encoding, color=light(token), interpolate=step))

    return {
        "data": {"values": rows},
        "facet": {"field": "factor", "type": "nominal", "sort": list(names), "title": None},
        "columns": 3,
        "spacing": 8,
        "spec": {"layer": layers, "width": 108, "height": 55},
    }
