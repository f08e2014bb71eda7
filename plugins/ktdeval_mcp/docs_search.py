"""Search the documentation by section, ranked by BM25 (Robertson and Zaragoza 2009)."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ktdeval
from ktdeval.errors import UsageError

MAX_HITS = 5
MAX_HIT_CHARS = 1500

_WORD = re.compile(r"[a-z0-9_]+|[\u4e00-\u9fff]")
_HEADING = re.compile(r"^#{1,4} +(.+)$", re.MULTILINE)
_SKIPPED = "packages/changelog.md"
_SATURATION = 1.2  #: k1: how fast further occurrences of a word cease to count
_LENGTH_WEIGHT = 0.75  #: b: how strongly long sections are discounted
_TITLE_WEIGHT = 4  #: number of occurrences in the text for which a word in the title counts


@dataclass(frozen=True)
class DocsSection:
    """A part of a page, under one heading."""

    page: str
    title: str
    text: str
    counts: Counter[str]

    @property
    def length(self) -> int:
        """Return the number of words."""
        return self.counts.total()


def search_docs(query: str) -> list[DocsSection]:
    """Return the sections that match a query best, at most `MAX_HITS`, best first. Raises
    UsageError if the documentation is not installed.
    """
    sections = docs_sections()
    words = set(_words(query))
    mean_length = sum(section.length for section in sections) / len(sections)
    rarity = {}
    for word in words:
        holders = sum(word in section.counts for section in sections)
        rarity[word] = math.log(1 + (len(sections) - holders + 0.5) / (holders + 0.5))

    def score(section: DocsSection) -> float:
        relative_length = section.length / mean_length
        damping = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * relative_length)
        total = 0.0
        for word in words:
            count = section.counts[word]
            total += rarity[word] * count * (_SATURATION + 1) / (count + damping)
        return total

    ranked = sorted(sections, key=score, reverse=True)
    return [section for section in ranked[:MAX_HITS] if score(section) > 0]


@cache
def docs_sections() -> tuple[DocsSection, ...]:
    """Return all sections, by page. Raises UsageError if the documentation is not installed."""
    package = Path(ktdeval.__file__).parent
    # in a wheel the pages are inside the package, in a checkout they are next to it
    folder = next(
        (path for path in (package / "docs", package.parent / "docs") if path.is_dir()), None
    )
    if folder is None:
        raise UsageError("the documentation is not installed; reinstall ktdeval")

    found: list[DocsSection] = []
    for path in sorted(folder.rglob("*.md")):
        page = path.relative_to(folder).as_posix()
        if page != _SKIPPED:
            found.extend(_sections_of(page, path.read_text(encoding="utf-8")))

    return tuple(found)


def _sections_of(page: str, text: str) -> list[DocsSection]:
    """Return the sections of a page. The title of each section starts with the title of the page."""
    _, *parts = _HEADING.split(text)
    titles, bodies = parts[::2], parts[1::2]
    sections = []
    for title, body in zip(titles, bodies, strict=True):
        full_title = title if title == titles[0] else f"{titles[0]}: {title}"
        counts = Counter(_words(body))
        for word in _words(full_title):
            counts[word] += _TITLE_WEIGHT
        sections.append(DocsSection(page, full_title, body.strip(), counts))

    return sections


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
