"""Every agent on every kind of task: completes, verifies, resumes after a kill with equal bytes, and sends no hidden identity."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from ktdeval.runner import RunFolder
from ktdeval_agents import TEAMS
from run_support import PLUGIN, SAME_MASK, ktdeval, records
from view_page import days_of

TASKS = [
    ("blinded_open_research", "synthetic"),
    ("blinded_fixed_candidate", "synthetic"),
    ("market_news_blinded", "synthetic_us"),
    ("investorbench_btc", "synthetic_investorbench"),
    ("deepfund_berkshire", "synthetic_deepfund"),
]


def words(agent: str, model: str, task: tuple[str, str], out: Path) -> tuple[Any, ...]:
    told = ("--plugin", PLUGIN, "--model", model, "--agent", agent, *SAME_MASK, "--tasks", task[0], "--data", task[1])
    return (*told, "--limit", "3", "--price", "input=3", "--price", "output=15", "--out", out)


@pytest.mark.parametrize("task", TASKS, ids=[task for task, _ in TASKS])
@pytest.mark.parametrize("agent", [*TEAMS, "vote"])
def test_an_agent_completes_resumes_and_verifies(agent: str, task: tuple[str, str], tmp_path: Path) -> None:
    told = (agent, "test/member", task)
    assert ktdeval(*words(*told, tmp_path / "whole"), cwd=tmp_path).code == 0
    died = ktdeval(*words(*told, tmp_path / "run"), cwd=tmp_path, environment={"RUN_PLUGIN_DIE_AFTER_STEP": "1"})
    assert died.code == -signal.SIGKILL
    assert ktdeval(*words(*told, tmp_path / "run"), cwd=tmp_path).code == 0
    assert records(tmp_path / "run") == records(tmp_path / "whole")
    assert ktdeval("card", "verify", tmp_path / "run", "--plugin", PLUGIN, cwd=tmp_path).code == 0

    folder = RunFolder.load(tmp_path / "run")
    exchanges = [one for spec in folder.manifest.specs for talk in folder.load_transcript(spec) for one in talk.exchanges]
    assert all(one["role"] for one in exchanges)
    sent = json.dumps([message["content"] for one in exchanges for message in one["sent"]])
    assert "2024-03-05" not in sent
    if "synthetic" in task:
        assert "600519" not in sent
    if agent != "investor":
        assert "[withheld]" in sent  # one role's words reach another with what the mask hides left out
    if task is TASKS[2]:
        assert ktdeval("view", tmp_path / "run", cwd=tmp_path).code == 0
        (page,) = (path for path in (tmp_path / "run" / "view").glob("*.html") if path.name != "index.html")
        shown = [one["role"] for day in days_of(page) for one in day["talk"]["exchanges"]]
        assert shown == [one["role"] for one in exchanges]
    (path,) = (tmp_path / "run" / "cards").glob("*.json")
    card = json.loads(path.read_text())
    assert card["decisions"]["model"] == 3
    if task is TASKS[2]:
        rows = json.loads(ktdeval("roles", tmp_path / "run", "--json", cwd=tmp_path).out)
        assert sum(row["calls"] for row in rows.values()) == len(exchanges)
        assert sum(row["usd"] for row in rows.values()) == pytest.approx(card["cost"]["value"])
        assert sum(row["input_tokens"] for row in rows.values()) == card["usage"]["input_tokens"] > 0


@pytest.mark.parametrize("agent", [*TEAMS, "vote"])
def test_an_agent_works_with_a_keyless_model_and_on_questions(agent: str, tmp_path: Path) -> None:
    for task in ("blinded_memory_only", "qfinzero_calling"):
        told = ("--model", "builtin/random", "--agent", agent, "--tasks", task, "--limit", "3", "--out", tmp_path / task)
        done = ktdeval(*told, cwd=tmp_path)
        assert done.code == 0, done
        assert ktdeval("card", "verify", tmp_path / task, cwd=tmp_path).code == 0


@pytest.fixture(scope="module")
def coins(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coins")
    bars = shared_data / "crypto_daily/crypto10_daily.csv.gz"
    told = ("--bars", bars, "--venue", "crypto_spot", "--last", "2025-11-15", "--out", folder / "market")
    assert ktdeval("data", "import", "long", *told, cwd=folder).code == 0
    return folder / "market"


@pytest.mark.parametrize("agent", [*TEAMS, "vote"])
def test_an_agent_trades_a_coin_of_agent_market_arena(agent: str, coins: Path, tmp_path: Path) -> None:
    done = ktdeval(*words(agent, "test/member", ("ama_btc", str(coins)), tmp_path / "run"), cwd=tmp_path)
    assert done.code == 0, done
    assert ktdeval("card", "verify", tmp_path / "run", "--plugin", PLUGIN, cwd=tmp_path).code == 0
    card = json.loads((tmp_path / "run/cards/ama_btc.json").read_text())
    assert (card["decisions"]["model"], card["metrics"]["ama_cumulative_return"]["n"]) == (3, 1)
