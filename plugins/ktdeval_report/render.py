"""Figures as people read them, values that templates print, and the printing.

Whatever is not markup already is cleaned and escaped on its way into a page.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ktdeval.cards import (
    clean as one_line,
    count,
    cutoff_words,
    dollars,
    is_fraction,
    price_index,
    rests_on,
    tally,
    uncounted_tokens,
    with_args,
)
from ktdeval.stats import Interval
from ktdeval.yamlio import load_yaml

UNDEFINED = "–"
WORDS: Mapping[str, Mapping[str, str]] = load_yaml(Path(__file__).with_name("words.yaml"))
_MINUS = "\N{MINUS SIGN}"
_DECIMALS = {"per year": 2, "count": 0, "years": 2}
_NARROW = "\N{NARROW NO-BREAK SPACE}"


@dataclass(frozen=True)
class Table:
    """A table to show.

    The first text of each row names it. A row of one cell is a heading of those below it.
    """

    caption: str  # what it shows, in a sentence
    heads: Sequence[object]  # names of the columns; empty for none
    rows: Sequence[Sequence[object]]
    words: int = 1  # how many columns, from the left, hold words; the others hold figures

    @property
    def columns(self) -> int:
        """Count of columns."""
        return max(map(len, [self.heads, *self.rows]))


def clean(text: object) -> str:
    """One line without control and direction characters: a card may come from a stranger, and a page obeys what it shows."""
    return text if isinstance(text, Markup) else one_line(text)


def unbroken(text: str) -> Markup:
    """Words that stay on one line."""
    return Markup('<span class="nb">{}</span>').format(one_line(text))


@functools.cache
def templates() -> Environment:
    """Templates of this package; a name that a template uses and was not given is an error."""
    environment = Environment(
        loader=PackageLoader("ktdeval_report"), autoescape=True, finalize=clean, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    functions = (
        cutoff_words, dollars, ends, figure, p_value, percent, price_index, rests_on, tally, unbroken, uncounted_tokens, unit_name,
        with_args,
    )  # fmt: skip
    environment.filters |= {function.__name__: function for function in functions} | {"counted": count, "thousands": "{:,}".format}
    environment.globals |= {"words": WORDS, "span": span}
    return environment


def render(name: str, **values: Any) -> str:
    """Text of a template with these values."""
    return templates().get_template(name).render(values)


# ---- figures


def figure(value: float | None, unit: str = "ratio", signed: bool = False) -> str:
    """A figure without its unit; fractions in per cent; a dash where there is none."""
    if value is None:
        return UNDEFINED
    scaled, decimals = (100.0 * value, 2) if is_fraction(unit) else (value, _DECIMALS.get(unit, 3))
    text = f"{scaled:{'+' if signed else ''},.{decimals}f}"
    text = text.lstrip("+-") if float(text.replace(",", "")) == 0 else text
    return text.replace("-", _MINUS)


def percent(value: float | None, signed: bool = True) -> str:
    """A fraction in per cent, with the sign of per cent."""
    return UNDEFINED if value is None else f"{figure(value, 'fraction', signed)}{_NARROW}%"


def span(low: float | None, high: float | None, unit: str = "ratio", signed: bool = False) -> str:
    """Two ends, or a dash."""
    return UNDEFINED if low is None or high is None else f"{figure(low, unit, signed)} … {figure(high, unit, signed)}"


def ends(interval: Interval | None, unit: str = "ratio", signed: bool = False) -> str:
    """Both ends of an interval, or a dash."""
    return UNDEFINED if interval is None else span(interval.low, interval.high, unit, signed)


def interval_text(interval: Interval | None, unit: str = "ratio", signed: bool = False) -> str:
    """Both ends of an interval, or the reason why there is none."""
    return f"none: {interval.reason}" if interval and interval.low is None else ends(interval, unit, signed)


def unit_name(unit: str) -> str:
    """Return the unit as shown next to a figure."""
    return "%" if is_fraction(unit) else "" if unit in ("ratio", "index", "probability", "score", "count") else unit


def p_value(value: float | None) -> str:
    """A p-value, or a dash."""
    return UNDEFINED if value is None else "< 0.0001" if value < 1e-4 else f"{value:.4f}" if value < 0.1 else f"{value:.2f}"
