"""Where Claude's prompt cache is told to keep a prompt, and with it to look for what it kept.

The API reads and writes a prompt up to the end of a marked block, tools and system message before
the conversation; each mark looks back over 20 blocks for what an earlier request wrote at a mark of
its own. Nothing is kept of a request's own words, which no other begins with: writing costs a
quarter more than reading afresh. A `tool_choice` of another kind ends what was kept of the
conversation, but not of tools and system message
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
    """Return a message's text in blocks, cut where other requests go on in another way; the first
    and the last of these ends are marked. Blocks without a sign are refused, so their space goes to
    a neighbour.
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
    """Whether a request changes the kind of `tool_choice` in the middle of a conversation: then
    nothing kept of the conversation can be read. `is_free`: its own kind leaves a call to the model.
    """
    has_replies = any(message.role == "assistant" for message in request.messages)
    return has_replies and not is_free and not _is_retry(request)


def _is_retry(request: ModelRequest) -> bool:
    """Whether a request answers a call, as those after research do not where a call is forced."""
    return request.messages[-1].role == "tool"


def mark_prompt(body: Body, request: ModelRequest) -> None:
    """Mark a body in place: the end of what requests of other roles and days begin with, and in
    a conversation that goes on the end of the request before and of this one.
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
    """Return the block with which the latest earlier request ended whose tools were free: it was
    answered by a call, or has a call's result. Empty where there is none. That of a report had
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
    """Leave as many marks in a conversation as the API takes beside that before it: the last ones,
    which look back at the others.
    """
    marked: list[Body] = []
    for turn in turns:
        marked += [block for block in turn["content"] if FIELD in block]

    for block in marked[: 1 - _MAX_MARKS]:
        del block[FIELD]
