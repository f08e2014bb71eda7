"""Scorer and metric: the figures of ktdeval, computed by ktdeval."""

from __future__ import annotations

import math
import statistics

from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    metric,
    scorer,
)
from inspect_ai.solver import TaskState

from ktdeval_inspect.solving import FIGURES, REASONS


@metric
def median_defined() -> Metric:
    """Return the median over the samples whose figure is defined; NaN if all are undefined."""

    def compute(scores: list[SampleScore]) -> float:
        values = [each.score.as_float() for each in scores]
        defined = [value for value in values if not math.isnan(value)]
        if not defined:
            return math.nan

        return statistics.median(defined)

    return compute


@scorer(metrics={"*": [median_defined()]})
def task_figures() -> Scorer:
    """Report the figures of the sample's episode; an undefined one is NaN, with its reason."""

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - Inspect's signature
        figures = {}
        for name, value in state.metadata[FIGURES].items():
            figures[name] = math.nan if value is None else float(value)

        reasons = state.metadata[REASONS]
        explanation = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        return Score(
            value=figures,
            explanation=explanation or None,
            metadata={"undefined": dict(reasons), "run": state.metadata["ktdeval_run"]},
        )

    return score
