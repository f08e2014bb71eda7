"""Estimate of a grid: sums by model, shares of pruned and finished episodes, and how it is printed."""

from __future__ import annotations

import pytest

from ktdeval.registry.plugin_registry import load_plugins
from ktdeval_grid.estimate import _added, estimate_grid
from ktdeval_grid.estimate_types import SCENARIOS, Amount, GridEstimate, ModelEstimate
from ktdeval_grid.plan import plan_of
from ktdeval_grid.printed_status import estimate_lines


def amount(calls: int, cost_usd: float | None, hours: float = 1.0) -> Amount:
    return Amount(calls=calls, input_tokens=1000, output_tokens=10, cost_usd=cost_usd, hours=hours)


def model(name: str, cost_usd: float | None) -> ModelEstimate:
    left = {scenario: amount(4, cost_usd) for scenario in SCENARIOS}
    return ModelEstimate(name=name, episodes=2, is_free=False, left=left)


def estimate_of(*models: ModelEstimate) -> GridEstimate:
    return GridEstimate(
        models=models, total=models[0], concurrency=8, pruned=3, assumptions=(), warnings=("slow",)
    )


def test_amounts_are_summed_and_hours_are_shared_by_episodes_at_once() -> None:
    total = _added([amount(4, 0.25, 3.0), amount(6, 0.5, 5.0)], 4)
    assert (total.calls, total.input_tokens, total.output_tokens) == (10, 2000, 20)
    assert (total.cost_usd, total.hours) == (0.75, 2.0)


def test_a_sum_with_an_unknown_cost_is_unknown() -> None:
    assert _added([amount(4, 0.25), amount(6, None)], 1).cost_usd is None


def test_what_is_not_known_is_printed_as_such() -> None:
    lines = estimate_lines(estimate_of(model("a", 0.5), model("b", None)))
    assert any(line.split()[:2] == ["a", "2"] and "0.5000 / 0.5000" in line for line in lines)
    assert any(line.split()[0] == "b" and " ? " in line for line in lines)
    assert "no price is known for b; give `price` of the model, or --price-table" in lines
    assert "3 episodes pruned" in lines
    assert lines[-1] == "warning: slow"


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


@pytest.mark.parametrize(("episodes", "asks"), [(2, True), (0, False)])
def test_money_is_asked_about_only_where_episodes_are_left(episodes: int, asks: bool) -> None:
    left = {scenario: amount(0, None) for scenario in SCENARIOS}
    one = ModelEstimate(name="a", episodes=episodes, is_free=False, left=left)
    assert estimate_of(one).costs_money is asks
