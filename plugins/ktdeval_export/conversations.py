"""Conversations in a step, assembled from its model calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktdeval.harness import Message, ModelRequest, Reply, ToolSpec, with_distinct_ids


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model call: the request and the reply."""

    request: ModelRequest
    reply: Reply


@dataclass(frozen=True)
class CallChain:
    """Chain of model calls in which each call repeats the messages of the previous call and adds to
    them.
    """

    opening: tuple[Message, ...]  #: messages of the first request
    messages: tuple[Message, ...]  #: all messages; the last message is the model's last reply
    tools: tuple[ToolSpec, ...]  #: tools offered in the last call
    role: str  #: role of the calling agent in a team; empty if there is only one agent

    @property
    def continuation(self) -> tuple[Message, ...]:
        """Messages after the opening, the first of which was written by the model."""
        return self.messages[len(self.opening) :]


def conversations_of(calls: Sequence[ModelCall]) -> list[CallChain]:
    """Return the conversations in a step's calls, ordered by their first calls."""
    threads: list[list[ModelCall]] = []
    for call in calls:
        thread = _thread_of(call, threads)
        if thread is None:
            threads.append([call])
        else:
            thread.append(call)

    return [_conversation(thread) for thread in threads]


def _thread_of(call: ModelCall, threads: Sequence[list[ModelCall]]) -> list[ModelCall] | None:
    """Return the most recent thread that a call continues; None if the call starts a new thread."""
    for thread in reversed(threads):
        before = thread[-1].request
        begins = call.request.messages[: len(before.messages)] == before.messages
        is_longer = len(call.request.messages) > len(before.messages)
        if begins and is_longer and call.request.role == before.role:
            return thread

    return None


def _conversation(thread: Sequence[ModelCall]) -> CallChain:
    last = thread[-1]
    reply = with_distinct_ids(last.reply)
    final = reply.as_message()
    return CallChain(
        opening=thread[0].request.messages,
        messages=(*last.request.messages, final),
        tools=last.request.tools,
        role=last.request.role or "",
    )
