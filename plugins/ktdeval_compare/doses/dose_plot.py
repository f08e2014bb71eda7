"""Plot of the detection limit for memory: premium by dose, smallest detectable dose by number of
windows or probes, and how well studies are separated from a control.
"""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval.cards import count, percent
from ktdeval_compare.doses.dose_response import CurveLine, DoseLine, DoseReport, LimitLine
from ktdeval_pages.marks import (
    LegendEntry,
    Rows,
    Spec,
    below_each_other,
    curves,
    finite,
    lines,
    measure,
    path_rows,
    series_of,
    stroke_at,
    ticks,
    whole_spec,
)
from ktdeval_pages.rendering import renderer, svg_of

_PART = {"width": 400, "height": 190}  # pixels between the axes
_CURVES = (0.001, 0.002, 0.005, 0.01)  # doses that get a curve: the smallest in the study
_DOSES = {dose: percent(dose, "g") for dose in (0.001, 0.01, 0.1, 1.0)}
_COUNTS = {count: str(count) for count in (6, 10, 20, 50, 100, 200, 400)}
_SHARES = {share: f"{share:g}" for share in (0.1, 1, 10, 100)}
_LOG = {"type": "log"}
_CHANCE = LegendEntry("by chance", "other", (4, 2))


def dose_svg(report: DoseReport) -> bytes | None:
    """Return the plot as SVG, or None if vl-convert (in the extra `report`) is not installed or no
    dose is above 0.
    """
    doses = [line for line in report.doses if line.dose > 0]
    if not doses or renderer() is None:
        return None

    parts = [_premium(doses), _limits(report.limits)]
    if report.curves:
        parts.append(_told_apart(report.curves))

    titles = ". ".join(part["title"] for part in parts)
    return svg_of(whole_spec(below_each_other(parts), titles)).encode()


def _premium(doses: Sequence[DoseLine]) -> Spec:
    """Return the mean returns under both masks, and the premium with its interval, for each
    dose.
    """
    x = measure("x", "share of facts that is remembered", _LOG, **ticks(_DOSES))
    y = measure("y", "mean return of a window, %")
    figures = {"premium": "bright less blinded", "bright": "bright", "hidden": "blinded"}
    rows: Rows = []
    for name, words in figures.items():
        rows += path_rows(
            [line.dose for line in doses],
            [100 * getattr(line, name) for line in doses],
            name=words,
        )

    for row, line in zip(rows, doses, strict=False):  # the rows of the premium come first
        row["low"] = finite(line.low, 100)
        row["high"] = finite(line.high, 100)

    layers = [stroke_at(0.0, y, "y"), *curves(rows, x, y, series_of(figures.values()))]
    return {"title": "Premium of a memory by its dose", "layer": layers, **_PART}


def _limits(limits: Sequence[LimitLine]) -> Spec:
    """Return the smallest detectable dose by number of windows and by number of probes."""
    x = measure("x", "windows or probes", {**_LOG, "domain": [6, 400]}, **ticks(_COUNTS))
    shown = {**_LOG, "domain": [0.1, 100]}
    y = measure("y", "smallest share of facts found, %", shown, **ticks(_SHARES))
    rows: Rows = []
    names: dict[str, str] = {}
    for line in limits:
        if line.limit is not None:
            name = names.setdefault(line.detector, f"{line.detector}, by {line.unit}")
            rows += path_rows([line.count], [100 * line.limit], name=name)

    layers = curves(rows, x, y, series_of(names.values()))
    return {"title": "Detection limit at 80 % power", "layer": layers, **_PART}


def _told_apart(every: Sequence[CurveLine]) -> Spec:
    """Return the share of detected studies by false-alarm rate, for the smallest doses."""
    chosen = [line for line in every if line.dose in _CURVES] or list(every[:4])
    x = measure("x", "false alarms, %")
    y = measure("y", "memories seen, %")
    rows: Rows = []
    names = []
    for line in chosen:
        names.append(f"{percent(line.dose, 'g')} of facts, AUC {line.auc:.2f}")
        rows += path_rows(
            [0.0, *(100 * rate for rate in line.false_rates)],
            [0.0, *(100 * rate for rate in line.true_rates)],
            name=names[-1],
        )

    rows += path_rows([0, 100], [0, 100], name=_CHANCE.name)
    title = f"{count(chosen[0].windows, 'window')} against a control"
    drawn = lines(rows, x, y, [*series_of(names), _CHANCE])
    return {"title": title, "layer": [drawn], **_PART}
