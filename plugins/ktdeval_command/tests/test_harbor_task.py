"""Tasks of Harbor: which files an episode becomes, how its solution decides, what its verifier says."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ktdeval.registry import Wheel, load_plugins
from ktdeval.testing import Terminal
from ktdeval.values import sha256_hex
from ktdeval_command.harbor import harbor_solve, harbor_verify
from ktdeval_command.harbor.harbor_command import episodes_of, run_config
from ktdeval_command.harbor.harbor_task import HarborContent, HarborEpisode, task_files
from support.command.literal_player import told

EPISODE = HarborEpisode(
    task="market_blinded",
    window="W1",
    rules="Trade @RUN@ well.",
    submit_tool="submit_action",
    days=40,
    run_options={"--tasks": "market_blinded", "--data-args": "words=it's two"},
    card={"task.name": "market_blinded", "seeds": [0]},
    reward=None,
)
CONTENT = HarborContent(wheel=Wheel("ktdeval-9.9.9-py3-none-any.whl", b"PK"))


def files(**changes: Any) -> dict[str, str]:
    """Texts of a task's files by path."""
    return {
        path: data.decode()
        for path, data in task_files(replace(EPISODE, **changes), CONTENT).items()
        if not path.endswith(".whl")
    }


def test_the_agents_container_shares_the_tokens_folder_alone_to_read() -> None:
    made = files()
    compose = yaml.safe_load(made["environment/docker-compose.yaml"])
    main, market = compose["services"]["main"], compose["services"]["market"]
    assert main["volumes"] == ["ktdeval:/ktdeval:ro"]
    assert market["volumes"] == ["ktdeval:/ktdeval"]
    assert "pip" not in made["environment/Dockerfile"]
    assert "COPY ktdeval-tools stdio_relay.py " in made["environment/Dockerfile"]


def test_the_market_is_asked_for_with_quoted_options() -> None:
    script = files()["environment/market/play.sh"]
    assert "    --tasks market_blinded \\\n" in script
    assert """    --data-args 'words=it'"'"'s two' \\\n""" in script
    done = subprocess.run(["sh", "-n"], input=script, text=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("path", ["environment/market/Dockerfile", "tests/Dockerfile"])
def test_containers_install_the_wheel_by_hash_with_the_given_snapshot(
    path: str,
) -> None:
    plain = task_files(EPISODE, CONTENT)[path].decode()
    wheel = "/opt/wheel/ktdeval-9.9.9-py3-none-any.whl"
    named = f"ktdeval @ file://{wheel}#sha256={sha256_hex(b'PK')}"
    assert f'RUN pip install --no-cache-dir "{named}"\n' in plain
    assert "data" not in plain

    content = replace(CONTENT, market_files={"manifest.json": b"{}"})
    made = task_files(EPISODE, content)
    folder = path.rpartition("/")[0]
    assert made[f"{folder}/ktdeval-9.9.9-py3-none-any.whl"] == b"PK"
    assert made[f"{folder}/data/manifest.json"] == b"{}"
    assert "COPY data /" in made[path].decode()
    assert b"--data /opt/ktdeval/data" in made["environment/market/play.sh"]
    assert json.loads(made["tests/expected.json"])["verify_options"] == ["--data", "/tests/data"]


def test_the_same_episode_gives_the_same_bytes() -> None:
    assert task_files(EPISODE, CONTENT) == task_files(replace(EPISODE), CONTENT)


def test_a_window_that_is_named_by_its_days_is_not_named_in_the_task() -> None:
    made = replace(EPISODE, window="2024-04-01:2024-06-05")
    assert re.fullmatch(r"market_blinded-[0-9a-f]{8}", made.name)


# --- the solution


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "enum": ["BUY", "HOLD"]}, "HOLD"),
        ({"type": "string", "enum": ["low", "high"]}, "low"),
        ({"const": 3}, 3),
        ({"type": "integer", "minimum": 2}, 2),
        ({"type": ["number", "null"]}, 0),
        ({"type": "boolean"}, False),
        ({"type": "array", "items": {"type": "boolean"}}, []),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [False, False]),
        (
            {
                "type": "object",
                "properties": {"orders": {"type": "array"}, "reason": {"type": "string"}},
                "required": ["orders", "reason"],
            },
            {"orders": [], "reason": harbor_solve.REASON},
        ),
    ],
)
def test_the_solution_submits_the_smallest_value_of_a_schema(schema: Any, value: Any) -> None:
    assert harbor_solve.smallest(schema) == value


# --- the verifier

CARD = {
    "task": {"name": "market_blinded"},
    "seeds": [0],
    "missing_episodes": [],
    "decisions": {"model": 2, "model_after_retry": 1, "fallback": 0, "error": 0},
    "coverage": {"steps_planned": 3},
    "metrics": {"total_return": {"value": 0.25, "undefined": {}}},
}
EXPECTED = {"card": dict(EPISODE.card), "reward": None, "verify_options": []}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, ""),
        ({"task": {"name": "bright"}}, "the card's task.name is bright, not market_blinded"),
        ({"seeds": [1]}, "the card's seeds is [1], not [0]"),
        ({"missing_episodes": ["x"]}, "the episode is not finished"),
        (
            {"decisions": {"model": 2, "model_after_retry": 0, "fallback": 1, "error": 0}},
            "2 of 3 days were decided by the agent",
        ),
    ],
)
def test_a_card_counts_that_is_of_the_task_and_decided_on_each_day(
    change: Any, problem: str
) -> None:
    assert harbor_verify.problem_of({**CARD, **change}, EXPECTED) == problem


def test_an_episode_without_a_card_is_no_reward(tmp_path: Path) -> None:
    card, reason = harbor_verify.verify_run(tmp_path, EXPECTED)
    assert card is None
    assert reason == "there is no card: the episode was not finished"


# --- the command


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--tasks", "qfinzero_planning"], "--tasks qfinzero_planning: is not a trading task"),
        (["--tasks", "market_blinded", "--reward", "luck"], "luck"),
    ],
)
def test_what_can_be_no_task_of_harbor_is_refused(
    tmp_path: Path, terminal: Terminal, words: list[str], problem: str
) -> None:
    assert problem in terminal.refusal("train", "harbor", *words, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path, terminal: Terminal) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    refusal = terminal.refusal("train", "harbor", "--tasks", "market_blinded", "--out", tmp_path)
    assert "holds something else" in refusal
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_harbor_agent_is_told_only_its_own_drivers_workflow() -> None:
    options = {"tasks": ("blinded_open_research",), "data": "synthetic", "windows": ("W1",)}
    (episode,) = episodes_of(run_config(options), load_plugins(), None)
    procedure = told(episode.rules)
    assert procedure.acts == ["research", "submit", "next_day"]
    instruction = files(rules=episode.rules)["instruction.md"]
    assert 'Play each day as "How a step goes" says below' in instruction
    assert "submits nothing yet" not in instruction
