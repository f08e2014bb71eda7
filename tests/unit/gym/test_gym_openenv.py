"""Tasks as OpenEnv environments: OpenEnv's own validators and client, on a server of its own process.
The parts without a server run without the extra.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import UsageError
from ktdeval.harness import Reply, ToolCall
from ktdeval.registry.plugin_registry import load_plugins
from ktdeval.values.strict_json import dumps_canonical
from ktdeval_gym.openenv_command import write_folder
from ktdeval_gym.stepwise_episode import AskedEpisode, MarketChoice, TaskSource
from terminal import Terminal

TASK = "market_blinded"
HOLD = {"orders": [], "overall_reason": "nothing to do today"}


def source(*names: str, limit: int = 2) -> TaskSource:
    return TaskSource(names, load_plugins(), MarketChoice("synthetic_us", limit=limit))


def submitted(arguments: Any) -> Reply:
    call = ToolCall("call_1", "submit_action", dumps_canonical(arguments))
    return Reply("", (call,), "tool_calls")


def test_an_episode_is_given_request_by_request_with_the_log_return_of_each_day() -> None:
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


def test_an_episode_that_is_left_ends_its_thread() -> None:
    tasks = source(TASK)
    episode = AskedEpisode(tasks, TASK, 0)
    episode.turn()
    episode.close()
    assert not episode._thread.is_alive()
    with pytest.raises(UsageError, match="is not served"):
        AskedEpisode(tasks, "ama_btc", 0)


def test_a_folder_is_written_once_and_has_what_openenv_asks(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    write_folder(folder, (TASK,), "synthetic_us")
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"openenv.yaml", "pyproject.toml", "server/app.py", "server/Dockerfile"} <= files
    compile((folder / "server/app.py").read_text(), "app.py", "exec")
    assert "@" not in (folder / "server/app.py").read_text()
    with pytest.raises(UsageError, match="is not empty"):
        write_folder(folder, (TASK,), "synthetic_us")


def test_the_command_writes_the_folder_instead_of_serving(
    tmp_path: Path, terminal: Terminal
) -> None:
    words = ["train", "openenv", "--tasks", TASK, "--data", "synthetic_us"]
    shown = terminal.text(*words, "--new", tmp_path / "env").splitlines()
    assert shown[0] == f"environment  {tmp_path / 'env'}"
    assert "synthetic_us" in (tmp_path / "env" / "server" / "app.py").read_text()
    assert "is not empty; choose a new folder" in terminal.refusal(
        *words, "--new", tmp_path / "env"
    )


@pytest.mark.slow
def test_openenvs_validators_and_client_accept_the_server_and_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("openenv", reason="needs openenv: pip install 'ktdeval[openenv]'")
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
    """Address that a server prints once it listens."""
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
