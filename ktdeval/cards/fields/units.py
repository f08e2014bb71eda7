"""Units of figures, and how they are shown to readers."""

from __future__ import annotations

from msgspec.structs import replace

from ktdeval.cards.fields.words import FigureUnit, read_words
from ktdeval.cards.table_types import UNDEFINED, clean


def is_fraction(unit: str) -> bool:
    """Return whether values of a unit are shown in per cent: `fraction`, a fraction of something
    such as `fraction of answers`, or a fraction per year.
    """
    return unit in ("fraction", "fraction per year") or unit.startswith("fraction of ")


def unit_word(unit: str) -> str:
    """Return the short name of a unit for tables."""
    return clean(unit_of(unit).shown)


def unit_of(unit: str) -> FigureUnit:
    """Return how figures of a unit are shown, including the word printed next to them."""
    units = read_words().units
    if unit in units:
        return units[unit]
    if is_fraction(unit):
        return units["fraction"]

    annualised = units["annualised ratio"]
    if unit.startswith("annualised ratio over "):
        base = unit.removeprefix("annualised ratio ")
        return replace(annualised, shown=f"{annualised.shown}, {base}")

    return replace(units["other"], shown=unit)


def figure_text(unit: str, value: float | None, sign: str = "") -> str:
    """Return a figure formatted for tables, with fractions in per cent. With `sign` set to `+`,
    gains have a plus sign.
    """
    if value is None:
        return UNDEFINED
    if unit == "count":
        return f"{value:,.10g}"

    shown = unit_of(unit)
    return f"{shown.factor * value:{sign}z,.{shown.decimals}f}"  # z: no negative zero
