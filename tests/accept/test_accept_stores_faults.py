"""A store behind a network that fails: nothing is lost, nothing is read in part, one write wins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ktdeval.errors import StoreError
from ktdeval.stores import MissingKey, StoreUnavailable
from ktdeval.stores.remote import FsspecStore, RequestRetries, open_remote
from ktdeval_grid.coordination.claims import ClaimBoard
from ktdeval_grid.coordination.heartbeats import Heartbeats
from ktdeval_grid.coordination.shared_sums import SharedSum
from support.stores.fault_proxy import FAULTS, Fault, Faults, fault_proxy
from support.stores.store_model import check_store
from support.stores.store_places import BUCKET, Clock, driver_options, s3_server, s3_store
from support.stores.sum_replay import recorded_states, used_after
from support.threads import in_threads

BODY = bytes(range(256)) * 40
SINGLE = ("500", "503", "429", "lost answer", "cut answer", "cut request", "slow")
each_fault = pytest.mark.parametrize("fault", SINGLE)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with s3_server() as port:
        yield port


@pytest.fixture(scope="module")
def proxied(port: int) -> Iterator[tuple[str, Faults]]:
    with fault_proxy(port) as proxied:
        yield proxied


@pytest.fixture
def faults(proxied: tuple[str, Faults]) -> Iterator[Faults]:
    faults = proxied[1]
    faults.made.clear()
    faults.requests.clear()
    faults.listings.clear()
    yield faults
    faults.choose = lambda _: None


@pytest.fixture
def url(proxied: tuple[str, Faults]) -> str:
    return proxied[0]


@pytest.fixture
def direct(port: int) -> str:
    return f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def store(proxied: tuple[str, Faults]) -> FsspecStore:
    """One store for tests of single faults, which use keys of their own."""
    return s3_store(proxied[0], "single-faults")


@pytest.mark.exhaustive
def test_s3_is_a_mapping_of_keys_to_bytes(direct: str) -> None:
    check_store(lambda: s3_store(direct), examples=3, steps=8)


@each_fault
def test_a_write_that_met_a_fault_is_made_once_and_whole(
    store: FsspecStore, faults: Faults, fault: Fault
) -> None:
    folder = f"write-{fault.replace(' ', '-')}"
    created = f"{folder}/a"
    replaced = f"{folder}/b"
    faults.once(fault, "PUT", "/a")

    assert store.create(created, BODY)
    assert not store.create(created, b"another")

    faults.once(fault, "PUT", "/b")
    store.replace(replaced, BODY)

    assert faults.made[fault] == 2
    assert store.read(created) == store.read(replaced) == BODY
    assert [found.key for found in store.list(folder)] == [created, replaced]


@each_fault
def test_a_read_that_met_a_fault_gives_the_whole_content(
    store: FsspecStore, faults: Faults, fault: Fault
) -> None:
    folder = f"read-{fault.replace(' ', '-')}"
    there = f"{folder}/a"
    missing = f"{folder}/b"
    store.replace(there, BODY)
    faults.once(fault, "GET", there)

    assert store.read(there) == BODY

    faults.once(fault, "GET", missing)

    with pytest.raises(MissingKey):
        store.read(missing)

    for key in (there, missing):
        faults.once(fault, "HEAD", key)
        assert store.exists(key) == (key == there)

    faults.once(fault, "GET", "list-type")

    assert [found.key for found in store.list(folder)] == [there]

    faults.once(fault, "DELETE")
    store.delete(there)

    assert not store.exists(there)
    assert faults.made[fault] == 6


def test_a_server_that_is_silent_is_asked_again_after_the_time_limit(
    url: str, faults: Faults
) -> None:
    store = s3_store(url, read_timeout_s=1)
    store.replace("a", BODY)
    faults.once("silence", "GET", "/a")

    assert store.read("a") == BODY

    faults.once("silence", "PUT", "/b")
    assert store.create("b", BODY)
    assert faults.made["silence"] == 2


def test_a_server_that_never_answers_is_one_typed_error(url: str, faults: Faults) -> None:
    retries = RequestRetries(attempts=3, first_s=0.001, max_s=0.01)
    store = open_remote(f"s3://{BUCKET}/x", driver_options(url), retries)
    faults.at_random(0, 1.0, ("503",))

    for method in (store.read, store.exists, store.delete):
        faults.requests.clear()
        with pytest.raises(StoreUnavailable, match="no answer after 3 attempts"):
            method("a")

        assert faults.requests.total() == 3

    with pytest.raises(StoreUnavailable):
        list(store.list())


def test_a_bucket_that_is_missing_is_never_an_empty_store(direct: str) -> None:
    store = open_remote("s3://no-such-bucket/x", driver_options(direct))
    for use in (store.read, lambda key: store.create(key, b""), lambda _: list(store.list())):
        with pytest.raises(StoreError, match="bucket does not exist") as caught:
            use("a")

        assert not isinstance(caught.value, MissingKey)


@pytest.mark.exhaustive
def test_of_many_creators_behind_a_failing_network_one_wins(url: str, faults: Faults) -> None:
    prefix = "contested"
    stores = [s3_store(url, prefix) for _ in range(3)]
    faults.in_turn(4)

    for number in range(4):
        key = f"key-{number}"
        won = in_threads(3, lambda who: stores[who].create(key, b"%d" % who))  # noqa: B023
        winners = [who for who, is_won in enumerate(won) if is_won is True]
        assert [type(is_won) for is_won in won] == [bool] * 3
        assert len(winners) == 1
        assert stores[0].read(key) == b"%d" % winners[0]

    assert faults.made["lost answer"] > 0


@pytest.mark.exhaustive
def test_nothing_is_lost_or_read_in_part_behind_a_failing_network(
    url: str, direct: str, faults: Faults
) -> None:
    store = s3_store(url, "many")
    faults.in_turn(3)
    content = {f"folder/{number}": BODY[: number * 200] for number in range(24)}

    def write_and_read(item: tuple[str, bytes]) -> bytes:
        key, data = item
        assert store.create(key, data)
        return store.read(key)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write_and_read, content.items())) == list(content.values())

    assert set(FAULTS) - {"stale"} <= set(faults.made)

    clear = s3_store(direct, "many")
    assert {found.key: clear.read(found.key) for found in clear.list()} == content


@pytest.mark.exhaustive
def test_workers_behind_a_failing_network_run_each_unit_once(
    url: str, direct: str, faults: Faults
) -> None:
    units = [f"unit-{number}" for number in range(3)]
    clock = Clock()
    boards = [ClaimBoard(s3_store(url, "grid"), "", f"w{who}", 60, clock) for who in range(2)]
    faults.at_random(3, 0.2)

    def work(who: int) -> list[str]:
        run = []
        for unit in units:
            claim = boards[who].claim(unit)
            if claim is not None and claim.finish(b"%d" % who):
                run.append(unit)

        return run

    runs = in_threads(2, work)

    assert all(isinstance(run, list) for run in runs)
    assert sorted(itertools.chain.from_iterable(runs)) == units  # type: ignore[arg-type]

    faults.choose = lambda _: None
    clear = ClaimBoard(s3_store(direct, "grid"), "", "observer", 60, clock)

    assert list(clear.done_units()) == units

    for who, run in enumerate(runs):
        assert all(clear.done_data(unit) == b"%d" % who for unit in run)  # type: ignore[attr-defined]


@pytest.mark.exhaustive
def test_a_stale_listing_never_gives_a_unit_twice(url: str, faults: Faults) -> None:
    clock = Clock()
    one, two = (ClaimBoard(s3_store(url, "stale"), "", name, 60, clock) for name in ("one", "two"))

    assert two.holder("u") is None  # this listing will be answered again
    assert one.claim("u") is not None

    faults.at_random(4, 1.0, ("stale",))
    assert two.claim("u") is None
    assert faults.made["stale"] > 0

    faults.choose = lambda _: None
    clock.pass_s(60)

    assert two.claim("u") is None

    clock.pass_s(60)
    assert two.claim("u") is not None

    faults.at_random(4, 1.0, ("stale",))
    assert one.claim("u") is None


@pytest.mark.exhaustive
def test_a_sum_behind_a_failing_network_loses_no_change(
    url: str, direct: str, faults: Faults
) -> None:
    limit = 40
    clock = Clock()
    stores = [s3_store(url, "sum") for _ in range(2)]
    totals = [
        SharedSum(stores[who], "sums/x", limit, Heartbeats(stores[who], "", f"w{who}", 60, clock))
        for who in range(2)
    ]
    faults.at_random(5, 0.15)

    def spend(who: int) -> int:
        used = 0
        for _ in range(2):
            if totals[who].draw(10):
                totals[who].give_back(3)
                used += 7

        return used

    used = in_threads(2, spend)
    faults.choose = lambda _: None

    assert [type(part) for part in used] == [int, int]

    states = recorded_states(s3_store(direct, "sum"), "sums/x")
    assert used_after(states, limit) == sum(used)  # type: ignore[arg-type]
    assert totals[0].state().used == sum(used)  # type: ignore[arg-type]


@pytest.mark.exhaustive
def test_claims_and_sums_make_few_requests(url: str, faults: Faults) -> None:
    clock = Clock()
    one, two = (ClaimBoard(s3_store(url, "costs"), "", name, 60, clock) for name in ("one", "two"))
    total = SharedSum(one.store, "sum", 100, one.beats)

    def costs(expected: int, make: Callable[[], Any]) -> Any:
        faults.requests.clear()
        result = make()
        assert faults.requests.total() == expected
        return result

    costs(6, lambda: one.store.create("a", b""))  # the first of a store
    two.store.create("b", b"")
    costs(1, lambda: one.store.create("c", b""))
    costs(2, lambda: one.store.create("c", b""))  # a key that exists
    costs(1, lambda: one.store.read("a"))
    costs(1, lambda: list(one.store.list()))
    costs(1, one.beats.beat)
    costs(3, lambda: one.claim("u"))
    costs(3, lambda: two.claim("u"))  # held by another
    clock.pass_s(60)
    claim = costs(6, lambda: two.claim("u"))  # taken over
    costs(2, claim.is_ours)
    costs(3, lambda: claim.finish(b""))
    costs(3, lambda: total.draw(10))
    costs(2, lambda: total.draw(10))
    costs(2, lambda: total.give_back(5))
    costs(1, total.state)
