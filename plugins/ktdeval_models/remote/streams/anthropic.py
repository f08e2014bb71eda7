"""Streamed answers of Anthropic's Messages API: events that open, fill and close blocks of a message.

Source: the API's page on streaming messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ktdeval.harness import Listener, ReplyPiece
from ktdeval_models.remote.streams.assembly import Loads, StreamAssembler, index_in, say
from ktdeval_models.remote.streams.events import StreamEvent

_GROWING: Final = ("text", "thinking", "signature")  # texts of a block, and of its deltas
_INPUT: Final = "partial_json"


class MessageAssembler(StreamAssembler):
    """Adds up the events of one message."""

    def __init__(self, hear: Listener, loads: Loads) -> None:
        super().__init__(hear, loads)
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}  # arguments of calls, as text

    def error_in(self, event: StreamEvent, body: dict[str, Any]) -> Mapping[str, Any] | None:
        """Return the error of an event of that name, which has the form of an unstreamed one."""
        if "error" in (event.name, body.get("type")):
            return body if body.get("error") else {"error": body}
        return None

    def read(self, event: StreamEvent, body: dict[str, Any]) -> bool:  # noqa: ARG002 - its JSON has the name
        """Read one event."""
        kind = str(body.get("type"))
        delta = _object_or_empty(body.get("delta"))
        if kind == "message_start":
            self._message = dict(_object_or_empty(body.get("message")))
        elif kind == "content_block_start":
            self._open(index_in(body, "index"), _object_or_empty(body.get("content_block")))
        elif kind == "content_block_delta":
            self._fill(index_in(body, "index"), delta)
        elif kind == "message_delta":
            self._message.update(delta)
            self._count(_object_or_empty(body.get("usage")))

        return kind == "message_stop"

    def whole(self) -> dict[str, Any]:
        """Return the message."""
        content = []
        for index, block in sorted(self._blocks.items()):
            text = self._inputs.get(index, "")
            if text:
                block = {**block, "input": self._input_of(text)}
            content.append(block)

        return {**self._message, "content": content}

    def _input_of(self, text: str) -> Any:
        """Return the arguments of a call: an object, or the text of what was cut."""
        try:
            return self.loads(text.encode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            return text

    def _open(self, index: int, block: Mapping[str, Any]) -> None:
        self._blocks[index] = dict(block)
        name = block.get("name")
        if block.get("type") == "tool_use" and isinstance(name, str):
            self.hear(ReplyPiece("call", "", index, name))
        say(self.hear, "text", block.get("text"))

    def _fill(self, index: int, delta: Mapping[str, Any]) -> None:
        block = self._blocks.setdefault(index, {})
        for name in _GROWING:
            added = delta.get(name)
            before = block.get(name, "")
            if isinstance(added, str) and isinstance(before, str):
                block[name] = before + added

        say(self.hear, "text", delta.get("text"))
        say(self.hear, "thought", delta.get("thinking"))
        part = delta.get(_INPUT)
        if isinstance(part, str) and part:
            self._inputs[index] = self._inputs.get(index, "") + part
            self.hear(ReplyPiece("call", part, index))

    def _count(self, usage: Mapping[str, Any]) -> None:
        """Take the counts at the end of the message, which are those of all of it."""
        known = {name: value for name, value in usage.items() if value is not None}
        self._message["usage"] = {**_object_or_empty(self._message.get("usage")), **known}


def _object_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
