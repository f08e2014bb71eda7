"""Which class a value has: a `Value` where it crosses a file or a process, else a frozen dataclass;
a NamedTuple only where it is unpacked. Read from the code, since a habit is not a rule.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from support.paths import REPOSITORY as ROOT
from support.source_trees import SOURCES, parts_of

TUPLE = "# a tuple: "  #: above a NamedTuple that nobody unpacks: why it is one
TUPLES = "# tuples: "  #: likewise, of all in a module
MUTABLE = "# not frozen: "  #: above a dataclass that nobody changes: why it is not frozen
PASSED_ON = {
    "sorted",
    "list",
    "tuple",
    "reversed",
    "enumerate",
    "zip",
    "chain",
    "next",
    "iter",
    "min",
    "max",
}

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


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


class Types:
    """Which NamedTuples a name, an attribute or a call may hold, by annotations alone: names are
    looked up without their owners, so that it finds too many rather than too few.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._returned: dict[str, set[str]] = defaultdict(set)
        self._attributes: dict[str, set[str]] = defaultdict(set)

        for tree in modules().values():
            for node in ast.walk(tree):
                self._note(node)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._returned[node.name] |= self.mentioned(node.returns)
            if any("property" in ast.unparse(each) for each in node.decorator_list):
                self._attributes[node.name] |= self.mentioned(node.returns)
        elif isinstance(node, ast.AnnAssign):
            target = node.target
            name = target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
            self._attributes[name] |= self.mentioned(node.annotation)

    def mentioned(self, annotation: ast.expr | None) -> set[str]:
        if annotation is None:
            return set()

        return set(re.findall(r"\w+", ast.unparse(annotation))) & self._names

    def local(self, scope: Scope, nodes: Sequence[ast.AST]) -> dict[str, set[str]]:
        """Return what the names of a function, or of a module, may hold."""
        held: dict[str, set[str]] = defaultdict(set)
        if not isinstance(scope, ast.Module):
            arguments = scope.args
            for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                held[each.arg] |= self.mentioned(each.annotation)

        for node in (*nodes, *nodes):  # twice: a name may be bound further down
            for target, value in _bindings(node):
                if isinstance(target, ast.Name):
                    held[target.id] |= self.of(value, held)

            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                held[node.target.id] |= self.mentioned(node.annotation)

        return held

    def of(self, value: ast.expr, held: Mapping[str, set[str]]) -> set[str]:
        match value:
            case ast.Name(name):
                return held.get(name, set())
            case ast.Attribute(attr=name):
                return self._attributes.get(name, set())
            case ast.Subscript(value=inner) | ast.Starred(value=inner):
                return self.of(inner, held)
            case ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner) | ast.SetComp(elt=inner):
                return self.of(inner, held)
            case ast.List(elts=inner) | ast.Tuple(elts=inner) | ast.BoolOp(values=inner):
                return _all_of(self.of(each, held) for each in inner)
            case ast.Call(func=ast.Name(name), args=given):
                found = self._returned.get(name, set()) | held.get(name, set())
                if name in self._names:
                    found = {name}
                if name in PASSED_ON:
                    found = _all_of(self.of(each, held) for each in given)
                return found
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                if name in ("values", "items", "pop", "get", "popleft"):
                    return self.of(owner, held)
                return self._returned.get(name, set()) | self._attributes.get(name, set())

        return set()


def _all_of(sets: Iterable[set[str]]) -> set[str]:
    return set().union(*sets)


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield targets with what is bound to them."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, node.value

    if isinstance(node, ast.For | ast.comprehension):
        yield node.target, node.iter


def _lengths(target: ast.expr) -> Iterator[int]:
    """Yield how many names each tuple in a target takes."""
    for node in ast.walk(target):
        if isinstance(node, ast.Tuple):
            yield len(node.elts)


def _scopes(tree: ast.Module) -> Iterator[Scope]:
    """Yield the functions of a module, and its own statements."""
    statements = [each for each in tree.body if not isinstance(each, Scope | ast.ClassDef)]
    yield ast.Module(statements, [])

    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def unpacked() -> frozenset[tuple[Path, str, int]]:
    """Module, NamedTuple and number of names of each place where one may be unpacked; 0 where it is
    passed on as arguments or items (`*pair`).
    """
    types = Types(frozenset(each.node.name for each in named_tuples()))
    found = set()

    for path, tree in modules().items():
        for scope in _scopes(tree):
            nodes = list(ast.walk(scope))
            targets = list(chain.from_iterable(map(_bindings, nodes)))
            passed = [
                node.value
                for node in nodes
                if isinstance(node, ast.Starred) and isinstance(node.value, ast.Name)
            ]
            tuples = [(target, value) for target, value in targets if any(_lengths(target))]
            if not tuples and not passed:
                continue

            held = types.local(scope, nodes)
            for target, value in tuples:
                for name in types.of(value, held):
                    found.update((path, name, length) for length in _lengths(target))

            for value in passed:
                found.update((path, name, 0) for name in types.of(value, held))

    return frozenset(found)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_named_tuple_is_unpacked_somewhere_or_says_why_it_is_a_tuple() -> None:
    places = unpacked()
    idle = []
    for each in named_tuples():
        if each.has_above(TUPLE) or TUPLES in each.path.read_text():
            continue

        lengths = {0, len(each.fields)}
        if not any(
            name == each.node.name and length in lengths and knows(path, each)
            for path, name, length in places
        ):
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


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_dataclass_is_frozen_unless_a_field_of_it_is_assigned() -> None:
    never = []
    for each in changeable():
        fields = set(each.fields)
        if each.has_above(MUTABLE):
            continue

        if not any(name in fields and knows(path, each) for path, name in assigned()):
            never.append(str(each))

    assert never == [], "freeze it (CONTRIBUTING.md, Value classes)"


# ---- the check itself

UNPACKED = "def f(pairs: list[Pair]):\n    for a, b in pairs:\n        yield a"
PASSED = "def f(pair: Pair):\n    return g(*pair)"
READ = "def f(pair: Pair):\n    return pair.a"


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "found"),
    [(UNPACKED, {2}), (PASSED, set()), (READ, set())],
    ids=["unpacked", "passed", "read"],
)
def test_what_counts_as_unpacked(code: str, found: set[int]) -> None:
    types = Types(frozenset({"Pair"}))
    scope = ast.parse(code).body[0]

    assert isinstance(scope, ast.FunctionDef)

    held = types.local(scope, list(ast.walk(scope)))
    lengths = set()

    for node in ast.walk(scope):
        for target, value in _bindings(node):
            if "Pair" in types.of(value, held):
                lengths.update(_lengths(target))

    assert lengths == found
