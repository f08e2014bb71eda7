"""Markdown of the documentation: its links, anchors, sentences and code blocks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from support.paths import REPOSITORY

MAX_WORDS = 40  # of a sentence
PHRASE_WORDS = 12
"""Words of a phrase that two pages may not share."""
#: Pages that show code to authors of plugins
AUTHOR_PAGES = ("CONTRIBUTING.md", "docs/plugins.md")

_FENCE = re.compile(r"^( *)(```+|~~~+)(.*?)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^(#{1,6}) +(.+?)(?: +#+)? *$", re.MULTILINE)
_COMMAND_CELL = re.compile(r"^\|.*\| `(ktdeval [^`]+)`(?=<br>| \|)", re.MULTILINE)
_LIST_ITEM = re.compile(r"^(?:[*+-]|\d+\.) +")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|cf|vs|App|Fig|al|No|approx)\.")


class CodeBlock(NamedTuple):
    """Fenced block of a page."""

    language: str
    text: str
    line: int  #: of its first line, from 1


def code_blocks(text: str) -> list[CodeBlock]:
    """Return the fenced blocks of a page."""
    blocks = []
    for match in _FENCE.finditer(text):
        language = match[3].strip().partition(" ")[0]
        line = text.count("\n", 0, match.start(4)) + 1
        blocks.append(CodeBlock(language, match[4], line))

    return blocks


def commands_in_tables(text: str) -> list[str]:
    """Return the commands of ktdeval with which cells of a page's tables begin."""
    return _COMMAND_CELL.findall(text)


def author_guide() -> str:
    """Return the pages that show code to authors of plugins, as one text."""
    return "\n".join((REPOSITORY / page).read_text(encoding="utf-8") for page in AUTHOR_PAGES)


def guide_files() -> dict[str, str]:
    """Return the code of each file that these pages show: its name ends the first line."""
    files = {}
    for text in re.findall(r"```python\n(.*?)```", author_guide(), re.DOTALL):
        name = text.splitlines()[0].rpartition("# ")[2]
        if name.endswith(".py"):
            assert name not in files, name
            files[name] = text

    return files


def without_code(text: str) -> str:
    """Return a page without fenced blocks, and without the content of code in lines."""
    text = _FENCE.sub("\n", text)
    return _INLINE_CODE.sub("code", text)


def links(text: str) -> list[str]:
    """Return the targets of a page's links and pictures, as they are written."""
    return [target for _, target in _LINK.findall(without_code(text))]


# ---- anchors


def headings(text: str) -> list[str]:
    """Return the headings of a page as plain text."""
    plain = _FENCE.sub("\n", text)
    return [_plain(heading) for _, heading in _HEADING.findall(plain)]


def github_anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    slugs = [re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings(text)]
    return set(_numbered(slugs, "-"))


def site_anchors(text: str) -> set[str]:
    """Return the anchors that MkDocs and Zensical give the headings of a page."""
    slugs = [_site_slug(each) for each in headings(text)]
    return set(_numbered(slugs, "_"))


def _site_slug(heading: str) -> str:
    ascii_text = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    words = re.sub(r"[^\w\s-]", "", ascii_text).strip().lower()
    return re.sub(r"[-\s]+", "-", words)


def _numbered(slugs: list[str], joint: str) -> Iterator[str]:
    """Give each repetition of a slug its number."""
    seen: dict[str, int] = {}
    for slug in slugs:
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        yield f"{slug}{joint}{count}" if count else slug


def _plain(heading: str) -> str:
    text = _LINK.sub(r"\1", heading)
    return re.sub(r"[`*]", "", text)


# ---- sentences


def long_sentences(text: str, most: int = MAX_WORDS) -> list[str]:
    """Return the sentences of a page with more words; tables, headings and code are none."""
    found = []
    for paragraph in paragraphs(text):
        for sentence in _SENTENCE_END.split(paragraph):
            if word_count(sentence) > most:
                found.append(sentence)

    return found


def word_count(sentence: str) -> int:
    """Return how many words a sentence has; signs alone are none."""
    return sum(any(map(str.isalnum, word)) for word in sentence.split())


def paragraphs(text: str) -> list[str]:
    """Return paragraphs and list items of a page, each as one line without code and links."""
    plain = _LINK.sub(r"\1", without_code(text))
    plain = _ABBREVIATION.sub(r"\1", plain)
    found: list[list[str]] = [[]]

    for line in plain.splitlines():
        is_code = line.startswith("    ") and not found[-1]
        words = line.strip()
        if is_code or not words or words.startswith(("|", "#", "<")):
            found.append([])
        elif item := _LIST_ITEM.match(words):
            found.append([words[item.end() :]])
        else:
            found[-1].append(words)

    return [" ".join(lines) for lines in found if lines]


# ---- repetitions


def repeated_phrases(pages: Mapping[str, str]) -> list[str]:
    """Return each run of `PHRASE_WORDS` words that the prose of two pages has, with their names."""
    first_page: dict[str, str] = {}
    found = []
    for name, text in pages.items():
        for phrase in _phrases(text):
            other = first_page.setdefault(phrase, name)
            if other != name:
                found.append(f"{other}, {name}: {phrase}")

    return found


def _phrases(text: str) -> Iterator[str]:
    """Yield the runs of words of each paragraph; what is code counts as no word."""
    for paragraph in paragraphs(text):
        words = [word for word in re.findall(r"[\w%.+-]+", paragraph.lower()) if word != "code"]
        for start in range(len(words) - PHRASE_WORDS + 1):
            yield " ".join(words[start : start + PHRASE_WORDS])


# ---- links of a page


def problem_of_link(page: Path, target: str) -> str:
    """Return what is wrong with a link of a page, empty if nothing is."""
    if re.match(r"[a-z]+:", target):
        return ""

    place, _, anchor = target.partition("#")
    path = (page.parent / place).resolve() if place else page
    if not path.exists():
        return f"{target}: no such file"

    if not anchor or path.suffix != ".md":
        return ""

    text = path.read_text(encoding="utf-8")
    if anchor not in github_anchors(text):
        return f"{target}: no such heading"

    if anchor not in site_anchors(text):
        return f"{target}: the site names this heading differently; use plain words in it"

    return ""
