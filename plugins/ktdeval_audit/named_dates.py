"""Days that a text names, as periods: a day, a week, a month, a quarter, a half, or a year.

Spans come from the finder of the masks, which knows many spellings. This module says which period a
span means. One that names no year (`Mar 3rd`), or that two countries read differently, is read as
the earliest day that it can mean, or not at all: an audit must not accuse without need.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Literal

from ktdeval.market import NO_MARKET
from ktdeval.masking import identities_of, normalise

Unit = Literal["day", "week", "month", "quarter", "half", "year"]

_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = r"(?P<n>jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.?"
_YEAR = r"(?P<y>(?:19|20)[0-9]{2})"
_SHORT_YEAR = r"'?(?P<s>[0-9]{2})"
_ANY_YEAR = rf"(?:{_YEAR}|{_SHORT_YEAR})"
_DAY = r"(?P<d>[0-3]?[0-9])(?:st|nd|rd|th)?"
_JOIN = r"[ ,./_-]{0,3}(?:of |day of )?"
_FISCAL = r"(?:FY|CY|fiscal|calendar)?(?: year)? ?"
_ORDINALS = {
    "first": 1,
    "second": 2,
    "third": 3,
    "fourth": 4,
    "1st": 1,
    "2nd": 2,
    "3rd": 3,
    "4th": 4,
}
_ORDINAL = rf"(?P<o>{'|'.join(_ORDINALS)})"
_PIVOT = 70  # two digits below it are a year of this century
_LONGEST_CONTEXT = 64
_MOST_TEXTS = 4096


@dataclass(frozen=True, slots=True)
class NamedDate:
    """A period that a text names."""

    start: int  #: offset of its first character
    end: int
    first: date  #: its first day, the earliest that the words can mean
    unit: Unit


@dataclass(frozen=True)
class _Form:
    """One spelling, and what it means."""

    unit: Unit
    pattern: re.Pattern[str]


def _form(unit: Unit, text: str) -> _Form:
    return _Form(unit, re.compile(text, re.IGNORECASE))


# In order: the first that matches the whole span is taken.
_FORMS: Sequence[_Form] = (
    _form(
        "day", rf"{_YEAR}[-/._]?(?P<m>[01]?[0-9])[-/._]?(?P<d>[0-3]?[0-9])(?:[T ]?[0-9]{{2}}.*)?"
    ),
    _form("day", rf"{_YEAR} ?年 ?(?P<m>[01]?[0-9]) ?月 ?(?P<d>[0-3]?[0-9]) ?[日号]?"),
    _form("day", rf"{_NAME}{_JOIN}(?:the )?{_DAY}[ ,./_-]{{1,3}}(?:of )?{_ANY_YEAR}"),
    _form("day", rf"(?:the )?{_DAY}{_JOIN}{_NAME},?{_JOIN}{_ANY_YEAR}"),
    _form("day", rf"(?P<a>[0-3]?[0-9])(?P<x>[-/.])(?P<b>[0-3]?[0-9])(?P=x){_ANY_YEAR}"),
    _form("week", rf"{_YEAR}[ -]?W(?P<w>[0-5]?[0-9])(?:-?[1-7])?"),
    _form("week", rf"(?:W|CW|KW|week ?)(?P<w>[0-5]?[0-9])[ ,/-]{{1,2}}{_YEAR}"),
    _form("quarter", rf"F?Q(?P<q>[1-4])[ /.'_-]{{0,2}}(?:of )?{_FISCAL}{_ANY_YEAR}"),
    _form("quarter", rf"F?(?P<q>[1-4])Q[ /.'_-]{{0,2}}{_FISCAL}{_ANY_YEAR}"),
    _form("quarter", rf"{_FISCAL}{_ANY_YEAR}[ '/_-]?(?:Q(?P<q>[1-4])|(?P<r>[1-4])Q)"),
    _form("quarter", rf"{_ORDINAL} quarter (?:of|in) {_ANY_YEAR}"),
    _form("quarter", rf"{_YEAR} ?年 ?第? ?(?P<q>[一二三四1-4]) ?季度?"),
    _form("half", rf"H(?P<h>[12])[ /.'_-]{{0,2}}(?:of )?{_FISCAL}{_ANY_YEAR}"),
    _form("half", rf"(?P<h>[12])H[ /.'_-]{{0,2}}{_FISCAL}{_ANY_YEAR}"),
    _form("half", rf"{_FISCAL}{_ANY_YEAR}[ '/_-]?H(?P<h>[12])"),
    _form("half", rf"{_ORDINAL} half (?:of|in) {_ANY_YEAR}"),
    _form("month", rf"{_YEAR}[-/._]?(?P<m>0[1-9]|1[0-2])"),
    _form("month", rf"{_YEAR} ?年 ?(?P<m>[01]?[0-9]) ?月"),
    _form("month", rf"(?P<m>[01]?[0-9])[/-]{_YEAR}"),
    _form("month", rf"{_NAME}[ ,./_'-]{{0,3}}(?:of )?(?:{_YEAR}|'(?P<s>[0-9]{{2}}))"),
    _form("month", rf"{_YEAR}[ ,./_-]{{0,2}}{_NAME}"),
    _form("year", rf"(?:FY|CY|Y|in|since|of|fiscal|year)?[ '-]{{0,2}}{_YEAR}(?: ?年)?[EAF]?"),
)
_EPOCH = re.compile(r"(1[0-9]{9})(?:[0-9]{3})?")
_CHINESE_DIGITS = {"一": 1, "二": 2, "三": 3, "四": 4}
# What stands around a number of JSON, which is a year or a compact day only by chance.
_JSON_BEFORE = re.compile(r"[\[,:] ?-?\Z")
_JSON_AFTER = re.compile(r" ?[,\]}]")
_JOINED = re.compile(r"[0-9][-/]\Z")
_QUANTITY_KEY = re.compile(
    r'"[^"]*(?:vol|amount|shares|qty|quantity|turnover|cap|value|cash|count|id)[^"]*" ?: ?\Z',
    re.IGNORECASE,
)
_DATE_KEY = re.compile(
    r'"(?:[^"]*(?:date|day|time|stamp|as_of|period|ended?)[^"]*|ts?)" ?: ?\Z', re.IGNORECASE
)
# The finder may end at `March`, or begin at the year of `first quarter of 2024`.
_BEHIND = re.compile(rf",? {_YEAR}(?![0-9])| ?第? ?[一二三四1-4] ?季度?")
_AHEAD = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(_ORDINALS)}) (?:quarter|half) (?:of|in) \Z", re.I)


@lru_cache(_MOST_TEXTS)
def named_dates(text: str) -> tuple[NamedDate, ...]:
    """Return the periods that a text names, by offset. Spans that mean no period are left out.

    Example: `named_dates("up since Mar 3rd, 2024")[0].first` is 3 March 2024.
    """
    index = identities_of(NO_MARKET, assets=False, dates=True)
    found: list[NamedDate] = []
    for hit in index.find(text, "answer"):
        if found and hit.start < found[-1].end:
            continue  # the year of the date before

        named = _meaning(text, hit.start, hit.end)
        if named is not None and not _is_number(text, named):
            found.append(named)
    return tuple(found)


def _meaning(text: str, start: int, end: int) -> NamedDate | None:
    """Return the period of a span, with what stands around it where that makes it more exact."""
    before = _AHEAD.search(text, max(0, start - _LONGEST_CONTEXT), start)
    behind = _BEHIND.match(text, end)
    bounds = [(start, end)]
    if behind is not None:
        bounds.insert(0, (start, behind.end()))
    if before is not None:
        bounds.insert(0, (before.start(), end))

    for first, stop in bounds:
        words = normalise(text[first:stop]).strip(" ,.\"'()")
        period = _period(words)
        if period is not None:
            return NamedDate(first, stop, period[0], period[1])
    return None


def _period(words: str) -> tuple[date, Unit] | None:
    """Return the first day of a period and its unit."""
    epoch = _EPOCH.fullmatch(words)
    if epoch is not None:
        return datetime.fromtimestamp(int(epoch[1]), UTC).date(), "day"

    for form in _FORMS:
        match = form.pattern.fullmatch(words)
        if match is None:
            continue
        try:
            return _first_day(match, form.unit), form.unit
        except ValueError:  # no day of the calendar
            continue
    return None


def _first_day(match: re.Match[str], unit: Unit) -> date:
    """Return the first day of a matched period. Raises ValueError: there is no such day."""
    parts = match.groupdict()
    year = _year(parts)
    if unit == "week":
        return date.fromisocalendar(year, int(parts["w"]), 1)
    if unit == "quarter":
        return date(year, 3 * _count(parts, "q", "r", "o") - 2, 1)
    if unit == "half":
        return date(year, 6 * _count(parts, "h", "o") - 5, 1)
    if unit == "year":
        return date(year, 1, 1)

    month = _NAMES.index(parts["n"][:3].lower()) + 1 if parts.get("n") else 0
    if parts.get("m"):
        month = int(parts["m"])
    if unit == "month":
        return date(year, month, 1)
    if parts.get("a"):
        return _earliest(year, int(parts["a"]), int(parts["b"]))
    return date(year, month, int(parts["d"]))


def _year(parts: dict[str, str | None]) -> int:
    full = parts.get("y")
    if full:
        return int(full)

    short = int(parts.get("s") or "")
    return short + (2000 if short < _PIVOT else 1900)


def _count(parts: dict[str, str | None], *names: str) -> int:
    for name in names:
        word = parts.get(name)
        if word:
            return _ORDINALS.get(word.lower()) or _CHINESE_DIGITS.get(word) or int(word)
    raise ValueError(parts)


def _earliest(year: int, one: int, other: int) -> date:
    """Return the earlier of `month/day` and `day/month`. Raises ValueError: neither is a day."""
    days = []
    for month, day in ((one, other), (other, one)):
        try:
            days.append(date(year, month, day))
        except ValueError:
            continue
    return min(days)


def _is_number(text: str, named: NamedDate) -> bool:
    """Whether digits alone are a number of JSON, or a quantity by its key, and no date."""
    spelled = text[named.start : named.end]
    if not spelled.isdigit():
        return False

    before = text[max(0, named.start - _LONGEST_CONTEXT) : named.start]
    if _DATE_KEY.search(before):
        return False
    if named.unit == "year" and _JOINED.search(before):
        return True  # the end of a number such as 4417-2039
    if _QUANTITY_KEY.search(before):
        return True
    if len(spelled) == len("202403") and not before.endswith(("_", "-", "/")):
        return True  # an id or a count; in `prices_202403.csv` it is a month
    return bool(_JSON_BEFORE.search(before) and _JSON_AFTER.match(text, named.end))
