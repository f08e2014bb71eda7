"""Rehearsal of a run: the first step of each episode, played without a model.

Checks and estimates before a run are based on its rehearsal: whether a model can handle the
requests, how many calls and tokens a step needs, whether prompts fit a context. Each episode is
started on first use, and its results are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from ktdeval.harness.chat_messages import ModelRequest
from ktdeval.hookspecs import COMPACT
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_execution import Episode, EpisodeFactory
from ktdeval.runner.rehearsals.conversation_size import (
    LOW,
    NOTHING_SENT,
    AssumedBehaviour,
    MeasuringModel,
    StepSize,
    measure_steps,
    size_of,
)
from ktdeval.runner.rehearsals.estimate_sampling import SampledDays, sample_days
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.task_api.trading_task import Scene


@dataclass(frozen=True)
class ShownStep:
    """Requests in a first step to a model that does no research and submits when asked to."""

    requests: Sequence[ModelRequest]  #: including messages, tools and schemas
    size: StepSize  #: number of requests, bytes of prompts, and seconds


class FirstStep:
    """First step of an episode, whose contents and costs are measured on first use.

    `is_reference`: True for a task's first episode, in which more days are measured.
    """

    def __init__(
        self,
        spec: EpisodeSpec,
        make_factory: Callable[[], EpisodeFactory],
        *,
        is_reference: bool = True,
    ) -> None:
        self.spec = spec
        self._is_reference = is_reference
        self._make_factory = make_factory
        self._total_steps = 0
        self._has_warm_up = False
        # kept, because opening a market takes longer than playing a step
        self._scene: Scene | None = None
        self._shown: dict[bool, ShownStep] = {}  # keyed by whether lessons come first
        self._low: dict[int, StepSize] = {}

    @property
    def task(self) -> Any:
        """Task of the episode."""
        return self._factory.task(self.spec.task)

    @property
    def total_steps(self) -> int:
        """Number of steps in the episode."""
        if not self._total_steps:
            self._open(MeasuringModel(LOW, 0))
        return self._total_steps

    def play_shown(self, with_lessons: bool) -> ShownStep:
        """Return the requests that a model would receive, with or without the lessons of a
        warm-up.
        """
        has_lessons = with_lessons and self._learns
        if has_lessons not in self._shown:
            self._shown[has_lessons] = self._play_step(has_lessons)
        return self._shown[has_lessons]

    @cached_property
    def warm_up(self) -> StepSize:
        """Size of the warm-up before this step. It is zero unless the window has lessons and the
        agent learns.
        """
        if not self._learns:
            return StepSize(0, NOTHING_SENT, 0.0, 0)

        whole = self.play_shown(with_lessons=True).size
        without = self.play_shown(with_lessons=False).size
        return StepSize(
            whole.requests - without.requests,
            whole.sent.without(without.sent),
            max(0.0, whole.seconds - without.seconds),
            0,
            whole.largest,
        )

    @cached_property
    def days(self) -> SampledDays:
        """Steps that represent all steps of the episode."""
        episode = self._open(MeasuringModel(LOW, 0))
        return sample_days(episode, is_reference=self._is_reference)

    def sizes(self, behaviour: AssumedBehaviour) -> list[StepSize]:
        """Return the sizes of the steps in `days`, for a model with this behaviour."""
        if behaviour == LOW:
            return [self._low_size(step) for step in self.days.steps]
        return self._measure_steps(behaviour, self.days.steps)

    def smallest_sizes(self) -> Iterator[StepSize]:
        """Yield the sizes of steps without research, starting with the fewest bytes shown."""
        for step in self.days.by_size():
            yield self._low_size(step)

    def make_compact(self) -> FirstStep | None:
        """Return the first step of the same episode with a compact prompt. None if the task has no
        compact prompt.
        """
        compact = self._factory.make_compact(self.spec.task)
        if compact is None:
            return None
        return FirstStep(replace(self.spec, task=f"{self.spec.task}{COMPACT}"), lambda: compact)

    @property
    def _factory(self) -> EpisodeFactory:
        return self._make_factory()

    def _open(self, model: MeasuringModel) -> Episode:
        episode = self._factory.open(self.spec, model, scene=self._scene)
        self._total_steps = episode.total_steps
        if isinstance(episode, TradingEpisodeRun):
            self._scene = episode.scene
            self._has_warm_up = episode.has_warm_up
        return episode

    @property
    def _learns(self) -> bool:
        """Return whether the episode may begin with a warm-up."""
        return self.total_steps > 0 and self._has_warm_up

    def _play_step(self, has_lessons: bool) -> ShownStep:
        # models are checked against the request that asks them to submit
        model = MeasuringModel(replace(LOW, submits_early=False), 0)
        episode = self._open(model)
        if isinstance(episode, TradingEpisodeRun):
            episode.has_warm_up = episode.has_warm_up and has_lessons

        began = time.perf_counter()
        entry = episode.run_step(0)
        return ShownStep(model.asked, size_of(model, entry, time.perf_counter() - began))

    def _low_size(self, step: int) -> StepSize:
        if step not in self._low:
            (self._low[step],) = self._measure_steps(LOW, [step])
        return self._low[step]

    def _measure_steps(self, behaviour: AssumedBehaviour, steps: Sequence[int]) -> list[StepSize]:
        return measure_steps(self.spec, self.task, self._factory, behaviour, steps, self._scene)


def rehearse(
    specs: Iterable[EpisodeSpec], make_factory: Callable[[], EpisodeFactory]
) -> Sequence[FirstStep]:
    """Return the first steps of these episodes. The factory is created once, on first use."""
    factory = cache(make_factory)
    tasks = set[str]()
    steps = []
    for spec in specs:
        steps.append(FirstStep(spec, factory, is_reference=spec.task not in tasks))
        tasks.add(spec.task)

    return tuple(steps)


def by_task(rehearsal: Sequence[FirstStep]) -> dict[str, list[FirstStep]]:
    """Return the first steps of each task, keyed by task name and sorted by it."""
    tasks: dict[str, list[FirstStep]] = {}
    for first in rehearsal:
        tasks.setdefault(first.spec.task, []).append(first)

    return dict(sorted(tasks.items()))


def by_window(rehearsal: Sequence[FirstStep]) -> dict[Window | None, FirstStep]:
    """Return the first step of the first episode in each window, in plan order."""
    windows: dict[Window | None, FirstStep] = {}
    for first in rehearsal:
        windows.setdefault(first.spec.window, first)

    return windows
