"""Words for figures."""

from __future__ import annotations

from collections.abc import Sequence

NONE = "–"


def percent(value: float | None, signed: bool = False) -> str:
    """Return a fraction in per cent, with two digits after the point."""
    if value is None:
        return NONE
    return f"{100 * value:+.2f} %" if signed else f"{100 * value:.2f} %"


def money(value: float | None, signed: bool = False) -> str:
    """Return an amount to the cent."""
    if value is None:
        return NONE
    value = round(value, 2) + 0.0  # no minus before a zero
    return f"{value:+,.2f}" if signed else f"{value:,.2f}"


def number(value: float | None, digits: int = 2, signed: bool = False) -> str:
    """Return a number."""
    if value is None:
        return NONE
    text = f"{round(value, digits) + 0.0:.{digits}f}"
    return f"+{text}" if signed and value >= 0 else text


def count_words(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 pair` or `3 pairs`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def list_words(items: Sequence[str]) -> str:
    """Return items as a list in words."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
