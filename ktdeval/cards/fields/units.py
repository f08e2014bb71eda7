"""Units of figures, and how readers see them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ktdeval.cards.table import UNDEFINED, clean


@dataclass(frozen=True, slots=True)
class Unit:
    """How figures of a unit are shown."""

    shown: str  #: word beside the figure; empty where it has none
    decimals: int
    factor: int = 1  #: by which figures are multiplied


UNITS = {
    "fraction": Unit("%", 2, 100),
    "fraction per year": Unit("% a year", 2, 100),
    "ratio": Unit("", 3),
    "annualised ratio": Unit("annualised", 3),
    "per year": Unit("per year", 2),
    "index": Unit("", 4),
    "probability": Unit("", 4),
    "score": Unit("", 4),
    "count": Unit("", 0),
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


def unit_of(unit: str) -> Unit:
    """Return how figures of a unit are shown."""
    if unit in UNITS:
        return UNITS[unit]
    if is_fraction(unit):
        return UNITS["fraction"]

    annualised = UNITS["annualised ratio"]
    if unit.startswith("annualised ratio over "):
        base = unit.removeprefix("annualised ratio ")
        return replace(annualised, shown=f"{annualised.shown}, {base}")

    return Unit(unit, OTHER_DECIMALS)


def figure_text(unit: str, value: float | None, sign: str = "") -> str:
    """Return a figure for tables: fractions in per cent. `sign`: `+` shows the sign of gains."""
    if value is None:
        return UNDEFINED
    if unit == "count":
        return f"{value:,.10g}"

    shown = unit_of(unit)
    return f"{shown.factor * value:{sign}z,.{shown.decimals}f}"  # z: no zero below zero
