"""Tables of cases: rows of a test, and YAML beside it for what is long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ktdeval.values import load_yaml


@cache
def beside(module: str) -> dict[str, Any]:
    """Load the YAML file of the same name next to a test module."""
    return dict(load_yaml(Path(module).with_suffix(".yaml")))


def on_each_row(names: str, *rows: Sequence[Any]) -> Callable[..., Any]:
    """Run a test on each row; `names` are those of its arguments, joined by commas."""
    return pytest.mark.parametrize(names.split(", "), rows, ids=[_id(row) for row in rows])


def _id(row: Sequence[Any]) -> str:
    """Name a case by its last text, mostly the expected message."""
    texts = [part for part in row if isinstance(part, str) and part]
    return texts[-1][:60] if texts else str(row[0])[:60]


def changed(text: str, change: Any) -> Any:
    """A faultless text with a fault: words replaced (a mapping), lines added at its end (a list),
    or something else altogether.
    """
    if isinstance(change, dict):
        for old, new in change.items():
            assert old in text, old
            text = text.replace(old, new)

        return text

    return text + "".join(f"{line}\n" for line in change) if isinstance(change, list) else change


def number(figure: float | str) -> float:
    """Return a number of a table, where a fraction may be written as such: 1/6."""
    return float(Fraction(figure)) if isinstance(figure, str) else float(figure)
