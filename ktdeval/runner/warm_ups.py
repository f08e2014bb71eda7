"""Warm-ups of a run's windows: the calls that they take an agent that learns."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from ktdeval.runner.episode import TradingEpisode
from ktdeval.runner.execute import EpisodeFactory
from ktdeval.runner.measure import (
    ASSUMED,
    LOW,
    NOTHING,
    NOTHING_SENT,
    CallLimits,
    MeasuringModel,
    StepRate,
    StepSize,
    assumed_rates,
    size_of,
)
from ktdeval.runner.window_notes import first_day_of_warm_up
from ktdeval.tasks.spec import EpisodeSpec, Window
from ktdeval.tasks.task import Task
from ktdeval.tasks.traits import task_traits

WarmUpRates = Mapping[Window | None, Mapping[str, StepRate]]
"""By window and scenario, what comes before the first step of an episode; None: an episode that has
begun, or one without a market.
"""


def measure_warm_up(spec: EpisodeSpec, factory: EpisodeFactory) -> StepSize:
    """Size of what comes before the first step of an episode: the lessons of its task, if its
    window has some and its agent learns.
    """
    with_lessons = _first_step(spec, factory, with_lessons=True)
    without = _first_step(spec, factory, with_lessons=False)
    return StepSize(
        with_lessons.requests - without.requests,
        with_lessons.sent.without(without.sent),
        max(0.0, with_lessons.seconds - without.seconds),
        0,
        with_lessons.largest,
    )


def _first_step(spec: EpisodeSpec, factory: EpisodeFactory, *, with_lessons: bool) -> StepSize:
    """Size of an episode's first step, without research; zero of a task that has no warm-up."""
    model = MeasuringModel(LOW, 0)
    episode = factory.open(spec, model)
    if not isinstance(episode, TradingEpisode) or not episode.has_warm_up:
        return StepSize(0, NOTHING_SENT, 0.0, 0)

    episode.has_warm_up = with_lessons
    began = time.perf_counter()
    return size_of(model, episode.run_step(0), time.perf_counter() - began)


def warm_up_rates(
    task: Task, specs: Sequence[EpisodeSpec], factory: EpisodeFactory, limits: CallLimits | None
) -> WarmUpRates:
    """Return what the warm-ups of a task's episodes take, in all scenarios the same questions."""
    none = dict.fromkeys(ASSUMED, NOTHING)
    rates: dict[Window | None, Mapping[str, StepRate]] = {None: none}
    says_when = task_traits(task).warm_up_from is not None
    for spec in specs:
        if spec.window is None or spec.window in rates:
            continue

        if says_when and first_day_of_warm_up(task, spec.window) is None:
            rates[spec.window] = none
        else:
            size = measure_warm_up(spec, factory)
            rates[spec.window] = assumed_rates(dict.fromkeys(ASSUMED, size), limits)

    return rates


def warm_up_lines(task: Task, rates: WarmUpRates, agent: str) -> Iterator[str]:
    """Say of each window what its warm-up takes; `missing_warm_ups` names those without one."""
    for window, by_scenario in rates.items():
        if window is None:
            continue

        questions = round(by_scenario["low"].calls)
        first_day = first_day_of_warm_up(task, window)
        since = "" if first_day is None else f" from {first_day}"
        if questions:
            yield (
                f"{task.name}: {questions} questions of a warm-up{since} come before the first step"
                f" of an episode in window {window.name}"
            )
        elif first_day is not None:
            yield (
                f"{task.name}: window {window.name} has a warm-up{since}, of which agent {agent}"
                " asks nothing"
            )
