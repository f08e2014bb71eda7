"""Rooms of `tasks`, `plugins` and `plugins/kits`, by family, as the READMEs of the rooms state them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support.docs.docs_markdown import code, table
from support.paths import REPOSITORY

#: What each family is for, in the order of the table
FAMILIES = {
    "base": "what a run and other rooms need: the default agent, models, first tasks, pages",
    "papers": "tasks, agents and models of published papers",
    "doors": "what comes from elsewhere: market data, backtests, logs, public boards",
    "lab": "what results mean (masks, memory, comparisons, reasons, reports), and training",
    "boards": "leaderboards and forward tests",
    "run": "who decides, where runs are computed, how one watches them",
}
_FAMILY = re.compile(r"^Family: \*(\w+)\*\. Go here for ([^.]+)\. Read first:$", re.MULTILINE)
_READ_FIRST = re.compile(r"Read first:\n\n((?:\* .+\n)+)")
_FILE = re.compile(r"^\* `([^`]+)`: \S", re.MULTILINE)


@dataclass(frozen=True)
class Room:
    """A room, with what its README says of it."""

    folder: Path
    family: str
    subject: str  #: for what one goes there
    files: tuple[str, ...]  #: to read first, relative to the folder

    @property
    def name(self) -> str:
        """Name of the folder, within the repository."""
        return self.folder.relative_to(REPOSITORY).as_posix()


def room_folders() -> list[Path]:
    """Return the folders of all rooms: the packages of `tasks`, `plugins` and `plugins/kits`."""
    found = []
    for parent in ("tasks", "plugins", "plugins/kits"):
        for folder in sorted((REPOSITORY / parent).glob("ktdeval*")):
            if any(folder.glob("**/__init__.py")):
                found.append(folder)

    return found


@cache
def rooms() -> tuple[Room, ...]:
    """Return all rooms by family. Raises ValueError for a README that does not say what is read."""
    read = [read_room(folder) for folder in room_folders()]
    order = list(FAMILIES)
    return tuple(sorted(read, key=lambda room: order.index(room.family)))


def read_room(folder: Path) -> Room:
    """Return a room. Raises ValueError for a README that does not say what is read."""
    page = folder / "README.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    stated = _FAMILY.search(text)
    listed = _READ_FIRST.search(text)
    if stated is None or listed is None or stated[1] not in FAMILIES:
        raise ValueError(
            f"{page.relative_to(REPOSITORY)}: write a line `Family: *WORD*. Go here for …. Read "
            f"first:` and a list of three files; WORD is one of {', '.join(FAMILIES)}"
        )

    return Room(folder, stated[1], stated[2], tuple(_FILE.findall(listed[1])))


def families_table() -> str:
    """Return the families with what they are for."""
    return table(("family", "what for"), [(f"*{name}*", what) for name, what in FAMILIES.items()])


def rooms_table() -> str:
    """Return all rooms, by family."""
    rows = [(f"*{room.family}*", room.subject, code(room.name)) for room in rooms()]
    return table(("family", "go there for", "room"), rows)
