"""Plugins on sys.path: distributions that advertise them, and modules that are forgotten again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def modules_forgotten(folder: Path) -> Iterator[None]:
    """Forget, at the end, the modules that were imported from a folder meanwhile."""
    before = set(sys.modules)
    yield

    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def advertise(
    folder: Path, distribution: str, entries: str, patch: pytest.MonkeyPatch, **modules: str
) -> None:
    """Put a distribution, version 1.2, with entry points of group `ktdeval` on sys.path, and beside
    it modules of this code.
    """
    metadata = folder / f"{distribution}-1.2.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n"
    )
    (metadata / "entry_points.txt").write_text(
        f"[console_scripts]\nx = y:z\n\n[ktdeval]\n{entries}\n[other]\na = b\n"
    )
    # two versions of a module within one second look alike to its cache
    patch.setattr(sys, "dont_write_bytecode", True)
    patch.syspath_prepend(str(folder))

    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)
        patch.delitem(sys.modules, name, raising=False)
