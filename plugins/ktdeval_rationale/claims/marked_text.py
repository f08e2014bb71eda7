"""Reasons with their parts marked, one sentence at a time. The marks keep the patterns for claims
short.

A label becomes `⟦L0⟧`, a quantity `⟦Q1⟧`, a figure `⟦N2⟧`, a window `⟦W3⟧`, a day `⟦D4⟧`, and a
word for other subjects (`the market`, `peers`) `⟦O5⟧`. The number is the index in `parts`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ktdeval_rationale.claims.claim_words import words_of
from ktdeval_rationale.claims.quantities import quantity_mentions
from ktdeval_rationale.claims.text_figures import TextFigure, normalise_text, text_figures, windows

_DAY = re.compile(r"(?<![A-Za-z0-9_])day_[+-]?\d+(?!\d)")
_HANDLE = re.compile(r"(?<![A-Za-z0-9_])[a-z]+_\d+(?![A-Za-z0-9_])")
_OTHERS = words_of("others")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[。！？；;\n]+")
_MARK = re.compile(r"⟦([LQNWDO])(\d+)⟧")


@dataclass(frozen=True, slots=True)
class MarkedPart:
    """A marked part in a sentence."""

    kind: str  #: kind of the part: L, Q, N, W, D or O
    value: Any  #: label, `Quantity`, `TextFigure`, days of a window, or text
    span: tuple[int, int]  #: offset in the normalised text
    text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence in a reason."""

    text: str  #: text with marks
    parts: Sequence[MarkedPart]  #: marked parts of the whole reason

    def part(self, match: re.Match[str], group: str) -> MarkedPart:
        """Return the part whose index a match group holds."""
        return self.parts[int(match[group])]

    def figures(self) -> list[tuple[int, int, TextFigure]]:
        """Return the figures, each with the offsets of its mark."""
        found: list[tuple[int, int, TextFigure]] = []
        for match in _MARK.finditer(self.text):
            if match[1] == "N":
                found.append((match.start(), match.end(), self.parts[int(match[2])].value))
        return found

    def marks(self, kind: str) -> list[tuple[int, int, MarkedPart]]:
        """Return the parts of a kind, each with the offsets of its mark."""
        return [
            (match.start(), match.end(), self.parts[int(match[2])])
            for match in _MARK.finditer(self.text)
            if match[1] == kind
        ]


def marked_sentences(
    reason: str, labels: Collection[str], shown_fields: Collection[str]
) -> list[Sentence]:
    """Return the sentences of a reason. `labels` are the labels of assets. `shown_fields` are the
    names of figures that were shown, in lower case.
    """
    text = normalise_text(reason)
    parts = _parts(text, labels, shown_fields)
    pieces: list[str] = []
    at = 0
    for number, part in enumerate(parts):
        start, end = part.span
        pieces += [text[at:start], f"⟦{part.kind}{number}⟧"]
        at = end

    pieces.append(text[at:])
    sentences = _SENTENCE_END.split("".join(pieces))
    return [Sentence(sentence, parts) for sentence in sentences if sentence.strip()]


def _parts(text: str, labels: Collection[str], shown_fields: Collection[str]) -> list[MarkedPart]:
    """Return the parts of a text in order. Of overlapping parts, only the longest is returned."""
    found = [*_label_parts(text, labels)]
    for mention in quantity_mentions(text, shown_fields):
        found.append(MarkedPart("Q", mention.quantity, mention.span, mention.text))
    for kind, words in (("D", _DAY), ("O", _HANDLE), ("O", _OTHERS)):
        for match in words.finditer(text):
            found.append(MarkedPart(kind, match[0], match.span(), match[0]))

    # A window inside a quantity's words belongs to the quantity.
    for span, days in windows(text):
        found.append(MarkedPart("W", days, span, text[slice(*span)]))

    figures = [MarkedPart("N", figure, figure.span, figure.text) for figure in text_figures(text)]
    order = {kind: place for place, kind in enumerate("LQDWO")}
    found.sort(key=lambda part: (part.span[0] - part.span[1], order[part.kind]))
    kept: list[MarkedPart] = []
    for part in (*found, *figures):
        start, end = part.span
        if all(end <= other.span[0] or start >= other.span[1] for other in kept):
            kept.append(part)

    return sorted(kept, key=lambda part: part.span)


def _label_parts(text: str, labels: Collection[str]) -> list[MarkedPart]:
    named = [label for label in labels if len(label) > 1]
    if not named:
        return []

    words = "|".join(re.escape(label) for label in sorted(named, key=len, reverse=True))
    pattern = re.compile(rf"(?<![A-Za-z0-9_])(?:{words})(?![A-Za-z0-9_])")
    return [MarkedPart("L", match[0], match.span(), match[0]) for match in pattern.finditer(text)]
