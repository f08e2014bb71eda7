"""What is no longer needed is removed; what is damaged is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktdeval.stores import (
    ClaimBoard,
    Finding,
    LocalStore,
    SharedSum,
    Store,
    check_claims,
    check_sum,
    compact_claims,
    remove_dead_beats,
)
from store_places import Clock, memory_store

LEASE_S = 60.0


@pytest.fixture
def store() -> Store:
    return memory_store()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def board_of(store: Store, name: str, clock: Clock) -> ClaimBoard:
    board = ClaimBoard(store, "grid", name, LEASE_S, clock)
    board.beats.beat()
    return board


def keys(store: Store, folder: str) -> list[str]:
    return [found.key for found in store.list(folder)]


def test_claims_of_units_that_are_done_are_deleted_and_no_others(
    store: Store, clock: Clock
) -> None:
    one = board_of(store, "one", clock)
    two = board_of(store, "two", clock)
    for unit in ("a", "card/b", "card", "open"):
        claim = one.claim(unit)
        assert claim is not None
        if unit in ("a", "card/b"):
            assert claim.finish(b"result")

    assert compact_claims(store, "grid") == 2
    assert keys(store, "grid/claims") == [
        "grid/claims/card/0001.json",
        "grid/claims/open/0001.json",
    ]
    assert [two.claim(unit) for unit in ("a", "card/b", "card", "open")] == [None] * 4
    assert two.state("a").done


def test_a_zombie_whose_claim_was_compacted_knows_that_it_is_lost(
    store: Store, clock: Clock
) -> None:
    one = board_of(store, "one", clock)
    two = board_of(store, "two", clock)
    zombie = one.claim("u")
    two.done("u", b"by two")
    compact_claims(store, "grid")

    assert zombie is not None
    assert not zombie.is_ours()
    assert not zombie.finish(b"by one")


def test_heartbeats_are_removed_a_lease_after_they_stopped(store: Store, clock: Clock) -> None:
    one = board_of(store, "one", clock)
    two = board_of(store, "two", clock)

    assert remove_dead_beats(store, "grid", two.beats) == 0

    clock.pass_s(LEASE_S)
    assert remove_dead_beats(store, "grid", two.beats) == 1
    assert keys(store, "grid/beats") == ["grid/beats/two.json"]

    one.beats.beat()  # it was not dead
    assert two.beats.live_workers() == 2


def test_temporary_files_of_killed_processes_are_swept_when_they_are_old(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.replace("a/b", b"1")
    old = tmp_path / "a/.b.01.new"
    new = tmp_path / ".c.02.new"

    for path in (old, new):
        path.write_bytes(b"half")

    os.utime(old, (0, 0))

    assert store.sweep() == 1
    assert not old.exists()
    assert new.exists()
    assert store.read("a/b") == b"1"


def test_claims_and_heartbeats_that_do_not_fit_their_keys_are_found(
    store: Store, clock: Clock
) -> None:
    one = board_of(store, "one", clock)
    one.claim("a")
    one.claim("b")

    assert list(check_claims(store, "grid")) == []

    store.replace("grid/claims/c/0001.json", store.read("grid/claims/a/0001.json"))
    store.replace("grid/claims/b/0001.json", store.read("grid/claims/b/0001.json")[:-5])
    store.replace("grid/beats/two.json", store.read("grid/beats/one.json"))
    found = list(check_claims(store, "grid"))

    assert [finding.key for finding in found] == [
        "grid/claims/b/0001.json",
        "grid/claims/c/0001.json",
        "grid/beats/two.json",
    ]
    assert found[1].problem == "holds a claim of a, generation 1"
    assert found[2].problem == "holds a heartbeat of one"


def test_an_entry_of_a_sum_that_does_not_follow_is_found(store: Store, clock: Clock) -> None:
    total = SharedSum(store, "sum", 100, board_of(store, "one", clock).beats)
    for _ in range(2):
        grant = total.reserve(50)
        assert grant is not None
        total.settle(grant, 10)
        total.charge(5)

    assert list(check_sum(store, "sum", 100)) == []
    assert list(check_sum(store, "sum", 60)) == [
        Finding("sum/0001/entries/00000004.json", "reserves up to 65, above the limit of 60")
    ]

    total.compact()
    total.charge(1)

    assert list(check_sum(store, "sum", 100)) == []

    packed = store.read("sum/0001/packed.json")
    store.replace("sum/0001/packed.json", packed.replace(b'"amount":10', b'"amount":11', 1))
    problem = "its state does not follow from the changes before it"

    assert list(check_sum(store, "sum")) == [Finding("sum/0001/closed.json", problem)]

    store.replace("sum/0001/packed.json", packed)

    key = "sum/0002/entries/00000001.json"
    entry = store.read(key)
    store.replace(key, entry.replace(b'"used":31', b'"used":30'))

    assert list(check_sum(store, "sum")) == [Finding(key, problem)]

    store.replace(key, entry[:-1])
    assert [finding.key for finding in check_sum(store, "sum")] == [key]
