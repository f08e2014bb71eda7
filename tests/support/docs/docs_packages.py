"""Pages that lie elsewhere in the repository, brought into docs/packages so that the site has them.

A copy under docs leads nowhere outside docs. READMEs of packages are not copied: they link pages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.docs.docs_markdown import MADE
from support.paths import REPOSITORY

DOCS = REPOSITORY / "docs"
FOLDER = DOCS / "packages"
ROOT_PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
#: Front matter of a copy that the search leaves out: it names everything
UNSEARCHED = {"changelog.md": "---\nsearch:\n  exclude: true\n---\n\n"}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"^( *)(```+).*?^\1\2 *$|(`+)(?!`).+?(?<!`)\3(?!`)", re.MULTILINE | re.DOTALL)


@cache
def brought_in() -> dict[Path, Path]:
    """Return for each page outside docs the page under docs that is its copy."""
    return {REPOSITORY / page: FOLDER / name for page, name in ROOT_PAGES.items()}


def package_pages() -> dict[Path, str]:
    """Return the text of each copy by its path."""
    return {copy: copy_of(page, copy) for page, copy in brought_in().items()}


def copy_of(page: Path, copy: Path) -> str:
    """Return a page with links that fit the place of its copy."""
    source = page.relative_to(REPOSITORY)
    title, _, rest = page.read_text(encoding="utf-8").partition("\n")
    note = f"\n{MADE}\n<!-- Copied from {source}. -->\n"

    return (
        UNSEARCHED.get(copy.name, "") + title + "\n" + note + "".join(_relinked(rest, page, copy))
    )


def _relinked(text: str, page: Path, copy: Path) -> Iterator[str]:
    """Yield a text in parts: code as it is, prose with its links changed."""
    end = 0
    for match in _CODE.finditer(text):
        # A link's own text may hold code, so prose goes on where the code stands in brackets.
        if _is_in_link(text, match):
            continue

        yield _LINK.sub(lambda link: _link(link, page, copy), text[end : match.start()])
        yield match[0]
        end = match.end()

    yield _LINK.sub(lambda link: _link(link, page, copy), text[end:])


def _is_in_link(text: str, match: re.Match[str]) -> bool:
    before = text[: match.start()].rpartition("\n")[2]
    after = text[match.end() :].partition("\n")[0]
    return before.count("[") > before.count("]") and "](" in after


def _link(link: re.Match[str], page: Path, copy: Path) -> str:
    mark, words, target = link.groups()
    if re.match(r"[a-z]+:|#", target):
        return link[0]

    place, _, anchor = target.partition("#")
    path = (page.parent / place).resolve()
    path = brought_in().get(path, path)

    if not path.is_relative_to(DOCS):
        inside = path.relative_to(REPOSITORY)
        is_same = words.strip("`").strip("/") == str(inside)
        return f"`{inside}`" if is_same else f"{words} (`{inside}`)"

    relative = os.path.relpath(path, copy.parent)

    return f"{mark}[{words}]({relative}{'#' if anchor else ''}{anchor})"
