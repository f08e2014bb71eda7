"""Budget that workers share: each draws before it spends, and together they never exceed it."""

from __future__ import annotations

import math
from itertools import count
from pathlib import Path

import pytest

from ktdeval.calls import BudgetAmount
from ktdeval.calls.budget import Budget, Reservation, max_request_tokens
from ktdeval.calls.costs.prices import Price
from ktdeval.calls.records.record import Spent
from ktdeval.calls.stop_flag import StopSignal
from ktdeval.errors import BudgetError
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, Usage
from ktdeval_grid.coordination.claims import ClaimBoard
from ktdeval_grid.coordination.shared_sums import SharedSum
from ktdeval_grid.planning.plan import GridPlan, PlannedModel
from ktdeval_grid.state.layout import open_place
from ktdeval_grid.workers.shared_budget import GridAllowance, grid_allowance
from support.threads import Waiter, in_threads

PRICE = Price(input=2.0, output=10.0, cache_read=0.5, cache_write=2.5)
LEASE_S = 60.0
ASKED = ModelRequest((Message("user", "What to buy?"),), params=CallParams(max_output_tokens=1000))


class Clock:
    """Seconds of all workers of a test."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


clock = Clock()


def allowance_of(folder: Path, worker: str, **limits: float) -> GridAllowance:
    plan = GridPlan(models=(PlannedModel(name="builtin/hold"),), tasks=("any",), **limits)
    place = open_place(folder)
    board = ClaimBoard(place.store, "", worker, LEASE_S, clock)
    board.beats.beat()
    allowance = grid_allowance(plan, place, board.beats)

    assert allowance is not None

    allowance.clock = clock

    return allowance


def after_a_moment(allowance: GridAllowance) -> GridAllowance:
    """The allowance when it asks the store again."""
    clock.now_s += 0.5
    return allowance


def drawn_usd(folder: Path) -> float:
    """US dollars that count as used for others."""
    place = open_place(folder)
    beats = ClaimBoard(place.store, "", "observer", LEASE_S).beats
    return SharedSum(place.store, "sums/dollars", None, beats).state().used / 1e6


def shared_budget(allowance: GridAllowance, limit_usd: float) -> Budget:
    budget = Budget((limit_usd, None), PRICE, Spent(), StopSignal())
    budget.share(allowance)
    return budget


def test_what_one_worker_has_drawn_no_other_draws_until_it_comes_back(
    tmp_path: Path,
) -> None:
    one = allowance_of(tmp_path, "one", max_cost=1.0)
    other = allowance_of(tmp_path, "other", max_cost=1.0)

    assert one.draw(BudgetAmount(0.7, 500)) == "drawn"
    assert other.draw(BudgetAmount(0.4, 0)) == "later"  # the call may cost less than it drew

    one.settle(BudgetAmount(0.7, 500), BudgetAmount(0.5, 500))
    one.give_back_all()

    assert after_a_moment(other).draw(BudgetAmount(0.4, 0)) == "drawn"

    other.settle(BudgetAmount(0.4, 0), BudgetAmount(0.4, 0))
    assert one.draw(BudgetAmount(0.2, 0)) == "later"

    other.give_back_all()
    assert after_a_moment(one).draw(BudgetAmount(0.2, 0)) == "never"
    assert one.draw(BudgetAmount(0.1, 0)) == "drawn"


def test_a_limit_of_tokens_holds_beside_one_of_dollars(
    tmp_path: Path,
) -> None:
    allowance = allowance_of(tmp_path, "one", max_cost=1.0, max_tokens=1000)
    assert allowance.draw(BudgetAmount(0.1, 2000)) == "never"
    assert allowance.find_needed(BudgetAmount(0.1, 2000)) == {"max_tokens": 2000}
    assert allowance.draw(BudgetAmount(1.0, 1000)) == "drawn"


def test_what_calls_used_beyond_what_they_drew_counts(tmp_path: Path) -> None:
    one = allowance_of(tmp_path, "one", max_cost=1.0)
    assert one.draw(BudgetAmount(0.1, 0)) == "drawn"

    one.settle(BudgetAmount(0.1, 0), BudgetAmount(0.4, 0))
    one.give_back_all()

    assert one.draw(BudgetAmount(0.7, 0)) == "never"
    assert one.draw(BudgetAmount(0.6, 0)) == "drawn"


def test_nobody_waits_for_a_worker_that_is_dead_or_idle(tmp_path: Path) -> None:
    dead = allowance_of(tmp_path, "dead", max_cost=1.0)
    one = allowance_of(tmp_path, "one", max_cost=1.0)

    assert dead.draw(BudgetAmount(0.7, 0)) == "drawn"
    assert one.draw(BudgetAmount(0.4, 0)) == "later"

    clock.now_s += 2 * LEASE_S
    assert (
        after_a_moment(one).draw(BudgetAmount(0.4, 0)) == "never"
    )  # it may have spent what it drew

    dead.settle(
        BudgetAmount(0.7, 0), BudgetAmount(0.1, 0)
    )  # it was only slow, and has nothing more to ask
    clock.now_s += 1.0
    dead.give_back_idle()

    assert one.draw(BudgetAmount(0.4, 0)) == "drawn"


def test_call_beyond_the_limit_waits_until_another_process_settles(
    tmp_path: Path,
) -> None:
    """Each call reserves 80 % of the limit, and uses 4 %: both are made."""
    limit_usd = PRICE.most(*max_request_tokens(ASKED)) / 0.8
    one, other = (
        shared_budget(allowance_of(tmp_path, name, max_cost=limit_usd), limit_usd)
        for name in ("one", "other")
    )
    first = one.reserve(ASKED)
    waiter = Waiter(lambda waits: other.reserve(ASKED, waits))

    assert waiter.is_waiting

    one.settle(first, Usage(20, 40))
    allowance = one._use.allowance

    assert isinstance(allowance, GridAllowance)

    allowance.give_back_idle()  # as a worker does each moment
    clock.now_s += 1.0

    assert isinstance(waiter.outcome, Reservation)


def test_a_system_of_the_same_worker_waits_likewise(tmp_path: Path) -> None:
    limit_usd = PRICE.most(*max_request_tokens(ASKED)) / 0.8
    allowance = allowance_of(tmp_path, "one", max_cost=limit_usd)
    one = shared_budget(allowance, limit_usd)
    other = shared_budget(allowance, limit_usd)
    first = one.reserve(ASKED)
    waiter = Waiter(lambda waits: other.reserve(ASKED, waits))
    one.settle(first, Usage(20, 40))

    assert isinstance(waiter.outcome, Reservation)


def test_nobody_waits_for_a_worker_whose_last_call_did_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = allowance_of(tmp_path, "one", max_cost=0.5)
    other = allowance_of(tmp_path, "other", max_cost=0.5)
    most = BudgetAmount(0.4, 0)
    assert other.draw(most) == "drawn"

    def given_back() -> bool:
        other.settle(most, BudgetAmount(0.0, 0))
        other.give_back_all()
        return False

    def drawn_before(amount: BudgetAmount) -> bool:
        assert other.draw(most) == "drawn"
        return GridAllowance._take(one, amount)

    # The other gives back when this one looks who has drawn, and draws again before this one does.
    monkeypatch.setattr(one, "_others_have_drawn", given_back)
    monkeypatch.setattr(one, "_take", drawn_before)

    assert one.draw(most) == "never"
    assert not other._others_have_drawn()


def test_budgets_of_two_workers_spend_the_limit_and_not_more(tmp_path: Path) -> None:
    limit_usd = 0.5
    allowances = [allowance_of(tmp_path, name, max_cost=limit_usd) for name in ("one", "other")]
    for allowance in allowances:
        allowance.clock = count(0.0, 0.1).__next__  # so that nobody waits for a clock

    budgets = [shared_budget(allowance, limit_usd) for allowance in allowances]
    costs: tuple[list[float], list[float]] = ([], [])

    def spend(number: int) -> None:
        try:
            while True:
                reservation = budgets[number].reserve(ASKED)
                costs[number].append(budgets[number].settle(reservation, Usage(20, 1000)) or 0.0)
        finally:
            # as a worker does that ends: one that has spent all by itself leaves a remainder
            allowances[number].give_back_all()

    assert [type(end) for end in in_threads(2, spend)] == [BudgetError, BudgetError]

    one, other = map(math.fsum, costs)
    assert limit_usd * 0.9 < one + other <= limit_usd

    # Of one that has spent nearly all by itself, its own limit would refuse before the shared one.
    saver = 0 if one < other else 1
    with pytest.raises(BudgetError, match="shared by all workers") as stopped:
        budgets[saver].reserve(ASKED)

    assert limit_usd < stopped.value.needed["max_cost"] < limit_usd + 0.1


def test_what_calls_leave_serves_the_next_and_is_given_back_at_the_end(
    tmp_path: Path,
) -> None:
    allowance = allowance_of(tmp_path, "one", max_cost=10.0)
    budget = shared_budget(allowance, 10.0)
    cost = budget.settle(budget.reserve(ASKED), Usage(20, 500))

    assert cost == pytest.approx(0.00504)
    assert drawn_usd(tmp_path) == pytest.approx(0.1)  # a hundredth

    for _ in range(3):
        budget.settle(budget.reserve(ASKED), Usage(20, 500))

    assert drawn_usd(tmp_path) == pytest.approx(0.1)

    allowance.give_back_all()
    assert drawn_usd(tmp_path) == pytest.approx(4 * 0.00504, abs=1e-5)


# ---- amounts by value


def drawn_tokens(folder: Path) -> int:
    """Tokens that count as used for others."""
    place = open_place(folder)
    beats = ClaimBoard(place.store, "", "observer", LEASE_S).beats
    return SharedSum(place.store, "sums/tokens", None, beats).state().used


def test_draw_takes_a_hundredth_of_the_limit_or_what_the_call_needs(
    tmp_path: Path,
) -> None:
    allowance = allowance_of(tmp_path, "one", max_cost=10.0, max_tokens=1001)

    assert allowance.draw(BudgetAmount(0.000_000_5, 1)) == "drawn"
    assert (drawn_usd(tmp_path), drawn_tokens(tmp_path)) == (0.1, 11)

    assert allowance.draw(BudgetAmount(0.3, 50)) == "drawn"
    assert drawn_usd(tmp_path) == pytest.approx(0.1 + 0.200_001, abs=2e-6)
    assert drawn_tokens(tmp_path) == 11 + 40


def test_needed_is_the_least_limit_that_leaves_the_amount(tmp_path: Path) -> None:
    allowance = allowance_of(tmp_path, "one", max_cost=1.0, max_tokens=1000)
    assert allowance.draw(BudgetAmount(0.5, 500)) == "drawn"

    assert allowance.find_needed(BudgetAmount(0.5, 500)) == {}
    assert allowance.find_needed(BudgetAmount(0.75, 500)) == {"max_cost": 1.25}
    assert allowance.find_needed(BudgetAmount(0.5, 501)) == {"max_tokens": 1001}
    assert allowance.find_needed(BudgetAmount(0.75, 600)) == {"max_cost": 1.25, "max_tokens": 1100}


def test_dollars_are_given_back_where_the_tokens_do_not_suffice(tmp_path: Path) -> None:
    one = allowance_of(tmp_path, "one", max_cost=1.0, max_tokens=1000)
    other = allowance_of(tmp_path, "other", max_cost=1.0, max_tokens=1000)

    assert other.draw(BudgetAmount(0.0, 800)) == "drawn"
    assert one.draw(BudgetAmount(0.0, 100)) == "drawn"

    assert one.draw(BudgetAmount(0.5, 200)) == "later"

    dollars, _ = one.purses
    assert dollars.free == round(drawn_usd(tmp_path) * 1_000_000)


def test_a_worker_without_a_call_for_a_second_gives_all_of_it_back(tmp_path: Path) -> None:
    allowance = allowance_of(tmp_path, "one", max_cost=1.0, max_tokens=1000)
    assert allowance.draw(BudgetAmount(0.5, 500)) == "drawn"

    allowance.settle(BudgetAmount(0.5, 500), BudgetAmount(0.25, 100))

    clock.now_s += 0.5
    allowance.give_back_idle()

    assert (drawn_usd(tmp_path), drawn_tokens(tmp_path)) == (0.26, 110)  # a portion is kept

    clock.now_s += 0.5
    allowance.give_back_idle()

    assert (drawn_usd(tmp_path), drawn_tokens(tmp_path)) == (0.25, 100)


def test_a_worker_with_a_call_under_way_keeps_a_portion(tmp_path: Path) -> None:
    allowance = allowance_of(tmp_path, "one", max_tokens=1000)
    assert allowance.draw(BudgetAmount(0.0, 300)) == "drawn"
    assert allowance.draw(BudgetAmount(0.0, 300)) == "drawn"

    allowance.settle(BudgetAmount(0.0, 300), BudgetAmount(0.0, 100))

    clock.now_s += 5.0
    allowance.give_back_idle()

    assert drawn_tokens(tmp_path) == 100 + 300 + 10


def test_a_fraction_of_a_millionth_is_not_spent_beyond_the_limit(tmp_path: Path) -> None:
    allowance = allowance_of(tmp_path, "one", max_cost=0.000_001_9)

    assert allowance.draw(BudgetAmount(0.000_001_1, 0)) == "never"
    assert allowance.draw(BudgetAmount(0.000_001, 0)) == "drawn"
