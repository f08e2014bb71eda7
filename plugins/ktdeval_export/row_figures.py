"""Figures by which rows are selected and compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ktdeval.errors import UsageError
from ktdeval.registry import Plugins
from ktdeval.task_api import AnswerRecord, is_scoring
from ktdeval.trading import StepRecord
from ktdeval.values import near_matches
from ktdeval_export.replayed_steps import TracedEpisode, TracedStep

Rows = Literal["step", "episode"]  #: contents of a row: a step or question, or a whole episode
STEP_RETURN = "step_return"
_FORMULA = "step_return/1: NAV at the close of the fill day / NAV before it - 1"


@dataclass(frozen=True)
class Measure:
    """A figure of a step or an episode."""

    name: str
    formula: str
    better: Literal["higher", "lower"]

    def is_better(self, value: float, than: float) -> bool:
        """Return whether a value is better than another."""
        return value > than if self.better == "higher" else value < than


def measure_of(name: str, episode: TracedEpisode, rows: Rows, plugins: Plugins) -> Measure:
    """Return the measure with this name: a score for a question task, `step_return` for trading
    steps, or any metric for a trading episode.

    Raises UsageError if no measure has this name, or if neither higher nor lower values are better.
    """
    if is_scoring(episode.task):
        return _score_measure(name, episode, rows)

    if rows == "step":
        if name != STEP_RETURN:
            raise UsageError(
                f"{name}: is not a figure of a trading step; {STEP_RETURN} is. Other metrics are of an"
                " episode: add --rows episode"
            )
        return Measure(STEP_RETURN, _FORMULA, "higher")

    metric = plugins.make_metric(name)
    if metric.better == "neither":
        raise UsageError(f"{name}: has no better direction")
    return Measure(name, metric.formula, metric.better)


def _score_measure(name: str, episode: TracedEpisode, rows: Rows) -> Measure:
    recorded: set[str] = set()
    for step in episode.steps:
        if isinstance(step.record, AnswerRecord):
            recorded |= step.record.scores.keys()

    if rows == "episode":
        raise UsageError(
            f"{episode.spec.task}: its questions are independent; leave out --rows episode"
        )
    if name not in recorded:
        known = ", ".join(sorted(recorded)) or "none"
        raise UsageError(
            f"{name}: {episode.spec.task} records no such score of a question"
            f"{near_matches(name, recorded)}; known are {known}"
        )

    definition = episode.task.scores.get(name)
    if definition is None:
        return Measure(name, f"{name}, as recorded with each answer", "higher")
    return Measure(name, definition.formula, "lower" if definition.better == "lower" else "higher")


def value_of_step(measure: Measure, step: TracedStep, episode: TracedEpisode) -> float | None:
    """Return a measure's value for a step; None if it is undefined."""
    record = step.record
    if isinstance(record, AnswerRecord):
        return _score_number(record.scores.get(measure.name))

    assert isinstance(record, StepRecord)  # records have one of two types
    assert episode.ledger is not None  # a trading episode has a ledger
    before = episode.ledger.nav[step.number]
    if before <= 0:
        return None
    return float(episode.ledger.nav[step.number + 1] / before - 1.0)


def value_of_episode(measure: Measure, episode: TracedEpisode, plugins: Plugins) -> float | None:
    """Return a measure's value for a trading episode under the rule set `strict`; None if it is
    undefined.
    """
    assert episode.ledger is not None  # `measure_of` refuses question tasks
    assert episode.market is not None  # a ledger has a market
    return plugins.make_metric(measure.name).compute(episode.ledger, episode.market, "strict").value


def _score_number(value: object) -> float | None:
    """Return a recorded score as a number. True becomes 1, and False becomes 0."""
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    return None
