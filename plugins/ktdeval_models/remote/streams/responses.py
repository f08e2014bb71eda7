"""Streamed answers of the Responses API: the last event holds the whole response.

Source: the API reference on streaming events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from ktdeval.harness import Listener
from ktdeval_models.remote.streams.assembly import (
    Loads,
    StreamAssembler,
    index_in,
    object_or_empty,
)
from ktdeval_models.remote.streams.events import StreamEvent

_ENDS: Final = frozenset(("response.completed", "response.incomplete", "response.failed"))
_SPOKEN: Final[Mapping[str, Literal["text", "thought"]]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thought",
    "response.reasoning_text.delta": "thought",
}


class ResponsesAssembler(StreamAssembler):
    """Takes the response from the last event."""

    def __init__(self, hear: Listener, loads: Loads) -> None:
        super().__init__(hear, loads)
        self._response: dict[str, Any] = {}

    def read(self, event: StreamEvent, body: dict[str, Any]) -> bool:  # noqa: ARG002 - its JSON has the name
        """Read one event."""
        kind = str(body.get("type"))
        if kind in _ENDS:
            self._response = dict(object_or_empty(body.get("response")))
            return True

        index = index_in(body, "output_index")
        item = object_or_empty(body.get("item"))
        if kind in _SPOKEN:
            self.say(_SPOKEN[kind], body.get("delta"))
        elif kind == "response.function_call_arguments.delta":
            self.say_call(index, body.get("delta"))
        elif item.get("type") == "reasoning":
            self.begin_silence(kind == "response.output_item.added")
        elif kind == "response.output_item.added" and item.get("type") == "function_call":
            self.say_call(index, "", item.get("name"))

        return False

    def whole(self) -> dict[str, Any]:
        """Return the response."""
        return self._response
