"""Faults that a module could have: each replaces one expression or statement inside a function.

A mutant is stored by its texts, so it outlives a move of lines; it is woven into the module beside
what it replaces (a mutant schema: Untch, Offutt and Harrold, 1993), and one process tries them all.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass

IS_ACTIVE = "__ktdeval_mutant__"  #: name of the builtin that woven code asks, with a number

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
FUNCTIONS = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
}
#: what no user relies on, or what is not evaluated
PASSED_OVER = (ast.Raise, ast.Assert, ast.JoinedStr, ast.pattern, ast.arguments, ast.Import)
UNTOUCHED_FUNCTIONS = {"__repr__", "__str__"}
LOGGING = {"debug", "info", "warning", "error", "exception", "warn"}
TEXTS = (ast.JoinedStr, ast.List, ast.Tuple)
#: names of what counts days, steps and rows: the one before is a fault that people make
COUNTERS = {"t", "day", "row", "step", "index", "position", "number", "at", "first", "last"}
#: where the order of two operands is nothing, or a mistake that any call shows
IN_ANY_ORDER = {
    *FUNCTIONS,
    "isinstance",
    "issubclass",
    "isclose",
    "allclose",
    "array_equal",
    "hypot",
}
LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Mutant:
    """One fault: `before`, found for the `occurrence`-th time in a function, becomes `after`.

    The names of tests that notice it are empty where none does.
    """

    module: str
    function: str
    before: str
    occurrence: int  # from 0
    after: str
    killed_by_boundary: str = ""
    killed_by: str = ""

    def __str__(self) -> str:
        again = f" (occurrence {self.occurrence + 1})" if self.occurrence else ""
        return f"{self.module}:{self.function}{again}: {self.before}  →  {self.after}"


def _nodes(node: ast.AST, scope: tuple[str, ...], inside: bool) -> Iterator[tuple[str, ast.AST]]:
    """Yield the expressions and statements inside functions, each with its function's name."""
    if isinstance(node, PASSED_OVER):
        return

    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for each in node.body:
            yield from _nodes(each, (*scope, node.name), not isinstance(node, ast.ClassDef))
        return

    if inside and isinstance(node, ast.expr | ast.stmt):
        yield ".".join(scope), node

    for name, value in ast.iter_fields(node):
        if name == "annotation":
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield from _nodes(each, scope, inside)


def nodes_of(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the expressions and statements inside a module's functions, with functions' names."""
    yield from _nodes(tree, (), False)


# ---- faults


def _last_name(function: ast.expr) -> str:
    return ast.unparse(function).rpartition(".")[2]


def _replaced(node: ast.AST, **changes: object) -> ast.AST:
    other = copy(node)
    for name, value in changes.items():
        setattr(other, name, value)
    return other


def _of_call(node: ast.Call) -> Iterator[ast.AST]:
    function = node.func
    name = _last_name(function)
    if isinstance(function, ast.Name) and name in FUNCTIONS:
        yield _replaced(node, func=ast.Name(FUNCTIONS[name]))
    if isinstance(function, ast.Attribute) and name in FUNCTIONS:
        yield _replaced(node, func=_replaced(function, attr=FUNCTIONS[name]))

    if name in {"sorted", "sort"} and all(each.arg != "reverse" for each in node.keywords):
        reverse = ast.keyword("reverse", ast.Constant(True))
        yield _replaced(node, keywords=[*node.keywords, reverse])

    for each in node.keywords:
        if each.arg is not None and isinstance(each.value, ast.Constant):
            yield _replaced(node, keywords=[other for other in node.keywords if other is not each])


def _of_slice(node: ast.Subscript, part: ast.Slice) -> Iterator[ast.AST]:
    for name in ("lower", "upper"):
        if isinstance(getattr(part, name), ast.Constant | ast.UnaryOp):
            yield _replaced(node, slice=_replaced(part, **{name: None}))


def _of_constant(value: object) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        if value:
            yield ast.Constant(value - 1)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, TEXTS) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _of_expression(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=operators):
            for index, each in enumerate(operators):
                if type(each) in OPERATORS:
                    swapped = [*operators[:index], OPERATORS[type(each)](), *operators[index + 1 :]]
                    yield _replaced(node, ops=swapped)
        case ast.BinOp(left=left, op=operator, right=right):
            if type(operator) in OPERATORS and not (_is_text(left) or _is_text(right)):
                yield _replaced(node, op=OPERATORS[type(operator)]())
        case ast.BoolOp(op=operator):
            yield _replaced(node, op=OPERATORS[type(operator)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=value):
            yield from _of_constant(value)
        case ast.Call():
            yield from _of_call(node)
        case ast.Subscript(slice=ast.Slice() as part, ctx=ast.Load()):
            yield from _of_slice(node, part)


def _of_statement(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call(func=function)) if _last_name(function) not in LOGGING:
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.AugAssign(op=operator):
            yield ast.Pass()
            if type(operator) in OPERATORS:
                yield _replaced(node, op=OPERATORS[type(operator)]())


def _semantic(node: ast.AST) -> Iterator[ast.AST]:
    """Yield faults of meaning: a lost sign, a wrong variable, a stale field, the day before, a missing
    guard.
    """
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield operand
        case ast.Call(func=function, args=[argument]) if _last_name(function) == "abs":
            yield argument
        case ast.Call(func=function, keywords=keywords) if _last_name(function) == "replace":
            for each in keywords:
                if each.arg is not None and not isinstance(each.value, ast.Constant):
                    rest = [other for other in keywords if other is not each]
                    yield _replaced(node, keywords=rest)
        case ast.Call(func=function, args=[first, second, *others]) if (
            _differ(first, second) and _last_name(function) not in IN_ANY_ORDER
        ):
            yield _replaced(node, args=[second, first, *others])
        case ast.BinOp(left=left, op=ast.Sub() | ast.Div(), right=right) if _differ(left, right):
            yield _replaced(node, left=right, right=left)
        case ast.Subscript(slice=ast.Name(id=name) as index, ctx=ast.Load()) if name in COUNTERS:
            yield _replaced(node, slice=ast.BinOp(index, ast.Sub(), ast.Constant(1)))
        case ast.If(body=[*_, last], orelse=[]) if isinstance(last, LEAVES):
            yield ast.Pass()


def _differ(one: ast.expr, other: ast.expr) -> bool:
    """Whether two operands are variables of different names."""
    variables = (ast.Name, ast.Attribute)
    is_both = isinstance(one, variables) and isinstance(other, variables)
    return is_both and ast.unparse(one) != ast.unparse(other)


def _may_return_none(tree: ast.Module) -> set[int]:
    """Identify the return statements of functions that say that they may return None."""
    returns: set[int] = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if function.returns is not None and "None" in ast.unparse(function.returns):
            returns |= {id(node) for node in ast.walk(function)}
    return returns


def _by_operators(node: ast.AST) -> Iterator[ast.AST]:
    yield from _of_expression(node)
    yield from _of_statement(node)


def faults_of(module: str, tree: ast.Module) -> Iterator[tuple[int, Mutant]]:
    """Yield the mutants of a module by single operators, each with the number of its node."""
    yield from _faults(module, tree, _by_operators)


def semantic_faults_of(module: str, tree: ast.Module) -> Iterator[tuple[int, Mutant]]:
    """Yield the mutants of a module by faults of meaning, each with the number of its node."""
    yield from _faults(module, tree, _semantic)


def _faults(
    module: str, tree: ast.Module, of_node: Callable[[ast.AST], Iterator[ast.AST]]
) -> Iterator[tuple[int, Mutant]]:
    seen: Counter[tuple[str, str]] = Counter()
    may_be_none = _may_return_none(tree)
    for number, (function, node) in enumerate(nodes_of(tree)):
        before = ast.unparse(node)
        occurrence = seen[function, before]
        seen[function, before] += 1
        if function.rpartition(".")[2] in UNTOUCHED_FUNCTIONS:
            continue
        if isinstance(node, ast.Return) and id(node) in may_be_none:
            continue

        for other in of_node(node):
            after = ast.unparse(ast.fix_missing_locations(other))
            yield number, Mutant(module, function, before, occurrence, after)


# ---- weaving


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _find(tree: ast.Module, mutant: Mutant) -> ast.AST | None:
    is_statement = not (_is_expression(mutant.before) and _is_expression(mutant.after))
    count = 0
    for function, node in nodes_of(tree):
        if function != mutant.function or ast.unparse(node) != mutant.before:
            continue
        if count == mutant.occurrence and isinstance(node, ast.stmt) == is_statement:
            return node
        count += 1
    return None


def is_there(tree: ast.Module, mutant: Mutant) -> bool:
    """Whether what a mutant replaces is in its module."""
    return _find(tree, mutant) is not None


class _Weaver(ast.NodeTransformer):
    def __init__(self, changes: dict[int, list[tuple[int, str]]]) -> None:
        self.changes = changes

    def visit(self, node: ast.AST) -> ast.AST:
        changes = self.changes.get(id(node), [])
        woven = self.generic_visit(node)
        for number, after in changes:
            woven = self.either(number, after, woven)
        return woven

    def either(self, number: int, after: str, node: ast.AST) -> ast.AST:
        asked = ast.Call(ast.Name(IS_ACTIVE, ast.Load()), [ast.Constant(number)], [])
        if isinstance(node, ast.expr):
            other = ast.parse(after, mode="eval").body
            return ast.copy_location(ast.IfExp(asked, other, node), node)

        assert isinstance(node, ast.stmt)
        (statement,) = ast.parse(f"def _():\n {after}").body[0].body  # type: ignore[attr-defined]
        return ast.copy_location(ast.If(asked, [statement], [node]), node)


def weave(tree: ast.Module, numbered: Sequence[tuple[int, Mutant]]) -> ast.Module:
    """Put mutants beside what they replace: each is taken while `IS_ACTIVE` says so."""
    changes: dict[int, list[tuple[int, str]]] = {}
    for number, mutant in numbered:
        node = _find(tree, mutant)
        if node is not None:
            changes.setdefault(id(node), []).append((number, mutant.after))

    woven = _Weaver(changes).visit(tree)
    assert isinstance(woven, ast.Module)
    return ast.fix_missing_locations(woven)
