"""Recognises clauses that state facts, so that a claim in such a clause can be judged wrong.

A list of words that make a claim doubtful would never be complete (`ABC lacks the RSI of 70 that a
breakout has`). Instead, permitted words are listed: a clause is a plain statement if all of its
words are in `statement_words.txt`, and the sentence contains no word for a condition, a denial or
another day.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from ktdeval_rationale.claims.claim_words import (
    CLAUSE_END,
    GENERAL,
    NEGATED,
    PAST,
    PLAN,
    UNSTATED,
)

_FILE = Path(__file__).with_name("statement_words.txt")
_MARK = re.compile(r"⟦[A-Z]\d+⟧")
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_CJK = re.compile(r"[\u4e00-\u9fff]+")
_OWNER = re.compile(r"'s?(?![a-z])")


def is_plain_statement(text: str, start: int, end: int) -> bool:
    """Return whether the clauses between two offsets of a marked sentence only state facts."""
    if any(words.search(text) for words in (GENERAL, NEGATED, PAST, PLAN, UNSTATED)):
        return False

    first = 0
    last = len(text)
    for ending in CLAUSE_END.finditer(text):
        if ending.end() <= start:
            first = ending.end()
        elif ending.start() >= end:
            last = ending.start()
            break

    return _has_known_words(text[first:last])


def _has_known_words(clause: str) -> bool:
    english, chinese = _words()
    plain = _OWNER.sub(" ", _MARK.sub(" ", clause).lower())
    if any(word not in english for word in _WORD.findall(plain)):
        return False
    return all(not chinese.sub("", part) for part in _CJK.findall(plain))


@cache
def _words() -> tuple[frozenset[str], re.Pattern[str]]:
    """Return the listed English words, and a pattern for the listed Chinese words."""
    english: set[str] = set()
    chinese: set[str] = set()
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            chinese.update(filter(None, line.split("|")))
        elif not line.startswith("#"):
            english.update(line.split())

    longest_first = sorted(chinese, key=lambda word: (-len(word), word))
    return frozenset(english), re.compile("|".join(map(re.escape, longest_first)))
