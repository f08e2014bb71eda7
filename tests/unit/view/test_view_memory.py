"""What a page shows of an agent's memory: layers with what became of each memory, any other JSON as it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ktdeval.harness import TranscriptEntry
from ktdeval.jsonio import loads_strict
from ktdeval_view.memory import memory_panels
from run_support import PLUGIN, SAME_MASK, episodes, ktdeval
from view_page import check_page, days_of, head_of, pages

FINMEM = (
    "--plugin", PLUGIN, "--model", "test/naming", "--agent", "finmem", "--agent-args", "parameters=investorbench", *SAME_MASK,
    "--tasks", "investorbench_msft", "--data", "synthetic_investorbench", "--limit", "9", "--quiet",
)  # fmt: skip


def said(text: str) -> TranscriptEntry:
    return TranscriptEntry(step=0, exchanges=({"sent": [{"role": "user", "content": text}]},), submission=None)


def one(name: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "text": text, **fields}


def test_each_memory_is_told_with_what_happened_to_it() -> None:
    days: list[Any] = [
        {"memory": {"layers": {"mid": [], "short": [one("M1", "rain", importance=50.123456, count=0)]}, "made": 1}, "step": 0},
        {"memory": {"layers": {"mid": [one("M1", "rain", importance=60.0, count=2)], "short": [one("M2", "sun")]}, "made": 2}},
        {"memory": {"layers": {"mid": [one("M1", "rain", importance=42.0, count=1)], "short": []}, "made": 2}},
    ]
    texts = {"a system prompt": 0}
    first, second, third = memory_panels(days, [said("none"), said("- M1: rain"), said("")], texts)
    assert texts == {"a system prompt": 0, "rain": 1, "sun": 2}
    assert first["layers"] == ["short", "mid"]
    assert first["fields"] == ["importance", "count"]
    assert first["rows"] == [[0, 1, "M1", False, "new", 50.1235, 0]]
    assert loads_strict(first["rest"]) == {"memory": {"made": 1}, "step": 0}
    assert second["rows"] == [[1, 1, "M1", True, "credited +2, short → mid", 60.0, 2], [0, 2, "M2", False, "new", None, None]]
    assert third["rows"] == [[1, 1, "M1", False, "credited -1", 42.0, 1], [0, 2, "M2", False, "gone", None, None]]


@pytest.mark.parametrize(
    "memory",
    [
        3,
        "x",
        [1],
        {"layers": 3},
        {"layers": {}, "made": 1},
        {"layers": {"a": [{"id": "M1"}]}},
        {"layers": {"a": [3]}},
        {"a": {"b": {}}},
    ],
)
def test_any_other_memory_is_a_tree(memory: Any) -> None:
    (panel, none) = memory_panels([memory, None], [said(""), said("")], {})
    assert none is None
    assert panel.get("rows", []) == []
    rest = loads_strict(panel["rest"])
    assert rest == memory or {**rest, "layers": {}} == memory


def test_packed_data_are_told_by_their_length() -> None:
    (panel,) = memory_panels([{"a": ["x" * 301, "y " * 301], "b": "z" * 300}], [said("")], {})
    assert loads_strict(panel["rest"]) == {"a": ["(301 characters of packed data)", "y " * 301], "b": "z" * 300}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of an agent with memory, and one that was killed."""
    folder = tmp_path_factory.mktemp("memory")
    assert ktdeval(*FINMEM, "--out", "run", cwd=folder).code == 0
    assert ktdeval(*FINMEM, "--out", "killed", cwd=folder, environment={"RUN_PLUGIN_DIE_AFTER_STEP": "5"}).code == -9
    return folder


def view(desk: Path, run: str, *words: str) -> tuple[list[Any], str]:
    """Panels of a run's one page, and its notes."""
    done = ktdeval("view", run, *words, "--plugin", PLUGIN, cwd=desk)
    assert done.code == 0, done
    (page,) = pages(desk / run / "view")
    check_page(page)
    return [day["memory"] for day in days_of(page)], " ".join(head_of(page)["notes"])


def test_a_finished_episode_is_run_again_and_a_killed_one_has_its_journal(desk: Path) -> None:
    finished, killed = (view(desk, run, "--memory") for run in ("run", "killed"))
    assert (len(finished[0]), finished[1]) == (9, "")
    assert killed[0] == finished[0][:6]
    assert all(panel["layers"] == ["short", "mid", "long", "reflection"] for panel in finished[0])
    assert any(row[3] for row in finished[0][-1]["rows"])
    assert view(desk, "run") == ([None] * 9, "")


def test_a_memory_that_the_records_do_not_give_is_not_shown(desk: Path, tmp_path: Path) -> None:
    shutil.copytree(desk / "run", tmp_path / "run")
    (episode,) = episodes(tmp_path / "run")
    (episode / "transcript.jsonl.zst").unlink()
    panels, notes = view(tmp_path, "run", "--memory")
    assert panels == [None] * 9
    assert "What the agent remembered is not shown: " in notes


def test_an_agent_without_memory_is_told(tmp_path: Path) -> None:
    words = ("--model", "builtin/random", "--tasks", "investorbench_msft", "--data", "synthetic_investorbench", "--limit", "3")
    assert ktdeval(*words, "--out", "run", "--quiet", cwd=tmp_path).code == 0
    panels, notes = view(tmp_path, "run", "--memory")
    assert (panels, notes) == ([None] * 3, "The agent react carries no memory from day to day")
