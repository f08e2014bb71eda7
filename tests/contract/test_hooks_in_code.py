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
from support.docs.docs_prose import author_guide
from support.floors import absent

GUIDE = author_guide()
BLOCKS = {
    first.rpartition("# ")[2]: text
    for text in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    if (first := text.splitlines()[0]).endswith(".py")
}


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    names = [name.removesuffix(".py") for name in BLOCKS]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)

    yield
    for name in names:
        sys.modules.pop(name, None)


def test_every_hook_has_its_code() -> None:
    shown = set(re.findall(r"def (ktdeval_\w+)\(", "\n".join(BLOCKS.values())))
    assert shown == set(HOOK_NAMES)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_code_of_a_hook_is_a_plugin_without_a_fault(name: str, tmp_path: Path) -> None:
    missing = [package for package in absent() if package in BLOCKS[name]]
    if missing:
        pytest.skip(f"imports what is not here: {', '.join(missing)}")

    path = tmp_path / name
    path.write_text(BLOCKS[name])
    if "__main__" in BLOCKS[name]:
        runpy.run_path(str(path), run_name="__main__")

    report = check_parts(str(path), lists=False)

    assert report.findings == []
    assert report.checked or "ktdeval_event" in BLOCKS[name]
