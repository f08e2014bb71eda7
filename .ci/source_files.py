"""Python files of the product, for the scripts that look through them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

TOPS = ("ktdeval", "tasks", "plugins")


def product_files(root: Path) -> Iterator[Path]:
    """Yield the files of a checkout that are not tests, sorted within each top folder."""
    for top in TOPS:
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root).parts
            if "tests" not in parts and not any(part.startswith(".") for part in parts):
                yield path
