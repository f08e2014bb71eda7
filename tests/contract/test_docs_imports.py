"""Every import that a page prints works, of names that its package exports."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator

import pytest

from docs_packages import FOLDER, brought_in
from paths import REPOSITORY

PAGES = sorted(
    {*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"), *brought_in()}
    - set(FOLDER.glob("*.md"))
)
IMPORT = re.compile(r"^ *(from ktdeval[\w.]* import .*|import ktdeval[\w.]*)$", re.MULTILINE)


def printed_imports() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Page, module and names of each import."""
    for page in PAGES:
        for line in IMPORT.findall(page.read_text(encoding="utf-8")):
            statement = ast.parse(line.strip()).body[0]
            where = str(page.relative_to(REPOSITORY))
            if isinstance(statement, ast.ImportFrom):
                names = tuple(alias.name for alias in statement.names)
                yield where, statement.module or "", names
            elif isinstance(statement, ast.Import):
                yield where, statement.names[0].name, ()


def problem_of(module_name: str, names: tuple[str, ...]) -> str:
    """What is wrong with an import, empty if nothing is."""
    module = importlib.import_module(module_name)
    exported = getattr(module, "__all__", None)
    for name in names:
        if not hasattr(module, name):
            return f"{module_name} has no {name}"
        if exported is not None and name not in exported:
            return f"{module_name} does not export {name}"
    return ""


def test_every_printed_import_is_of_an_exported_name() -> None:
    found = list(printed_imports())
    assert len(found) > 30
    problems = [f"{page}: {problem}" for page, *what in found if (problem := problem_of(*what))]
    assert problems == []


def test_a_name_that_is_not_exported_is_found() -> None:
    assert problem_of("ktdeval.stats", ("wilson",)) == ""
    assert problem_of("ktdeval.stats", ("order_of_the_phoenix",)) != ""
    with pytest.raises(ModuleNotFoundError):
        problem_of("ktdeval.statistics", ())
