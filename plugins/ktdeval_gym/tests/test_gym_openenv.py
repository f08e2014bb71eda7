"""Tasks as OpenEnv environments: OpenEnv's own validators and client, on a server in a separate
process. Tests without a server run without the extra.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from ktdeval.errors import UsageError
from ktdeval.harness import Reply, ToolCall
from ktdeval.registry import load_plugins
from ktdeval.testing import Terminal
from ktdeval.values import dumps_canonical
from ktdeval_gym.servers.openenv_command import ServerOptions, openenv, task_source, write_folder
from ktdeval_gym.stepwise_episode import AskedEpisode, MarketChoice, TaskSource, mean_score
from support.figures.scoring_cases import record
from support.raw_requests import ambiguous_requests, answer_to, statuses
from support.runs.export_runs import GOLD, QUESTIONS

TASK = "market_blinded"
HOLD = {"orders": [], "overall_reason": "nothing to do today"}


def source(*names: str, limit: int = 2) -> TaskSource:
    return TaskSource(names, load_plugins(), MarketChoice("synthetic_us", limit=limit))


def test_a_task_that_hides_prices_is_rewarded_at_its_end_only() -> None:
    """The daily return reveals a price to whoever chose the holdings."""
    name = "blinded_memory_only"
    episode = AskedEpisode(TaskSource([name], load_plugins(), MarketChoice(limit=3)), name, 0)
    turn = episode.turn()
    assert turn.request is not None
    assert turn.request.state is not None

    order = {
        "stock_id": turn.request.state.universe[0],
        "side": "BUY",
        "target_weight": 0.1,
        "confidence": 0.5,
        "reason": "bought to try it",
    }
    rewards = [turn.reward]
    for orders in ([order], [], []):
        episode.reply(submitted({**HOLD, "orders": orders}))
        turn = episode.turn()
        rewards.append(turn.reward)

    assert rewards[:3] == [None, None, None]
    assert rewards[3] not in (None, 0.0)


def submitted(arguments: Any) -> Reply:
    call = ToolCall("call_1", "submit_action", dumps_canonical(arguments))
    return Reply("", (call,), "tool_calls")


def test_episode_is_served_by_request_with_each_days_log_return_as_reward() -> None:
    episode = AskedEpisode(source(TASK), TASK, 0)
    first = episode.turn()

    assert (first.reward, first.step, first.total_steps) == (None, 0, 2)
    assert first.request is not None
    assert first.request.state is not None

    label = next(iter(first.request.state.candidates))
    order = {
        "stock_id": label,
        "side": "BUY",
        "target_weight": 0.2,
        "confidence": 0.5,
        "reason": "bought to try it",
    }
    episode.reply(submitted({**HOLD, "orders": [order]}))
    second = episode.turn()

    assert second.request is not None
    assert second.request.state is not None

    nav = second.request.state.account.nav
    assert nav is not None
    assert second.reward == pytest.approx(math.log(nav / 100_000), abs=1e-6)
    assert second.reward != 0.0

    episode.reply(submitted(HOLD))
    assert episode.turn().request is None

    with pytest.raises(UsageError, match="call reset"):
        episode.reply(submitted(HOLD))


def test_a_question_earns_the_mean_of_its_scores() -> None:
    """True and false count as 1 and 0; a score above 1, a text and null are ignored."""
    mixed = record(0, scores={"a": True, "b": 0.25, "c": 1.5, "d": None, "e": "good", "f": -0.1})
    nothing = record(1, "fallback")

    assert mean_score([mixed]) == 0.625
    assert mean_score([mixed, nothing]) == pytest.approx(1.25 / 3)
    assert mean_score([nothing]) == 0.0
    assert mean_score([record(0, scores={"d": None})]) is None
    assert mean_score([record(0, scores={"a": 0, "b": 1})]) == 0.5


def test_the_episode_of_a_seed_has_its_own_handles_and_no_other_market() -> None:
    tasks = source(TASK)

    specs = [tasks.open(TASK, seed).spec for seed in (0, 0, 1)]

    assert specs[0] == specs[1]
    assert specs[0].mask_key != specs[2].mask_key
    assert [spec.seed for spec in specs] == [0, 0, 1]
    assert specs[0].limit == 2
    assert tasks.open(TASK, 0).initial_nav == 10_000_000
    assert len(tasks._snapshots) == 1


def test_questions_are_given_one_by_one_with_the_score_of_each() -> None:
    plugins = load_plugins((str(QUESTIONS),))
    tasks = TaskSource(("todo",), plugins, MarketChoice("no market", limit=2))
    episode = AskedEpisode(tasks, "todo", 0)
    turns = [episode.turn()]

    for answer in (GOLD, "something else"):
        call = ToolCall("call_1", "submit_answer", dumps_canonical({"answer": answer}))
        episode.reply(Reply("", (call,), "tool_calls"))
        turns.append(episode.turn())

    opened = tasks.open("todo", 0)
    spec, nav = opened.spec, opened.initial_nav

    assert [turn.reward for turn in turns] == [None, 1.0, 0.0]
    assert [turn.step for turn in turns] == [0, 1, 2]
    assert {turn.total_steps for turn in turns} == {2}
    assert (spec.snapshot, spec.limit, nav) == (None, 2, 0)
    assert tasks._snapshots == {"todo": None}


def test_an_episode_that_is_left_ends_its_thread() -> None:
    tasks = source(TASK)
    episode = AskedEpisode(tasks, TASK, 0)
    episode.turn()
    episode.close()

    assert not episode._thread.is_alive()

    with pytest.raises(UsageError, match="is not served"):
        AskedEpisode(tasks, "ama_btc", 0)


def test_a_folder_is_written_once_and_its_server_compiles(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    write_folder(folder, (TASK,), "synthetic_us")
    compile((folder / "server/app.py").read_text(), "app.py", "exec")

    assert "@" not in (folder / "server/app.py").read_text()

    with pytest.raises(UsageError, match="is not empty"):
        write_folder(folder, (TASK,), "synthetic_us")


def test_the_command_writes_the_synthetic_market_unless_another_is_named(
    tmp_path: Path, terminal: Terminal
) -> None:
    terminal.text("train", "openenv", "--tasks", TASK, "--new", tmp_path / "env")

    assert "DATA = 'synthetic'" in (tmp_path / "env" / "server" / "app.py").read_text()


def test_tasks_are_served_as_the_options_choose() -> None:
    chosen = task_source({"tasks": (TASK,), "data": None, "limit": 3, "windows": ("all",)})

    assert chosen.names == (TASK,)
    assert chosen._market == MarketChoice("synthetic", windows=("all",), limit=3)

    with pytest.raises(UsageError, match="--tasks: name the tasks to serve"):
        task_source({"tasks": ()})


def test_the_options_of_a_server_have_stated_defaults_and_bounds() -> None:
    bounds = {
        each.name: (each.type.min, each.type.max)
        for each in openenv.params
        if isinstance(each.type, click.IntRange)
    }

    options = ServerOptions()

    assert (options.new, options.host, options.port, options.sessions) == (
        None,
        "127.0.0.1",
        8000,
        8,
    )
    assert bounds == {"port": (0, 65535), "sessions": (1, 1000)}


def test_openenvs_validators_and_client_accept_the_server_and_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("openenv", reason="needs openenv: pip install '.[openenv]'")
    from openenv.cli._validation import validate_running_environment
    from openenv.core import GenericEnvClient

    write_folder(tmp_path / "env", (TASK,), "synthetic_us")
    validate = ["openenv.cli", "validate", str(tmp_path / "env"), "--level", "static"]
    done = subprocess.run(
        [sys.executable, "-m", *validate, "--skip-build"], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout

    words = ["train", "openenv", "--tasks", TASK, "--data", "synthetic_us", "--limit", "2"]
    command = [sys.executable, "-m", "ktdeval", *words, "--port", "0"]

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            check_server(url_of(server), validate_running_environment, GenericEnvClient)
        finally:
            server.terminate()


def url_of(server: subprocess.Popen[str]) -> str:
    """Address that a server prints when it is ready."""
    assert server.stderr is not None

    printed = []

    for line in server.stderr:
        printed.append(line)
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return found[0]

    raise AssertionError("".join(printed))


def check_server(url: str, validate: Any, client_of: Any) -> None:
    report = validate(url)
    assert report["passed"]
    assert report["summary"]["passed_count"] == 6

    action = {"calls": [{"name": "submit_action", "arguments": HOLD}]}

    with client_of(base_url=url).sync() as client:
        client.reset(seed=1)
        results = [client.step(action) for _ in range(2)]

    assert [each.done for each in results] == [False, True]
    assert [each.reward for each in results] == [0.0, 0.0]

    # h11 refuses requests that can be read in two ways
    requests = ambiguous_requests("POST", "/reset")
    port = int(url.rpartition(":")[2])
    for name in ("two lengths", "two hosts"):
        assert statuses(answer_to(port, requests[name])) == [400]
