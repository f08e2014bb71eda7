"""Grids that end where the order of their systems is settled: real runs of models that need no key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ktdeval.registry import load_plugins
from ktdeval.stores import LocalStore
from ktdeval.testing import errors_with
from ktdeval_grid.planning.plan import GridPlan, plan_of
from ktdeval_grid.state.settled_pairs import LOOKS
from ktdeval_grid.state.status import GridStatus, look, reader_of
from ktdeval_grid.workers.worker_session import (
    GridSession,
    WorkerOptions,
    WorkerReport,
    check_report,
)
from support.grid.grid_runs import done_of, done_records
from support.runs.run_support import MASK_KEY, TASK

MOMENTUM = "builtin-momentum_react"
HOLD = "builtin-hold_react"

#: Weeks of two days of 2024, one after another
WINDOWS = (
    "2024-02-05:2024-02-06",
    "2024-02-19:2024-02-20",
    "2024-02-21:2024-02-22",
    "2024-02-26:2024-02-27",
    "2024-02-28:2024-02-29",
    "2024-03-04:2024-03-05",
    "2024-03-06:2024-03-07",
)
#: Whoever holds cash all the time has no turnover, so that the order is clear in each window.
RULE = {"metric": "turnover", "looks": [6, 7], "effect": 0.01, "spending": "pocock"}


def plan_at(market: Path, **changes: Any) -> GridPlan:
    fields = {
        "models": ["builtin/momentum", "builtin/hold"],
        "tasks": [TASK],
        "windows": list(WINDOWS),
        "data": str(market),
        "options": {"limit": 1},
        "mask_key": MASK_KEY,
        "settle": RULE,
        "stop_when": "settled",
    }
    return plan_of({**fields, **changes}, "plan")


def worked(plan: GridPlan, out: Path) -> WorkerReport:
    return GridSession(WorkerOptions(plan, str(out)), load_plugins()).run()


def status_of(out: Path) -> GridStatus:
    return look(reader_of(LocalStore(out)))[1]


def recorded_looks(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((out / LOOKS).iterdir())]


@pytest.fixture(scope="module")
def settled(
    market: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Sequence[WorkerReport]]:
    """A grid that two workers at once have run until its order was settled."""
    out = tmp_path_factory.mktemp("settled") / "grid"
    plan = plan_at(market)
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda _: worked(plan, out), range(2)))

    return out, reports


@pytest.mark.slow
def test_units_of_a_settled_pair_are_not_run(
    settled: tuple[Path, Sequence[WorkerReport]],
) -> None:
    out, reports = settled

    assert len(done_records(out)) == 12
    total = status_of(out).total
    assert (total.planned, total.done, total.settled, total.left) == (14, 12, 2, 0)
    for report in reports:
        check_report(report)


def test_the_look_is_recorded_once_with_the_figures_of_the_units(
    settled: tuple[Path, Sequence[WorkerReport]],
) -> None:
    out, _ = settled
    (made,) = recorded_looks(out)

    assert (made["first"], made["second"]) == (MOMENTUM, HOLD)
    assert (made["look"], made["windows"], made["settled"], made["sign"]) == (1, 6, True, 1)
    figures = {entry["figure"] for entry in done_of(out) if entry["system"] == HOLD}
    assert figures == {0.0}
    traded = [entry["figure"] for entry in done_of(out) if entry["system"] == MOMENTUM]
    assert sorted(made["differences"]) == sorted(traded)


def test_the_card_says_which_window_was_not_run_and_why(
    settled: tuple[Path, Sequence[WorkerReport]],
) -> None:
    out, _ = settled
    for slug in (MOMENTUM, HOLD):
        card = json.loads((out / "runs" / slug / "cards" / f"{TASK}.json").read_text())

        (missing,) = card["missing_episodes"]
        assert missing["error"] == "not run: settled at look 1, after 6 windows"
        assert card["metrics"]["turnover"]["n"] == 6


@pytest.mark.slow
def test_the_same_plan_again_runs_nothing_and_an_amended_one_the_rest(
    settled: tuple[Path, Sequence[WorkerReport]], market: Path
) -> None:
    out, _ = settled
    before = done_records(out)

    worked(plan_at(market), out)
    assert done_records(out) == before

    worked(plan_at(market, stop_when="never"), out)
    assert len(done_records(out)) == 14
    assert len(recorded_looks(out)) == 1
    card = json.loads((out / "runs" / HOLD / "cards" / f"{TASK}.json").read_text())
    assert card["missing_episodes"] == []


def test_a_rule_that_does_not_fit_the_windows_ends_before_any_work(
    market: Path, tmp_path: Path
) -> None:
    assert errors_with(
        lambda **change: worked(plan_at(market, **change), tmp_path / "grid"),
        {"windows": list(WINDOWS[:6])},
        {"windows": [*WINDOWS[:6], "2024-03-05:2024-03-07"]},
        {"settle": {**RULE, "metric": "turnoverr"}},
    ) == snapshot("""\
ConfigError: settle: looks: the last takes 7 windows, blinded_open_research has 6 in this plan; plan more windows or fewer looks
ConfigError: settle: windows 2024-03-04:2024-03-05 and 2024-03-05:2024-03-07 of blinded_open_research share days, so their differences are not independent; choose windows that do not overlap
UsageError: unknown metric 'turnoverr'; did you mean 'turnover'?
""")
    assert not (tmp_path / "grid" / "grid.json").exists()
