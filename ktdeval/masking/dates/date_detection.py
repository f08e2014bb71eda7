"""Find calendar dates in normalised text, in the formats that people and programs use in English
and Chinese.

The following are dates: standalone years 1990…2039; ISO, slashed, dotted, compact and Chinese
dates; epoch seconds; names of months and weekdays; and holidays. The following are not dates:
numbers in the format of `render_number`, amounts with a unit, handles such as `day_+12`, and
ordinary words (`may`, `march`, `sat`, `sun`) without a day or year next to them.

Most texts contain no date. Therefore, substring searches in the text's shape first find candidates,
and regular expressions are matched only there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ktdeval.masking.text_normalisation import (
    TextViews,
    follows_point,
    lower_text,
    normalise,
    places_of,
    touches_letter,
)
from ktdeval.values.disk.files import csv_rows

Span = tuple[int, int]
_YEAR = r"(?:199[0-9]|20[0-3][0-9])"
_MONTH = r"(?:1[0-2]|0?[1-9])"
_DAY = r"(?:3[01]|[12][0-9]|0?[1-9])"
_MONTH_2 = r"(?:0[1-9]|1[0-2])"
_DAY_2 = r"(?:0[1-9]|[12][0-9]|3[01])"
_SHORT_YEAR = r"(?:9[0-9]|[0-3][0-9])"
# --- with a four-digit year
_YEAR_HERE = re.compile(_YEAR)
_COMPACT = re.compile(rf"{_YEAR}{_MONTH_2}{_DAY_2}(?:[0-9]{{4}}|[0-9]{{6}})?(?![0-9])")
_YEAR_MONTH = re.compile(rf"{_YEAR}{_MONTH_2}(?![0-9A-Za-z]|\.[0-9A-Za-z])")
_YEAR_FIRST = re.compile(rf"{_YEAR}[-/._]{_MONTH}[-/._]{_DAY}(?![0-9])")
_BARE_YEAR = re.compile(
    rf"{_YEAR}(?:[QHqh][1-4]|[EAFs])?(?![0-9A-Za-z_]|\.[0-9])"
    rf"(?: ?年(?: ?{_MONTH} ?月(?: ?{_DAY}"
    rf" ?[日号])?)?|[-/](?:{_MONTH_2}|{_SHORT_YEAR}|W[0-5][0-9](?:-?[1-7])?)(?![0-9]))?"
)
_DAY_BEFORE_YEAR = re.compile(rf"(?<![0-9./-]){_DAY}([-/.]){_DAY}\1\Z")
_PERIOD_BEFORE_YEAR = re.compile(
    r"(?<![A-Za-z0-9])(?:FY|CY|[QH][1-4]|[1-4][QH])[ '-]?\Z", re.IGNORECASE
)
_STICKS_TO_YEAR = re.compile(r"[0-9A-Za-z_+$¥£€]\Z")
# --- without a year: each format needs a shape (digits as 0, slashes as hyphens) that occurs in the
# text
_BY_SHAPE: tuple[tuple[bytes, re.Pattern[str]], ...] = (
    (
        b"00-00-00",
        re.compile(
            rf"(?<![0-9./-])(?:{_SHORT_YEAR}([-/]){_MONTH_2}\1{_DAY_2}|{_DAY_2}([-/]){_DAY_2}\2{_SHORT_YEAR})"
            rf"(?![0-9/-]|\.[0-9]|[- ]?(?:day|session|bar|min)|d\b)",
            re.IGNORECASE,
        ),
    ),
    (b'"00-00"', re.compile(rf'(?<="){_MONTH_2}[-/]{_DAY_2}(?=")')),
    (b"0000000000", re.compile(r"(?<![0-9.])1[0-9]{9}(?:[0-9]{3})?(?!\.?[0-9])")),
    (
        b"'00",
        re.compile(
            r"(?<![a-z])(?:in|since|of|late|early|mid|during|until|from|through|fiscal|year|summer|winter|spring|autumn)"
            rf"[ -]'{_SHORT_YEAR}(?![0-9A-Za-z_'])",
            re.I,
        ),
    ),
)
_SHORT_PERIOD = re.compile(
    rf"(?<![0-9A-Za-z])(?!H[12]00)(?:[1-4]Q|[12]H|[FC]Y|[QH][1-4][-/']?)[/']?{_SHORT_YEAR}(?![0-9A-Za-z]|\.[0-9])",
    re.IGNORECASE,
)
_PERIOD_HINTS = frozenset({"q", "h", "fy", "cy"})
# --- in words
_WORDS = csv_rows(Path(__file__).with_name("date_words.csv"))


def _words_of_kind(kind: str) -> frozenset[str]:
    return frozenset(row["word"] for row in _WORDS if row["kind"] == kind)


def _holiday_patterns() -> dict[str, re.Pattern[str]]:
    """Return the pattern for all holidays that begin with the same word, keyed by this word."""
    spellings: dict[str, list[str]] = {}
    for row in _WORDS:
        if row["kind"] == "holiday":
            spellings.setdefault(row["word"], []).append(row["pattern"])

    return {word: re.compile("|".join(of), re.IGNORECASE) for word, of in spellings.items()}


_MONTHS_PLAIN = _words_of_kind("month")
_MONTHS_DOUBTFUL = _words_of_kind("doubtful month")
_MONTHS_SHORT = _words_of_kind("short month")
_WEEKDAYS_PLAIN = _words_of_kind("weekday")
_WEEKDAYS_DOUBTFUL = _words_of_kind("doubtful weekday")
_WEEKDAYS_SHORT = _words_of_kind("short weekday")
_HOLIDAYS = _holiday_patterns()
_PLAIN = _MONTHS_PLAIN | _WEEKDAYS_PLAIN
_DATE_WORDS = _PLAIN | _MONTHS_DOUBTFUL | _MONTHS_SHORT | _WEEKDAYS_SHORT | _WEEKDAYS_DOUBTFUL
WORD_HINTS = frozenset(_DATE_WORDS | _HOLIDAYS.keys() | _PERIOD_HINTS)
"""Lower-case words of dates. A text without any of these words has no date in words."""

_NUMBER = rf"{_DAY}(?:st|nd|rd|th)?"
_TO = r"(?: ?[-/] ?| (?:and|to|through|until) )"
_NUMBER_AFTER = re.compile(
    rf"\.?[ .,'/_-]{{0,2}}(?:{_YEAR}|{_NUMBER}(?:{_TO}{_NUMBER})?)(?![0-9A-Za-z%]|\.[0-9])"
)
_NUMBER_BEFORE = re.compile(rf"(?<![0-9.])(?:{_YEAR}|(?:{_NUMBER}{_TO})?{_NUMBER})[ /_-](?:of )?\Z")
_SURE_NUMBER_AFTER = re.compile(
    rf"(?:[ /_-]{_YEAR}|[/_-]{_DAY_2}|[ -]{_DAY}(?:st|nd|rd|th))(?![0-9A-Za-z])"
)
_SURE_NUMBER_BEFORE = re.compile(rf"(?<![0-9.])(?:{_DAY_2}[/_-]|{_DAY}(?:st|nd|rd|th) (?:of )?)\Z")
_TIME_WORD_BEFORE = re.compile(
    r"(?<![A-Za-z])(?:in|since|until|till|by|during|early|late|mid|from|of|last|next|this|end|through|before|after)["
    r" -]\Z",
    re.IGNORECASE,
)
_MONTH_STARTS = "|".join(sorted(_MONTHS_SHORT | {"may"}))
# Case matters, since `the sun may rise` contains no date.
_MONTH_NAME = f"(?:{_MONTH_STARTS.title()}|{_MONTH_STARTS.upper()})"
_MONTH_AFTER = re.compile(rf"[.,]? {_MONTH_NAME}")
_BESIDE_WEEKDAY = re.compile(rf"[.,]? ?[0-9]|[-/](?:Sun|Mon)|{_MONTH_AFTER.pattern}")
_DATE_BEFORE_WEEKDAY = re.compile(
    rf"(?:(?:19|20)[0-9]{{2}}[-/.][0-9]{{2}}[-/.][0-9]{{2}}"
    rf"|(?:{_MONTH_NAME}[a-z]*\.? {_DAY}|{_DAY} {_MONTH_NAME}[a-z]*)(?:,? {_YEAR})?),? \(?\Z"
)
_NEAR = 24


# --- in Chinese, Japanese and Korean: a required character, and the pattern
def _chinese_patterns(kind: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(
        (normalise(row["word"]), re.compile(normalise(row["pattern"])))
        for row in _WORDS
        if row["kind"] == kind
    )


#: spellings that are dates in any text; in texts by other authors; in documents only
CHINESE_KINDS = {
    kind: _chinese_patterns(kind) for kind in ("Chinese", "Chinese text", "Chinese document")
}

# --- numbers that are amounts
_EPOCH = re.compile(r"(1[0-9]{9})(?:000)?")
_QUARTER_OF_AN_HOUR = 900  # in seconds; in every time zone, midnight falls on a multiple of it
_CURRENCY = "cny|rmb|yuan|usd|fen|jpy|yen|eur|euros?|gbp|hkd|krw|won|dollars?"
_UNIT_AFTER = re.compile(
    rf" ?(?:shares?|lots?|{_CURRENCY}|%|bps?|basis|names?|stocks?|assets?|orders?|tokens?"
    r"|char(?:acter)?s?|bytes?|days?|sessions?|steps?|rows?|points?|times"
    r"|股|手|元|点|万|亿|个|只|天|份|字|倍|名|家|位|人|台|辆|吨|件|户|套|项|座|艘|张)(?![a-z])",
    re.IGNORECASE,
)
_MONEY_AFTER = re.compile(rf" ?(?:{_CURRENCY}|元)(?![a-z])", re.IGNORECASE)
_MONEY_BEFORE = re.compile(r"(?:cny|rmb|usd|[¥$£€]) ?-?\Z", re.IGNORECASE)
_QUANTITY_BEFORE = re.compile(
    r"(?:at most|at least|more than|less than|fewer than|up"
    r" to|[<>=~≈≤≥]|shares:?|volume:?|price:?|cash:?) ?-?\Z",
    re.IGNORECASE,
)
_TAG_BEFORE = re.compile(r"</?[A-Za-z][^<>]{0,15}>\Z")
_YEAR_WORD_BEFORE = re.compile(r"(?<![a-z])(?:in|since|year|of|during|until) \Z", re.IGNORECASE)
_HANDLES = ("day_+", "day_-", "asset_", "sector_")


def is_money(text: str, start: int, end: int) -> bool:
    """Return whether the number at [start, end) is marked as money, as in `CNY 600519` or `600519
    yuan`.
    """
    if _MONEY_AFTER.match(text, end):
        return True
    return _MONEY_BEFORE.search(text, max(0, start - _NEAR), start) is not None


def names_no_day(digits: str) -> bool:
    """Return whether digits that look like epoch seconds or milliseconds are not a multiple of 15
    minutes. In that case, they are not a midnight, open or close in any time zone, but a count or
    an id (1234567890).
    """
    if len(digits) not in (10, 13) or not digits.isdigit():
        return False
    epoch = _EPOCH.fullmatch(digits)
    return epoch is None or int(epoch[1]) % _QUARTER_OF_AN_HOUR != 0


def find_dates(text: str, shape: TextViews, words: Iterable[str]) -> Iterator[Span]:
    """Yield the spans of all calendar dates in a normalised text; spans may overlap.

    `shape`: the text's shape. `words`: the words from `WORD_HINTS` that occur in the text.
    """
    yield from _years(text, shape)

    for needed, pattern in _BY_SHAPE:
        if needed not in shape.dashed:
            continue

        for match in pattern.finditer(text):
            start, end = match.span()
            if not is_money(text, start, end):
                yield start, end

    yield from _in_words(text, frozenset(words))

    if not text.isascii():
        for needed_character, pattern in CHINESE_KINDS["Chinese"]:
            if needed_character in text:
                yield from (match.span() for match in pattern.finditer(text))


def _years(text: str, shape: TextViews) -> Iterator[Span]:
    digits = shape.digits

    # A year follows a dot only in a date such as 31.12.2024. Elsewhere, digits after a dot are the
    # decimals of a number, and most texts have far more of these numbers than years.
    before = b"xe"
    if b".0.0000" in shape.runs or b".00.0000" in shape.runs:
        before = b"xe."

    for hint in (b"20", b"199"):
        for offset in places_of(digits, hint):
            if digits[offset - 1] not in before:
                continue

            span = _year_at(text, offset - 1)  # the shape begins with an `x`
            if span is not None:
                yield span


def _year_at(text: str, start: int) -> Span | None:
    """Return the span of the date around a year that may begin at `start`; None if there
    is no date.
    """
    if _YEAR_HERE.match(text, start) is None:
        return None

    back = max(0, start - _NEAR)
    sticks = _STICKS_TO_YEAR.search(text, back, start) is not None
    whole = _with_month(text, start, sticks)
    match = whole or _BARE_YEAR.match(text, start)
    if match is None:
        return None

    day_before = _DAY_BEFORE_YEAR.search(text, back, start)
    if day_before is not None:
        return day_before.start(), match.end()

    if follows_point(text, start):
        return None

    if whole is None:
        period = _PERIOD_BEFORE_YEAR.search(text, back, start)
        if period is not None:
            return period.start(), match.end()
        if sticks:
            return None

    digits = match[0]
    if digits.isdigit() and len(digits) <= 6 and is_amount(text, start, match.end()):
        return None
    # Among the years, 2000 is the only round lot, so only this year needs a word that marks it as a
    # year.
    if digits == "2000" and not _YEAR_WORD_BEFORE.search(text, back, start):
        return None

    return match.span()


def _with_month(text: str, start: int, sticks: bool) -> re.Match[str] | None:
    """Match a date that begins at `start` and has a year, a month and an optional day. `sticks`:
    whether the year is joined to a preceding word or number; in that case, six digits are not a
    year and month.
    """
    match = _COMPACT.match(text, start) or _YEAR_FIRST.match(text, start)
    if match is None and not sticks:
        match = _YEAR_MONTH.match(text, start)
    return match


def is_amount(text: str, start: int, end: int) -> bool:
    """Return whether the number at [start, end) is marked as money, as a quantity (`2000 shares`,
    `at most 2000`) or as part of a handle.
    """
    back = max(0, start - _NEAR)
    if text.endswith(_HANDLES, back, start):
        return True
    if _MONEY_BEFORE.search(text, back, start):
        return True
    if _QUANTITY_BEFORE.search(text, back, start) and not _TAG_BEFORE.search(text, back, start):
        return True
    return _UNIT_AFTER.match(text, end) is not None


def _in_words(text: str, words: frozenset[str]) -> Iterator[Span]:
    if not words:
        return

    lower = lower_text(text)
    for word in sorted(words & _DATE_WORDS):
        for start in places_of(lower, word):
            end = start + len(word)
            if not touches_letter(lower, start, end) and _is_date_word(text, word, start, end):
                yield _with_numbers(text, start, end)

    for word in sorted(words & _HOLIDAYS.keys()):
        for start in places_of(lower, word):
            holiday = _HOLIDAYS[word].match(text, start)
            if holiday is not None:
                yield holiday.span()

    if words & _PERIOD_HINTS:
        yield from (match.span() for match in _SHORT_PERIOD.finditer(text))


def _with_numbers(text: str, start: int, end: int) -> Span:
    """Extend the name at [start, end) by a day or year before it and after it."""
    before = _NUMBER_BEFORE.search(text, max(0, start - _NEAR), start)
    after = _NUMBER_AFTER.match(text, end)
    if before is not None:
        start = before.start()
    if after is not None:
        end = after.end()

    return start, end


def _is_date_word(text: str, word: str, start: int, end: int) -> bool:
    """Return whether a word spelled like a month or weekday denotes a month or weekday here."""
    if word in _PLAIN:
        return True

    spelled = text[start:end]
    if spelled.istitle() and (word in _MONTHS_SHORT or word in _WEEKDAYS_SHORT):
        return True
    if word in _WEEKDAYS_SHORT or word in _WEEKDAYS_DOUBTFUL:
        return _is_doubtful_weekday(text, start, end)

    back = max(0, start - _NEAR)
    if spelled[0].islower():
        return bool(
            _SURE_NUMBER_AFTER.match(text, end) or _SURE_NUMBER_BEFORE.search(text, back, start)
        )
    if word in _MONTHS_DOUBTFUL and _TIME_WORD_BEFORE.search(text, back, start):
        return True

    return bool(_NUMBER_AFTER.match(text, end) or _NUMBER_BEFORE.search(text, back, start))


def _is_doubtful_weekday(text: str, start: int, end: int) -> bool:
    """Return whether `Sat` or `Sun`, which may also be a verb, a star or a ticker, is part of a
    date here.
    """
    spelled = text[start:end]
    if spelled.isupper():
        return _MONTH_AFTER.match(text, end) is not None
    if not spelled.istitle():
        return False
    if _BESIDE_WEEKDAY.match(text, end) is not None:
        return True

    back = max(0, start - _NEAR)
    return _DATE_BEFORE_WEEKDAY.search(text, back, start) is not None
