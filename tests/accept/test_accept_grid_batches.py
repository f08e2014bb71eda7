"""Grids that ask in batches: the calls that all episodes make at one time are one batch, and a grid
that the system kills collects its batch again and pays it once.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls import BATCHED, read_calls
from ktdeval.testing import wait_for
from support.grid.grid_runs import (
    done_of,
    parts_of,
    start_worker,
    stub_model,
    worked,
    write_stub_plan,
)
from support.providers.repeat_plugin import PLUGIN, SAMPLES
from support.providers.stub_batches import BatchPlan
from support.providers.stub_provider import Stub, running_stub, skip_without_sdks
from support.providers.stub_runs import (
    TASK_APART,
    WIRES,
    apart,
    environment_of,
    finished,
    steps,
    untold,
)
from support.runs.run_support import ktdeval

skip_without_sdks()

EPISODES = 3
STEPS = 2
SYSTEM = "stub_react"
PLAIN = {"limit": STEPS, "cache": "run", "canary": 0, "tool_protocol": "native"}


def plan_of(folder: Path, stub: Stub, market: Path, wire: str, **changes: Any) -> Path:
    fields: dict[str, Any] = {
        "models": [stub_model(stub.base_url_of(wire), wire)],
        "max_cost": 50,
        "options": {**PLAIN, "batch": True},
    }
    return write_stub_plan(folder, stub, market, apart(EPISODES, STEPS), **{**fields, **changes})


def sizes(stub: Stub) -> list[int]:
    return [len(batch.items) for batch in stub.batches.created]


@pytest.mark.parametrize("wire", ["responses", "anthropic", "google"])
def test_killed_while_its_batch_is_worked_on_a_grid_goes_on_with_it(
    wire: str, market: Path, tmp_path: Path
) -> None:
    environment = environment_of(WIRES[wire])
    out = tmp_path / "grid"
    with running_stub() as stub:
        plan = plan_of(tmp_path / "batched", stub, market, wire)
        stub.batches.plan = BatchPlan(looks=10_000)
        worker = start_worker(plan, out, environment=environment)
        wait_for(
            lambda: bool(stub.batches.created) and stub.batches.created[0].looks > 0,
            worker.is_alive,
        )
        worker.kill()
        assert sizes(stub) == [EPISODES]
        assert not stub.requests

        stub.batches.plan = BatchPlan()
        stub.batches.created[0].looks = 10_000
        done = worked(plan, out, environment=environment)
        assert done.code == 0, done
        assert len(list(done_of(out))) == EPISODES
        assert set(stub.batches.paid.values()) == {1}
        assert not stub.requests

        run = out / "runs" / SYSTEM
        calls = list(read_calls(run))
        assert {call.outcome for call in calls} == {BATCHED}
        # the first call of each episode in the first batch, the second in the second, and so on
        by_episode = Counter(call.episode for call in calls)
        rounds = range(max(by_episode.values()))
        expected = [sum(count > index for count in by_episode.values()) for index in rounds]
        assert sizes(stub) == expected

        assert ktdeval("card", "verify", run, cwd=tmp_path).code == 0
        card = json.loads(next((run / "cards").glob("*.json")).read_text())
        assert card["cost"]["price"]["input"] == 1  # half of 2 USD a million tokens

        plain = plan_of(tmp_path / "plain", stub, market, wire, options=PLAIN)
        assert worked(plain, tmp_path / "one", environment=environment).code == 0
        assert untold(steps(run)) == untold(steps(tmp_path / "one/runs" / SYSTEM))


def test_samples_and_first_steps_of_all_episodes_are_one_batch(
    market: Path, tmp_path: Path
) -> None:
    tasks = {"tasks": ["repeat", TASK_APART]}
    with running_stub() as stub:
        plan = plan_of(tmp_path / "batched", stub, market, "responses", **tasks)
        out = tmp_path / "grid"
        environment = environment_of(WIRES["responses"])
        done = worked(plan, out, "--plugin", PLUGIN, environment=environment)
        assert done.code == 0, done
        assert sizes(stub)[0] == min(SAMPLES, STEPS) + EPISODES
        assert set(stub.batches.paid.values()) == {1}


def test_episodes_of_a_run_that_trade_make_their_calls_in_batches(
    market: Path, tmp_path: Path
) -> None:
    words = ("--batch", "--canary", 0, "--tool-protocol", "native", *apart(EPISODES, STEPS)[:-2])
    with running_stub() as stub:
        out = finished(WIRES["responses"], stub, tmp_path / "run", market, *words)
        assert sizes(stub)[0] == EPISODES
        assert set(stub.batches.paid.values()) == {1}
        assert not stub.requests
        assert ktdeval("card", "verify", out, cwd=tmp_path).code == 0


def test_a_worker_does_not_pay_for_what_is_in_the_batches_of_another(
    market: Path, tmp_path: Path
) -> None:
    out = tmp_path / "grid"
    with running_stub() as stub:
        plan = plan_of(tmp_path / "batched", stub, market, "responses")
        stub.batches.plan = BatchPlan(looks=10_000)
        environment = environment_of(WIRES["responses"])
        first = start_worker(plan, out, environment=environment)
        wait_for(lambda: bool(stub.batches.created), first.is_alive)
        second = worked(plan, out, environment=environment)
        assert second.code == 2
        assert f"its batches are those of the worker {parts_of(out)[0].parent.name}" in second.err
        assert len(stub.batches.created) == 1
        first.kill()
