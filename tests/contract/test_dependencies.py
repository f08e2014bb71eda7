"""Every dependency is imported by product code, and docs/dependencies.md says by which packages."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections import defaultdict
from pathlib import Path

from paths import REPOSITORY
from source_trees import SOURCES, imports_in, nodes_of

PAGE = REPOSITORY / "docs/dependencies.md"
MODULE_OF = {
    "pyyaml": "yaml",
    "pyqlib": "qlib",
    "google-genai": "google.genai",
    "exchange_calendars": "exchange_calendars",
}
HEAD = """# Dependencies

Which packages of ktdeval import what it depends on; made by `python tests/contract/test_dependencies.py`. Those of an extra are
installed with `pip install 'ktdeval[EXTRA]'` and imported when they are used.

| dependency | extra | imported by |
|---|---|---|
"""


def dependencies() -> dict[str, str]:
    """Distribution -> the extra that brings it, empty for the core."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = {
        name: texts for name, texts in project["optional-dependencies"].items() if name != "dev"
    }
    by_extra = {"": project["dependencies"], **extras}
    names = {
        extra: [re.split(r"[\[<>=!~ ]", text)[0] for text in texts]
        for extra, texts in by_extra.items()
    }
    return {
        name: extra for extra, packages in names.items() for name in packages if name != "ktdeval"
    }


@functools.cache
def importers() -> dict[str, set[str]]:
    """Imported module, at every length of its path -> packages of the product that import it."""
    modules: dict[str, set[str]] = defaultdict(set)
    for path in SOURCES:
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        package = ".".join(parts[:2]) if parts[0] == "ktdeval" else parts[1]
        for module in imported(path):
            pieces = module.split(".")
            for length in range(1, len(pieces) + 1):
                modules[".".join(pieces[:length])].add(package)
    return modules


def imported(path: Path) -> set[str]:
    """What a module imports; adapters of models name the package of their SDK, which is imported
    when the model is made.
    """
    constants = [
        node
        for node in nodes_of(path)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    ]
    packages = {
        node.value.value
        for node in constants
        if "package" in [getattr(target, "id", "") for target in node.targets]
    }
    return {*imports_in(nodes_of(path), names=True), *packages}


def rows() -> list[tuple[str, str, str]]:
    users = importers()
    module_of = {name: MODULE_OF.get(name, name.replace("-", "_")) for name in dependencies()}
    return [
        (name, extra, ", ".join(sorted(users[module_of[name]])))
        for name, extra in sorted(dependencies().items())
    ]


def test_every_dependency_is_imported_by_product_code() -> None:
    unused = [name for name, _, users in rows() if not users]
    assert not unused, f"{unused}: installed for nothing"


def test_the_page_of_dependencies_is_current() -> None:
    assert PAGE.read_text() == page(), "run python tests/contract/test_dependencies.py"


def page() -> str:
    return HEAD + "".join(f"| {name} | {extra} | {users} |\n" for name, extra, users in rows())


if __name__ == "__main__":
    PAGE.write_text(page())
