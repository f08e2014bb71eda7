"""Workers that share a sum never draw more than its limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from, tuples

from ktdeval.errors import StoreError
from ktdeval.stores import Store, StoreUnavailable
from ktdeval_grid.coordination.heartbeats import Heartbeats
from ktdeval_grid.coordination.shared_sums import SharedSum
from support.searching import examples
from support.stores.store_places import Clock, memory_store
from support.stores.sum_replay import recorded_states, used_after

LEASE_S = 60.0
LOG = "sums/dollars"


class Holders:
    """Holders of one sum, all on one clock."""

    def __init__(self, limit: int | None = 100, store: Store | None = None) -> None:
        self.store = store or memory_store()
        self.clock = Clock()
        self.limit = limit
        self.beats: dict[str, Heartbeats] = {}

    def sum(self, name: str = "one") -> SharedSum:
        beats = Heartbeats(self.store, "", name, LEASE_S, self.clock)
        beats.beat()
        self.beats[name] = beats
        return SharedSum(self.store, LOG, self.limit, beats)


def used(total: SharedSum) -> int:
    return total.state().used


def test_what_is_drawn_never_exceeds_the_limit() -> None:
    holders = Holders(limit=100)
    one = holders.sum("one")
    two = holders.sum("two")

    assert one.draw(60)
    assert not two.draw(41)
    assert two.draw(40)
    assert used(one) == 100

    one.give_back(35)
    assert used(two) == 65
    assert not two.draw(36)
    assert two.draw(35)


def test_an_amount_of_exactly_the_limit_is_granted_and_nothing_more() -> None:
    total = Holders(limit=7).sum()
    assert total.draw(7)
    assert not total.draw(1)
    assert total.draw(0)


def test_use_beyond_what_was_drawn_counts_and_ends_all_drawing() -> None:
    total = Holders(limit=100).sum()

    assert total.draw(10)

    total.give_back(-110)
    assert used(total) == 120
    assert not total.draw(0)


def test_others_may_give_back_until_they_leave_or_their_lease_is_over() -> None:
    holders = Holders(limit=100)
    asker = holders.sum("asker")
    leaves = holders.sum("leaves")
    dies = holders.sum("dies")

    assert asker.draw(1)
    assert not asker.may_others_give_back()
    assert leaves.draw(9)
    assert asker.may_others_give_back()

    leaves.give_back(4)
    assert asker.may_others_give_back()

    leaves.leave(0)
    assert not asker.may_others_give_back()
    assert used(asker) == 6

    assert dies.draw(50)
    assert asker.may_others_give_back()

    holders.clock.pass_s(LEASE_S)
    assert not asker.may_others_give_back()
    assert used(asker) == 56


def test_leaving_again_changes_nothing() -> None:
    holders = Holders()
    total = holders.sum()

    assert total.draw(50)

    total.leave(20)
    total.leave(0)

    assert used(holders.sum("two")) == 30
    assert len(recorded_states(holders.store, LOG)) == 2


@pytest.mark.parametrize("amount", [-1, -(10**9)])
def test_a_negative_amount_is_not_drawn(amount: int) -> None:
    with pytest.raises(StoreError, match="must not be negative"):
        Holders().sum().draw(amount)


def test_an_amount_whose_answer_was_lost_counts_as_used() -> None:
    holders = Holders(limit=100)

    class Forgetful:
        loses = True

        def __getattr__(self, name: str) -> object:
            return getattr(holders.store, name)

        def create(self, key: str, data: bytes) -> bool:
            is_created = holders.store.create(key, data)
            if self.loses:
                raise StoreUnavailable("no answer")

            return is_created

    store = Forgetful()
    holders.sum("one")
    total = SharedSum(store, LOG, 100, holders.beats["one"])  # type: ignore[arg-type]

    with pytest.raises(StoreUnavailable):
        total.draw(70)

    store.loses = False
    assert used(total) == 70
    assert not total.draw(31)
    assert total.draw(30)


# ---- sums that earlier versions wrote


def test_a_sum_that_an_earlier_version_compacted_is_refused() -> None:
    holders = Holders()
    holders.store.create(f"{LOG}/0001/closed.json", b"{}")

    with pytest.raises(StoreError, match="an earlier version of ktdeval compacted this sum"):
        holders.sum().draw(1)


STEPS = lists(
    tuples(sampled_from(["draw", "give back", "leave", "die"]), integers(0, 2), integers(0, 60)),
    max_size=25,
)


@pytest.mark.slow
@examples(15)
@given(steps=STEPS)
def test_any_order_of_changes_of_three_holders_gives_the_state_of_its_log(
    steps: list[tuple[str, int, int]],
) -> None:
    holders = Holders(limit=100)
    totals = [holders.sum(f"holder-{number}") for number in range(3)]
    free = [0, 0, 0]
    spent = 0

    for kind, who, amount in steps:
        if kind == "draw" and totals[who].draw(amount):
            free[who] += amount
        elif kind == "give back":
            part = min(amount, free[who])
            totals[who].give_back(part)
            free[who] -= part
        elif kind == "leave":
            totals[who].leave(free[who])
            free[who] = 0
        elif kind == "die":
            totals[who] = holders.sum(f"holder-{len(holders.beats)}")
            spent += free[who]
            free[who] = 0

    assert used(totals[0]) == spent + sum(free)
    assert used_after(recorded_states(holders.store, LOG), 100) == spent + sum(free)
