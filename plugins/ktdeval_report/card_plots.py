"""Plots of one episode, of its orders and of its attribution, and of figures with their
intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from ktdeval.cards import count
from ktdeval.stats import underwater
from ktdeval.trading import Ledger
from ktdeval_pages.colours import SERIES
from ktdeval_pages.day_labels import dated_positions
from ktdeval_report.canvas import Plot, colour, quiet
from ktdeval_report.card_figures import CardStudy, WindowStudy
from ktdeval_report.value_formatting import clean, figure as number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from ktdeval.stats import Envelope

Values = npt.NDArray[np.float64]

_NAMES = 6
"""Names of their own in the plot of weights; the rest is one area."""

"""Days named below a plot."""

_PART_ROLES = {
    "common": "series1",
    "style": "series2",
    "industry": "series5",
    "selection": "series3",
    "trading": "series4",
}

_MANY_DAYS = 150
"""Above this the step of a single day can't be seen, and areas are drawn between points, which
makes smaller pages.
"""


def label_days(axes: Axes, days: Sequence[object]) -> None:
    """Name a few days below axes whose x is the number of the day, so that weekends take no
    room.
    """
    positions = dated_positions(len(days))
    axes.set_xticks(positions, [str(days[position]) for position in positions])
    labels = axes.get_xticklabels()

    if len(labels) > 1:  # the outer ones stay inside the plot
        labels[0].set_horizontalalignment("left")
        labels[-1].set_horizontalalignment("right")


def x_positions(days: int) -> tuple[Values, Literal["post"] | None]:
    """Return positions of days on the axis, and whether their values are drawn as steps.

    Few days are steps: as a line, a single day would have no width.
    """
    if days > _MANY_DAYS:
        return np.arange(days, dtype=np.float64), None
    return np.arange(days + 1, dtype=np.float64) - 0.5, "post"


def held_to(values: Values, positions: Values) -> Values:
    """Return one value for each position, on the last axis; the last value is repeated where a
    step needs an end.
    """
    return np.concatenate([values, values[..., -1:]], axis=-1)[..., : len(positions)]


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
    days = [ledger.base_day, *ledger.days]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        if envelope is not None:
            _bands(axes, envelope)

        axes.axhline(0.0, color=colour("muted"), linewidth=0.6)
        for index, other in enumerate(window.others):
            axes.plot(
                _growth(other.nav),
                color=colour("series1"),
                linewidth=0.5,
                label=None if index else "other seeds",
            )

        if benchmark is not None:
            axes.plot(
                _growth(benchmark),
                color=colour("series2"),
                linewidth=1.4,
                linestyle=(0, (4, 1.5)),
                label="benchmark",
            )

        axes.plot(
            _growth(ledger.nav),
            color=colour("series1"),
            linewidth=1.9,
            label=f"agent, seed {window.seed}",
        )
        axes.set_ylabel("return since the start, %")
        _finish(figure, axes, days)

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
        draw,
        3.2,
        note,
    )


def _envelope_text(envelope: Envelope) -> str:
    """Return where random traders end, and how many of them the agent beats."""
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
    """Return where a line ends, as a return since its start."""
    return percent(float(band[-1] / band[0] - 1.0))


def _activity_text(envelope: Envelope) -> str:
    """Return the activity of random traders next to the agent's, which it should equal."""
    own = envelope.agent
    random = envelope.random
    cash = f"{percent(random.cash_ratio, signed=False)} ({percent(own.cash_ratio, signed=False)})"

    return (
        f"Random traders (the agent): turnover {random.turnover:.1f} ({own.turnover:.1f}) a year, "
        f"{random.names:.1f} ({own.names:.1f}) names, cash {cash}."
    )


def _bands(axes: Axes, envelope: Envelope) -> None:
    bands = [_growth(band) for band in envelope.bands]
    days = range(envelope.bands.shape[1])
    half = len(bands) // 2

    for index, role in zip(range(half), ("band", "band2"), strict=False):
        low = envelope.levels[index]
        high = envelope.levels[-1 - index]
        label = f"random, {100 * low:g}–{100 * high:g} %"
        axes.fill_between(
            days, bands[index], bands[-1 - index], color=colour(role), linewidth=0, label=label
        )

    if len(bands) % 2:
        axes.plot(
            bands[half],
            color=colour("muted"),
            linewidth=0.9,
            linestyle=(0, (1, 1.5)),
            label="random, median",
        )


def _finish(figure: FigureBase, axes: Axes, days: Sequence[object]) -> None:
    label_days(axes, days)
    axes.margins(x=0.01)
    quiet(axes)
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="outside upper left",
        ncols=3,
        handlelength=1.6,
        columnspacing=1.2,
    )


def drawdown_plot(window: WindowStudy, benchmark_name: str) -> Plot:
    """Plot how far NAV and benchmark are below their highest level so far."""
    ledger = window.ledger
    benchmark = window.benchmark
    own = _drawdown(ledger.nav)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        axes.fill_between(range(len(own)), own, 0.0, color=colour("band2"), linewidth=0)
        axes.plot(own, color=colour("series1"), linewidth=1.6, label=f"agent, seed {window.seed}")

        if benchmark is not None:
            axes.plot(
                _drawdown(benchmark),
                color=colour("series2"),
                linewidth=1.3,
                linestyle=(0, (4, 1.5)),
                label="benchmark",
            )

        axes.set_ylabel("below the peak, %")
        axes.set_ylim(top=0.0, bottom=min(axes.get_ylim()[0], -0.1))
        _finish(figure, axes, [ledger.base_day, *ledger.days])

    text = f"The agent falls {percent(-float(own.min()) / 100, signed=False)} below its peak"
    if benchmark is not None:
        text += (
            f", {benchmark_name} {percent(-float(_drawdown(benchmark).min()) / 100, signed=False)}"
        )

    return Plot("drawdown", f"{window.label}: drawdown", f"{text}.", draw, 3.2)


def weights_plot(window: WindowStudy) -> Plot:
    """Plot the weights of the largest names, of the others and of cash, above what was traded each
    day; with shorts the weights of all that is held and of all that is sold short.
    """
    ledger = window.ledger
    has_shorts = _has_shorts(ledger)
    if has_shorts:
        names, areas = ["held", "sold short"], _sides(ledger)
    else:
        names, areas = _largest_weights(ledger)

    traded = 100.0 * ledger.column("traded_minor") / _positive(ledger, "open_nav_minor")
    held = max((len(step.positions) for step in ledger.steps), default=0)

    def draw(figure: FigureBase) -> None:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        days = range(len(ledger.steps))
        roles = [*SERIES[: len(names)], "other", "band2"]
        positions, step = x_positions(len(days))
        stepped = {} if step is None else {"step": step}

        if has_shorts:
            for line, name, role in zip(
                areas, [*names, "cash"], (*SERIES[:2], "muted"), strict=True
            ):
                above.plot(days, line, color=colour(role), linewidth=1.4, label=name)

            above.axhline(0.0, color=colour("muted"), linewidth=0.6)
        else:
            colours = [colour(role) for role in roles]
            above.stackplot(
                positions,
                held_to(areas, positions),
                labels=[*names, "others", "cash"],
                colors=colours,
                edgecolor=colour("paper"),
                linewidth=0.25,
                **stepped,
            )
            above.set_ylim(0, 100)

        above.set_ylabel("weight, %")
        below.bar(days, traded, color=colour("series1"), width=0.9)
        below.set_ylabel("traded, %")
        label_days(below, list(ledger.days))

        for axes in (above, below):
            axes.set_xlim(-0.5, len(days) - 0.5)
            quiet(axes)

        figure.legend(
            *above.get_legend_handles_labels(),
            loc="outside upper left",
            ncols=4,
            handlelength=1.0,
            columnspacing=1.0,
        )

    cash = percent(float(np.nanmean(areas[-1])) / 100, signed=False)
    turnover = percent(float(np.nanmean(traded)) / 100, signed=False)
    short = ""
    if has_shorts:
        short = f"{percent(-float(np.nanmean(areas[1])) / 100, signed=False)} sold short and "

    text = (
        f"At most {count(held, 'name')} at once, {short}{cash} cash on average; {turnover} of the"
        " NAV is traded on an average day."
    )

    return Plot("weights", f"{window.label}: weights at the close, and turnover", text, draw, 3.9)


def _has_shorts(ledger: Ledger) -> bool:
    for step in ledger.steps:
        for position in step.positions:
            if position.value_minor < 0:
                return True

    return False


def _sides(ledger: Ledger) -> Values:
    """Return, in per cent of the NAV, what is held, what is sold short (below 0), and cash with the
    proceeds of shorts, [3, steps].
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
    """Return a NAV in minor units, [steps]; NaN where the account is ruined, since shares of it have
    no meaning.
    """
    nav = ledger.column(name)
    return np.where(nav > 0, nav, np.nan)


def _largest_weights(ledger: Ledger) -> tuple[list[str], Values]:
    """Return the codes that weigh most over the episode, and the weights of these, of the others and
    of cash in per cent, [names + 2, steps].
    """
    steps = ledger.steps
    weights: dict[str, Values] = {}
    totals: dict[str, float] = {}
    for index, step in enumerate(steps):
        for position in step.positions:
            code = position.code
            weight = 100.0 * position.value_minor / step.nav_minor
            weights.setdefault(code, np.zeros(len(steps)))[index] = weight
            totals[code] = totals.get(code, 0.0) + weight

    names = sorted(totals, key=lambda code: (-totals[code], code))[:_NAMES]
    own = np.array([weights[code] for code in names]).reshape(len(names), len(steps))
    cash = np.array([100.0 * step.cash_minor / step.nav_minor for step in steps])
    others = np.maximum(100.0 - cash - own.sum(axis=0), 0.0)

    return [clean(name) for name in names], np.vstack([own, others, cash])


def reliability_plot(study: CardStudy) -> Plot | None:
    """Confidence against accuracy of all orders with an outcome, above how many there are; None
    without any.
    """
    bins = study.reliability
    if not bins:
        return None

    total = sum(entry.n for entry in bins)
    has_intervals = all(entry.accuracy_low is not None for entry in bins)

    def draw(figure: FigureBase) -> None:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3.2, 1])
        above.plot(
            [0, 1],
            [0, 1],
            color=colour("muted"),
            linewidth=1.0,
            linestyle=(0, (4, 2)),
            label="as often as stated",
        )
        confidence = [entry.mean_confidence for entry in bins]
        accuracy = [entry.accuracy for entry in bins]

        if has_intervals:
            above.vlines(
                confidence,
                [entry.accuracy_low for entry in bins],
                [entry.accuracy_high for entry in bins],
                color=colour("series1"),
                linewidth=1.4,
                label="95 % interval",
            )

        label = "orders that came out right"
        above.plot(
            confidence,
            accuracy,
            color=colour("series1"),
            marker="o",
            markersize=5,
            linewidth=0.9,
            label=label,
        )
        above.set_ylim(0, 1)
        above.set_ylabel("share that came out right")
        middles = [(entry.low + entry.high) / 2 for entry in bins]
        orders = [entry.n for entry in bins]
        below.bar(middles, orders, width=0.09, color=colour("other"))
        below.set_ylabel("orders")
        below.set_xlabel("stated confidence")
        below.set_xlim(0, 1)
        quiet(below)
        figure.legend(
            *above.get_legend_handles_labels(), loc="outside upper left", ncols=2, handlelength=1.6
        )

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

    return Plot("reliability", "Reliability of stated confidence", f"{text}.", draw, 3.9, note)


# ---- attribution


def attribution_plot(window: WindowStudy) -> Plot | None:
    """Linked contributions so far, stacked: above zero what helped, below zero what cost; None
    where there are none.
    """
    attribution = window.attribution
    if attribution is None or attribution.linked.lines is None:
        return None

    parts = {
        name: 100.0 * np.cumsum(part)
        for name, part in attribution.parts(attribution.linked_lines).items()
    }
    total = np.sum(list(parts.values()), axis=0)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        positions, step = x_positions(len(total))
        above = np.zeros(len(total))
        below = np.zeros(len(total))

        for name, part in parts.items():  # industry is there where it was fitted
            gain = np.maximum(part, 0.0)
            cost = np.minimum(part, 0.0)
            role = _PART_ROLES[name]

            for base, change in ((above, gain), (below, cost)):
                low = held_to(base, positions)
                high = held_to(base + change, positions)
                label = name if change is gain else None
                axes.fill_between(
                    positions, low, high, step=step, color=colour(role), linewidth=0.0, label=label
                )

            above = above + gain
            below = below + cost

        axes.axhline(0.0, color=colour("ink"), linewidth=0.7)
        axes.plot(total, color=colour("paper"), linewidth=3.6)
        axes.plot(total, color=colour("ink"), linewidth=1.7, label="total return")
        axes.set_ylabel("linked contribution, %")

        # what is nothing is not drawn as large
        if max(np.abs(part).max(initial=0.0) for part in parts.values()) < 1e-9:
            axes.set_ylim(-1.0, 1.0)

        label_days(axes, list(attribution.days))
        axes.margins(x=0.0)
        quiet(axes)
        figure.legend(
            *axes.get_legend_handles_labels(),
            loc="outside upper left",
            ncols=3,
            handlelength=1.2,
            columnspacing=1.2,
        )

    text = "At the end " + ", ".join(
        f"{name} {percent(float(part[-1]) / 100)}" for name, part in parts.items()
    )
    text += f"; together the total return of {percent(float(total[-1]) / 100)}."
    note = (
        "Carino-linked with the factor of the whole episode: what stands at the end adds to the"
        " total return."
    )

    return Plot("attribution", f"{window.label}: where the return came from", text, draw, 3.9, note)


def exposures_plot(window: WindowStudy) -> Plot | None:
    """One small plot a style factor, all on one scale; None where there is no attribution."""
    attribution = window.attribution
    if attribution is None or not attribution.factor_names:
        return None

    exposures = attribution.exposures
    names = attribution.factor_names
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
            axes.fill_between(
                positions,
                np.maximum(values, 0.0),
                0.0,
                step=step,
                color=colour("series1"),
                linewidth=0,
            )
            axes.fill_between(
                positions,
                np.minimum(values, 0.0),
                0.0,
                step=step,
                color=colour("series2"),
                linewidth=0,
            )
            axes.axhline(0.0, color=colour("muted"), linewidth=0.6)
            axes.set_title(names[index], loc="left")
            axes.set_ylim(-reach, reach)
            axes.set_xlim(-0.5, len(exposures) - 0.5)
            axes.set_xticks([])
            quiet(axes)

        figure.supxlabel(
            f"{attribution.days[0]} … {attribution.days[-1]}",
            fontsize="medium",
            color=colour("ink"),
        )

    means = attribution.mean_exposures()
    text = "Means: " + ", ".join(
        f"{name} {number(float(value) if np.isfinite(value) else None, signed=True)}"
        for name, value in zip(names, means, strict=True)
    )
    note = "In standard deviations over the index's names, of the whole NAV: cash dilutes them."

    return Plot(
        "exposures", f"{window.label}: style exposures", f"{text}.", draw, 1.15 * rows + 0.4, note
    )
