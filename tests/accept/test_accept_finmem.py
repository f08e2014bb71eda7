"""The agent `finmem` in whole runs: killed and resumed, traced over 200 steps, verified, and on tasks of other kinds."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from finmem_slow import compare_trace
from run_support import PLUGIN, SAME_MASK, episodes, ktdeval, records
from searching import is_searching
from tables import on_each_row

STEPS, DIES_AFTER = 214, 201
RESUMED = {"finmem", "generative_agents"}  # between them all kinds of layers
AGENT = ("--plugin", PLUGIN, "--model", "test/naming", "--agent", "finmem", *SAME_MASK)


def words(parameters: str, task: str, data: str, out: Path, *more: str) -> tuple[Any, ...]:
    return (*AGENT, "--agent-args", f"parameters={parameters}", "--tasks", task, "--data", data, "--out", out, *more)


@pytest.mark.parametrize("parameters", ["paper", "finmem", "investorbench", "generative_agents"])
def test_killed_after_200_steps_it_remembers_as_plain_loops_and_resumed_it_equals_an_uninterrupted_run(
    parameters: str, tmp_path: Path
) -> None:
    told = (parameters, "investorbench_btc", "synthetic_investorbench")
    died = ktdeval(*words(*told, tmp_path / "run"), cwd=tmp_path, environment={"RUN_PLUGIN_DIE_AFTER_STEP": str(DIES_AFTER)})
    assert died.code == -signal.SIGKILL
    entries = journal(tmp_path / "run")
    trace = [entry["memory"]["memory"] for entry in entries]
    if parameters in RESUMED or is_searching():
        assert ktdeval(*words(*told, tmp_path / "whole"), cwd=tmp_path).code == 0
        done = ktdeval(*words(*told, tmp_path / "run"), cwd=tmp_path)
        assert done.code == 0, done
        assert f"resuming after {DIES_AFTER + 1} of {STEPS} steps" in done.err
        assert records(tmp_path / "run") == records(tmp_path / "whole")
        assert ktdeval("card", "verify", tmp_path / "run", "--plugin", PLUGIN, cwd=tmp_path).code == 0

    compare_trace(parameters, entries)  # every memory at every step, against plain loops
    counts = trace[-1]["counts"]
    print(parameters, len(trace), "steps:", counts, {layer: len(held) for layer, held in trace[-1]["layers"].items()})
    assert len(trace) == DIES_AFTER + 1
    if parameters == "generative_agents":
        assert counts.keys() <= {"added", "near_equal"}
    else:
        assert min(counts[what] for what in ("purged", "promoted", "demoted", "credited")) > 0
    assert counts["added"] - counts.get("purged", 0) == sum(len(held) for held in trace[-1]["layers"].values())
    for before, after in zip(trace, trace[1:], strict=False):  # noqa: RUF007
        assert all(after["counts"][what] >= count for what, count in before["counts"].items())


@pytest.mark.parametrize("parameters", ["paper", "investorbench"])
def test_filings_go_through_the_deep_layers_as_in_plain_loops(parameters: str, tmp_path: Path) -> None:
    told = words(parameters, "investorbench_msft", "synthetic_investorbench", tmp_path / "run")
    assert ktdeval(*told, cwd=tmp_path, environment={"RUN_PLUGIN_DIE_AFTER_STEP": "140"}).code == -signal.SIGKILL
    entries = journal(tmp_path / "run")
    slow = compare_trace(parameters, entries)
    print(parameters, "with filings", len(entries), "steps:", dict(slow.counts))
    assert any(entry["memory"]["memory"]["layers"]["mid"] for entry in entries)


def journal(run: Path) -> list[Any]:
    """Entries of the journal of a run that was killed."""
    (episode,) = episodes(run)
    return [json.loads(line) for line in (episode / "journal.jsonl").read_text().splitlines()]


@on_each_row
def test_it_runs_tasks_of_other_kinds(task: str, data: str, tmp_path: Path) -> None:
    done = ktdeval(*words("finmem", task, data, tmp_path / "run", "--limit", "5"), cwd=tmp_path)
    assert done.code == 0, done
    assert ktdeval("card", "verify", tmp_path / "run", "--plugin", PLUGIN, cwd=tmp_path).code == 0
    for path in (tmp_path / "run" / "cards").glob("*.json"):
        assert json.loads(path.read_text())["decisions"]["model"] == 5
