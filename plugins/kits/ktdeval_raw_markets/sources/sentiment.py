"""Extract a document's sentiment from the end of its text or from a column of its source.

Sources label a text in their own words (`positive`, `Somewhat-Bullish`) or by a score. Labels and
scores are kept as text, so that a model reads the source's own words. They are never converted to
another scale.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

MAX_CHARACTERS = 80  #: maximum length of a label
_DECIMALS = 2
_SCORE = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)
_TAIL = 400  # characters searched at the end of a text, so that the search takes linear time

_WORDS = ("sentiment", "score for this news is")  # every label contains one of these, in lower case

# InvestorBench's public files: `(Sentiment: positive)`, `(sentiment:neutral)`
_BRACKETED = re.compile(
    r"\s*[(\[]\s*sentiment\s*[:=]\s*([^()\[\]\n]{1,80}?)\s*[)\]]\.?\s*\Z", re.IGNORECASE
)
# without brackets, only a known label after a complete sentence or on a line of its own
_BARE = re.compile(
    r"(?:(?<=[.!?])\s+|\s*\n\s*|\A\s*)sentiment\s*[:=]\s*"
    r"((?:somewhat[-_ ])?(?:positive|negative|neutral|mixed|bullish|bearish))\.?\s*\Z",
    re.IGNORECASE,
)
# FinMem's public files: `The positive score for this news is 0.98. The neutral score … .`
_NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_SCORES = re.compile(
    r"\s*\bthe positive score for this news is "
    + _NUMBER
    + r"\.?\s+the neutral score for this news is "
    + _NUMBER
    + r"\.?\s+the negative score for this news is "
    + _NUMBER
    + r"\.?\s*\Z",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text without its sentiment label, and the label itself."""

    text: str  #: text without a label at its end
    sentiment: str  #: label or score; empty if there is none


def split_sentiment(text: str) -> LabelledText:
    """Split the sentiment off the end of a text."""
    tail = text[-_TAIL:].lower()
    if not any(word in tail for word in _WORDS):
        return LabelledText(text, "")

    for pattern in (_BRACKETED, _BARE):
        label = _at_end(pattern, text)
        if label is not None:
            rest = _without_repeated(label.text, label.sentiments[0])
            return LabelledText(rest, label.sentiments[0])

    scores = _at_end(_SCORES, text)
    if scores is None:
        return LabelledText(text, "")

    positive, neutral, negative = (f"{float(score):.{_DECIMALS}f}" for score in scores.sentiments)
    sentiment = f"positive {positive}, neutral {neutral}, negative {negative}"
    return LabelledText(scores.text, sentiment)


@dataclass(frozen=True, slots=True)
class _LabelledEnding:
    text: str  #: text before the label
    sentiments: tuple[str, ...]


def _at_end(pattern: re.Pattern[str], text: str) -> _LabelledEnding | None:
    start = max(0, len(text) - _TAIL)
    found = pattern.search(text[start:])
    if found is None:
        return None
    return _LabelledEnding(text[: start + found.start()], found.groups())


def _without_repeated(text: str, label: str) -> str:
    """Return a text without labels at its end that repeat `label`."""
    more = _at_end(_BRACKETED, text)
    while more is not None and more.sentiments[0].casefold() == label.casefold():
        text = more.text
        more = _at_end(_BRACKETED, text)

    return text


def sentiment_text(value: str | float) -> str:
    """Return a label without surrounding whitespace, or a score with at most two decimals. A score
    may be given as text. Raises ValueError if a score is not finite or a label is too long.
    """
    label = " ".join(str(value).split())
    # `float` would also accept 1_0 and digits of other scripts.
    if not _SCORE.fullmatch(label):
        if len(label) > MAX_CHARACTERS:
            raise ValueError(f"has {len(label):,} characters")
        return label

    score = float(label)
    if not math.isfinite(score):
        raise ValueError("is not a finite number")

    # + 0.0 turns negative zero into zero
    return f"{round(score, _DECIMALS) + 0.0:g}"
