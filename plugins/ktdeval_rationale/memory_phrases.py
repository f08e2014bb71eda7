"""Phrases that show memory: recognition of what the mask hides, and hindsight.

The patterns use grammar rather than vocabulary. `This looks like` is a claim only before an
identity (`… a bank`, `… Moutai`, not `… a good entry`). Each identity found in the text is
therefore replaced by a mark, which the patterns require. A denied claim (`I do not recognise this
stock`) is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ktdeval_rationale.pattern_files import read_patterns

Span = tuple[int, int]

NAME, SECTOR, TIME = "\ue000", "\ue001", "\ue002"
"""Characters that replace those of a code, company or brand; of a sector; of a date or event."""

_IDENTITIES = {"any": f"(?=[{NAME}{SECTOR}{TIME}])", "named": f"(?={NAME})", "timed": f"(?={TIME})"}
_PATTERNS = read_patterns("phrases.txt", _IDENTITIES)
_PAST_BAR = re.compile(r"day_-[0-9]")
_CLAUSE_END = re.compile(r"[.;!?。;!\n]")

_REACH = 60
# maximum number of characters; without a limit, a long text without a full stop would take
# quadratic time
_CLAUSE = 160


def find_recognition(text: str) -> Iterator[Span]:
    """Yield the spans of claims to recognise a stock or a time. A span does not include the
    identity that is claimed.
    """
    for start, end in _claims(text, _PATTERNS["recognition"]):
        claim = text[start:end].rstrip(" -")
        yield start, start + len(claim)


def find_hindsight(text: str) -> Iterator[Span]:
    """Yield the spans of words that require knowledge of later days. The text is marked as for
    `find_recognition`.

    Statements about bars in the look-back (`day_-5`) concern the past and are not hindsight.
    """
    for start, end in _claims(text, _PATTERNS["hindsight"]):
        if not _PAST_BAR.search(_clause_around(text, start, end)):
            yield start, end


def _claims(text: str, patterns: Sequence[re.Pattern[str]]) -> Iterator[Span]:
    for pattern in patterns:
        for match in pattern.finditer(text):
            start, end = match.span()
            if end > start and not _is_denied(text, start):
                yield start, end


def _is_denied(text: str, start: int) -> bool:
    """Return whether the words before a claim deny it."""
    back = max(0, start - _REACH)
    return any(denial.search(text, back, start) for denial in _PATTERNS["denied"])


def _clause_around(text: str, start: int, end: int) -> str:
    """Return the clause around a span, cut a few words away on either side."""
    first = max(0, start - _CLAUSE)
    last = min(len(text), end + _CLAUSE)
    begin = max((match.end() for match in _CLAUSE_END.finditer(text, first, start)), default=first)
    stop = _CLAUSE_END.search(text, end, last)

    return text[begin : stop.start() if stop else last]
