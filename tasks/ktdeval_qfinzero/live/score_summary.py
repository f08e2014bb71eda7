"""Scores of a question that calls answer: their definitions, means and shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import fsum
from pathlib import Path
from typing import Final, Literal

from ktdeval.stats import wilson
from ktdeval.task_api import Score, ScoreDefinition, with_bounds
from ktdeval.values import Value, from_plain, load_yaml

_LEVEL: Final = 0.95


class _Definition(Value, frozen=True):
    formula: str
    unit: str
    most: float | None
    better: Literal["higher", "lower", ""]
    least: float | None = 0.0
    headline: bool = True


class _Definitions(Value, frozen=True):
    source: str
    scores: dict[str, _Definition]


@cache
def read_definitions(path: Path) -> Mapping[str, ScoreDefinition]:
    """Read the definitions of a task's scores, in the order shown."""
    read = from_plain(load_yaml(path), _Definitions, path.name)
    defined: dict[str, ScoreDefinition] = {}
    for name, each in read.scores.items():
        defined[name] = ScoreDefinition(
            formula=each.formula,
            unit=each.unit,
            range=(each.least, each.most),
            better=each.better,
            source=read.source,
            headline=each.headline,
        )

    return defined


def mean_score(figures: Sequence[float], reason: str) -> Score:
    """Average figures, without an interval; `reason`: why there is no score without a figure."""
    if not figures:
        return Score(None, 0, reason=reason)
    return Score(fsum(figures) / len(figures), len(figures))


def mean_of_all(
    figures: Sequence[float | None],
    silent: int,
    failed: int,
    definition: ScoreDefinition,
    reason: str,
) -> Score:
    """Average figures of answered samples, None where one is not defined. The `silent` ones, without
    a valid answer, count as the worst figure; `failed` model calls bound the average. A score
    without a direction is of the answered ones alone.
    """
    worst = definition.worst
    if silent and definition.better and worst is None:
        asked = len(figures) + silent
        return Score(
            None,
            0,
            reason=f"{silent} of {asked} have no valid answer, and the score has no worst figure",
        )

    known = [figure for figure in figures if figure is not None]
    if worst is not None:
        known += [worst] * silent

    points: list[tuple[str, float | None]] = []
    for number, figure in enumerate([*known, *[None] * failed]):
        points.append((str(number), figure))

    return with_bounds(mean_score(known, reason), points, definition.range)


def share_score(count: int, total: int, reason: str) -> Score:
    """Return a share with its interval; `reason`: why there is none of nothing."""
    if not total:
        return Score(None, 0, reason=reason)
    return Score(count / total, total, wilson(count, total, _LEVEL))
