"""Figures as people read them."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.stats import Interval

UNDEFINED = "–"
_MINUS = "\N{MINUS SIGN}"
_DECIMALS = {"per year": 2, "count": 0, "years": 2}
_NARROW = "\N{NARROW NO-BREAK SPACE}"


def figure(value: float | None, unit: str = "ratio", signed: bool = False) -> str:
    """A figure without its unit; fractions in per cent; a dash where there is none."""
    if value is None:
        return UNDEFINED
    scaled, decimals = (100.0 * value, 2) if unit == "fraction" else (value, _DECIMALS.get(unit, 3))
    text = f"{scaled:{'+' if signed else ''},.{decimals}f}"
    text = text.lstrip("+-") if float(text.replace(",", "")) == 0 else text
    return text.replace("-", _MINUS)


def percent(value: float | None, signed: bool = True) -> str:
    """A fraction in per cent, with the sign of per cent."""
    return UNDEFINED if value is None else f"{figure(value, 'fraction', signed)}{_NARROW}%"


def span(low: float | None, high: float | None, unit: str = "ratio", signed: bool = False) -> str:
    """Two ends, or a dash."""
    return UNDEFINED if low is None or high is None else f"{figure(low, unit, signed)} … {figure(high, unit, signed)}"


def interval_text(interval: Interval | None, unit: str = "ratio", signed: bool = False) -> str:
    """Both ends of an interval, or the reason why there is none."""
    if interval is None:
        return UNDEFINED
    return f"none: {interval.reason}" if interval.low is None else span(interval.low, interval.high, unit, signed)


def unit_name(unit: str) -> str:
    """Return the unit as shown beside a figure."""
    return {"fraction": "%", "ratio": "", "index": "", "probability": "", "score": "", "count": ""}.get(unit, unit)


def count(number: int, noun: str) -> str:
    """`1 episode`, `1,200 episodes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tally(counts: Mapping[str, int]) -> str:
    """`schema 12, bad_json 4`, most frequent first; `none` when all are zero."""
    present = sorted(((number, name) for name, number in counts.items() if number), key=lambda pair: (-pair[0], pair[1]))
    return ", ".join(f"{name} {number:,}" for number, name in present) or "none"


def p_value(value: float | None) -> str:
    """A p-value, or a dash."""
    return UNDEFINED if value is None else "< 0.0001" if value < 1e-4 else f"{value:.4f}" if value < 0.1 else f"{value:.2f}"
