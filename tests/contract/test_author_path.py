"""What CONTRIBUTING.md shows to authors works as it is printed there."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval.cli.main import main
from paths import REPOSITORY

MODULES = ("sums", "clerk", "hits")
GUIDE = (REPOSITORY / "CONTRIBUTING.md").read_text()
MODEL = '''
from ktdeval.api import Reply, Spec, ToolCall, hookimpl

class Clerk:
    """Submits 5 to every question."""

    name = "clerk/five"

    def reply(self, request):
        return Reply("", (ToolCall("1", "submit_answer", '{"answer": "5"}'),), "tool_calls")

@hookimpl
def ktdeval_models():
    return [Spec("clerk/five", lambda name, params=None: Clerk(), "Submits 5")]
'''


def block_of(name: str) -> str:
    """The code block whose first line names this file."""
    found = [text for text in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if text.splitlines()[0].endswith(f"# {name}")]
    assert len(found) == 1, name
    return found[0]


def code_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other tests load files of these names from elsewhere."""
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def plugins(tmp_path: Path) -> list[str]:
    (tmp_path / "sums.py").write_text(block_of("sums.py"))
    (tmp_path / "clerk.py").write_text(MODEL)
    return [f"--plugin={tmp_path / name}" for name in ("sums.py", "clerk.py")]


def test_a_task_of_questions_has_20_lines_and_names_no_market(
    plugins: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(code_of(block_of("sums.py"))) <= 20
    run = tmp_path / "run"
    assert main([*plugins, "--tasks", "sums", "--model", "clerk/five", "--out", str(run), "--quiet"]) == 0
    card = json.loads((run / "cards/sums.json").read_text())
    assert (card["snapshot"], card["windows"], card["task"]["mask"], card["task"]["mode"]) == (None, [], None, None)
    # 5 is not among the choices of the second question: no valid answer, which is no wrong one.
    assert (card["scores"]["accuracy"]["value"], card["scores"]["accuracy"]["n"]) == (1.0, 1)
    assert card["coverage"]["steps_decided"] == 1
    for command in (["card", "verify", str(run)], ["score", str(run)], ["card", "show", str(run)], ["card", "validate", str(run)]):
        assert main([*command, *(plugins if command[-2] in ("verify", "score") else ())]) == 0
    assert main([*plugins, "--tasks", "sums", "--model", "clerk/five", "--windows", "W1", "--quiet"]) != 0
    assert "task sums asks about no market and has no windows; leave --windows out" in capsys.readouterr().err


def test_a_task_file_needs_no_package_and_stays_with_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = re.search(r"((?:    .*\n)*?    family: mine\n(?:    .*\n)+)", GUIDE)
    assert text is not None
    path, run = tmp_path / "mine.yaml", tmp_path / "run"
    path.write_text(text[1])
    assert main(["--tasks", str(path), "--model", "builtin/hold", "--limit", "2", "--out", str(run), "--quiet"]) == 0
    path.unlink()
    assert main(["score", str(run)]) == 0
    assert main(["card", "verify", str(run)]) == 0
    assert main(["--tasks", str(path), "--model", "builtin/hold"]) != 0
    assert str(path) in capsys.readouterr().err.splitlines()[-1]


def test_a_metric_is_one_function_in_ten_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(code_of(block_of("hits.py"))) <= 10
    plugin, run = tmp_path / "hits.py", tmp_path / "run"
    plugin.write_text(block_of("hits.py"))
    words = ["--model", "builtin/momentum", "--tasks", "blinded_open_research", "--windows", "W1", "--limit", "10"]
    assert main([*words, "--out", str(run), "--quiet"]) == 0
    assert main(["score", str(run), "--plugin", str(plugin), "--metrics", "hit_rate"]) == 0
    card = json.loads((run / "cards/hit_rate/blinded_open_research.json").read_text())
    assert 0 < card["metrics"]["hit_rate"]["value"] < 1
    assert "hit_rate" in capsys.readouterr().out
