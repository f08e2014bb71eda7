"""A provider that never answers, or refuses every call, holds its own places of a grid and no
other's. No clock decides: the silent provider is let go when the others are done.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.testing import wait_for
from support.grid.grid_runs import done_of, start_worker, stub_model, write_stub_plan
from support.providers.stub_provider import FaultPlan, running_stub, skip_without_sdks
from support.providers.stub_runs import WIRES, apart, environment_of

skip_without_sdks()

EPISODES = 4
STEPS = 2
AT_ONCE = 4


def done_by(out: Path, label: str) -> int:
    return sum(record["system"] == f"{label}_react" for record in done_of(out))


@pytest.mark.parametrize("how", ["silent", "refusing"])
def test_units_of_a_quick_provider_are_done_while_a_slow_one_waits(
    market: Path, tmp_path: Path, how: str
) -> None:
    out = tmp_path / "grid"
    storm = FaultPlan(faults=("rate_limited",), every=1, attempts=10**9)
    with running_stub(hold_after=0) as slow, running_stub() as quick:
        if how == "refusing":
            slow.go_on()
            slow.plan = storm

        plan = write_stub_plan(
            tmp_path,
            quick,
            market,
            apart(EPISODES, STEPS),
            models=[
                stub_model(slow.base_url, label="slow"),
                stub_model(quick.base_url, label="quick"),
            ],
            concurrency=AT_ONCE,
            options={"limit": STEPS, "cache": "run", "canary": 1, "tool_protocol": "native"},
        )
        worker = start_worker(plan, out, environment=environment_of(WIRES["chat"]))
        wait_for(lambda: done_by(out, "quick") >= EPISODES, worker.is_alive)
        assert done_by(out, "slow") == 0
        if how == "refusing":
            return  # it waits longer after each refusal

        slow.go_on()
        end = worker.wait()
        assert end.code == 0, end
        assert (done_by(out, "slow"), done_by(out, "quick")) == (EPISODES, EPISODES)
