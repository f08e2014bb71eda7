"""Dates as people write them in documents and answers, beyond what the suite's own prompts could
hold (`ktdeval.masking.date_detection`).

Here a number may be a date by its form alone: `240924`, `24.09.24`, `week 39`, `on 9/24`. Prompts
of the suite have such numbers with other meanings, so these rules read only text that others wrote:
documents, and what a model said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from ktdeval.masking.date_detection import Span, is_amount
from ktdeval.masking.foreign_date_names import find_named, name_hints
from ktdeval.masking.text_normalisation import TextViews, around_digits

_YEAR = r"(?:199[0-9]|20[0-3][0-9])"
_SHORT = r"(?:9[0-9]|[0-3][0-9])"
_MONTH = r"(?:1[0-2]|0?[1-9])"
_MONTH_2 = r"(?:0[1-9]|1[0-2])"
_DAY = r"(?:3[01]|[12][0-9]|0?[1-9])"
_DAY_2 = r"(?:0[1-9]|[12][0-9]|3[01])"
_ANY_YEAR = rf"(?:{_YEAR}|{_SHORT})"
_END = r"(?![0-9A-Za-z%]|[.,][0-9])"
_WEEK = r"(?:5[0-3]|[1-4][0-9]|0?[1-9])"
_NAME = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)"
_LONG_NAMES = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "sept",
    "september",
    "october",
    "november",
    "december",
)
_LONG_NAME = f"(?:{'|'.join(_LONG_NAMES)})"
_ANIMALS = (
    "rat|ox|tiger|rabbit|hare|dragon|snake|horse|goat|sheep|ram|monkey|rooster|chicken|dog|pig|boar"
)
_ROMAN = r"(?:XI{0,2}|IX|IV|VI{0,3}|I{1,3}|V)"
_PERIOD = r"(?:F?Q[1-4]|F?[1-4]Q|H[12]|[12]H|FY|CY|YE|FYE)"
_UNITS = "one|two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_ORDINALS = (
    "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|thirteenth|fourteenth|fifteenth|sixteenth|seventeenth|eighteenth|nineteenth|twentieth|thirtieth|thirty["
    " -]first|twenty[ -](?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth)"
)
_SEASON = (
    r"(?:spring|summer|autumn|fall|winter|class"
    r" of|season|year|fiscal|calendar|quarter|half|guidance|results|earnings)"
)


def _pattern(text: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    return re.compile(text, flags)


# 1990 to 2039, without those that are words (`MMX`)
_ROMAN_YEARS: tuple[str, ...] = tuple(
    year
    for century, tens in (("MCM", ("XC",)), ("MM", ("", "X", "XX", "XXX")))
    for ten in tens
    for one in ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
    if len(year := century + ten + one) > len("MMX")
)
_ROMAN_YEARS += tuple(year.lower() for year in _ROMAN_YEARS if len(year) > len("MMXX"))
_LATE = "(?:1[5-9]|2[0-9]|3[0-9])"  # years of two digits that need no other sign of a year
_OF_YEAR = "(?:36[0-6]|3[0-5][0-9]|[12][0-9]{2}|[1-9]?[0-9])"
_THE_YEAR = "(?:the|this|last|that) (?:calendar |trading |fiscal )?year"
_PLURAL = "(?!was |is |has |as |this |plus )(?:[A-Za-z]+ )?[a-z]+s(?![a-z])"
_RATIO_AFTER = (
    r"[ -](?:of|inch(?:es)?|in\.|split|ratio|odds|vote|mix|ownership|times|aspect|scale|blend|"
    r"(?:day|session|bar|min|week|month|hour|point|share)s?)(?![a-z])"
)
# A month and a day that are no usual fraction, as their order or a common divisor tells.
_SLASHED = _pattern(
    r"(?<![0-9A-Za-z./,:$€£%#+=~≈×*(-])(?<![=~≈×*] )(?!24/[5-7]|16/9|21/9|20/10|11/10)"
    r"(?:(?:1[0-2]|0?[2-9])/(?:1[3-57-9]|2[1-9]|3[01])"
    r"|(?:1[3-57-9]|2[1-9]|3[01])/(?:1[0-2]|0?[2-9])"
    r"|(?:1[02]|[2468])/(?:16|20)|5/20|12/(?:1[01]|[2-9])|11/(?:11|10|[2-9])|10/[2-9]|9/(?:11|[2-8])|8/[2-7])"
    rf"(?![0-9A-Za-z/%]|[.,:][0-9]|-[0-9A-Za-z]|{_RATIO_AFTER})"
)
_BEFORE_RATIO = re.compile(
    r"(?<![A-Za-z])(?:of|scored?|rat(?:ed|ing|io)|odds|split|version|vision|page|chapter|rule|"
    r"section|class|won|lost|beat|tied|than|x|a|an) \Z",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _PatternHints:
    """What an ASCII text must have for a pattern to match in it; each that is given must hold.

    A word is a whole run of letters: digits end it, too.
    """

    words: frozenset[bytes] = frozenset()  #: one of these words
    begins: tuple[bytes, ...] = ()  #: a word that begins with one of these
    #: one of these in the text with digits as `0` and slashes as hyphens (`TextViews.dashed`)
    shapes: tuple[bytes, ...] = ()

    def allow(self, words: Collection[bytes], shape: TextViews) -> bool:
        """Whether the pattern may match in a text with these words and this shape."""
        if self.words and self.words.isdisjoint(words):
            return False
        if self.begins and not any(word.startswith(self.begins) for word in words):
            return False
        if not self.shapes:
            return True
        return any(part in shape.dashed for part in self.shapes)


_MONTH_BEGINS = tuple(name.encode() for name in _NAME.strip("(?:)").replace("?", "").split("|"))
_ROMAN_WORDS = frozenset(b"i ii iii iv v vi vii viii ix x xi xii".split())
_QUOTE = _PatternHints(shapes=(b"'",))
_MONTH_NAME = _PatternHints(begins=(*_MONTH_BEGINS, b"sep"))
_BETWEEN_SLASHES = _PatternHints(shapes=(b"0-0",))
#: Of each of `_PATTERNS`
_HINTS = (
    _PatternHints(begins=(b"f", b"q", b"h", b"c", b"y")),
    _PatternHints(begins=(b"q", b"h")),
    _QUOTE,
    _QUOTE,
    _PatternHints(
        begins=(b"calendar", b"trading", b"week", b"wk", b"cw", b"kw", b"sem", b"sett", b"kal")
    ),
    _PatternHints(begins=(b"w",)),
    _PatternHints(shapes=(b"00000000",)),
    _PatternHints(shapes=(b"0000-000",)),
    _MONTH_NAME,
    _MONTH_NAME,
    _PatternHints(begins=(*_MONTH_NAME.begins, b"st", b"nd", b"rd", b"th")),
    _MONTH_NAME,
    _PatternHints(shapes=(b"0-0", b"0.0000")),
    _BETWEEN_SLASHES,
    _BETWEEN_SLASHES,
    _PatternHints(shapes=(b"0.0.0", b"0.00.0")),
    _PatternHints(shapes=(b"0.0.", b"0.00.")),
    _PatternHints(words=_ROMAN_WORDS),
    _PatternHints(words=_ROMAN_WORDS),
    _PatternHints(words=frozenset({b"b", b"be"})),
    _PatternHints(words=frozenset({b"a", b"ah"})),
    _PatternHints(words=frozenset({b"r", b"h", b"s"})),
    _PatternHints(words=frozenset({b"q", b"h", b"quarter", b"half"})),
    _PatternHints(words=frozenset({b"day", b"doy"})),
    _PatternHints(words=frozenset({b"k", b"o", b"my", b"eoy", b"y", b"ss", b"aw", b"fw"})),
    _MONTH_NAME,
    _BETWEEN_SLASHES,
    _BETWEEN_SLASHES,
)
_DIFFERENT = tuple(dict.fromkeys(_HINTS))
_KINDS = tuple(map(_DIFFERENT.index, _HINTS))

_PATTERNS = (
    # Q1/24, 1Q'24, Q3 FY24, FY24Q3, fiscal '24, 24Q1
    _pattern(
        rf"(?<![0-9A-Za-z])(?:{_PERIOD}(?:[ /.'_-]{{0,2}}(?:of )?(?:FY|CY|fiscal|calendar)(?:"
        r" year)?)?"
        rf"|(?:fiscal|calendar)(?:[ -]year)?)[ /.'_-]{{0,3}}{_ANY_YEAR}(?:[/-]{_SHORT})?(?:["
        rf" -]?(?:Q[1-4]|H[12]))?{_END}"
    ),
    _pattern(rf"(?<![0-9A-Za-z.,]){_ANY_YEAR}[ '/-]?(?:Q[1-4]|[1-4]Q|H[12]|[12]H)(?![0-9A-Za-z])"),
    # the '24 results, summer of '24, the '90s
    _pattern(
        rf"(?<![0-9A-Za-z'])'(?:{_SHORT}(?![0-9A-Za-z'%]|[.,][0-9])(?!(?:"
        r" [^\s']+){0,3}')|[0-9]0s(?![a-z]))"
    ),
    _pattern(rf"(?<![a-z]){_SEASON}(?: of)? '{_SHORT}(?![0-9A-Za-z])"),
    # week 39, CW39, W39/24, 2024W39
    _pattern(
        r"(?<![A-Za-z0-9])(?:(?:calendar |trading"
        r" )?week|wk\.?|CW|KW|semaine|semana|settimana|Kalenderwoche)[ -]?(?:no\.? ?)?"
        rf"{_WEEK}(?:[ ,/-]{{1,2}}{_ANY_YEAR})?{_END}"
    ),
    _pattern(
        rf"(?<![A-Za-z0-9])(?:{_YEAR}[ -]?W[0-5][0-9](?:-?[1-7])?|W[0-5][0-9]["
        rf" /-]{_ANY_YEAR})(?![0-9A-Za-z])"
    ),
    # 24092024, 09242024, 2024-268
    _pattern(
        rf"(?<![0-9A-Za-z.,])(?:{_DAY_2}{_MONTH_2}|{_MONTH_2}{_DAY_2}){_YEAR}(?![0-9A-Za-z]|[.,][0-9])"
    ),
    _pattern(
        rf"(?<![0-9A-Za-z.,-]){_YEAR}-(?:0[0-9]{{2}}|[12][0-9]{{2}}|3[0-6][0-9])(?![0-9A-Za-z-]|[.,][0-9])"
    ),
    # 24SEP24, Sep24, 24-Sep-2024, 24 sep, 24thSept
    _pattern(rf"(?<![0-9A-Za-z.,])(?:{_DAY}[ -]?)?(?:{_NAME}|{_LONG_NAME})[-_']?{_ANY_YEAR}{_END}"),
    _pattern(rf"(?<![0-9A-Za-z.,]){_DAY}[-/. ]?{_NAME}[-/. ]?(?:{_YEAR}|'?{_SHORT}){_END}"),
    _pattern(
        rf"(?<![0-9A-Za-z.,/$-]){_DAY}(?:(?:st|nd|rd|th)?(?: of)?[ -]|(?:st|nd|rd|th))"
        r"(?:jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec)(?![A-Za-z])"
    ),
    _pattern(rf"(?<![0-9.,$]){_DAY}\. (?!may |march ){_LONG_NAME}(?: {_YEAR})?(?![A-Za-z])"),
    # 09/24, 24/09, 9/2024, on 9/24
    _pattern(
        rf"(?<![0-9./,$-])(?:0[1-9]/(?:{_DAY_2}|{_SHORT})|{_DAY_2}/0[1-9]|{_MONTH}[/-]{_YEAR}|0[1-9]\.{_YEAR})(?![0-9/%]|[.,-][0-9])"
    ),
    _pattern(
        r"(?<![a-z])(?:on|by|until|till|through|thru|since|ended|ending|dated|from|as"
        r" of|before|after|due|week of|w/e|LTM|TTM|le|el"
        rf"|il|am|vom|bis) (?:{_MONTH}/{_DAY}|{_DAY}/{_MONTH})(?![0-9/%]|[.,-][0-9]| of )"
    ),
    _pattern(
        rf"(?<![0-9./-])[0-3]?[0-9]/[0-3]?[0-9]/{_SHORT}(?![0-9/]|[- ]?(?:day|session|bar|min))"
    ),
    # 24.09.24, am 24.9., 24.IX.2024
    _pattern(
        rf"(?<![0-9.,])(?:{_DAY_2}\.{_MONTH_2}\.{_SHORT}|(?:3[01]|[12][0-9])\.{_MONTH}\.(?:1[5-9]|2[0-9]))(?![0-9.%]|,[0-9])"
    ),
    _pattern(
        rf"(?<![a-z])(?:am|zum|vom|bis|den|dem|ab|seit|und) {_DAY}\.{_MONTH}\.{_ANY_YEAR}?(?![0-9])"
    ),
    _pattern(
        rf"(?<![0-9A-Za-z.]){_DAY}[. /-]{{1,2}}{_ROMAN}[. /-]{{1,2}}{_ANY_YEAR}(?![0-9A-Za-z])", 0
    ),
    _pattern(rf"(?<![A-Za-z0-9]){_ROMAN}[/.-]{_YEAR}(?![0-9A-Za-z])", 0),
    # Thai, Islamic and Japanese years
    _pattern(
        r"(?<![0-9])25[4-8][0-9] ?(?:B\.?E\.?)(?![A-Za-z])|(?<![A-Za-z])B\.?E\.?"
        r" ?25[4-8][0-9](?![0-9])",
        0,
    ),
    _pattern(
        r"(?<![0-9])14[1-6][0-9] ?A\.?H\.?(?![A-Za-z])|(?<![A-Za-z])A\.?H\.?"
        r" ?14[1-6][0-9](?![0-9])",
        0,
    ),
    _pattern(
        r"(?<![A-Za-z0-9])(?:R|H|S|令和|平成)\.?"
        r" ?[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{1,2}(?![0-9])",
        0,
    ),
    # H2 of 25, second half of 25; Q2 of 25 companies is none
    _pattern(
        r"(?<![0-9A-Za-z])(?:[QH][1-4]|[1-4][QH]|(?:first|second|third|fourth|last|1st|2nd|3rd|4th)"
        rf" (?:quarter|half)) (?:of|in) '?{_LATE}(?![0-9A-Za-z%]|[.,][0-9])(?! {_PLURAL})"
    ),
    # day 281 of the year, 281st day of 2024, DOY 281
    _pattern(
        rf"(?<![A-Za-z])(?:(?:(?:trading )?day|DOY) (?:no\.? ?)?{_OF_YEAR} (?:of|in) {_THE_YEAR}"
        rf"|day[ -]of[ -]year:? {_OF_YEAR}|DOY[ -]?{_OF_YEAR}"
        rf"|day {_OF_YEAR} of (?:36[56]|{_YEAR}))(?![0-9A-Za-z])"
        rf"|(?<![0-9.,]){_OF_YEAR}(?:st|nd|rd|th) (?:calendar |trading |business )?day of"
        rf" (?:{_THE_YEAR}|{_YEAR})(?![0-9A-Za-z])"
    ),
    # 2K25, 2O25, MY25, EOY25, Y2025, SS25
    _pattern(
        r"(?<![0-9A-Za-z])(?:2K(?:1[0-9]|2[0-9]|3[0-9])|2O[0-3][0-9]"
        rf"|(?:MY|EOY|SS|AW|FW)[ '-]{{0,2}}{_LATE}|Y{_YEAR})(?![0-9A-Za-z])"
    ),
    # Oct the 8th, 8th day of October, 08OCT
    _pattern(
        rf"(?<![A-Za-z])(?:{_LONG_NAME}|{_NAME}\.?) the {_DAY}(?:st|nd|rd|th)(?![A-Za-z])"
        rf"|(?<![0-9.,]){_DAY}(?:st|nd|rd|th) day of {_LONG_NAME}(?![A-Za-z])"
        rf"|(?<![0-9A-Za-z.,$]){_DAY}{_NAME}(?![A-Za-z])"
    ),
    # 10/8-10/12, 10/6 to 10/10
    _pattern(
        rf"(?<![0-9A-Za-z./$-])(?!1/[2-8]|3/[48]|[57]/8){_MONTH}/{_DAY} ?(?:-|to) ?{_MONTH}/{_DAY}"
        rf"(?![0-9A-Za-z/%-]|[.,][0-9]|{_RATIO_AFTER})"
    ),
    # 10/8, 8/21
    _SLASHED,
)
# Years and days in words, each with words of which one must be in the text.
_IN_WORDS = (
    (
        frozenset({b"twenty", b"nineteen", b"thousand"}),
        _pattern(
            rf"(?<![a-z])(?:twenty[ -](?:twenty|thirty)(?:[ -](?:{_UNITS}))?|twenty["
            rf" -](?:{_TEENS})|twenty[ -]oh[ -](?:{_UNITS})"
            rf"|nineteen[ -]ninety(?:[ -](?:{_UNITS}))?"
            rf"|two[ -]thousand(?: and)?[ -](?:{_TEENS}|{_UNITS}|(?:twenty|thirty)(?:["
            rf" -](?:{_UNITS}))?))(?![a-z-])"
        ),
    ),
    (
        frozenset(name.encode() for name in _LONG_NAMES),
        _pattern(
            rf"(?<![a-z])(?:(?:the )?(?:{_ORDINALS})(?: day)? of {_LONG_NAME}(?![a-z])"
            rf"|{_LONG_NAME} (?:the )?(?:{_ORDINALS})(?![a-z-]))"
        ),
    ),
    (frozenset({b"year"}), _pattern(rf"(?<![a-z])year of the (?:{_ANIMALS})(?![a-z])")),
    (
        frozenset(year.lower().encode() for year in _ROMAN_YEARS),
        _pattern(rf"(?<![A-Za-z0-9])(?:{'|'.join(_ROMAN_YEARS)})(?![A-Za-z0-9])", 0),
    ),
)
_SIX = re.compile(
    rf"(?<![0-9A-Za-z.,/#$+-])(?:{_SHORT}{_MONTH_2}{_DAY_2}|{_DAY_2}{_MONTH_2}{_SHORT}|{_MONTH_2}{_DAY_2}{_SHORT})"
    rf"(?![0-9A-Za-z%]|[.,/-][0-9]|\.[A-Za-z])"
)


def find_free_dates(text: str, shape: TextViews, is_code: Callable[[str], bool]) -> Iterator[Span]:
    """Spans (which may overlap) of dates by the rules for free text, in a normalised text of this
    shape. `is_code`: whether six digits are rather a security code.
    """
    found = set(shape.words)
    patterns = _possible(text, shape, found)
    spans = around_digits(text, _REACH) if patterns else ()
    for start, end in spans:
        for pattern in patterns:
            for match in pattern.finditer(text, start, end):
                is_number = is_amount(text, *_last_number(match)) or (
                    pattern is _SLASHED and _is_ratio(text, match.start())
                )
                if not is_number:
                    yield match.span()

    if b"000000" in shape.runs:
        for match in _SIX.finditer(text):
            if not is_code(match[0]) and not is_amount(text, *match.span()):
                yield match.span()

    for hints, pattern in _IN_WORDS:
        if not hints.isdisjoint(found):
            yield from (match.span() for match in pattern.finditer(text))

    words = (word.decode() for word in found)
    yield from (
        (start, end) for start, end, _ in find_named(text, name_hints().intersection(words))
    )


def _possible(text: str, shape: TextViews, words: Collection[bytes]) -> Sequence[re.Pattern[str]]:
    """Return the patterns that may match in a text with these words."""
    if not text.isascii():  # other letters may fold to these
        return _PATTERNS

    allowed = [hints.allow(words, shape) for hints in _DIFFERENT]
    return [pattern for kind, pattern in zip(_KINDS, _PATTERNS, strict=True) if allowed[kind]]


def _is_ratio(text: str, start: int) -> bool:
    """Return whether a word before two numbers with a slash says that they are no day."""
    return _BEFORE_RATIO.search(text, max(0, start - len("version ") - 1), start) is not None


_REACH = 32  # characters on both sides of a number that a date can have


def _last_number(match: re.Match[str]) -> Span:
    """The number that a match ends on: an amount if a unit follows (`Q1 20 shares`)."""
    start = match.end()
    while start > match.start() and match[0][start - match.start() - 1].isdigit():
        start -= 1
    return start, match.end()
