"""The Chinese pages say what the English ones say: the same headings, commands, links and figures."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from support.paths import REPOSITORY

DOCS = REPOSITORY / "docs"
CHINESE = DOCS / "zh" / "start"
PAIRS = {
    REPOSITORY / "README.md": REPOSITORY / "README.zh-CN.md",
    **{page: CHINESE / page.name for page in sorted((DOCS / "start").glob("*.md"))},
}
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
NUMBER = re.compile(r"[+−-]?(?<![A-Za-z_])\d+(?:[.,]\d+)*(?:\s?%)?")
HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)
#: Links of one language to the other
LANGUAGES = {"README.md", "README.zh-CN.md"}

pairs = pytest.mark.parametrize(
    ("english", "chinese"), PAIRS.items(), ids=[page.stem for page in PAIRS]
)


def prose(text: str) -> str:
    """A page without its code, its comments and the targets of its links."""
    for pattern in (COMMENT, FENCE, CODE):
        text = pattern.sub(" ", text)

    return LINK.sub("]", text)


def sections(text: str) -> list[str]:
    """A page's prose, split at its headings."""
    return re.split(r"^#+ ", prose(text), flags=re.MULTILINE)


def numbers(text: str) -> Counter[str]:
    return Counter(re.sub(r"\s", "", number) for number in NUMBER.findall(text))


def targets(page: Path, text: str) -> Counter[str]:
    """Where a page's links lead, from the root; a Chinese page stands for its English original."""
    originals = {str(chinese): str(english) for english, chinese in PAIRS.items()}
    found: Counter[str] = Counter()
    for target in LINK.findall(FENCE.sub("", text)):
        path, _, anchor = target.partition("#")
        if path in LANGUAGES:
            continue

        place = str((page.parent / path).resolve())
        found[f"{originals.get(place, place)}#{anchor}"] += 1

    return found


@pairs
def test_headings_have_the_same_levels_in_the_same_order(english: Path, chinese: Path) -> None:
    levels = [
        [level for level, _ in HEADING.findall(FENCE.sub("", page.read_text("utf-8")))]
        for page in (english, chinese)
    ]
    assert levels[0] == levels[1]


@pairs
def test_code_is_the_same(english: Path, chinese: Path) -> None:
    one, other = english.read_text("utf-8"), chinese.read_text("utf-8")
    assert FENCE.findall(one) == FENCE.findall(other)
    assert Counter(CODE.findall(FENCE.sub("", one))) == Counter(CODE.findall(FENCE.sub("", other)))


@pairs
def test_each_section_has_the_same_figures(english: Path, chinese: Path) -> None:
    one, other = (sections(page.read_text("utf-8")) for page in (english, chinese))
    assert list(map(numbers, one)) == list(map(numbers, other))


@pairs
def test_links_lead_to_the_same_pages_in_chinese_where_there_are_such(
    english: Path, chinese: Path
) -> None:
    one, other = english.read_text("utf-8"), chinese.read_text("utf-8")
    assert targets(english, one) == targets(chinese, other)


def test_the_pages_are_in_chinese_and_each_names_the_other_language() -> None:
    for chinese in PAIRS.values():
        letters = re.findall(r"[\u4e00-\u9fff]", prose(chinese.read_text("utf-8")))
        assert len(letters) > 150, chinese

    assert "(README.zh-CN.md)" in (REPOSITORY / "README.md").read_text("utf-8")
    assert "(README.md)" in (REPOSITORY / "README.zh-CN.md").read_text("utf-8")


def test_another_figure_a_missing_command_or_heading_would_be_seen() -> None:
    text = "# A\n\nIt has 43 days, +92 % and 0.5.\n"
    assert numbers(text) == Counter({"43": 1, "+92%": 1, "0.5": 1})
    assert numbers(text) != numbers(text.replace("43", "44"))
    assert CODE.findall("run `a b` and `c`") == ["a b", "c"]
