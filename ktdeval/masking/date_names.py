"""Names of months and weekdays in other languages than English, in normalised text.

The names are those of the Unicode CLDR (`date_names.csv`, which `benchmarks/date_names.py` writes). A full name of six letters and
more counts wherever it stands; a shorter one in small letters or after a word such as `en`, `im` or `di`; one that is an English
word or a name (`mars`, `augustus`) and an abbreviation only next to a day or a year. The number of a day or a year next to a name
belongs to the date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ktdeval.jsonio import csv_rows
from ktdeval.masking.dates import WORD_HINTS
from ktdeval.masking.text import lowered, normalise, places_of, touches_letter

_FULL = 6  # letters of a name that counts alone
_SHORTEST = 4  # letters of one that counts alone in small letters
_DAY = r"(?:3[01]|[12][0-9]|0?[1-9])"
_YEAR = r"(?:(?:19|20)[0-9]{2}|25[4-8][0-9]|'?(?:9[0-9]|[0-3][0-9])(?![0-9]))"
_LISTED = csv_rows(Path(__file__).with_name("date_words.csv"))
# English words, and names of persons and places, that are a month or weekday elsewhere; and words that are an abbreviation of one.
_DOUBTFUL, _CLASHES = (
    frozenset(row["word"] for row in _LISTED if row["kind"] == f"{kind} elsewhere") for kind in ("name", "abbreviation")
)
_BEFORE = re.compile(
    rf"(?<![0-9.,])(?:{_DAY}\.?(?: ?[-/] ?| (?:y|a|e|et|au|und|bis|en|tot|i|do) )(?:el )?)?"
    rf"{_DAY}(?:st|nd|rd|th|er|ter|ten|te|e|o|a)?[.°]?(?:[ /-]| ?(?:de|di|of|den|d'|van|o) ?)\Z",
    re.IGNORECASE,
)
_AFTER = re.compile(
    rf"[.,]?(?:[ /-]| (?:de|del|di|do|van|roku|r) )(?:{_DAY}[.,]?(?![0-9])(?:,? ?{_YEAR})?|{_YEAR})(?![0-9A-Za-z%]|[.,][0-9])",
    re.IGNORECASE,
)
_PREPOSITION = re.compile(
    r"(?<![A-Za-z])(?:en|in|im|de|del|du|di|do|da|em|no|na|nel|au|am|a|ab|bis|seit|ende|anfang|mitte|desde|hasta|depuis|fin|debut|"
    r"mi|meados|w|we|v|ve|od|i|op|sinds|eind|begin|pa|den|le|el|il|este|ce|jeudi|last|next|since|until|by|early|late) \Z",
    re.IGNORECASE,
)
_FOREIGN_PREPOSITION = re.compile(
    r"(?<![A-Za-z])(?:en|im|em|nel|au|ab|bis|seit|ende|anfang|mitte|desde|hasta|depuis|fin de|debut|meados de|sinds|eind) \Z",
    re.IGNORECASE,
)
_FULL_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_NEAR = 24
_OTHER_SCRIPT = re.compile("[\u0370-\u1cff]")
_THAI = "\u0e00-\u0e7f"


class Name(NamedTuple):
    """One name: of a month (`number` from 1) or weekday (0), and whether it is written out."""

    number: int
    is_full: bool


@cache
def _names() -> dict[str, Name]:
    names: dict[str, Name] = {}
    for row in csv_rows(Path(__file__).with_name("date_names.csv")):
        plain = lowered(normalise(row["name"]))
        plain = " ".join(re.sub(r"^(?:de |d')", "", plain).replace("-", " ").split())
        number = int(row["number"]) if row["unit"] == "month" else 0
        is_full = row["form"] == "full"
        if len(plain) > 1 and plain not in names and plain not in WORD_HINTS:
            names[plain] = Name(number, is_full)
    return names


@cache
def latin_names() -> dict[str, Name]:
    """Names that are ASCII once they are normalised, by them; `-` and spaces within are one space."""
    return {name: value for name, value in _names().items() if name.isascii()}


@cache
def name_hints() -> frozenset[str]:
    """First words of these names, without one of which none of them is in an ASCII text."""
    return frozenset(name.partition(" ")[0] for name in latin_names())


def find_named(text: str, words: frozenset[str]) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and month (0: weekday) of dates in other languages; `words`: those of `name_hints` in the text."""
    lower = lowered(text)
    for word in words:
        for name in _names_from(word):
            for start in places_of(lower, name):
                if touches_letter(lower, start, start + len(name)):
                    continue
                span = _latin_span(text, start, start + len(name), name)
                if span is not None:
                    yield span
    if not text.isascii() and _OTHER_SCRIPT.search(text) is not None:
        for match in _other_pattern().finditer(lower):
            found = _names().get(match[0])
            if found is not None:
                yield (*_with_numbers(text, match.start(), match.end()), found.number)


@cache
def _names_from(word: str) -> tuple[str, ...]:
    """Spellings of the names that begin with a word, the parts of longer ones joined by a space or a hyphen."""
    names = [name for name in latin_names() if name.partition(" ")[0] == word]
    return tuple(dict.fromkeys(spelled for name in names for spelled in (name, name.replace(" ", "-"))))


@cache
def _other_pattern() -> re.Pattern[str]:
    names = sorted((name for name in _names() if not name.isascii() and len(name) > 2), key=len, reverse=True)
    apart = "|".join(re.escape(name) for name in names if not re.match(f"[{_THAI}]", name))
    together = "|".join(re.escape(name) for name in names if re.match(f"[{_THAI}]", name))
    return re.compile(rf"(?<![^\W\d_])(?:{apart})(?![^\W\d_])|{together}")


def _latin_span(text: str, start: int, end: int, found: str) -> tuple[int, int, int] | None:
    word = found.replace("-", " ")
    name = latin_names()[word]
    first, last = _with_numbers(text, start, end)
    has_before, has_after = first < start, last > end
    is_alone = not (has_before or has_after)
    if not name.is_full:
        is_certain = name.number > 0 and _FULL_YEAR.search(text, end, last) is not None
        is_date = has_before and (is_certain or word not in _CLASHES)
        return (first, last, name.number) if is_date else None
    if word in _DOUBTFUL or len(word) < _SHORTEST:
        is_told = _FOREIGN_PREPOSITION.search(text, max(0, start - _NEAR), start) is not None
        return (first, last, name.number) if is_told or not is_alone else None
    counts_alone = len(word) >= _FULL or text[start:end].islower() or _is_after_preposition(text, start)
    return (first, last, name.number) if counts_alone or not is_alone else None


def _is_after_preposition(text: str, start: int) -> bool:
    return _PREPOSITION.search(text, max(0, start - _NEAR), start) is not None


def _with_numbers(text: str, start: int, end: int) -> tuple[int, int]:
    before, after = _BEFORE.search(text, max(0, start - _NEAR), start), _AFTER.match(text, end)
    return before.start() if before else start, after.end() if after else end
