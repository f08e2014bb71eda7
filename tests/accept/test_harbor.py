"""A task of Harbor from its export to its reward: Harbor's own loaders and lint, and market, solution
and verifier as the processes that its containers start.

Harbor needs Python 3.12, so its loaders run by an interpreter that has it: KTDEVAL_HARBOR_PYTHON.
No container engine is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ktdeval_command", reason="needs ktdeval_command, which is not here")

from ktdeval.testing import free_port, wait_for
from support.runs.forging import edit_json

pytestmark = pytest.mark.slow

TASK = ("--tasks", "blinded_open_research", "--windows", "W1", "--limit", "3")
HOLD = {"orders": [], "overall_reason": "nothing to buy today"}
TOOLS = Path(sys.executable).parent
HARBOR = os.environ.get("KTDEVAL_HARBOR_PYTHON", "")

LOADED = """
import json, sys
from pathlib import Path
from harbor.lint import lint_task
from harbor.lint.models import COMPOSE_RULES, DEFAULT_RULES
from harbor.models.task.task import Task
from harbor.models.task.verifier_mode import resolve_task_verifier_mode
folder = Path(sys.argv[1])
task = Task(folder)
# Compose's own rules need its plugin of Docker.
found = lint_task(folder, selected_rules=DEFAULT_RULES - COMPOSE_RULES)
print(json.dumps({
    "valid": Task.is_valid_dir(folder),
    "name": task.name,
    "verifier": resolve_task_verifier_mode(task.config).value,
    "servers": [server.name for server in task.config.environment.mcp_servers],
    "artifacts": [[each.source, each.service] for each in task.config.artifacts],
    "findings": [finding.message for finding in found],
}))
"""
TRAJECTORY = """
import json, sys
from pathlib import Path
from harbor.models.trajectories import Trajectory
read = Trajectory.model_validate_json(Path(sys.argv[1]).read_text())
print(json.dumps([read.schema_version, read.session_id, len(read.steps)]))
"""
REWARDED = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
from harbor.verifier.verifier import Verifier
paths = SimpleNamespace(reward_json_path=Path(sys.argv[1]))
print(json.dumps(Verifier._parse_reward_json(SimpleNamespace(trial_paths=paths))))
"""


def exported(folder: Path, *words: str) -> Path:
    """The folder of the one task that is written."""
    command = [TOOLS / "ktdeval", "train", "harbor", *TASK, *words, "--out", folder]
    subprocess.run(command, check=True, capture_output=True)
    (task,) = folder.iterdir()
    return task


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("harbor") / "tasks")


def content(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


class Trial:
    """What a trial's containers have, as variables of processes."""

    def __init__(self, task: Path, folder: Path) -> None:
        self.task = task
        self.folder = folder
        self.port = free_port()
        self.environment: Mapping[str, str] = {
            **os.environ,
            "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}",
            "KTDEVAL_HOST": "127.0.0.1",
            "KTDEVAL_LOGS": str(folder / "logs"),
            "KTDEVAL_PORT": str(self.port),
            "KTDEVAL_RUN": str(folder / "run"),
            "KTDEVAL_STAY": "0",
            "KTDEVAL_TOKEN_FILE": str(folder / "token"),
            "KTDEVAL_TOOLS_URL": f"http://127.0.0.1:{self.port}",
        }

    def script(self, path: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """One of the task's scripts, to its end."""
        return subprocess.run(
            ["sh", self.task / path],
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def market(self) -> Iterator[None]:
        """The market's container, from when it is healthy; it has ended after the block."""
        log = self.folder / "market.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                ["sh", self.task / "environment/market/play.sh"],
                env=self.environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            wait_for(
                lambda: "agents connect to" in log.read_text(),
                lambda: process.poll() is None,
            )
            yield
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()

    def log(self, name: str) -> Any:
        return json.loads((self.folder / "logs" / name).read_text())

    def reward(self) -> Any:
        """What the verifier gives."""
        done = self.script("tests/test.sh")
        assert done.returncode == 0, done.stderr
        return self.log("reward.json")


@pytest.fixture
def trial(task: Path, tmp_path: Path) -> Trial:
    return Trial(task, tmp_path)


@pytest.fixture(scope="module")
def played(task: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trial in which the solution played the episode."""
    trial = Trial(task, tmp_path_factory.mktemp("played"))
    with trial.market():
        solved = trial.script("solution/solve.sh")
        assert (solved.returncode, solved.stdout) == (0, "decided days: 3\n"), solved.stderr
        assert trial.script("environment/market/finish.sh").returncode == 0

    return trial.folder


@pytest.fixture
def solved(task: Path, played: Path, tmp_path: Path) -> Trial:
    return Trial(task, shutil.copytree(played, tmp_path / "trial"))


def test_the_solution_plays_an_episode_whose_card_is_verified(solved: Trial) -> None:
    assert solved.reward() == {"reward": 1.0}
    assert solved.log("figures.json")["figures"]["abstention_rate"]["value"] == 1.0

    calls = [step["tool_calls"][0] for step in solved.log("trajectory.json")["steps"]]
    tools = ["begin_episode", *["submit_action", "next_day"] * 3]
    assert [call["function_name"] for call in calls] == tools


@pytest.mark.exhaustive
def test_an_agent_plays_through_the_relay_of_its_container(trial: Trial) -> None:
    def call(number: int, tool: str, **arguments: Any) -> str:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        return json.dumps(message)

    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    }
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        call(1, "begin_episode"),
    ]
    for day in range(3):
        lines += [call(10 + day, "submit_action", **HOLD), call(20 + day, "next_day")]

    with trial.market():
        done = trial.script("environment/ktdeval-tools", "\n".join(lines) + "\n")
        trial.script("environment/market/finish.sh")

    answers = [json.loads(line)["result"] for line in done.stdout.splitlines()]
    assert "Episode" in answers[1]["content"][0]["text"]
    assert "over" in answers[-1]["content"][0]["text"]
    assert trial.reward() == {"reward": 1.0}


def test_an_episode_that_is_left_is_no_reward(trial: Trial) -> None:
    with trial.market():
        pass

    assert trial.reward() == {"reward": 0.0}
    reason = trial.log("figures.json")["reason"]
    assert reason == "there is no card: the episode was not finished"


@pytest.mark.exhaustive
def test_a_metric_is_the_reward(solved: Trial, tmp_path: Path) -> None:
    solved.task = exported(tmp_path / "rewarded", "--reward", "abstention_rate")
    assert solved.reward() == {"reward": 1.0}


@pytest.mark.exhaustive
def test_an_undefined_metric_is_no_reward(solved: Trial, tmp_path: Path) -> None:
    solved.task = exported(tmp_path / "rewarded", "--reward", "brier")
    done = solved.script("tests/test.sh")

    assert done.returncode == 1
    assert "brier is not defined for this episode, so there is no reward" in done.stderr
    assert not (solved.folder / "logs" / "reward.json").exists()


@pytest.mark.exhaustive
def test_a_card_that_somebody_changed_is_no_reward(solved: Trial) -> None:
    (card_file,) = (solved.folder / "run" / "cards").glob("*.json")
    edit_json(card_file, lambda card: card["metrics"]["total_return"].update(value=9.0))

    assert solved.reward() == {"reward": 0.0}
    assert "total_return" in solved.log("figures.json")["reason"]


@pytest.mark.exhaustive
def test_two_exports_are_the_same_bytes(task: Path, tmp_path: Path) -> None:
    assert content(exported(tmp_path / "again")) == content(task)


def harbor(program: str, *words: Path) -> Any:
    if not HARBOR:
        pytest.skip("needs Harbor: set KTDEVAL_HARBOR_PYTHON to an interpreter that has it")
    done = subprocess.run(
        [HARBOR, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_harbor_loads_the_task_and_finds_nothing_to_correct(task: Path) -> None:
    assert harbor(LOADED, task) == {
        "valid": True,
        "name": "ktdeval/blinded_open_research-w1",
        "verifier": "separate",
        "servers": ["ktdeval"],
        "artifacts": [["/episode", "market"]],
        "findings": [],
    }


@pytest.mark.exhaustive
def test_harbor_reads_the_reward(solved: Trial) -> None:
    solved.reward()
    logs = solved.folder / "logs"
    read = harbor(TRAJECTORY, logs / "trajectory.json")
    assert (read[0], read[2]) == ("ATIF-v1.7", 7)
    assert harbor(REWARDED, logs / "reward.json") == {"reward": 1.0}
