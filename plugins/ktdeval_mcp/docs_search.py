"""Search the documentation by section, ranked by BM25 (Robertson and Zaragoza 2009) over words and
pairs of words. A query that a page lists among its search words finds this page first.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import ktdeval
from ktdeval.errors import UsageError

MAX_HITS = 5
MAX_HITS_OF_A_PAGE = 2
MAX_HIT_CHARS = 1500

#: A word, a compound such as "time-out" or "max_cost", or a Chinese character
_TOKEN = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*|[\u4e00-\u9fff]")
_COMPOUND = re.compile(r"[-_]")
_HEADING = re.compile(r"^#{1,4} +(.+)$", re.MULTILINE)
#: Line of a page with what readers type who do not know its words
_SEARCH_WORDS = re.compile(r"^(?:Search words: |搜索词：)(.+?)[.。]?$", re.MULTILINE)
_SKIPPED = "packages/changelog.md"
_SATURATION = 1.2  #: k1: how fast further occurrences of a word cease to count
_LENGTH_WEIGHT = 0.75  #: b: how strongly long sections are discounted
_TITLE_WEIGHT = (
    4  #: number of occurrences in the text for which a word in the title or search words counts
)


@dataclass(frozen=True)
class DocsSection:
    """A part of a page, under one heading."""

    page: str
    title: str
    text: str
    counts: Counter[str]  #: occurrences of each term
    search_words: frozenset[tuple[str, ...]]  #: words of each entry of the page's search words

    @property
    def length(self) -> int:
        """Return the number of terms."""
        return self.counts.total()


def search_docs(query: str) -> list[DocsSection]:
    """Return the sections that match a query best, at most `MAX_HITS`, best first. Raises
    UsageError if the documentation is not installed.
    """
    sections = docs_sections()
    terms = set(_terms(query))
    entry = tuple(_words(query))
    mean_length = sum(section.length for section in sections) / len(sections)
    rarity = {}
    for term in terms:
        holders = sum(term in section.counts for section in sections)
        rarity[term] = math.log(1 + (len(sections) - holders + 0.5) / (holders + 0.5))

    def score(section: DocsSection) -> float:
        relative_length = section.length / mean_length
        damping = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * relative_length)
        total = 0.0
        for term in terms:
            count = section.counts[term]
            total += rarity[term] * count * (_SATURATION + 1) / (count + damping)
        return total

    scored = [(entry in section.search_words, score(section), section) for section in sections]
    scored.sort(key=lambda row: row[:2], reverse=True)
    return _best_of([section for _, points, section in scored if points > 0])


def _best_of(ranked: list[DocsSection]) -> list[DocsSection]:
    """Return the first sections, at most `MAX_HITS_OF_A_PAGE` of each page."""
    of_page: Counter[str] = Counter()
    best = []
    for section in ranked:
        of_page[section.page] += 1
        if of_page[section.page] <= MAX_HITS_OF_A_PAGE:
            best.append(section)

    return best[:MAX_HITS]


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
        counts = Counter(_terms(body))
        entries = _entries_of(body)
        for text_of_weight in (full_title, *entries):
            for term in _terms(text_of_weight):
                counts[term] += _TITLE_WEIGHT

        search_words = frozenset(tuple(_words(entry)) for entry in entries)
        sections.append(DocsSection(page, full_title, body.strip(), counts, search_words))

    return sections


def _entries_of(body: str) -> list[str]:
    """Return the entries of the line of search words, if a section has one."""
    line = _SEARCH_WORDS.search(body)
    return re.split(r"[,，、] *", line[1]) if line else []


def _terms(text: str) -> Iterator[str]:
    """Yield the words of a text, its compounds in one word ("timeout"), and pairs of words."""
    words = _words(text)
    yield from words
    for token in _TOKEN.findall(text.lower()):
        if _COMPOUND.search(token):
            yield _COMPOUND.sub("", token)

    for first, second in pairwise(words):
        yield f"{first} {second}"


def _words(text: str) -> list[str]:
    """Return the words of a text in the singular; a compound is its parts."""
    words = []
    for token in _TOKEN.findall(text.lower()):
        words += [_singular(part) for part in _COMPOUND.split(token)]

    return words


def _singular(word: str) -> str:
    """Remove the ending of an English plural (Harman 1991, the S-stemmer)."""
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"

    if word.endswith("s") and not word.endswith(("us", "ss", "aes", "ees", "oes")):
        return word[:-1]

    return word
