"""Every agent on every kind of task: completes, verifies, sends no hidden identity, and after a
kill resumes with equal bytes.
"""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.runner import RunFolder
from ktdeval_agents import TEAMS
from support.pages.view_page import days_of, pages
from support.runs.run_support import PLUGIN, SAME_MASK, card_of, ktdeval, records
from support.searching import is_searching

AGENTS = [*TEAMS, "vote"]
STUB = "test/member"
LEFT = ("journal.jsonl", "ledger.parquet")  # of an episode that has begun, and one that ended
GRID = {  # tasks of one run, by their market
    "synthetic": ("blinded_open_research", "blinded_fixed_candidate"),
    "synthetic_us": ("market_news_blinded",),
    "synthetic_arena": ("investorbench_btc", "ama_btc", "deepfund_berkshire"),
}


def each_on_one_of(*markets: str) -> pytest.MarkDecorator:
    """Every agent on one of some markets, and with `--hypothesis-profile search` on all."""
    turns = zip(AGENTS, itertools.cycle(markets), strict=False)
    pairs = []

    for agent, own in turns:
        pairs += [(agent, data) for data in (markets if is_searching() else [own])]

    return pytest.mark.parametrize(("agent", "data"), pairs)


def words(agent: str, model: str, tasks: Sequence[str], data: str, out: Path) -> list[str]:
    price = "--price input=3 --price output=15" if model == STUB else ""
    text = (
        f"--plugin {PLUGIN} --model {model} --agent {agent} --tasks {','.join(tasks)}"
        f" --data {data} {price} --limit 3 --quiet --out {out}"
    )
    return [*text.split(), *SAME_MASK]


def verifies(run: Path) -> bool:
    return main(["card", "verify", str(run), "--plugin", str(PLUGIN)]) == 0


def assert_resumes(agent: str, model: str, tasks: Sequence[str], data: str, folder: Path) -> Path:
    """Kill a run within each episode: it ends as one that nothing interrupts, and verifies."""
    run = folder / "run"
    whole = folder / "whole"
    for number, _ in enumerate(tasks, 1):
        died = ktdeval(
            *words(agent, model, tasks, data, run),
            cwd=folder,
            environment={"RUN_PLUGIN_DIE_AFTER_STEP": "1"},
        )
        assert died.code == -signal.SIGKILL
        begun = [path for path in run.glob("episodes/*/*") if path.name in LEFT]
        assert len(begun) == number

    for out in (whole, run):
        assert main(words(agent, model, tasks, data, out)) == 0

    assert records(run) == records(whole)
    assert verifies(run)

    return run


@pytest.mark.exhaustive
@pytest.mark.parametrize("data", GRID)
@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_completes_and_is_shown_nothing_hidden(
    agent: str, data: str, tmp_path: Path
) -> None:
    assert main(words(agent, STUB, GRID[data], data, tmp_path / "run")) == 0
    check_words(agent, data, tmp_path / "run")


@pytest.mark.sampled(2)
@each_on_one_of("synthetic", "synthetic_arena")
def test_an_agent_of_a_random_model_verifies(agent: str, data: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(words(agent, "builtin/random", GRID[data], data, run)) == 0
    assert verifies(run)


@pytest.mark.sampled(1)
@each_on_one_of(*GRID)
def test_an_agent_killed_within_each_episode_resumes_with_equal_bytes(
    agent: str, data: str, tmp_path: Path
) -> None:
    assert_resumes(agent, STUB, GRID[data], data, tmp_path)


def check_words(agent: str, data: str, run: Path) -> None:
    """Each task has its card, each call a role, and none is told what the mask hides."""
    folder = RunFolder.load(run)

    assert {path.stem for path in (run / "cards").glob("*.json")} == set(GRID[data])

    for spec in folder.manifest.specs:
        exchanges: list[Any] = list(
            itertools.chain.from_iterable(talk.exchanges for talk in folder.load_transcript(spec))
        )
        assert all(one["role"] for one in exchanges)
        messages = itertools.chain.from_iterable(one["sent"] for one in exchanges)
        sent = json.dumps([message["content"] for message in messages])
        assert "2024-03-05" not in sent
        if data == "synthetic":
            assert "600519" not in sent

        if agent != "investor":
            # one role's words reach another with what the mask hides left out
            assert "[withheld]" in sent

        who = "elected" if agent == "vote" else "model"
        assert card_of(run, spec.task)["decisions"][who] == 3

    if data != "synthetic_us":
        return

    assert main(["view", str(run)]) == 0

    (page,) = pages(run / "view")
    shown = itertools.chain.from_iterable(day["talk"]["exchanges"] for day in days_of(page))

    assert [one["role"] for one in shown] == [one["role"] for one in exchanges]

    rows = json.loads(ktdeval("view", "roles", run, "--json", cwd=run).out)
    card = card_of(run, GRID[data][0])

    assert sum(row["calls"] for row in rows.values()) == len(exchanges)
    assert sum(row["usd"] for row in rows.values()) == pytest.approx(card["cost"]["value"])
    assert sum(row["input_tokens"] for row in rows.values()) == card["usage"]["input_tokens"] > 0

    *_, total = ktdeval("view", "roles", run, cwd=run).out.splitlines()
    assert total.split()[:2] == ["all", f"{len(exchanges):,}"]
    assert float(total.split()[-1]) == pytest.approx(card["cost"]["value"], abs=5e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("task", "data"),
    [("blinded_fixed_candidate", "synthetic"), ("deepfund_berkshire", "synthetic_deepfund")],
)
def test_a_portfolio_is_decided_asset_by_asset(task: str, data: str, tmp_path: Path) -> None:
    run = assert_resumes("by_asset", "builtin/random", [task], data, tmp_path)
    assert card_of(run, task)["decisions"]["model"] == 3


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_works_on_questions(agent: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = f"--model builtin/chaos --agent {agent} --tasks qfinzero_calling --limit 3 --quiet"

    assert main([*command.split(), "--out", str(run)]) == 0
    assert verifies(run)
