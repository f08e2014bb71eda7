"""Estimate of a grid: sums by model, shares of pruned and finished episodes, and how it is printed."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from ktdeval.calls.records.record import Spent
from ktdeval.registry import load_plugins
from ktdeval.runner import Amount as RunAmount, RunEstimate, TaskEstimate
from ktdeval.runner.estimate_values import Finished
from ktdeval.testing import text_of
from ktdeval_grid.planning.estimate import _add_amounts, _total, estimate_grid
from ktdeval_grid.planning.estimate_types import SCENARIOS, Amount, GridEstimate, ModelEstimate
from ktdeval_grid.planning.plan import GridPlan, plan_of
from ktdeval_grid.planning.pruning_rules import PlannedCell
from ktdeval_grid.state.printed_status import estimate_lines


def amount(calls: int, cost_usd: float | None, hours: float = 1.0) -> Amount:
    return Amount(calls=calls, input_tokens=1000, output_tokens=10, cost_usd=cost_usd, hours=hours)


def test_amounts_are_summed_and_hours_are_shared_by_episodes_at_once() -> None:
    total = _add_amounts([amount(4, 0.25, 3.0), amount(6, 0.5, 5.0)], 4)
    assert (total.calls, total.input_tokens, total.output_tokens) == (10, 2000, 20)
    assert (total.cost_usd, total.hours) == (0.75, 2.0)


def test_a_sum_with_an_unknown_cost_is_unknown() -> None:
    assert _add_amounts([amount(4, 0.25), amount(6, None)], 1).cost_usd is None


def test_costs_without_and_with_a_prompt_cache_are_columns_of_the_table() -> None:
    cached = Amount(
        calls=4, input_tokens=9, output_tokens=1, cost_usd=0.5, hours=1.0, cached_cost_usd=0.25
    )
    one = ModelEstimate(name="a", episodes=2, is_free=False, left=dict.fromkeys(SCENARIOS, cached))
    estimate = GridEstimate(
        models=(one,), total=one, concurrency=8, pruned=3, assumptions=(), warnings=("slow",)
    )
    assert text_of(estimate_lines(estimate)) == snapshot("""\
estimate, low / typical / high, 8 at once:
  MODEL  episodes      calls        tokens             USD, no cache               USD, cached            hours
  a             2  4 / 4 / 4  10 / 10 / 10  0.5000 / 0.5000 / 0.5000  0.2500 / 0.2500 / 0.2500  1.0 / 1.0 / 1.0
3 episodes pruned
warning: slow
""")
    assert _add_amounts([cached, cached], 1).cached_cost_usd == 0.5


def test_models_of_this_machine_ask_nobody_and_need_no_market() -> None:
    plan = plan_of(
        {
            "models": "builtin/random",
            "tasks": "ktdfin",
            "windows": "W1,W2",
            "seeds": 3,
            "prune": ["informative"],
        },
        "p",
    )
    found = estimate_grid(plan, load_plugins(), lambda _system, cell: cell.seed == 0, 1)

    assert found.total.episodes == 6 * 2 * 2  # of twelve tasks six are kept, and a seed is done
    assert found.pruned == 6 * 2 * 3
    assert found.total.is_free
    assert not found.costs_money
    assert estimate_lines(found)[0] == "builtin-random: 24 episodes, no provider is asked"


def paid_plan(**changes: Any) -> GridPlan:
    fields = {
        "models": [
            {
                "name": "openai_compatible/mine",
                "base_url": "http://localhost:1/v1",
                "price": {"input": 2, "output": 8},
                "label": "mine",
            }
        ],
        "tasks": "blinded_open_research",
        "windows": "W1",
        "options": {"limit": 2, "cache": "run"},
    }
    return plan_of({**fields, **changes}, "p")


def run_estimate(**tasks: int) -> RunEstimate:
    """An estimate of a run: of each task four episodes, each of so many calls low, twice as many
    typical, three times high; a call takes 100 tokens and 0.25 USD.
    """
    made = []

    for name, calls_each in tasks.items():
        left = {}
        for number, scenario in enumerate(SCENARIOS, start=1):
            calls = 4 * calls_each * number
            left[scenario] = RunAmount(calls, 100 * calls, 10 * calls, 0.25 * calls, 3.0 * calls)

        made.append(
            TaskEstimate(
                name=name,
                episodes=4,
                steps=4,
                finished=Finished(0, 0, 0, 0, 0, 0, 0, 0.0),
                left=left,
                largest_prompt=None,
                is_observed=False,
            )
        )

    return RunEstimate(
        model="openai_compatible/mine",
        protocol="native",
        context=None,
        max_output_tokens=1000,
        price=None,
        folder="run",
        concurrency=1,
        tasks=tuple(made),
        left={},
        paid=Spent(0.0, 0.0),
        assumptions=("prices of today",),
        warnings=("slow",),
    )


def test_what_is_left_of_a_task_is_its_share_of_the_estimate_of_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bright = "bright_open_research"
    blinded = "blinded_open_research"
    run = run_estimate(**{blinded: 1, bright: 3})
    # a rehearsal takes seconds; its figures are tested beside it
    monkeypatch.setattr(
        "ktdeval_grid.planning.estimate.estimate_run", lambda _config, _plugins: run
    )

    def is_done(_system: object, cell: PlannedCell) -> bool:
        return cell.task == bright and cell.seed > 1  # one of its four is left

    found = estimate_grid(
        paid_plan(tasks=[blinded, bright], seeds=4, seed=1), load_plugins(), is_done, 2
    )

    assert (found.total.episodes, found.concurrency, found.pruned) == (5, 2, 0)
    assert (found.total.is_free, found.costs_money) == (False, True)

    for number, scenario in enumerate(SCENARIOS, start=1):
        calls = (4 * 1 + 1 * 3) * number
        left = found.total.left[scenario]
        assert (left.calls, left.input_tokens, left.output_tokens) == (
            calls,
            100 * calls,
            10 * calls,
        )
        assert (left.cost_usd, left.hours) == (0.25 * calls, 3.0 * calls / 2)

    assert found.assumptions == ("prices of today",)
    assert found.warnings == ("mine_react: slow",)


def test_a_model_whose_episodes_are_done_is_not_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktdeval_grid.planning.estimate.estimate_run", None)

    found = estimate_grid(paid_plan(), load_plugins(), lambda _system, _cell: True, 1)

    assert (found.total.episodes, found.costs_money, found.assumptions) == (0, False, ())
    assert {each.calls for each in found.total.left.values()} == {0}


def test_hours_of_the_total_are_the_sum_of_those_of_the_models() -> None:
    left = {scenario: amount(4, 0.5, 3.0) for scenario in SCENARIOS}
    models = [
        ModelEstimate(name=name, episodes=2, is_free=free, left=left)
        for name, free in (("a", False), ("b", True))
    ]

    total = _total(models)

    assert (total.name, total.episodes, total.is_free) == ("total", 4, False)
    assert {each.hours for each in total.left.values()} == {6.0}
    assert {each.calls for each in total.left.values()} == {8}
    assert {each.cost_usd for each in total.left.values()} == {1.0}
    assert _total(models[1:]).is_free
    # those that ask in batches wait beside all others
    models[1] = structs.replace(models[1], is_batched=True)
    assert {each.hours for each in _total(models).left.values()} == {3.0}
