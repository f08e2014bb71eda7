"""One worker gets a unit; when it is dead, another one takes over, and the first is fenced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ktdeval.errors import FencedError, StoreError
from ktdeval.stores import BadKey, LocalStore, MissingKey, Store, StoreUnavailable
from ktdeval_grid.coordination.claims import ClaimBoard
from ktdeval_grid.coordination.heartbeats import Heartbeats
from support.stores.store_places import Clock, memory_store
from support.threads import in_threads

LEASE_S = 60.0


@dataclass
class Workers:
    """Workers of one store, all on one clock."""

    store: Store
    clock: Clock

    def board(self, name: str, **more: object) -> ClaimBoard:
        board = ClaimBoard(self.store, "grid", name, LEASE_S, self.clock, **more)  # type: ignore[arg-type]
        board.beats.beat()
        return board


@pytest.fixture
def of() -> Workers:
    return Workers(memory_store(), Clock())


def test_threads_of_one_worker_never_get_the_same_unit(tmp_path: Path) -> None:
    board = ClaimBoard(LocalStore(tmp_path), "", "one", LEASE_S)
    got = in_threads(8, lambda _: board.claim("u"))
    assert sum(claim is not None for claim in got) == 1
    assert not any(isinstance(claim, BaseException) for claim in got)


def test_a_unit_whose_holder_beats_stays_its_own_for_any_time(of: Workers) -> None:
    one = of.board("one")
    two = of.board("two")
    claim = one.claim("u")

    assert claim is not None

    for _ in range(10):
        of.clock.pass_s(LEASE_S - 1)
        one.beats.beat()
        assert claim.is_ours()
        assert two.claim("u") is None


def test_a_unit_is_taken_over_a_lease_after_its_last_beat_was_seen(of: Workers) -> None:
    one = of.board("one")
    two = of.board("two")
    claim = one.claim("u")
    of.clock.pass_s(10 * LEASE_S)  # two has not looked yet

    assert two.claim("u") is None

    of.clock.pass_s(LEASE_S - 1)
    assert two.claim("u") is None
    assert two.holder("u") == one.beats.me

    of.clock.pass_s(1)
    assert two.holder("u") is None

    taken = two.claim("u")
    assert claim is not None
    assert taken is not None
    assert taken.generation == 2
    assert taken.earlier == (one.beats.me,)
    assert taken.is_ours()
    assert not claim.is_ours()


def test_a_holder_that_never_beat_expires_too(of: Workers) -> None:
    silent = ClaimBoard(of.store, "grid", "silent", LEASE_S, of.clock)
    assert silent.claim("u") is not None

    two = of.board("two")
    assert two.claim("u") is None

    of.clock.pass_s(LEASE_S)
    assert two.claim("u") is not None


def test_the_holder_says_how_long_its_lease_is(of: Workers) -> None:
    patient = ClaimBoard(of.store, "grid", "patient", 10 * LEASE_S, of.clock)
    patient.beats.beat()

    assert patient.claim("u") is not None

    two = of.board("two")
    assert two.claim("u") is None

    of.clock.pass_s(9 * LEASE_S)
    assert two.claim("u") is None

    of.clock.pass_s(LEASE_S)
    assert two.claim("u") is not None


def test_two_takers_get_one_generation(of: Workers) -> None:
    of.board("one").claim("u")
    takers = [of.board("two"), of.board("three")]

    assert [taker.claim("u") for taker in takers] == [None, None]

    of.clock.pass_s(LEASE_S)

    for taker in takers:
        taker.beats.beat()

    got = [taker.claim("u") for taker in takers]

    assert [claim is None for claim in got] == [False, True]


def test_a_process_claims_again_and_its_old_claim_frees_nothing(
    of: Workers,
) -> None:
    one = of.board("one")
    two = of.board("two")
    lost = one.claim("u")
    two.claim("u")
    of.clock.pass_s(LEASE_S)
    taken = two.claim("u")

    assert lost is not None
    assert taken is not None
    assert one.claim("u") is None  # a thread of it still holds the lost claim
    assert not lost.is_ours()

    taken.release()
    again = one.claim("u")

    assert again is not None
    assert again.generation == 3

    lost.release()
    assert not lost.finish(b"")
    assert one.claim("u") is None
    assert again.is_ours()


def test_a_worker_that_was_taken_over_finishes_and_releases_nothing(of: Workers) -> None:
    one = of.board("one")
    two = of.board("two")
    three = of.board("three")
    zombie = one.claim("u")
    two.claim("u")
    of.clock.pass_s(LEASE_S)
    two.beats.beat()
    taken = two.claim("u")

    assert zombie is not None
    assert taken is not None
    assert not zombie.is_ours()
    assert not zombie.finish(b"by one")

    zombie.release()
    assert three.claim("u") is None
    assert taken.finish(b"by two")
    assert three.done_data("u") == b"by two"


def test_a_released_unit_is_free_at_once(of: Workers) -> None:
    claim = of.board("one").claim("u")
    assert claim is not None

    claim.release()
    two = of.board("two")

    assert two.holder("u") is None

    taken = two.claim("u")
    assert taken is not None
    assert taken.generation == 2


def test_a_worker_can_claim_again_what_it_released(of: Workers) -> None:
    one = of.board("one")
    claim = one.claim("u")

    assert claim is not None

    claim.release()
    again = one.claim("u")

    assert again is not None
    assert again.generation == 2
    assert again.is_ours()
    assert not claim.is_ours()


def test_a_unit_that_is_done_is_never_claimed(of: Workers) -> None:
    one = of.board("one")
    two = of.board("two")
    claim = one.claim("u")

    assert claim is not None
    assert claim.finish(b"result")
    assert not claim.finish(b"result")
    assert two.claim("u") is None

    of.clock.pass_s(10 * LEASE_S)
    assert two.claim("u") is None

    assert two.is_done("u")
    assert two.holder("u") is None
    assert list(two.done_units()) == ["u"]


def test_beats_of_a_new_process_do_not_keep_claims_of_the_old_one(of: Workers) -> None:
    of.board("one").claim("u")
    new = of.board("one")
    two = of.board("two")

    assert two.claim("u") is None

    of.clock.pass_s(LEASE_S)
    new.beats.beat()

    assert two.claim("u") is not None


def test_claim_of_an_already_completed_unit_is_given_back(of: Workers) -> None:
    one = of.board("one")
    one.record_done("u", b"result")
    assert one.claim("u") is None
    assert one.holder("u") is None


def test_worker_retakes_its_claims_at_once_if_its_previous_process_ended(
    of: Workers,
) -> None:
    of.board("one").claim("u")
    assert of.board("one").claim("u") is None

    again = of.board("one", previous_ended=True).claim("u")
    assert again is not None
    assert again.generation == 2


@pytest.mark.parametrize("unit", ["../u", "", "/u", "a//b", "a\\b", "a/.b"])
def test_a_unit_that_is_no_key_is_refused(of: Workers, unit: str) -> None:
    with pytest.raises(BadKey):
        of.board("one").claim(unit)


def test_a_lease_must_be_longer_than_nothing(of: Workers) -> None:
    with pytest.raises(StoreError, match="must be above 0"):
        Heartbeats(of.store, "", "one", 0)


def test_the_thread_keeps_beating_until_it_is_closed(of: Workers) -> None:
    board = ClaimBoard(of.store, "", "one", 0.01)
    board.start()
    try:
        beats = {of.store.read("beats/one.json")}
        while len(beats) < 3:
            beats.add(of.store.read("beats/one.json"))
    finally:
        board.close()

    last = of.store.read("beats/one.json")

    assert of.store.read("beats/one.json") == last


class _Forgetful:
    """A store whose answers to `create` of some keys are lost for good."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.loses = ""

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)

    def create(self, key: str, data: bytes) -> bool:
        is_created = self.store.create(key, data)
        if self.loses and key.startswith(self.loses):
            raise StoreUnavailable(f"{key}: no answer")

        return is_created


@pytest.fixture
def forgetful(of: Workers) -> Iterator[_Forgetful]:
    store = _Forgetful(of.store)
    of.store = store  # type: ignore[assignment]
    return store


def test_a_claim_whose_answer_was_lost_is_found_by_asking_again(
    of: Workers, forgetful: _Forgetful
) -> None:
    one = of.board("one")
    forgetful.loses = "grid/claims"
    with pytest.raises(StoreUnavailable):
        one.claim("u")

    forgetful.loses = ""

    assert of.board("two").claim("u") is None

    claim = one.claim("u")
    assert claim is not None
    assert claim.generation == 1
    assert one.claim("u") is None


def test_a_result_whose_answer_was_lost_is_found_by_finishing_again(
    of: Workers, forgetful: _Forgetful
) -> None:
    claim = of.board("one").claim("u")
    assert claim is not None

    forgetful.loses = "grid/done"

    with pytest.raises(StoreUnavailable):
        claim.finish(b"result")

    forgetful.loses = ""

    assert claim.finish(b"result")


def test_there_is_no_result_of_a_unit_that_is_not_done(of: Workers) -> None:
    with pytest.raises(MissingKey):
        of.board("one").done_data("u")


def test_a_fence_lets_nothing_through_once_the_unit_was_taken_over(of: Workers) -> None:
    one = of.board("one")
    two = of.board("two")
    claim = one.claim("u")

    assert claim is not None

    two.claim("u")
    of.clock.pass_s(LEASE_S)
    claim.check()

    assert two.claim("u") is not None

    with pytest.raises(FencedError, match="has taken u over from one"):
        claim.check()


def test_an_answer_counts_for_a_while_but_not_after_a_pause(
    of: Workers,
) -> None:
    one = of.board("one")
    two = of.board("two")
    claim = one.claim("u")

    assert claim is not None

    two.claim("u")
    of.clock.pass_s(LEASE_S)
    claim.check(fresh_s=1.0)
    taken = two.claim("u")

    assert taken is not None

    claim.check(fresh_s=1.0)
    of.clock.pass_s(1.0)

    with pytest.raises(FencedError):
        claim.check(fresh_s=1.0)

    of.clock.pass_s(-1.0)
    with pytest.raises(FencedError):  # what is lost is lost
        claim.check(fresh_s=1.0)

    assert one.claim("u") is None  # the thread that lost it has not released it yet

    taken.release()
    with pytest.raises(FencedError):
        claim.check()

    claim.release()

    assert one.claim("u") is not None
