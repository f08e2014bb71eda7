"""The agents of examples/agents, by the real frameworks: three masked days, a card that is verified
without the framework, and the figures of `react` with the same decisions.

`make test-frameworks` installs the frameworks into an environment of its own and names its
interpreter by KTDEVAL_TEST_FRAMEWORKS.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ktdeval_command", reason="needs ktdeval_command, which is not here")

import pandas as pd

from support.paths import REPOSITORY
from support.runs.run_support import SAME_MASK, TASK, card_of, ktdeval

EXAMPLES = REPOSITORY / "examples" / "agents"
IN_PROCESS = {
    "langgraph": "langgraph",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "smolagents": "smolagents",
}
"""Agents with the module of their framework."""
CLAUDE = "mcp__ktdeval__"  # what Claude Code puts before names of tools
MAX_LINES = 40
PLAN = ("--tasks", TASK, "--windows", "W1", "--limit", "3", *SAME_MASK)

LOOK = {"call": "screen_candidates", "arguments": {"factors": ["MOM_12_1"], "k": 3}}
BUY = {"side": "BUY", "confidence": 0.6, "reason": "among the strongest"}
SELL = {"side": "SELL", "confidence": 0.7, "reason": "no longer wanted", "target_weight": 0}
DAYS = (
    [
        {"stock_id": "asset_1590", "target_weight": 0.05} | BUY,
        {"stock_id": "asset_4263", "target_weight": 0.08} | BUY,
    ],
    [],
    [{"stock_id": "asset_1590"} | SELL],
)
"""Orders of the three days; both labels are of the first three by momentum."""


def submitted(day: int) -> dict[str, Any]:
    return {"orders": list(DAYS[day]), "overall_reason": f"decision of day {day}"}


def script_of_react(day: int) -> list[Any]:
    return [LOOK, "Enough seen.", {"submit": submitted(day)}]


def script_of_agent(day: int, prefix: str = "") -> list[Any]:
    look = LOOK | {"call": f"{prefix}{LOOK['call']}"}
    submit = {"call": f"{prefix}submit_action", "arguments": submitted(day)}
    return [look, submit, "Done."]


def scripted(path: Path, turns: list[list[Any]]) -> tuple[str, ...]:
    """The words of a model that gives these replies, day by day."""
    path.write_text(json.dumps({"answers": turns}))
    return ("--model", "builtin/script", "--model-args", f"file={path}")


def python_of(framework: str) -> str:
    """The interpreter that has a framework."""
    python = os.environ.get("KTDEVAL_TEST_FRAMEWORKS", "")
    if not python:
        pytest.skip("KTDEVAL_TEST_FRAMEWORKS names no interpreter; make test-frameworks does")

    found = subprocess.run([python, "-c", f"import {framework}"], capture_output=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"{python} can't import {framework}")
    return python


def run(python: str, *words: object, cwd: Path) -> None:
    """Run ktdeval with an interpreter; nothing but its progress may stand on stderr."""
    done = subprocess.run(
        [python, "-m", "ktdeval", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stderr.splitlines() if not line.startswith(TASK)] == []


def decided(run: Path) -> pd.DataFrame:
    """What was decided each day and what came of it; texts withheld are counted with an agent's own
    prompts, which `react` does not have.
    """
    (ledger,) = run.glob("episodes/*/ledger.parquet")
    return pd.read_parquet(ledger).drop(columns="failures")


def figures(run: Path) -> dict[str, Any]:
    card = card_of(run)
    return {name: card[name] for name in ("metrics", "attribution", "calibration", "orders")}


def assert_as_react(run: Path, react: Path) -> None:
    assert figures(run)["orders"]["filled"] == 3  # so that there is something to be equal
    pd.testing.assert_frame_equal(decided(run), decided(react))
    assert figures(run) == figures(react)


@pytest.fixture(scope="module")
def react(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `react` with the same decisions."""
    folder = tmp_path_factory.mktemp("react")
    model = scripted(folder / "script.json", [script_of_react(day) for day in range(3)])
    done = ktdeval(*PLAN, *model, "--out", "run", cwd=folder)
    assert done.code == 0, done
    return folder / "run"


@pytest.mark.slow
@pytest.mark.parametrize("agent", IN_PROCESS)
def test_framework_decides_as_react_and_its_card_verifies_without_it(
    agent: str, react: Path, tmp_path: Path
) -> None:
    python = python_of(IN_PROCESS[agent])
    plugin = EXAMPLES / f"{agent}_agent.py"
    model = scripted(tmp_path / "script.json", [script_of_agent(day) for day in range(3)])
    run(python, *PLAN, *model, "--plugin", plugin, "--agent", agent, "--out", "run", cwd=tmp_path)

    assert_as_react(tmp_path / "run", react)
    card = card_of(tmp_path / "run")
    assert card["deciders"][-1] == {"name": agent, "kind": "plugin"}
    (episode,) = card["episodes"]
    # The framework ends with the step: nothing is asked after a submission was accepted.
    assert [role["calls"] for role in episode["roles"]] == [6]

    verified = ktdeval("card", "verify", f"run/cards/{TASK}.json", "--plugin", plugin, cwd=tmp_path)
    assert verified.code == 0, verified


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_the_claude_agent_sdk_decides_as_react_does(
    sandbox: str, react: Path, tmp_path: Path
) -> None:
    python = python_of("claude_agent_sdk")
    if sandbox == "bwrap" and os.geteuid() == 0 and not is_for_all(python):
        pytest.skip(f"{python} is not readable for the user nobody, as whom root's sandbox runs")

    (tmp_path / "agent.py").write_bytes((EXAMPLES / "claude_sdk_agent.py").read_bytes())
    turns = [script_of_agent(day, CLAUDE) for day in range(3)]
    model = scripted(tmp_path / "script.json", turns)
    words = ("--agent", "command", "--agent-args", f"run={python} agent.py")
    walls = ("--agent-args", f"sandbox={sandbox}")
    done = ktdeval(*PLAN, *model, *words, *walls, "--out", "run", cwd=tmp_path)
    if sandbox == "bwrap" and "can't create the sandbox here" in done.err:
        pytest.skip(done.err)
    assert done.code == 0, done

    assert_as_react(tmp_path / "run", react)
    decider = card_of(tmp_path / "run")["deciders"][-1]
    kinds = {"none": "program", "bwrap": "sandboxed_program"}
    assert (decider["kind"], decider["steps"]) == (kinds[sandbox], 3)

    verified = ktdeval("card", "verify", f"run/cards/{TASK}.json", cwd=tmp_path)
    assert verified.code == 0, verified


def is_for_all(python: str) -> bool:
    """Whether the folders above an interpreter, and above the one it is a link to, are open to all
    users.
    """
    real = Path(python).resolve()
    folders = [*Path(python).absolute().parents, *real.parents]
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in folders)


# --- without the frameworks


def examples() -> list[Path]:
    return sorted(EXAMPLES.glob("*_agent.py"))


def test_each_framework_has_its_example() -> None:
    names = [path.stem.removesuffix("_agent") for path in examples()]
    assert names == sorted([*IN_PROCESS, "claude_sdk"])


@pytest.mark.parametrize("path", examples(), ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_it_is_run(path: Path) -> None:
    text = path.read_text()
    usage = ast.get_docstring(ast.parse(text)) or ""

    assert len(text.splitlines()) <= MAX_LINES
    assert "`pip install " in usage
    assert f"{path.name}" in usage
    assert "--tasks blinded_open_research --windows W1 --limit 3 --out run" in usage


@pytest.mark.parametrize("agent", IN_PROCESS)
def test_an_example_is_listed_without_its_framework(agent: str, tmp_path: Path) -> None:
    plugin = EXAMPLES / f"{agent}_agent.py"
    done = ktdeval("list", "agents", "--plugin", plugin, cwd=tmp_path)

    assert done.code == 0, done
    assert agent in done.out
