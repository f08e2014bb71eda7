"""Type of the rules in `ktdeval.masking.dates.free_dates`, and parts of patterns shared by several rules.

Each rule is a pattern with features that a text must have for the pattern to match. Most texts lack
the features of most rules, so most patterns are never tried.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ktdeval.masking.text_normalisation import TextViews

YEAR = r"(?:199[0-9]|20[0-3][0-9])"
SHORT = r"(?:9[0-9]|[0-3][0-9])"
# two-digit years that are recognised without any other sign of a year
LATE = "(?:1[5-9]|2[0-9]|3[0-9])"
ANY_YEAR = rf"(?:{YEAR}|{SHORT})"
MONTH = r"(?:1[0-2]|0?[1-9])"
MONTH_2 = r"(?:0[1-9]|1[0-2])"
DAY = r"(?:3[01]|[12][0-9]|0?[1-9])"
DAY_2 = r"(?:0[1-9]|[12][0-9]|3[01])"
WEEK = r"(?:5[0-3]|[1-4][0-9]|0?[1-9])"
START = "(?<![0-9A-Za-z])"
END = r"(?![0-9A-Za-z%倍]|[.,][0-9])"

_MONTHS = "january february march april may june july august september october november december"
LONG_NAMES = tuple(_MONTHS.split(" "))
SHORT_NAMES = (*(name[:3] for name in LONG_NAMES), "sept")
NAME = f"(?:{'|'.join(reversed(SHORT_NAMES))})"
LONG_NAME = f"(?:{'|'.join((*LONG_NAMES, 'sept'))})"

# estimated, actual, forecast, projected: FY25E, 2024A, 2025 (e)
LETTER = r"(?:est\.?|[EAFPeafp])"
MARK = rf"(?:{LETTER}| ?\({LETTER}\)| E(?![A-Za-z-]))"
YEARS = rf"\(?'?{ANY_YEAR}{MARK}?(?:[/&~-]'?{ANY_YEAR}{MARK}?)*"

UNITS = "one|two|three|four|five|six|seven|eight|nine"
TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
TENS = rf"(?:(?:twenty|thirty)(?:[ -]?(?:{UNITS}))?|{TEENS})"
#: not a year, such as `25` in `Q2 of 25 companies`
PLURAL = "(?!was |is |has |as |this |plus )(?:[A-Za-z]+ )?[a-z]+s(?![a-z])"


@dataclass(frozen=True, slots=True)
class PatternHints:
    """Features that an ASCII text must have for a pattern to match. If several features are given,
    the text must have all of them.

    A word is a maximal run of letters; a digit also ends it.
    """

    words: frozenset[bytes] = frozenset()  #: any of these words
    begins: frozenset[bytes] = frozenset()  #: a word that begins with any of these letters
    #: one of these shapes in the text with digits as `0` and slashes as hyphens
    #: (`TextViews.dashed`)
    shapes: tuple[bytes, ...] = ()

    def allow(
        self, words: Collection[bytes], beginnings: Collection[bytes], shape: TextViews
    ) -> bool:
        """Return whether the pattern may match in a text with these words, first letters (from
        `first_letters`) and shape.
        """
        if self.words and self.words.isdisjoint(words):
            return False
        if self.begins and self.begins.isdisjoint(beginnings):
            return False
        if not self.shapes:
            return True
        return any(part in shape.dashed for part in self.shapes)


_FIRST_LETTERS = 3


def first_letters(words: Iterable[bytes]) -> set[bytes]:
    """Return the first one, two and three letters of words."""
    return {word[:count] for word in words for count in range(1, _FIRST_LETTERS + 1)}


def has_words(words: str) -> PatternHints:
    """Return a hint that the text has one of these words."""
    return PatternHints(words=frozenset(words.encode().split()))


def has_marked_words(words: str) -> PatternHints:
    """Return a hint that the text has one of these words, with or without letters that mark an
    estimate. For example, the letters of `24Q1E` are `qe`.
    """
    marks = ("", "e", "a", "f", "p", "est")
    return has_words(" ".join(word + mark for word in words.split() for mark in marks))


def has_beginnings(beginnings: str) -> PatternHints:
    """Return a hint that a word begins with the first three letters of one of these words."""
    begins = (word[:_FIRST_LETTERS] for word in beginnings.encode().split())
    return PatternHints(begins=frozenset(begins))


def has_shapes(*shapes: bytes) -> PatternHints:
    """Return a hint that `TextViews.dashed` of the text contains one of these shapes."""
    return PatternHints(shapes=shapes)


@dataclass(frozen=True, slots=True)
class DateRule:
    """A rule that matches one spelling of dates."""

    hints: PatternHints
    pattern: re.Pattern[str]
    in_answers: bool = True  #: whether the rule also applies to text that a model wrote
    is_slashed: bool = False  #: whether a match may be a ratio


def date_rule(hints: PatternHints, pattern: str, flags: int = re.IGNORECASE) -> DateRule:
    """Return a rule for documents and answers."""
    return DateRule(hints, re.compile(pattern, flags))


def document_rule(hints: PatternHints, pattern: str, flags: int = re.IGNORECASE) -> DateRule:
    """Return a rule for documents only."""
    return DateRule(hints, re.compile(pattern, flags), in_answers=False)
