"""CONTRIBUTING.md and docs/plugins.md have a whole plugin for each hook, and each keeps the contract when it is called."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval.registry.plugin_boundary import HOOK_NAMES
from ktdeval.testing import check_parts
from support.docs.docs_prose import guide_files
from support.floors import absent

FILES = {name: code for name, code in guide_files().items() if not name.startswith("test_")}


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    names = [name.removesuffix(".py") for name in FILES]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)

    yield
    for name in names:
        sys.modules.pop(name, None)


def test_every_hook_has_its_code() -> None:
    shown = set(re.findall(r"def (ktdeval_\w+)\(", "\n".join(FILES.values())))
    assert shown == set(HOOK_NAMES)


@pytest.mark.parametrize("name", FILES)
def test_the_code_of_a_hook_is_a_plugin_without_a_fault(name: str, tmp_path: Path) -> None:
    missing = [package for package in absent() if package in FILES[name]]
    if missing:
        pytest.skip(f"imports what is not here: {', '.join(missing)}")

    path = tmp_path / name
    path.write_text(FILES[name])
    if "__main__" in FILES[name]:
        runpy.run_path(str(path), run_name="__main__")

    report = check_parts(str(path), lists=False)

    assert report.findings == []
    assert report.checked or "ktdeval_event" in FILES[name]
