"""Formats figures as text for pages that are written without a script."""

from __future__ import annotations

from ktdeval.cards import is_fraction
from ktdeval_pages.page_words import WORDS

UNDEFINED = WORDS.undefined
_MINUS = "\N{MINUS SIGN}"
_DECIMALS = {"per year": 2, "count": 0, "years": 2}
_NARROW = "\N{NARROW NO-BREAK SPACE}"


def figure(value: float | None, unit: str = "ratio", signed: bool = False) -> str:
    """Return a figure without its unit. Fractions are in per cent, and None becomes a dash."""
    if value is None:
        return UNDEFINED

    decimals = _DECIMALS.get(unit, 3)
    if is_fraction(unit):
        value = 100.0 * value
        decimals = 2

    sign = "+" if signed else ""
    text = f"{value:{sign},.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        text = text.lstrip("+-")  # a figure that rounds to zero has no sign

    return text.replace("-", _MINUS)


def percent(value: float | None, signed: bool = True) -> str:
    """Return a fraction in per cent, including the % sign; None becomes a dash."""
    if value is None:
        return UNDEFINED
    return f"{figure(value, 'fraction', signed)}{_NARROW}%"


def span(low: float | None, high: float | None, unit: str = "ratio", signed: bool = False) -> str:
    """Return the two ends of a range, or a dash if one of them is None."""
    if low is None or high is None:
        return UNDEFINED
    return f"{figure(low, unit, signed)} … {figure(high, unit, signed)}"
