"""Tables of cases in YAML beside a test, and what their cells may hold."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from ktdeval.values import load_yaml


@cache
def beside(module: str) -> dict[str, Any]:
    """Load the YAML file of the same name next to a test module."""
    return dict(load_yaml(Path(module).with_suffix(".yaml")))


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
