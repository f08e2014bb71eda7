"""Rules of `ktdeval.masking.dates.free_dates` for days, weeks, months and years, in the spellings found
in documents.
"""

from __future__ import annotations

import re

from ktdeval.masking.dates.date_rules import (
    ANY_YEAR,
    DAY,
    DAY_2,
    END,
    LATE,
    LONG_NAME,
    LONG_NAMES,
    MONTH,
    MONTH_2,
    NAME,
    SHORT,
    SHORT_NAMES,
    TEENS,
    TENS,
    UNITS,
    WEEK,
    YEAR,
    YEARS,
    DateRule,
    date_rule,
    has_beginnings,
    has_shapes,
    has_words,
)
from ktdeval.masking.dates.reporting_periods import PERIODS, PERIODS_IN_WORDS

_ANIMALS = (
    "rat|ox|tiger|rabbit|hare|dragon|snake|horse|goat|sheep|ram|monkey|rooster|chicken|dog|pig|boar"
)
_ROMAN = r"(?:XI{0,2}|IX|IV|VI{0,3}|I{1,3}|V)"
_FIRST_TO_NINTH = "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth"
_ORDINALS = (
    f"{_FIRST_TO_NINTH}|tenth|eleventh|twelfth|thirteenth|fourteenth|fifteenth|sixteenth|seventeenth|"
    f"eighteenth|nineteenth|twentieth|thirtieth|thirty[ -]first|twenty[ -](?:{_FIRST_TO_NINTH})"
)
_SEASON = (
    r"(?:spring|summer|autumn|fall|winter|class"
    r" of|season|year|fiscal|calendar|quarter|half|guidance|results|earnings)"
)
# Roman numerals for 1990 to 2039, except those that are words (`MMX`)
_ROMAN_YEARS: tuple[str, ...] = tuple(
    year
    for century, tens in (("MCM", ("XC",)), ("MM", ("", "X", "XX", "XXX")))
    for ten in tens
    for one in ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
    if len(year := century + ten + one) > len("MMX")
)
_ROMAN_YEARS += tuple(year.lower() for year in _ROMAN_YEARS if len(year) > len("MMXX"))
_OF_YEAR = "(?:36[0-6]|3[0-5][0-9]|[12][0-9]{2}|[1-9]?[0-9])"
_THE_YEAR = "(?:the|this|last|that) (?:calendar |trading |fiscal )?year"
_RATIO_AFTER = (
    r"[ -](?:of|inch(?:es)?|in\.|split|ratio|odds|vote|mix|ownership|times|aspect|scale|blend|"
    r"(?:day|session|bar|min|week|month|hour|point|share)s?)(?![a-z])"
)
_DATED = (
    r"(?<![a-z])(?:on|by|until|till|through|thru|since|ended|ending|dated?:?|from|as"
    r" of|before|after|due|week of|w/e|LTM|TTM|le|el|il|am|vom|bis)"
)
_MONTH_NAMES = has_beginnings("jan feb mar apr may jun jul aug sep oct nov dec")
_ROMAN_WORDS = has_words("i ii iii iv v vi vii viii ix x xi xii")
_QUOTE = has_shapes(b"'00", b"'0")
_BETWEEN_SLASHES = has_shapes(b"0-0")
_SPACED = r"[ ._*·-]"
_SPACED_LONG = "|".join(_SPACED.join(name) for name in LONG_NAMES if name != "may")
_SPACED_SHORT = "|".join(_SPACED.join(name) for name in SHORT_NAMES)
_DIGITS_APART = (b"0 0 0 0", b"0_0_0_0", b"0-0-0-0", b"0.0.0.0", b"0*0*0*0", b"0|0|0|0")
_DIGITS_FAR_APART = (b"0 . 0", b"0 - 0", b"0 _ 0", b"0 * 0", b"0 | 0")

RULES: tuple[DateRule, ...] = (
    *PERIODS,
    # the '24 results, summer of '24, the '90s, Ignite'24
    date_rule(
        _QUOTE,
        rf"(?<![0-9A-Za-z'])'(?:{SHORT}(?![0-9A-Za-z%]|'(?!s(?![a-z]))|[.,][0-9])(?!(?:"
        r" [^\s']+){1,3}')|[0-9]0s(?![a-z]))",
    ),
    date_rule(_QUOTE, rf"(?<![a-z]){_SEASON}(?: of)? '{SHORT}(?![0-9A-Za-z])"),
    date_rule(_QUOTE, rf"(?<=[A-Za-z])'{LATE}{END}"),
    # week 39, CW39, W39/24, 2024W39
    date_rule(
        has_beginnings("calendar trading week wk cw kw sem sett kal"),
        r"(?<![A-Za-z0-9])(?:(?:calendar |trading"
        r" )?week|wk\.?|CW|KW|semaine|semana|settimana|Kalenderwoche)[ -]?(?:no\.? ?)?"
        rf"{WEEK}(?:[ ,/-]{{1,2}}{ANY_YEAR})?{END}",
    ),
    date_rule(
        has_beginnings("w"),
        rf"(?<![A-Za-z0-9])(?:{YEAR}[ -]?W[0-5][0-9](?:-?[1-7])?|W[0-5][0-9]["
        rf" /-]{ANY_YEAR})(?![0-9A-Za-z])",
    ),
    # 24092024, 09242024, 2024-268
    date_rule(
        has_shapes(b"00000000"),
        rf"(?<![0-9A-Za-z.,])(?:{DAY_2}{MONTH_2}|{MONTH_2}{DAY_2}){YEAR}(?![0-9A-Za-z]|[.,][0-9])",
    ),
    date_rule(
        has_shapes(b"0000-000"),
        rf"(?<![0-9A-Za-z.,-]){YEAR}-(?:0[0-9]{{2}}|[12][0-9]{{2}}|3[0-6][0-9])(?![0-9A-Za-z-]|[.,][0-9])",
    ),
    # 2 0 2 5, 2_0_2_5; since 20 24, year 20/24
    date_rule(
        has_shapes(*_DIGITS_APART, *_DIGITS_FAR_APART),
        r"(?<![0-9A-Za-z.,])(?<![0-9][ ._/|*·-])(?<!version )(?<!release )(?<!firmware )"
        r"(?:2(?P<a>[ ._/|*·-]| [._/|*·-] )0(?P=a)[0-3](?P=a)[0-9](?!(?P=a)[0-9])"
        r"|1(?P<b>[ ._/|*·-]| [._/|*·-] )9(?P=b)9(?P=b)[0-9](?!(?P=b)[0-9]))(?![0-9A-Za-z]|[.,][0-9])",
    ),
    date_rule(
        has_shapes(b"00 00", b"00_00", b"00-00"),
        r"(?<![a-z])(?:(?:in|since|by|until|through|during|year|from|late|early|mid|end) 20[ _]"
        rf"|(?:since|year|until|back in) 20/)[0-3][0-9](?!-){END}",
    ),
    # 24SEP24, Sep24, 24-Sep-2024, 24 sep, 24thSept, Dec-25E, Mar25Q
    date_rule(
        _MONTH_NAMES,
        rf"(?<![0-9A-Za-z.,])(?:{DAY}[ -]?)?(?:{NAME}|{LONG_NAME})(?:[-_'/]| ')?"
        rf"(?:{YEARS}|{ANY_YEAR}Q){END}",
    ),
    date_rule(
        _MONTH_NAMES,
        rf"(?<![0-9A-Za-z.,]){DAY}[-/. ]?{NAME}[-/. ]?(?:{YEAR}|'?{SHORT}){END}",
    ),
    date_rule(
        has_beginnings("jan feb mar apr may jun jul aug sep oct nov dec st nd rd th"),
        rf"(?<![0-9A-Za-z.,/$-]){DAY}(?:(?:st|nd|rd|th)?(?: of)?[ -]|(?:st|nd|rd|th))"
        r"(?:jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec)(?![A-Za-z])",
    ),
    date_rule(
        _MONTH_NAMES,
        rf"(?<![0-9.,$]){DAY}\. (?!may |march ){LONG_NAME}(?: {YEAR})?(?![A-Za-z])",
    ),
    # Sunday the 5th
    date_rule(
        has_beginnings("mon tue wed thu fri sat sun"),
        r"(?<![a-z])(?:mon|tues?|wed(?:nes)?|thur?s?|fri|satur|sun)(?:day)?,? (?:the )?"
        rf"{DAY}(?:st|nd|rd|th)(?![A-Za-z])",
    ),
    # 09/24, 24/09, 9/2024, on 9/24, on 5-1-25, as of 7.8.25
    date_rule(
        has_shapes(b"0-0", b"0.0000"),
        rf"(?<![0-9./,$-])(?:0[1-9]/(?:{DAY_2}|{SHORT})|{DAY_2}/0[1-9]|{MONTH}[/-]{YEAR}|0[1-9]\.{YEAR})(?![0-9/%]|[.,-][0-9])",
    ),
    date_rule(
        _BETWEEN_SLASHES,
        rf"{_DATED} (?!24/7)(?:{MONTH}/{DAY}|{DAY}/{MONTH})(?![0-9/%]|[.,-][0-9]| of )",
    ),
    date_rule(
        has_shapes(b"0-0-0", b"0-00-0", b"0.0.0", b"0.00.0"),
        rf"{_DATED} (?:{DAY}(?P<a>[.-]){MONTH}(?P=a){SHORT}|{MONTH}(?P<b>[.-]){DAY}(?P=b){SHORT})"
        r"(?![0-9A-Za-z%]|[.,-][0-9])",
    ),
    date_rule(
        _BETWEEN_SLASHES,
        rf"(?<![0-9./-])[0-3]?[0-9]/[0-3]?[0-9]/{SHORT}(?![0-9/]|[- ]?(?:day|session|bar|min))",
    ),
    # 24.09.24, am 24.9., 24.IX.2024
    date_rule(
        has_shapes(b"0.0.0", b"0.00.0"),
        rf"(?<![0-9.,])(?:{DAY_2}\.{MONTH_2}\.{SHORT}|(?:3[01]|[12][0-9])\.{MONTH}\.(?:1[5-9]|2[0-9]))"
        r"(?![0-9%]|[.,][0-9])",
    ),
    date_rule(
        has_shapes(b"0.0.", b"0.00."),
        rf"(?<![a-z])(?:am|zum|vom|bis|den|dem|ab|seit|und) {DAY}\.{MONTH}\.{ANY_YEAR}?(?![0-9])",
    ),
    date_rule(
        _ROMAN_WORDS,
        rf"(?<![0-9A-Za-z.]){DAY}[. /-]{{1,2}}{_ROMAN}[. /-]{{1,2}}{ANY_YEAR}(?![0-9A-Za-z])",
        0,
    ),
    date_rule(_ROMAN_WORDS, rf"(?<![A-Za-z0-9]){_ROMAN}[/.-]{YEAR}(?![0-9A-Za-z])", 0),
    # Thai, Islamic and Japanese years
    date_rule(
        has_words("b be"),
        r"(?<![0-9])25[4-8][0-9] ?(?:B\.?E\.?)(?![A-Za-z])|(?<![A-Za-z])B\.?E\.?"
        r" ?25[4-8][0-9](?![0-9])",
        0,
    ),
    date_rule(
        has_words("a ah"),
        r"(?<![0-9])14[1-6][0-9] ?A\.?H\.?(?![A-Za-z])|(?<![A-Za-z])A\.?H\.?"
        r" ?14[1-6][0-9](?![0-9])",
        0,
    ),
    date_rule(
        has_words("r h s"),
        r"(?<![A-Za-z0-9])(?:R|H|S|令和|平成)\.?"
        r" ?[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{1,2}(?![0-9])",
        0,
    ),
    # day 281 of the year, 281st day of 2024, DOY 281
    date_rule(
        has_words("day doy"),
        rf"(?<![A-Za-z])(?:(?:(?:trading )?day|DOY) (?:no\.? ?)?{_OF_YEAR} (?:of|in) {_THE_YEAR}"
        rf"|day[ -]of[ -]year:? {_OF_YEAR}|DOY[ -]?{_OF_YEAR}"
        rf"|day {_OF_YEAR} of (?:36[56]|{YEAR}))(?![0-9A-Za-z])"
        rf"|(?<![0-9.,]){_OF_YEAR}(?:st|nd|rd|th) (?:calendar |trading |business )?day of"
        rf" (?:{_THE_YEAR}|{YEAR})(?![0-9A-Za-z])",
    ),
    # 2K25, 2O25, SS25, Y2025, 2024AD, CES2026
    date_rule(
        has_words("k o y ss aw fw"),
        r"(?<![0-9A-Za-z])(?:2K(?:1[0-9]|2[0-9]|3[0-9])|2O[0-3][0-9]"
        rf"|(?:SS|AW|FW)[ '-]{{0,2}}{LATE}|Y(?:{YEAR}|{LATE}))(?![0-9A-Za-z])",
    ),
    date_rule(
        has_words("ad ce a c"),
        rf"(?<![0-9A-Za-z.,]){YEAR} ?(?:AD|CE|A\.D\.|C\.E\.)(?![0-9A-Za-z])",
        0,
    ),
    date_rule(
        has_shapes(b"0000"), r"(?<=[A-Za-z]{2})(?:20[12][0-9]|203[0-9])(?![0-9A-Za-z]|[.,][0-9])"
    ),
    # 202four, twenty24, 20twenty-four
    date_rule(
        has_beginnings(
            "twenty thirty one two three four five six seven eight nine ten eleven twelve fif sixt sev eigh nine"
        ),
        rf"(?<![0-9A-Za-z.,])(?:20[0-3](?:{UNITS})|20[ -]?{TENS}|twenty-?[1-3][0-9]"
        rf"|two thousand(?: and)? [1-3][0-9])(?![0-9A-Za-z%]|[.,-][0-9])",
    ),
    # Oct the 8th, 8th day of October, 08OCT
    date_rule(
        _MONTH_NAMES,
        rf"(?<![A-Za-z])(?:{LONG_NAME}|{NAME}\.?) the {DAY}(?:st|nd|rd|th)(?![A-Za-z])"
        rf"|(?<![0-9.,]){DAY}(?:st|nd|rd|th) day of {LONG_NAME}(?![A-Za-z])"
        rf"|(?<![0-9A-Za-z.,$]){DAY}{NAME}(?![A-Za-z])",
    ),
    # 10/8-10/12, 10/6 to 10/10
    date_rule(
        _BETWEEN_SLASHES,
        rf"(?<![0-9A-Za-z./$-])(?!1/[2-8]|3/[48]|[57]/8){MONTH}/{DAY} ?(?:-|to) ?{MONTH}/{DAY}"
        rf"(?![0-9A-Za-z/%-]|[.,][0-9]|{_RATIO_AFTER})",
    ),
    # 10/8, 8/21: a month and a day, distinguished from usual fractions by their order or a common
    # divisor
    DateRule(
        _BETWEEN_SLASHES,
        re.compile(
            r"(?<![0-9A-Za-z./,:$€£%#+=≈×-])(?<![=~≈×*] )(?<![0-9A-Za-z)][*(~])(?!24/[5-7]|16/9|21/9|20/10|11/10)"
            r"(?:(?:1[0-2]|0?[2-9])/(?:1[3-57-9]|2[1-9]|3[01])"
            r"|(?:1[3-57-9]|2[1-9]|3[01])/(?:1[0-2]|0?[2-9])"
            r"|(?:1[02]|[2468])/(?:16|20)|5/20|12/(?:1[01]|[2-9])|11/(?:11|10|[2-9])|10/[2-9]|9/(?:11|[2-8])|8/[2-7])"
            rf"(?![0-9A-Za-z/%]|[.,:][0-9]|-[0-9A-Za-z]|{_RATIO_AFTER})"
        ),
        is_slashed=True,
    ),
)
IN_WORDS: tuple[DateRule, ...] = (
    *PERIODS_IN_WORDS,
    date_rule(
        has_words("twenty nineteen thousand thirty"),
        rf"(?<![a-z])(?:twenty[ -](?:twenty|thirty)(?:[ -](?:{UNITS}))?|twenty["
        rf" -](?:{TEENS})|twenty[ -]oh[ -](?:{UNITS})"
        rf"|nineteen[ -]ninety(?:[ -](?:{UNITS}))?"
        rf"|two[ -]thousand(?: and)?[ -](?:{TEENS}|{UNITS}|(?:twenty|thirty)(?:["
        rf" -](?:{UNITS}))?)|'(?:twenty|thirty)[ -](?:{UNITS}))(?![a-z-])",
    ),
    date_rule(
        has_words(" ".join((*LONG_NAMES, *SHORT_NAMES))),
        rf"(?<![a-z])(?:(?:the )?(?:{_ORDINALS})(?: day)? of {LONG_NAME}(?![a-z])"
        rf"|(?:{LONG_NAME}|{NAME}\.) (?:the )?(?:{_ORDINALS})(?![a-z-]))",
    ),
    date_rule(has_words("year"), rf"(?<![a-z])year of the (?:{_ANIMALS})(?![a-z])"),
    date_rule(
        has_words(" ".join(year.lower() for year in _ROMAN_YEARS)),
        rf"(?<![A-Za-z0-9])(?:{'|'.join(_ROMAN_YEARS)})(?![A-Za-z0-9])",
        0,
    ),
    # J a n 5
    date_rule(
        has_words("n b r y l g p t v c h e"),
        rf"(?<![A-Za-z])(?:{_SPACED_LONG}|(?:{_SPACED_SHORT})[ .,'-]{{1,2}}(?:{YEAR}|{DAY}))"
        r"(?![0-9A-Za-z])",
    ),
)

SIX_DIGITS = re.compile(
    rf"(?<![0-9A-Za-z.,/#$+-])(?:{SHORT}{MONTH_2}{DAY_2}|{DAY_2}{MONTH_2}{SHORT}|{MONTH_2}{DAY_2}{SHORT})"
    rf"(?![0-9A-Za-z%]|[.,/-][0-9]|\.[A-Za-z])"
)
BEFORE_RATIO = re.compile(
    r"(?<![A-Za-z])(?:of|scored?|rat(?:ed|ing|io)|odds|split|version|vision|page|chapter|rule|"
    r"section|class|won|lost|beat|tied|than|x|a|an) \Z",
    re.IGNORECASE,
)
