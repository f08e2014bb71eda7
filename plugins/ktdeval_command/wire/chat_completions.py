"""Chat Completions: `POST /v1/chat/completions`. Sources: `forms/chat_completions.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktdeval.harness import Message, Reply, ToolCall, ToolSpec
from ktdeval.values import JsonObject
from ktdeval_command.wire.bridge_request import (
    BridgeRequest,
    allowed_only,
    check_request,
    cut_at_stop,
)
from ktdeval_command.wire.declared_form import declared_form
from ktdeval_command.wire.events import event
from ktdeval_command.wire.openai_forms import plain_choice, read_format, read_function
from ktdeval_command.wire.own_settings import SettingsReader
from ktdeval_command.wire.request_fields import SWITCH_OFF, Fields, request_fields
from ktdeval_command.wire.thoughts import mark_of_words, parse_mark

DONE = b"data: [DONE]\n\n"

_FORM = declared_form("chat_completions")
_ROLES = ("system", "developer", "user", "assistant", "tool")
_LIMIT = "max_output_tokens"
_FINISHES = {"refusal": "stop"}  # `finish_reason` for a refusal, which has a separate field


def read(body: bytes) -> BridgeRequest:
    """Return the request in a body. Raises WireError."""
    fields = request_fields(body)
    fields.refuse(_FORM.parts["refused"])
    if fields.count("n") not in (None, 1):
        fields.refuse_field("n", "one reply a request")
    if fields.texts("modalities") not in ((), ("text",)):
        fields.refuse_field("modalities", "text")

    model = fields.needed_name("model")
    messages = []
    for turn in fields.objects("messages"):
        messages.append(_message(turn))
    tools = tuple(_tool(tool) for tool in fields.objects("tools"))
    tools, choice = _choice(fields, tools)
    schema = read_format(fields.child("response_format"), "json_schema")
    # `max_tokens` is the older name of `max_completion_tokens`.
    newer = fields.count("max_completion_tokens")
    older = fields.count("max_tokens")
    options = fields.child("stream_options")
    temperature = fields.temperature("temperature")
    own = SettingsReader("chat_completions")
    own.add("max_tokens" if newer is None else "max_completion_tokens", newer or older, _LIMIT)
    own.add("temperature", temperature, "temperature")
    own.add_effort("reasoning_effort", fields.peek("reasoning_effort"))
    own.add_budget("thinking_budget", fields.peek("thinking_budget"))
    own.take(fields, _FORM)

    request = BridgeRequest(
        asked_model=model,
        messages=tuple(messages),
        tools=tools,
        tool_choice=choice,
        response_schema=schema,
        max_output_tokens=newer or older,
        temperature=temperature,
        own=own.settings(),
        stop=fields.texts("stop"),
        streams=fields.flag("stream"),
        streams_usage=options is not None and options.flag("include_usage"),
    )
    return check_request(request, fields)


def _message(turn: Fields) -> Message:
    role = turn.needed_word("role", _ROLES)
    if role == "assistant":
        return _assistant(turn)

    content = turn.needed_content("content", ("text",))
    if role == "tool":
        call_id = turn.needed_name("tool_call_id")
        turn.ignore_rest()
        return Message("tool", content, tool_call_id=call_id)

    turn.ignore_rest()  # such as the `name` of a participant
    if role == "user":
        return Message("user", content)
    # With newer models, the developer message replaces the system message (see its type).
    return Message("system", content)


def _assistant(turn: Fields) -> Message:
    content = turn.content("content", ("text", "refusal"), between="")
    refusal = turn.text("refusal") or ""
    turn.refuse({"audio": "text", "function_call": "tool_calls"})

    calls = []
    for call in turn.objects("tool_calls"):
        call_id = call.needed_name("id")
        call.kind(("function",), "function")
        function = call.needed_child("function")
        calls.append(
            ToolCall(call_id, function.needed_name("name"), function.text("arguments") or "")
        )
    thoughts = parse_mark(mark_of_words(turn.text("reasoning_content") or ""))
    turn.ignore_rest()

    return Message("assistant", content or refusal, tuple(calls), opaque=thoughts)


def _tool(fields: Fields) -> ToolSpec:
    fields.kind(("function",), advice=SWITCH_OFF)
    return read_function(fields.needed_child("function"))


def _choice(fields: Fields, tools: tuple[ToolSpec, ...]) -> tuple[tuple[ToolSpec, ...], str | None]:
    """Return the tools on offer, and the tool that must be called."""
    value = fields.take("tool_choice")
    if not isinstance(value, Mapping):
        return tools, plain_choice(fields, value, tools)

    choice = Fields(value, "tool_choice", fields.ignored)
    if choice.kind(("function", "allowed_tools")) == "function":
        return tools, choice.needed_child("function").needed_name("name")

    allowed = choice.needed_child("allowed_tools")
    names = []
    for tool in allowed.objects("tools"):
        names.append(tool.needed_child("function").needed_name("name"))
    tools = allowed_only(allowed, "tools", tools, names)
    return tools, plain_choice(fields, allowed.word("mode", ("auto", "required")), tools)


def write(reply: Reply, request: BridgeRequest, number: int) -> JsonObject:
    """Return the body of an answer. Its id is made from the answer's `number`."""
    reply, _ = cut_at_stop(reply, request.stop)
    is_refusal = reply.finish_reason == "refusal"
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if is_refusal else reply.content or None,
        "refusal": reply.content if is_refusal else None,
    }
    if reply.reasoning:  # name of this field at vendors that use this API
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [_FORM.fill("call", call=call) for call in reply.tool_calls]
    elif message["content"] is None and not is_refusal:
        message["content"] = ""

    return _FORM.fill(
        "answer",
        number=number,
        model=request.asked_model,
        message=message,
        finish=_finish(reply),
        usage=_FORM.usage(reply.usage),
    )


def stream(reply: Reply, request: BridgeRequest, number: int) -> list[bytes]:
    """Return the events of a streamed answer: role, text, calls, finish reason, token counts if
    requested, and `[DONE]`. Requested token counts (`stream_options.include_usage`) are in a last
    chunk without choices.
    """
    reply, _ = cut_at_stop(reply, request.stop)
    text_field = "refusal" if reply.finish_reason == "refusal" else "content"
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if reply.reasoning:
        deltas.append({"reasoning_content": reply.reasoning})
    if reply.content:
        deltas.append({text_field: reply.content})
    for index, call in enumerate(reply.tool_calls):
        deltas.append({"tool_calls": [{"index": index, **_FORM.fill("call", call=call)}]})

    head = _FORM.fill("chunk", number=number, model=request.asked_model)
    if request.streams_usage:
        head["usage"] = None
    choices = [_FORM.fill("choice", delta=delta, finish=None) for delta in deltas]
    choices.append(_FORM.fill("choice", delta={}, finish=_finish(reply)))
    events = [event({**head, "choices": [choice]}) for choice in choices]
    if request.streams_usage:
        events.append(event({**head, "choices": [], "usage": _FORM.usage(reply.usage)}))
    return [*events, DONE]


def _finish(reply: Reply) -> str:
    if reply.finish_reason == "stop" and reply.tool_calls:
        return "tool_calls"
    return _FINISHES.get(reply.finish_reason, reply.finish_reason)
