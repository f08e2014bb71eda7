"""A conversation as a reader sees it: texts, calls with their arguments, and what these answered."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from ktdeval.harness import Message, Reply
from ktdeval.secrets import redact_secrets
from ktdeval.values import Value

MAX_CHARS: Final = 20_000


Kind = Literal["text", "thought", "call", "result", "feedback"]


class TalkPart(Value, frozen=True):
    """Part of a turn, in the order in which it came."""

    kind: Kind
    text: str  #: of a call its arguments as the model wrote them
    tool: str = ""  #: of a call
    call_id: str = ""  #: of a call and of its result
    cut: int = 0  #: characters that are left out at the end


def told_reply(reply: Reply) -> list[TalkPart]:
    """Return the parts of a reply of the model."""
    parts = []
    if reply.reasoning:
        parts.append(_talk_part("thought", reply.reasoning))
    if reply.content:
        parts.append(_talk_part("text", reply.content))

    parts += [_talk_part("call", call.arguments, call.name, call.id) for call in reply.tool_calls]
    return parts


def told_messages(messages: Iterable[Message]) -> list[TalkPart]:
    """Return what messages after a reply say: results of calls, and feedback to the model."""
    parts = []
    for message in messages:
        if message.role == "tool":
            parts.append(_talk_part("result", message.content, call_id=message.tool_call_id or ""))
        elif message.role == "user":
            parts.append(_talk_part("feedback", message.content))

    return parts


def told_exchanges(exchanges: Sequence[Mapping[str, Any]]) -> list[TalkPart]:
    """Return the parts of a recorded turn; its question is left out."""
    parts: list[TalkPart] = []
    for number, exchange in enumerate(exchanges):
        if number:
            for sent in exchange["sent"]:
                parts += _told_sent(sent)

        reply = exchange.get("reply")
        if reply is not None:
            parts += _told_recorded(reply)
        if "error" in exchange:
            parts.append(
                _talk_part("feedback", f"The call of the model failed: {exchange['error']}")
            )

    return parts


def _told_sent(sent: Mapping[str, Any]) -> list[TalkPart]:
    message = Message(sent["role"], sent["content"], tool_call_id=sent.get("tool_call_id"))
    return told_messages([message])


def _told_recorded(reply: Mapping[str, Any]) -> list[TalkPart]:
    parts = []
    if reply.get("reasoning"):
        parts.append(_talk_part("thought", reply["reasoning"]))
    if reply.get("content"):
        parts.append(_talk_part("text", reply["content"]))

    for call in reply.get("tool_calls", ()):
        parts.append(_talk_part("call", call["arguments"], call["name"], call["id"]))
    return parts


def redacted_part(part: TalkPart) -> TalkPart:
    """Return a part without the secrets of the environment."""
    return TalkPart(
        kind=part.kind,
        text=redact_text(part.text),
        tool=redact_text(part.tool),
        call_id=redact_text(part.call_id),
        cut=part.cut,
    )


def redact_text(text: str) -> str:
    """Return a text without the secrets of the environment."""
    return redact_secrets(text, os.environ)


def _talk_part(
    kind: Kind,
    text: str,
    tool: str = "",
    call_id: str = "",
) -> TalkPart:
    cut = max(0, len(text) - MAX_CHARS)
    return TalkPart(
        kind=kind, text=text[:MAX_CHARS], tool=tool[:200], call_id=call_id[:200], cut=cut
    )
