"""Literals in an instruction, which another wording has to keep so that the expected calls stay
right.

Literals are days in any notation, times, numbers, codes and symbols, quoted names, and words that
decide between calls (`literals.yaml`). A wording that keeps all of them and adds none may still
mean something else, but it can't name another stock, day, price or quantity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final

from ktdeval.values import load_yaml

SHORTEST: Final = 10  #: characters allowed in a wording
LONGEST: Final = 2_000

_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH: Final = "(?P<month>" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _MONTHS) + r")\.?"
_DAY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year>\d{4})"
_SPOKEN_DAYS: Final = (
    re.compile(rf"\b{_MONTH} {_DAY},? {_YEAR}\b", re.IGNORECASE),
    re.compile(rf"\b{_DAY}(?: of)? {_MONTH},? {_YEAR}\b", re.IGNORECASE),
)
_SPOKEN_MONTH: Final = re.compile(rf"\b{_MONTH} {_YEAR}\b", re.IGNORECASE)
_STEP_NUMBER: Final = re.compile(r"\(\d{1,2}\)")
_LITERALS: Final = re.compile(
    r"""
    “(?P<quoted>[^”]+)” | "(?P<plain_quoted>[^"]+)"
    | (?P<moment>\d{4}-\d{2}(?:-\d{2}(?:T[\d:]+Z?)?)?)
    | (?P<clock>\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]\.?m\b)?)
    | (?P<code>[A-Za-z]+[-_:][\w-]*\d\w*)
    | (?P<symbol>\b[A-Z]{2,}\b)
    | (?P<number>\d[\d,]*(?:\.\d+)?)
    """,
    re.VERBOSE,
)
_NUMBER_WORDS: Final = {
    word: str(number)
    for number, word in enumerate(
        (
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ),
        2,
    )
}
_WORD: Final = re.compile(r"[a-z][a-z-]*")


@cache
def _deciding_words() -> Mapping[str, str]:
    """Return the words that decide between calls: each spelling -> the word."""
    spellings: dict[str, str] = {}
    for group in load_yaml(Path(__file__).with_name("literals.yaml")).values():
        for word, written in group.items():
            spellings |= dict.fromkeys(written, word)

    return spellings


def literals_of(instruction: str) -> frozenset[str]:
    """Return the literals in an instruction, each in one form: `2025-03-07`, `155`, `AVLN`,
    `buy`.
    """
    text = _STEP_NUMBER.sub(" ", instruction)
    for pattern in _SPOKEN_DAYS:
        text = pattern.sub(_iso_day, text)

    text = _SPOKEN_MONTH.sub(_iso_month, text)
    return frozenset((*_written_literals(text), *_word_literals(text)))


def _iso_day(match: re.Match[str]) -> str:
    """Return a spoken day in ISO form; unchanged if the calendar has no such day."""
    try:
        return date(int(match["year"]), _month_number(match), int(match["day"])).isoformat()
    except ValueError:
        return match[0]


def _iso_month(match: re.Match[str]) -> str:
    """Return a spoken month and year as `2025-02`."""
    return f"{match['year']}-{_month_number(match):02d}"


def _month_number(match: re.Match[str]) -> int:
    return [name[:3] for name in _MONTHS].index(match["month"][:3].lower()) + 1


def _written_literals(text: str) -> Iterator[str]:
    for match in _LITERALS.finditer(text):
        kind = match.lastgroup
        literal = match[kind] if kind else ""
        if kind == "clock":
            literal = re.sub(r"[\s.]", "", literal)
        if kind == "number":
            literal = _plain_number(literal)
            if literal == "1":  # "one", "a" and "an" mean it too
                continue

        yield literal


def _plain_number(text: str) -> str:
    number = text.replace(",", "")
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return number


def _word_literals(text: str) -> Iterator[str]:
    lower = text.lower()
    spellings = _deciding_words()
    for word in _WORD.findall(lower):
        if word in _NUMBER_WORDS:
            yield _NUMBER_WORDS[word]
        elif word in spellings:
            yield spellings[word]

    if "day by day" in lower:
        yield spellings["day by day"]


def wording_problem(original: str, wording: str) -> str:
    """Return why a wording can't replace an instruction, or an empty string if it can."""
    if not SHORTEST <= len(wording) <= LONGEST:
        return f"has {len(wording)} characters, expected {SHORTEST} to {LONGEST}"
    if " ".join(wording.lower().split()) == " ".join(original.lower().split()):
        return "is the original"

    wanted = literals_of(original)
    found = literals_of(wording)
    missing = sorted(wanted - found)
    if missing:
        return f"lacks {', '.join(missing)}"

    added = sorted(found - wanted)
    return f"adds {', '.join(added)}" if added else ""
