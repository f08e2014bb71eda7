"""Units of figures, and how readers see them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ktdeval.cards.table_types import UNDEFINED, clean


@dataclass(frozen=True, slots=True)
class FigureUnit:
    """How figures of a unit are shown."""

    shown: str  #: word beside the figure; empty where it has none
    decimals: int
    factor: int = 1  #: by which figures are multiplied


UNITS = {
    "fraction": FigureUnit("%", 2, 100),
    "fraction per year": FigureUnit("% a year", 2, 100),
    "ratio": FigureUnit("", 3),
    "annualised ratio": FigureUnit("annualised", 3),
    "per year": FigureUnit("per year", 2),
    "index": FigureUnit("", 4),
    "probability": FigureUnit("", 4),
    "score": FigureUnit("", 4),
    "count": FigureUnit("", 0),
}
"""Units with a rule of their own; `fraction of …` is shown as `fraction`, and `annualised ratio
over …` as `annualised ratio` with what it is over.
"""

OTHER_DECIMALS = 4  #: Decimals of figures in any other unit, which is shown by its name


def is_fraction(unit: str) -> bool:
    """Whether values are shown in per cent: `fraction`, a fraction of something, as `fraction of
    answers`, or a fraction for a year.
    """
    return unit in ("fraction", "fraction per year") or unit.startswith("fraction of ")


def unit_word(unit: str) -> str:
    """Return the word of a unit for tables."""
    return clean(unit_of(unit).shown)


def unit_of(unit: str) -> FigureUnit:
    """Return how figures of a unit are shown."""
    if unit in UNITS:
        return UNITS[unit]
    if is_fraction(unit):
        return UNITS["fraction"]

    annualised = UNITS["annualised ratio"]
    if unit.startswith("annualised ratio over "):
        base = unit.removeprefix("annualised ratio ")
        return replace(annualised, shown=f"{annualised.shown}, {base}")

    return FigureUnit(unit, OTHER_DECIMALS)


def figure_text(unit: str, value: float | None, sign: str = "") -> str:
    """Return a figure for tables: fractions in per cent. `sign`: `+` shows the sign of gains."""
    if value is None:
        return UNDEFINED
    if unit == "count":
        return f"{value:,.10g}"

    shown = unit_of(unit)
    return f"{shown.factor * value:{sign}z,.{shown.decimals}f}"  # z: no zero below zero
