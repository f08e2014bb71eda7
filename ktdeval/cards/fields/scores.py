"""Scores for a scoring task: gathered from the task's `summarise`, and checked against their
detail.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from ktdeval.cards.fields.base_types import Problem, decode_part
from ktdeval.cards.fields.card_inputs import ScoringSources
from ktdeval.cards.fields.origin.fact_types import ScoreLine
from ktdeval.cards.fields.origin.recorded_facts import ScoringFacts
from ktdeval.cards.fields.returns.metrics import check_count
from ktdeval.cards.recomputation_diff import is_close
from ktdeval.errors import PluginError
from ktdeval.registry.plugin_boundary import call_foreign
from ktdeval.stats import intervals
from ktdeval.stats.intervals import clopper_pearson_upper, wilson
from ktdeval.stats.metric import range_problem
from ktdeval.task_api.scoring import Score, ScoreDefinition
from ktdeval.task_api.unanswered import BOUNDS

# ---- gathered from the task


def gather_scores(sources: ScoringSources) -> dict[str, ScoreLine]:
    """Return each score with its definition. Raises PluginError if a score is missing or unknown,
    or is not a `Score` with a value or a reason. Raises CardError if a figure is not strict JSON.
    """
    task = sources.planned[0].task
    scores = sources.inputs.scores
    definitions = sources.inputs.definitions
    if not isinstance(scores, Mapping):
        raise PluginError(
            f"task {task}: summarise() returned {type(scores).__name__}, expected a mapping"
            " of names to Score"
        )

    odd = sorted(set(scores) ^ set(definitions))
    if odd:
        problem = "is missing from what summarise() returned"
        if odd[0] in scores:
            problem = "is not defined in its scores"
        raise PluginError(f"task {task}: score {odd[0]!r} {problem}")

    lines = {}
    for name, definition in definitions.items():
        _check_score(f"task {task}: score {name!r}", scores[name], definition)
        lines[name] = _score_line(scores[name], definition)

    return lines


def _check_score(where: str, score: Score, definition: ScoreDefinition) -> None:
    """Raise PluginError, which starts with `where`, if a score breaks the contract."""
    if not isinstance(score, Score):
        raise PluginError(
            f"{where} is a {type(score).__name__}; summarise() must return Score objects"
        )
    if (score.value is None) == (not score.reason):
        raise PluginError(f"{where} must have either a value or the reason why it has none")
    check_count(where, score.n, "samples")
    if not isinstance(score.interval, intervals.Interval | None):
        raise PluginError(
            f"{where}: interval must be a ktdeval.stats.Interval, was {score.interval!r:.80}"
        )

    for value in (score.value, score.baseline):
        problem = call_foreign(range_problem, where, value, definition.range)
        if problem:
            raise PluginError(f"{where}: {problem}; fix the score, or the range that it declares")


def _score_line(score: Score, definition: ScoreDefinition) -> ScoreLine:
    fields: dict[str, Any] = {
        "better": definition.better or "neither",
        "formula": definition.formula,
        "headline": definition.headline,
        "range": definition.range,
        "source": definition.source,
        "unit": definition.unit,
        "value": None if score.value is None else float(score.value),
        "n": int(score.n),
        "interval": None if score.interval is None else score.interval.to_json(),
        "baseline": None if score.baseline is None else float(score.baseline),
        "detail": score.detail,
    }
    if score.value is None:
        fields["reason"] = score.reason
    if definition.unanswered != "worst":
        fields["unanswered"] = definition.unanswered

    return decode_part("scores", fields, ScoreLine)


def recorded_as(card: ScoringFacts, score: str, recorded: Container[str]) -> str | None:
    """Return the name under which answers record a score: the score's own name, or the name
    prefixed with the task's rule set (`paper_overall`).
    """
    names = (score, f"{card.task.config.get('rules')}_{score}")
    return next((name for name in names if name in recorded), None)


# ---- checks


def order_problems(order: Sequence[str], facts: ScoringFacts) -> Iterator[Problem]:
    """Yield a problem if the score order does not list exactly the scores on the card."""
    if sorted(order) != sorted(facts.scores):
        yield ("score_order",), "must name every score once, and nothing else"


def score_problems(scores: Mapping[str, ScoreLine], facts: ScoringFacts) -> Iterator[Problem]:
    """Yield contradictions between a score and the number of samples, or between a score and its
    own detail.
    """
    steps = sum(episode.steps for episode in facts.episodes)
    for name, score in scores.items():
        problems = (
            *_range_problems(score, steps),
            *_bounds_problems(score, steps),
            *_proportion_problems(score),
        )
        for path, problem in problems:
            yield ("scores", name, *path), problem


def _range_problems(score: ScoreLine, steps: int) -> Iterator[Problem]:
    if score.n > steps:
        yield ("n",), f"the finished episodes have {steps} samples"

    for field, value in (("value", score.value), ("baseline", score.baseline)):
        problem = range_problem(value, score.range)
        if problem:
            yield (field,), problem


def _bounds_problems(score: ScoreLine, steps: int) -> Iterator[Problem]:
    """Yield a problem for each bound over all samples that contradicts the value, the range or the
    samples.
    """
    bounds = score.detail.get(BOUNDS)
    if bounds is None:
        return

    path = ("detail", BOUNDS)
    if not isinstance(bounds, Mapping) or set(bounds) != {"n", "missing", "low", "high"}:
        yield path, "expected n, missing, low and high"
        return

    n = bounds["n"]
    missing = bounds["missing"]
    if type(n) is not int or type(missing) is not int or not 0 < missing <= steps or n > steps:
        yield path, f"the finished episodes have {steps} samples"
        return

    ends = (bounds["low"], bounds["high"])
    for end, limit in zip(ends, score.range, strict=True):
        if (end is None) != (limit is None):
            yield path, "an end is null although the range has it, or the other way round"
            return

        problem = range_problem(end, score.range)
        if problem:
            yield path, problem
            return

    low, high = ends
    if low is not None and high is not None and low > high:
        yield path, "the low end is above the high one"


def _proportion_problems(score: ScoreLine) -> Iterator[Problem]:
    """Yield a problem for each field that does not follow from a proportion's number of successes:
    the value, the Wilson interval and the exact bound.
    """
    n = score.n
    successes = score.detail.get("successes")
    if score.value is None or type(successes) is not int:
        return

    if not 0 <= successes <= n or n == 0:
        yield ("detail", "successes"), f"of {n} trials"
        return

    share = successes / n
    if score.value != share:
        yield ("value",), f"recorded {score.value}, {successes} successes of {n} are {share}"

    figures: list[tuple[tuple[str, str], Any, float | None]] = []
    interval = score.interval
    if interval is not None and interval.kind == "Wilson score":
        exact = wilson(successes, n, interval.level or 0.95)
        figures.append((("interval", "low"), interval.low, exact.low))
        figures.append((("interval", "high"), interval.high, exact.high))

    upper = score.detail.get("upper_95")
    if upper is not None:
        figures.append((("detail", "upper_95"), upper, clopper_pearson_upper(successes, n)))

    for path, recorded, expected in figures:
        if not is_close(recorded, expected):
            yield path, f"recorded {recorded}, {successes} successes of {n} give {expected}"
