"""Packages that may be deleted, and what goes with each: the table of docs/inside.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from support.paths import REPOSITORY

PAGE = "docs/inside.md"
#: Every run needs the first, and the rest of the suite is tried on the tasks of the second
FIXED = ("ktdeval_builtin", "ktdeval_ktdfin")
_TABLE = re.compile(r"^\| package \| needs \| why \|\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)
_ROW = re.compile(r"\| `(\w+)` \| ([^|]*) \| [^|]*\|")
_NAME = re.compile(r"`(\w+)`")


def folders(root: Path = REPOSITORY) -> dict[str, Path]:
    """Return the folder of each package that may be deleted, by its name."""
    found = {}
    for part in ("tasks", "plugins"):
        for manifest in sorted((root / part).glob("*/__init__.py")):
            if manifest.parent.name not in FIXED:
                found[manifest.parent.name] = manifest.parent

    return found


def needs(root: Path = REPOSITORY) -> dict[str, tuple[str, ...]]:
    """Return what each package of the table needs, by its name."""
    tables = _TABLE.findall((root / PAGE).read_text(encoding="utf-8"))
    if len(tables) != 1:
        raise ValueError(f"{PAGE}: {len(tables)} tables of packages and what they need")

    rows = {}
    for line in tables[0].splitlines():
        row = _ROW.fullmatch(line)
        if row is None:
            raise ValueError(f"{PAGE}: not a row of a package, what it needs and why: {line}")

        rows[row[1]] = tuple(_NAME.findall(row[2]))

    return rows


def absent(root: Path = REPOSITORY) -> list[str]:
    """Return the packages of the table that this tree lacks."""
    return sorted(needs(root).keys() - folders(root).keys())


def deleted_with(package: str, table: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return a package and all that need it, directly or through another one, by name."""
    gone = {package}
    while True:
        more = {name for name, needed in table.items() if gone & set(needed)} - gone
        if not more:
            return sorted(gone)

        gone |= more


def without(project: str, packages: Iterable[str]) -> str:
    """Return the text of pyproject.toml without some packages: their entry points, their names and
    modules in lists, and contracts of imports that are about nothing else.
    """
    named = "|".join(sorted(packages))
    text = re.sub(rf'^\w+ = "(?:{named})"\n', "", project, flags=re.MULTILINE)
    text = re.sub(rf'"(?:{named})(?:\.[^"]*)?",? ?', "", text)
    sections = re.split(r"^(?=\[)", text, flags=re.MULTILINE)

    return "".join(section for section in sections if "source_modules = []" not in section)
