"""Detection limit of memory as a plot: premium by dose, smallest dose by windows and probes, and
how well studies are told from a control.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktdeval_compare.doses.dose_response import CurveLine, DoseLine, DoseReport, LimitLine
from ktdeval_pages.colours import SERIES, TOKENS
from ktdeval_pages.figure_files import svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH = 6.4
_HEIGHT = 3.4  # of each part, in inches
_CURVES = (0.001, 0.002, 0.005, 0.01)  # doses of curves, the smallest of the study
_TICKS = (0.001, 0.01, 0.1, 1.0)


def dose_svg(report: DoseReport) -> bytes | None:
    """Return the plot as SVG; None without matplotlib, which is an extra (`report`), or without any
    dose above 0.
    """
    try:
        import matplotlib  # noqa: PLC0415 - heavy, and an extra
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        return None

    doses = [line for line in report.doses if line.dose > 0]
    if not doses:
        return None

    count = 3 if report.curves else 2
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        # equal figures give equal bytes
        matplotlib.rcParams.update({"svg.hashsalt": "ktdeval", "svg.fonttype": "path"})
        drawn = Figure(figsize=(_WIDTH, _HEIGHT * count), layout="constrained")
        parts = drawn.subplots(count, 1, squeeze=False)[:, 0]
        _draw_premium(parts[0], doses)
        _draw_limits(parts[1], report.limits)
        if report.curves:
            _draw_curves(parts[2], report.curves)

        for axes in parts:
            axes.tick_params(labelsize=8)
            axes.legend(fontsize=8, frameon=False)

        return svg_of(drawn)


def _draw_premium(axes: Axes, lines: Sequence[DoseLine]) -> None:
    """Draw mean returns under both masks, and the premium with its interval."""
    doses = [line.dose for line in lines]
    axes.axhline(0.0, color=TOKENS["other"].light, linewidth=0.8)
    figures = {"premium": "bright less blinded", "bright": "bright", "hidden": "blinded"}
    for token, (name, words) in zip(SERIES, figures.items(), strict=False):
        values = [100 * getattr(line, name) for line in lines]
        colour = TOKENS[token].light
        axes.plot(doses, values, marker="o", markersize=3, color=colour, label=words)
        if name != "premium":
            continue

        sure = [line for line in lines if line.low is not None and line.high is not None]
        axes.fill_between(
            [line.dose for line in sure],
            [100 * (line.low or 0.0) for line in sure],
            [100 * (line.high or 0.0) for line in sure],
            color=colour,
            alpha=0.12,
            linewidth=0,
        )

    axes.set_xscale("log")
    axes.set_xticks(_TICKS, [f"{100 * tick:g} %" for tick in _TICKS])
    axes.set_xlabel("share of facts that is remembered", fontsize=8)
    axes.set_ylabel("mean return of a window, %", fontsize=8)
    axes.set_title("Premium of a memory by its dose", fontsize=9, loc="left")


def _draw_limits(axes: Axes, lines: Sequence[LimitLine]) -> None:
    """Draw the smallest dose that is found, by windows and by probes."""
    detectors = list(dict.fromkeys(line.detector for line in lines))
    for token, detector in zip(SERIES, detectors, strict=False):
        own = [line for line in lines if line.detector == detector and line.limit is not None]
        if not own:
            continue

        axes.plot(
            [line.count for line in own],
            [100 * (line.limit or 0.0) for line in own],
            marker="o",
            markersize=3,
            color=TOKENS[token].light,
            label=f"{detector}, by {own[0].unit}",
        )

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks((6, 10, 20, 50, 100, 200, 400), ["6", "10", "20", "50", "100", "200", "400"])
    axes.set_yticks((0.1, 1, 10, 100), ["0.1", "1", "10", "100"])
    axes.set_ylim(0.1, 100)
    axes.minorticks_off()
    axes.set_xlabel("windows or probes", fontsize=8)
    axes.set_ylabel("smallest share of facts found, %", fontsize=8)
    axes.set_title("Detection limit at 80 % power", fontsize=9, loc="left")


def _draw_curves(axes: Axes, lines: Sequence[CurveLine]) -> None:
    """Draw the share of studies seen against that of false alarms, at the smallest doses."""
    chosen = [line for line in lines if line.dose in _CURVES] or list(lines[:4])
    axes.plot([0, 100], [0, 100], color=TOKENS["other"].light, linewidth=0.8)
    for token, line in zip(SERIES, chosen, strict=False):
        axes.plot(
            [0.0, *(100 * rate for rate in line.false_rates)],
            [0.0, *(100 * rate for rate in line.true_rates)],
            color=TOKENS[token].light,
            label=f"{100 * line.dose:g} % of facts, AUC {line.auc:.2f}",
        )

    axes.set_xlabel("false alarms, %", fontsize=8)
    axes.set_ylabel("memories seen, %", fontsize=8)
    axes.set_title(f"{chosen[0].windows} windows against a control", fontsize=9, loc="left")
