"""Tests of the boundary see ktdeval from outside alone, and so do their helpers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent
HELPERS = {
    ".".join(path.relative_to(TESTS).with_suffix("").parts): path
    for path in (TESTS / "support").rglob("*.py")
}
OWN = {path.stem: path for path in HERE.glob("*.py")}
#: `ktdeval`, a package of it, or a package of plugins or tasks: never a module inside
PUBLIC = re.compile(r"ktdeval(\.[a-z]\w*|_\w+)?")
BY_NAME = {"import_module", "__import__"}  #: functions that import what they are told


def imports_of(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, helpers also by `from package import module`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            yield str(node.module)
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in names if name in HELPERS)
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            assert name not in BY_NAME, f"{path}: imports by a name that is not seen here"


def inner_imports(path: Path, seen: set[Path]) -> Iterator[str]:
    """Yield the inner modules that a file imports, itself or by a helper."""
    if path in seen:
        return

    seen.add(path)
    for name in imports_of(path):
        helper = OWN.get(name) or HELPERS.get(name)
        if helper is not None:
            yield from inner_imports(helper, seen)
        elif name.startswith("ktdeval") and not PUBLIC.fullmatch(name):
            yield f"{path.name}: {name}"


@pytest.mark.parametrize("name", sorted(OWN))
def test_no_inner_module_is_imported(name: str) -> None:
    assert list(inner_imports(OWN[name], set())) == []


@pytest.mark.parametrize(
    "line",
    ["from support.runs.run_support import ktdeval", "from support.runs import run_support"],
)
def test_an_inner_module_behind_a_helper_is_found(line: str, tmp_path: Path) -> None:
    path = tmp_path / "test_example.py"
    path.write_text(f"{line}\nimport ktdeval.market\nimport ktdeval_models\n")
    found = list(inner_imports(path, set()))

    assert "run_support.py: ktdeval.runner" not in found  # a package's own face
    assert "run_support.py: ktdeval.cli.main" in found
