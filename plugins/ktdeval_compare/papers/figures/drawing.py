"""Figures as SVG, rendered from their Vega-Lite specs, with notes below."""

from __future__ import annotations

import textwrap

import pandas as pd

from ktdeval.cards import clean
from ktdeval_compare.papers.figures.definitions import PaperFigure
from ktdeval_compare.papers.figures.vega_specs import vega_spec
from ktdeval_compare.papers.table_writing import notes_of
from ktdeval_pages.marks import light
from ktdeval_pages.rendering import require_renderer, svg_of

_LETTERS = 120  #: maximum number of characters per line of notes
_NOTES = {"anchor": "start", "fontSize": 10, "fontWeight": 400, "offset": 10}


def figure_svg(figure: PaperFigure, frame: pd.DataFrame) -> bytes:
    """Return a figure as SVG, with a legend above and notes below.

    Raises UsageError if vl-convert (extra `report`) is not installed.
    """
    require_renderer("an SVG")
    spec = vega_spec(figure, frame)
    head = {name: spec.pop(name) for name in ("$schema", "description", "config", "title")}
    lines: list[str] = []
    if "reference" in frame.attrs:
        lines.append(f"a stroke: {clean(str(frame.attrs['reference']))}")
    for note in notes_of(frame):
        lines += textwrap.wrap(clean(note), _LETTERS, subsequent_indent="  ")

    notes = {"text": lines, "orient": "bottom", "color": light("muted"), **_NOTES}
    return svg_of({**head, "vconcat": [{**spec, "title": notes}]}).encode()
