"""Streamed answers of the Responses API: the last event holds the whole response.

Source: the API's reference of streaming events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ktdeval.harness import Listener, ReplyPiece
from ktdeval_models.remote.streams.assembly import Loads, StreamAssembler, index_in, say
from ktdeval_models.remote.streams.events import StreamEvent

_ENDS: Final = frozenset(("response.completed", "response.incomplete", "response.failed"))
_TEXTS: Final = frozenset(("response.output_text.delta", "response.refusal.delta"))
_THOUGHTS: Final = frozenset(
    ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
)


class ResponsesAssembler(StreamAssembler):
    """Takes the response of the last event."""

    def __init__(self, hear: Listener, loads: Loads) -> None:
        super().__init__(hear, loads)
        self._response: dict[str, Any] = {}

    def error_in(self, event: StreamEvent, body: dict[str, Any]) -> Mapping[str, Any] | None:
        """Return the error of an event of that name."""
        if "error" in (event.name, body.get("type")):
            return {"error": body.get("error") or body}
        return None

    def read(self, event: StreamEvent, body: dict[str, Any]) -> bool:  # noqa: ARG002 - its JSON has the name
        """Read one event."""
        kind = str(body.get("type"))
        if kind in _ENDS:
            response = body.get("response")
            if isinstance(response, dict):
                self._response = response
            return True

        self._say(kind, body)
        return False

    def whole(self) -> dict[str, Any]:
        """Return the response."""
        return self._response

    def _say(self, kind: str, body: Mapping[str, Any]) -> None:
        index = index_in(body, "output_index")
        delta = body.get("delta")
        item = body.get("item")
        if kind in _TEXTS:
            say(self.hear, "text", delta)
        elif kind in _THOUGHTS:
            say(self.hear, "thought", delta)
        elif kind == "response.function_call_arguments.delta" and isinstance(delta, str):
            self.hear(ReplyPiece("call", delta, index))
        elif kind == "response.output_item.added" and isinstance(item, dict):
            name = item.get("name")
            if item.get("type") == "function_call" and isinstance(name, str):
                self.hear(ReplyPiece("call", "", index, name))
