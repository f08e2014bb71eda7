"""Leak linter for a model's reasons, research notes and reasoning. It reports mentions, without a
verdict.

A mention is only a fact about a text. Under `bright`, for example, a code is an asset's label;
under `blinded`, the model was not shown the code. `LEAKS_REMOVED_BY` lists the categories that a
mask should remove. Rates are computed elsewhere.

`identities_of` finds the snapshot's codes, names and industries, and all dates, in every spelling
that the leak guard knows. The shipped lexicon adds well-known companies, brands, sectors and
events, and phrases add recognition and hindsight.

The guard prefers false alarms to misses, but the linter measures. It therefore does not mistake a
price or an amount (`a close of 2015`, `cash 600519`) for a date or a code. It decides by the words
around a number, which are listed in `numbers.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ktdeval.market import NO_MARKET, MarketSnapshot
from ktdeval.masking import (
    WITHHELD,
    identities_of,
    is_amount,
    normalise,
    normalise_with_places,
    places_of,
)
from ktdeval.values import load_yaml
from ktdeval_rationale.lexicon import Lexicon, shipped_lexicon
from ktdeval_rationale.memory_phrases import (
    NAME,
    SECTOR,
    TIME,
    find_hindsight,
    find_recognition,
)
from ktdeval_rationale.pattern_files import read_patterns

Category = Literal[
    "code", "company", "brand", "sector", "date", "event", "hindsight", "recognition", "withheld"
]

WORDS: Mapping[str, Any] = load_yaml(Path(__file__).with_name("words.yaml"))
LEAK_CATEGORIES: Mapping[Category, str] = WORDS["categories"]
"""Kinds of leaks that the linter looks for, in the order of tables."""

LEAKS_REMOVED_BY: Mapping[str, tuple[Category, ...]] = {
    "stock": ("company", "brand", "sector"),
    "date": ("date", "event"),
}
"""Categories that hiding the stock and hiding the date should remove (KTD-Fin, Appendix A). Codes
are not among them: if codes are shown, a model has to name assets by them.
"""

_MARK: Mapping[Category, str] = {
    "code": NAME,
    "company": NAME,
    "brand": NAME,
    "sector": SECTOR,
    "date": TIME,
    "event": TIME,
    "withheld": NAME,
}
_READINGS: tuple[Category, ...] = (
    "withheld",
    "code",
    "event",
    "sector",
    "brand",
    "company",
    "date",
)
_RANK: Mapping[Category, int] = {category: rank for rank, category in enumerate(_READINGS)}
"""Priority between two readings of the same span. An event may contain a year, and an industry may
contain a company's name.
"""

_OF_LEXICON: Mapping[str, Category] = {
    "company": "company",
    "brand": "brand",
    "sector": "sector",
    "event": "event",
    "date": "date",
}
_LETTERS = re.compile(r"[\W_]+")
_BLANK = "\x00"

_NEAR = 48
_NUMBERS = read_patterns("numbers.txt")
_BARE_YEAR = re.compile(r"(?:199|20[0-3])[0-9]s?")
_MONTH_AND_NUMBER = re.compile(r"[A-Za-z]+\.?[ -]([0-9]{1,2})")
_MONTH_AND_DAY = re.compile(r"([A-Za-z ]*)([0-9]{1,2})/([0-9]{1,2})")
_BARE_CODE = re.compile(r"[0-9]{6}")

_FOREIGN_CODES = _NUMBERS["foreign_code"]  #: codes of other exchanges
_CALENDAR_WORDS = _NUMBERS["calendar"]  #: quarters or halves of a year without the year


@dataclass(frozen=True, slots=True)
class Mention:
    """An identity, or a claim about an identity, in a text."""

    category: Category  #: one of `LEAK_CATEGORIES`
    span: tuple[
        int, int
    ]  #: offsets of the first character and of the one after the last, in the text as given
    text: str  #: the characters of the span


class _CategorySpan(NamedTuple):
    category: Category
    start: int
    end: int


class RationaleLinter:
    """Finds names that a text can't derive from prices.

    `snapshot` is the market whose codes, names and industries are searched for. If it is None, only
    names in the lexicon and codes in the numbering of the A-share boards are found. `lexicon`
    contains well-known names; the shipped lexicon is the default.
    """

    def __init__(
        self, snapshot: MarketSnapshot | None = None, lexicon: Lexicon | None = None
    ) -> None:
        market = snapshot or NO_MARKET
        self._index = identities_of(market, assets=True, dates=True)
        self._industries = frozenset(_letters(industry) for industry in market.industries) - {""}
        self._lexicon = lexicon or shipped_lexicon()

    def find(self, text: str) -> list[Mention]:
        """Return all mentions in a text, in order. Identities don't overlap each other, but a
        phrase may be next to or around an identity.
        """
        folded, offsets = normalise_with_places(text)
        # Plain terms look like names but are ordinary words.
        plain = self._lexicon.find(folded, is_plain=True)
        readable = _replace_spans(folded, ((start, end, _BLANK) for _, start, end in plain))
        identities = _without_overlaps([*self._identities(readable), *self._terms(readable)])

        # Phrases are claims about an identity. Their patterns expect a mark in place of each
        # identity.
        marks = ((hit.start, hit.end, _MARK[hit.category]) for hit in identities)
        marked = _replace_spans(readable, marks)
        recognition = [_CategorySpan("recognition", *span) for span in find_recognition(marked)]
        hindsight = [_CategorySpan("hindsight", *span) for span in find_hindsight(marked)]

        hits = [*identities, *_merged_hits(recognition), *_merged_hits(hindsight)]
        mentions = []
        for category, start, end in sorted(hits, key=lambda hit: (hit.start, hit.end)):
            first = offsets[start]
            last = offsets[end]
            mentions.append(Mention(category, (first, last), text[first:last]))

        return mentions

    def _identities(self, folded: str) -> Iterator[_CategorySpan]:
        """Yield codes, names, industries and dates. Numbers that have another meaning in context
        are left out.
        """
        for kind, start, end in self._index.find(folded, "answer"):
            if kind not in ("security code", "calendar date"):
                is_industry = _letters(folded[start:end]) in self._industries
                yield _CategorySpan("sector" if is_industry else "company", start, end)
            elif kind == "security code" and _is_code_here(folded, start, end):
                yield _CategorySpan("code", start, end)
            elif kind == "calendar date" and _is_date_here(folded, start, end):
                yield _CategorySpan("date", start, end)

    def _terms(self, folded: str) -> Iterator[_CategorySpan]:
        for start in places_of(folded, WITHHELD):
            yield _CategorySpan("withheld", start, start + len(WITHHELD))

        for pattern in _FOREIGN_CODES:
            for match in pattern.finditer(folded):
                yield _CategorySpan("code", *match.span())

        for pattern in _CALENDAR_WORDS:
            for match in pattern.finditer(folded):
                yield _CategorySpan("date", *match.span())

        for kind, start, end in self._lexicon.find(folded):
            yield _CategorySpan(_OF_LEXICON[kind], start, end)


def _without_overlaps(hits: Sequence[_CategorySpan]) -> list[_CategorySpan]:
    """Return the longest of overlapping readings. Ties are broken by `_RANK`."""
    chosen: list[_CategorySpan] = []
    taken = bytearray(max((hit.end for hit in hits), default=0))
    for hit in sorted(hits, key=lambda hit: (hit.start - hit.end, _RANK[hit.category], hit.start)):
        if not any(taken[hit.start : hit.end]):
            taken[hit.start : hit.end] = b"\x01" * (hit.end - hit.start)
            chosen.append(hit)

    return sorted(chosen, key=lambda hit: hit.start)


def _merged_hits(hits: Sequence[_CategorySpan]) -> list[_CategorySpan]:
    """Merge overlapping spans of the same category."""
    joined: list[_CategorySpan] = []
    for hit in sorted(hits, key=lambda hit: hit.start):
        if joined and hit.start < joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, hit.end))
        else:
            joined.append(hit)

    return joined


def _replace_spans(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Return the text with every character in a span replaced by the span's replacement character,
    so that offsets don't shift.
    """
    characters = list(text)
    for start, end, character in spans:
        characters[start:end] = character * (end - start)
    return "".join(characters)


def _letters(name: str) -> str:
    return _LETTERS.sub("", normalise(name)).lower()


def _is_code_here(folded: str, start: int, end: int) -> bool:
    """Return whether a number that has the form of a code is a code. It is not if it is next to a
    word for a quantity, or if it is a decimal number such as `0.600519`.
    """
    if folded.startswith("0.", start):
        return False
    if not _BARE_CODE.fullmatch(folded, start, end):
        return True
    return not (is_amount(folded, start, end) or _is_figure(folded, start, end))


def _is_date_here(folded: str, start: int, end: int) -> bool:
    """Return whether a text that has the form of a date is a date. It is not if it is a price such
    as 2015, the lengths of two moving averages, or a month's name before another number.
    """
    if _BARE_YEAR.fullmatch(folded, start, end):
        if _begins("year_after", folded, end):
            return True
        return not (_ends("price_before", folded, start) or _is_figure(folded, start, end))

    pair = _MONTH_AND_DAY.fullmatch(folded, start, end)
    if pair is not None:
        return _is_day_here(folded, pair)

    month = _MONTH_AND_NUMBER.fullmatch(folded, start, end)
    if month is None:
        return True
    return not (_begins("no_day_after", folded, end) or is_amount(folded, *month.span(1)))


def _is_day_here(folded: str, pair: re.Match[str]) -> bool:
    """Return whether two numbers with a slash are a day rather than the lengths of two moving
    averages (`10/20`). The surrounding words or a leading zero decide.
    """
    preposition, *numbers = pair.groups()
    if _begins("lengths_after", folded, pair.end()):
        return False
    if preposition or any(number.startswith("0") for number in numbers):
        return True
    return _begins("year_after", folded, pair.end()) or _ends("day_before", folded, pair.start())


def _is_figure(folded: str, start: int, end: int) -> bool:
    return _begins("figure_after", folded, end) or _ends("figure_before", folded, start)


def _begins(kind: str, folded: str, at: int) -> bool:
    """Return whether words of a kind begin at an offset."""
    return any(pattern.match(folded, at) for pattern in _NUMBERS[kind])


def _ends(kind: str, folded: str, at: int) -> bool:
    """Return whether words of a kind end at an offset."""
    return any(pattern.search(folded, max(0, at - _NEAR), at) for pattern in _NUMBERS[kind])
