"""Anthropic Messages: `POST /v1/messages` and `/v1/messages/count_tokens`. Sources:
`forms/anthropic.yaml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktdeval.harness import NO_TOOL, Message, OwnSettings, Reply, ToolCall, ToolSpec
from ktdeval.values import JsonObject, dumps_compact
from ktdeval_command.wire.bridge_request import (
    INVALID_JSON,
    BridgeRequest,
    arguments_object,
    arguments_text,
    check_request,
    cut_at_stop,
    required_choice,
)
from ktdeval_command.wire.declared_form import declared_form
from ktdeval_command.wire.events import event
from ktdeval_command.wire.own_settings import SettingsReader
from ktdeval_command.wire.request_fields import SWITCH_OFF, Fields, request_fields
from ktdeval_command.wire.thoughts import mark_of, parse_mark

_FORM = declared_form("anthropic")
_BLOCKS = {
    "user": ("text", "tool_result"),
    "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
    "system": ("text",),
}
_THOUGHTS = ("thinking", "redacted_thinking")


def read(body: bytes) -> BridgeRequest:
    """Return the request in a body. Raises WireError."""
    return _read(body, needs_limit=True)


def read_count(body: bytes) -> BridgeRequest:
    """Return the request in a body that asks for a token count. Raises WireError."""
    return _read(body, needs_limit=False)


def write_count(tokens: int) -> JsonObject:
    """Return the body that answers a request for a token count."""
    return {"input_tokens": tokens}


def _read(body: bytes, needs_limit: bool) -> BridgeRequest:
    fields = request_fields(body)
    fields.refuse(_FORM.parts["refused"])

    model = fields.needed_name("model")
    messages = []
    system = fields.content("system", ("text",))
    if system:
        messages.append(Message("system", system))
    for turn in fields.objects("messages"):
        messages += _turn(turn)

    tools = tuple(_tool(tool) for tool in fields.objects("tools"))
    limit = fields.count("max_tokens")
    if limit is None and needs_limit:
        fields.wrong("max_tokens", "a whole number of at least 1, is missing")

    output = fields.child("output_config")
    temperature = fields.temperature("temperature")

    request = BridgeRequest(
        asked_model=model,
        messages=tuple(messages),
        tools=tools,
        tool_choice=_choice(fields, tools),
        response_schema=_schema(fields, output),
        max_output_tokens=limit,
        temperature=temperature,
        own=_own_settings(fields, output, limit, temperature),
        stop=fields.texts("stop_sequences"),
        streams=fields.flag("stream"),
    )
    return check_request(request, fields)


def _own_settings(
    fields: Fields, output: Fields | None, limit: int | None, temperature: float | None
) -> OwnSettings | None:
    own = SettingsReader("messages")
    own.add("max_tokens", limit, "max_output_tokens")
    own.add("temperature", temperature, "temperature")
    if output is not None:
        effort = output.text("effort")
        if effort is not None:
            own.put("output_config.effort", effort)
            own.add_effort("output_config.effort", effort)
        output.ignore_rest()

    thinking = fields.mapping("thinking")
    if thinking is not None:
        own.put("thinking", thinking)
        if thinking.get("type") == "disabled":
            own.add_effort("thinking", "none")
        elif thinking.get("type") == "enabled":
            own.add_budget("thinking", thinking.get("budget_tokens"))
    own.take(fields, _FORM)
    return own.settings()


def _turn(turn: Fields) -> list[Message]:
    role = turn.needed_word("role", tuple(_BLOCKS))
    if role == "assistant":
        return [_assistant(turn)]
    if role == "system":
        return [Message("system", turn.content("content", _BLOCKS["system"]))]
    return _user(turn)


def _blocks(turn: Fields) -> list[Fields]:
    """Return the blocks of a turn. Plain text becomes a single block."""
    value = turn.take("content")
    if value is None:
        turn.wrong("content", "a text or a list of blocks, is missing")
    if isinstance(value, str):
        value = [{"type": "text", "text": value}]
    content = Fields({"content": value}, turn.where, turn.ignored)
    return content.objects("content")


def _user(turn: Fields) -> list[Message]:
    messages = []
    texts = []
    for block in _blocks(turn):
        if block.kind(_BLOCKS["user"]) == "text":
            texts.append(block.needed_text("text"))
        elif texts:
            # Page on handling tool calls: in a turn, results come before text.
            block.wrong("type", "tool_result blocks before the text of a turn")
        else:
            messages.append(_result(block))
        block.ignore_rest()
    turn.ignore_rest()

    if texts or not messages:
        messages.append(Message("user", "\n\n".join(texts)))
    return messages


def _result(block: Fields) -> Message:
    call_id = block.needed_name("tool_use_id")
    content = block.content("content", ("text",))
    # The text also says that it is an error; the run's models have no such flag.
    if block.take("is_error"):
        block.ignore("is_error", "=true")
    return Message("tool", content, tool_call_id=call_id)


def _assistant(turn: Fields) -> Message:
    texts = []
    calls = []
    thoughts = None
    for block in _blocks(turn):
        kind = block.kind(_BLOCKS["assistant"])
        if kind == "text":
            texts.append(block.needed_text("text"))
        elif kind == "tool_use":
            call_id = block.needed_name("id")
            name = block.needed_name("name")
            calls.append(ToolCall(call_id, name, arguments_text(block.mapping("input") or {})))
        elif kind in _THOUGHTS:
            thoughts = thoughts or parse_mark(block.text("signature"))
            block.take("thinking")
            block.take("data")
        block.ignore_rest()
    turn.ignore_rest()

    return Message("assistant", "".join(texts), tuple(calls), opaque=thoughts)


def _tool(fields: Fields) -> ToolSpec:
    # Tools of any other type belong to the provider: they run there, or only the provider's models
    # know them.
    fields.kind(("custom",), "custom", SWITCH_OFF)
    name = fields.needed_name("name")
    description = fields.text("description") or ""
    schema = fields.needed_schema("input_schema")
    fields.ignore_rest()
    return ToolSpec(name, description, schema)


def _choice(fields: Fields, tools: Sequence[ToolSpec]) -> str | None:
    choice = fields.child("tool_choice")
    if choice is None:
        return None

    kind = choice.kind(("auto", "any", "tool", "none"))
    name = None
    if kind == "tool":
        name = choice.needed_name("name")
    choice.ignore_rest()  # such as `disable_parallel_tool_use`
    if kind == "any":
        return required_choice(fields, "tool_choice.type", "any", tools)
    if kind == "none" and tools:
        return NO_TOOL
    return name


def _schema(fields: Fields, output: Fields | None) -> JsonObject | None:
    """Return the schema in `output_config.format`, or in `output_format`, which is the field's name
    in the beta.
    """
    form = fields.child("output_format")
    if output is not None:
        form = output.child("format") or form
    if form is None:
        return None

    form.kind(("json_schema",))
    return form.needed_schema("schema")


def write(reply: Reply, request: BridgeRequest, number: int) -> JsonObject:
    """Return the body of an answer. Its id is made from the answer's `number`."""
    reply, stop = cut_at_stop(reply, request.stop)
    content = [block["whole"] for block in _answer_blocks(reply)]
    reason = _stop_reason(reply, stop)
    return _answer(reply, request, number, content=content, reason=reason, stop=stop)


def stream(reply: Reply, request: BridgeRequest, number: int) -> list[bytes]:
    """Return the events of a streamed answer (page "Streaming messages", "Event types")."""
    reply, stop = cut_at_stop(reply, request.stop)
    start = _answer(reply, request, number, content=[], reason=None, stop=None)
    start["usage"]["output_tokens"] = 0
    events = [_event("message_start", message=start)]
    for index, block in enumerate(_answer_blocks(reply)):
        events.append(_event("content_block_start", index=index, content_block=block["begun"]))
        for delta in block["deltas"]:
            events.append(_event("content_block_delta", index=index, delta=delta))
        events.append(_event("content_block_stop", index=index))

    end = {"stop_reason": _stop_reason(reply, stop), "stop_sequence": stop}
    events.append(_event("message_delta", delta=end, usage=_FORM.usage(reply.usage)))
    events.append(_event("message_stop"))
    return events


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def _answer(reply: Reply, request: BridgeRequest, number: int, **values: Any) -> dict[str, Any]:
    return _FORM.fill(
        "answer",
        number=number,
        model=request.asked_model,
        usage=_FORM.usage(reply.usage),
        **values,
    )


def _answer_blocks(reply: Reply) -> list[dict[str, Any]]:
    """Return the blocks of an answer, each in its complete form and in its streamed form."""
    blocks = []
    if mark_of(reply):
        thinking = _FORM.fill("thinking", text=reply.reasoning, mark=mark_of(reply))
        if not reply.reasoning:
            del thinking["deltas"][0]  # no text to stream
        blocks.append(thinking)
    if reply.content:
        blocks.append(_FORM.fill("text", text=reply.content))
    for call in reply.tool_calls:
        arguments = arguments_object(call)
        text = call.arguments or "{}"
        if INVALID_JSON in arguments:
            text = dumps_compact(arguments)
        blocks.append(_FORM.fill("tool_use", call=call, input=arguments, text=text))
    return blocks


def _stop_reason(reply: Reply, stop: str | None) -> str:
    if stop is not None:
        return "stop_sequence"
    if reply.finish_reason == "stop" and reply.tool_calls:
        return "tool_use"
    reason: str = _FORM.parts["finishes"][reply.finish_reason]
    return reason
