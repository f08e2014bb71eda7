"""Grids by one worker, two workers, or processes of a runner: the same ledgers, transcripts and cards,
equal to those of `ktdeval run`. What is added to a plan runs alone; a model that fails holds up no
other; two workers together never exceed the budget.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from ktdeval.registry import load_plugins
from ktdeval.stores import LocalStore
from ktdeval.task_api import WorkerJob
from ktdeval.testing import free_port
from ktdeval_grid.launch.launch_workers import start_workers, wait_for
from ktdeval_grid.state.status import look, reader_of
from support.grid.grid_runs import (
    cost_usd,
    done_records,
    episodes_by_worker,
    start_worker,
    stub_model,
    words_of,
    worked,
    write_plan,
    write_stub_plan,
)
from support.providers.stub_provider import running_stub, skip_without_sdks
from support.providers.stub_runs import TASK_APART, WIRES, apart, environment_of
from support.runs.run_support import (
    PLUGIN,
    SAME_MASK,
    TASK,
    WINDOW,
    assert_same,
    error_line,
    ktdeval,
)

MODELS = ("builtin/momentum", "builtin/reversal")
SLUGS = ("builtin-momentum_react", "builtin-reversal_react")
LIMIT = 3


def plan_of(market: Path, path: Path, **changes: Any) -> Path:
    fields = {
        "models": list(MODELS),
        "tasks": [TASK],
        "windows": [WINDOW],
        "seeds": 2,
        "data": str(market),
        "options": {"limit": LIMIT},
    }
    return write_plan(path, **{**fields, **changes})


@pytest.fixture(scope="module")
def whole(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid that one worker has run."""
    folder = tmp_path_factory.mktemp("whole")
    assert worked(plan_of(market, folder / "plan.yaml"), folder / "grid").code == 0
    return folder / "grid"


def assert_same_grids(grid: Path, other: Path) -> None:
    for slug in SLUGS:
        assert_same(grid / "runs" / slug, other / "runs" / slug)


@pytest.mark.exhaustive
def test_a_system_of_a_grid_is_the_run_that_ktdeval_run_makes(
    whole: Path, market: Path, tmp_path: Path
) -> None:
    words = ("--model", MODELS[0], "--tasks", TASK, "--windows", WINDOW, "--seeds", 2)
    limits = ("--data", market, "--limit", LIMIT, "--quiet", *SAME_MASK)

    assert ktdeval(*words, *limits, "--out", tmp_path / "run", cwd=tmp_path).code == 0

    assert_same(whole / "runs" / SLUGS[0], tmp_path / "run")
    verified = ktdeval("card", "verify", whole / "runs" / SLUGS[0], cwd=tmp_path)

    assert verified.code == 0, verified


def test_two_workers_share_a_grid_and_no_episode_runs_twice(
    whole: Path, market: Path, tmp_path: Path
) -> None:
    plan = plan_of(market, tmp_path / "plan.yaml")
    out = tmp_path / "grid"
    workers = [start_worker(plan, out) for _ in range(2)]

    assert [worker.wait().code for worker in workers] == [0, 0]

    assert_same_grids(out, whole)
    by_worker = episodes_by_worker(out)
    finished = list(chain.from_iterable(by_worker.values()))

    assert sorted(finished) == sorted(done_records(out))


@pytest.mark.exhaustive
def test_processes_of_the_local_runner_make_the_same_grid(
    whole: Path, market: Path, tmp_path: Path
) -> None:
    out = tmp_path / "grid"
    words = words_of(plan_of(market, tmp_path / "plan.yaml"), out)
    job = WorkerJob(tuple(map(str, words)), workers=2, logs=str(tmp_path / "logs"))
    codes = wait_for(start_workers(load_plugins(), "local", job))
    logs = [path.read_text() for path in sorted((tmp_path / "logs").iterdir())]

    assert codes == [0, 0], logs

    assert_same_grids(out, whole)


def test_a_plan_that_changes_what_a_grid_keeps_is_refused(
    whole: Path, market: Path, tmp_path: Path
) -> None:
    other = plan_of(market, tmp_path / "plan.yaml", options={"limit": LIMIT + 1})
    before = done_records(whole)
    assert "limit" in error_line(worked(other, whole))
    assert done_records(whole) == before


@pytest.mark.exhaustive
def test_a_model_that_fails_holds_up_no_other_and_runs_once_it_answers(
    market: Path, tmp_path: Path
) -> None:
    skip_without_sdks()
    port = free_port()
    out = tmp_path / "grid"
    plan = plan_of(
        market,
        tmp_path / "plan.yaml",
        models=[MODELS[0], stub_model(f"http://127.0.0.1:{port}/v1")],
        tasks=[TASK_APART],
        seeds=1,
        options={"limit": LIMIT, "max_retries": 1, "cache": "run"},
    )
    environment = environment_of(WIRES["chat"])
    done = worked(plan, out, environment=environment)

    assert done.code != 0
    assert "stub_react" in done.err
    assert (out / "runs" / SLUGS[0] / "cards" / f"{TASK_APART}.json").exists()

    with running_stub(port=port):
        assert worked(plan, out, environment=environment).code == 0

    assert (out / "runs" / "stub_react" / "cards" / f"{TASK_APART}.json").exists()


def test_two_workers_together_never_spend_more_than_the_budget(
    market: Path, tmp_path: Path
) -> None:
    skip_without_sdks()
    limit_usd = 0.4
    environment = environment_of(WIRES["chat"])
    out = tmp_path / "grid"

    with running_stub(latency_s=0.01) as stub:
        plan = write_stub_plan(
            tmp_path,
            stub,
            market,
            apart(12, LIMIT),
            concurrency=4,
            max_cost=limit_usd,
            options={"limit": LIMIT, "cache": "run", "canary": 0, "max_output_tokens": 200},
        )
        workers = [start_worker(plan, out, environment=environment) for _ in range(2)]
        ends = [each.wait() for each in workers]
        assert all(end.code != 0 for end in ends), ends
        assert any("--max-cost" in end.err for end in ends), ends
        assert limit_usd / 4 < cost_usd(out) <= limit_usd
        assert len(done_records(out)) < 12
        shown = look(reader_of(LocalStore(out)))[1].total
        assert shown.cost_usd == pytest.approx(cost_usd(out))  # unfinished episodes included


def test_a_worker_of_other_code_is_refused_before_its_first_unit(
    market: Path, tmp_path: Path
) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN.read_text())
    out = tmp_path / "grid"
    plan = plan_of(
        market,
        tmp_path / "plan.yaml",
        models=[MODELS[0]],
        tasks=[TASK_APART],
        seeds=2,
    )
    words = ("--plugin", plugin)

    assert worked(plan, out, *words).code == 0

    done = done_records(out)

    for path in (out / "done").glob("*.json"):
        if path.stem in done:
            path.unlink()  # as if another machine's worker were to run them

    plugin.write_text(PLUGIN.read_text() + "\nCHANGED = True\n")
    refused = start_worker(
        plan, out, *words
    ).wait()  # a process that has not imported the first one
    line = error_line(refused)

    assert "this worker's code is not the grid's: mine" in line
    assert "install the same versions" in line
    assert done_records(out) == {}
