"""Workers that share a sum never use more than its limit."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from, tuples

from ktdeval.errors import StoreError
from ktdeval.stores import Heartbeats, LocalStore, SharedSum, Store, StoreUnavailable
from ktdeval.stores.shared_sum_log import SumLog
from searching import examples
from store_places import Clock, memory_store
from sum_replay import logged_changes, replayed
from threads import in_threads

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


def figures(total: SharedSum) -> tuple[int, int]:
    state = total.state()
    return state.used, state.reserved


def test_what_is_reserved_and_used_never_exceeds_the_limit() -> None:
    holders = Holders(limit=100)
    one = holders.sum("one")
    two = holders.sum("two")
    grant = one.reserve(60, "unit a")

    assert grant is not None
    assert two.reserve(41) is None
    assert two.reserve(40) is not None
    assert figures(one) == (0, 100)

    one.settle(grant, 25)
    assert figures(two) == (25, 40)
    assert two.reserve(36) is None
    assert two.reserve(35) is not None


def test_without_a_limit_everything_is_granted_and_counted() -> None:
    total = Holders(limit=None).sum()
    grant = total.reserve(10**15)

    assert grant is not None

    total.settle(grant, 10**15)
    assert figures(total) == (10**15, 0)


def test_an_amount_of_exactly_the_limit_is_granted_and_nothing_more() -> None:
    total = Holders(limit=7).sum()
    assert total.reserve(7) is not None
    assert total.reserve(1) is None
    assert total.reserve(0) is not None


def test_settling_again_changes_nothing() -> None:
    holders = Holders()
    total = holders.sum()
    grant = total.reserve(50)

    assert grant is not None

    total.settle(grant, 20)
    total.settle(grant, 20)
    total.compact()
    total.settle(grant, 20)

    assert figures(holders.sum("two")) == (20, 0)


def test_what_was_used_above_a_grant_is_recorded_and_then_nothing_is_granted() -> None:
    total = Holders(limit=100).sum()
    grant = total.reserve(10)

    assert grant is not None

    total.settle(grant, 120)
    assert figures(total) == (120, 0)
    assert total.reserve(0) is None


def test_a_charge_counts_without_a_grant() -> None:
    total = Holders(limit=100).sum()
    total.charge(90, "calls of a dead worker")
    assert total.reserve(11) is None
    assert figures(total) == (90, 0)


def test_grants_of_a_dead_holder_are_returned_when_its_lease_is_over() -> None:
    holders = Holders(limit=100)
    dead, alive, asker = (holders.sum(name) for name in ("dead", "alive", "asker"))

    assert dead.reserve(60) is not None
    assert alive.reserve(40) is not None
    assert asker.reserve(60) is None  # the first look starts the lease

    holders.clock.pass_s(LEASE_S)
    holders.beats["alive"].beat()

    assert asker.reserve(61) is None
    assert figures(asker) == (0, 40)
    assert asker.reserve(60) is not None


def test_what_a_holder_taken_for_dead_settles_later_counts() -> None:
    holders = Holders(limit=100)
    zombie = holders.sum("zombie")
    asker = holders.sum("asker")
    grant = zombie.reserve(100)

    assert grant is not None
    assert asker.reserve(10) is None

    holders.clock.pass_s(LEASE_S)
    assert asker.reserve(10) is not None

    zombie.settle(grant, 70)
    zombie.settle(grant, 70)

    assert figures(asker) == (70, 10)


@pytest.mark.parametrize("amount", [-1, -(10**9)])
def test_a_negative_amount_is_refused(amount: int) -> None:
    total = Holders().sum()
    with pytest.raises(StoreError, match="must not be negative"):
        total.reserve(amount)

    with pytest.raises(StoreError, match="must not be negative"):
        total.charge(amount)


def test_threads_share_a_sum_without_losing_a_change(tmp_path: Path) -> None:
    holders = Holders(limit=1000, store=LocalStore(tmp_path))
    one = holders.sum("one")
    two = holders.sum("two")

    def work(number: int) -> int:
        total = one if number % 2 else two
        settled = 0
        for amount in range(1, 6):
            grant = total.reserve(amount)
            assert grant is not None
            total.settle(grant, amount)
            settled += amount

        return settled

    assert in_threads(4, work) == [15] * 4
    assert figures(one) == figures(two) == (60, 0)
    assert replayed(logged_changes(holders.store, LOG), 1000) == (60, {})


# ---- the log


def test_entries_are_numbered_without_gaps_and_a_late_comer_finds_the_last() -> None:
    holders = Holders(limit=None)
    total = holders.sum()
    for count in range(1, 40):
        total.charge(1)
        assert figures(holders.sum(f"late-{count}")) == (count, 0)

    names = [found.key.rsplit("/", 1)[1] for found in holders.store.list(LOG)]

    assert names == [f"{number:08}.json" for number in range(1, 40)]


def test_compaction_packs_the_log_into_one_file_and_keeps_every_change() -> None:
    holders = Holders(limit=100)
    one = holders.sum("one")
    two = holders.sum("two")
    grant = one.reserve(30)
    two.charge(5)
    before = logged_changes(holders.store, LOG)

    assert one.compact() == 3  # and the entry that ends the epoch
    assert [found.key for found in holders.store.list(LOG)] == [
        f"{LOG}/0001/closed.json",
        f"{LOG}/0001/packed.json",
    ]
    assert logged_changes(holders.store, LOG)[:-1] == before
    assert figures(two) == figures(holders.sum("late")) == (5, 30)
    assert grant is not None

    one.settle(grant, 30)
    assert figures(two) == (35, 0)
    assert one.compact() == 2
    assert one.compact() == 0


def test_who_slept_through_a_compaction_can_add_no_entry_where_one_was_deleted() -> None:
    """Its number is free again; the mark of the epoch's end tells it that its entry is void."""
    holders = Holders(limit=100)
    sleeper = holders.sum("sleeper")
    other = holders.sum("other")

    assert figures(sleeper) == (0, 0)  # it knows the empty log

    log = SumLog(holders.store, LOG)  # and so does this one, which will not look again
    other.charge(90)
    other.charge(9)
    other.compact()
    change = sleeper._change("reserve", 50, ["g"], "")

    assert not log.append(change, log.state)
    assert sleeper.reserve(2) is None
    assert sleeper.reserve(1) is not None
    assert replayed(logged_changes(holders.store, LOG), 100)[0] == 99


def test_an_entry_made_just_before_its_epoch_was_packed_counts() -> None:
    holders = Holders(limit=100)
    other = holders.sum("other")

    class Interrupting:
        """The epoch is compacted between a worker's entry and its look at the mark."""

        def __getattr__(self, name: str) -> object:
            return getattr(holders.store, name)

        def create(self, key: str, data: bytes) -> bool:
            is_created = holders.store.create(key, data)
            other.compact()
            return is_created

    one = SharedSum(Interrupting(), LOG, 100, holders.beats["other"])  # type: ignore[arg-type]

    assert one.reserve(60) is not None
    assert figures(one) == figures(other) == (0, 60)


def test_a_compaction_that_was_interrupted_anywhere_is_finished_by_the_next() -> None:
    class Stop(Exception):
        pass

    class Stopping:
        def __init__(self, store: Store, writes: int) -> None:
            self.store = store
            self.left = writes

        def __getattr__(self, name: str) -> object:
            method = getattr(self.store, name)
            if name in ("create", "delete"):
                self.left -= 1
                if self.left < 0:
                    raise Stop

            return method

    for writes in range(6):
        holders = Holders(limit=100)
        one = holders.sum("one")
        for _ in range(2):
            one.charge(10)

        log = SumLog(Stopping(holders.store, writes), LOG)  # type: ignore[arg-type]
        with pytest.raises(Stop):
            log.compact(holders.beats["one"].me)

        assert figures(holders.sum("late")) == (20, 0)
        assert one.reserve(81) is None
        one.charge(1)
        assert figures(holders.sum("later")) == (21, 0)
        one.compact()
        left = [found.key for found in holders.store.list(LOG)]
        assert not [key for key in left if "/entries/" in key]
        assert figures(holders.sum("last")) == (21, 0)


def test_a_reservation_whose_answer_was_lost_is_returned_by_the_next_call() -> None:
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
        total.reserve(100)

    assert figures(total) == (0, 100)

    store.loses = False
    grant = total.reserve(100)

    assert grant is not None

    store.loses = True

    with pytest.raises(StoreUnavailable):
        total.settle(grant, 50)

    store.loses = False
    total.settle(grant, 50)

    assert figures(total) == (50, 0)


STEPS = lists(
    tuples(
        sampled_from(["reserve", "settle", "charge", "compact", "die"]),
        integers(0, 2),
        integers(0, 60),
    ),
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
    grants: list[list] = [[], [], []]

    for kind, who, amount in steps:
        if kind == "reserve":
            grant = totals[who].reserve(amount)
            grants[who] += [grant] if grant else []
        elif kind == "settle" and grants[who]:
            grant = grants[who].pop()
            totals[who].settle(grant, min(amount, grant.amount))
        elif kind == "charge":
            totals[who].charge(amount // 10)
        elif kind == "compact":
            totals[who].compact()
        elif kind == "die":
            totals[who] = holders.sum(f"holder-{number_of(holders)}")
            grants[who] = []

    used, left = replayed(logged_changes(holders.store, LOG), None)

    assert figures(totals[0]) == (used, sum(left.values()))
    assert left.keys() >= {grant.id for grant in itertools.chain.from_iterable(grants)}


def number_of(holders: Holders) -> int:
    return len(holders.beats)
