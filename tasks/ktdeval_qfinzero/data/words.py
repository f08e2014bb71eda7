"""Words of a text: the one rule by which every store finds articles and events."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, as they are compared. A word is a run of letters and digits; everything else only
    separates. Compatible forms of a letter are one (Unicode NFKC), and case is folded: `AT&T's Q4-Results` has the words `at`, `t`,
    `s`, `q4`, `results`.
    """
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def has_words(text: str, wanted: str) -> bool:
    """Return whether all words wanted are words of the text, in any order; a text without a word is always found."""
    needed = words(wanted)
    return not needed or set(needed).issubset(words(text))
