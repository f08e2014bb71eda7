"""Names of the API that messages and docstrings mention exist."""

from __future__ import annotations

import importlib
import re

import pytest

from support.paths import REPOSITORY
from support.source_trees import SOURCES

DOTTED = re.compile(r"\bktdeval(?:\.[a-z_]\w*)+\.[A-Za-z_]\w*")
FILES = [path for path in SOURCES if "templates" not in path.parts]
SUFFIXES = ("py", "yaml", "json", "csv")  # `ktdeval.yaml` is a file


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


@pytest.mark.slow
def test_dotted_names_in_texts_exist() -> None:
    wrong = {}
    for path in FILES:
        found = missing_names(path.read_text(encoding="utf-8"))
        if found:
            wrong[str(path.relative_to(REPOSITORY))] = found

    assert wrong == {}
