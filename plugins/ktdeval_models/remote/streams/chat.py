"""Streamed answers of Chat Completions: chunks whose deltas add up to a message.

Source: the API's reference of `chat.completion.chunk`. Other servers differ in the names of the
reasoning, in calls without an index, with one index for all, or in one piece; all are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ktdeval.harness import Listener, ReplyPiece
from ktdeval_models.remote.message_contents import THOUGHTS, thought_of
from ktdeval_models.remote.read_tool_calls import is_object
from ktdeval_models.remote.streams.assembly import Loads, StreamAssembler, say
from ktdeval_models.remote.streams.events import StreamEvent

_DONE: Final = b"[DONE]"
_REASONING: Final = ("reasoning_content", "reasoning")
_REPLACED: Final = frozenset(("role", "type", "index", "format"))  # sent again whole


class ChatAssembler(StreamAssembler):
    """Adds up the chunks of one reply."""

    request_fields: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}

    def __init__(self, hear: Listener, loads: Loads) -> None:
        super().__init__(hear, loads)
        self._answer: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._calls: list[_PartialCall] = []
        self._others: list[Any] = []  # what stands among the calls and is none

    def is_end(self, event: StreamEvent) -> bool:
        """Whether an event is the word that ends the stream."""
        return event.data.strip() == _DONE

    def is_whole(self) -> bool:
        """Whether the reply has ended: some servers leave the last word out."""
        return bool(self._choice.get("finish_reason"))

    def lacks_usage(self) -> bool:
        """Whether a reply came without its counts."""
        return bool(self._choice) and self._answer.get("usage") is None

    def read(self, event: StreamEvent, body: dict[str, Any]) -> bool:  # noqa: ARG002 - it has no name
        """Add a chunk. The count of tokens may come after the end of the message."""
        for name, value in body.items():
            if name != "choices" and value not in (None, ""):
                self._answer[name] = value

        choices = body.get("choices")
        if isinstance(choices, list):
            self._answer.setdefault("choices", [])
            for choice in choices:
                if isinstance(choice, dict) and choice.get("index") in (0, None):
                    self._add_choice(choice)

        return False

    def whole(self) -> dict[str, Any]:
        """Return the answer as `chat.completion`."""
        if not self._choice:
            return self._answer

        message = dict(self._message)
        if isinstance(message.get("reasoning_details"), list):
            message["reasoning_details"] = _joined_details(message["reasoning_details"])

        calls = sorted(self._calls, key=lambda call: call.index)
        if calls or self._others:
            message["tool_calls"] = [*(call.fields for call in calls), *self._others]
        return {**self._answer, "choices": [{**self._choice, "message": message}]}

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        for name, value in choice.items():
            if name not in ("delta", "message") and value not in (None, ""):
                self._choice[name] = value

        self._choice.setdefault("index", 0)
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            self._add_delta(delta)

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        _merge(self._message, {name: delta[name] for name in delta if name != "tool_calls"})
        for call in _as_list(delta.get("tool_calls")):
            self._add_call(call)

        for name in _REASONING:
            say(self.hear, "thought", delta.get(name))
        say(self.hear, "text", delta.get("refusal"))
        self._say_content(delta.get("content"))

    def _say_content(self, content: Any) -> None:
        if not isinstance(content, list):
            say(self.hear, "text", content)
            return

        for piece in content:
            if not isinstance(piece, dict):
                continue
            if piece.get("type") in THOUGHTS:
                say(self.hear, "thought", thought_of(piece))
            else:
                say(self.hear, "text", piece.get("text"))

    def _add_call(self, delta: Any) -> None:
        if not isinstance(delta, dict):
            self._others.append(delta)
            return

        call = self._call_of(delta)
        before = call.name
        _merge(call.fields, delta)
        number = self._calls.index(call)
        said = _function_of(delta).get("arguments")
        name = call.name.removeprefix(before)
        if isinstance(said, str):
            self.hear(ReplyPiece("call", said, number, name))
        elif name:
            self.hear(ReplyPiece("call", "", number, name))

    def _call_of(self, delta: Mapping[str, Any]) -> _PartialCall:
        """Return the call that a piece belongs to, or a new one."""
        index = delta.get("index")
        if type(index) is not int:
            index = None

        found = self._calls[-1] if self._calls and index is None else None
        for call in self._calls:
            if index is not None and call.index == index:
                found = call  # the last one with this index

        if found is None or found.is_another(delta):
            found = _PartialCall(self._next_index() if index is None else index)
            self._calls.append(found)
        return found

    def _next_index(self) -> int:
        return max((call.index for call in self._calls), default=-1) + 1


class _PartialCall:
    """A tool call, as far as its pieces have come."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.fields: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """Name of the tool so far."""
        name = _function_of(self.fields).get("name")
        return name if isinstance(name, str) else ""

    def is_another(self, delta: Mapping[str, Any]) -> bool:
        """Whether a piece begins another call than this one, though its index says nothing else: it
        names a tool, and has another id and name, or comes after this call is whole.
        """
        function = _function_of(delta)
        name = function.get("name")
        if not name or not self.name:
            return False

        arguments = _function_of(self.fields).get("arguments")
        is_whole = not isinstance(arguments, str) or is_object(arguments)
        has_other_id = bool(delta.get("id")) and delta["id"] != self.fields.get("id")
        if has_other_id and (is_whole or name != self.name):
            return True
        return is_whole and arguments is not None and bool(function.get("arguments"))


def _function_of(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function")
    return function if isinstance(function, dict) else call


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _merge(fields: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a piece of an object: texts, lists and objects grow, anything else is replaced. A field
    that is null in all pieces stays null.
    """
    for name, value in delta.items():
        before = fields.get(name)
        # Some servers send a name again whole, or an id of its own with each piece.
        is_repeated = bool(before) and (name == "id" or (name == "name" and value in ("", before)))
        if is_repeated or (value is None and name in fields):
            continue

        is_growing = before is not None and name not in _REPLACED
        if is_growing and isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value)
        elif is_growing and isinstance(before, str) and isinstance(value, str):
            fields[name] = before + value
        elif is_growing and isinstance(before, str | list) and isinstance(value, str | list):
            fields[name] = [*_as_parts(before), *_as_parts(value)]
        else:
            fields[name] = dict(value) if isinstance(value, dict) else value


def _joined_details(pieces: Sequence[Any]) -> list[Any]:
    """Return details of reasoning with their pieces joined: those that follow each other with one
    type and index. MiniMax sends each text again from its beginning.
    """
    details: list[Any] = []
    for piece in pieces:
        last: Any = details[-1] if details else None
        is_object_pair = isinstance(piece, dict) and isinstance(last, dict)
        if not is_object_pair or any(piece.get(n) != last.get(n) for n in ("type", "index")):
            details.append(dict(piece) if isinstance(piece, dict) else piece)
            continue

        if str(piece.get("format")).startswith("MiniMax"):
            last |= piece
        else:
            _merge(last, piece)

    return details


def _as_parts(content: str | list[Any]) -> list[Any]:
    """Return a content as parts; its text becomes one part."""
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []
