"""What a page shows of an agent's memory: layers with what became of each memory, any other JSON as it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktdeval.harness import SIGNAL_FORM, TranscriptEntry
from ktdeval.jsonio import loads_strict
from ktdeval.trading import Ledger
from ktdeval.trading.ledger import StepRecord
from ktdeval.typed import from_plain, to_plain
from ktdeval_view.market_facts import Names, stock_paths
from ktdeval_view.memory import memory_panels
from ktdeval_view.records import step_in_units
from ledger_cases import short_ledger
from run_support import PLUGIN, SAME_MASK, episodes, ktdeval
from tables import on_each_row
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


@on_each_row
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


# -- a step and a stock


def test_a_step_of_version_2_is_shown_in_units_of_currency_and_shares() -> None:
    ledger = short_ledger()
    step = step_in_units(ledger, ledger.steps[1])
    assert (step["nav"], step["cash"]) == (960.0, 1230.0)
    assert (
        step["orders"][0] | {"filled_shares": 0.5, "shares": 0.5, "price": 300.0, "notional": 150.0, "fee": 1.0}
        == step["orders"][0]
    )
    assert step["positions"] == [{"code": "TSLA", "shares": -0.9, "locked": 0.0, "price": 300.0, "value": -270.0}]
    assert [(charge["kind"], charge["shares"], charge["cash"]) for charge in step["charges"]] == [
        ("borrow", -1.0, -0.12),
        ("margin_call", 0.1, -31.0),
    ]
    assert not any(name.endswith(("_minor", "_ticks")) for name in step)


def test_a_step_in_a_shares_keeps_whole_shares_and_has_no_charges() -> None:
    record = to_plain(short_ledger().steps[0])
    del record["charges"]
    ledger = Ledger({}, 100_000, [from_plain(record, StepRecord, "record")])
    step = step_in_units(ledger, ledger.steps[0])
    assert (step["orders"][0]["filled_shares"], step["orders"][0]["price"], "charges" in step) == (15_000, 300.0, False)
    assert isinstance(step["orders"][0]["filled_shares"], int)


def talk(step: int, **answers: str | None) -> TranscriptEntry:
    table = {"columns": ["stock_id"], "rows": [["asset_1"], ["asset_2"]]}
    sent = [
        {"role": "system", "content": SIGNAL_FORM},
        {"role": "user", "content": f"```json\n{json.dumps({'candidates': table})}\n```"},
    ]
    replies = {role: {"error": "timeout"} if text is None else {"reply": {"content": text}} for role, text in answers.items()}
    return TranscriptEntry(
        step=step,
        exchanges=tuple({"role": role, "kept": 0, "sent": sent, **reply} for role, reply in replies.items()),
        submission=None,
    )


def test_positions_and_signals_stand_by_code_and_step() -> None:
    def step(nav: int, **values: int) -> Any:
        positions = [SimpleNamespace(code=code, value_minor=value) for code, value in values.items()]
        return SimpleNamespace(nav_minor=nav, positions=positions)

    steps = [step(100, AAA=25), step(0, AAA=25), step(200, AAA=-50, BBB=1)]
    talks = [
        talk(0, news='{"asset_1": "Bullish", "OTHERS": "Bearish"}'),
        talk(1, news=None, macro='{"asset_1": "Neutral"}'),
        talk(2),
    ]
    records: Any = SimpleNamespace(steps=steps, talks=talks)
    paths = stock_paths(records, Names(assets={"asset_1": ("AAA", "A company")}))
    assert paths == {
        "weights": {"AAA": [0.25, 0.0, -0.25], "BBB": [0.0, 0.0, 0.005]},
        "analysts": ["news", "macro"],
        "signals": {"AAA": ["+x.", ".0."], "asset_2": ["-x.", ".x."]},
    }
