"""Metrics as data: one CSV table per family, with columns name, formula, unit, better, low, high, source, summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktdeval.errors import UsageError
from ktdeval.fields import near_matches
from ktdeval.hookspecs import Spec
from ktdeval.jsonio import csv_rows
from ktdeval.lazy import later, maker

if TYPE_CHECKING:
    from ktdeval.stats import FunctionMetric

_rows = cache(csv_rows)  # a command loads its plugins more than once


def metric_specs(path: Path | str, figure: str) -> list[Spec]:
    """Return the metrics of a table, for a plugin's `ktdeval_metrics` hook. `figure`: `module:function` that makes one by its name,
    imported when the first is made.
    """
    return [Spec(row["name"], maker(figure, row["name"]), row["summary"]) for row in _rows(Path(path))]


def table_metrics(path: Path | str, function_of: Callable[[str], Callable[..., Any]]) -> dict[str, FunctionMetric]:
    """Make the metrics of a table, by name, each from the function that `function_of` returns for its name."""
    described = later("ktdeval.stats.metric:described")()  # manifests import this module
    return {row["name"]: described(row, function_of(row["name"])) for row in _rows(Path(path))}


def find_figure(family: str, figures: Mapping[str, FunctionMetric], name: str) -> FunctionMetric:
    """Return one of a family's figures. Raises UsageError: there is none of that name."""
    if name not in figures:
        raise UsageError(f"no figure {name!r} of {family}{near_matches(name, figures)}")
    return figures[name]
