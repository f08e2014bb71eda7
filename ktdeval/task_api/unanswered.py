"""Samples without a valid answer: their scores, and the bounds that follow from failed calls.

If a model was called but gave no valid answer, it has failed. The sample then gets the worst figure
in each score, because otherwise not answering would pay. A failed call, in contrast, says nothing
about the model. Its sample is missing, and the score is reported with bounds over all samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Final

from ktdeval.stats.intervals import wilson
from ktdeval.task_api.scoring import AnswerRecord, Score, ScoreDefinition
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.options.rules import Range

UNANSWERED: Final = "unanswered"
"""Name of the score that measures the fraction of samples without a valid answer."""

BOUNDS: Final = "with_failed_calls"
"""Key for bounds in the detail of a score, if model calls failed (see `bounds_of`)."""

_LEVEL: Final = 0.95

Figure = tuple[str, float | None]
"""Sample id, and the figure for one answer to the sample; None if the model call failed."""


def unanswered_definition() -> ScoreDefinition:
    """Return the definition of the score `UNANSWERED`."""
    formula = (
        "samples without a valid answer, over all samples: where the model gave none, they count as"
        " the worst figure of each score; where its call failed, they are missing and bound it"
    )
    return ScoreDefinition(
        formula, "fraction of samples", (0.0, 1.0), "lower", "of our own", headline=False
    )


def unanswered_score(records: Sequence[AnswerRecord], what: str = "samples") -> Score:
    """Return the fraction of records without a valid answer. The detail of the score has the counts
    by kind.
    """
    if not records:
        return Score(None, 0, reason=f"there are no {what}")

    detail = unanswered_detail(records)
    count = sum(record.answer is None for record in records)
    n = len(records)
    return Score(count / n, n, wilson(count, n, _LEVEL), detail=detail)


def unanswered_detail(records: Sequence[AnswerRecord]) -> dict[str, JsonValue]:
    """Return how many records have no valid answer, in total and by kind: `fallback` (no valid
    form) or `error` (the model call failed).
    """
    kinds = Counter(record.provenance for record in records if record.answer is None)
    by_provenance: dict[str, JsonValue] = dict(sorted(kinds.items()))
    return {"count": kinds.total(), "by_provenance": by_provenance}


def with_bounds(score: Score, figures: Sequence[Figure], ends: Range) -> Score:
    """Return a mean over samples. If a model call failed, bounds are added to its detail."""
    return replace(score, detail={**score.detail, **bounds_of(figures, ends)})


def bounds_of(figures: Sequence[Figure], ends: Range) -> dict[str, JsonValue]:
    """Return the range of possible means over all samples if every failed call had been answered;
    empty if no call failed.

    The key `BOUNDS` maps to `n` samples, `missing` answers, and the bounds `low` and `high`.
    `ends`: smallest and largest possible figure of a sample; if an end is None, so is the bound.
    Several answers to one sample count once, with their mean.
    """
    missing = sum(value is None for _, value in figures)
    if not missing:
        return {}

    low, high = [_filled_mean(figures, end) for end in ends]
    samples = len({sample for sample, _ in figures})
    return {BOUNDS: {"n": samples, "missing": missing, "low": low, "high": high}}


def _filled_mean(figures: Sequence[Figure], filling: float | None) -> float | None:
    """Return the mean over samples, with `filling` in place of each missing figure."""
    if filling is None:
        return None

    by_sample: dict[str, list[float]] = {}
    for sample, value in figures:
        by_sample.setdefault(sample, []).append(filling if value is None else value)

    means = [fsum(values) / len(values) for values in by_sample.values()]
    return fsum(means) / len(means)


def bounds_words(detail: Mapping[str, JsonValue], low: str, high: str) -> str:
    """Return a sentence about the bounds that follow from failed calls; empty if no call failed.
    `low` and `high` are the bounds as text.
    """
    bounds = detail.get(BOUNDS)
    if not isinstance(bounds, Mapping):
        return ""

    missing = bounds.get("missing")
    calls = "1 model call" if missing == 1 else f"{missing} model calls"
    samples = "1 sample" if bounds.get("n") == 1 else f"{bounds.get('n')} samples"
    return f"{calls} failed: over all {samples} it lies within {low} … {high}"
