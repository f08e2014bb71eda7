"""Plots of one episode, of its orders and of its attribution, and of figures with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.cards import count
from ktdeval.trading import Ledger
from ktdeval_report.canvas import SERIES, Plot, colour, quiet
from ktdeval_report.render import clean, figure as number, percent
from ktdeval_report.study import CardStudy, WindowStudy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from ktdeval.stats import Envelope

Values = npt.NDArray[np.float64]

_NAMES = 6
"""Names of their own in the plot of weights; the rest is one area."""

_LABELS = 4
"""Days named below a plot."""

_LONGEST_LINE = 30
_PART_ROLES = {"common": "one", "style": "two", "industry": "five", "selection": "three", "trading": "four"}

_MANY_DAYS = 150
"""Above this the step of a single day can't be seen, and areas are drawn between points, which makes smaller pages."""


def label_days(axes: Axes, days: Sequence[object]) -> None:
    """Name a few days below axes whose x is the number of the day, so that weekends take no room."""
    last = len(days) - 1
    positions = sorted({round(last * position / (_LABELS - 1)) for position in range(_LABELS)}) if last > 0 else [0]
    axes.set_xticks(positions, [str(days[position]) for position in positions])
    labels = axes.get_xticklabels()
    if len(labels) > 1:  # the outer ones stay inside the plot
        labels[0].set_horizontalalignment("left")
        labels[-1].set_horizontalalignment("right")


def x_positions(days: int) -> tuple[Values, Literal["post"] | None]:
    """Positions of days on the axis, and whether their values are drawn as steps. A single day is a step, or it had no width."""
    if days > _MANY_DAYS:
        return np.arange(days, dtype=np.float64), None
    return np.arange(days + 1, dtype=np.float64) - 0.5, "post"


def held_to(values: Values, positions: Values) -> Values:
    """One value for each position, on the last axis: the last one once more where a step must end."""
    return np.concatenate([values, values[..., -1:]], axis=-1)[..., : len(positions)]


def _growth(levels: npt.ArrayLike) -> Values:
    values = np.asarray(levels, dtype=np.float64)
    grown: Values = 100.0 * (values / values[0] - 1.0)
    return grown


def _drawdown(levels: npt.ArrayLike) -> Values:
    values = np.asarray(levels, dtype=np.float64)
    return 100.0 * (values / np.maximum.accumulate(values) - 1.0)


def equity_plot(window: WindowStudy, benchmark_name: str) -> Plot:
    """Plot the NAV against the benchmark and against random traders with the same activity."""
    ledger, envelope, benchmark = window.ledger, window.envelope, window.benchmark
    days = [ledger.base_day, *ledger.days]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        if envelope is not None:
            _bands(axes, envelope)
        axes.axhline(0.0, color=colour("muted"), linewidth=0.6)
        for index, other in enumerate(window.others):
            axes.plot(_growth(other.nav), color=colour("one"), linewidth=0.5, label=None if index else "other seeds")
        if benchmark is not None:
            axes.plot(_growth(benchmark), color=colour("two"), linewidth=1.4, linestyle=(0, (4, 1.5)), label="benchmark")
        axes.plot(_growth(ledger.nav), color=colour("one"), linewidth=1.9, label=f"agent, seed {window.seed}")
        axes.set_ylabel("return since the start, %")
        _finish(figure, axes, days)

    own = float(ledger.nav[-1] / ledger.nav[0] - 1.0)
    text = f"The agent ends at {percent(own)}"
    if benchmark is not None:
        text += f", {benchmark_name} at {percent(float(benchmark[-1] / benchmark[0] - 1.0))}"
    note = window.no_envelope and f"No random traders: {window.no_envelope}."
    if envelope is not None:
        outer = [f"{100 * level:g} %" for level in (envelope.levels[0], envelope.levels[-1])]
        ends = [percent(float(band[-1] / band[0] - 1.0)) for band in (envelope.bands[0], envelope.bands[-1])]
        text += f", {outer[0]} to {outer[1]} of {len(envelope.returns)} random traders end between {ends[0]} and {ends[1]}"
        text += "" if envelope.rank is None else f"; the agent beats {100 * envelope.rank:.0f} % of them"
        note = _activity_text(envelope) + (f" No rank among them: {envelope.reason}." if envelope.reason else "")
    return Plot("equity", f"{window.name}: equity, benchmark and random traders", f"{text}.", draw, 3.2, note)


def _activity_text(envelope: Envelope) -> str:
    """Return whether random traders were really as active as the agent."""
    own, random = envelope.agent, envelope.random
    cash = f"{percent(random.cash_ratio, signed=False)} ({percent(own.cash_ratio, signed=False)})"
    return (
        f"Random traders (the agent): turnover {random.turnover:.1f} ({own.turnover:.1f}) a year, "
        f"{random.names:.1f} ({own.names:.1f}) names, cash {cash}."
    )


def _bands(axes: Axes, envelope: Envelope) -> None:
    bands, days = [_growth(band) for band in envelope.bands], range(envelope.bands.shape[1])
    half = len(bands) // 2
    for index, role in zip(range(half), ("band", "band2"), strict=False):
        low, high = envelope.levels[index], envelope.levels[-1 - index]
        label = f"random, {100 * low:g}–{100 * high:g} %"
        axes.fill_between(days, bands[index], bands[-1 - index], color=colour(role), linewidth=0, label=label)
    if len(bands) % 2:
        axes.plot(bands[half], color=colour("muted"), linewidth=0.9, linestyle=(0, (1, 1.5)), label="random, median")


def _finish(figure: FigureBase, axes: Axes, days: Sequence[object]) -> None:
    label_days(axes, days)
    axes.margins(x=0.01)
    quiet(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=3, handlelength=1.6, columnspacing=1.2)


def drawdown_plot(window: WindowStudy, benchmark_name: str) -> Plot:
    """Plot how far NAV and benchmark are below their highest level so far."""
    ledger, benchmark = window.ledger, window.benchmark
    own = _drawdown(ledger.nav)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        axes.fill_between(range(len(own)), own, 0.0, color=colour("band2"), linewidth=0)
        axes.plot(own, color=colour("one"), linewidth=1.6, label=f"agent, seed {window.seed}")
        if benchmark is not None:
            axes.plot(_drawdown(benchmark), color=colour("two"), linewidth=1.3, linestyle=(0, (4, 1.5)), label="benchmark")
        axes.set_ylabel("below the peak, %")
        axes.set_ylim(top=0.0, bottom=min(axes.get_ylim()[0], -0.1))
        _finish(figure, axes, [ledger.base_day, *ledger.days])

    text = f"The agent falls {percent(-float(own.min()) / 100, signed=False)} below its peak"
    if benchmark is not None:
        text += f", {benchmark_name} {percent(-float(_drawdown(benchmark).min()) / 100, signed=False)}"
    return Plot("drawdown", f"{window.name}: drawdown", f"{text}.", draw, 3.2)


def weights_plot(window: WindowStudy) -> Plot:
    """Weights of the largest names, of the others and of cash, above what was traded each day; with shorts those of all that is
    held and all that is sold short.
    """
    ledger = window.ledger
    has_shorts = any(position.value_minor < 0 for step in ledger.steps for position in step.positions)
    names, areas = (["held", "sold short"], _sides(ledger)) if has_shorts else _weights(ledger)
    traded = 100.0 * ledger.column("traded_minor") / _positive(ledger, "open_nav_minor")
    held = max((len(step.positions) for step in ledger.steps), default=0)

    def draw(figure: FigureBase) -> None:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        days = range(len(ledger.steps))
        roles = [*SERIES[: len(names)], "other", "band2"]
        positions, step = x_positions(len(days))
        stepped = {} if step is None else {"step": step}
        if has_shorts:
            for line, name, role in zip(areas, [*names, "cash"], (*SERIES[:2], "muted"), strict=True):
                above.plot(days, line, color=colour(role), linewidth=1.4, label=name)
            above.axhline(0.0, color=colour("muted"), linewidth=0.6)
        else:
            colours = [colour(role) for role in roles]
            above.stackplot(positions, held_to(areas, positions), labels=[*names, "others", "cash"], colors=colours,
                            edgecolor=colour("paper"), linewidth=0.25, **stepped)  # fmt: skip
            above.set_ylim(0, 100)
        above.set_ylabel("weight, %")
        below.bar(days, traded, color=colour("one"), width=0.9)
        below.set_ylabel("traded, %")
        label_days(below, list(ledger.days))
        for axes in (above, below):
            axes.set_xlim(-0.5, len(days) - 0.5)
            quiet(axes)
        figure.legend(*above.get_legend_handles_labels(), loc="outside upper left", ncols=4, handlelength=1.0, columnspacing=1.0)

    cash = float(np.nanmean(areas[-1])) / 100
    short = f"{percent(-float(np.nanmean(areas[1])) / 100, signed=False)} sold short and " if has_shorts else ""
    text = f"At most {count(held, 'name')} at once, {short}{percent(cash, signed=False)} cash on average; " + (
        f"{percent(float(np.nanmean(traded)) / 100, signed=False)} of the NAV is traded on an average day."
    )
    return Plot("weights", f"{window.name}: weights at the close, and turnover", text, draw, 3.9)


def _sides(ledger: Ledger) -> Values:
    """[3, steps] per cent of the NAV: what is held, what is sold short (below 0), and cash, the proceeds of shorts in it."""
    values = [[position.value_minor for position in step.positions] for step in ledger.steps]
    held, short = ([sum(sign * max(sign * value, 0) for value in day) for day in values] for sign in (1, -1))
    sides: Values = 100.0 * np.array([held, short, ledger.column("cash_minor")]) / _positive(ledger, "nav_minor")
    return sides


def _positive(ledger: Ledger, name: str) -> Values:
    """[steps] a NAV in minor units, NaN where the account is ruined: shares of it have no meaning."""
    nav = ledger.column(name)
    return np.where(nav > 0, nav, np.nan)


def _weights(ledger: Ledger) -> tuple[list[str], Values]:
    """Codes of the names that weigh most over the episode, and [names + 2, steps] weights in per cent: theirs, others', cash."""
    steps = ledger.steps
    totals: dict[str, float] = {}
    weights = [{position.code: 100.0 * position.value_minor / step.nav_minor for position in step.positions} for step in steps]
    for day in weights:
        for code, weight in day.items():
            totals[code] = totals.get(code, 0.0) + weight
    names = sorted(totals, key=lambda code: (-totals[code], code))[:_NAMES]
    own = np.array([[day.get(code, 0.0) for day in weights] for code in names]).reshape(len(names), len(steps))
    cash = np.array([100.0 * step.cash_minor / step.nav_minor for step in steps])
    others = np.maximum(100.0 - cash - own.sum(axis=0), 0.0)
    return [clean(name) for name in names], np.vstack([own, others, cash])


def reliability_plot(study: CardStudy) -> Plot | None:
    """Confidence against accuracy of all orders with an outcome, above how many there are; None without any."""
    bins = study.reliability
    if not bins:
        return None
    total = sum(entry["n"] for entry in bins)

    def draw(figure: FigureBase) -> None:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3.2, 1])
        above.plot([0, 1], [0, 1], color=colour("muted"), linewidth=1.0, linestyle=(0, (4, 2)), label="as often as stated")
        confidence = [entry["mean_confidence"] for entry in bins]
        accuracy = [entry["accuracy"] for entry in bins]
        if all("accuracy_low" in entry for entry in bins):
            above.vlines(confidence, [entry["accuracy_low"] for entry in bins], [entry["accuracy_high"] for entry in bins],
                         color=colour("one"), linewidth=1.4, label="95 % interval")  # fmt: skip
        label = "orders that came out right"
        above.plot(confidence, accuracy, color=colour("one"), marker="o", markersize=5, linewidth=0.9, label=label)
        above.set_ylim(0, 1)
        above.set_ylabel("share that came out right")
        middles, orders = [(entry["low"] + entry["high"]) / 2 for entry in bins], [entry["n"] for entry in bins]
        below.bar(middles, orders, width=0.09, color=colour("other"))
        below.set_ylabel("orders")
        below.set_xlabel("stated confidence")
        below.set_xlim(0, 1)
        quiet(below)
        figure.legend(*above.get_legend_handles_labels(), loc="outside upper left", ncols=2, handlelength=1.6)

    right = (f"confidence {each['mean_confidence']:.2f}, right {each['accuracy']:.2f}, n {each['n']}" for each in bins)
    text = f"{count(total, 'order')} in {count(len(bins), 'bin')}: {'; '.join(right)}"
    note = ""
    if "accuracy_low" in bins[0]:
        note = "Intervals are Wilson's. Orders of one day share its market move, so they are narrower than they should be."
    return Plot("reliability", "Reliability of stated confidence", f"{text}.", draw, 3.9, note)


# ---- attribution


def attribution_plot(window: WindowStudy) -> Plot | None:
    """Linked contributions so far, stacked: above zero what helped, below zero what cost; None where there are none."""
    attribution = window.attribution
    if attribution is None or attribution.linked.lines is None:
        return None
    parts = {name: 100.0 * np.cumsum(part) for name, part in attribution.parts(attribution.linked_lines).items()}
    total = np.sum(list(parts.values()), axis=0)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        positions, step = x_positions(len(total))
        above, below = np.zeros(len(total)), np.zeros(len(total))
        for name, part in parts.items():  # industry is there where it was fitted
            gain, cost, role = np.maximum(part, 0.0), np.minimum(part, 0.0), _PART_ROLES[name]
            for base, change in ((above, gain), (below, cost)):
                low, high = held_to(base, positions), held_to(base + change, positions)
                label = name if change is gain else None
                axes.fill_between(positions, low, high, step=step, color=colour(role), linewidth=0.0, label=label)
            above, below = above + gain, below + cost
        axes.axhline(0.0, color=colour("ink"), linewidth=0.7)
        axes.plot(total, color=colour("paper"), linewidth=3.6)
        axes.plot(total, color=colour("ink"), linewidth=1.7, label="total return")
        axes.set_ylabel("linked contribution, %")
        if max(np.abs(part).max(initial=0.0) for part in parts.values()) < 1e-9:  # what is nothing is not drawn as large
            axes.set_ylim(-1.0, 1.0)
        label_days(axes, list(attribution.days))
        axes.margins(x=0.0)
        quiet(axes)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=3, handlelength=1.2, columnspacing=1.2)

    text = "At the end " + ", ".join(f"{name} {percent(float(part[-1]) / 100)}" for name, part in parts.items())
    text += f"; together the total return of {percent(float(total[-1]) / 100)}."
    note = "Carino-linked with the factor of the whole episode: what stands at the end adds to the total return."
    return Plot("attribution", f"{window.name}: where the return came from", text, draw, 3.9, note)


def exposures_plot(window: WindowStudy) -> Plot | None:
    """One small plot a style factor, all on one scale; None where there is no attribution."""
    attribution = window.attribution
    if attribution is None or not attribution.factor_names:
        return None
    exposures, names = attribution.exposures, attribution.factor_names
    reach = max(float(np.abs(exposures).max()), 0.1) * 1.05
    rows = -(-len(names) // 3)

    def draw(figure: FigureBase) -> None:
        grid = figure.subplots(rows, 3, sharex=True, sharey=True, squeeze=False)
        positions, step = x_positions(len(exposures))
        for index, axes in enumerate(grid.flat):
            if index >= len(names):
                axes.set_visible(False)
                continue
            values = held_to(exposures[:, index], positions)
            axes.fill_between(positions, np.maximum(values, 0.0), 0.0, step=step, color=colour("one"), linewidth=0)
            axes.fill_between(positions, np.minimum(values, 0.0), 0.0, step=step, color=colour("two"), linewidth=0)
            axes.axhline(0.0, color=colour("muted"), linewidth=0.6)
            axes.set_title(names[index], loc="left")
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


class Point(NamedTuple):
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
        values = [scale * (point.value or 0.0) for point in known]
        axes.plot(values, rows, color=colour("one"), marker="o", markersize=5.5, linestyle="none")
        axes.set_yticks(rows, [_lines_of(point.name) for point in known])
        axes.set_ylim(-0.7, len(known) - 0.3)
        axes.set_xlabel(axis)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        quiet(axes, horizontal=False)

    text = "; ".join(_point_text(point, scale) for point in known)
    lines = max((_lines_of(point.name).count("\n") + 1 for point in known), default=1)
    return Plot(name, title, f"{text}.", draw, 0.9 + (0.1 + 0.16 * lines) * len(known))


def _lines_of(name: str) -> str:
    """A name that has parts, arguments among them, on as many lines, so that figures keep their room."""
    lines = [clean(part) for part in name.replace(" (", " · (").split(" · ")]
    return "\n".join(line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…" for line in lines)


def _point_text(point: Point, scale: float) -> str:
    unit = "fraction" if scale == 100.0 else "ratio"
    text = f"{point.name} {number(point.value, unit, signed=True)}"
    if point.low is None:
        return f"{text}, no interval"
    return f"{text}, interval {number(point.low, unit, signed=True)} to {number(point.high, unit, signed=True)}"
