"""Tables of cases in YAML beside the tests: what is given, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ktdeval.yamlio import load_yaml


@cache
def _tables(module: Path) -> dict[str, list[list[Any]]]:
    return dict(load_yaml(module.with_suffix(".yaml")))


def rows(test_file: str, name: str) -> list[list[Any]]:
    """Rows of a table of a test module, below the row that names their parts."""
    return _tables(Path(test_file))[name][1:]


def on_each_row(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test on each row of the table that has its name; the first row names its arguments."""
    names, *cases = _tables(Path(test.__code__.co_filename))[test.__name__.removeprefix("test_")]
    return pytest.mark.parametrize(names, cases, ids=list(map(_id, cases)))(test)


def _id(case: Sequence[Any]) -> str:
    """Words of a case that stand for it: the last text, mostly what must be said."""
    texts = [part for part in case if isinstance(part, str) and part]
    return texts[-1][:60] if texts else str(case[0])[:60]
