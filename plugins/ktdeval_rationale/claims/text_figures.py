"""Figures in a text: numbers with their unit, precision and position, excluding numbers that are
part of names.

Handles (`asset_0042`), windows (`20-day`), dates, ordinals and list numbers are not figures. The
tolerance of a figure is half a unit of its last printed digit: `6.9 %` means 6.85 to 6.95.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_SCALES = {
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "mn": 1e6,
    "mio": 1e6,
    "million": 1e6,
    "b": 1e9,
    "bn": 1e9,
    "billion": 1e9,
    "tn": 1e12,
    "trillion": 1e12,
    "千": 1e3,
    "万": 1e4,
    "百万": 1e6,
    "千万": 1e7,
    "亿": 1e8,
    "万亿": 1e12,
}
_PERCENT = (
    "%",
    "percent",
    "per cent",
    "pct",
    "percentage points",
    "percentage point",
    "个百分点",
    "百分点",
)
_BASIS_POINTS = ("bps", "bp", "basis points", "basis point", "个基点", "基点")

_BODY = r"(?:\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,15})?|\d{1,20}(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?|\.\d{1,15})"
_CURRENCY = r"(?:[$¥€£]|(?:CNY|USD|RMB|EUR|HKD|US\$)\s?)"
_UNIT = (
    r"(?:\s?(?:%|per\s?cent(?:age points?)?\b|pct\b|bps?\b|basis points?\b|个?百分点|个?基点)"
    r"|\s?(?:thousand|mn|mio|million|bn|billion|tn|trillion)\b|\s?(?:万亿|千万|百万|千|万|亿)"
    r"|[kKmMbB](?![A-Za-z]))"
)
# A digit is part of a name if it follows a letter, an underscore or a point, or a sign after a
# word.
_START = r"(?<![A-Za-z0-9_.,])(?<![A-Za-z0-9_)][+\-])"
FIGURE = re.compile(
    rf"{_START}(?P<sign>[-+])?(?P<money>{_CURRENCY})?(?P<body>{_BODY})(?P<unit>{_UNIT})?"
    r"(?![A-Za-z_]|\d)"
)
_RANGE_END = re.compile(
    rf"\s?(?:-|~|至|到)\s?(?P<money>{_CURRENCY})?(?P<body>{_BODY})(?P<unit>{_UNIT})?(?![A-Za-z_]|\d)(?P<sign>)"
)
_BETWEEN = re.compile(r"\bbetween\s$|(?:介于|在)$")

_NAMES = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}"  # dates
    r"|\d{1,4}\s?[年月日号](?:\d{1,2}[月日号])*"
    r"|\b\d{1,2}:\d{2}(?::\d{2})?\b"
    r"|\b\d+(?:st|nd|rd|th)\b"
    r"|(?:#|No\.\s?|第)\d+"
    r"|(?m:^\s*\(?\d{1,2}[.)、](?=\s))"  # numbers of a list
    r"|\(\d{1,2}\)(?=\s?[A-Za-z\u4e00-\u9fff])"
)
_WINDOW = re.compile(
    r"(?<![A-Za-z0-9_.])(?P<n>\d+)(?:[\s-]?(?:trading[\s-])?(?P<en>days?|weeks?|months?|years?|sessions?|bars?|[dD])\b"
    r"|\s?个?(?P<zh>交易日|日|天|周|个月|年))(?!\d)"
)
_NUMBER_WORDS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "ten": 10,
    "twenty": 20,
    "sixty": 60,
}
_WORD_WINDOW = re.compile(
    rf"\b(?P<n>{'|'.join(_NUMBER_WORDS)})[\s-](?:trading[\s-])?(?:days?|sessions?)\b", re.IGNORECASE
)
_LONGER = {"week": 5, "month": 21, "year": 252, "周": 5, "个月": 21, "年": 252}


@dataclass(frozen=True, slots=True)
class TextFigure:
    """A figure in a text, or a range between two figures."""

    value: float  #: scaled value: `3.9万` is 39,000; `%` and `bps` are in per cent
    half_unit: float  #: half a unit of the last printed digit, scaled in the same way
    is_percent: bool
    is_signed: bool  #: whether a plus or minus is printed
    is_money: bool
    significant: int  #: number of significant digits printed
    span: tuple[int, int]  #: offsets in the normalised text
    text: str
    high: float | None = None  #: upper end of a range; None for a single number

    def matches(self, number: float, slack: float = 0.0) -> bool:
        """Return whether a number could be printed as this figure, either rounded to the last digit
        or truncated after it. `slack` is half a unit of the number's own last digit.
        """
        if self.high is not None:
            room = self.half_unit + slack
            return self.value - room <= number <= self.high + room

        off = abs(number) - abs(self.value)
        if number * self.value < 0:
            return abs(number - self.value) <= self._room(slack)
        # Truncated digits make a number look nearer to zero.
        return -self._room(slack) <= off <= max(self._room(slack), self._cut_room())

    def rounds(self, number: float) -> bool:
        """Return whether a number rounds to this figure at the figure's printed precision."""
        if self.high is not None:
            return self.matches(number)
        return abs(number - self.value) <= self._room(0.0)

    def _room(self, slack: float) -> float:
        return max(self.half_unit, slack) * (1 + 1e-9) + 1e-12

    def _cut_room(self) -> float:
        # A whole number is not accepted as the truncation of a number that is nearly 1 higher.
        is_whole = self.half_unit >= 0.5
        return self.half_unit if is_whole else 2 * self.half_unit * (1 - 1e-9)


def normalise_text(text: str) -> str:
    """Return a text with uniform digits, signs and marks: `－３．２％` becomes `-3.2%`."""
    plain = unicodedata.normalize("NFKC", text)
    for dash in "−–—‐‑‒":
        plain = plain.replace(dash, "-")

    # Long runs of spaces would slow down the patterns for claims.
    plain = re.sub(r"[^\S\n]+", " ", plain).replace("’", "'").replace("＝", "=")
    return re.sub(r"百分之(\d+(?:\.\d+)?)", r"\1%", plain)


def windows(text: str) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield the span and the trading days of each length of time in a normalised text."""
    for match in _WINDOW.finditer(text):
        unit = (match["en"] or match["zh"] or "").rstrip("s")
        yield match.span(), int(match["n"][:6]) * _LONGER.get(unit, 1)
    for match in _WORD_WINDOW.finditer(text):
        yield match.span(), _NUMBER_WORDS[match["n"].lower()]


def text_figures(text: str) -> list[TextFigure]:
    """Return the figures of a normalised text, in order."""
    taken = [match.span() for match in _NAMES.finditer(text)]
    taken += [span for span, _ in windows(text)]
    figures: list[TextFigure] = []
    at = 0
    while match := FIGURE.search(text, at):
        start, end = match.span()
        at = end
        if any(start < last and first < end for first, last in taken):
            continue

        figure = _figure(match)
        tail = _RANGE_END.match(text, end)
        if tail is not None and not any(
            first < tail.end() and tail.start("body") < last for first, last in taken
        ):
            high = _figure(tail)
            if high.value > figure.value:
                figure = _join_range(figure, high, text)
                at = tail.end()

        if figures and _are_between(text, figures[-1], figure):
            figures[-1] = _join_range(figures[-1], figure, text)
        else:
            figures.append(figure)

    return figures


def printed_numbers(text: str) -> list[tuple[float, float]]:
    """Return the numbers in a text that was shown, each with half a unit of its last digit."""
    numbers: list[tuple[float, float]] = []
    for match in FIGURE.finditer(text):
        figure = _figure(match)
        numbers.append((figure.value, figure.half_unit))

    return numbers


def _figure(match: re.Match[str]) -> TextFigure:
    body = match["body"].replace(",", "")
    unit = (match["unit"] or "").strip()
    scale = _SCALES.get(unit, _SCALES.get(unit.lower(), 1.0))
    if unit.lower() in _BASIS_POINTS:
        scale = 0.01

    value = float(body) * scale
    mantissa, _, exponent = body.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    half_unit = 0.5 * 10.0 ** (int(exponent or 0) - decimals) * scale
    if match["sign"] == "-":
        value = -value

    digits = mantissa.replace(".", "").lstrip("0")
    return TextFigure(
        value=value,
        half_unit=half_unit,
        is_percent=unit.lower() in _PERCENT or unit.lower() in _BASIS_POINTS,
        is_signed=match["sign"] is not None,
        is_money=match["money"] is not None,
        significant=max(1, len(digits)),
        span=match.span(),
        text=match[0],
    )


def _are_between(text: str, low: TextFigure, high: TextFigure) -> bool:
    """Return whether two figures are the ends of a range such as `between 20 and 30`."""
    if low.high is not None or high.high is not None or high.value <= low.value:
        return False
    if text[low.span[1] : high.span[0]].strip() not in ("and", "和", "与"):
        return False
    return _BETWEEN.search(text[: low.span[0]]) is not None


def _join_range(low: TextFigure, high: TextFigure, text: str) -> TextFigure:
    value = low.value
    half_unit = low.half_unit
    # `20-30k` scales both ends.
    is_scaled = high.value > 0 and high.text[-1:] in "kKmMbB万亿千" and low.text[-1:].isdigit()
    if is_scaled:
        factor = _SCALES.get(high.text[-1:], _SCALES.get(high.text[-1:].lower(), 1.0))
        value *= factor
        half_unit *= factor

    span = (low.span[0], high.span[1])
    return TextFigure(
        value=value,
        half_unit=max(half_unit, high.half_unit),
        is_percent=low.is_percent or high.is_percent,
        is_signed=low.is_signed,
        is_money=low.is_money or high.is_money,
        significant=min(low.significant, high.significant),
        span=span,
        text=text[slice(*span)],
        high=high.value,
    )
