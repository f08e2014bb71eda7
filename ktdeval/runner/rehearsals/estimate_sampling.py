"""Sampling of the days in a window that a plan measures, and estimates for all days from the
sample.

The size of a step depends on its day: a market may have many documents on one day and none on the
next. The size of each day's data is therefore read first, which is quick. The steps to be played
are then spread evenly over the sorted sizes, and a regression line gives the mean over all days.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_execution import Episode
from ktdeval.runner.episodes.scoring_episode import ScoringEpisodeRun

T = TypeVar("T")

_MEASURED = 6  # number of steps played per window
_ALIKE = 3  # number of steps played if days only show tables, which are all the same size
_MAX_DAYS = 400  # maximum number of days per window whose sizes are read
_MAX_SAMPLES = 24  # same for samples of a scoring task, which may take long to generate


@dataclass(frozen=True)
class EstimatedMean:
    """Mean of a quantity over the steps of a window, with its standard error."""

    mean: float
    error: float

    def with_error_of(self, other: EstimatedMean) -> EstimatedMean:
        """Return this mean with the relative standard error of `other`."""
        if not other.mean:
            return self
        return EstimatedMean(self.mean, self.mean * other.error / other.mean)

    @property
    def least(self) -> float:
        """Mean minus two standard errors, but at least 0."""
        return max(0.0, self.mean - 2 * self.error)

    @property
    def most(self) -> float:
        """Mean plus two standard errors."""
        return self.mean + 2 * self.error


@dataclass(frozen=True)
class SampledDays:
    """Steps of an episode that are chosen for measurement, in ascending order."""

    steps: tuple[int, ...]
    shown: tuple[int, ...]  #: UTF-8 bytes that the task shows at each step
    mean_shown: float  #: mean bytes over all steps whose sizes were read
    is_whole: bool  #: True if every measurable step is included

    def over_all(self, values: Sequence[float]) -> EstimatedMean:
        """Estimate the mean over all steps from values for the measured steps.

        The values are regressed on the number of bytes shown (least squares). The standard error
        comes from the residuals.
        """
        mean = statistics.fmean(values)
        if self.is_whole or len(values) < _ALIKE:
            return EstimatedMean(mean, 0.0)

        middle = statistics.fmean(self.shown)
        shown = np.array(self.shown) - middle
        differences = np.array(values) - mean
        slope = 0.0
        if shown.any():
            slope = float(shown @ differences / (shown @ shown))

        residuals = differences - slope * shown
        variance = float(residuals @ residuals) / (len(values) - 2)
        error = math.sqrt(variance / len(values))
        return EstimatedMean(mean + slope * (self.mean_shown - middle), error)

    def by_size(self) -> Iterator[int]:
        """Yield the steps, starting with the fewest bytes shown."""
        for _, step in sorted(zip(self.shown, self.steps, strict=True)):
            yield step


def sample_days(episode: Episode, *, is_reference: bool = True) -> SampledDays:
    """Choose the steps to be measured in an episode that has not begun.

    The first step has no positions and no memory, so it is only chosen if it is the only one.
    `is_reference` is False for a window whose days vary like those of a window that is already
    measured; if such days only show tables, one step in the middle represents them.
    """
    all_steps = range(min(1, episode.total_steps - 1), episode.total_steps)
    is_tables = isinstance(episode, TradingEpisodeRun) and not episode.has_documents
    if is_tables and not is_reference:
        middle = all_steps[len(all_steps) // 2]
        return SampledDays((middle,), (0,), 0.0, is_whole=len(all_steps) == 1)

    looked_at = spread_over(all_steps, _max_looked_at(episode))
    shown = {step: episode.shown_bytes(step) for step in looked_at}
    by_size = sorted(looked_at, key=lambda step: (shown[step], step))
    steps = sorted(spread_over(by_size, _MEASURED))
    return SampledDays(
        steps=tuple(steps),
        shown=tuple(shown[step] for step in steps),
        mean_shown=statistics.fmean(shown.values()),
        is_whole=len(steps) == len(all_steps),
    )


def _max_looked_at(episode: Episode) -> int:
    if isinstance(episode, ScoringEpisodeRun):
        return _MAX_SAMPLES
    return _MAX_DAYS if episode.has_documents else _ALIKE


def spread_over(items: Sequence[T], most: int) -> list[T]:
    """Return at most `most` evenly spaced items, including the first and the last."""
    if len(items) <= most:
        return list(items)
    last = len(items) - 1
    return [items[round(number * last / (most - 1))] for number in range(most)]
