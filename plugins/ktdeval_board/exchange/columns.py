"""Columns of a board's data frames: name, type, unit and meaning, read from `columns.csv`."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Frame = Literal["cards", "episodes", "daily", "metrics", "imported"]
FRAMES: tuple[Frame, ...] = ("cards", "episodes", "daily", "metrics", "imported")

Type = Literal["text", "texts", "flag", "count", "counts", "number", "day"]
"""What a column holds: a text, a list of texts, yes or no, an integer, a list of integers, a float, a day. All but lists may be
missing; a list is empty then."""

FRAME_SUMMARIES: dict[Frame, str] = {
    "cards": "one row for each card that was not withdrawn",
    "episodes": "one row for each finished episode: one window, one seed",
    "daily": "one row for each trading day of each episode whose records the board has executed again",
    "metrics": "one row for each metric or score: what it means, and in which unit",
    "imported": "one row for each result of another harness; shown, never ranked",
}


@dataclass(frozen=True)
class Column:
    """A column of a frame."""

    name: str
    type: Type
    meaning: str
    unit: str = ""  #: of its figures; empty where it has none


def columns_of(frame: Frame, metrics: dict[str, str] | None = None) -> tuple[Column, ...]:
    """All columns of a frame, in order."""
    fixed = _FIXED[frame]
    if frame not in ("cards", "episodes"):
        return fixed
    return (*fixed, *(column for name, unit in (metrics or {}).items() for column in metric_columns(name, unit)))


def metric_columns(name: str, unit: str) -> tuple[Column, ...]:
    """Return the columns of one metric."""
    return (
        Column(name, "number", f"{name}: the card's figure or the episode's; missing exactly where a reason says why", unit),
        Column(f"{name}_low", "number", "lower end of its interval; missing where there is none", unit),
        Column(f"{name}_high", "number", "upper end of its interval", unit),
        Column(f"{name}_interval", "text", "how the interval was made, such as interquartile (over episodes) or a bootstrap"),
        Column(f"{name}_n", "count", "what it rests on: episodes of a card, days or orders of an episode, samples", "count"),
        Column(f"{name}_reason", "text", "why the figure is missing"),
    )


def _fixed() -> dict[Frame, tuple[Column, ...]]:
    """Read the columns of each frame that do not depend on the cards' metrics."""
    found: dict[Frame, list[Column]] = {frame: [] for frame in FRAMES}
    with Path(__file__).with_name("columns.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            for frame in row["frames"].split():
                found[frame].append(Column(row["column"], row["type"], row["meaning"], row["unit"]))  # type: ignore[index, arg-type]
    return {frame: tuple(columns) for frame, columns in found.items()}


_FIXED = _fixed()
