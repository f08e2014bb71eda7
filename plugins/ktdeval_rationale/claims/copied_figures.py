"""Confidences and target weights that equal a figure of the instructions, such as the one in an
example. A calibration of such confidences measures the prompt, not the model.

A figure of the instructions is a number in a system or user message of the step, outside of blocks
of JSON, which contain the day's data. 0 and 1, the bounds that each prompt names, are no figure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ktdeval.harness import as_object
from ktdeval.values import JsonValue

_DATA = re.compile(r"^```json\n.*?^```", re.MULTILINE | re.DOTALL)
_FIGURE = re.compile(r"(?<![\w.,-])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w]|[.,]\d)")
_BOUNDS = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class CopiedFigures:
    """Number of submitted values of one field, and how many of them equal a figure of the prompt."""

    values: int
    copied: int


def instruction_figures(prompts: Iterable[str]) -> frozenset[float]:
    """Return the figures of the instructions in `prompts`."""
    figures: set[float] = set()
    for prompt in prompts:
        figures.update(map(float, _FIGURE.findall(_DATA.sub("", prompt))))

    return frozenset(figures.difference(_BOUNDS))


def copied_figures(
    submitted: Mapping[str, JsonValue], field: str, figures: frozenset[float]
) -> CopiedFigures:
    """Return how many values of `field` in the orders or decisions of a submission are among
    `figures`. Values that are not finite numbers are not counted.
    """
    values: list[float] = []
    for item in _items(submitted):
        value = as_object(item).get(field)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            values.append(float(value))

    return CopiedFigures(len(values), sum(value in figures for value in values))


def _items(submitted: Mapping[str, JsonValue]) -> Sequence[JsonValue]:
    items = submitted.get("orders") or submitted.get("decisions")
    return items if isinstance(items, list) else []
