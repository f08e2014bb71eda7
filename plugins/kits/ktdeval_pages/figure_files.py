"""Files of matplotlib figures whose bytes depend on what is drawn alone."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DIGITS = 4  #: of a position, a share of the figure's width or height


def fix_layout(figure: Figure) -> None:
    """Lay a figure with `layout="constrained"` out, and keep the places it found, rounded.

    The solver behind that layout orders its variables by their addresses in memory, so equal figures
    differ in the last digits of their places.
    """
    engine = figure.get_layout_engine()
    if engine is None:
        raise ValueError("the figure has no layout")
    engine.execute(figure)
    figure.set_layout_engine("none")

    for part in figure.subfigs:
        part.bbox_relative.set_points(part.bbox_relative.get_points().round(_DIGITS))
    for axes in figure.get_axes():
        box = axes.get_position(original=True)
        box.set_points(box.get_points().round(_DIGITS))
        axes.set_position(box)


def svg_of(figure: Figure) -> bytes:
    """Return a figure with `layout="constrained"` as SVG, without dates and versions. Whoever draws
    sets `svg.hashsalt`.
    """
    fix_layout(figure)
    sink = io.BytesIO()
    metadata = dict.fromkeys(["Date", "Creator", "Format", "Type"])
    figure.savefig(sink, format="svg", metadata=metadata)

    return sink.getvalue()
