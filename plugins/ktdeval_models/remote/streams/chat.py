"""Streamed answers of Chat Completions: chunks whose deltas form a message.

Source: the API reference for `chat.completion.chunk`. Other servers name the reasoning differently.
They may send calls without an index, with one index for all calls, or in one piece; all these forms
are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from ktdeval.harness import Listener
from ktdeval_models.remote.replies.read_tool_calls import is_object
from ktdeval_models.remote.requests.message_contents import THOUGHTS, thought_of
from ktdeval_models.remote.streams.assembly import (
    Loads,
    StreamAssembler,
    add_delta,
    object_or_empty,
)
from ktdeval_models.remote.streams.events import StreamEvent

_DONE: Final = b"[DONE]"
_REASONING: Final = ("reasoning_content", "reasoning")


class ChatAssembler(StreamAssembler):
    """Assembles the chunks of one reply."""

    request_fields: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    names_errors = False

    def __init__(self, hear: Listener, loads: Loads) -> None:
        super().__init__(hear, loads)
        self._answer: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._calls: list[tuple[int, dict[str, Any]]] = []  # index and fields
        self._others: list[Any] = []  # entries in the list of calls that are not calls

    def is_end(self, event: StreamEvent) -> bool:
        """Return whether an event is the final `[DONE]`."""
        return event.data.strip() == _DONE

    def is_whole(self) -> bool:
        """Return whether the reply has ended even without `[DONE]`, which some servers omit."""
        return bool(self._choice.get("finish_reason"))

    def lacks_usage(self) -> bool:
        """Return whether a reply came without token counts."""
        return bool(self._choice) and self._answer.get("usage") is None

    def read(self, event: StreamEvent, body: dict[str, Any]) -> bool:  # noqa: ARG002 - it has no name
        """Add a chunk. The token counts may come after the end of the message."""
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

        calls = [fields for _, fields in sorted(self._calls, key=itemgetter(0))]
        if calls or self._others:
            message["tool_calls"] = [*calls, *self._others]
        return {**self._answer, "choices": [{**self._choice, "message": message}]}

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        for name, value in choice.items():
            if name not in ("delta", "message") and value not in (None, ""):
                self._choice[name] = value

        self._choice.setdefault("index", 0)
        self._add_message(object_or_empty(choice.get("delta") or choice.get("message")))

    def _add_message(self, delta: Mapping[str, Any]) -> None:
        add_delta(self._message, {name: delta[name] for name in delta if name != "tool_calls"})
        for call in _as_list(delta.get("tool_calls")):
            if isinstance(call, dict):
                self._add_call(call)
            else:
                self._others.append(call)

        for name in _REASONING:
            self.say("thought", delta.get(name))
        self.say("text", delta.get("refusal"))

        content = delta.get("content")
        self.say("text", content)
        for piece in _as_list(content):
            self._say_piece(object_or_empty(piece))

    def _say_piece(self, piece: Mapping[str, Any]) -> None:
        if piece.get("type") in THOUGHTS:
            self.say("thought", thought_of(piece))
        else:
            self.say("text", piece.get("text"))

    def _add_call(self, delta: Mapping[str, Any]) -> None:
        number = self._number_of(delta)
        _, call = self._calls[number]
        before = _name_of(call)
        add_delta(call, delta)
        name = _name_of(call).removeprefix(before)
        self.say_call(number, _function_of(delta).get("arguments"), name)

    def _number_of(self, delta: Mapping[str, Any]) -> int:
        """Return the position of the call to which a piece belongs. It is the last call with the
        piece's index, or the last call if the piece has no index. If the piece starts another call,
        it is a new position.
        """
        index = delta.get("index")
        indices = [own for own, _ in self._calls]
        last = len(indices) - 1
        if type(index) is not int:
            index = None
        while index is not None and last >= 0 and indices[last] != index:
            last -= 1

        if last >= 0 and not _is_another(self._calls[last][1], delta):
            return last

        if index is None:
            index = max(indices, default=-1) + 1
        self._calls.append((index, {}))
        return len(indices)


def _is_another(call: Mapping[str, Any], delta: Mapping[str, Any]) -> bool:
    """Return whether a piece that has no new index starts a new call.

    The piece must name a tool. It starts a new call if its id is new and either the call so far is
    complete or the name differs. It also does so if it has arguments and the call so far already
    has complete arguments.
    """
    function = _function_of(delta)
    name = function.get("name")
    if not name or not _name_of(call):
        return False

    arguments = _function_of(call).get("arguments")
    is_whole = not isinstance(arguments, str) or is_object(arguments)
    has_other_id = bool(delta.get("id")) and delta["id"] != call.get("id")
    if has_other_id and (is_whole or name != _name_of(call)):
        return True
    return is_whole and arguments is not None and bool(function.get("arguments"))


def _name_of(call: Mapping[str, Any]) -> str:
    """Return the name of the called tool as received so far."""
    name = _function_of(call).get("name")
    return name if isinstance(name, str) else ""


def _function_of(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function")
    return function if isinstance(function, dict) else call


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _joined_details(pieces: Sequence[Any]) -> list[Any]:
    """Return reasoning details, with consecutive pieces of the same type and index joined. MiniMax
    repeats each text from the beginning.
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
            add_delta(last, piece)

    return details
