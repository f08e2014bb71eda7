"""A file that may come from a stranger names no code: only a command line's own `--plugin` does."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

from ktdeval.testing import Terminal
from ktdeval.values import dumps_canonical

ROOT = Path(__file__).parents[3]
REFUSAL = (
    "ktdeval: error: plugin {code}: named by a file, and no file may name code to run; give"
    " --plugin {code} if you trust this code\n"
)

#: calls that get the names of plugins from elsewhere than `open_plugins`, with the reason
UNCHECKED = {
    "ktdeval/cli/typed_plugins.py": "open_plugins itself",
    "ktdeval/cli/python_api.py": "an argument of a Python call",
    "ktdeval/testing/plugin_check.py": "an argument of a Python call or of `plugin check`",
    "plugins/ktdeval-inspect/ktdeval_inspect/running.py": "an argument of a Python call",
    "plugins/ktdeval_board/checking/record_sandbox.py": "a job from the command's own process",
}


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A Python file that leaves a mark where it is executed."""
    path = tmp_path / "stranger.py"
    mark = tmp_path / "executed"
    text = f"open({str(mark)!r}, 'w').close()\nfrom ktdeval.api import hookimpl\n"
    path.write_text(f"{text}@hookimpl\ndef ktdeval_metrics():\n    return []\n", encoding="utf-8")
    return path


def is_executed(code: Path) -> bool:
    return (code.parent / "executed").exists()


def write(path: Path, **fields: Any) -> Path:
    path.write_text(yaml.safe_dump(fields), encoding="utf-8")
    return path


def plan_of(folder: Path, **fields: Any) -> Path:
    cell = {"tasks": ["blinded_open_research"], "windows": ["W1"]}
    return write(folder / "plan.yaml", models=["builtin/hold"], **cell, **fields)


def config_of(folder: Path, **fields: Any) -> Path:
    cell = {"tasks": ["blinded_open_research"], "windows": ["W1"]}
    return write(folder / "config.yaml", model="builtin/hold", **cell, **fields)


@pytest.mark.parametrize("command", ["plan PLAN", "grid PLAN --out G", "grid worker PLAN --out G"])
def test_a_plan_executes_no_file_that_it_names(
    command: str, code: Path, tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan_of(tmp_path, plugin=[str(code)])

    refused = terminal.refusal(*command.replace("PLAN", "plan.yaml").split())

    assert refused == REFUSAL.format(code=code)
    assert not is_executed(code)


REGISTER = "leaderboard register --board B --division d --submitter me --contact me@example.org"


@pytest.mark.parametrize("command", ["plan", "run --out run", "run --dry-run --out run", REGISTER])
def test_a_config_executes_no_file_that_it_names(
    command: str, code: Path, tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = config_of(tmp_path, plugin=[str(code)])

    refused = terminal.refusal(*command.split(), "--config", config)

    assert refused == REFUSAL.format(code=code)
    assert not is_executed(code)


@pytest.mark.parametrize("name", ["stranger", "./stranger.py", "."])
def test_a_module_and_a_relative_path_are_code_too(
    name: str, code: Path, tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = config_of(tmp_path, plugin=name)

    assert terminal.refusal("plan", "--config", config) == REFUSAL.format(code=name)
    assert not is_executed(code)


def test_another_plugin_on_the_line_does_not_admit_that_of_the_file(
    code: Path, tmp_path: Path, terminal: Terminal
) -> None:
    record = tmp_path / "G" / "launches" / "0001.json"
    record.parent.mkdir(parents=True)
    plan = {"models": [{"name": "builtin/hold"}], "tasks": ["x"], "plugin": [str(code)]}
    fields = {"workers": 1, "runner": "local", "begun_at": "", "host": "", "pid": 1}
    record.write_text(dumps_canonical({"id": "0001", "plan": plan, **fields}), encoding="utf-8")
    words = ("grid", "worker", "--out", tmp_path / "G", "--launch", "0001")

    refused = terminal.refusal(*words, "--plugin", "ktdeval_trackers.otel")

    assert refused == REFUSAL.format(code=code)
    assert not is_executed(code)


def test_the_option_of_the_line_runs_the_code(
    code: Path, tmp_path: Path, terminal: Terminal
) -> None:
    config = config_of(tmp_path, plugin=[str(code)])

    terminal.out("plan", "--config", config, "--plugin", code)

    assert is_executed(code)


def test_every_command_loads_its_plugins_where_they_are_checked() -> None:
    found = set()
    for room in ("ktdeval", "plugins", "tasks"):
        for path in (ROOT / room).rglob("*.py"):
            if "tests" not in path.parts and has_unchecked_call(path):
                found.add(str(path.relative_to(ROOT)))

    assert found == UNCHECKED.keys()


def has_unchecked_call(path: Path) -> bool:
    """Return whether a module calls `load_plugins` with names of plugins that are not literal."""
    text = path.read_text(encoding="utf-8")
    if "load_plugins" not in text:
        return False

    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id == "load_plugins" and node.args and ast.unparse(node.args[0]) != "()":
            return True

    return False
