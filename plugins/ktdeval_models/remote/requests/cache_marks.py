"""Marks in a prompt for Claude's prompt cache: where to store a prefix, and where to look for a
stored one.

The API stores and reads a prompt up to the end of a marked block; tools and system message come
before the conversation. From each mark, the API looks back over 20 blocks for a mark of an earlier
request. Text that belongs to one request only is not marked, since no other request starts with it,
and writing to the cache costs a quarter more than normal input. Another kind of `tool_choice`
invalidates the stored conversation, but not the tools and the system message
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
    """Return a message's text in blocks, split where other requests continue differently. The first
    and the last of the shared blocks are marked. Blank pieces are joined to a neighbour, because
    the API refuses blank blocks.
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
    stored conversation can be read. `is_free`: whether the request lets the model decide about
    calling a tool.
    """
    has_replies = any(message.role == "assistant" for message in request.messages)
    return has_replies and not is_free and not _is_retry(request)


def _is_retry(request: ModelRequest) -> bool:
    """Return whether a request follows a tool's result. A request with a forced call after the
    research does not.
    """
    return request.messages[-1].role == "tool"


def mark_prompt(body: Body, request: ModelRequest) -> None:
    """Mark a body in place: the end of the prefix that it shares with requests of other roles and
    days and, if the conversation continues, the end of the previous request and of this request.
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
    """Return the last block of the latest earlier request with a free tool choice: a request whose
    answer contains a call, or that contains a call's result. Empty if no request matches. A request
    for a report had another tool choice.
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
    """Limit the marks in a conversation to the API's maximum, less the mark before the
    conversation. The last marks are kept, since the API looks back from them to the others.
    """
    marked: list[Body] = []
    for turn in turns:
        marked += [block for block in turn["content"] if FIELD in block]

    for block in marked[: 1 - _MAX_MARKS]:
        del block[FIELD]
