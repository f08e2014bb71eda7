"""`ktdeval-inspect`, a package of its own, fits this version of ktdeval; its own tests need Inspect."""

from __future__ import annotations

import ast
import importlib
import tomllib

from support.paths import REPOSITORY

FOLDER = REPOSITORY / "plugins" / "ktdeval-inspect"


def test_every_name_of_ktdeval_that_the_inspect_package_imports_exists() -> None:
    imported = set()
    for file in (FOLDER / "ktdeval_inspect").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "ktdeval":
                imported |= {(node.module, alias.name) for alias in node.names}

    assert ("ktdeval.runner", "RunPart") in imported

    for module, name in sorted(imported):
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def test_the_inspect_package_is_found_by_inspect_and_is_not_in_the_wheel() -> None:
    own = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    assert own["entry-points"]["inspect_ai"] == {"ktdeval_inspect": "ktdeval_inspect._registry"}
    assert (FOLDER / "ktdeval_inspect" / "_registry.py").is_file()

    main = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]
    assert main["build"]["targets"]["wheel"]["exclude"][0] == "plugins/ktdeval-inspect"
