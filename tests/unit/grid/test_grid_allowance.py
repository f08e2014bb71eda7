"""Budget that workers share: each draws before it spends, and together they never exceed it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.calls import Amount
from ktdeval.calls.budget import Budget
from ktdeval.calls.prices import Price
from ktdeval.calls.record import Spent
from ktdeval.calls.stop import StopSignal
from ktdeval.errors import BudgetError
from ktdeval.harness.messages import CallParams, Message, ModelRequest, Usage
from ktdeval.stores import ClaimBoard
from ktdeval_grid.allowance import GridAllowance, grid_allowance
from ktdeval_grid.layout import open_place
from ktdeval_grid.plan import GridPlan, PlannedModel

PRICE = Price(input=2.0, output=10.0, cache_read=0.5, cache_write=2.5)
ASKED = ModelRequest((Message("user", "What to buy?"),), params=CallParams(max_output_tokens=1000))


def allowance_of(folder: Path, worker: str, **limits: float) -> GridAllowance:
    plan = GridPlan(models=(PlannedModel(name="builtin/hold"),), tasks=("any",), **limits)
    place = open_place(folder)
    board = ClaimBoard(place.store, "", worker, 60.0)
    board.beats.beat()
    allowance = grid_allowance(plan, place, board.beats)
    assert allowance is not None
    return allowance


def shared_budget(allowance: GridAllowance, limit_usd: float) -> Budget:
    budget = Budget((limit_usd, None), PRICE, Spent(), StopSignal())
    budget.share(allowance)
    return budget


def test_a_plan_without_limits_has_no_budget(tmp_path: Path) -> None:
    plan = GridPlan(models=(PlannedModel(name="builtin/hold"),), tasks=("any",))
    place = open_place(tmp_path)
    assert grid_allowance(plan, place, ClaimBoard(place.store, "", "w", 60.0).beats) is None


def test_what_one_worker_has_drawn_the_other_can_not_draw_until_it_is_given_back(
    tmp_path: Path,
) -> None:
    one = allowance_of(tmp_path, "one", max_cost=1.0)
    other = allowance_of(tmp_path, "other", max_cost=1.0)
    assert one.draw(Amount(0.7, 500)) is not None
    assert other.draw(Amount(0.4, 0)) is None
    one.give_back(Amount(0.2, 0))
    drawn = other.draw(Amount(0.4, 0))
    assert drawn is not None
    assert drawn.usd == pytest.approx(0.4)


def test_a_limit_of_tokens_holds_beside_one_of_dollars_and_a_refused_draw_takes_nothing(
    tmp_path: Path,
) -> None:
    allowance = allowance_of(tmp_path, "one", max_cost=1.0, max_tokens=1000)
    assert allowance.draw(Amount(0.1, 2000)) is None
    assert allowance.needed(Amount(0.1, 2000)) == {"max_tokens": 2000}
    drawn = allowance.draw(Amount(1.0, 1000))
    assert drawn == Amount(1.0, 1000)


def test_budgets_of_two_workers_spend_the_limit_and_not_more(tmp_path: Path) -> None:
    limit_usd = 0.5
    budgets = []
    for name in ("one", "other"):
        allowance = allowance_of(tmp_path, name, max_cost=limit_usd)
        budgets.append(shared_budget(allowance, limit_usd))

    spent = 0.0
    refused = 0
    while refused < len(budgets):
        refused = 0
        for budget in budgets:
            try:
                reservation = budget.reserve(ASKED)
            except BudgetError:
                refused += 1
            else:
                spent += budget.settle(reservation, Usage(20, 1000)) or 0.0

    assert limit_usd * 0.9 < spent <= limit_usd
    with pytest.raises(BudgetError, match="workers share") as stopped:
        budgets[0].reserve(ASKED)

    assert limit_usd < stopped.value.needed["max_cost"] < limit_usd + 0.1


def test_what_a_budget_has_drawn_and_not_used_is_known(tmp_path: Path) -> None:
    budget = shared_budget(allowance_of(tmp_path, "one", max_cost=10.0), 10.0)
    reservation = budget.reserve(ASKED)
    cost = budget.settle(reservation, Usage(20, 500))
    assert cost is not None
    assert budget.drawn_and_unused.usd == pytest.approx(0.1 - cost)  # a hundredth was drawn
