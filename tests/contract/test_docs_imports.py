"""Every import that a page prints works, of names that its package exports."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from support.docs.docs_packages import FOLDER, brought_in
from support.docs.docs_prose import code_blocks
from support.paths import REPOSITORY

PAGES = sorted(
    {*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"), *brought_in()}
    - set(FOLDER.glob("*.md"))
)
#: Packages of extras that need not be installed where tests run; make test-rl runs their pages' code
ABSENT = frozenset({"gymnasium"})
#: Of blocks that are not marked as Python
INDENTED = re.compile(r"^ {4}(from ktdeval[\w.]* import [\w, ]+)$", re.MULTILINE)


def printed_imports() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Page, module and names of each import of ktdeval's packages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = [block.text for block in code_blocks(text) if block.language == "python"]
        lines = [line.strip() for line in INDENTED.findall(text)]
        for code in [*blocks, *lines]:
            for node in ast.walk(ast.parse(code)):
                for module, names in imported_by(node):
                    if module.startswith("ktdeval"):
                        yield str(page.relative_to(REPOSITORY)), module, names


def imported_by(node: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Module and names that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        yield node.module or "", tuple(alias.name for alias in node.names)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, ()


def problem_of(module_name: str, names: tuple[str, ...]) -> str:
    """What is wrong with an import, empty if nothing is."""
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name in ABSENT:
            return ""

        raise

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


# ---- modules that pages about the code name


#: Pages whose modules are those of the repository, not an author's
ABOUT_CODE = sorted(
    {
        REPOSITORY / "docs" / "architecture.md",
        REPOSITORY / "docs" / "inside.md",
        REPOSITORY / "SECURITY.md",
        *(REPOSITORY / "plugins").glob("ktdeval_*/README.md"),
        *(REPOSITORY / "tasks").glob("ktdeval_*/README.md"),
    }
)
NAMED = re.compile(r"`(?P<folder>[\w/]*/)?(?P<module>\w+\.py)`")
FILES = chain.from_iterable(
    (REPOSITORY / top).rglob("*.py") for top in ("ktdeval", "tasks", "plugins", "tests")
)
MODULES = {path.name for path in FILES}


@pytest.mark.parametrize("page", ABOUT_CODE, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_page_about_the_code_names_modules_that_exist(page: Path) -> None:
    found = NAMED.finditer(page.read_text(encoding="utf-8"))
    own = [match for match in found if not (match["folder"] or "").startswith(("src/", "testbed/"))]

    assert [match[0] for match in own if match["module"] not in MODULES] == []
