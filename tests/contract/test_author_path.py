"""Code that CONTRIBUTING.md and docs/plugins.md show to authors works as it is printed there."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ktdeval
from ktdeval.api import Reply
from ktdeval.cli.main import main
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness import ModelTraits
from ktdeval.testing import AnsweringHandler, serving
from support.docs.docs_prose import author_guide, guide_files

MODULES = ("sums", "clerk", "hits", "local", "sizing")
GUIDE = author_guide()
FILES = guide_files()
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
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("KTDEVAL_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "sums.py").write_text(FILES["sums.py"])
    (tmp_path / "clerk.py").write_text(MODEL)
    return [f"--plugin={tmp_path / name}" for name in ("sums.py", "clerk.py")]


@pytest.mark.slow
def test_a_task_of_questions_has_20_lines_and_names_no_market(
    plugins: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(code_of(FILES["sums.py"])) <= 20

    run = tmp_path / "run"
    assert (
        main([*plugins, "--tasks", "sums", "--model", "clerk/five", "--out", str(run), "--quiet"])
        == 0
    )

    card = json.loads((run / "cards/sums.json").read_text())
    named = {*card, *card["task"], *card["episodes"][0]}

    assert named.isdisjoint({"snapshot", "windows", "window", "mask", "mode", "mask_key"})
    # 5 is not among the choices of the second question: no valid answer counts as a wrong one.
    assert (card["scores"]["accuracy"]["value"], card["scores"]["accuracy"]["n"]) == (0.5, 2)
    assert card["scores"]["unanswered"]["detail"]["by_provenance"] == {"fallback": 1}
    assert card["coverage"]["steps_decided"] == 1

    manifest = json.loads((run / "manifest.json").read_text())
    assert (manifest["data"], manifest["snapshot"]) == (None, None)
    assert not list((tmp_path / "cache").glob("snapshots/*"))

    for command in (
        ["card", "verify", str(run)],
        ["score", str(run)],
        ["card", "show", str(run)],
        ["card", "verify", "--card-only", str(run)],
    ):
        assert main([*command, *(plugins if command[-2] in ("verify", "score") else ())]) == 0

    shown = capsys.readouterr().out

    assert not re.search(r"market|windows? |mask", shown), shown

    for option in (
        "--windows=W1",
        "--data=placebo",
        "--data-args=seed=1",
        f"--mask-key={'0' * 32}",
    ):
        for how in ("run", "plan"):
            assert main([how, *plugins, "--tasks", "sums", "--model", "clerk/five", option]) != 0
            assert (
                f"{option.split('=')[0]}: none of these tasks needs a market; omit the option"
                in capsys.readouterr().err
            )


@pytest.mark.slow
def test_old_card_and_run_with_null_market_fields_are_still_read(
    plugins: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    asked = [*plugins, "--tasks", "sums", "--model", "clerk/five", "--out", str(run), "--quiet"]

    assert main(asked) == 0

    path = run / "cards/sums.json"
    manifest = run / "manifest.json"
    text = path.read_text()
    card = json.loads(path.read_text())
    plan = json.loads(manifest.read_text())
    card |= {"snapshot": None, "windows": []}
    card["task"] |= {"mask": None, "mode": None}
    card["episodes"][0]["window"] = None
    path.write_text(json.dumps(card, indent=1))
    manifest.write_text(
        json.dumps(plan | {"data": {"data": "none", "data_args": {}}, "snapshot": ""})
    )

    assert main(["card", "verify", str(run), *plugins]) == 0
    assert main(asked) == 0, "the same command resumes it"
    assert main(["score", str(run), *plugins]) == 0

    again = json.loads(path.read_text())
    assert {**again, "provenance": 0} == {**json.loads(text), "provenance": 0}

    capsys.readouterr()


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("bad_request", r"2 steps in a row ended in a failed call \(model_bad_request\)"),
        ("server", r"a call of a step failed for good \(server\), which no model decided"),
    ],
)
def test_failures_stop_a_self_calling_model_unless_it_is_free(
    plugins: list[str], tmp_path: Path, kind: str, line: str
) -> None:
    class Down:
        def reply(self, request: object) -> Reply:
            raise ModelError(kind, "down")

    asked = {"plugin": plugins[0].partition("=")[2], "max_failures": 2, "quiet": True}
    with pytest.raises(ProviderError, match=line):
        ktdeval.evaluate(Down(), "sums", out=str(tmp_path / "own"), **asked)

    Down.traits = ModelTraits(is_free=True)  # type: ignore[attr-defined]
    (card,) = ktdeval.evaluate(Down(), "sums", out=str(tmp_path / "free"), **asked).typed_cards

    assert card.plain["failures"] == {f"model_{kind}": 2}


@pytest.mark.slow
def test_a_task_file_needs_no_package_and_stays_with_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = re.search(r"((?:    .*\n)*?    family: mine\n(?:    .*\n)+)", GUIDE)
    assert text is not None

    path = tmp_path / "mine.yaml"
    run = tmp_path / "run"
    path.write_text(text[1])

    assert (
        main(
            [
                "--tasks",
                str(path),
                "--model",
                "builtin/hold",
                "--limit",
                "2",
                "--out",
                str(run),
                "--quiet",
            ]
        )
        == 0
    )

    path.unlink()
    assert main(["score", str(run)]) == 0
    assert main(["card", "verify", str(run)]) == 0
    assert main(["--tasks", str(path), "--model", "builtin/hold"]) != 0
    assert str(path) in capsys.readouterr().err.splitlines()[-1]

    path.write_text(
        f"{text[1].rstrip()}\n        tools: [get_market_context, get_market_context]\n"
    )

    assert (
        main(["--tasks", str(path), "--model", "builtin/hold", "--out", str(tmp_path / "other")])
        == 2
    )

    message = (
        "task my_short_week: tools: a name appears twice: get_market_context, get_market_context"
    )

    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_a_metric_is_one_short_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(code_of(FILES["hits.py"])) <= 15

    plugin = tmp_path / "hits.py"
    run = tmp_path / "run"
    plugin.write_text(FILES["hits.py"])
    words = [
        "--model",
        "builtin/momentum",
        "--tasks",
        "blinded_open_research",
        "--windows",
        "W1",
        "--limit",
        "10",
    ]

    assert main([*words, "--out", str(run), "--quiet"]) == 0
    assert main(["score", str(run), "--plugin", str(plugin), "--metrics", "hit_rate"]) == 0

    card = json.loads((run / "cards/hit_rate/blinded_open_research.json").read_text())
    assert 0 < card["metrics"]["hit_rate"]["value"] < 1
    assert "hit_rate" in capsys.readouterr().out


def test_an_adapter_and_an_agent_with_a_tool_of_its_own_run_as_printed(tmp_path: Path) -> None:
    names = ("sums.py", "local.py", "sizing.py")
    for name in names:
        (tmp_path / name).write_text(FILES[name])

    bodies: list[Any] = []

    class OwnProtocol(AnsweringHandler):
        """Speaks the protocol of `local.py`: sizes once where it may, and submits 5."""

        def do_POST(self) -> None:
            asked = json.loads(self.body())
            bodies.append(asked)
            calls = []

            if [tool["name"] for tool in asked["tools"]] == ["size"]:
                calls = [{"id": "1", "name": "size", "arguments": {"percent": 8}}]
            elif asked["must_call"]:
                calls = [{"id": "2", "name": asked["must_call"], "arguments": {"answer": "5"}}]

            self.answer_json({"text": "", "calls": calls, "tokens_in": 7, "tokens_out": 2})

    run = tmp_path / "run"
    words = ["--plugin", ",".join(str(tmp_path / name) for name in names), "--agent", "sizing"]
    words += ["--tasks", "sums", "--limit", "1", "--out", str(run), "--quiet"]

    with serving(OwnProtocol) as address:
        at = f"base_url={address}/chat"
        assert main([*words, "--model", "local/mine", "--model-args", at]) == 0

    card = json.loads((run / "cards/sums.json").read_text())

    assert card["scores"]["accuracy"]["value"] == 1
    assert card["usage"]["input_tokens"] == 2 * 7, "the call of the tool, and the submission"

    sized = [body for body in bodies if "0.08" in str(body)]
    assert sized, "the tool's result went back to the model"
