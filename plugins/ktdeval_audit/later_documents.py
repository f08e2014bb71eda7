"""Rule `event-after`: documents of the market that appeared after the day, quoted in the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from ktdeval.market import MarketSnapshot
from ktdeval_audit.decision_days import DatedText
from ktdeval_audit.findings import Finding
from ktdeval_audit.text_rules import finding_at

WORDS = 8  #: words in a row that are a quotation
LEAST_TITLE = 5  #: words of a title that is one as a whole
_WORD = re.compile(r"[0-9A-Za-z]+|[^\W0-9A-Za-z_]")
_MOST_WORDS = 2_000  # of a document that are compared

Gram = tuple[str, ...]


@dataclass(frozen=True)
class _Known:
    """First document with a run of words."""

    at: int  #: microseconds since 1970 UTC
    title: str
    day: date


def later_documents(market: MarketSnapshot, texts: Sequence[DatedText]) -> Iterator[Finding]:
    """Yield a finding for each text that quotes a document not yet known at the close of its day.

    A quotation is eight words in a row, or a title of five to seven words as a whole, that no
    document known by then has.
    """
    if not len(market.documents):
        return

    shown = [dated for dated in texts if dated.text.role != "reply"]
    wanted: set[Gram] = set()
    for dated in shown:
        for size in range(LEAST_TITLE, WORDS + 1):
            wanted.update(gram for gram, _, _ in _grams(dated.text.text, size))

    known = _first_known(market, wanted)
    for dated in shown:
        yield from _quotations(market, dated, known)


def _grams(text: str, size: int) -> Iterator[tuple[Gram, int, int]]:
    """Yield runs of so many words, in lower case, with their bounds."""
    words = [(match[0].lower(), *match.span()) for match in _WORD.finditer(text)]
    for first in range(len(words) - size + 1):
        run = words[first : first + size]
        yield tuple(word for word, _, _ in run), run[0][1], run[-1][2]


def _first_known(market: MarketSnapshot, wanted: set[Gram]) -> dict[Gram, _Known]:
    """Return for each wanted run of words the document that had it first."""
    known: dict[Gram, _Known] = {}
    times = market.documents.known_at
    for row, document in enumerate(market.documents):
        entry = _Known(int(times[row]), document.title, document.known_at.date())
        title = tuple(match[0].lower() for match in _WORD.finditer(document.title))
        if LEAST_TITLE <= len(title) < WORDS and title in wanted:
            known.setdefault(title, entry)

        for words in (document.title, document.text):
            cut = " ".join(words.split()[:_MOST_WORDS])
            for gram, _, _ in _grams(cut, WORDS):
                if gram in wanted:
                    known.setdefault(gram, entry)
    return known


def _quotations(
    market: MarketSnapshot, dated: DatedText, known: dict[Gram, _Known]
) -> Iterator[Finding]:
    close = market.documents.close.instant(np.datetime64(dated.day))
    done: set[str] = set()
    for size in (WORDS, *range(LEAST_TITLE, WORDS)):
        for gram, start, end in _grams(dated.text.text, size):
            first = known.get(gram)
            if first is None or first.at <= close or first.title in done:
                continue

            done.add(first.title)
            why = (
                f"quotes {size} words in a row of {first.title[:80]!r}, which was first known on"
                f" {first.day}, after the close of {dated.day}"
            )
            fix = "give the agent documents by the time at which they were known"
            yield finding_at(dated, (start, end), ("event-after", "error"), (why, fix))
