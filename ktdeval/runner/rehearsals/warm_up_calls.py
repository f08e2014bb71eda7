"""Calls that a learning agent makes during the warm-ups of a run's windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktdeval.harness.chat_messages import ModelRequest
from ktdeval.runner.plans.warm_up_notes import first_day_of_warm_up
from ktdeval.runner.rehearsals.cached_tokens import cached_tokens, share_of, with_cached
from ktdeval.runner.rehearsals.conversation_size import (
    ASSUMED,
    NOTHING,
    CallLimits,
    StepRate,
)
from ktdeval.runner.rehearsals.rehearsal import FirstStep, by_window
from ktdeval.task_api.episode_spec import Window
from ktdeval.task_api.trading_task import Task
from ktdeval.task_api.traits import task_traits

WarmUpRates = Mapping[Window | None, Mapping[str, StepRate]]
"""Costs before the first step of an episode, by window and scenario."""


def warm_up_rates(rehearsal: Sequence[FirstStep], limits: CallLimits | None) -> WarmUpRates:
    """Return the costs of warm-ups in a task's episodes, by window and scenario. The questions are
    the same in all scenarios.
    """
    task: Task = rehearsal[0].task
    says_when = task_traits(task).warm_up_from is not None
    rates: dict[Window | None, Mapping[str, StepRate]] = {}
    for window, first in by_window(rehearsal).items():
        is_asked = window is not None
        if window is not None and says_when:
            is_asked = first_day_of_warm_up(task, window) is not None

        rates[window] = dict.fromkeys(ASSUMED, NOTHING)
        if is_asked:
            size = first.warm_up
            asked: Sequence[ModelRequest] = ()
            if size.requests:
                asked = first.play_shown(with_lessons=True).requests[: size.requests]

            own = {}
            for name, scenario in ASSUMED.items():
                share = share_of(cached_tokens([asked], scenario, limits))
                own[name] = with_cached(scenario.rate_of(size, limits), share)

            rates[window] = own

    return rates


def warm_up_lines(task: Task, rates: WarmUpRates, agent: str) -> Iterator[str]:
    """Yield a note about the costs of each window's warm-up. Windows without a warm-up are reported
    by `missing_warm_ups` instead.
    """
    for window, by_scenario in rates.items():
        if window is None:
            continue

        questions = round(by_scenario["low"].calls)
        first_day = first_day_of_warm_up(task, window)
        since = "" if first_day is None else f" from {first_day}"
        if questions:
            yield (
                f"{task.name}: {questions} warm-up questions{since} precede the first step of an"
                f" episode in window {window.name}"
            )
        elif first_day is not None:
            yield (
                f"{task.name}: window {window.name} has a warm-up{since}, in which agent"
                f" {agent} makes no requests"
            )
