"""Find names of months and weekdays in languages other than English, in normalised text.

The names are from the Unicode CLDR (`date_names.csv`, written by `benchmarks/date_names.py`).

* A full name of six letters or more is always a date.
* A shorter full name is a date in lower case, or after a word such as `en`, `im` or `di`.
* An abbreviation, or a name that is also an English word or a person's name (`mars`, `augustus`),
  is a date only next to a day or a year.

The date includes a day or a year next to the name.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ktdeval.masking.dates.date_detection import WORD_HINTS
from ktdeval.masking.text_normalisation import lower_text, normalise
from ktdeval.values.disk.files import csv_rows

_FULL = 6  # minimum letters of a full name that is always a date
_SHORTEST = 4  # minimum letters of a full name that is a date in lower case
_DAY = r"(?:3[01]|[12][0-9]|0?[1-9])"
_YEAR = r"(?:(?:19|20)[0-9]{2}|25[4-8][0-9]|'?(?:9[0-9]|[0-3][0-9])(?![0-9]))"
_LISTED = csv_rows(Path(__file__).with_name("date_words.csv"))


def _words_of_kind(kind: str) -> frozenset[str]:
    return frozenset(row["word"] for row in _LISTED if row["kind"] == kind)


# English words and names of persons or places that mean a month or weekday in another language
_DOUBTFUL = _words_of_kind("name elsewhere")
# words that abbreviate a month or weekday in another language
_CLASHES = _words_of_kind("abbreviation elsewhere")
_BEFORE = re.compile(
    rf"(?<![0-9.,])(?:{_DAY}\.?(?: ?[-/] ?| (?:y|a|e|et|au|und|bis|en|tot|i|do) )(?:el )?)?"
    rf"{_DAY}(?:st|nd|rd|th|er|ter|ten|te|e|o|a)?[.°]?(?:[ /-]| ?(?:de|di|of|den|d'|van|o) ?)\Z",
    re.IGNORECASE,
)
_AFTER = re.compile(
    rf"[.,]?(?:[ /-]| (?:de|del|di|do|van|roku|r) )(?:{_DAY}[.,]?(?![0-9])(?:,?"
    rf" ?{_YEAR})?|{_YEAR})(?![0-9A-Za-z%]|[.,][0-9])",
    re.IGNORECASE,
)
_PREPOSITION = re.compile(
    r"(?<![A-Za-z])(?:en|in|im|de|del|du|di|do|da|em|no|na|nel|au|am|a|ab|bis"
    r"|seit|ende|anfang|mitte|desde|hasta|depuis|fin|debut|"
    r"mi|meados|w|we|v|ve|od|i|op|sinds|eind|begin"
    r"|pa|den|le|el|il|este|ce|jeudi|last|next|since|until|by|early|late) \Z",
    re.IGNORECASE,
)
_FOREIGN_PREPOSITION = re.compile(
    r"(?<![A-Za-z])(?:en|im|em|nel|au|ab|bis|seit|ende|anfang|mitte|desde|hasta|depuis|fin"
    r" de|debut|meados de|sinds|eind) \Z",
    re.IGNORECASE,
)
_TOKEN = re.compile("[a-z]+")
_FULL_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_NEAR = 24
_OTHER_SCRIPT = re.compile("[\u0370-\u1cff]")
_THAI = "\u0e00-\u0e7f"


@dataclass(frozen=True, slots=True)
class DateName:
    """One name of a month (`number` from 1) or weekday (`number` 0), and whether it is a
    full name.
    """

    number: int
    is_full: bool


# Many episodes begin at once. Without the lock, each thread would read the table.
_READING = threading.Lock()


def _date_names() -> dict[str, DateName]:
    with _READING:
        return _listed_names()


@cache
def _listed_names() -> dict[str, DateName]:
    names: dict[str, DateName] = {}
    for row in csv_rows(Path(__file__).with_name("date_names.csv")):
        plain = lower_text(normalise(row["name"]))
        without_article = re.sub(r"^(?:de |d')", "", plain)
        plain = " ".join(without_article.replace("-", " ").split())
        number = int(row["number"]) if row["unit"] == "month" else 0
        is_full = row["form"] == "full"

        # `ktdeval.masking.dates.date_detection` has separate rules for English names.
        if len(plain) > 1 and plain not in names and plain not in WORD_HINTS:
            names[plain] = DateName(number, is_full)

    return names


@cache
def latin_names() -> dict[str, DateName]:
    """Return the names that are ASCII after normalisation. Hyphens in names become spaces."""
    return {name: value for name, value in _date_names().items() if name.isascii()}


@cache
def name_hints() -> frozenset[str]:
    """Return the first words of these names. An ASCII text without any of these words contains no
    such name.
    """
    return frozenset(name.partition(" ")[0] for name in latin_names())


def find_named(text: str, words: frozenset[str]) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and month (0: weekday) of dates in other languages. `words`: the words from
    `name_hints` that occur in the text.
    """
    lower = lower_text(text)
    for token in _TOKEN.finditer(lower) if words else ():
        if token[0] not in words:
            continue

        for name, pattern in _names_from(token[0]):
            match = pattern.match(lower, token.start())
            if match is not None:
                span = _latin_span(text, *match.span(), name)
                if span is not None:
                    yield span

    if not text.isascii() and _OTHER_SCRIPT.search(text) is not None:
        for match in _other_pattern().finditer(lower):
            found = _date_names().get(match[0])
            if found is not None:
                yield (*_with_numbers(text, match.start(), match.end()), found.number)


@cache
def _names_from(word: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the names that begin with a word, each with its lower-case pattern. Words in a longer
    name are joined by a space or a hyphen.
    """
    patterns = []
    for name in latin_names():
        if name.partition(" ")[0] == word:
            spelled = name.replace(" ", "[ -]")
            patterns.append((name, re.compile(rf"{spelled}(?![a-z])")))

    return tuple(patterns)


@cache
def _other_pattern() -> re.Pattern[str]:
    """Return a pattern for the names in other scripts, longest first."""
    names = [name for name in _date_names() if not name.isascii() and len(name) > 2]
    names.sort(key=len, reverse=True)
    alone = []
    anywhere = []  # Thai has no spaces between words

    for name in names:
        if re.match(f"[{_THAI}]", name):
            anywhere.append(re.escape(name))
        else:
            alone.append(re.escape(name))

    return re.compile(rf"(?<![^\W\d_])(?:{'|'.join(alone)})(?![^\W\d_])|{'|'.join(anywhere)}")


def _latin_span(text: str, start: int, end: int, word: str) -> tuple[int, int, int] | None:
    """Return start, end and month of the date around a name at [start, end). None if the name is
    not part of a date there.
    """
    name = latin_names()[word]
    first, last = _with_numbers(text, start, end)
    has_number = first < start or last > end

    if not name.is_full:
        has_day_before = first < start
        has_year = name.number > 0 and _FULL_YEAR.search(text, end, last) is not None
        is_date = has_day_before and (has_year or word not in _CLASHES)
    elif word in _DOUBTFUL or len(word) < _SHORTEST:
        is_date = has_number or _is_behind(_FOREIGN_PREPOSITION, text, start)
    else:
        is_date = (
            has_number
            or len(word) >= _FULL
            or text[start:end].islower()
            or _is_behind(_PREPOSITION, text, start)
        )

    if not is_date:
        return None
    return first, last, name.number


def _is_behind(preposition: re.Pattern[str], text: str, start: int) -> bool:
    return preposition.search(text, max(0, start - _NEAR), start) is not None


def _with_numbers(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend [start, end) by the day before it, and by the day and year after it."""
    before = _BEFORE.search(text, max(0, start - _NEAR), start)
    if before is not None:
        start = before.start()

    after = _AFTER.match(text, end)
    if after is not None:
        end = after.end()

    return start, end
