"""Numbers in prose: codes and dates against prices, amounts and counts.

`IdentityIndex` reads numbers as a guard must: a number that could be a code or a year is one. In a model's own words `a close of
2015` and `cash 600519` are figures, which a linter must not count. The words around a number decide; `numbers.txt` has them.
"""

from __future__ import annotations

import re

from ktdeval.masking import is_amount
from ktdeval_rationale.phrases import read_patterns

_NEAR = 48
_PATTERNS = read_patterns("numbers.txt")
_BARE_YEAR = re.compile(r"(?:199|20[0-3])[0-9]s?")
_MONTH_AND_NUMBER = re.compile(r"[A-Za-z]+\.?[ -]([0-9]{1,2})")
_BARE_CODE = re.compile(r"[0-9]{6}")

FOREIGN_CODES, CALENDAR_WORDS = _PATTERNS["foreign_code"], _PATTERNS["calendar"]
"""Codes of other exchanges, and quarters or halves of a year without the year."""


def is_code_here(folded: str, start: int, end: int) -> bool:
    """Whether a number in the form of a code is one: next to a word of quantity it is an amount, `0.600519` is a decimal number."""
    if folded.startswith("0.", start):
        return False
    if not _BARE_CODE.fullmatch(folded, start, end):
        return True
    return not (is_amount(folded, start, end) or _is_figure(folded, start, end))


def is_date_here(folded: str, start: int, end: int) -> bool:
    """Whether a text in the form of a date is one, and not a price such as 2015, nor a month's name before another number."""
    if _BARE_YEAR.fullmatch(folded, start, end):
        is_sure = _begins("year_after", folded, end)
        return is_sure or not (_ends("price_before", folded, start) or _is_figure(folded, start, end))
    month = _MONTH_AND_NUMBER.fullmatch(folded, start, end)
    return month is None or not (_begins("no_day_after", folded, end) or is_amount(folded, *month.span(1)))


def _is_figure(folded: str, start: int, end: int) -> bool:
    return _begins("figure_after", folded, end) or _ends("figure_before", folded, start)


def _begins(kind: str, folded: str, at: int) -> bool:
    """Whether words of a kind begin at an offset."""
    return any(pattern.match(folded, at) for pattern in _PATTERNS[kind])


def _ends(kind: str, folded: str, at: int) -> bool:
    """Whether words of a kind end at an offset."""
    return any(pattern.search(folded, max(0, at - _NEAR), at) for pattern in _PATTERNS[kind])
