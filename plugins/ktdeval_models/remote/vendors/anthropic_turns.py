"""Conversation turns in the format of Claude's Messages API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ktdeval.harness import Message, ToolCall
from ktdeval.values import loads_strict
from ktdeval_models.remote.replies.read_tool_calls import sent_arguments
from ktdeval_models.remote.replies.turn_parts import TurnPart
from ktdeval_models.remote.requests.cache_marks import shared_blocks

Body = dict[str, Any]

_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")


def conversation_turns(
    messages: Sequence[Message], kept: Sequence[Sequence[TurnPart] | None]
) -> Iterator[Body]:
    """Yield turns of alternating roles. Tool results come first in the next user turn. `kept`: for
    each message whose thoughts are sent back, its parts; None for any other message.
    """
    role = ""
    blocks = list[Body]()
    for message, parts in zip(messages, kept, strict=True):
        more = _blocks_of(message) if parts is None else list(map(_kept_block, parts))
        more = [block for block in more if block]
        if not more:
            continue

        next_role = "assistant" if message.role == "assistant" else "user"
        if next_role != role and blocks:
            yield {"role": role, "content": blocks}
            blocks = []

        role = next_role
        blocks.extend(more)

    if blocks:
        yield {"role": role, "content": blocks}


def _kept_block(part: TurnPart) -> Body:
    """Return a block that is sent back unchanged; empty for blank text, which the API refuses."""
    if part.kept is not None:
        return dict(part.kept)
    if part.call is not None:
        return _call_block(part.call)
    if not part.text.strip():
        return {}
    return {"type": "text", "text": part.text}


def _blocks_of(message: Message) -> list[Body]:
    if message.role == "system":
        return []

    text: list[Body] = []
    if text_or_empty(message):
        text = shared_blocks(message)

    if message.role == "assistant":
        return [*text, *map(_call_block, message.tool_calls)]

    if message.tool_call_id is not None:
        return [
            {
                "type": "tool_result",
                "tool_use_id": accepted_name(message.tool_call_id),
                "content": message.content,
            }
        ]

    return text


def _call_block(call: ToolCall) -> Body:
    # The API requires an object, whatever the model wrote.
    arguments = loads_strict(sent_arguments(call.arguments))
    return {
        "type": "tool_use",
        "id": accepted_name(call.id),
        "name": accepted_name(call.name),
        "input": arguments,
    }


def text_or_empty(message: Message) -> str:
    """Return a message's text. If the text is only whitespace, which the API refuses, return an
    empty string.
    """
    if not message.content.strip():
        return ""
    return message.content


def accepted_name(name: str) -> str:
    """Return an id or name without the characters that the API refuses. Ids made by the API are
    unchanged.
    """
    if _ID.fullmatch(name):
        return name
    return _NOT_IN_ID.sub("_", name)[:128] or "_"
