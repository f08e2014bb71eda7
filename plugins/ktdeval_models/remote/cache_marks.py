"""Marks in a prompt for Claude's prompt cache: where to store a prefix, and where to look for a
stored one.

The API stores and reads a prompt up to the end of a marked block; tools and system message come
before the conversation. From each mark, the API looks back over 20 blocks for an earlier request's
mark. Text that belongs to one request only is not marked, since no other request starts with it:
writing costs a quarter more than normal input. Another kind of `tool_choice` invalidates the stored
conversation, but not tools and system message
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ktdeval.harness import Message, ModelRequest

Body = dict[str, Any]

FIELD = "cache_control"
_FIVE_MINUTES = {"type": "ephemeral"}
_MAX_MARKS = 4  # the API refuses more


def shared_blocks(message: Message) -> list[Body]:
    """Return a message's text in blocks, cut where other requests continue differently; the first
    and last of these blocks are marked at their end. Blank blocks are refused, so blank pieces are
    joined to a neighbour.
    """
    blocks: list[Body] = []
    start = 0
    for end in message.shared:
        piece = message.content[start:end]
        if piece.strip() and message.content[end:].strip():
            blocks.append({"type": "text", "text": piece})
            start = end

    for block in blocks[:1] + blocks[-1:]:
        _mark(block)

    return [*blocks, {"type": "text", "text": message.content[start:]}]


def changes_choice(request: ModelRequest, is_free: bool) -> bool:
    """Return whether a request changes the kind of `tool_choice` within a conversation, so that no
    stored conversation can be read. `is_free`: the request itself leaves a call to the model.
    """
    has_replies = any(message.role == "assistant" for message in request.messages)
    return has_replies and not is_free and not _is_retry(request)


def _is_retry(request: ModelRequest) -> bool:
    """Return whether a request follows a tool's result; requests after research with a forced call
    do not.
    """
    return request.messages[-1].role == "tool"


def mark_prompt(body: Body, request: ModelRequest) -> None:
    """Mark a body in place: the end of the prefix that requests of other roles and days share and,
    if the conversation continues, the end of the previous request and of this one.
    """
    if "system" in body:
        body["system"] = [{"type": "text", "text": body["system"]}]
        _mark(body["system"][-1])
    elif body.get("tools"):
        _mark(body["tools"][-1])

    turns: list[Body] = body["messages"]
    if body.get("tool_choice", {}).get("type") == "auto":
        for block in _before_last_call(turns):
            _mark(block)

    may_go_on = bool(request.tools) and request.tool_choice is None
    if may_go_on or _is_retry(request):
        _mark(turns[-1]["content"][-1])

    _drop_first_marks(turns)


def _before_last_call(turns: Sequence[Body]) -> list[Body]:
    """Return the last block of the latest earlier request with free tool choice: its answer
    contains a call, or it contains a call's result. Empty if not found. A request for a report used
    another choice.
    """
    for turn, answer in reversed(list(pairwise(turns))):
        if answer["role"] != "assistant":
            continue

        kinds = {block["type"] for block in (*turn["content"], *answer["content"])}
        if kinds & {"tool_use", "tool_result"}:
            return [turn["content"][-1]]

    return []


def _mark(block: Body) -> None:
    block[FIELD] = _FIVE_MINUTES


def _drop_first_marks(turns: Sequence[Body]) -> None:
    """Keep as many marks in a conversation as the API allows in addition to the mark before it: the
    last ones, from which the API looks back to the others.
    """
    marked: list[Body] = []
    for turn in turns:
        marked += [block for block in turn["content"] if FIELD in block]

    for block in marked[: 1 - _MAX_MARKS]:
        del block[FIELD]
