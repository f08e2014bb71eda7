"""Days and periods that a text mentions: a day, a week, a month, a quarter, a half-year or a year.

The same list of spellings is used to find and to parse dates, so every date that is found can be
parsed. A date that is read differently in different countries (`8/3/2024`) is read as the earlier
day, to avoid false accusations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Literal

from ktdeval.masking import find_named, is_amount, name_hints, normalise, normalise_with_places

Unit = Literal["day", "week", "month", "quarter", "half", "year"]

_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG_NAMES = (
    "january|february|march|april|may|june|july|august|september|october|november|december|sept"
)
_NAME = rf"(?P<n>{_LONG_NAMES}|{'|'.join(_NAMES)})"
WEEKDAY = r"(?:mon|tues?|wed(?:nes|s)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?"
_YEAR = r"(?P<y>(?:19|20)[0-9]{2})"
_ANY_YEAR = rf"(?:{_YEAR}|'?(?P<s>[0-9]{{2}}))"
_SURE_YEAR = rf"(?:{_YEAR}|'(?P<s>[0-9]{{2}}))"
_MONTH = r"(?P<m>1[0-2]|0?[1-9])"
_MONTH_2 = r"(?P<m>1[0-2]|0[1-9])"
_NUMBER = r"(?:3[01]|[12][0-9]|0?[1-9])"
_SUFFIX = r"(?:st|nd|rd|th)?"
_DAYS = rf"(?P<d>{_NUMBER}){_SUFFIX}(?: ?(?:-|to|and) ?{_NUMBER}{_SUFFIX})?"
_DAY_2 = r"(?P<d>3[01]|[12][0-9]|0[1-9])"
_CLOCK = r"[0-2]?[0-9][:-]?[0-5][0-9](?:[:-]?[0-5][0-9])?(?:[.,][0-9]+)?"
_TIME = rf"(?:[T _-]{{1,2}}{_CLOCK}(?: ?(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}}))?(?![0-9]))?"
_IN = r"[ ,./_-]{0,2}"
_ASIDE = rf"(?:,? ?\(?{WEEKDAY}\)?)?"  # a weekday within a date
_FISCAL = r"(?:(?:(?P<f>F|FY|fiscal(?: year)?)|CY|calendar(?: year)?)[ '-]{0,2})"
_QUARTER = r"(?P<g>F|fiscal )?(?:Q(?P<q>[1-4])|(?P<r>[1-4])Q)"
_HALF = r"(?:H(?P<h>[12])|(?P<r>[12])H)"
_ORDINALS = {
    **dict.fromkeys(("first", "1st", "上"), 1),
    **dict.fromkeys(("second", "2nd", "下"), 2),
    **dict.fromkeys(("third", "3rd"), 3),
    **dict.fromkeys(("fourth", "4th"), 4),
}
_ORDINAL = r"(?P<o>first|second|third|fourth|1st|2nd|3rd|4th)"
_PARTS = {"early": 1, "mid": 11, "late": 21}  #: parts of a month, with their first days
_PART = rf"(?P<p>{'|'.join(_PARTS)})"
_OF = r"[ ,]{1,2}(?:of |in )?(?:the )?"
_CHINESE_DIGITS = "〇一二三四五六七八九"
_CHINESE = rf"[0-9]{{1,2}}|[{_CHINESE_DIGITS}十]{{1,3}}"
#: the year before the first year of each era
_ERAS = {"民国": 1911, "令和": 2018, "平成": 1988, "昭和": 1925}
_PIVOT = 70  # two-digit years below this number belong to the current century
_MIN_YEAR = 1900
# Buddhist (Thai) years: offset, and the smallest number that is read as such a year
_BUDDHIST, _BUDDHIST_FROM = 543, 2500
_CONTEXT = 64
_QUARTER_DAYS = 92
_MAX_TEXTS = 4096


@dataclass(frozen=True, slots=True)
class NamedDate:
    """A day or period, with its year, that a text mentions."""

    start: int  #: offset of its first character; if a weekday precedes the day, it is included
    end: int
    first: date  #: first day of the period, according to the earliest interpretation
    unit: Unit
    #: whether the text calls the period fiscal; a fiscal period can begin up to a year before
    #: `first`
    is_fiscal: bool = False

    @property
    def last(self) -> date:
        """Last day of the period."""
        if self.unit == "day":
            return self.first
        if self.unit == "week":
            return self.first + timedelta(days=6)

        months = {"month": 1, "quarter": 3, "half": 6, "year": 12}[self.unit]
        years, month = divmod(self.first.month - 1 + months, 12)
        return date(self.first.year + years, month + 1, 1) - timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DayOfYear:
    """A day and month that a text mentions without a year."""

    start: int
    end: int
    month: int
    day: int

    def soon_after(self, day: date) -> date | None:
        """Return the next day with this month and day. Return None if it is more than three months
        ahead, or not nearer than the previous such day.
        """
        near = []
        for year in (day.year - 1, day.year, day.year + 1):
            with suppress(ValueError):  # 29 February does not exist in every year
                near.append(date(year, self.month, self.day))

        if not near:  # 29 February, and none of the three years is a leap year
            return None

        nearest = min(near, key=lambda each: abs(each - day))
        return nearest if day < nearest <= day + timedelta(days=_QUARTER_DAYS) else None


@dataclass(frozen=True)
class _Form:
    """A spelling of dates, and the unit of the dates."""

    unit: Unit
    pattern: re.Pattern[str]


def _form(unit: Unit, text: str) -> _Form:
    start = r"(?<![0-9A-Za-z])(?<![0-9][.,/-])"
    end = r"(?![0-9A-Za-z])(?!-(?!(?:19|20)[0-9]{2})[0-9])(?!\.[0-9])"
    return _Form(unit, re.compile(rf"{start}(?:{text}){end}", re.IGNORECASE))


def _eastern(unit: Unit, rest: str) -> _Form:
    """Return a form for Chinese, Japanese or Korean dates. Such dates need not be surrounded by
    spaces.
    """
    era = rf"(?P<era>{'|'.join(_ERAS)}) ?(?P<e>[0-9]{{1,3}}|[{_CHINESE_DIGITS}十]{{1,3}})"
    year = rf"(?:(?P<y>[0-9]{{4}}|[{_CHINESE_DIGITS}]{{4}})|{era})"
    text = rf"(?<![0-9{_CHINESE_DIGITS}]){year} ?(?:年|년){rest}(?![0-9])"
    return _Form(unit, re.compile(normalise(text)))


# If spellings overlap, the longest match is used; if lengths are equal, the first spelling is used.
_FORMS: Sequence[_Form] = (
    # 2024-03-08, 2024/3/8 16:00, 20240308T160000Z
    _form("day", rf"{_YEAR}(?P<x>[-/._]) ?{_MONTH}(?P=x) ?(?P<d>{_NUMBER}){_TIME}"),
    _form("day", rf"{_YEAR}{_MONTH_2}{_DAY_2}(?:[0-9]{{6}}|[0-9]{{4}}|{_TIME})"),
    # Mar 8th, 2024; March 8-9 2024; Mar. 8 (Fri), '24
    _form("day", rf"{_NAME}{_IN}(?:the )?{_DAYS}{_ASIDE}[ ,./_-]{{1,3}}(?:of )?{_SURE_YEAR}"),
    # 8 March 2024, the 8th of March, 2024, 08MAR2024
    _form("day", rf"{_DAYS}{_IN}(?:of |day of )?{_NAME}{_ASIDE}{_IN}(?:of )?{_SURE_YEAR}{_TIME}"),
    # 8-Mar-24, 08MAR24, Mar-8-24
    _form(
        "day", rf"(?P<d>{_NUMBER})(?P<x>[-/._ ]?){_NAME}(?P=x)(?P<s>[0-9]{{2}}){_TIME}(?! ?[a-z%])"
    ),
    _form("day", rf"{_NAME}(?P<x>[-/._])(?P<d>{_NUMBER})(?P=x)(?P<s>[0-9]{{2}})"),
    # Mar  8 16:00:03 UTC 2024
    _form("day", rf"{_NAME} {{1,2}}{_DAYS},? {_CLOCK} ?(?:[AP]M ?)?(?:[A-Z]{{1,5}} )?{_YEAR}"),
    # 3/8/2024, 08.03.24
    _form("day", rf"(?P<a>{_NUMBER})(?P<x>[-/.])(?P<b>{_NUMBER})(?P=x){_YEAR}{_TIME}"),
    _form("day", rf"(?P<a>{_NUMBER})/(?P<b>{_NUMBER})/(?P<s>[0-9]{{2}}){_TIME}"),
    _form("day", r"(?P<a>[0-3][0-9])(?P<x>[-.])(?P<b>[0-3][0-9])(?P=x)(?P<s>[0-9]{2})"),
    # 2024-068, day 68 of 2024
    _form("day", rf"{_YEAR}-(?P<j>[0-3][0-9]{{2}})"),
    _form("day", rf"day (?P<j>[0-9]{{1,3}}) of {_YEAR}"),
    _form("week", rf"{_YEAR}[ -]?W(?P<w>[0-5]?[0-9])(?:-?[1-7])?"),
    _form("week", rf"(?:W|CW|KW|week ?)(?P<w>[0-5]?[0-9])[ ,/-]{{1,2}}(?:of )?{_YEAR}"),
    # Q2 2024, 2Q24, 2Q FY24, 2024Q2, second quarter of fiscal 2024
    _form("quarter", rf"{_QUARTER}[ /.'_-]{{0,2}}(?:of |in )?{_FISCAL}?{_ANY_YEAR}"),
    _form("quarter", rf"{_FISCAL}?{_ANY_YEAR}[ ,'/_-]{{0,2}}{_QUARTER}"),
    _form("quarter", rf"(?:(?P<g>fiscal) )?{_ORDINAL}[ -]quarter{_OF}{_FISCAL}?{_ANY_YEAR}"),
    _form("quarter", rf"{_FISCAL}?{_YEAR}'?s?,? {_ORDINAL}[ -]quarter"),
    _form("half", rf"{_HALF}[ /.'_-]{{0,2}}(?:of |in )?{_FISCAL}?{_ANY_YEAR}"),
    _form("half", rf"{_FISCAL}?{_ANY_YEAR}[ '/_-]?{_HALF}"),
    _form("half", rf"{_ORDINAL}[ -]half{_OF}{_FISCAL}?{_ANY_YEAR}"),
    # 2024-03, 202403, 03/2024, March 2024, late Mar '24, 2024 March
    _form("month", rf"{_YEAR}[-/_]?{_MONTH_2}"),
    _form("month", rf"{_MONTH}[-/]{_YEAR}"),
    _form("month", rf"(?P<m>0[1-9])\.{_YEAR}"),
    _form("month", rf"(?:{_PART}[ -])?{_NAME}[ ,./_'-]{{0,3}}(?:of )?{_SURE_YEAR}"),
    _form("month", rf"{_YEAR}[ ,./_-]{{0,2}}{_NAME}\.?"),
    _form("year", rf"{_FISCAL}?{_YEAR}[EAF]?(?:[-/][0-9]{{2}})?"),
    _form("year", rf"{_FISCAL}{_ANY_YEAR}[EAF]?"),
    _eastern("day", rf" ?(?P<m>{_CHINESE}) ?(?:月|월) ?(?P<d>{_CHINESE}) ?(?:日|号|일)?"),
    _eastern("quarter", r"度? ?第? ?(?P<q>[一二三四1-4]) ?季度?"),
    _eastern("half", r"度? ?(?P<o>[上下]) ?半年"),
    _eastern("month", rf" ?(?P<m>{_CHINESE}) ?(?:月|월)"),
    _eastern("year", ""),
)
_EPOCH = re.compile(r"(?<![0-9.])(?P<t>1[0-9]{9})(?:[0-9]{3})?(?![0-9A-Za-z.])")
_YEARLESS: Sequence[re.Pattern[str]] = (
    re.compile(rf"(?<![A-Za-z]){_NAME}\.?[ -](?:the )?{_DAYS}(?![0-9A-Za-z%]|[.,:][0-9])", re.I),
    re.compile(rf"(?<![0-9A-Za-z.]){_DAYS}\.?[ -](?:of )?{_NAME}(?![0-9A-Za-z])", re.IGNORECASE),
    re.compile(rf"(?<![0-9年])(?P<m>{_CHINESE}) ?月 ?(?P<d>{_CHINESE}) ?[日号](?!均)"),
    re.compile(
        r"(?<![A-Za-z])(?:on|since|as of|after|until|from|(?:day|morning|afternoon|evening|night) of) "
        rf"(?P<m>1[0-2]|0?[1-9])[/-](?P<d>{_NUMBER})"
        r"(?![0-9/%-]|[.,][0-9])"
    ),
)
_WORDS_TOO = frozenset({"may", "march", "mar"})  # in lower case, these can be ordinary words
_WEEKDAY_AHEAD = re.compile(
    rf"(?<![A-Za-z])\(?{WEEKDAY}\)?[.,]*(?: the)?[ ,(/_-]{{1,3}}\Z"
    r"|(?:星期|周)[一二三四五六日天][ ,(]{0,2}\Z",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"[ ,(]|den|le|el|de")
# Context in which a JSON number looks like a year or a compact date only by chance.
_JSON_BEFORE = re.compile(r"[\[,:] ?-?\Z")
_JSON_AFTER = re.compile(r" ?[,\]}]")
_QUANTITY_KEY = re.compile(
    r'"[^"]*(?:vol|amount|shares|qty|quantity|turnover|cap|value|cash|count|id)[^"]*" ?: ?\Z',
    re.IGNORECASE,
)
_DATE_KEY = re.compile(
    r'"(?:[^"]*(?:date|day|time|stamp|as_of|period|ended?)[^"]*|ts?)" ?: ?\Z', re.IGNORECASE
)
_NAMES_AN_ID = re.compile(
    r"(?:\b|_)(?:id|no\.?|number|nr\.?|ref\.?|reference|ticket|batch|invoice|isin|cusip|lei|sku|serial"
    r"|score|upvotes|comments|likes|views|retweets|followers)"
    r"[ :#=\"'-]{0,4}\Z",
    re.IGNORECASE,
)
_MAY_NAME_AN_ID = re.compile(
    r"\b(?:order|build|version|release|v|revision|confirmation|account|case)[ :#=-]{0,2}\Z", re.I
)
_SEPARATED_DAY = re.compile(r"[0-9]{4}([-/])[0-9]{1,2}\1[0-9]{1,2}")
_WORD = re.compile("[a-z]+")
_LETTERS = re.compile("[A-Za-z]{3}")
_DIGITS = re.compile("[0-9]+")


@lru_cache(_MAX_TEXTS)
def named_dates(text: str) -> tuple[NamedDate, ...]:
    """Return the days and periods with a year that a text mentions, ordered by offset and without
    overlaps.

    Example: `named_dates("up since Mar 3rd, 2024")[0].first` is 3 March 2024.
    """
    return tuple(each for each in _dates_in(text) if isinstance(each, NamedDate))


def days_of_year(text: str) -> tuple[DayOfYear, ...]:
    """Return the days without a year that a text mentions, ordered by offset.

    Example: `days_of_year("It closed higher on Aug 13.")[0].day` is 13.
    """
    return tuple(each for each in _dates_in(text) if isinstance(each, DayOfYear))


@lru_cache(_MAX_TEXTS)
def _dates_in(text: str) -> tuple[NamedDate | DayOfYear, ...]:
    """Return all dates in a text, ordered by offset. If dates overlap, only the longest is
    returned.
    """
    plain, offsets = normalise_with_places(text)
    plain = plain.replace("○", "〇")
    found = [*_with_year(plain), *_without_year(plain), *_in_other_languages(plain)]
    found.sort(key=lambda each: each.start - each.end)  # a stable sort keeps the order of forms

    placed = []
    is_taken = bytearray(len(plain))
    for each in found:
        length = each.end - each.start
        if is_taken.find(1, each.start, each.end) < 0:
            is_taken[each.start : each.end] = bytes([1]) * length
            start = _with_weekday(plain, each.start)
            placed.append(replace(each, start=offsets[start], end=offsets[each.end]))
    return tuple(sorted(placed, key=lambda each: each.start))


def _with_weekday(plain: str, start: int) -> int:
    """Return the start of the weekday that precedes a date, or `start` if no weekday precedes
    it.
    """
    begin = max(0, start - _CONTEXT)
    weekday = _WEEKDAY_AHEAD.search(plain, begin, start)
    if weekday is not None:
        return weekday.start()

    before = plain[begin:start]
    for first, end, month in find_named(before, _hints(before)):
        if not month and not _BETWEEN.sub("", before[end:]):
            return begin + first
    return start


def _hints(plain: str) -> frozenset[str]:
    return name_hints().intersection(_WORD.findall(plain.lower()))


def _with_year(plain: str) -> Iterator[NamedDate]:
    for match in _EPOCH.finditer(plain):
        day = datetime.fromtimestamp(int(match["t"]), UTC).date()
        yield NamedDate(*match.span(), day, "day")

    for form in _FORMS:
        for match in form.pattern.finditer(plain):
            if _is_number(plain, match, form.unit):
                continue
            try:
                first = _first_day(match.groupdict(), form.unit)
            except ValueError:  # not a valid calendar date
                continue

            parts = match.groupdict()
            is_fiscal = bool(parts.get("f") or parts.get("g"))
            yield NamedDate(*match.span(), first, form.unit, is_fiscal)


def _without_year(plain: str) -> Iterator[DayOfYear]:
    for pattern in _YEARLESS:
        for match in pattern.finditer(plain):
            parts = match.groupdict()
            month, day = _month(parts), _number(parts["d"])
            is_word = parts.get("n") in _WORDS_TOO
            start = match.start("m") if parts.get("m") else match.start()
            if not is_word and 1 <= month <= 12 and 1 <= day <= 31:
                yield DayOfYear(start, match.end(), month, day)


def _in_other_languages(plain: str) -> Iterator[NamedDate | DayOfYear]:
    """Yield dates whose month name is in one of the other languages that masks support."""
    for start, end, month in find_named(plain, _hints(plain)):
        numbers = [int(digits) for digits in _DIGITS.findall(plain[start:end])]
        years = [number for number in numbers if number >= _MIN_YEAR]
        days = [number for number in numbers if 1 <= number <= 31]
        if not month or len(years) > 1 or not numbers:
            continue
        if not years:
            yield DayOfYear(start, end, month, days[0])
            continue

        year = years[0] - _BUDDHIST if years[0] > _BUDDHIST_FROM else years[0]
        try:
            first = date(year, month, days[0] if days else 1)
            yield NamedDate(start, end, first, "day" if days else "month")
        except ValueError:  # not a valid calendar date
            continue


def _first_day(parts: Mapping[str, str | None], unit: Unit) -> date:
    """Return the first day of the period that was matched. Raises ValueError if the day does not
    exist.
    """
    year = _year(parts)
    if unit == "week":
        return date.fromisocalendar(year, int(parts["w"] or ""), 1)
    if unit == "quarter":
        return date(year, 3 * _count(parts, "q", "r", "o") - 2, 1)
    if unit == "half":
        return date(year, 6 * _count(parts, "h", "r", "o") - 5, 1)
    if unit == "year":
        return date(year, 1, 1)
    if unit == "month":
        return date(year, _month(parts), _PARTS.get((parts.get("p") or "").lower(), 1))

    if parts.get("j"):
        day = date(year, 1, 1) + timedelta(days=int(parts["j"] or "") - 1)
        if day.year != year:
            raise ValueError(parts)
        return day
    if parts.get("a"):
        return _earliest(year, _number(parts["a"]), _number(parts["b"]))
    return date(year, _month(parts), _number(parts["d"]))


def _year(parts: Mapping[str, str | None]) -> int:
    if parts.get("y"):
        return _number(parts["y"])
    if parts.get("era"):
        return _ERAS[parts["era"] or ""] + _number(parts["e"])

    short = _number(parts["s"])
    return short + (2000 if short < _PIVOT else 1900)


def _month(parts: Mapping[str, str | None]) -> int:
    name = parts.get("n")
    if name:
        return _NAMES.index(name[:3].lower()) + 1
    return _number(parts["m"])


def _number(word: str | None) -> int:
    """Return the value of a number in digits or Chinese numerals. Raises ValueError if the word is
    not a number.
    """
    if not word or word.isascii():
        return int(word or "")
    if "十" in word:
        tens, _, ones = word.partition("十")
        return 10 * (_number(tens) if tens else 1) + (_number(ones) if ones else 0)
    return int("".join(str(_CHINESE_DIGITS.index(digit)) for digit in word))


def _count(parts: Mapping[str, str | None], *names: str) -> int:
    for name in names:
        word = parts.get(name)
        if word:
            return _ORDINALS.get(word.lower()) or _number(word)
    raise ValueError(parts)


def _earliest(year: int, one: int, other: int) -> date:
    """Return the earlier of `one/other` read as month/day and as day/month. Raises ValueError if
    neither is a valid date.
    """
    days = []
    for month, day in ((one, other), (other, one)):
        try:
            days.append(date(year, month, day))
        except ValueError:
            continue
    return min(days)


def _is_number(plain: str, match: re.Match[str], unit: Unit) -> bool:
    """Return whether the digits of a match are not a date but an id, an amount, or a JSON
    number.
    """
    start, end = match.span()
    before = plain[max(0, start - _CONTEXT) : start]
    is_of_digits = not _LETTERS.search(match[0])
    if is_of_digits and _NAMES_AN_ID.search(before):
        return True
    is_day = _SEPARATED_DAY.fullmatch(match[0]) is not None
    if is_of_digits and not is_day and _MAY_NAME_AN_ID.search(before):
        return True
    if not match[0].isdigit() or _DATE_KEY.search(before):
        return False
    if unit == "year" and is_amount(plain, start, end):
        return True
    if _QUANTITY_KEY.search(before):
        return True
    if len(match[0]) == len("202403") and not before.endswith(("_", "-", "/")):
        return True  # an id or a count; in names such as `prices_202403.csv`, it is a month
    return bool(_JSON_BEFORE.search(before) and _JSON_AFTER.match(plain, end))
