"""Plot of capacity curves: mean returns net of costs, by capital, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval.runner import CapitalLine, TransplantFile
from ktdeval_pages.marks import (
    Rows,
    Spec,
    below_each_other,
    curves,
    finite,
    measure,
    series_of,
    stroke_at,
    whole_spec,
)
from ktdeval_pages.rendering import renderer, svg_of

_MEASURES = {
    "total_return": "return",
    "excess_return": "excess over the benchmark",
    "net_selection": "selection net of costs",
}


def curve_svg(file: TransplantFile) -> bytes | None:
    """Return the plot as SVG, with one panel per task that has returns. None if no task has any, or
    if vl-convert (in the extra `report`) is not installed.
    """
    if renderer() is None:
        return None

    parts = []
    for task in dict.fromkeys(line.task for line in file.lines):
        own = [line for line in file.lines if line.task == task]
        if all(getattr(line, name).value is None for line in own for name in _MEASURES):
            continue

        parts.append({**_curves(own), "title": f"{task}: {file.model}, transplanted"})

    if not parts:
        return None

    titles = ". ".join(part["title"] for part in parts)
    return svg_of(whole_spec(below_each_other(parts), titles)).encode()


def _curves(capitals: Sequence[CapitalLine]) -> Spec:
    """Return the curves for one task, in per cent, in ascending order of capital."""
    rows: Rows = []
    for name, words in _MEASURES.items():
        for line in capitals:
            mean = getattr(line, name)
            if mean.value is not None:
                row = {"name": words, "x": line.capital, "y": finite(mean.value, 100)}
                rows.append({**row, "low": finite(mean.low, 100), "high": finite(mean.high, 100)})

    drawn = {row["name"] for row in rows}
    series = [one for one in series_of(_MEASURES.values()) if one.name in drawn]
    x = measure("x", f"capital, {capitals[0].currency}", {"type": "log"}, format="~s")
    y = measure("y", "mean over windows, %; bands: 95 % intervals")
    layers = [stroke_at(0.0, y, "y"), *curves(rows, x, y, series)]
    return {"layer": layers, "width": 400, "height": 200}
