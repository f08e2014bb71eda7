"""Real processes that share a store: one of them gets a unit, killed ones are taken over, zombies
are fenced, and a shared sum never exceeds its limit.

`KTDEVAL_STORE_ROUNDS` sets how many units two processes contend for, `KTDEVAL_STORE_KEYS` how many
keys are listed.
"""

from __future__ import annotations

import os
import random
import signal
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from ktdeval.stores import LocalStore, Store
from ktdeval_grid.coordination.claims import ClaimBoard
from ktdeval_grid.coordination.heartbeats import Heartbeats
from ktdeval_grid.coordination.shared_sums import SharedSum
from support.stores.store_places import BUCKET, Clock, opened, s3_server
from support.stores.store_worker import LEASE_S, Worker, workers
from support.stores.sum_replay import recorded_states, used_after

ROUNDS = int(os.environ.get("KTDEVAL_STORE_ROUNDS", "300"))
KEYS = int(os.environ.get("KTDEVAL_STORE_KEYS", "2000"))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as port:
        yield f"http://127.0.0.1:{port}"


def claims_of(one: Worker, two: Worker, units: list[str], chance: random.Random) -> Counter[str]:
    """Let two workers claim each unit at almost the same time; counts who got how many."""
    winners: Counter[str] = Counter()
    for unit in units:
        pair = [one, two]
        chance.shuffle(pair)
        for worker in pair:
            worker.send("claim", unit, chance.choice((0, 0, 50, 200)))

        got = {worker.name: worker.answer() for worker in pair}
        assert sorted(got.values()) == ["1", "None"], (unit, got)
        winners.update(name for name, generation in got.items() if generation == "1")

    return winners


@pytest.mark.exhaustive
def test_of_two_processes_that_claim_one_unit_one_gets_it(tmp_path: Path) -> None:
    units = [f"unit-{number}" for number in range(ROUNDS)]
    with workers(str(tmp_path), "one", "two") as (one, two):
        winners = claims_of(one, two, units, random.Random(1))

    assert winners.total() == ROUNDS
    assert min(winners["one"], winners["two"]) > ROUNDS // 20, "they did not contend"


@pytest.mark.exhaustive
def test_of_two_processes_that_claim_one_unit_on_s3_one_gets_it(endpoint: str) -> None:
    units = [f"unit-{number}" for number in range(max(6, ROUNDS // 50))]
    with workers(f"s3://{BUCKET}/contend", "one", "two", endpoint=endpoint) as (one, two):
        assert claims_of(one, two, units, random.Random(2)).total() == len(units)


@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_a_killed_workers_lease_ends_by_the_observers_clock(
    tmp_path: Path, endpoint: str, kind: str
) -> None:
    place = str(tmp_path) if kind == "folder" else f"s3://{BUCKET}/killed"
    clock = Clock()
    observer = ClaimBoard(opened(place, endpoint), "", "observer", LEASE_S, clock)

    with workers(place, "one", endpoint=endpoint) as (one,):
        assert one.ask("claim", "u", 0) == "1"
        assert observer.claim("u") is None
        one.kill()
        clock.pass_s(LEASE_S - 1)
        assert observer.claim("u") is None
        clock.pass_s(1)
        taken = observer.claim("u")

    assert taken is not None
    assert taken.generation == 2
    assert [holder.worker for holder in taken.earlier] == ["one"]


def test_a_stopped_worker_that_comes_back_finishes_nothing(tmp_path: Path) -> None:
    clock = Clock()
    observer = ClaimBoard(LocalStore(tmp_path), "", "observer", LEASE_S, clock)
    with workers(str(tmp_path), "zombie") as (zombie,):
        assert zombie.ask("claim", "u", 0) == "1"
        assert zombie.ask("is_ours", "u") == "True"
        os.kill(zombie.process.pid, signal.SIGSTOP)
        assert observer.claim("u") is None
        clock.pass_s(LEASE_S)
        taken = observer.claim("u")
        assert taken is not None
        os.kill(zombie.process.pid, signal.SIGCONT)
        assert zombie.ask("is_ours", "u") == "False"
        assert zombie.ask("finish", "u", "by-zombie") == "False"
        assert taken.finish(b"by observer")
        assert zombie.ask("done", "u", "by-zombie") == "False"
        assert zombie.ask("claim", "u", 0) == "None"

    assert observer.done_data("u") == b"by observer"


def test_a_process_killed_while_it_creates_leaves_the_whole_file_or_none(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    chance = random.Random(3)
    text = "x" * 100_000

    for number in range(4):
        with workers(str(tmp_path), "one") as (one,):
            for key in range(20):
                one.send("create", f"{number}/{key}", text)

            for _ in range(chance.randint(0, 19)):
                assert one.answer() == "True"

            one.kill()

    found = chain.from_iterable(store.list(str(number)) for number in range(4))
    sizes = {stat.size for stat in found}

    assert sizes == {len(text)}


def spend_and_kill(place: str, endpoint: str, limit: int, rounds: int) -> tuple[int, int]:
    """Let workers spend, and kill half of them at random moments. Returns what they told of: the
    used amount, and how many were killed.
    """
    chance = random.Random(4)
    used = 0
    names = ["w0", "w1"] if endpoint else ["w0", "w1", "w2", "w3"]

    with workers(place, *names, endpoint=endpoint) as team:
        victims = chance.sample(team, len(team) // 2)
        for worker in team:
            worker.send("spend", limit, rounds)

        for worker in victims:  # a prime moment is between "drew" and "used"
            for _ in range(chance.choice((1, 3, 5))):
                used += amount_in(worker.answer())

            os.kill(worker.process.pid, signal.SIGKILL)

        for worker in team:
            while (line := worker.answer()) not in ("", "end"):
                used += amount_in(line)

    return used, len(victims)


def amount_in(line: str) -> int:
    words = line.split()
    return int(words[1]) if words[:1] == ["used"] else 0


@pytest.mark.parametrize(("kind", "limit", "rounds"), [("folder", 400, 30), ("s3", 60, 5)])
def test_processes_never_exceed_a_shared_sum_though_some_are_killed(
    tmp_path: Path, endpoint: str, kind: str, limit: int, rounds: int
) -> None:
    place = str(tmp_path) if kind == "folder" else f"s3://{BUCKET}/sum"
    told, killed = spend_and_kill(place, endpoint if kind == "s3" else "", limit, rounds)
    store: Store = opened(place, endpoint)
    used = used_after(recorded_states(store, "sums/dollars"), limit)

    # What a killed worker had drawn and not given back stays counted.
    assert told <= used <= min(told + 20 * killed, limit)

    clock = Clock()
    total = SharedSum(store, "sums/dollars", limit, Heartbeats(store, "", "late", LEASE_S, clock))

    assert total.state().used == used
    assert not total.draw(limit - used + 1)
    assert total.draw(limit - used)
    assert total.may_others_give_back()

    clock.pass_s(LEASE_S)
    assert not total.may_others_give_back()


def test_a_listing_of_many_keys_holds_one_folder_in_memory(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for number in range(KEYS):
        path = store.local_path(f"runs/{number // 100:03}/{number:05}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")

    tracemalloc.start()
    count = sum(1 for _ in store.list())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == KEYS
    assert peak < 500_000, f"{peak} bytes"
