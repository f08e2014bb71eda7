"""The rehearsal of a run: what its first steps show, found out once for all who ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ktdeval.calls.failures.context_refusals import Context
from ktdeval.harness.chat_messages import Model
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.runner.episodes.episode_execution import Episode, EpisodeFactory
from ktdeval.runner.rehearsals.context_check import check_context
from ktdeval.runner.rehearsals.conversation_size import CallLimits
from ktdeval.runner.rehearsals.rehearsal import FirstStep, rehearse
from ktdeval.runner.rehearsals.step_costs import measure_task
from ktdeval.runner.rehearsals.warm_up_calls import warm_up_rates
from ktdeval.task_api import EpisodeSpec
from support.tasks.planned_tasks import PLUGINS, planned

TASK = "bright_open_research"
LESSONS = "investorbench_aapl"  # its windows have a warm-up, of which finmem asks
LIMITS = CallLimits(1024, 60.0)


class CountingFactory(EpisodeFactory):
    """Factory that counts the starts of each episode."""

    def __init__(self, task: Any, market: MarketSnapshot | None) -> None:
        super().__init__({task.name: task}, PLUGINS, market)
        self.starts: list[EpisodeSpec] = []
        self.opened: list[EpisodeSpec] = []  # starts that open the market of the episode

    def open(self, spec: EpisodeSpec, model: Model, *others: Any, scene: Any = None) -> Episode:
        self.starts.append(spec)
        if scene is None:
            self.opened.append(spec)

        return super().open(spec, model, *others, scene=scene)


def rehearsed(
    task: str = TASK, agent: str = "react", seeds: int = 1
) -> tuple[CountingFactory, tuple[FirstStep, ...]]:
    plan = planned(task, agent)
    factory = CountingFactory(plan.task, plan.market)
    specs = [replace(plan.specs[0], seed=seed) for seed in range(seeds)]
    return factory, tuple(rehearse(specs, lambda: factory))


def test_each_window_of_a_task_is_opened_once_with_the_same_measurements() -> None:
    plan = planned(TASK)
    first = replace(plan.specs[0], limit=None)
    late = replace(first, window=replace(first.span, first="2024-05-13", last="2024-05-31"))
    factory = CountingFactory(plan.task, plan.market)
    rates = measure_task(rehearse([first, late], lambda: factory), LIMITS).rates

    assert [spec.span for spec in factory.opened] == [first.span, late.span]
    assert len(factory.starts) > len(factory.opened)

    for spec in (first, late):
        (alone,) = measure_task(rehearse([spec], lambda: factory), LIMITS).rates.values()
        for scenario, rate in alone.items():
            shared = rates[spec.window][scenario]
            assert shared.calls == rate.calls
            assert shared.input_tokens == pytest.approx(rate.input_tokens, rel=0.01)


def test_the_plan_of_further_seeds_starts_each_of_their_episodes_once() -> None:
    factory, rehearsal = rehearsed(seeds=4)
    measure_task(rehearsal, LIMITS)
    warm_up_rates(rehearsal, LIMITS)

    assert [first.total_steps for first in rehearsal] == [3, 3, 3, 3]
    assert [spec.seed for spec in factory.starts].count(3) == 1


def test_a_measured_step_is_not_measured_again_by_the_check_of_the_context() -> None:
    factory, rehearsal = rehearsed()
    measured = measure_task(rehearsal, LIMITS)
    starts = len(factory.starts)
    check_context(Context(measured.largest["low"] + 1, "given", holds_reply=False), rehearsal, 0)

    assert len(factory.starts) == starts


@pytest.mark.exhaustive
def test_lessons_are_what_the_first_step_has_more_with_them() -> None:
    factory, (first,) = rehearsed(LESSONS, "finmem")
    with_lessons = first.play_shown(with_lessons=True)
    without = first.play_shown(with_lessons=False)
    lessons = len(with_lessons.requests) - len(without.requests)

    assert lessons > 0
    assert first.warm_up.requests == lessons
    assert first.warm_up.sent.total == with_lessons.size.sent.total - without.size.sent.total
    # one start to learn that there are lessons, and one for each way to play it
    assert len(factory.starts) <= 3


@pytest.mark.parametrize(("task", "agent"), [(TASK, "react"), ("deanon_probe", "react")])
def test_an_episode_without_lessons_has_one_first_step(task: str, agent: str) -> None:
    factory, (first,) = rehearsed(task, agent)
    assert first.play_shown(with_lessons=True) is first.play_shown(with_lessons=False)
    assert first.warm_up.requests == 0
    assert len(factory.starts) <= 2
