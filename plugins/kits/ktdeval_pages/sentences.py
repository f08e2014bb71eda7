"""First sentence of a page, made of the page's figures.

A sentence says no more than its figure: if the interval contains zero, or there is none, nothing is
shown. Of several systems, it says whether the intervals hold for all together, since the best of many
is no finding.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ktdeval.cards import percent

NOTHING = "nothing shown"
_SHARE = "+.1f"


@dataclass(frozen=True, kw_only=True)
class PageFigure:
    """A return, or a difference of two, as fractions, with its interval."""

    value: float | None
    low: float | None = None
    high: float | None = None
    per: str  #: what it is for, such as `a window on average` or `in 43 days`
    over: str  #: what the interval generalises to, such as `over 6 windows`
    against: str = ""  #: what it is compared with; empty for a return
    level: str = "95 % interval"
    reason: str = ""  #: why there is no value or no interval

    @property
    def is_above(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.low is not None and self.high is not None and self.low > 0.0

    @property
    def is_below(self) -> bool:
        """Whether the whole interval lies below zero."""
        return self.low is not None and self.high is not None and self.high < 0.0


def figure_words(figure: PageFigure) -> str:
    """Return a figure with its interval, or why there is none.

    Example: `−3.1 % a window on average, 95 % interval −19.0 % to +13.0 % over 6 windows`
    """
    if figure.value is None:
        return f"no return is defined ({figure.reason})"

    against = f" against {figure.against}" if figure.against else ""
    words = f"{shown_percent(figure.value)} {figure.per}{against}"
    if figure.low is None or figure.high is None:
        return f"{words}, without an interval ({figure.reason})"
    return f"{words}, {figure.level} {shown_percent(figure.low)} to {shown_percent(figure.high)} {figure.over}"


def verdict_words(figure: PageFigure) -> str:
    """Return what a figure shows: a gain, a loss, more or less than what it is compared with, or
    nothing.
    """
    if figure.is_above:
        return f"more than {figure.against}" if figure.against else "a gain"
    if figure.is_below:
        return f"less than {figure.against}" if figure.against else "a loss"
    return NOTHING


def figure_sentence(figure: PageFigure, beside: str = "") -> str:
    """Return the sentence of a page with one figure. `beside` is another figure to read with it."""
    words = figure_words(figure)
    sentence = f"{words[0].upper()}{words[1:]}: {verdict_words(figure)}"
    return f"{sentence}{f'; {beside}' if beside else ''}."


def systems_sentence(
    figures: Sequence[tuple[str, PageFigure]],
    noun: str = "systems",
    on_scale: Collection[str] | None = None,
) -> str:
    """Return the sentence of a page with several systems: those that are shown to be above what they
    are compared with, or that none is, with the best one's figure.

    `noun` is the page's word for systems. `on_scale` has the names among which the best is found, if
    the figures of others have another scale.
    """
    known = [(name, figure) for name, figure in figures if figure.value is not None]
    if not known:
        return f"None of {len(figures)} {noun} has a return: nothing shown."
    if len(known) == 1:
        ((name, figure),) = known
        return f"{name}: {figure_words(figure)}: {verdict_words(figure)}."

    ranked = [one for one in known if on_scale is None or one[0] in on_scale]
    name, best = max(ranked or known, key=lambda one: one[1].value or 0.0)
    against = best.against or "zero"
    above = [name for name, figure in known if figure.is_above]
    if not above:
        return (
            f"None of {len(known)} {noun} is shown to be above {against}: the best,"
            f" {name}, is at {figure_words(best)}."
        )
    verb = "is" if len(above) == 1 else "are"
    return (
        f"{len(above)} of {len(known)} {noun} {verb} above {against}: {', '.join(above)};"
        f" the best, {name}, is at {figure_words(best)}."
    )


def shown_percent(value: float) -> str:
    """Return a fraction in per cent as sentences write it, such as `−3.1 %`, kept on one line."""
    text = percent(value, _SHARE)
    return text.replace("-", "\N{MINUS SIGN}").replace(" ", "\N{NO-BREAK SPACE}")
