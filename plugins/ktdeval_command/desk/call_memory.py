"""Replies that the bridge has passed on. They are restored exactly as the model wrote them when a
program sends them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock

from ktdeval.harness import Message, Opaque, Reply, ToolCall
from ktdeval_command.wire.bridge_request import arguments_object
from ktdeval_command.wire.thoughts import MARKED, mark_of, mark_of_words

#: maximum number of remembered ids of calls and thoughts; the oldest ids are dropped
MAX_IDS = 100_000
_MAX_CALLS = 64  # maximum number of calls per id, since parallel conversations may use the same ids

_Ids = tuple[tuple[str, str], ...]


class CallMemory:
    """Calls keyed by id, and thoughts keyed by mark. Wire formats lose two parts of a call: the
    argument text, of which programs keep only the parsed value, and data that a provider expects
    back (`ToolCall.opaque`, `Reply.opaque`).

    Thread-safe. A call is restored only from a call with the same id, name and arguments. Thoughts
    are found by the mark that a program returns. Without a mark, they are found by the calls in the
    same reply.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._calls: dict[str, list[ToolCall]] = {}
        self._thoughts: dict[str | _Ids, Opaque | None] = {}

    def keep(self, reply: Reply) -> None:
        """Remember a reply."""
        with self._lock:
            for call in reply.tool_calls:
                kept = self._calls.pop(call.id, [])
                if call not in kept:
                    kept = [call, *kept][:_MAX_CALLS]
                self._calls[call.id] = kept
                if len(self._calls) > MAX_IDS:
                    del self._calls[next(iter(self._calls))]

            if reply.opaque is not None:
                self._keep_thoughts(reply, reply.opaque)

    def _keep_thoughts(self, reply: Reply, opaque: Opaque) -> None:
        keys: list[str | _Ids] = [mark_of(reply), mark_of_words(reply.reasoning)]
        keys.append(_ids(reply.tool_calls))
        for key in keys:
            if not key:
                continue

            known = self._thoughts.get(key, opaque)
            # Parallel conversations may use the same ids; thoughts that are ambiguous are dropped.
            self._thoughts[key] = opaque if known == opaque else None
            if len(self._thoughts) > MAX_IDS:
                del self._thoughts[next(iter(self._thoughts))]

    def restore_messages(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return a conversation whose model turns are restored as the model wrote them; other turns
        are unchanged.
        """
        found = []
        for message in messages:
            if message.role == "assistant":
                calls = tuple(self._original(call) for call in message.tool_calls)
                message = replace(message, tool_calls=calls, opaque=self._thoughts_of(message))
            found.append(message)
        return tuple(found)

    def _thoughts_of(self, message: Message) -> Opaque | None:
        mark = message.opaque
        with self._lock:
            if mark is not None and mark.provider == MARKED:
                found = self._thoughts.get(mark.data)
                if found is not None:
                    return found
            return self._thoughts.get(_ids(message.tool_calls))

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


def _ids(calls: Sequence[ToolCall]) -> _Ids:
    return tuple((call.id, call.name) for call in calls)
