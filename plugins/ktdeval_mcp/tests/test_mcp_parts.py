"""Configurations of clients, words of commands, bounded answers and the search of the docs."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter

import pytest
from click.testing import CliRunner

from ktdeval.cli.main import cli
from ktdeval.errors import UsageError
from ktdeval.testing import Terminal
from ktdeval.values import load_yaml
from ktdeval_mcp.command import mcp
from ktdeval_mcp.docs_search import MAX_HITS_OF_A_PAGE, docs_sections, search_docs
from ktdeval_mcp.tools import CommandTool, command_tools
from support.paths import REPOSITORY

SEARCHED = load_yaml(REPOSITORY / "tests/support/docs/searched_words.yaml")
SERVE = ["-P", "-m", "ktdeval", "mcp", "serve"]


@pytest.fixture(scope="module")
def tools() -> dict[str, CommandTool]:
    return command_tools(cli)


@pytest.mark.parametrize(
    ("client", "key", "file"),
    [
        ("claude-code", "mcpServers", ".mcp.json"),
        ("gemini", "mcpServers", ".gemini/settings.json"),
        ("vscode", "servers", ".vscode/mcp.json"),
    ],
)
def test_a_configuration_in_json_starts_this_python(
    client: str, key: str, file: str, terminal: Terminal
) -> None:
    code, out, err = terminal.call("mcp", "config", client)

    assert code == 0
    entry = json.loads(out)[key]["ktdeval"]
    assert (entry["command"], entry["args"]) == (sys.executable, SERVE)
    assert file in err


def test_the_configuration_of_codex_is_toml(terminal: Terminal) -> None:
    entry = tomllib.loads(terminal.out("mcp", "config", "codex"))["mcp_servers"]["ktdeval"]

    assert (entry["command"], entry["args"]) == (sys.executable, SERVE)
    # the server gives a command 600 seconds
    assert entry["tool_timeout_sec"] > 600


def test_the_skill_names_every_tool(tools: dict[str, CommandTool], terminal: Terminal) -> None:
    text = terminal.text("mcp", "skill")

    assert text.startswith("---\nname: ktdeval\ndescription: ")
    for name in [*tools, "docs_search"]:
        assert f"`{name}`" in text


@pytest.fixture
def without_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ktdeval_mcp.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)


@pytest.mark.usefixtures("without_sdk")
def test_without_the_sdk_one_line_says_what_to_install(terminal: Terminal) -> None:
    for words in (["mcp"], ["mcp", "serve"]):
        line = terminal.refusal(*words)
        assert "`ktdeval mcp serve`: mcp is not installed: " in line
        assert "pip install" in line

    assert '"ktdeval"' in terminal.out("mcp", "config", "vscode")


def test_help_of_the_group_names_its_commands() -> None:
    shown = CliRunner().invoke(mcp, ["--help"]).output
    assert all(word in shown for word in ("serve", "config", "skill"))


def test_arguments_become_words_and_a_file_is_no_option(tools: dict[str, CommandTool]) -> None:
    compare = tools["compare"].words({"cards": ["--a", "b"], "tasks": ["x", "y"], "pool": True})
    assert compare == ["compare", "agents", "--pool", "--tasks=x", "--tasks=y", "--", "--a", "b"]

    judge = tools["judge"]
    assert judge.words({"keep_others": False}, "--json") == ["judge", "--json"]
    assert judge.words({"sharpe": 2.1, "days": 250}) == ["judge", "--sharpe=2.1", "--days=250"]
    audit = tools["audit"].words({"log": "l", "from": "chat"})
    assert audit == ["audit", "--from=chat", "--", "l"]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("audit", {}, "audit: 'log' is a required property"),
        ("judge", {"plugin": ["evil.py"]}, "'plugin' was unexpected"),
        ("judge", {"dated": "close"}, "judge: dated: 'close' is not one of"),
        ("compare", {"cards": "run"}, "compare: cards: 'run' is not of type 'array'"),
        ("plan", {"model_args": ["x=1"]}, "'model_args' was unexpected"),
    ],
)
def test_arguments_that_no_tool_takes_are_refused(
    tool: str, arguments: dict[str, object], message: str, tools: dict[str, CommandTool]
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        tools[tool].words(arguments)


def test_long_lists_of_a_result_are_cut_and_it_says_so() -> None:
    answers = pytest.importorskip("ktdeval_mcp.answers")
    rows = [{"day": day, "words": ["a word"] * 50} for day in range(5000)]

    whole, note = answers.bound_json('{"rows": [1, 2]}')
    assert (whole, note) == ({"rows": [1, 2]}, "")

    cut, note = answers.bound_json(json.dumps({"count": 5000, "rows": rows}))
    assert cut["count"] == 5000
    assert cut["rows"][0]["day"] == 0
    assert 0 < len(cut["rows"]) < 5000
    assert len(json.dumps(cut)) <= answers.MAX_CHARS
    assert f"after {len(cut['rows'])} entries" in note

    nothing, note = answers.bound_json(json.dumps("x" * 100_000))
    assert nothing is None
    assert "too long" in note
    assert len(answers.bound_text("x" * 100_000)) < 41_000
    with pytest.raises(UsageError, match="no JSON"):
        answers.bound_json("Judged: weights.csv")


@pytest.mark.parametrize(("query", "page"), (SEARCHED["rows"] | SEARCHED["rephrased"]).items())
def test_the_page_that_answers_is_among_the_first_three_results(query: str, page: str) -> None:
    assert f"{page}.md" in [section.page for section in search_docs(query)[:3]]


def test_each_search_word_of_a_page_finds_the_page() -> None:
    missed = []
    for section in docs_sections():
        for words in section.search_words:
            query = " ".join(words)
            if section.page not in [found.page for found in search_docs(query)[:3]]:
                missed.append(f"{section.page}: {query}")

    assert missed == []


def test_no_page_fills_all_results() -> None:
    pages = Counter(section.page for section in search_docs("cost"))
    assert len(pages) > 1
    assert max(pages.values()) <= MAX_HITS_OF_A_PAGE


def test_a_search_that_fits_nothing_finds_nothing() -> None:
    assert search_docs("xyzzyplugh") == []


def test_every_page_of_the_docs_is_searched_but_the_changelog() -> None:
    pages = {
        path.relative_to(REPOSITORY / "docs").as_posix()
        for path in (REPOSITORY / "docs").rglob("*.md")
    }
    skipped = {"packages/changelog.md"}
    assert {section.page for section in docs_sections()} == pages - skipped
