"""The page of the documentation, compared with a new computation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ktdeval_published.all_boards import run_all
from ktdeval_published.markdown import markdown_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "published-agents.md"
#: what the search of the logs says, which takes minutes
_OF_LOGS = re.compile(r"^\* (In \d+ of \d+ logs|The logs were not searched).*$", re.MULTILINE)
#: line that the documentation adds for its searches
_SEARCH_WORDS = re.compile(r"^Search words: .*$", re.MULTILINE)
_LOOK_AHEAD = re.compile(r" Look-ahead: .*$", re.MULTILINE)


def _without_search(page: str) -> list[str]:
    plain = page
    for left_out in (_LOOK_AHEAD, _OF_LOGS, _SEARCH_WORDS):
        plain = left_out.sub("", plain)

    return [line for line in plain.splitlines() if line]


@pytest.mark.slow
@pytest.mark.shared_data
@pytest.mark.timeout(1800)
def test_the_page_is_what_the_command_writes(shared_data: Path) -> None:
    """Write it again with `ktdeval published table … --as markdown --out docs/published-agents.md`,
    and add its search words again.
    """
    archives = shared_data / "published"
    if not archives.is_dir():
        pytest.skip(f"needs the archives in {archives}, which are not there")
    page = markdown_of(run_all(archives, (), shared_data, audited=False))
    assert _without_search(PAGE.read_text("utf-8")) == _without_search(page)
