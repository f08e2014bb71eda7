"""Means and shares of figures over answers, following the definitions of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Final

from ktdeval.stats import wilson
from ktdeval.task_api import Score, ScoreDefinition, with_bounds
from ktdeval.values import Value

_LEVEL: Final = 0.95


class Earned(Value, frozen=True, kw_only=True):
    """Recorded scores of an answer. Subclasses add figures; undefined figures are None."""

    calls: int
    accepted: int
    problem: str = ""  #: why the answer is not what was asked; empty if it is

    def figure(self, name: str) -> float | None:
        """Return the figure for the score of this name; `accepted` is the share of accepted
        calls.
        """
        if name == "accepted":
            return self.accepted / self.calls if self.calls else None

        value: float | None = getattr(self, name)
        return None if value is None else float(value)


def mean_score(figures: Sequence[float], reason: str) -> Score:
    """Average figures, without an interval. `reason`: why the score is undefined if there are no
    figures.
    """
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
    """Average the figures of answered samples; undefined figures are None and are skipped.

    Each of the `silent` samples, which have no valid answer, gets the worst figure. The `failed`
    model calls bound the average. A score without a direction averages only answered samples.
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
    """Return a share with its interval. `reason`: why the share is undefined if the total is 0."""
    if not total:
        return Score(None, 0, reason=reason)
    return Score(count / total, total, wilson(count, total, _LEVEL))
