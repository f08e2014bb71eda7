"""A worker of a grid in this process: what it records of the plan, of each unit and of its own end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import ktdeval
from ktdeval.calls.records.call_log import read_calls
from ktdeval.errors import BudgetError, EpisodeFailure, StoreError
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.registry import load_plugins
from ktdeval.stores import LocalStore
from ktdeval.testing import on_each_row
from ktdeval.values import decode_json, encode_canonical
from ktdeval_grid.planning.plan import GridPlan, plan_of
from ktdeval_grid.state.grid_control import change_control, drop_model
from ktdeval_grid.state.layout import open_place
from ktdeval_grid.state.records import GridRecord, UnitFailed, failed_key
from ktdeval_grid.state.status import look, reader_of
from ktdeval_grid.workers.open_grid import read_record
from ktdeval_grid.workers.worker_session import (
    GridSession,
    WorkerOptions,
    WorkerReport,
    check_report,
    failed_units,
)
from support.grid.grid_runs import done_of, parts_of
from support.providers.stub_provider import Stub, running_stub, skip_without_sdks
from support.providers.stub_runs import TASK_APART, WIRES, environment_of
from support.runs.run_support import MASK_KEY, PLUGIN, TASK

pytestmark = pytest.mark.slow

WINDOW = "2024-03-01:2024-03-08"
HOLD = "builtin-hold_react"
MIXED = "test-mixed_react"
STUB = "stub_react"


def small(market: Path, **changes: Any) -> GridPlan:
    """A plan of one unit of one step, of a model that holds."""
    fields = {
        "models": ["builtin/hold"],
        "tasks": [TASK],
        "windows": [WINDOW],
        "data": str(market),
        "options": {"limit": 1},
        "mask_key": MASK_KEY,
    }
    return plan_of({**fields, **changes}, "plan")


def worked(plan: GridPlan, out: Path, **options: Any) -> WorkerReport:
    """Work on a grid in this process, to its end."""
    session = GridSession(WorkerOptions(plan, str(out), **options), load_plugins(plan.plugin))
    return session.run()


def record_of(out: Path) -> GridRecord:
    record = read_record(open_place(out))
    assert record is not None
    return record


def begin_with(record: GridRecord, out: Path) -> Path:
    """Begin a grid by a record made by hand."""
    LocalStore(out).replace("grid.json", encode_canonical(record).encode())
    return out


def jobs_done(out: Path) -> list[str]:
    """Jobs that are recorded as done, by the words before their hashes."""
    names = [path.stem for path in (out / "done").iterdir() if len(path.stem) != 20]
    return sorted(".".join(name.split(".")[:2]) for name in names)


@pytest.fixture(scope="module")
def whole(market: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, WorkerReport]:
    """A grid of two models, of which a rule prunes no cell, that one worker has run."""
    out = tmp_path_factory.mktemp("whole") / "grid"
    models = ["builtin/hold", "test/mixed"]
    plan = small(market, models=models, options={"limit": 2}, plugin=[str(PLUGIN)])

    return out, worked(plan, out)


# ---- what a worker leaves


def test_a_worker_reports_the_units_of_its_grid_and_what_it_paid(
    whole: tuple[Path, WorkerReport],
) -> None:
    out, report = whole
    (name,) = (path.name for path in (out / "parts").iterdir())

    assert report == WorkerReport(out, name, planned=2, done=2, failed=0, problems=())

    check_report(report)

    # Units of a free model have nothing to pay.
    paid = json.loads((out / "paid" / f"{name}.json").read_text())
    assert paid == {"usd": {HOLD: {}, MIXED: {}}}


def test_a_done_unit_is_recorded_with_its_steps_worker_and_cost(
    whole: tuple[Path, WorkerReport],
) -> None:
    out, report = whole
    by_system = {entry["system"]: entry for entry in done_of(out)}

    assert by_system.keys() == {HOLD, MIXED}
    assert {entry["steps"] for entry in by_system.values()} == {2}
    assert {entry["worker"] for entry in by_system.values()} == {report.name}
    assert {entry["generation"] for entry in by_system.values()} == {1}
    assert by_system[HOLD]["cost_usd"] == 0.0
    assert by_system[MIXED]["cost_usd"] is None  # a model of a plugin may bill


def test_a_run_is_gathered_of_each_system_and_has_its_card(
    whole: tuple[Path, WorkerReport],
) -> None:
    out, _ = whole

    assert jobs_done(out) == sorted(
        ["open", f"gather.{HOLD}", f"card.{HOLD}", f"gather.{MIXED}", f"card.{MIXED}"]
    )

    for slug in (HOLD, MIXED):
        card = json.loads((out / "runs" / slug / "cards" / f"{TASK}.json").read_text())
        assert [episode["steps"] for episode in card["episodes"]] == [2]


def test_a_grid_is_recorded_with_its_key_market_code_and_units(
    whole: tuple[Path, WorkerReport], market: Path
) -> None:
    out, report = whole
    record = record_of(out)

    assert (record.mask_key, record.plan.mask_key) == (MASK_KEY, MASK_KEY)
    assert record.snapshot == load_snapshot(market).id
    assert record.suite == ktdeval.__version__
    assert {"ktdeval", "ktdeval_grid", "run_plugin"} <= record.code.keys()

    first, second = record.systems
    assert (first.slug, first.model, first.agent) == (HOLD, "builtin-hold", "react")
    assert (first.checked_by, second.checked_by) == (report.name, report.name)
    assert (first.problem, first.needed, first.pruned) == (None, None, ())

    (unit,) = first.units
    assert (unit.task, unit.window, unit.seed) == (TASK, WINDOW, 0)
    assert first.price is not None
    assert (first.price.input, second.price) == (0.0, None)


# ---- going on


def test_a_grid_that_is_done_runs_nothing_again(
    whole: tuple[Path, WorkerReport], market: Path
) -> None:
    out, report = whole
    before = {path: path.read_bytes() for path in (out / "done").iterdir()}

    again = worked(record_of(out).plan, out)

    assert again == report
    assert {path: path.read_bytes() for path in (out / "done").iterdir()} == before


@pytest.mark.exhaustive
def test_an_amended_plan_keeps_the_key_the_time_and_what_is_done(
    market: Path, tmp_path: Path
) -> None:
    assert worked(small(market, mask_key=None), tmp_path).done == 1

    begun = record_of(tmp_path)

    report = worked(small(market, mask_key=None, seeds=2), tmp_path)

    grown = record_of(tmp_path)

    assert (report.planned, report.done) == (2, 2)
    assert len(grown.mask_key) == 32
    assert (grown.mask_key, grown.begun_at) == (begun.mask_key, begun.begun_at)
    assert grown.snapshot == begun.snapshot
    assert [path.name for path in (tmp_path / "plans").iterdir()] == ["0001.json"]
    assert [unit.seed for _, unit in grown.units()] == [0, 1]


def test_another_market_is_refused_and_the_grid_stays(market: Path, tmp_path: Path) -> None:
    worked(small(market), tmp_path)
    begin_with(structs.replace(record_of(tmp_path), snapshot="f" * 64), tmp_path)

    with pytest.raises(StoreError) as refused:
        worked(small(market, seeds=2), tmp_path)

    ours = load_snapshot(market).id[:12]
    assert f"{HOLD}: the market is snapshot {ours} now" in str(refused.value)
    assert "with ffffffffffff; give the same data, or choose another --out" in str(refused.value)
    assert not (tmp_path / "plans").exists()


def test_a_worker_with_another_market_runs_no_unit(market: Path, tmp_path: Path) -> None:
    worked(small(market), tmp_path / "grid")
    record = structs.replace(record_of(tmp_path / "grid"), snapshot="f" * 64)

    report = worked(small(market), begin_with(record, tmp_path / "other"))

    assert (report.done, report.failed, report.is_stopped) == (0, 1, False)
    assert f"{HOLD}: {HOLD}: the market here is snapshot " in report.problems[0]
    assert "that of the grid ffffffffffff; give all workers the same data" in report.problems[0]


def test_a_worker_whose_episodes_have_other_ids_runs_no_unit(market: Path, tmp_path: Path) -> None:
    worked(small(market), tmp_path / "grid")
    record = record_of(tmp_path / "grid")
    (system,) = record.systems
    (unit,) = system.units
    system = structs.replace(system, units=(structs.replace(unit, id="0" * 20),))
    record = structs.replace(record, systems=(system,))

    report = worked(small(market), begin_with(record, tmp_path / "other"))

    assert (report.done, report.failed) == (0, 1)
    assert f"{TASK} {WINDOW} seed 0 is another episode here" in report.problems[0]


def test_a_pruned_cell_is_recorded_with_its_rule_and_not_run(market: Path, tmp_path: Path) -> None:
    rule = {"name": "odd", "reason": "odd seeds are enough", "cells": [{"seeds": [0]}]}

    report = worked(small(market, seeds=2, prune=[rule]), tmp_path)

    (system,) = record_of(tmp_path).systems
    (pruned,) = system.pruned

    assert (report.planned, report.done) == (1, 1)
    assert [unit.seed for unit in system.units] == [1]
    assert (pruned.rule, pruned.reason) == ("odd", "odd seeds are enough")
    assert [unit.seed for unit in pruned.units] == [0]


# ---- failures and budgets


@pytest.fixture
def failing(market: Path, monkeypatch: pytest.MonkeyPatch) -> GridPlan:
    """A plan of two models, of which one hits a defect at its first call."""
    monkeypatch.setenv("RUN_PLUGIN_DEFECT_AT_CALL", "1")
    return small(market, models=["test/mixed", "builtin/hold"], plugin=[str(PLUGIN)])


def test_a_failed_unit_is_recorded_and_holds_up_no_other(failing: GridPlan, tmp_path: Path) -> None:
    report = worked(failing, tmp_path, launch="0001")

    mixed, hold = (unit.id for _, unit in record_of(tmp_path).units())
    (failure,) = failures(tmp_path)

    assert (report.planned, report.done, report.failed) == (2, 1, 1)
    assert (failure.unit, failure.system, failure.launch) == (mixed, MIXED, "0001")
    assert (failure.generation, failure.requeued, failure.needed) == (1, 0, None)
    assert "a defect of the model" in failure.error
    assert [entry["unit"] for entry in done_of(tmp_path)] == [hold]

    words = f"1 of 2 episodes are not finished, 1 of them failed; {MIXED}: .*a defect of the model"
    with pytest.raises(EpisodeFailure, match=words):
        check_report(report)


def test_what_failed_is_tried_again_alone_and_its_failure_is_over(
    failing: GridPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked(failing, tmp_path, launch="0001")
    (failed,) = failed_units(LocalStore(tmp_path))
    monkeypatch.delenv("RUN_PLUGIN_DEFECT_AT_CALL")

    report = worked(failing, tmp_path, launch="0002", only_failed=True)

    mixed = next(entry for entry in done_of(tmp_path) if entry["unit"] == failed)

    assert (report.done, report.failed) == (2, 0)
    assert mixed["generation"] == 2
    assert failed_units(LocalStore(tmp_path)) == frozenset()


def test_a_worker_of_failed_units_begins_no_other(market: Path, tmp_path: Path) -> None:
    report = worked(small(market), tmp_path, only_failed=True)

    assert (report.planned, report.done, report.failed) == (1, 0, 0)
    assert list(done_of(tmp_path)) == []

    with pytest.raises(EpisodeFailure, match="1 of 1 episodes are not finished, 0 of them failed"):
        check_report(report)


def test_time_that_is_over_stops_units_and_fails_none(market: Path, tmp_path: Path) -> None:
    report = worked(small(market, max_hours=1e-9), tmp_path)

    (stop,) = failures(tmp_path)

    assert (report.done, report.failed, report.is_stopped) == (0, 0, True)
    assert stop.needed == {}
    assert report.problems[0].startswith(f"{HOLD}: --max-hours")

    with pytest.raises(BudgetError, match=rf"; {HOLD}: --max-hours"):
        check_report(report)


def test_a_plan_with_a_budget_of_dollars_runs_free_models(market: Path, tmp_path: Path) -> None:
    report = worked(small(market, max_cost=0.0, max_hours=1.0), tmp_path)

    assert (report.done, report.problems) == (1, ())


def test_a_dropped_model_is_not_begun_and_holds_nobody_up(market: Path, tmp_path: Path) -> None:
    change_control(LocalStore(tmp_path), drop_model("builtin/hold"))

    report = worked(small(market), tmp_path)

    assert (report.done, report.failed, report.problems) == (0, 0, ())


def test_a_session_that_was_stopped_before_it_began_runs_no_unit(
    market: Path, tmp_path: Path
) -> None:
    session = GridSession(WorkerOptions(small(market), str(tmp_path)), load_plugins())
    assert not session.is_stopping

    session.stop()

    with pytest.raises(KeyboardInterrupt):
        session.run()

    assert session.is_stopping
    assert jobs_done(tmp_path) == ["open"]
    assert list(done_of(tmp_path)) == []


def test_a_card_names_the_episodes_that_failed_with_their_reason(
    failing: GridPlan, tmp_path: Path
) -> None:
    worked(structs.replace(failing, models=failing.models[:1], seeds=2), tmp_path)

    card = json.loads((tmp_path / "runs" / MIXED / "cards" / f"{TASK}.json").read_text())

    (missing,) = card["missing_episodes"]

    assert len(card["episodes"]) == 1
    assert "a defect of the model" in missing["error"]


# ---- remote model


def remote(market: Path, stub: Stub, **changes: Any) -> GridPlan:
    """A plan of two units of one step each, of a model that a stub serves."""
    model = {
        "name": WIRES["chat"].model,
        "args": {"api": "chat"},
        "base_url": stub.base_url,
        "price": {"input": 2, "output": 8, "cache_read": 0.5},
        "label": "stub",
    }
    fields = {
        "models": [model],
        "tasks": [TASK_APART],
        "windows": ["2024-02-01:2024-04-15", "2024-02-02:2024-04-15"],
        "concurrency": 2,
        "options": {
            "limit": 1,
            "cache": "run",
            "canary": 1,
        },  # a fixed question, asked at the start and again at the end
    }

    return small(market, **{**fields, **changes})


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    skip_without_sdks()
    for name, value in environment_of(WIRES["chat"]).items():
        monkeypatch.setenv(name, value)

    with running_stub() as running:
        yield running


def paid_usd(out: Path) -> dict[str, float]:
    """US dollars of the calls that all parts record, by episode, `canary` and `check`."""
    usd: dict[str, float] = {}
    for part in parts_of(out):
        for call in read_calls(part):
            usd[call.episode] = usd.get(call.episode, 0.0) + (call.cost_usd or 0.0)

    return usd


@pytest.mark.exhaustive
def test_calls_of_a_model_behind_a_network_are_counted_with_their_cost(
    stub: Stub, market: Path, tmp_path: Path
) -> None:
    report = worked(remote(market, stub), tmp_path)

    usd = paid_usd(tmp_path)
    (system,) = record_of(tmp_path).systems

    assert (report.planned, report.done, report.problems) == (2, 2, ())
    assert (system.slug, system.tool_protocol, system.checked_by) == (STUB, "native", report.name)
    assert system.price is not None
    assert (system.price.input, system.price.output) == (2.0, 8.0)
    assert {f"start.{STUB}", f"gather.{STUB}", f"card.{STUB}"} <= set(jobs_done(tmp_path))

    for entry in done_of(tmp_path):
        assert entry["cost_usd"] == pytest.approx(usd[entry["unit"]])
        assert min(entry["input_tokens"], entry["output_tokens"], entry["cost_usd"]) > 0

    paid = json.loads((tmp_path / "paid" / f"{report.name}.json").read_text())

    assert paid["usd"][STUB] == pytest.approx({name: usd[name] for name in ("canary", "check")})

    shown = look(reader_of(LocalStore(tmp_path)))[1].total
    assert shown.cost_usd == pytest.approx(sum(usd.values()))

    gathered = read_calls(tmp_path / "runs" / STUB)
    assert sorted({call.episode for call in gathered}) == sorted(usd)


@pytest.mark.exhaustive
def test_a_budget_stops_units_says_what_they_need_and_a_larger_one_goes_on(
    stub: Stub, market: Path, tmp_path: Path
) -> None:
    plan = remote(market, stub, concurrency=1, options={"limit": 2, "cache": "run", "canary": 0})
    low = structs.replace(plan, max_tokens=30_000)

    stopped = worked(low, tmp_path, launch="0001")

    needed = [stop.needed for stop in failures(tmp_path)]

    assert (stopped.failed, stopped.is_stopped) == (0, True)
    assert stopped.done < 2
    assert needed
    assert all(limits and limits["max_tokens"] > 30_000 for limits in needed)

    with pytest.raises(BudgetError, match="--max-tokens"):
        check_report(stopped)

    asked = stub.answers
    (worker,) = (tmp_path / "parts").iterdir()
    worker.rename(worker.with_name("another"))  # as if it were of another machine
    resumed = worked(plan, tmp_path, launch="0002")

    assert (resumed.done, resumed.failed, resumed.problems) == (2, 0, ())
    assert failures(tmp_path) == []
    assert asked > 0
    assert stub.answered_twice == {}  # what was paid is taken over


def failures(out: Path) -> list[UnitFailed]:
    units = sorted(failed_units(LocalStore(out)))
    return [decode_json((out / failed_key(unit)).read_bytes(), UnitFailed, unit) for unit in units]


def test_a_system_that_no_budget_allows_to_be_asked_is_not_begun(
    stub: Stub, market: Path, tmp_path: Path
) -> None:
    report = worked(remote(market, stub, max_cost=1e-6), tmp_path)

    (system,) = record_of(tmp_path).systems

    assert (report.planned, report.done, report.is_stopped) == (0, 0, True)
    assert system.needed is not None
    assert system.needed["max_cost"] > 1e-6
    assert report.problems == (f"{STUB}: {system.problem}",)
    assert stub.answers == 0

    with pytest.raises(BudgetError, match="0 of 0 episodes are not finished"):
        check_report(report)


# ---- reports


@on_each_row(
    "changes, kind, words",
    (
        {"done": 1, "failed": 2},
        "EpisodeFailure",
        "3 of 4 episodes are not finished, 2 of them failed",
    ),
    (
        {"done": 4, "problems": ["gather.x: full", "later"]},
        "EpisodeFailure",
        "0 of 4 episodes are not finished, 0 of them failed; gather.x: full",
    ),
    (
        {"done": 2, "is_stopped": True},
        "BudgetError",
        "2 of 4 episodes are not finished, 0 of them failed",
    ),
    (
        {"done": 2, "failed": 1, "is_stopped": True},
        "EpisodeFailure",
        "2 of 4 episodes are not finished, 1 of them failed",
    ),
)
def test_an_end_is_raised_by_what_is_left(changes: dict[str, Any], kind: str, words: str) -> None:
    fields = {"done": 0, "failed": 0, "problems": (), **changes}
    report = WorkerReport(Path("grid"), "w-1", planned=4, **fields)

    with pytest.raises((BudgetError, EpisodeFailure)) as raised:
        check_report(report)

    assert str(raised.value) == f"{words}; run the same command again to resume"
    assert type(raised.value).__name__ == kind
