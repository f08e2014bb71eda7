"""Rule `event-after`: quotations from market documents that were published after the day of the
decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice

import numpy as np

from ktdeval.cards import clean
from ktdeval.market import MarketSnapshot
from ktdeval.values import Finding
from ktdeval_audit.decision_days import DatedText
from ktdeval_audit.text_rules import finding_at

WORDS = 8  #: number of consecutive words in a quotation
MIN_TITLE = 5  #: minimum number of words for which a title, quoted in full, is a quotation
_WORD = re.compile(r"[0-9A-Za-z]+|[^\W0-9A-Za-z_]")
_MAX_LETTERS = 20_000  # maximum number of characters per document that are compared

Gram = tuple[str, ...]


@dataclass(frozen=True)
class _Known:
    """The first document that contains a sequence of words."""

    at: int  #: time at which it became known, in microseconds since 1970 UTC
    title: str
    day: date


def later_documents(market: MarketSnapshot, texts: Sequence[DatedText]) -> Iterator[Finding]:
    """Yield a finding for each text that quotes a document that was not yet known at the close of
    the text's day.

    A quotation is either eight consecutive words, or a whole title of five to seven words. It
    counts only if it does not occur in any document that was known by then.
    """
    if not len(market.documents):
        return

    shown = [dated for dated in texts if dated.text.role != "reply"]
    wanted: set[Gram] = set()
    for text in {dated.text.text for dated in shown}:
        words = _words(text)
        for size in range(MIN_TITLE, WORDS + 1):
            wanted.update(_grams(words, size))

    known = _first_known(market, wanted)
    if not known:
        return

    for dated in shown:
        yield from _quotations(market, dated, known)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _grams(words: Sequence[str], size: int) -> Iterator[Gram]:
    """Yield all sequences of `size` consecutive words."""
    return zip(*(words[first:] for first in range(size)), strict=False)


def _first_known(market: MarketSnapshot, wanted: set[Gram]) -> dict[Gram, _Known]:
    """Return the first document that contains each wanted sequence of words, for the sequences that
    occur.
    """
    known: dict[Gram, _Known] = {}
    times = market.documents.known_at
    for row, document in enumerate(market.documents):
        title = _words(document.title)
        grams = wanted.intersection(_grams(title, WORDS))
        grams |= wanted.intersection(_grams(_words(document.text[:_MAX_LETTERS]), WORDS))
        if MIN_TITLE <= len(title) < WORDS and tuple(title) in wanted:
            grams.add(tuple(title))

        entry = _Known(int(times[row]), document.title, document.known_at.date())
        for gram in grams:
            known.setdefault(gram, entry)
    return known


def _quotations(
    market: MarketSnapshot, dated: DatedText, known: dict[Gram, _Known]
) -> Iterator[Finding]:
    days = np.array([dated.day], dtype="datetime64[D]")
    (close,) = market.documents.cutoffs(days, market.rules.values())
    words = _words(dated.text.text)
    done: set[str] = set()
    for size in (WORDS, *range(MIN_TITLE, WORDS)):
        for number, gram in enumerate(_grams(words, size)):
            first = known.get(gram)
            if first is None or first.at <= close or first.title in done:
                continue

            done.add(first.title)
            why = (
                f"quotes {size} words in a row of {clean(first.title)[:80]!r}, which was first "
                "known"
                f" on {first.day}, after the close of {dated.day}"
            )
            fix = "give the agent each document only after the time at which it was known"
            span = _span(dated.text.text, number, size)
            yield finding_at(dated, span, ("event-after", "error"), (why, fix))


def _span(text: str, number: int, size: int) -> tuple[int, int]:
    """Return the bounds of `size` words in a text, starting with word `number`."""
    matches = list(islice(_WORD.finditer(text.lower()), number, number + size))
    return matches[0].start(), matches[-1].end()
