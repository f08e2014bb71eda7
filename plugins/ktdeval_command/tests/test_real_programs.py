"""Real programs in a step: each asks the bridge, calls the task's tools, submits, and ends.

They are tried where they are installed: `npm install` the packages of `PACKAGES` somewhere, and set
KTDEVAL_TEST_PROGRAMS to its `node_modules/.bin`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ktdeval.stores import LocalStore
from ktdeval_command.known_program_texts import known_program_texts
from ktdeval_command.profiles import Profile, profile_of
from ktdeval_command.sandboxes.sandbox import open_sandbox
from ktdeval_command.sandboxes.shown_parts import SourcePart
from ktdeval_command.sandboxes.workspace import FolderLimits, ProgramWorkspaces
from support.command.program_steps import (
    ACCEPTED,
    BRIDGE_TOKEN,
    REFUSED,
    TOOLS_TOKEN,
    Call,
    ScriptedModel,
    answer_of,
    installed,
    kept_bytes,
    run_step,
    services,
    task_tools,
)

pytestmark = pytest.mark.slow

PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
}

#: tool by which a program's model uses a shell, and the name of its argument
SHELL = {
    "claude": ("Bash", "command"),
    "codex": ("exec_command", "cmd"),
    "gemini": ("run_shell_command", "command"),
    "opencode": ("bash", "command"),
}

#: tools by which programs look things up; none may be offered
WEB = {
    "WebSearch",
    "WebFetch",
    "web_search",
    "google_web_search",
    "web_fetch",
    "webfetch",
    "websearch",
}

PYTHON = "/usr/bin/python3"
PROMPT = "Step 7 of a blinded market.\nDecide, then call submit_action — “once”."
SNAPSHOT = Call("get_stock_snapshot", {"stock_id": "S1", "lookback": 5})
HOLDINGS = Call("portfolio_state", {})
NEWS = Call("search_news", {"query": "红利 “x”", "limit": 2})
SUBMISSION = Call("submit_action", {"orders": [], "overall_reason": "Nothing is worth it — 无."})


@dataclass(frozen=True)
class Program:
    """A program that is installed, with its profile."""

    name: str
    path: str
    profile: Profile
    parts: tuple[SourcePart, ...]  #: of its installation

    def shell(self, command: str) -> Call:
        """A call by which its model runs a command."""
        tool, argument = SHELL[self.name]
        return Call(tool, {argument: command, "description": "Notes"})


@pytest.fixture(params=PACKAGES)
def program(request: pytest.FixtureRequest) -> Program:
    name: str = request.param
    path = installed(name)
    if path is None:
        pytest.skip(
            f"needs {name} (npm install {PACKAGES[name]}) on PATH or in KTDEVAL_TEST_PROGRAMS"
        )
    profile, place = profile_of(path)
    return Program(name, path, profile, place.parts)


@pytest.fixture(params=["none", "bwrap"])
def walls(request: pytest.FixtureRequest) -> str:
    """Each kind of walls."""
    name: str = request.param
    if name == "bwrap":
        request.getfixturevalue("bwrap")
    return name


@pytest.fixture
def roomy(tmp_path: Path) -> ProgramWorkspaces:
    return ProgramWorkspaces(LocalStore(tmp_path / "store"), "workspaces", FolderLimits())


#: what programs add to the arguments of each tool, for themselves
ADDED = {"gemini": {"wait_for_previous": True}}


#: names for which Claude Code writes its tools' texts at length, briefly, or not at all in its own way
MODELS = ("claude-sonnet-4-6", "claude-opus-4-5", "claude-opus-5-5", "gpt-5")


@pytest.mark.parametrize("name", MODELS)
def test_tools_of_claude_code_are_known_whatever_its_model(
    name: str, program: Program, roomy: ProgramWorkspaces
) -> None:
    """A known text reaches the model whole; of another, the leak guard withholds numbers."""
    if program.name != "claude":
        pytest.skip("the texts of other programs do not depend on the model's name")

    model = ScriptedModel([[SUBMISSION]])
    with services(model, task_tools(), PROMPT) as served:
        named = replace(served, values=replace(served.values, model=name))
        run_step(program.path, program.profile, named, open_sandbox("none", program.parts), roomy)

    own = [tool for tool in model.requests[0].tools if not tool.name.startswith("mcp__")]
    assert len(own) > 15
    assert [tool.name for tool in own if not known_program_texts().has_tool(tool)] == []


def script(program: Program, note: str) -> ScriptedModel:
    """A model that reads and writes notes, researches, two calls at once among it, and submits,
    again after a refusal.
    """
    notes = program.shell(f"cat notes.txt; echo {note} >> notes.txt")
    snapshot = replace(SNAPSHOT, arguments=SNAPSHOT.arguments | ADDED.get(program.name, {}))
    return ScriptedModel([[notes], [snapshot], [HOLDINGS, NEWS], [SUBMISSION], [SUBMISSION]])


def test_a_program_researches_submits_and_ends(
    program: Program, walls: str, roomy: ProgramWorkspaces
) -> None:
    model = script(program, "first")
    tools = task_tools()
    sandbox = open_sandbox(walls, program.parts)

    with services(model, tools, PROMPT) as served:
        finished = run_step(program.path, program.profile, served, sandbox, roomy)

    printed = finished.stdout.text() + finished.stderr.text()
    assert str(finished.outcome) == "exited 0", printed
    assert "Done." in finished.stdout.text()

    # What the program was told reached its model, with the task's tools and none that looks things up.
    assert PROMPT in model.user_text()
    for spec in tools.specs:
        offered = model.tool(spec.name)
        assert spec.description in offered.description
        assert offered.parameters["properties"].keys() >= spec.parameters["properties"].keys()
    assert not WEB & {tool.name for tool in model.requests[0].tools}

    # What the model called reached the tools, in order but for the two at once.
    calls = tools.calls
    assert [calls[0], *sorted(calls[1:3]), *calls[3:]] == [
        (call.name, call.arguments) for call in (SNAPSHOT, HOLDINGS, NEWS, SUBMISSION, SUBMISSION)
    ]

    # What they answered reached the model.
    results = model.results()
    assert len(results) == 6
    told = [SNAPSHOT.name, HOLDINGS.name, NEWS.name]
    for result, text in zip(results[1:], [*map(answer_of, told), REFUSED, ACCEPTED]):
        assert text in result


def test_notes_are_there_in_the_next_step_and_no_token_is_kept(
    program: Program, roomy: ProgramWorkspaces
) -> None:
    sandbox = open_sandbox("none")
    listing = None
    for note in ("first", "second", "third"):
        model = script(program, note)
        with services(model, task_tools(), PROMPT) as served:
            finished = run_step(program.path, program.profile, served, sandbox, roomy, listing)
        assert finished.folder, finished.folder_problem
        listing = finished.folder.listing

    assert "first\nsecond" in model.results()[0]
    kept = dict(kept_bytes(roomy, finished.folder.listing))
    assert kept["notes.txt"] == b"first\nsecond\nthird\n"
    for token in (BRIDGE_TOKEN, TOOLS_TOKEN):
        assert [path for path, data in kept.items() if token.encode() in data] == []
    assert finished.folder.size < 1 << 20


#: a program of one's own, which knows nothing but its standard input and its variables
SCRIPT = """
import json, os, sys, urllib.request

def posted(url, token, body):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))

tools = os.environ["KTDEVAL_TOOLS_URL"].removesuffix("/mcp") + "/tools"
key = os.environ["KTDEVAL_TOOLS_TOKEN"]
listing = urllib.request.Request(tools, headers={"Authorization": f"Bearer {key}"})
offered = json.load(urllib.request.urlopen(listing))["tools"]
specs = [{"type": "function", "function": {"name": tool["name"]}} for tool in offered]
prompt = sys.stdin.read()
assert prompt == open(os.environ["KTDEVAL_TASK_FILE"]).read()
messages = [{"role": "user", "content": prompt}]
while True:
    body = {"model": os.environ["KTDEVAL_MODEL"], "messages": messages, "tools": specs}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    message = posted(url, os.environ["OPENAI_API_KEY"], body)["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        print(message["content"])
        break
    for call in message["tool_calls"]:
        function = call["function"]
        answer = posted(f"{tools}/{function['name']}", key, json.loads(function["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer["text"]})
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"needs {PYTHON}")
def test_a_script_finds_everything_by_its_variables(walls: str, roomy: ProgramWorkspaces) -> None:
    model = ScriptedModel([[SNAPSHOT], [HOLDINGS, NEWS], [SUBMISSION], [SUBMISSION]])
    tools = task_tools()
    run = shlex.join([PYTHON, "-I", "-S", "-c", SCRIPT])

    profile, _ = profile_of(run)
    with services(model, tools, PROMPT) as served:
        finished = run_step(run, profile, served, open_sandbox(walls), roomy)

    assert str(finished.outcome) == "exited 0", finished.stderr.text()
    assert finished.stdout.text() == "Done.\n"
    assert [name for name, _ in tools.calls] == [
        SNAPSHOT.name,
        HOLDINGS.name,
        NEWS.name,
        "submit_action",
        "submit_action",
    ]
    assert model.results()[-1] == ACCEPTED
