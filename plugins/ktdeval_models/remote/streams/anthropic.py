"""Streamed answers of Anthropic's Messages API: events that open, fill and close the blocks of a
message.

Source: the API page on streaming messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ktdeval.harness import Listener
from ktdeval_models.remote.streams.assembly import (
    Loads,
    StreamAssembler,
    add_delta,
    index_in,
    object_or_empty,
)
from ktdeval_models.remote.streams.events import StreamEvent

_THOUGHTS: Final = ("thinking", "redacted_thinking")
_INPUT: Final = "partial_json"
_GROWING: Final = ("text", "thinking", "signature", _INPUT)  # texts of a block and of its deltas


class MessageAssembler(StreamAssembler):
    """Assembles the events of one message."""

    def __init__(self, hear: Listener, loads: Loads) -> None:
        super().__init__(hear, loads)
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}

    def read(self, event: StreamEvent, body: dict[str, Any]) -> bool:  # noqa: ARG002 - its JSON has the name
        """Read one event."""
        kind = str(body.get("type"))
        delta = object_or_empty(body.get("delta"))
        index = index_in(body, "index")
        if kind == "message_start":
            self._message = dict(object_or_empty(body.get("message")))
        elif kind == "content_block_start":
            self._open(index, object_or_empty(body.get("content_block")))
        elif kind == "content_block_delta":
            self._fill(index, delta)
        elif kind == "message_delta":
            self._message.update(delta)
            self._count(object_or_empty(body.get("usage")))

        return kind == "message_stop"

    def whole(self) -> dict[str, Any]:
        """Return the message."""
        content = []
        for _, block in sorted(self._blocks.items()):
            text = block.get(_INPUT)
            if isinstance(text, str):
                block = {**block, "input": self._input_of(text)}
                del block[_INPUT]
            content.append(block)

        return {**self._message, "content": content}

    def _input_of(self, text: str) -> Any:
        """Return the arguments of a call as an object. If the JSON was cut off, return it as a
        string.
        """
        try:
            return self.loads(text.encode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            return text

    def _open(self, index: int, block: Mapping[str, Any]) -> None:
        self._blocks[index] = dict(block)
        self.begin_silence(block.get("type") in _THOUGHTS)
        if block.get("type") == "tool_use":
            self.say_call(index, "", block.get("name"))
        self.say("text", block.get("text"))

    def _fill(self, index: int, delta: Mapping[str, Any]) -> None:
        added = {name: delta[name] for name in _GROWING if isinstance(delta.get(name), str)}
        add_delta(self._blocks.setdefault(index, {}), added)
        self.say("text", delta.get("text"))
        self.say("thought", delta.get("thinking"))
        self.say_call(index, delta.get(_INPUT))

    def _count(self, usage: Mapping[str, Any]) -> None:
        """Store the token counts that come at the end of the message and cover all of it."""
        known = {name: value for name, value in usage.items() if value is not None}
        self._message["usage"] = {**object_or_empty(self._message.get("usage")), **known}
