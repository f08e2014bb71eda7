"""An item's environment: the tools available before the answer, the answer form, and the recorded
form of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ktdeval.errors import InvariantError
from ktdeval.harness import Refusal, Tool, ToolSpec
from ktdeval.masking import Exact
from ktdeval.values import (
    JsonValue,
    dumps_canonical,
    encode_canonical,
    is_flat,
    load_yaml,
    to_plain,
)
from ktdeval_qfinzero.benchmark.items import end_state
from ktdeval_qfinzero.catalogue import answer_call, catalogue, service_tools
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.operations import Operation
from ktdeval_qfinzero.suite.config import Calls
from ktdeval_qfinzero.suite.grading import RecordedCall

RECORDED: Mapping[str, JsonValue] = {"recorded": True}
"""Answer to every call that is only recorded."""

_DEEPEST = 32
_LONGEST_ARGUMENTS = 20_000
_UNFIT = (
    f"[left out: nested more than {_DEEPEST} levels deep, longer than {_LONGEST_ARGUMENTS}"
    " characters, or not UTF-8]"
)


@cache
def answer_form(calls: Calls) -> ToolSpec:
    """Return the answer form. If calls are text, the form has a field for them."""
    form = load_yaml(Path(__file__).with_name("answer_form.yaml"))
    properties: dict[str, JsonValue] = dict(form["properties"])
    if calls != "text":
        del properties["calls"]

    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }

    return ToolSpec(form["name"], form["description"], schema)


# ---- calls in recorded form


def is_fit(arguments: Mapping[str, JsonValue]) -> bool:
    """Return whether arguments can be recorded, with limited depth and length and with text that
    UTF-8 can encode.
    """
    if not is_flat(arguments, _DEEPEST):
        return False

    try:
        text = dumps_canonical(arguments)
        text.encode()
    except ValueError:  # lone surrogates; numbers with thousands of digits
        return False

    return len(text) <= _LONGEST_ARGUMENTS


def recorded_call(tool: str, arguments: Mapping[str, JsonValue]) -> RecordedCall:
    """Return a call in recorded form, under the dotted name of its tool, or under its given name if
    no tool has it. Arguments that can't be recorded are replaced by a string that says so, which no
    rule set reads.
    """
    try:
        tool = catalogue().find(tool).name
    except ServiceError:
        tool = encodable(tool)
    return RecordedCall(tool=tool, arguments=arguments if is_fit(arguments) else _UNFIT)


def encodable(text: str) -> str:
    r"""Replace lone surrogates (JSON can spell them, `"\ud800"`) by `?`, so that the text can be
    written.
    """
    return text.encode("utf-8", "replace").decode()


def make_calls(workspace: Workspace, calls: Sequence[RecordedCall]) -> list[JsonValue]:
    """Make recorded calls in order and return their answers, including refusals."""
    return [catalogue().answer(workspace, call.tool, call.arguments) for call in calls]


def make_again(
    workspace: Workspace, calls: Sequence[RecordedCall], recorded_state: Any, where: str
) -> list[JsonValue]:
    """Replay an answer's recorded calls, as `make_calls` does. Raises InvariantError if they lead
    to a state other than the recorded one.
    """
    answers = make_calls(workspace, calls)
    if encode_canonical(end_state(workspace)) != dumps_canonical(recorded_state):
        raise InvariantError(
            f"{where}: its recorded calls, made again, leave another state than the recorded one;"
            " the dataset or the services changed since, or this is a defect of theirs"
        )
    return answers


# ---- environments


class DryEnvironment:
    """Environment that records calls without making them; the answer to a call says so."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.tools = tools
        self.calls: list[RecordedCall] = []

    def complete_answer(self, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the submitted texts together with the calls."""
        texts = {name: encodable(str(text)) for name, text in submitted.items() if name != "calls"}
        return {**texts, "calls": to_plain(tuple(self.calls))}


class TextEnvironment(DryEnvironment):
    """Environment in which no calls can be made, since the submission contains them as text."""

    def __init__(self) -> None:
        super().__init__(())

    def complete_answer(self, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the submission, with each call under the dotted name of its tool."""
        calls = submitted["calls"]
        assert isinstance(calls, list)
        self.calls = [recorded_call(call["tool"], call["arguments"]) for call in calls]
        return super().complete_answer(submitted)


class LiveEnvironment(DryEnvironment):
    """Environment in which calls are made and answered in the item's situation, which
    `open_situation` creates at the first call.

    `max_answer_chars`: maximum length of an answer that is passed on; `calls`: calls made so far,
    including refused ones.
    """

    def __init__(self, open_situation: Callable[[], Workspace], max_answer_chars: int) -> None:
        super().__init__(recording_tools(True))
        self._open = open_situation
        self.max_answer_chars = max_answer_chars

    @cached_property
    def workspace(self) -> Workspace:
        """Workspace on which the calls act."""
        return self._open()

    def complete_answer(self, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the submission, together with the calls and the state that they left."""
        return {
            **super().complete_answer(submitted),
            "end_state": to_plain(end_state(self.workspace)),
        }


@cache
def recording_tools(is_live: bool) -> tuple[Tool, ...]:
    """Return all tools of the services. Their calls are recorded and, in live items, executed."""
    return service_tools(_make if is_live else _record)


def _record(
    operation: Operation, environment: DryEnvironment, arguments: Mapping[str, JsonValue]
) -> Exact | Refusal:
    if not is_fit(arguments):
        message = (
            "the arguments are too long, nested too deep, or not valid text; the call was not made"
        )
        return _refusal("bad_arguments", message)
    environment.calls.append(recorded_call(operation.name, arguments))
    return Exact(dict(RECORDED))


def _make(
    operation: Operation, environment: LiveEnvironment, arguments: Mapping[str, JsonValue]
) -> Exact | Refusal:
    recorded = _record(operation, environment, arguments)
    if isinstance(recorded, Refusal):
        return recorded

    answer = answer_call(operation, environment, arguments)
    length = len(answer.text()) if isinstance(answer, Exact) else 0
    if length > environment.max_answer_chars:
        message = (
            f"the call was made, but its answer has {length} characters, more than the"
            f" {environment.max_answer_chars} that can be shown; ask for less: fewer fields, days"
            " or tickers, or a limit"
        )
        return _refusal("too_large", message)

    return answer


def _refusal(code: str, message: str) -> Refusal:
    return Refusal(Exact({"error": {"code": code, "message": message}}), code)
