"""Read tool calls as servers send them, with names and arguments in any form.

The harness judges what a model wrote in the same way for all APIs. No name or argument makes a
reply invalid here: an invalid reply would be requested, and paid for, again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ktdeval.calls import ProviderRefusal
from ktdeval.harness import NO_TOOL, ModelRequest, Reply, ToolCall, is_no_arguments
from ktdeval.values import TOO_DEEP, JsonValue, loads_strict

_ARGUMENT_FIELDS = ("arguments", "input", "args")  # name of the arguments field in the three APIs

_GENERATION_CODES = ("tool_use_failed", "json_validate_failed")
"""Groq's error codes for a model reply that it could not parse; `failed_generation` holds the
reply.
"""

# The first pattern is Ollama's message, the others are llama.cpp's. They show the reply from the
# position that could not be parsed, or don't show it at all.
_UNREAD = (
    re.compile(r"error parsing tool call: raw='(?P<text>.*)', err=", re.DOTALL),
    re.compile(r"Failed to parse input at pos \d+: (?P<text>.*)", re.DOTALL),
    re.compile(r"model produced output that does not match(?P<text>)"),
    re.compile(r"Failed to parse tool call arguments as JSON(?P<text>.*)", re.DOTALL),
)


def _arguments_text(call: Mapping[str, JsonValue], field: str) -> str:
    """Return a call's arguments field as text; empty if the field is missing.

    Every API may send an object as JSON or as JSON text. Any other value, including `null`, is
    returned as JSON for the harness to judge. PHP gateways send an empty object as an empty list.
    """
    if field not in call:
        return ""

    value = call[field]
    if value == []:
        return "{}"
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def read_call(call: Mapping[str, Any], field: str, call_id: str) -> ToolCall:
    """Return a call as a server sent it. `field`: name of the field with the arguments."""
    return ToolCall(call_id, _call_name(call.get("name")), _arguments_text(call, field))


def _call_name(value: JsonValue) -> str:
    """Return the name of the called tool. If the name is not a string, it is empty, which is never
    a tool's name.
    """
    if not isinstance(value, str):
        return ""
    return value


def loads_reply(content: bytes) -> JsonValue:
    """Parse a server's reply as strict JSON, except for call arguments, in which a model may write
    NaN. Raises ValueError if the reply is not JSON.
    """
    try:
        return loads_strict(content)
    except ValueError:
        try:
            body: JsonValue = json.loads(content)
            # raises if anything else is not strict
            loads_strict(json.dumps(_without_arguments(body)))
        except RecursionError:
            raise ValueError(TOO_DEEP) from None

        return body


def _without_arguments(value: JsonValue) -> JsonValue:
    """Return a copy of a JSON value without call arguments, at any depth."""
    if isinstance(value, list):
        return [_without_arguments(item) for item in value]
    if not isinstance(value, dict):
        return value

    copy: dict[str, JsonValue] = {}
    for name, item in value.items():
        if name not in _ARGUMENT_FIELDS:
            copy[name] = _without_arguments(item)

    return copy


def is_object(text: str) -> bool:
    """Return whether a string is a JSON object."""
    try:
        return isinstance(loads_strict(text), dict)
    except (ValueError, RecursionError):
        return False


def sent_arguments(text: str) -> str:
    """Return the arguments of a call in an earlier turn as a JSON object, the form that every
    server accepts. Without arguments, the object is empty.
    """
    if is_no_arguments(text):
        return "{}"
    if is_object(text):
        return text
    return json.dumps({"malformed_arguments": text}, ensure_ascii=False)


def unread_reply(refusal: ProviderRefusal, content: bytes, request: ModelRequest) -> Reply | None:
    """Return the model's reply if an error says that the server could not parse it; None for any
    other error.

    The mistake is the model's and is treated as its answer: a call to the tool named in the reply's
    text, with the unparsed text as the arguments.
    """
    text = _unread_text(refusal, content)
    if text is None:
        return None
    if not request.tools or request.tool_choice == NO_TOOL:
        return Reply(text)

    call = broken_call(text, request)
    return Reply(tool_calls=(call,), finish_reason="tool_calls")


def broken_call(text: str, request: ModelRequest) -> ToolCall:
    """Return a call made from a text that a server could not parse as a call. The caller assigns
    the id.
    """
    names = [tool.name for tool in request.tools]
    if request.tool_choice:  # the arguments of a forced call may name other tools
        names.insert(0, request.tool_choice)

    named = ""
    for name in names:
        if re.search(rf"\b{re.escape(name)}\b", text):
            named = name
            break

    return ToolCall("", named or request.tool_choice or "", text or "(not shown)")


def _unread_text(refusal: ProviderRefusal, content: bytes) -> str | None:
    """Return the text that a server could not parse; None for any other error."""
    if refusal.status < 400:
        return None

    error = _error_object(content)
    failed = error.get("failed_generation")
    if any(code in refusal.codes for code in _GENERATION_CODES):
        if isinstance(failed, str):
            return failed
        return refusal.message

    message = _message(error, refusal)
    for pattern in _UNREAD:
        match = pattern.search(message)
        if match is not None:
            return match["text"].strip()

    return None


def _message(error: Mapping[str, Any], refusal: ProviderRefusal) -> str:
    """Return the full message of an error; a `Refusal` contains only the beginning of it."""
    message = error.get("message")
    if isinstance(message, str):
        return message
    return refusal.message


def _error_object(content: bytes) -> Mapping[str, Any]:
    try:
        body = loads_strict(content)
    except (ValueError, RecursionError):
        return {}

    error = None
    if isinstance(body, dict):
        error = body.get("error")
    if isinstance(error, dict):
        return error
    # Some servers send the message itself as `error`.
    return {"message": error}


def sent_ids(request: ModelRequest) -> Iterable[str]:
    """Return the ids of all calls in the conversation so far."""
    ids = []
    for message in request.messages:
        ids += [call.id for call in message.tool_calls]
    return ids
