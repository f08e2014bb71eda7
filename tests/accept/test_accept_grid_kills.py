"""Workers of a grid are killed at random moments: nothing is lost, no finished episode runs again,
and no paid call is asked twice. `KTDEVAL_GRID_KILLS` says how often; a few times by default.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from ktdeval.testing import is_met
from support.grid.grid_runs import (
    done_records,
    parts_of,
    recorded_answers,
    start_worker,
    write_stub_plan,
)
from support.providers.stub_provider import Stub, running_stub, skip_without_sdks
from support.providers.stub_runs import WIRES, apart, environment_of, finished
from support.runs.run_support import Running, assert_same, ktdeval, start

skip_without_sdks()

KILLS = int(os.environ.get("KTDEVAL_GRID_KILLS", "3"))
STEPS = 4
EPISODES = min(8 + 2 * KILLS, 36)
AT_ONCE = 4
WORKERS = 2
REPEATED = 3  #: the one fixed question is asked twice at the start and twice at the end


def assert_paid_once(stub: Stub, out: Path, kills: int) -> None:
    """Each answer that reached a disk was paid once; those on their way to a killed worker are
    asked again.
    """
    again = sum(times - 1 for times in stub.answered_twice.values()) - REPEATED

    assert stub.answers == len(recorded_answers(out)) + again
    assert again <= kills * AT_ONCE


def wait_for_answers(stub: Stub, more: int, processes: list[Running]) -> None:
    goal = stub.answers + more
    is_met(
        lambda: stub.answers >= goal,
        lambda: any(process.is_alive() for process in processes),
    )


def test_killed_workers_lose_nothing_and_no_paid_call_is_asked_twice(
    market: Path, port: int, tmp_path: Path
) -> None:
    out = tmp_path / "grid"
    chance = random.Random(20260605)
    environment = environment_of(WIRES["chat"])
    before: dict[str, bytes] = {}

    with running_stub(port=port, latency_s=0.02) as stub:
        plan = write_stub_plan(tmp_path, stub, market, apart(EPISODES, STEPS), concurrency=AT_ONCE)
        workers: list[Running] = []
        kills = 0
        while kills < KILLS:
            workers = [each for each in workers if each.is_alive()]
            while len(workers) < WORKERS:
                workers.append(start_worker(plan, out, environment=environment))

            wait_for_answers(stub, chance.randrange(1, 12), workers)
            time.sleep(chance.uniform(0, 0.03))
            victim = chance.choice(workers)
            if victim.is_alive():
                victim.signal(signal.SIGKILL)
                victim.wait()

            workers.remove(victim)
            kills += 1

            done = done_records(out)
            assert before.items() <= done.items()
            before = done

        last = start_worker(plan, out, environment=environment)
        assert last.wait().code == 0
        for each in workers:
            assert each.wait().code == 0

        assert_paid_once(stub, out, KILLS)
        assert len(done_records(out)) == EPISODES

        whole = finished(
            WIRES["chat"], stub, tmp_path / "whole", market, *apart(EPISODES, STEPS), "--canary", 1
        )

    assert_same(out / "runs" / "stub_react", whole)
    verified = ktdeval("card", "verify", out / "runs" / "stub_react", cwd=tmp_path)

    assert verified.code == 0, verified
    assert len(parts_of(out)) >= WORKERS


@pytest.mark.exhaustive
def test_a_killed_launch_ends_its_workers_and_the_same_command_goes_on(
    market: Path, tmp_path: Path
) -> None:
    out = tmp_path / "grid"
    chance = random.Random(20260606)
    environment = environment_of(WIRES["chat"])
    kills = max(1, KILLS // 6)
    episodes = 4 + 2 * kills

    with running_stub(latency_s=0.02) as stub:
        plan = write_stub_plan(tmp_path, stub, market, apart(episodes, STEPS), concurrency=AT_ONCE)
        words = ("grid", plan, "--out", out, "--workers", WORKERS, "--yes")
        for _ in range(kills):
            driver = start(*words, cwd=tmp_path, environment=environment)
            wait_for_answers(stub, chance.randrange(6, 16), [driver])
            driver.signal(signal.SIGKILL)
            driver.wait()

        last = start(*words, cwd=tmp_path, environment=environment).wait()
        assert last.code == 0, last
        # nobody killed a worker: each has recorded its answers, and stopped between steps
        assert_paid_once(stub, out, 0)
        assert len(done_records(out)) == episodes
