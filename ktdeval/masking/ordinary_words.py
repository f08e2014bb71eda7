"""Words that are no name by themselves: those of prompts, of common names of companies, and of
English at large.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ktdeval.values.files import csv_rows

_FOLDER = Path(__file__).parent
ENTITY_WORDS = csv_rows(_FOLDER / "entity_words.csv")
COMMON_WORDS = frozenset(row["word"] for row in ENTITY_WORDS if row["kind"] == "common")
NOT_NAMES = COMMON_WORDS - {"meta"}  # a word of prompts, and with a capital a company


@cache
def listed_words(kind: str) -> frozenset[str]:
    """Return the words of a kind in `name_words.csv`."""
    words: set[str] = set()
    for row in csv_rows(_FOLDER / "name_words.csv"):
        if row["kind"] == kind:
            words.update(row["words"].split())

    return frozenset(words)


def is_listed(word: str) -> bool:
    """Return whether a word in small letters is an ordinary one, a person's name, a place or a line
    of business by the lists of words that companies have in their names.
    """
    return word in _ordinary_words()


def is_ordinary(word: str) -> bool:
    """Return whether a word in small letters, or that without its plural's `s`, means something
    else than a company.
    """
    return word in _english() or word.removesuffix("s") in _english()


def needs_capital(word: str) -> bool:
    """Return whether a word in small letters means something else, and with a capital a company."""
    return word in listed_words("small letters")


@cache
def _ordinary_words() -> frozenset[str]:
    kinds = ("ordinary", "given", "place", "generic")
    return NOT_NAMES.union(*map(listed_words, kinds))


@cache
def _english() -> frozenset[str]:
    """English words of four letters and more (SCOWL, size 35; its licence stands in the file), and
    the listed ones.
    """
    lines = (_FOLDER / "english_words.txt").read_text(encoding="ascii").splitlines()
    words = (line for line in lines if not line.startswith("#"))
    return _ordinary_words().union(words)
