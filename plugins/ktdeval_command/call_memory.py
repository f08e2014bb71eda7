"""Calls that the bridge has passed on, so that a program gives each back as the model wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock

from ktdeval.harness import Message, ToolCall
from ktdeval_command.wire.bridge_request import arguments_object

MOST_IDS = 100_000  #: of calls that are remembered; the oldest are dropped
_MOST_CALLS = 64  # of one id: conversations beside each other may count theirs alike


class CallMemory:
    """Calls by their ids. Wire formats lose parts of a call: the text of its arguments, of which
    programs keep the parsed value, and what a provider wants back with it (`ToolCall.opaque`).

    Thread-safe. It changes a call only to one with the same id, name and arguments.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._calls: dict[str, list[ToolCall]] = {}

    def keep(self, calls: Sequence[ToolCall]) -> None:
        """Remember the calls of a reply."""
        with self._lock:
            for call in calls:
                kept = self._calls.pop(call.id, [])
                if call not in kept:
                    kept = [call, *kept][:_MOST_CALLS]
                self._calls[call.id] = kept
                if len(self._calls) > MOST_IDS:
                    del self._calls[next(iter(self._calls))]

    def restored(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return a conversation with its calls as the model wrote them; those that it did not write
        stay as they are.
        """
        found = []
        for message in messages:
            if message.tool_calls:
                calls = tuple(self._original(call) for call in message.tool_calls)
                message = replace(message, tool_calls=calls)
            found.append(message)
        return tuple(found)

    def _original(self, call: ToolCall) -> ToolCall:
        with self._lock:
            known = list(self._calls.get(call.id, ()))

        for each in known:
            is_same = each.name == call.name and (
                each.arguments == call.arguments or arguments_object(each) == arguments_object(call)
            )
            if is_same:
                return each
        return call
