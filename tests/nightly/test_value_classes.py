"""Which class a value has: a `Value` where it crosses a file or a process, else a frozen dataclass;
a NamedTuple only where it is unpacked. Read from the code, since a habit is not a rule.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support.paths import REPOSITORY as ROOT
from support.source_trees import SOURCES, parts_of

TUPLE = "# a tuple: "  #: above a NamedTuple that nobody unpacks: why it is one
TUPLES = "# tuples: "  #: likewise, of all in a module
MUTABLE = "# not frozen: "  #: above a dataclass that nobody changes: why it is not frozen


@dataclass(frozen=True)
class Class:
    """A class of the product, where it stands, and its fields."""

    path: Path
    node: ast.ClassDef

    @property
    def fields(self) -> list[str]:
        named = [each for each in self.node.body if isinstance(each, ast.AnnAssign)]
        return [each.target.id for each in named if isinstance(each.target, ast.Name)]

    @property
    def first_line(self) -> int:
        return min([self.node.lineno, *(each.lineno for each in self.node.decorator_list)])

    def has_above(self, mark: str) -> bool:
        lines = self.path.read_text().splitlines()
        return mark in lines[self.first_line - 2]

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.first_line}: {self.node.name}"


@cache
def modules() -> Mapping[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in SOURCES if "templates" not in path.parts}


def classes() -> Iterator[Class]:
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield Class(path, node)


def named_tuples() -> list[Class]:
    found = []
    for each in classes():
        bases = [ast.unparse(base) for base in each.node.bases]
        if "NamedTuple" in bases:
            found.append(each)

    return found


def changeable() -> list[Class]:
    found = []
    for each in classes():
        for decorator in map(ast.unparse, each.node.decorator_list):
            if (
                re.match(r"(dataclasses\.)?dataclass\b", decorator)
                and "frozen=True" not in decorator
            ):
                found.append(each)

    return found


@cache
def reached(path: Path) -> frozenset[str]:
    """Packages (two levels at most) that a module imports from, and its own."""
    own = ".".join(parts_of(path))
    names = [own]

    for node in ast.walk(modules()[path]):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)

        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]

    return frozenset(_package(name) for name in names)


def _package(name: str) -> str:
    first, _, rest = name.partition(".")
    if first != "ktdeval":
        return first

    return f"{first}.{rest.partition('.')[0]}"


def knows(path: Path, of: Class) -> bool:
    """Whether a module is in the class's package, or imports from it."""
    own = ".".join(parts_of(of.path))
    return _package(own) in reached(path)


# ---- what is unpacked


@cache
def unpacked() -> frozenset[tuple[Path, int]]:
    """Module and number of names of each target that takes a tuple apart."""
    found = set()
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Store):
                found.add((path, len(node.elts)))

    return frozenset(found)


def test_a_named_tuple_is_unpacked_somewhere_or_says_why_it_is_a_tuple() -> None:
    idle = []
    for each in named_tuples():
        if each.has_above(TUPLE) or TUPLES in each.path.read_text():
            continue

        count = len(each.fields)
        if not any(length == count and knows(path, each) for path, length in unpacked()):
            idle.append(str(each))

    assert idle == [], "make it a frozen dataclass (CONTRIBUTING.md, Value classes)"


# ---- what changes


@cache
def assigned() -> frozenset[tuple[Path, str]]:
    """Module and name of each attribute that is assigned, added to or deleted."""
    found = set()
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                found.add((path, node.attr))

    return frozenset(found)


def test_a_dataclass_is_frozen_unless_a_field_of_it_is_assigned() -> None:
    never = []
    for each in changeable():
        fields = set(each.fields)
        if each.has_above(MUTABLE):
            continue

        if not any(name in fields and knows(path, each) for path, name in assigned()):
            never.append(str(each))

    assert never == [], "freeze it (CONTRIBUTING.md, Value classes)"
