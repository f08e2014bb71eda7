"""Finish reason of a reply, derived from the stop reason of any server."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from ktdeval.calls import Caller, bad_response, one_line
from ktdeval.errors import ModelError
from ktdeval.harness import (
    NATIVE_PROTOCOLS,
    NO_TOOL,
    FinishReason,
    ModelRequest,
    Reply,
    ToolCall,
    holds_marked_call,
    is_no_arguments,
    read_blocks,
    read_envelope,
)
from ktdeval_models.remote.replies.read_tool_calls import is_object
from ktdeval_models.remote.wire_words import by_word, wire_words

_WORDS = wire_words("endings")
_FINISH: Mapping[str, FinishReason] = by_word(
    {reason: _WORDS[reason] for reason in get_args(FinishReason) if reason in _WORDS}
)
_FAILURES: Mapping[str, Any] = by_word(_WORDS["failures"])
_SAYS_NOTHING = frozenset(_WORDS["none"])
_KNOWN = {*_FINISH, *_FAILURES, *_SAYS_NOTHING}

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_LETTER = re.compile(r"[^a-z0-9]+")
_PREFIX = re.compile(r"(finish|stop)_reason_")
_UNKNOWN = "?"
_SHOWN = 80  # maximum number of characters shown of an unknown stop reason


@dataclass(frozen=True, slots=True)
class ReplyEnding:
    """End of a reply: its finish reason, and notes."""

    finish: FinishReason
    notes: tuple[str, ...] = ()


def plain_words(word: Any) -> list[str]:
    """Return the words of a server's stop reason to look up in `wire.yaml`: the word after the last
    `.` or `:`, then the word before the first. A missing stop reason is an empty string.
    """
    if not isinstance(word, str):
        return [""]
    parts = re.split(r"[.:]", word.strip())
    return [_plain_word(parts[-1]), _plain_word(parts[0])]


def _plain_word(word: str) -> str:
    with_signs = _CAPITAL.sub("_", word.strip()).lower()
    plain = _NO_LETTER.sub("_", with_signs).strip("_")
    return _PREFIX.sub("", plain)


def finish_of(finish: FinishReason, calls: Collection[ToolCall]) -> FinishReason:
    """Return how a reply ended. A reply with calls ended with `tool_calls`, even if the provider
    says `stop`.
    """
    return "tool_calls" if calls and finish == "stop" else finish


def read_ending(
    word: Any, content: str, calls: Collection[ToolCall], request: ModelRequest, caller: Caller
) -> ReplyEnding:
    """Return how a reply ended, given the server's stop reason.

    A complete call is used whatever the stop reason, and so is a text without a call. Raises
    ModelError if the server gave up. Also raises it if the stop reason is unknown and there is no
    complete call.
    """
    plain = next((each for each in plain_words(word) if each in _KNOWN), _UNKNOWN)
    if plain in _FINISH:
        return ReplyEnding(finish_of(_FINISH[plain], calls))

    shown = one_line(str(word), caller.secrets)[:_SHOWN]
    if plain in _FAILURES:
        who = f"{caller.provider}/{caller.model}"
        raise ModelError(_FAILURES[plain], f"{who}: the server gave up ({shown})")

    if plain in _SAYS_NOTHING:
        if not calls and not content.strip():
            raise bad_response(
                caller, "the reply has no text, no call and no word for how it ended"
            )

        return ReplyEnding(finish_of("stop", calls))

    if not _holds_whole_call(content, calls, request):
        raise bad_response(
            caller,
            f"the reply ended with {shown!r}, a word that is not known, and holds no whole call",
        )

    return ReplyEnding(
        finish_of("stop", calls), (f"ended with {shown!r}, a word that is not known",)
    )


def _is_whole(call: ToolCall, request: ModelRequest) -> bool:
    """Return whether a call's arguments are an object. Missing arguments are accepted if the tool
    requires no arguments.
    """
    if not is_no_arguments(call.arguments):
        return is_object(call.arguments)
    return any(
        tool.name == call.name and not tool.parameters.get("required") for tool in request.tools
    )


def _holds_whole_call(content: str, calls: Collection[ToolCall], request: ModelRequest) -> bool:
    """Return whether a reply has tool calls, as wire fields or in its text, and each call is
    complete.
    """
    if calls:
        return all(_is_whole(call, request) for call in calls)
    if request.params.tool_protocol in NATIVE_PROTOCOLS:
        return False

    read = read_envelope if request.response_schema is not None else read_blocks
    written = read(content).calls
    return bool(written) and all(is_object(call.arguments) for call in written)


def cut_at_limit(reply: Reply, request: ModelRequest) -> Reply:
    """Mark a reply as cut off if it has the maximum length, whatever the stop reason: some servers
    say `stop`. Some servers count reasoning towards the limit, others do not.
    """
    limit = request.params.max_output_tokens
    if limit is None:
        return reply

    output = reply.usage.output_tokens
    is_at_limit = output == limit or output - reply.usage.reasoning_tokens >= limit
    if is_at_limit and reply.finish_reason in ("stop", "tool_calls"):
        return replace(reply, finish_reason="length")
    return reply


NO_TOOL_PARSER = (
    "%s left a tool call in the text of its reply: the server has no tool parser for this model. Start"
    " it with one (vLLM: --enable-auto-tool-choice --tool-call-parser NAME; SGLang:"
    " --tool-call-parser NAME; llama.cpp: --jinja), or use --tool-protocol json_schema"
)


def leaves_call_as_text(reply: Reply, request: ModelRequest) -> bool:
    """Return whether a request offered tools and the reply has no call, but has traces of a call in
    its text.
    """
    is_native = request.params.tool_protocol in NATIVE_PROTOCOLS and bool(request.tools)
    if not is_native or request.tool_choice == NO_TOOL or reply.tool_calls:
        return False
    names = {tool.name for tool in request.tools}
    return any(holds_marked_call(text, names) for text in (reply.content, reply.reasoning))
