"""Examples of docstrings: the indented block below `Example:` at the end of one. A comment behind an
expression is its value.
"""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
from typing import Any


def example_of(docstring: str) -> str:
    """The example of a docstring; empty without one."""
    lines = inspect.cleandoc(docstring).split("\n")
    if "Example:" not in lines:
        return ""

    block = []
    for line in lines[lines.index("Example:") + 1 :]:
        if line and not line.startswith("    "):
            break

        block.append(line)

    return textwrap.dedent("\n".join(block)).strip()


def comments_of(source: str) -> dict[int, str]:
    """Text of each comment by its line."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokens
        if token.type == tokenize.COMMENT
    }


def run_example(source: str, words: dict[str, Any]) -> None:
    """Run an example; the value of each expression with a comment is what the comment says."""
    shown = comments_of(source)
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), "example", "exec"), words)
            continue

        value = eval(compile(ast.Expression(statement.value), "example", "eval"), words)
        if statement.end_lineno in shown:
            assert str(value) == shown[statement.end_lineno], ast.unparse(statement)
