"""Formats figures as text, builds tables, and renders the page's templates.

Every printed value that is not markup is cleaned and escaped.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from ktdeval.cards import (
    card_words,
    clean as one_line,
    correlation_words,
    count,
    cutoff_words,
    dollars,
    metric_word,
    price_index,
    rests_on,
    served_words,
    tally,
    uncounted_tokens,
    unit_word,
    with_args,
)
from ktdeval.stats import Interval
from ktdeval.values import load_yaml
from ktdeval_pages.page_templates import make_environment
from ktdeval_pages.page_words import WORDS as WORDS_OF_PAGES
from ktdeval_pages.value_formatting import (
    UNDEFINED as UNDEFINED,
    figure as figure,
    percent as percent,
    span as span,
)

WORDS: Mapping[str, Mapping[str, str]] = load_yaml(Path(__file__).with_name("words.yaml"))


@dataclass(frozen=True)
class PageTable:
    """A table on the page.

    The first cell of each row is the row's name. A row with only one cell is a heading for the rows
    below it.
    """

    caption: str
    heads: Sequence[object]  # column headings; empty for none
    rows: Sequence[Sequence[object]]
    words: int = 1  # number of text columns, counted from the left; the other columns hold figures

    @property
    def columns(self) -> int:
        """Number of columns."""
        return max(map(len, [self.heads, *self.rows]))


def clean(text: object) -> str:
    """Return the text as a single line without control and bidirectional characters, which an
    untrusted card may contain.
    """
    return text if isinstance(text, Markup) else one_line(text)


def unbroken(text: str) -> Markup:
    """Return text that does not break across lines."""
    return Markup('<span class="nb">{}</span>').format(one_line(text))


def metric_name(name: str) -> Markup | str:
    """Return a metric's name as text; an abbreviation has its meaning as a tooltip."""
    words = metric_word(name)
    if words == name:
        return name

    meaning = card_words()["metrics"][name]["meaning"]
    return Markup('<abbr title="{}">{}</abbr>').format(meaning, words)


@functools.cache
def templates() -> Environment:
    """Return the templates of this package."""
    environment = make_environment("ktdeval_report", finalize=clean)
    functions = (
        correlation_words,
        cutoff_words,
        dollars,
        ends,
        figure,
        metric_name,
        p_value,
        percent,
        price_index,
        rests_on,
        served_words,
        tally,
        unbroken,
        uncounted_tokens,
        unit_name,
        with_args,
    )
    environment.filters |= {function.__name__: function for function in functions} | {
        "counted": count,
        "thousands": "{:,}".format,
    }
    environment.globals |= {"words": WORDS_OF_PAGES, "span": span}

    return environment


def render(name: str, **values: Any) -> str:
    """Return a template rendered with these values."""
    return templates().get_template(name).render(values)


# ---- figures


def ends(interval: Interval | None, unit: str = "ratio", signed: bool = False) -> str:
    """Return both ends of an interval, or a dash."""
    if interval is None:
        return UNDEFINED
    return span(interval.low, interval.high, unit, signed)


def interval_text(interval: Interval | None, unit: str = "ratio", signed: bool = False) -> str:
    """Return both ends of an interval, or the reason why it is missing."""
    if interval and interval.low is None:
        return f"none: {interval.reason}"
    return ends(interval, unit, signed)


def unit_name(unit: str) -> str:
    """Return the unit as shown next to a figure."""
    return unit_word(unit)


def p_value(value: float | None) -> str:
    """Return a p-value, or a dash."""
    if value is None:
        return UNDEFINED
    if value < 1e-4:
        return "< 0.0001"
    if value < 0.1:
        return f"{value:.4f}"
    return f"{value:.2f}"
