"""A grid from its one command to its pages: launched, amended, failed in part, steered from another
process, and detached.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ktdeval.stores import LocalStore
from ktdeval.testing import wait_for
from ktdeval_grid.state.status import GridStatus, look, reader_of
from support.grid.grid_runs import done_records, write_plan
from support.runs.run_support import PLUGIN, ktdeval

MODELS = ("builtin/momentum", "test/mixed")
TASKS = ("blinded_open_research", "bright_open_research")
WINDOWS = ("2024-03-01:2024-03-14", "2024-03-15:2024-03-29")


def plan_of(market: Path, path: Path, **changes: Any) -> Path:
    fields = {
        "name": "small",
        "models": list(MODELS),
        "tasks": list(TASKS),
        "windows": list(WINDOWS),
        "seeds": 2,
        "data": str(market),
        "options": {"limit": 2},
        "pages": [],
    }
    return write_plan(path, **{**fields, **changes})


def status_of(out: Path) -> GridStatus:
    return look(reader_of(LocalStore(out)))[1]


@dataclass(frozen=True)
class Launched:
    """A grid after one of its launches."""

    out: Path
    code: int
    lines: list[dict[str, Any]]
    err: str
    done: dict[str, bytes]  #: records of finished units at that time

    @property
    def total(self) -> dict[str, Any]:
        total: dict[str, Any] = self.lines[-1]["total"]
        return total


def launched(plan: Path, *words: object, **settings: Any) -> Launched:
    out = plan.parent / "grid"
    words = ("grid", plan, "--plugin", PLUGIN, "--out", out, "--json", *words)
    done = ktdeval(*words, cwd=plan.parent, **settings)
    lines = [json.loads(line) for line in done.out.splitlines()]
    return Launched(out, done.code, lines, done.err, done_records(out))


@pytest.fixture(scope="module")
def begun(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Launched:
    """2 models × 2 tasks × 2 windows × 2 seeds; the first call of a model hits a defect."""
    plan = plan_of(market, tmp_path_factory.mktemp("launch") / "plan.yaml")
    return launched(plan, "--workers", 1, environment={"RUN_PLUGIN_DEFECT_AT_CALL": "1"})


@pytest.fixture(scope="module")
def mended(begun: Launched) -> Launched:
    """The same grid, after its failed unit was tried again."""
    return launched(begun.out.parent / "plan.yaml", "--workers", 1, "--only", "failed")


@pytest.fixture(scope="module")
def grown(mended: Launched, market: Path) -> Launched:
    """The same grid, after its plan had a model more and a task less."""
    plan = mended.out.parent / "plan.yaml"
    plan_of(market, plan, models=[*MODELS, "builtin/random"], tasks=[TASKS[0]], pages=["views"])
    return launched(plan, "--workers", 2)


@pytest.mark.exhaustive
def test_a_launch_tells_each_unit_and_a_failure_once(begun: Launched) -> None:
    assert begun.code == 1
    assert (begun.total["done"], begun.total["failed"], begun.total["planned"]) == (15, 1, 16)

    (problem,) = begun.lines[-1]["problems"]
    assert "a defect of the model" in problem
    assert begun.err.count("\n") == 1
    assert "1 of 16 episodes are not done" in begun.err

    first, *units, last = begun.lines
    assert (first["event"], first["place"], first["workers"]) == ("launch", str(begun.out), 1)
    assert first["estimate"]["total"]["episodes"] == 16
    assert {line["event"] for line in units} == {"unit"}
    assert {line["unit"] for line in units if line["state"] == "done"} == begun.done.keys()

    (failed,) = [line for line in units if line["state"] == "failed"]
    assert (failed["system"], failed["unit"] in begun.done) == ("test-mixed_react", False)
    assert (last["event"], last["exit_code"]) == ("end", 1)


@pytest.mark.exhaustive
def test_what_failed_runs_again_alone_and_cards_verify(begun: Launched, mended: Launched) -> None:
    assert (mended.code, mended.err) == (0, "")
    assert len(mended.done) == 16
    assert {unit: mended.done[unit] for unit in begun.done} == begun.done

    run = mended.out / "runs" / "builtin-momentum_react"
    assert sorted(path.stem for path in (run / "cards").iterdir()) == sorted(TASKS)
    done = ktdeval("card", "verify", run, cwd=mended.out)
    assert done.code == 0, done.err


@pytest.mark.exhaustive
def test_a_plan_that_grew_runs_what_is_new_alone(mended: Launched, grown: Launched) -> None:
    assert (grown.code, grown.err) == (0, "")

    first = grown.lines[0]
    assert first["added"] == ["model builtin-random"]
    assert first["removed"] == [f"task {TASKS[1]}"]
    assert first["estimate"]["total"]["episodes"] == 4

    new = grown.done.keys() - mended.done.keys()
    assert len(new) == 4
    assert {unit: grown.done[unit] for unit in mended.done} == mended.done
    assert {line["unit"] for line in grown.lines[1:-1]} == new  # what was there is no news
    assert grown.total["planned"] == 12


@pytest.mark.exhaustive
def test_tables_and_pages_are_made_and_hang_together(grown: Launched) -> None:
    made = {path.name for path in (grown.out / "tables").iterdir()}
    assert {"ktdfin-4.md", "compare.txt", "compare.json", "luck.txt"} <= made

    site = grown.out / "site"
    assert grown.lines[-1]["site"] == str(site / "index.html")

    text = (site / "index.html").read_text("utf-8")
    links = [link for link in re.findall(r'href="([^"#]+)"', text) if not link.startswith("data:")]

    assert [link for link in links if not (site / link).is_file()] == []

    for kind in ("cards/", "views/", "tables/"):
        assert any(link.startswith(kind) for link in links), kind


def test_a_launch_ended_by_its_budget_has_a_resume_line_that_works(
    market: Path, tmp_path: Path
) -> None:
    plan = plan_of(
        market,
        tmp_path / "a plan.yaml",
        models=MODELS[:1],
        tasks=[TASKS[0]],
        windows=[WINDOWS[0]],
        seeds=1,
    )
    stopped = launched(plan, "--workers", 1, "--max-hours", "1e-9")
    end = stopped.lines[-1]

    assert (stopped.code, end["exit_code"], end["total"]["failed"]) == (3, 3, 0)
    assert (end["total"]["stopped"], end["total"]["done"]) == (1, 0)
    assert {line["state"] for line in stopped.lines[1:-1]} - {"running"} == {"stopped"}
    assert "ktdeval: stopped: 1 of 1 episodes are not done" in stopped.err

    program, *words = shlex.split(end["resume"].replace("1e-9", "1"))
    assert program == "ktdeval"

    resumed = ktdeval(*words, cwd=plan.parent)
    assert (resumed.code, status_of(stopped.out).total.done) == (0, 1), resumed.err


@pytest.mark.exhaustive
def test_a_detached_grid_is_steered_by_its_file_and_from_another_process(
    market: Path, tmp_path: Path
) -> None:
    plan = plan_of(market, tmp_path / "plan.yaml", tasks=[TASKS[0]], seeds=1)
    out = tmp_path / "grid"
    out.mkdir()
    (out / "control.json").write_text('{"paused": true}')
    detached = launched(plan, "--workers", 2, "--detach")

    assert (detached.code, detached.err) == (0, "")

    (line,) = detached.lines
    assert os.getsid(line["pid"]) == line["pid"]  # it has a session of its own

    wait_for((out / "grid.json").exists)
    assert status_of(out).total.left == 4

    for words in (("drop", "test/mixed"), ("resume",)):
        done = ktdeval("grid", "ctl", out, *words, cwd=tmp_path)
        assert done.code == 0, done.err

    end = out / "launches" / "0001-end.json"
    wait_for(end.exists)
    momentum, mixed = status_of(out).models

    assert (momentum.done, momentum.left) == (2, 0)
    assert (mixed.dropped, mixed.done, mixed.left) == (True, 0, 2)

    ended = json.loads(end.read_text())
    assert (ended["exit_code"], ended["left"]) == (1, 2)
    assert "small: 2 of 4 episodes done" in Path(line["log"]).read_text()
