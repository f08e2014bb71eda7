"""Find events that reveal the date of a text: pandemics, elections, wars, named crises and storms,
games, halvings of a coin's reward, and persons in an office for some years (a president, the head of
a central bank).

The events are data with sources (`event_words.csv`). A row has a word that the text must contain and
a pattern; the pattern is tried only in texts with this word. For Latin letters, the word is a
maximal run of letters in lower case; for Chinese, it is any part of the text. Case is ignored
outside groups `(?-i:…)`.

Events are hidden only in documents. A prompt or a model's answer may mention a pandemic.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from ktdeval.masking.dates.date_detection import Span
from ktdeval.masking.text_normalisation import normalise
from ktdeval.values.disk.files import csv_rows

_FILE = Path(__file__).with_name("event_words.csv")
_CHINESE = "Chinese "  # beginning of the kinds of rows in Chinese
_HEAD = "head"  # kind of a person in an office

Patterns = dict[str, tuple[tuple[re.Pattern[str], bool], ...]]
"""Word -> patterns, and whether each means a person."""


def find_events(normalised: str, words: Collection[str]) -> Iterator[tuple[Span, bool]]:
    """Yield the span of each event in a normalised text, and whether it is a person; spans may
    overlap. `words`: the runs of Latin letters in the text, in lower case.
    """
    latin, chinese = _patterns()
    for word in latin.keys() & set(words):
        yield from _matches(normalised, latin[word])

    if not normalised.isascii():
        for part, patterns in chinese.items():
            if part in normalised:
                yield from _matches(normalised, patterns)


def _matches(
    normalised: str, patterns: tuple[tuple[re.Pattern[str], bool], ...]
) -> Iterator[tuple[Span, bool]]:
    for pattern, is_person in patterns:
        for match in pattern.finditer(normalised):
            yield match.span(), is_person


@cache
def _patterns() -> tuple[Patterns, Patterns]:
    """Return the patterns in Latin letters and those in Chinese."""
    latin: Patterns = {}
    chinese: Patterns = {}
    for row in csv_rows(_FILE):
        kind = row["kind"].removeprefix(_CHINESE)
        if kind == row["kind"]:
            pattern = re.compile(rf"(?<![A-Za-z])(?:{row['pattern']})(?![A-Za-z])", re.IGNORECASE)
            patterns, word = latin, row["word"]
        else:
            pattern = re.compile(normalise(row["pattern"]))
            patterns, word = chinese, normalise(row["word"])

        patterns[word] = (*patterns.get(word, ()), (pattern, kind == _HEAD))

    return latin, chinese
