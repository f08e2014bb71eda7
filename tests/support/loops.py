"""Loops of tests over values that may be empty: a guard to run them with, and a search for those
without one.

A test whose every assertion stands inside such a loop passes where there is nothing to loop
over.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

GUARD = "not_empty"
# Calls that give as many values as their first argument holds, or more.
FILLED_AS_THEIR_FIRST = {
    "cycle",
    "dict",
    "enumerate",
    "fromkeys",
    "frozenset",
    "iter",
    "list",
    "permutations",
    "reversed",
    "set",
    "sorted",
    "tuple",
}
CURE = f"assert first how many there are, or loop over `{GUARD}(...)` of loops.py"


T = TypeVar("T")


def not_empty(values: Iterable[T], count: int | None = None) -> list[T]:
    """Return `values` as a list; fail where there are none, or other than `count` of them."""
    listed = list(values)

    assert listed, "there is nothing to loop over, so nothing would be tested"

    if count is not None:
        assert len(listed) == count, f"{len(listed)} values to loop over, not {count}"

    return listed


@dataclass(frozen=True)
class EmptyLoop:
    """A test that asserts only inside loops that may run over nothing."""

    line: int
    name: str
    loops: tuple[str, ...]  # over what


def empty_loops(path: Path) -> list[EmptyLoop]:
    """List the tests of a file that may pass without one assertion."""
    return empty_loops_in(ast.parse(path.read_text(encoding="utf-8")))


def empty_loops_in(module: ast.Module) -> list[EmptyLoop]:
    """List the tests of a module that may pass without one assertion."""
    constants = _assigned(module.body)
    helpers = {
        node.name for node in module.body if isinstance(node, ast.FunctionDef) and _asserts(node)
    }
    found = []

    for test in _tests(module):
        search = _Search({**constants, **_assigned(ast.walk(test))}, _parametrised(test), helpers)
        search.read(test.body, ())
        if search.doubtful and not search.is_certain:
            found.append(EmptyLoop(test.lineno, test.name, tuple(dict.fromkeys(search.doubtful))))

    return found


def _tests(module: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


def _assigned(statements: Iterable[ast.AST]) -> dict[str, list[ast.expr | None]]:
    """Map each name to all that it is bound to."""
    values: dict[str, list[ast.expr | None]] = {}
    for statement in statements:
        for name, value in _bindings(statement):
            values.setdefault(name, []).append(value)

    return values


def _bindings(statement: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id, statement.value

    if not isinstance(statement, ast.Assign):
        return

    for target in statement.targets:
        if isinstance(target, ast.Name):
            yield target.id, statement.value
        elif isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            for part, value in zip(target.elts, statement.value.elts, strict=False):
                if isinstance(part, ast.Name):
                    yield part.id, value


def _parametrised(test: ast.FunctionDef) -> set[str]:
    """Name the arguments that `parametrize` sets: an empty list of rows fails when tests are
    collected.
    """
    names: set[str] = set()

    for decorator in test.decorator_list:
        if (
            isinstance(decorator, ast.Call)
            and ast.unparse(decorator.func) == "pytest.mark.parametrize"
        ):
            for node in ast.walk(decorator.args[0]):
                if isinstance(node, ast.Constant):
                    names |= {name.strip() for name in str(node.value).split(",")}

    return names


# ---- assertions


def _asserts(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Assert) or _raises(each) for each in ast.walk(node))


def _raises(node: ast.AST) -> bool:
    if not isinstance(node, ast.With):
        return False

    words = [ast.unparse(item.context_expr) for item in node.items]
    return any(word.startswith(("pytest.raises", "pytest.warns")) for word in words)


def _is_assertion(node: ast.AST, helpers: set[str]) -> bool:
    if isinstance(node, ast.Assert):
        return True

    if not isinstance(node, ast.Call):
        return _raises(node)

    name = ast.unparse(node.func)
    last = name.rsplit(".", 1)[-1]

    return name in helpers or last.startswith(("assert_", "check_", "expect")) or last == GUARD


class _Search:
    """The loops around the assertions of one test."""

    def __init__(
        self, values: Mapping[str, list[ast.expr | None]], given: set[str], helpers: set[str]
    ) -> None:
        self.values = dict(values)
        self.given = given
        self.helpers = helpers
        self.doubtful: list[str] = []
        self.is_certain = False

    def read(self, body: Iterable[ast.AST], around: tuple[str, ...]) -> None:
        """Read statements inside loops over `around`, each of which may be empty."""
        for node in body:
            if isinstance(node, ast.For):
                over = () if self.is_filled(node.iter) else (ast.unparse(node.iter),)
                self.read([node.iter], around)
                self.read(node.body, (*around, *over))
                self.read(node.orelse, around)
            elif isinstance(node, ast.FunctionDef | ast.Lambda):
                continue
            elif isinstance(node, ast.Assert):
                self.add(around + self.over_of_quantifier(node.test))
            else:
                if _is_assertion(node, self.helpers):
                    self.add(around)

                self.read(ast.iter_child_nodes(node), around)

    def add(self, around: tuple[str, ...]) -> None:
        self.doubtful.extend(around)
        self.is_certain = self.is_certain or not around

    def over_of_quantifier(self, test: ast.expr) -> tuple[str, ...]:
        """Name what `all(… for …)` and `not any(… for …)` run over where that may be empty: both
        hold for nothing.
        """
        name = "all"

        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test = test.operand
            name = "any"

        if not (isinstance(test, ast.Call) and ast.unparse(test.func) == name and test.args):
            return ()

        argument = test.args[0]

        return () if self.is_filled(argument) else (ast.unparse(argument),)

    # ---- what holds at least one value

    def is_filled(self, node: ast.expr | None) -> bool:
        """Tell whether an expression surely holds a value, as far as its text shows."""
        match node:
            case ast.Constant(value=str() | bytes()):
                return bool(node.value)
            case ast.Tuple() | ast.List() | ast.Set():
                return any(
                    self.is_filled(each.value) if isinstance(each, ast.Starred) else True
                    for each in node.elts
                )
            case ast.Dict():
                return any(
                    key is not None or self.is_filled(value)
                    for key, value in zip(node.keys, node.values, strict=True)
                )
            case ast.Name():
                return self.is_filled_name(node.id)
            case ast.Attribute():
                return node.attr.strip("_").isupper() or node.attr[0].isupper()
            case ast.Subscript():
                return self.is_filled_part(node)
            case ast.BinOp():
                return self.is_filled(node.left) or (
                    isinstance(node.op, ast.Add | ast.BitOr) and self.is_filled(node.right)
                )
            case ast.IfExp():
                return self.is_filled(node.body) and self.is_filled(node.orelse)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return all(not each.ifs and self.is_filled(each.iter) for each in node.generators)
            case ast.Call():
                return self.is_filled_call(node)
        return False

    def is_filled_name(self, name: str) -> bool:
        if name in self.given:
            return True

        if name in self.values:
            # What is bound to a part of itself is judged by its other values.
            values, self.values[name] = self.values[name], []
            is_filled = bool(values) and all(self.is_filled(value) for value in values)
            self.values[name] = values
            return is_filled

        # An imported constant, or a class that can be run over: an enumeration.
        return name.strip("_")[:1].isupper()

    def is_filled_part(self, node: ast.Subscript) -> bool:
        """A part of a filled value that leaves out a constant number of the first or last."""
        return isinstance(node.slice, ast.Slice) and self.is_filled(node.value)

    def is_filled_call(self, node: ast.Call) -> bool:
        name = ast.unparse(node.func)
        last = name.rsplit(".", 1)[-1]
        arguments = [each.value if isinstance(each, ast.Starred) else each for each in node.args]

        if last in {GUARD, "get_args", "fields"}:
            return True

        if last == "range":
            return all(self.is_number(each) for each in arguments)

        if last in {"items", "values", "keys", "split", "splitlines"} and isinstance(
            node.func, ast.Attribute
        ):
            return self.is_filled(node.func.value)

        if last == "zip":
            strict = any(
                each.arg == "strict" and ast.unparse(each.value) == "True" for each in node.keywords
            )
            return (any if strict else all)(self.is_filled(each) for each in arguments)

        if last in FILLED_AS_THEIR_FIRST:
            return any(self.is_filled(each) for each in arguments[:1])

        if last in {"map", "starmap"}:
            return all(self.is_filled(each) for each in arguments[1:])

        if last == "product":
            return all(self.is_filled(each) for each in arguments)

        if last == "chain":
            return any(self.is_filled(each) for each in arguments)

        return False

    def is_number(self, node: ast.expr | None) -> bool:
        """Tell whether a bound of `range` is written out: a number, or a constant's name."""
        match node:
            case ast.Constant(value=int()):
                return True
            case ast.UnaryOp():
                return self.is_number(node.operand)
            case ast.BinOp():
                return self.is_number(node.left) and self.is_number(node.right)
            case ast.Name():
                values = self.values.get(node.id, [])
                return node.id.isupper() or (bool(values) and all(map(self.is_number, values)))
            case ast.Call():
                return ast.unparse(node.func) == "len" and self.is_filled(node.args[0])
        return False
