"""Warm-ups of a run's windows: the calls that they take an agent that learns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktdeval.runner.plans.warm_up_notes import first_day_of_warm_up
from ktdeval.runner.rehearsals.conversation_size import (
    ASSUMED,
    NOTHING,
    CallLimits,
    StepRate,
    assumed_rates,
)
from ktdeval.runner.rehearsals.rehearsal import FirstStep, by_window
from ktdeval.task_api.episode_spec import Window
from ktdeval.task_api.trading_task import Task
from ktdeval.task_api.traits import task_traits

WarmUpRates = Mapping[Window | None, Mapping[str, StepRate]]
"""By window and scenario, what comes before the first step of an episode; None: an episode that has
begun, or one without a market.
"""


def warm_up_rates(rehearsal: Sequence[FirstStep], limits: CallLimits | None) -> WarmUpRates:
    """Return what the warm-ups of a task's episodes take, in all scenarios the same questions."""
    task: Task = rehearsal[0].task
    none = dict.fromkeys(ASSUMED, NOTHING)
    rates: dict[Window | None, Mapping[str, StepRate]] = {None: none}
    says_when = task_traits(task).warm_up_from is not None
    for window, first in by_window(rehearsal).items():
        if window is None:
            continue

        if says_when and first_day_of_warm_up(task, window) is None:
            rates[window] = none
        else:
            rates[window] = assumed_rates(dict.fromkeys(ASSUMED, first.warm_up), limits)

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
                f"{task.name}: window {window.name} has a warm-up{since}, in which agent"
                f" {agent} makes no requests"
            )
