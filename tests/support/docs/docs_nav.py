"""Navigation of the site, the index that is made from it, and the size of the book."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ktdeval.values import load_yaml
from support.docs.docs_prose import headings, paragraphs
from support.paths import REPOSITORY

DOCS = REPOSITORY / "docs"
SUMMARY = (
    "Evaluation suite of language-model trading agents: masked episodes, exchange rules in exact"
    " integer money, attribution of returns, result cards that anyone can verify."
)
CHANGELOG = "packages/changelog.md"
"""Page that grows with every change."""
RAW_FILES = {
    "Guide for coding agents": "AGENTS.md",
    "Card schema": "ktdeval/cards/schema/result-card-v1.json",
    "Notebook": "examples/evaluate.ipynb",
    "Prompts of every agent": "examples/prompts.md",
}


class Page(NamedTuple):
    """Page of the navigation."""

    section: str  #: first level of the navigation, with the group below it: "Use: Data"
    title: str
    path: str  #: under docs


def site() -> dict[str, Any]:
    """Return mkdocs.yml."""
    return dict(load_yaml(REPOSITORY / "mkdocs.yml"))


def nav_pages() -> list[Page]:
    """Return the pages of the site in the order of its navigation."""
    return list(_pages(site()["nav"], ""))


def _pages(nav: list[dict[str, Any]], section: str) -> Iterator[Page]:
    for entry in nav:
        for title, value in entry.items():
            if isinstance(value, str):
                yield Page(section or title, title, value)
            else:
                yield from _pages(value, f"{section}: {title}" if section else title)


def sections() -> dict[str, list[Page]]:
    """Return the pages by section."""
    found: dict[str, list[Page]] = {}
    for page in nav_pages():
        found.setdefault(page.section, []).append(page)

    return found


def llms_text() -> str:
    """Return llms.txt: the pages with what each is about."""
    lines = ["# ktdeval", "", f"> {SUMMARY}", ""]
    for section, pages in sections().items():
        lines += [f"## {section}", ""]
        lines += [f"- [{page.title}](docs/{page.path}): {about(page)}" for page in pages]
        lines.append("")

    lines += ["## Files", ""]
    lines += [f"- [{title}]({path})" for title, path in RAW_FILES.items()]

    return "\n".join(lines) + "\n"


def about(page: Page) -> str:
    """Return the first sentence of a page, or its heading if the page begins otherwise."""
    text = (DOCS / page.path).read_text(encoding="utf-8")
    first = next(iter(paragraphs(text)), "")
    sentence = first.partition(". ")[0].rstrip(".:")
    is_prose = len(sentence.split()) > 3 and sentence[:1].isupper()

    return sentence if is_prose else headings(text)[0]
