"""Sources of the pictures of the README: templates, scripts, styles and words of the pages that they
show. `make screenshots` records a hash of them next to the pictures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from support.paths import REPOSITORY

IMAGES = REPOSITORY / "docs/images"
RECORDED = IMAGES / "sources.json"
#: Folders of what each picture shows
SOURCES = {
    "board.png": (
        "plugins/kits/ktdeval_pages",
        "plugins/ktdeval_board/site",
        "leaderboards/practice/cards",
    ),
    "episode.png": ("plugins/kits/ktdeval_pages", "plugins/ktdeval_view"),
}
#: Files that decide how a page looks, and cards whose figures it shows
SUFFIXES = {".css", ".html", ".js", ".json", ".svg", ".yaml"}


def hashes() -> dict[str, str]:
    """Return the hash of the sources of each picture, as they are today."""
    return {picture: _hash_of(folders) for picture, folders in SOURCES.items()}


def recorded_hashes() -> dict[str, str]:
    """Return the hashes of the sources that the pictures were taken of."""
    return dict(json.loads(RECORDED.read_text(encoding="utf-8")))


def record() -> None:
    """Write the hashes of today's sources: the pictures show them."""
    RECORDED.write_text(json.dumps(hashes(), indent=1) + "\n", encoding="utf-8")


def _hash_of(folders: tuple[str, ...]) -> str:
    total = hashlib.sha256()
    for folder in folders:
        for path in _files(REPOSITORY / folder):
            name = path.relative_to(REPOSITORY).as_posix()
            total.update(f"{name}\n".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())

    return total.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES and "tests" not in path.parts:
            yield path
