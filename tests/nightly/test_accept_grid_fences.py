"""A worker of a grid is held in the middle of its calls, as one that was paused, while another
process takes over what it holds. When it goes on, it asks nothing more: what was on its way is paid
twice, and nothing else.

No clock decides: the stub holds the answers, and the taker says that the first worker has ended.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ktdeval.testing import wait_for
from support.grid.grid_runs import done_of, done_records, start_worker, write_stub_plan
from support.providers.stub_provider import Stub, running_stub, skip_without_sdks
from support.providers.stub_runs import WIRES, apart, environment_of, finished
from support.runs.run_support import Running, assert_same, ktdeval

skip_without_sdks()

EPISODES = 2
STEPS = 3
LONG_LEASE = ("--lease", 600)  # longer than any test: nobody is silent for so long
TAKE_OVER = """
import sys
from ktdeval.stores import open_store
from ktdeval_grid.coordination.claims import ClaimBoard
out, worker = sys.argv[1:]
store = open_store(out)
board = ClaimBoard(store, "", worker, 600.0, previous_ended=True)
for unit in sorted({stat.key.split("/")[1] for stat in store.list("claims")}):
    claim = board.claim(unit)
    if claim is not None and claim.generation > 1:
        print(unit)
        claim.release()
"""


def wait_until_held(stub: Stub, requests: int, workers: list[Running]) -> None:
    wait_for(
        lambda: stub.held >= requests,
        lambda: all(worker.is_alive() for worker in workers),
    )


def take_over(out: Path) -> list[str]:
    """Take over, in a process of its own, all that the only worker holds, and free it; return the
    names.
    """
    (worker,) = (path.name for path in (out / "parts").iterdir())
    command = [sys.executable, "-c", TAKE_OVER, str(out), worker]

    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


CALLS = 26  #: of the whole grid: 2 checks of tools, 2 + 2 fixed questions, 20 of episodes


@pytest.mark.parametrize(
    ("held_after", "jobs"),
    [
        pytest.param(0, {"open"}, id="a check of tools"),
        pytest.param(2, {"start.stub_react", "EPISODE"}, id="the first questions"),
        pytest.param(16, {"EPISODE"}, id="steps"),
        pytest.param(CALLS - 2, {"gather.stub_react"}, id="the last questions"),
    ],
)
def test_a_worker_that_was_taken_over_asks_nothing_more(
    market: Path, tmp_path: Path, held_after: int, jobs: set[str]
) -> None:
    out = tmp_path / "grid"
    environment = environment_of(WIRES["chat"])
    with running_stub(hold_after=held_after) as stub:
        plan = write_stub_plan(tmp_path, stub, market, apart(EPISODES, STEPS), concurrency=8)
        paused = start_worker(plan, out, *LONG_LEASE, environment=environment)
        in_flight = len(jobs) + ("EPISODE" in jobs) * (EPISODES - 1)
        wait_until_held(stub, in_flight, [paused])
        taken = take_over(out)
        assert {name if "." in name or name == "open" else "EPISODE" for name in taken} == jobs
        assert len(taken) == in_flight

        other = start_worker(plan, out, *LONG_LEASE, environment=environment)
        wait_until_held(stub, 2 * in_flight, [paused, other])
        stub.go_on()
        ends = [paused.wait(), other.wait()]
        assert [end.code for end in ends] == [0, 0], ends

        # each call that was on its way when it was taken over was asked once more, and no other
        assert stub.answers == CALLS + in_flight
        assert stub.counts == Counter(answered=CALLS + in_flight)
        assert len(done_records(out)) == EPISODES
        _, second = sorted(path.name for path in (out / "parts").iterdir())
        if "EPISODE" in jobs:
            assert {record["worker"] for record in done_of(out)} == {second}

        words = (*apart(EPISODES, STEPS), "--canary", 1)
        whole = finished(WIRES["chat"], stub, tmp_path / "whole", market, *words)

    assert_same(out / "runs" / "stub_react", whole)
    verified = ktdeval("card", "verify", out / "runs" / "stub_react", cwd=tmp_path)

    assert verified.code == 0, verified
