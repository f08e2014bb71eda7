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


@pytest.mark.parametrize(("english", "chinese"), PAIRS.items(), ids=[page.stem for page in PAIRS])
def test_both_languages_have_the_same_headings_code_figures_and_links(
    english: Path, chinese: Path
) -> None:
    texts = [page.read_text("utf-8") for page in (english, chinese)]
    outside_of_code = [FENCE.sub("", text) for text in texts]

    one, other = ([level for level, _ in HEADING.findall(text)] for text in outside_of_code)
    assert one == other

    one, other = map(FENCE.findall, texts)
    assert one == other

    one, other = (Counter(CODE.findall(text)) for text in outside_of_code)
    assert one == other

    one, other = (list(map(numbers, sections(text))) for text in texts)
    assert one == other

    assert targets(english, texts[0]) == targets(chinese, texts[1])
