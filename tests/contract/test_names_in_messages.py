"""Names of the API that messages and docstrings mention exist."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from itertools import chain

import pytest

import ktdeval.api
from support.paths import REPOSITORY
from support.source_trees import SOURCES

DOTTED = re.compile(r"\bktdeval(?:\.[a-z_]\w*)+\.[A-Za-z_]\w*")
WORD = re.compile(r"\b[A-Z][A-Za-z]+\b")
API = {name for name in dir(ktdeval.api) if name[0].isupper()}
FILES = [path for path in SOURCES if "templates" not in path.parts]
SUFFIXES = ("py", "yaml", "json", "csv")  # `ktdeval.yaml` is a file


def texts_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def messages_of(tree: ast.AST) -> Iterator[str]:
    """Texts that are raised."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from texts_of(node.exc)


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue

        for attribute in parts[length:]:
            if not hasattr(found, attribute):
                return False

            found = getattr(found, attribute)

        return True

    return False


def missing_names(text: str) -> list[str]:
    names = {name for name in DOTTED.findall(text) if name.rpartition(".")[2] not in SUFFIXES}
    return sorted(name for name in names if not exists(name))


def plurals(text: str) -> list[str]:
    """Words that look like a name of the API, and are its plural: `Orders` of `Order`."""
    return [word for word in WORD.findall(text) if word[:-1] in API and word not in API]


@pytest.mark.slow
def test_dotted_names_in_texts_exist() -> None:
    wrong = {}
    for path in FILES:
        found = missing_names(path.read_text(encoding="utf-8"))
        if found:
            wrong[str(path.relative_to(REPOSITORY))] = found

    assert wrong == {}


@pytest.mark.slow
def test_errors_name_no_plural_of_a_class() -> None:
    wrong = {}
    for path in FILES:
        source = path.read_text(encoding="utf-8")
        if not plurals(source):
            continue

        found = list(chain.from_iterable(map(plurals, messages_of(ast.parse(source)))))
        if found:
            wrong[str(path.relative_to(REPOSITORY))] = found

    assert wrong == {}
