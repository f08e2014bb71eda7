"""Steps of real programs: a scripted model behind the bridge, tools of a task behind the tool server."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock

from ktdeval.harness import Reply, ToolCall, ToolResult, ToolSpec, Usage
from ktdeval.harness.agent import HarnessConfig
from ktdeval.harness.external.added_fields import without_added
from ktdeval.harness.submissions.action import action_schema
from ktdeval_command.desk.bridge_server import BridgeServer
from ktdeval_command.desk.loopback_server import serving
from ktdeval_command.desk.tool_server import ToolServer
from ktdeval_command.placeholders import StepValues
from ktdeval_command.profiles import Profile, prepare_start, run_words
from ktdeval_command.sandboxes.program import FinishedProgram, ProgramLimits, Start, run_program
from ktdeval_command.sandboxes.sandbox import Sandbox
from ktdeval_command.sandboxes.workspace import ProgramWorkspaces
from ktdeval_command.wire.bridge_request import BridgeRequest
from support.tasks.planned_tasks import PLUGINS

BRIDGE_TOKEN = "bridge-token-of-the-step"
TOOLS_TOKEN = "tools-token-of-the-step"
REFUSED = "orders: more than is held; sell less"
ACCEPTED = "accepted: the step is over"
USAGE = Usage(input_tokens=100, output_tokens=10)


def installed(program: str) -> str | None:
    """Path of a program: in the folder KTDEVAL_TEST_PROGRAMS, or on PATH; None: it is not there."""
    folders = os.environ.get("KTDEVAL_TEST_PROGRAMS")
    return shutil.which(program, path=folders) or shutil.which(program)


@dataclass(frozen=True)
class Call:
    """A call that the model makes: of a tool whose name ends so, which programs put words before."""

    name: str
    arguments: dict[str, object]

    def made(self, names: Sequence[str], call_id: str) -> ToolCall:
        """The call, with the name under which the program offers the tool."""
        offered = [name for name in names if name == self.name or name.endswith(f"_{self.name}")]
        assert len(offered) == 1, f"{self.name}: {offered} of {names}"
        return ToolCall(call_id, offered[0], json.dumps(self.arguments, ensure_ascii=False))


@dataclass
class ScriptedModel:
    """Makes the calls of its turns, one turn a request, and then says that it is done.

    Requests without the tools of the task, such as those for a title, get some words.
    """

    turns: Sequence[Sequence[Call]]
    requests: list[BridgeRequest] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def answer(self, request: BridgeRequest) -> Reply:
        """Reply to a request of the program."""
        names = [tool.name for tool in request.tools]
        if not any(name.endswith("submit_action") for name in names):
            return Reply("Some words.", usage=USAGE)

        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
        if number > len(self.turns):
            return Reply("Done.", usage=USAGE)

        calls = []
        for place, call in enumerate(self.turns[number - 1]):
            calls.append(call.made(names, f"call_{number}_{place}"))
        return Reply("I go on.", tuple(calls), "tool_calls", USAGE)

    def results(self) -> list[str]:
        """Texts of tool results that the last request has, in its order."""
        return [each.content for each in self.requests[-1].messages if each.role == "tool"]

    def user_text(self) -> str:
        """All that the first request has from the user."""
        texts = [each.content for each in self.requests[0].messages if each.role == "user"]
        return "\n".join(texts)

    def tool(self, name: str) -> ToolSpec:
        """A tool as the program offers it to its model."""
        offered = [tool for tool in self.requests[0].tools if tool.name.endswith(name)]
        assert len(offered) == 1
        return offered[0]


@dataclass
class TaskTools:
    """Tools of a task: research, and a submission that is refused at first."""

    specs: Sequence[ToolSpec]
    calls: list[tuple[str, object]] = field(default_factory=list)

    def call(self, call: ToolCall) -> ToolResult:
        """Answer a call."""
        arguments = json.loads(call.arguments)
        self.calls.append((call.name, arguments))
        if call.name != "submit_action":
            return ToolResult(answer_of(call.name))
        if [name for name, _ in self.calls].count("submit_action") == 1:
            return ToolResult(REFUSED, failure="constraint")
        return ToolResult(ACCEPTED)


def answer_of(tool: str) -> str:
    """What a research tool answers."""
    return f"{tool} says: 价格 10.5 → 11 “up”"


def task_tools() -> TaskTools:
    """Research tools of trading tasks, and `submit_action` with its schema."""
    names = [name for name in sorted(PLUGINS.specs("tools")) if name != "submit_action"]
    specs = [tool.spec for tool in PLUGINS.tools(tuple(names))]
    schema = action_schema(HarnessConfig(), whole_shares=True, shorts=False)
    return TaskTools([*specs, ToolSpec("submit_action", "Submit the orders of this step.", schema)])


@dataclass(frozen=True)
class Services:
    """Servers of a step."""

    values: StepValues
    ports: tuple[int, ...]


@contextmanager
def services(model: ScriptedModel, tools: TaskTools, prompt: str) -> Iterator[Services]:
    """Serve model and tools to a program until the end of the block."""

    def call(made: ToolCall) -> ToolResult:
        (spec,) = [each for each in tools.specs if each.name == made.name]
        offered = [tool for request in model.requests for tool in request.tools]
        return tools.call(replace(made, arguments=without_added(made.arguments, offered, spec)))

    bridge = BridgeServer(model.answer, BRIDGE_TOKEN, "scripted/model")
    server = ToolServer(lambda: tools.specs, call, TOOLS_TOKEN)
    with serving(bridge), serving(server):
        values = StepValues(
            bridge=bridge.address,
            bridge_token=BRIDGE_TOKEN,
            tools_url=server.mcp_url,
            tools_token=TOOLS_TOKEN,
            tools_stdio=(),
            prompt=prompt,
            model="scripted/model",
        )
        yield Services(values, (bridge.server_address[1], server.server_address[1]))


def run_step(
    run: str,
    profile: Profile,
    served: Services,
    sandbox: Sandbox,
    workspaces: ProgramWorkspaces,
    listing: str | None = None,
) -> FinishedProgram:
    """Run a program for a step, in a folder with the task's files."""
    ready = prepare_start(profile, run_words(run), served.values)
    task = {"task.md": served.values.prompt.encode(), "state.json": b"{}"}
    listing = workspaces.from_files({**ready.files, **task}, listing)
    start = Start(
        ready.argv,
        ready.environment,
        ready.stdin,
        ports=served.ports,
        limits=replace(ProgramLimits(), wall_s=120.0),
    )
    return run_program(start, sandbox, workspaces, listing)


def kept_bytes(workspaces: ProgramWorkspaces, listing: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the bytes of each file of a folder."""
    for entry, data in workspaces.contents(listing):
        if entry.kind == "file":
            yield entry.path, data
