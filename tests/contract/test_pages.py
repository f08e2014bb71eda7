"""Pages of the documentation: each is in the index, and no link between files leads nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paths import REPOSITORY

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PAGES = [
    *REPOSITORY.glob("*.md"),
    *REPOSITORY.glob("docs/*.md"),
    *REPOSITORY.glob("tasks/*/*.md"),
    *REPOSITORY.glob("plugins/*/*.md"),
    *REPOSITORY.glob("leaderboards/*.md"),
    *REPOSITORY.glob("benchmarks/*.md"),
]


def targets(page: Path) -> list[str]:
    """Files of the repository that a page links to, as written."""
    text = page.read_text(encoding="utf-8")
    return [target for target in LINK.findall(text) if "://" not in target]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_no_link_of_a_page_leads_nowhere(page: Path) -> None:
    missing = [target for target in targets(page) if not (page.parent / target).exists()]
    assert missing == []


def test_the_index_has_every_page() -> None:
    listed = set(targets(REPOSITORY / "docs/index.md"))
    pages = {page.name for page in REPOSITORY.glob("docs/*.md")}
    assert len(pages) > 40
    assert pages - listed == {"index.md"}
