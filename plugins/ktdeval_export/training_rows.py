"""Rows of training data: conversations, or pairs of conversations, in the formats of trainers.

Sources: TRL, "Dataset formats and types" (conversational language modeling and preference, with
tools); OpenAI, "Supervised fine-tuning" (messages, tools). The formats differ in how they store the
arguments of a call: TRL uses an object, OpenAI a string.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from ktdeval.errors import UsageError
from ktdeval.harness import Message, ToolCall, ToolSpec
from ktdeval.trading import DECIDED
from ktdeval.values import JsonValue, dumps_canonical, dumps_compact, loads_strict
from ktdeval_export.conversations import CallChain
from ktdeval_export.replayed_steps import TracedEpisode, TracedStep
from ktdeval_export.row_figures import Measure

Dialect = Literal["trl", "openai"]

MODEL_ERROR = "a model call failed"
NO_SUBMISSION = "no valid submission"
ELECTED = "elected by several voters"
RETRIED = "decided after retries or after a refused call"
NO_CALL = "decided without a model call"
ARGUMENTS = "arguments of a call are not a JSON object"
EMPTY = "a reply is empty"


@dataclass(frozen=True)
class RowConversation:
    """A conversation that can become a row."""

    episode: TracedEpisode
    steps: tuple[int, ...]  #: numbers of the conversation's steps
    role: str
    opening: tuple[Message, ...]
    continuation: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    value: float | None = None  #: value of the requested measure; None if undefined

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return all messages."""
        return (*self.opening, *self.continuation)


def exclusion(step: TracedStep, with_retries: bool) -> str:
    """Return why a step can't become a row, either at all or only without `with_retries`; empty if
    it can.
    """
    record = step.record
    is_failed_call = any(kind.startswith("model_") for kind in record.failures)
    if record.provenance == "error" or is_failed_call:
        return MODEL_ERROR
    if record.provenance not in DECIDED:
        return NO_SUBMISSION
    if record.provenance == "elected":
        return ELECTED
    if not step.calls:
        return NO_CALL
    if not with_retries and (record.failures or record.provenance != "model"):
        return RETRIED

    return next(filter(None, map(_fault_of, step.conversations)), "")


def _fault_of(conversation: CallChain) -> str:
    """Return why a conversation can't become a row; empty if it can."""
    last = conversation.messages[-1]
    if not last.content.strip() and not last.tool_calls:
        return EMPTY

    for message in conversation.messages:
        if not all(_has_object(call) for call in message.tool_calls):
            return ARGUMENTS

    return ""


def _has_object(call: ToolCall) -> bool:
    try:
        return isinstance(loads_strict(call.arguments), dict)
    except (ValueError, RecursionError):
        return False


def talks_of_step(
    episode: TracedEpisode, step: TracedStep, value: float | None
) -> list[RowConversation]:
    """Return the conversations of a step."""
    return [
        RowConversation(
            episode=episode,
            steps=(step.number,),
            role=conversation.role,
            opening=conversation.opening,
            continuation=conversation.continuation,
            tools=conversation.tools,
            value=value,
        )
        for conversation in step.conversations
    ]


def talk_of_episode(episode: TracedEpisode, value: float | None) -> RowConversation:
    """Return an episode as a single conversation: the system prompt once, followed by the turns of
    each step.

    Raises UsageError if a step has several conversations, or if steps have different system
    prompts.
    """
    opening: tuple[Message, ...] = ()
    turns: list[Message] = []
    tools: dict[str, ToolSpec] = {}
    system: tuple[Message, ...] = ()
    for step in episode.steps:
        if len(step.conversations) > 1:
            raise UsageError(
                f"{step.where}: has {len(step.conversations)} conversations, which can't be "
                "joined; leave out --rows episode"
            )

        conversation = step.conversations[0]
        tools |= {tool.name: tool for tool in conversation.tools}
        own_system, turns_of_step = _without_system(conversation.messages)
        if not opening:
            system = own_system
            opening = conversation.opening
            turns += conversation.continuation
            continue

        if own_system != system:
            raise UsageError(
                f"{step.where}: has another system prompt than step 0; leave out --rows episode"
            )
        turns += turns_of_step

    numbers = tuple(step.number for step in episode.steps)
    return RowConversation(
        episode, numbers, "", opening, tuple(turns), tuple(tools.values()), value
    )


def _without_system(
    messages: Sequence[Message],
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the system prompts at the start, followed by the remaining messages."""
    count = 0
    while count < len(messages) and messages[count].role == "system":
        count += 1
    return tuple(messages[:count]), tuple(messages[count:])


@dataclass(frozen=True)
class PreferencePairs:
    """Pairs of conversations about the same steps, of which the better one is chosen, and counts of
    omitted pairs.
    """

    measure: Measure
    formed: list[tuple[RowConversation, RowConversation]] = field(
        default_factory=list
    )  #: pairs of a chosen and a rejected conversation
    counts: Counter[str] = field(default_factory=Counter)

    def form(self, talks: Iterable[RowConversation]) -> None:
        """Pair conversations from runs with the same task, window, seed and steps."""
        groups: dict[tuple[JsonValue, ...], list[RowConversation]] = {}
        for talk in talks:
            groups.setdefault(_pair_key(talk), []).append(talk)

        for group in groups.values():
            for one, other in combinations(group, 2):
                self._pair(one, other)

    def _pair(self, one: RowConversation, other: RowConversation) -> None:
        if (one.opening, one.tools) != (other.opening, other.tools):
            self.counts["another prompt"] += 1
        elif one.value is None or other.value is None:
            self.counts["undefined"] += 1
        elif one.value == other.value:
            self.counts["tied"] += 1
        elif self.measure.is_better(one.value, other.value):
            self.formed.append((one, other))
        else:
            self.formed.append((other, one))


def _pair_key(talk: RowConversation) -> tuple[JsonValue, ...]:
    spec = talk.episode.spec
    window = None if spec.window is None else dumps_canonical([spec.window.first, spec.window.last])
    return (spec.task, spec.task_hash, spec.snapshot, window, spec.seed, _numbers(talk), talk.role)


def _numbers(talk: RowConversation) -> str:
    return ",".join(map(str, talk.steps))


@dataclass(frozen=True)
class RowWriter:
    """Formats rows in a single dialect."""

    dialect: Dialect

    def chat_row(self, talk: RowConversation) -> Mapping[str, JsonValue]:
        """Return a row for supervised fine-tuning."""
        return {"messages": self._messages(talk.messages), "tools": _tools(talk.tools)}

    def preference_row(
        self, chosen: RowConversation, rejected: RowConversation
    ) -> Mapping[str, JsonValue]:
        """Return a row for preference learning."""
        return {
            "prompt": self._messages(chosen.opening),
            "chosen": self._messages(chosen.messages)[len(chosen.opening) :],
            "rejected": self._messages(rejected.messages)[len(rejected.opening) :],
            "tools": _tools(chosen.tools),
        }

    def _messages(self, messages: Sequence[Message]) -> list[JsonValue]:
        # names of the tools called so far, keyed by call id; each step numbers its ids from the
        # start
        names: dict[str, str] = {}
        rows = []
        for message in messages:
            names |= {call.id: call.name for call in message.tool_calls}
            rows.append(self._message(message, names))

        return rows

    def _message(self, message: Message, names: Mapping[str, str]) -> JsonValue:
        row: dict[str, JsonValue] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            row["tool_calls"] = [self._call(call) for call in message.tool_calls]
        if message.tool_call_id is not None:
            row["tool_call_id"] = message.tool_call_id
            if self.dialect == "trl":
                row["name"] = names.get(message.tool_call_id, "")

        return row

    def _call(self, call: ToolCall) -> JsonValue:
        arguments = loads_strict(call.arguments)
        if self.dialect == "openai":
            arguments = dumps_canonical(arguments)

        function: JsonValue = {"name": call.name, "arguments": arguments}
        return {"id": call.id, "type": "function", "function": function}


def _tools(tools: Sequence[ToolSpec]) -> list[JsonValue]:
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in tools
    ]


def lines_of(rows: Iterable[Mapping[str, JsonValue]]) -> str:
    """Return the rows as lines of JSON. Keys are in the order of the format, so that equal rows
    give equal text.
    """
    return "".join(f"{dumps_compact(dict(row))}\n" for row in rows)
