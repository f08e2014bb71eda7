"""Definitions of figures from papers: the fields in `figures.yaml`, and the figures by name.

A figure is a table whose rows are drawn. `rows` names the function that computes the rows, as for a
table. `kind` determines the columns (see `ktdeval_compare.papers.figures.vega_specs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import pandas as pd

from ktdeval.errors import ConfigError, UsageError
from ktdeval.registry import PaperTable, TableChoices
from ktdeval.values import from_plain, later, load_yaml, near_matches
from ktdeval_compare.papers.paper_tables import check_choices

Kind = Literal["lines", "forest", "scatter", "gap", "votes"]


class PaperFigure(PaperTable, kw_only=True):
    """A figure of a paper.

    Attributes:
        kind: how the figure is drawn.
        needs: the runs from which the figure is made.
        takes: choices, apart from the runs, that apply to the figure.
        x_title, y_title: titles of the axes, with units.
        band, ends: fields for a band along each line, and for a bar at the line's end.
        max_columns: maximum number of panels side by side.
    """

    kind: Kind
    needs: str
    x_title: str = ""
    y_title: str = ""
    band: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    max_columns: int = 2


@dataclass(frozen=True, kw_only=True)
class FigureChoices(TableChoices):
    """A user's choices for a figure, apart from the figure's name and runs.

    Attributes:
        tasks: names or globs of tasks; only cards of these tasks are used.
        events: ISO days to mark in AMA's Figure 3; by default, they are selected automatically.
    """

    tasks: tuple[str, ...] = ()
    events: tuple[str, ...] = ()


@cache
def known_figures() -> Mapping[str, PaperFigure]:
    """Return all figures by name."""
    where = Path(__file__).with_name("figures.yaml")
    figures = {}
    for name, fields in load_yaml(where).items():
        described = {**fields, "name": name}
        figures[name] = from_plain(described, PaperFigure, f"{where}: {name}", ConfigError)

    return figures


def find_paper_figure(name: str) -> PaperFigure:
    """Return the figure with this name.

    Raises UsageError if the name is unknown.
    """
    known = known_figures()
    if name not in known:
        near = near_matches(name, known) or f"; known are {', '.join(known)}"
        raise UsageError(f"no figure {name!r}{near}; see `ktdeval paper figure`")

    return known[name]


def figure_frame(
    figure: PaperFigure, paths: Sequence[Path], choices: FigureChoices
) -> pd.DataFrame:
    """Return a figure's data, [rows x columns], at full precision. The `notes` in `attrs` are
    printed below the figure.

    Raises UsageError or CardError if the runs lack the data.
    """
    check_choices(figure, choices, _OPTIONS, known_figures())
    frame: pd.DataFrame = later(figure.rows)()(paths, figure, choices)
    return frame


_OPTIONS = {
    "tasks": "--tasks",
    "events": "--event",
    "median": "--median",
    "rules": "--rules",
    "classes": "--class",
    "data": "--data",
}
