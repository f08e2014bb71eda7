"""Options of commands are fields of dataclasses (`options_of`), not decorators of click."""

from __future__ import annotations

import ast

from support.paths import REPOSITORY
from support.source_trees import SOURCES, nodes_of

#: What makes options of fields itself
MAKER = "ktdeval/cli/options.py"
OPTIONS = ("option", "Option")


def option_lines(nodes: tuple[ast.AST, ...] | list[ast.AST]) -> list[int]:
    """The lines that call `click.option` or `click.Option`."""
    lines = []
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue

        name = node.func
        if name.attr in OPTIONS and isinstance(name.value, ast.Name) and name.value.id == "click":
            lines.append(node.lineno)

    return lines


def test_no_module_declares_options_by_decorators() -> None:
    found = {}
    for path in SOURCES:
        name = path.relative_to(REPOSITORY).as_posix()
        lines = option_lines(nodes_of(path))
        if lines and name != MAKER:
            found[name] = lines

    assert found == {}, "make them fields of a dataclass, for `options_of`"
