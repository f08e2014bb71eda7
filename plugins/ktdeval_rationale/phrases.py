"""Phrases that show memory: recognition of what the mask hides, and hindsight.

Both are grammar rather than vocabulary. `This looks like` is a claim only before an identity (`… a bank`, `… Moutai`, not
`… a good entry`), so identities that were found are replaced in the text by one character each, which the patterns require.
A denied claim (`I do not recognise this stock`) does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

Span = tuple[int, int]

NAME, SECTOR, TIME = "\ue000", "\ue001", "\ue002"
"""Replacements of each character of a code, company or brand; of a sector; of a date or event."""


_LINE, _WORD = re.compile(r"([a-z_]+)( = |: )(.*)"), re.compile(r"\{([a-z_]+)\}")


def read_patterns(name: str, words: Mapping[str, str] | None = None) -> dict[str, list[re.Pattern[str]]]:
    """Return kind -> patterns of a file such as `phrases.txt`, which explains its format; `words`: definitions besides its own."""
    definitions, patterns = dict(words or {}), dict[str, list[re.Pattern[str]]]()
    for line in resources.files(__package__).joinpath(name).read_text("utf-8").splitlines():
        if line and not line.startswith("#") and (match := _LINE.fullmatch(line)):
            text = _WORD.sub(lambda word: definitions[word[1]], match[3])
            if match[2] == " = ":
                definitions[match[1]] = text
            else:
                patterns.setdefault(match[1], []).append(re.compile(text, re.IGNORECASE))
    return patterns


_IDENTITIES = {"any": f"(?=[{NAME}{SECTOR}{TIME}])", "named": f"(?={NAME})", "timed": f"(?={TIME})"}
_PATTERNS = read_patterns("phrases.txt", _IDENTITIES)
_PAST_BAR = re.compile(r"day_-[0-9]")
_CLAUSE_END = re.compile(r"[.;!?。;!\n]")

_REACH = 60
_CLAUSE = 160  # characters; without a limit, a long text without a full stop would take quadratic time


def find_recognition(text: str) -> Iterator[Span]:
    """Yield the spans of claims to recognise a stock or a time, without the identity claimed."""
    yield from ((start, start + len(text[start:end].rstrip(" -"))) for start, end in _claims(text, _PATTERNS["recognition"]))


def find_hindsight(text: str) -> Iterator[Span]:
    """Yield the spans of words that need knowledge of later days; same text as `find_recognition`.

    Statements about bars in the look-back (`day_-5`) are about the past, not hindsight.
    """
    for start, end in _claims(text, _PATTERNS["hindsight"]):
        if not _PAST_BAR.search(_clause_around(text, start, end)):
            yield start, end


def _claims(text: str, patterns: Sequence[re.Pattern[str]]) -> Iterator[Span]:
    for pattern in patterns:
        for match in pattern.finditer(text):
            start, end = match.span()
            back = max(0, start - _REACH)
            if end > start and not any(denial.search(text, back, start) for denial in _PATTERNS["denied"]):
                yield start, end


def _clause_around(text: str, start: int, end: int) -> str:
    """Return the clause of a span, cut a few words to either side."""
    first, last = max(0, start - _CLAUSE), min(len(text), end + _CLAUSE)
    begin = max((match.end() for match in _CLAUSE_END.finditer(text, first, start)), default=first)
    stop = _CLAUSE_END.search(text, end, last)
    return text[begin : stop.start() if stop else last]
