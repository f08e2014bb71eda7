"""Runs on an S3 server, killed at any write and resumed by a machine with an empty disk: nothing is
lost, nothing is done or paid twice, and what is left is what an undisturbed run leaves.

`KTDEVAL_TEST_KILLS=30` kills more often.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval.calls.records.record import ANSWERED
from ktdeval.runner.records.run_claim import OWNER
from ktdeval.stores import open_store
from ktdeval.testing import wait_for
from support.providers.stub_provider import Stub, running_stub, skip_without_sdks
from support.providers.stub_runs import WIRES, apart, book, environment_of, finished, words_of
from support.runs.run_support import Running, assert_same, error_line, local_copy, preload, start
from support.runs.s3_place import Asked, S3Place, running_s3, skip_without_s3
from support.stores.fault_proxy import FAULTS, fault_proxy
from support.stores.forgotten_mirrors import mirrors_forgotten

skip_without_sdks()
skip_without_s3()

preload("s3fs", "ktdeval.stores.remote", "ktdeval.runner.records.run_claim")

KILLS = int(os.environ.get("KTDEVAL_TEST_KILLS", "1"))
STEPS = 3
EPISODES = 2
WORDS = (*apart(EPISODES, STEPS), "--canary", 0, "--concurrency", 1)
WIRE = WIRES["chat"]


class Machine:
    """A machine whose disk is empty at first."""

    def __init__(self, disk: Path, place: S3Place) -> None:
        self.disk = disk
        disk.mkdir()
        self.environment = {
            **environment_of(WIRE),
            **place.environment,
            "KTDEVAL_CACHE_DIR": str(disk / "cache"),
        }

    def start(self, stub: Stub, url: str, market: Path, *words: object) -> Running:
        """Begin or resume the run."""
        command = words_of(WIRE, stub, "--data", market, "--out", url, *words)
        return start(*command, cwd=self.disk, environment=self.environment)

    def lose_disk(self, url: str) -> None:
        """Another machine goes on, as a person has let it."""
        shutil.rmtree(self.disk / "cache", ignore_errors=True)
        open_store(url).delete(OWNER)


@pytest.fixture
def place() -> Iterator[S3Place]:
    with running_s3() as server:
        yield server


@pytest.fixture
def stub(whole: tuple[Path, int]) -> Iterator[Stub]:
    """On the port of the undisturbed run: an episode on another server is another episode."""
    with running_stub(port=whole[1]) as server:
        yield server


@pytest.fixture(scope="module")
def whole(market: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A run in a folder that nothing interrupts, and the port of the provider."""
    with running_stub() as server:
        folder = finished(WIRE, server, tmp_path_factory.mktemp("whole") / "run", market, *WORDS)
        assert not server.answered_twice
        return folder, server.port


@pytest.fixture
def read(
    place: S3Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    """This process reads the runs as a further machine."""
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)

    monkeypatch.setenv("KTDEVAL_CACHE_DIR", str(tmp_path / "reader"))
    with mirrors_forgotten():
        yield monkeypatch


def kill_at(place: S3Place, process: Running, write: int, moment: str) -> list[Asked]:
    """Kill a process at its n-th write from now on, before or after the store has it; return the
    list in which that write then is.
    """
    killed: list[Asked] = []
    left = [write]

    def strike(asked: Asked) -> bool:
        left[0] -= 1
        if left[0] == 0:
            process.signal(signal.SIGKILL)
            killed.append(asked)

        return left[0] <= 0

    setattr(place, moment, strike)

    return killed


@pytest.mark.sampled(1)
@pytest.mark.timeout(300 + 60 * KILLS)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_any_write_it_resumes_with_an_empty_disk(
    place: S3Place,
    stub: Stub,
    whole: tuple[Path, int],
    market: Path,
    tmp_path: Path,
    read: pytest.MonkeyPatch,
    moment: str,
) -> None:
    chance = random.Random(f"kills {moment}")
    machine = Machine(tmp_path / "machine", place)
    url = place.url(f"killed-{moment}")  # servers of one process share what they hold
    lost = kills = 0

    for _ in range(KILLS):
        process = machine.start(stub, url, market, *WORDS)
        killed = kill_at(place, process, chance.randint(1, 14), moment)
        code = process.wait().code
        place.calm()
        if code == 0:
            break

        assert code == -signal.SIGKILL
        kills += 1
        lost += sum(asked.key.endswith(".bin") for asked in killed)
        machine.lose_disk(url)

    assert kills > 0

    done = machine.start(stub, url, market, *WORDS).wait()
    assert done.code == 0, done

    run = local_copy(url)
    assert_same(run, whole[0])

    answered = Counter(
        (call.episode, call.step, call.key) for call in book(run) if call.outcome == ANSWERED
    )

    assert set(answered.values()) == {1}

    # A reply that was paid twice is one that the process could not put before it was killed.
    paid_twice = sum(stub.answered.values()) - len(stub.answered)
    assert paid_twice == lost if moment == "before" else paid_twice == 0


@pytest.mark.exhaustive
def test_a_network_that_breaks_every_fourth_request_changes_nothing(
    place: S3Place,
    stub: Stub,
    whole: tuple[Path, int],
    market: Path,
    tmp_path: Path,
    read: pytest.MonkeyPatch,
) -> None:
    machine = Machine(tmp_path / "machine", place)
    url = place.url("flaky")
    with fault_proxy(place.port) as (address, faults):
        # Listings that are out of date are left out: stores promise that there are none.
        kinds = tuple(fault for fault in FAULTS if fault != "stale")
        faults.in_turn(4, kinds)
        machine.environment["AWS_ENDPOINT_URL"] = address
        done = machine.start(stub, url, market, *WORDS).wait()
        assert done.code == 0, done
        assert set(faults.made) == set(kinds)

    assert_same(local_copy(url), whole[0])

    assert not stub.answered_twice


@pytest.mark.exhaustive
def test_a_run_is_one_machine_s_until_a_person_takes_it_over(
    place: S3Place, market: Path, whole: tuple[Path, int], tmp_path: Path, read: pytest.MonkeyPatch
) -> None:
    first = Machine(tmp_path / "first", place)
    second = Machine(tmp_path / "second", place)
    url = place.url("shared")

    with running_stub(port=whole[1], hold_after=3) as stub:
        process = first.start(stub, url, market, *WORDS)
        wait_for(lambda: stub.held > 0, process.is_alive)
        refused = second.start(stub, url, market, *WORDS).wait()
        assert "is running this" in error_line(refused)
        process.signal(signal.SIGKILL)
        process.wait()
        stub.go_on()
        refused = second.start(stub, url, market, *WORDS).wait()
        assert f"delete {url}/{OWNER} to take the run over" in error_line(refused)
        open_store(url).delete(OWNER)
        done = second.start(stub, url, market, *WORDS).wait()
        assert done.code == 0, done
        assert_same(local_copy(url), whole[0])
        assert not stub.answered_twice
