"""A plan's figures: low, typical and high are in this order for every task, agent, window and density
of news, and what a run then counts lies between low and high.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.cli.main import main
from ktdeval.market.snapshots.documents import NO_DOCUMENTS
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig
from ktdeval.runner.episodes.episode_execution import EpisodeFactory
from ktdeval.runner.estimate import SCENARIOS, estimate_run
from ktdeval.runner.estimate_values import RunEstimate
from ktdeval.runner.execution.run import evaluate
from ktdeval.runner.rehearsals.conversation_size import CallLimits
from ktdeval.runner.rehearsals.estimate_sampling import SampledDays, spread_over
from ktdeval.runner.rehearsals.rehearsal import rehearse
from ktdeval.runner.rehearsals.step_costs import measure_task
from ktdeval.testing import not_empty
from support.providers import counting_plugin
from support.tasks.planned_tasks import PLUGINS, TASKS, planned

AGENTS = ("react", "investor", "finmem")
WINDOWS = ("2020-10-01:2020-10-30", "2021-02-01:2021-02-26")
SYNTHETIC = "synthetic_investorbench"
RATES = ("calls", "input_tokens", "output_tokens", "own_s")
AMOUNTS = ("calls", "input_tokens", "output_tokens", "hours")
LIMITS = CallLimits(4096, 120.0)


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins([str(Path(counting_plugin.__file__))])


def config(**changes: Any) -> RunConfig:
    given: dict[str, Any] = {
        "model": "counted/3",
        "tasks": ("investorbench_msft",),
        "data": SYNTHETIC,
        "tool_protocol": "native",
        "canary": 0,
        "cache": "run",
    }
    return RunConfig(**given | changes)


def assert_ordered(by_scenario: Mapping[str, Any], figures: Sequence[str]) -> None:
    """Each figure of low, typical and high is in this order."""
    for figure in not_empty(figures):
        values = [getattr(by_scenario[name], figure) for name in SCENARIOS]
        assert values == sorted(values), figure


# ---- order


def check_order(task: str, agent: str) -> None:
    plan = planned(task, agent)
    measured = measure_task(rehearse(plan.specs, lambda: plan.factory), LIMITS)
    for rates in not_empty(measured.rates.values()):
        assert_ordered(rates, RATES)

    assert list(measured.largest.values()) == sorted(measured.largest.values())


@pytest.mark.parametrize("agent", AGENTS)
def test_low_typical_and_high_are_in_this_order_with_news(agent: str) -> None:
    check_order("investorbench_aapl", agent)


@pytest.mark.exhaustive
@pytest.mark.parametrize("task", TASKS)
def test_low_typical_and_high_are_in_this_order_in_every_task(task: str) -> None:
    check_order(task, "react")


@pytest.mark.exhaustive
@pytest.mark.parametrize("agent", ["by_asset", "deepfund", "finmem", "hedge_fund", "trade", "vote"])
@pytest.mark.parametrize("task", ["market_news_blinded", "deepfund_bank", "investorbench_aapl"])
def test_low_typical_and_high_are_in_this_order_with_every_agent(task: str, agent: str) -> None:
    check_order(task, agent)


@pytest.mark.exhaustive
@settings(max_examples=12, deadline=None)
@given(
    agent=st.sampled_from(AGENTS),
    first=st.integers(1, 9),
    density=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_they_are_in_this_order_at_any_density_of_news(
    agent: str, first: int, density: float, seed: int
) -> None:
    """News on few days, on many, or on none, in two windows of another density each."""
    plan = planned("investorbench_aapl", agent)

    assert plan.market is not None

    draw = random.Random(seed)
    kept = [item for item in plan.market.documents if draw.random() < density]
    market = replace(plan.market, documents=NO_DOCUMENTS.with_items(kept))
    factory = EpisodeFactory({plan.task.name: plan.task}, PLUGINS, market)
    windows = (f"2020-10-0{first}", "2020-11-30"), ("2021-01-04", f"2021-02-1{first}")
    specs = [
        replace(plan.specs[0], limit=None, window=replace(plan.specs[0].span, first=a, last=b))
        for a, b in windows
    ]

    for rates in measure_task(rehearse(specs, lambda: factory), LIMITS).rates.values():
        assert_ordered(rates, RATES)


# ---- the days that are measured


def test_measured_days_are_spread_from_the_first_to_the_last() -> None:
    assert spread_over(range(1, 11), 4) == [1, 4, 7, 10]
    assert spread_over([5, 7], 6) == [5, 7]


def test_the_mean_follows_what_all_days_show() -> None:
    """Tokens are 100 and a tenth of what is shown; the days measured show 500 bytes on average, all
    days 200.
    """
    days = SampledDays(steps=(1, 5, 9), shown=(0, 500, 1000), mean_shown=200.0, is_whole=False)
    estimated = days.over_all([100.0, 150.0, 200.0])

    assert (estimated.mean, estimated.error) == pytest.approx((120.0, 0.0))


def test_what_the_days_do_not_explain_widens_the_bounds() -> None:
    """Residuals of 10, -20, 10 around the line: variance 600 with one degree of freedom, so the
    error of the mean of three is the root of 200.
    """
    days = SampledDays(steps=(1, 5, 9), shown=(0, 500, 1000), mean_shown=500.0, is_whole=False)
    estimated = days.over_all([110.0, 130.0, 210.0])

    assert estimated.mean == pytest.approx(150.0)
    assert estimated.error == pytest.approx(200.0**0.5)
    assert (estimated.least, estimated.most) == pytest.approx(
        (150.0 - 2 * 200.0**0.5, 150.0 + 2 * 200.0**0.5)
    )
    assert replace(days, is_whole=True).over_all([110.0, 130.0, 210.0]).error == 0.0


@pytest.mark.exhaustive
def test_a_window_with_dense_news_takes_more_than_one_without(plugins: Plugins) -> None:
    """Each window is measured on days of its own."""
    early = "2020-10-01:2020-10-02"
    late = "2021-04-01:2021-05-05"
    alone = [estimate_run(config(windows=(window,)), plugins) for window in (early, late)]
    both = estimate_run(config(windows=(early, late)), plugins)

    for name in SCENARIOS:
        parts = [plan.left[name].input_tokens for plan in alone]
        assert both.left[name].input_tokens == pytest.approx(sum(parts), rel=0.25)
        assert both.left[name].calls == sum(plan.left[name].calls for plan in alone)


# ---- a run counts what its plan says


def counted(plan: RunConfig, plugins: Plugins) -> tuple[RunEstimate, int]:
    """The plan of a run, and the tokens of its prompts as its provider counted them."""
    estimate = estimate_run(plan, plugins)
    evaluate(plan, plugins)
    finished = estimate_run(plan, plugins).tasks
    left = chain.from_iterable(task.left.values() for task in finished)

    assert {amount.calls for amount in left} == {0}

    return estimate, sum(task.finished.input_tokens for task in finished)


def check_count(plan: RunConfig, plugins: Plugins) -> None:
    estimate, tokens = counted(plan, plugins)
    assert_ordered(estimate.left, AMOUNTS)
    assert estimate.left["low"].input_tokens <= tokens <= estimate.left["high"].input_tokens
    assert tokens == pytest.approx(estimate.left["typical"].input_tokens, rel=0.35)


@pytest.mark.exhaustive
@pytest.mark.parametrize("digits", [1, 3])
@pytest.mark.parametrize("agent", AGENTS)
def test_the_count_of_a_run_with_generated_news_lies_within_its_plan(
    agent: str, digits: int, plugins: Plugins, tmp_path: Path
) -> None:
    plan = config(
        model=f"counted/{digits}",
        windows=(WINDOWS[0],),
        agent=agent,
        limit=8,
        out=str(tmp_path / "run"),
    )
    check_count(plan, plugins)


@pytest.fixture(scope="module")
def real_news(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Market of InvestorBench's own files."""
    folder = tmp_path_factory.mktemp("news") / "market"
    source = shared_data / "investorbench"
    words = ["data", "make", "investorbench", "--folder", str(source), "--out", str(folder)]

    assert main(words) == 0

    return folder


@pytest.mark.shared_data
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("agent", AGENTS)
def test_the_count_of_a_run_with_real_news_lies_within_its_plan(
    agent: str, window: str, real_news: Path, plugins: Plugins, tmp_path: Path
) -> None:
    plan = config(
        tasks=("investorbench_jnj",),
        windows=(window,),
        data=str(real_news),
        agent=agent,
        out=str(tmp_path / "run"),
    )
    check_count(plan, plugins)
