"""Syntax trees of the product's modules, each parsed and walked once for all the rules that read
them.
"""

from __future__ import annotations

import ast
import functools
import gc
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from support.paths import REPOSITORY

#: Folders whose packages are imported by their own names, the innermost first
ROOTS = ("plugins/kits", "plugins", "tasks")

_MODULES = itertools.chain.from_iterable(
    (REPOSITORY / root).rglob("*.py") for root in ("ktdeval", "tasks", "plugins")
)
# The package ktdeval-inspect is one of its own.
SOURCES = sorted(path for path in _MODULES if not {"ktdeval-inspect", "tests"} & set(path.parts))


def parts_of(path: Path) -> tuple[str, ...]:
    """Path of a file or module below the folder that it is imported from: `("ktdeval_pages",
    "words.py")`.
    """
    for root in ROOTS:
        if path.is_relative_to(REPOSITORY / root):
            return path.relative_to(REPOSITORY / root).parts

    return path.relative_to(REPOSITORY).parts


def is_kit(path: Path) -> bool:
    """Whether a file belongs to a library that plugins import."""
    return path.is_relative_to(REPOSITORY / "plugins" / "kits")


@functools.cache
def _trees() -> dict[Path, ast.Module]:
    # half a million nodes that all stay: looking through them for cycles would take longer than
    # parsing
    gc.disable()
    trees = {path: ast.parse(path.read_text(), filename=str(path)) for path in SOURCES}
    gc.freeze()
    gc.enable()

    return trees


def tree_of(path: Path) -> ast.Module:
    """Syntax tree of a file, one of `SOURCES` or another."""
    return _trees().get(path) or ast.parse(path.read_text(), filename=str(path))


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Nodes that rules ask for, in the order of `ast.walk`: statements, calls and handlers; no
    names, constants or operators.
    """
    kinds = (ast.stmt, ast.Call, ast.ExceptHandler)
    return tuple(node for node in ast.walk(tree_of(path)) if isinstance(node, kinds))


def functions_in(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and methods of a file, at every depth."""
    return (
        node for node in nodes_of(path) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def imports_in(nodes: Iterable[ast.AST], names: bool = False) -> Iterator[str]:
    """Modules that statements import; with `names` also what is imported from them, which may be
    modules too.
    """
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
