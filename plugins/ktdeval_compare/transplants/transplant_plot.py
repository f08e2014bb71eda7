"""Capacity curves as a plot: mean returns net of costs by capital, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktdeval.runner import CapitalLine, TransplantFile
from ktdeval_pages.colours import SERIES, TOKENS
from ktdeval_pages.figure_files import svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MEASURES = {
    "total_return": "return",
    "excess_return": "excess over the benchmark",
    "net_selection": "selection net of costs",
}
_WIDTH = 6.4
_HEIGHT = 3.6  # of each task, in inches


def curve_svg(file: TransplantFile) -> bytes | None:
    """Return the plot as SVG, one part for each task; None without matplotlib, which is an extra
    (`report`).
    """
    try:
        import matplotlib  # noqa: PLC0415 - heavy, and an extra
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        return None

    tasks = list(dict.fromkeys(line.task for line in file.lines))
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        # equal figures give equal bytes
        matplotlib.rcParams.update({"svg.hashsalt": "ktdeval", "svg.fonttype": "path"})
        drawn = Figure(figsize=(_WIDTH, _HEIGHT * len(tasks)), layout="constrained")
        parts = drawn.subplots(len(tasks), 1, squeeze=False)[:, 0]
        for task, axes in zip(tasks, parts, strict=True):
            own = [line for line in file.lines if line.task == task]
            _draw(axes, own)
            axes.set_title(f"{task}: {file.model}, transplanted", fontsize=9, loc="left")

        return svg_of(drawn)


def _draw(axes: Axes, lines: Sequence[CapitalLine]) -> None:
    """Draw the curves of one task, ascending by capital."""
    axes.axhline(0.0, color=TOKENS["other"].light, linewidth=0.8)
    for token, (name, words) in zip(SERIES, _MEASURES.items(), strict=False):
        colour = TOKENS[token].light
        known = [(line.capital, getattr(line, name)) for line in lines]
        known = [(capital, mean) for capital, mean in known if mean.value is not None]
        if not known:
            continue

        capitals = [capital for capital, _ in known]
        axes.plot(
            capitals,
            [100 * mean.value for _, mean in known],
            marker="o",
            markersize=3,
            color=colour,
            label=words,
        )
        sure = [(capital, mean) for capital, mean in known if mean.low is not None]
        if sure:
            axes.fill_between(
                [capital for capital, _ in sure],
                [100 * mean.low for _, mean in sure],
                [100 * mean.high for _, mean in sure],
                color=colour,
                alpha=0.12,
                linewidth=0,
            )

    axes.set_xscale("log")
    axes.set_xlabel(f"capital, {lines[0].currency}", fontsize=8)
    axes.set_ylabel("mean over windows, %", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8, frameon=False)
