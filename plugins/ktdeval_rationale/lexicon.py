"""Lexicon of names that a rationale can't derive from prices, and the search for its terms in a
text.

`lexicon.yaml` contains the terms and explains each kind. Latin terms are compared word by word.
Chinese terms are compared character by character, ignoring spaces. All terms are indexed by their
first word or characters, so the search time grows with the text and not with the lexicon.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ktdeval.errors import DataError
from ktdeval.masking import lower_text, normalise, places_of, squash
from ktdeval.values import load_yaml

LEXICON_FILE = Path(__file__).with_name("lexicon.yaml")

KINDS = (
    "company",
    "brand",
    "sector",
    "sector-word",
    "sector-noun",
    "companion",
    "link",
    "event",
    "date",
    "plain",
)

_WORD = re.compile(r"[A-Za-z0-9]+")
_GAP = re.compile(r"[ '’&./_·-]{1,3}")
_PADDING = re.compile(r"[\s·•・‧]+")
_GLUED = frozenset({"company", "brand"})  # `PingAn`, `YangtzePower`
_ARTICLES = frozenset({"a", "an", "the", "this", "that", "another", "such"})
_REACH = 3  # number of words that are searched for a companion or an article


class Term(NamedTuple):
    """A term found in a text, with its kind (`company`, `brand`, `sector`, `event`, `date`,
    `plain`) and its span in the normalised text.
    """

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _LatinTerm:
    kind: str
    words: tuple[str, ...]
    is_cased: bool


class Lexicon:
    """Terms by kind, indexed for search.

    `terms` contains spellings, keyed by kind. Raises DataError if a kind is not one of `KINDS`, or
    if a spelling is too short to be distinct.
    """

    def __init__(self, terms: Mapping[str, Iterable[str]]) -> None:
        self._latin: dict[str, list[_LatinTerm]] = {}
        self._chinese: dict[str, list[tuple[str, str]]] = {}
        for kind in terms:
            if kind not in KINDS:
                raise DataError(f"lexicon: {kind!r} is not one of the kinds {', '.join(KINDS)}")

        self._companions = frozenset(word.lower() for word in terms.get("companion", ()))
        self._links = frozenset(word.lower() for word in terms.get("link", ()))
        chinese = sorted(
            (word for word in self._companions if not word.isascii()), key=len, reverse=True
        )
        self._chinese_companion = re.compile("|".join(map(re.escape, chinese)) or r"(?!)")

        for kind, spellings in terms.items():
            if kind in ("companion", "link"):
                continue
            for spelling in spellings:
                self._add(kind, spelling)

    def find(self, folded: str, *, is_plain: bool = False) -> Iterator[Term]:
        """Yield each term in a normalised text. Terms may overlap. Sector words have the kind
        `sector` and need a companion.
        """
        words = list(_WORD.finditer(folded))
        for index, word in enumerate(words):
            for term in self._latin.get(word[0].lower(), ()):
                if (term.kind == "plain") != is_plain:
                    continue

                last = _match(term, folded, words, index)
                if last is not None and self._is_sure(term, folded, words, (index, last)):
                    yield Term(term.kind.partition("-")[0], word.start(), words[last].end())

        if not folded.isascii():
            yield from self._chinese_in(folded, is_plain)

    # --- building

    def _add(self, kind: str, spelling: str) -> None:
        is_cased = spelling.startswith("^")
        folded = normalise(spelling.removeprefix("^"))
        if not folded.isascii():
            squashed = _PADDING.sub("", folded).lower()
            if len(squashed) < 2:
                raise DataError(
                    f"lexicon: {kind} {spelling!r} has only one character, so it would match "
                    "everywhere; use a longer one"
                )

            self._chinese.setdefault(squashed[:2], []).append((squashed, kind))
            return

        words = tuple(_WORD.findall(folded))
        if len("".join(words)) < 2:
            raise DataError(
                f"lexicon: {kind} {spelling!r} has fewer than two letters, so it would match "
                "everywhere; use a longer one"
            )

        self._latin.setdefault(words[0].lower(), []).append(_LatinTerm(kind, words, is_cased))
        if len(words) > 1 and kind in _GLUED and min(map(len, words)) > 1:
            glued = "".join(words)
            self._latin.setdefault(glued.lower(), []).append(_LatinTerm(kind, (glued,), is_cased))

    # --- searching

    def _is_sure(
        self, term: _LatinTerm, text: str, words: Sequence[re.Match[str]], span: tuple[int, int]
    ) -> bool:
        """Return whether a term is used as a name. An everyday word is a sector only next to a
        companion (`bank stocks`). A noun is also a sector after an article.
        """
        first, last = span
        if term.kind not in ("sector-word", "sector-noun"):
            return True
        if self._has_companion(text, words, last):
            return True
        return term.kind == "sector-noun" and _has_article(text, words, first)

    def _has_companion(self, text: str, words: Sequence[re.Match[str]], last: int) -> bool:
        """Return whether one of the next words in the same phrase is a companion. Only link words
        may precede it.
        """
        for index in range(last + 1, min(last + 1 + _REACH, len(words))):
            if not _is_gap(text, words[index - 1].end(), words[index].start()):
                return False

            word = words[index][0].lower()
            if word in self._companions or word not in self._links:
                return word in self._companions

        return False

    def _chinese_in(self, folded: str, is_plain: bool) -> Iterator[Term]:
        squashed, present, offsets = squash(lower_text(folded), _PADDING, self._chinese.keys())
        for opening in sorted(present):
            for term, kind in self._chinese[opening]:
                if (kind == "plain") != is_plain:
                    continue

                for start in places_of(squashed, term):
                    end = start + len(term)
                    if not kind.startswith("sector-") or self._chinese_companion.match(
                        squashed, end
                    ):
                        yield Term(kind.partition("-")[0], offsets[start], offsets[end - 1] + 1)


@lru_cache(maxsize=1)
def shipped_lexicon() -> Lexicon:
    """Return the shipped lexicon."""
    terms: dict[str, list[str]] = {}
    for kind, things in load_yaml(LEXICON_FILE).items():
        terms[kind] = list(itertools.chain.from_iterable(things))
    return Lexicon(terms)


def _is_gap(text: str, start: int, end: int) -> bool:
    """Return whether these characters may separate two words of a name. A full stop followed by a
    space may not, since it ends a sentence.
    """
    return _GAP.fullmatch(text, start, end) is not None and not text.startswith(". ", start)


def _match(term: _LatinTerm, text: str, words: Sequence[re.Match[str]], first: int) -> int | None:
    """Return the index of a term's last word if the term begins at word `first`; otherwise None."""
    last = first + len(term.words) - 1
    # a word after an underscore belongs to a handle
    if last >= len(words) or text[max(0, words[first].start() - 1) : words[first].start()] == "_":
        return None

    for offset, expected in enumerate(term.words):
        word = words[first + offset][0]
        if word.lower() != expected.lower() or (
            term.is_cased and word not in (expected, expected.upper())
        ):
            return None
        if offset and not _is_gap(
            text, words[first + offset - 1].end(), words[first + offset].start()
        ):
            return None

    return last


def _has_article(text: str, words: Sequence[re.Match[str]], first: int) -> bool:
    for index in range(first - 1, max(-1, first - 1 - _REACH), -1):
        if not _is_gap(text, words[index].end(), words[index + 1].start()):
            return False
        if words[index][0].lower() in _ARTICLES:
            return True

    return False
