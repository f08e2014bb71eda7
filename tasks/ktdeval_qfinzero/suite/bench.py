"""What can be done before an item is answered: calls that are recorded, or made in the item's situation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any

from ktdeval.api import Exact, JsonValue, Refusal, Tool, json_tool
from ktdeval_qfinzero.bench.scenario import end_state
from ktdeval_qfinzero.catalogue import catalogue, service_tools
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.operations import Operation
from ktdeval_qfinzero.suite.form import encodable, is_fit, recorded_call
from ktdeval_qfinzero.workspace import Workspace

RECORDED: Mapping[str, JsonValue] = {"recorded": True}
"""The answer to every call that is recorded only."""


class TextBench:
    """Nothing can be done: the calls stand in what is submitted."""

    tools: tuple[Tool, ...] = ()

    def completed(self, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """What was submitted, each call under the dotted name of its tool."""
        return _answer(submitted, [recorded_call(call["tool"], call["arguments"]) for call in submitted["calls"]])


class DryBench:
    """Calls are recorded, and answered with no more than that.

    Attributes:
        calls: those recorded so far.
    """

    def __init__(self) -> None:
        self.tools: tuple[Tool, ...] = dry_tools()
        self.calls: list[dict[str, JsonValue]] = []

    def completed(self, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """What was submitted, together with the calls."""
        return _answer(submitted, self.calls)


class LiveBench:
    """Calls are made in the item's situation, which is opened with the first of them, and answered.

    Args:
        open_situation: makes the workspace.
        max_answer_chars: longest answer that is passed on.

    Attributes:
        calls: those made so far, refused ones among them.
    """

    def __init__(self, open_situation: Callable[[], Workspace], max_answer_chars: int) -> None:
        self._open = open_situation
        self.max_answer_chars = max_answer_chars
        self.tools: tuple[Tool, ...] = live_tools()
        self.calls: list[dict[str, JsonValue]] = []

    @cached_property
    def workspace(self) -> Workspace:
        """What the calls act on."""
        return self._open()

    def completed(self, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """What was submitted, together with the calls and the state that they left."""
        return {**_answer(submitted, self.calls), "end_state": end_state(self.workspace)}


def make_calls(workspace: Workspace, calls: Sequence[Mapping[str, JsonValue]]) -> None:
    """Make recorded calls, one after the other. One that is refused is passed over, as it was when it was first made.

    Args:
        workspace: what they act on.
        calls: `{tool, arguments}`, of tools that exist.
    """
    for call in calls:
        try:
            catalogue().find(call["tool"]).call(workspace, call["arguments"])
        except ServiceError:
            continue


@cache
def dry_tools() -> tuple[Tool, ...]:
    """All tools, none of which does anything."""
    return tuple(
        json_tool(operation.wire_name, operation.summary, operation.parameters, partial(_record, operation))
        for operation in catalogue().operations
    )


@cache
def live_tools() -> tuple[Tool, ...]:
    """All tools of the services."""
    return tuple(
        json_tool(tool.name, tool.description, tool.parameters, partial(_make, operation, tool))
        for operation, tool in zip(catalogue().operations, service_tools(), strict=True)
    )


def _record(operation: Operation, bench: DryBench, arguments: Mapping[str, JsonValue]) -> Any:
    if not is_fit(arguments):
        return _unfit()
    bench.calls.append(recorded_call(operation.name, arguments))
    return Exact(dict(RECORDED))


def _make(operation: Operation, tool: Tool, bench: LiveBench, arguments: Mapping[str, JsonValue]) -> Any:
    if not is_fit(arguments):
        return _unfit()
    bench.calls.append(recorded_call(operation.name, arguments))
    answer = tool.function(bench, arguments)
    if isinstance(answer, Exact) and (length := len(answer.text())) > bench.max_answer_chars:
        message = (
            f"the call was made, but its answer has {length} characters, more than the {bench.max_answer_chars} that can be shown; "
            "ask for less: fewer fields, days or tickers, or a limit"
        )
        return _refusal("too_large", message)
    return answer


def _unfit() -> Refusal:
    return _refusal("bad_arguments", "the arguments are too long, nested too deep, or not valid text; the call was not made")


def _refusal(code: str, message: str) -> Refusal:
    return Refusal(Exact({"error": {"code": code, "message": message}}), code)


def _answer(submitted: Mapping[str, JsonValue], calls: Sequence[JsonValue]) -> dict[str, JsonValue]:
    return {"status": submitted["status"], "summary": encodable(submitted["summary"]), "calls": list(calls)}
