"""Anthropic Messages: `POST /v1/messages` and `/v1/messages/count_tokens`.

Sources: `anthropic.types` of the `anthropic` package (`message_create_params`, `message`,
`raw_message_stream_event`) and platform.claude.com/docs/en/api: "Messages", "Errors" and
"Streaming messages".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktdeval.harness import NO_TOOL, Message, OwnSettings, Reply, ToolCall, ToolSpec, Usage
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
from ktdeval_command.wire.events import event
from ktdeval_command.wire.own_settings import SettingsReader
from ktdeval_command.wire.refusals import RefusalKind, WireRefusal
from ktdeval_command.wire.request_fields import SWITCH_OFF, Fields, request_fields
from ktdeval_command.wire.thoughts import mark_of, parse_mark

_UNCARRIED = {
    "container": "requests without a container",
    "mcp_servers": "tools with an input_schema; the bridge asks no servers",
}
_BLOCKS = {
    "user": ("text", "tool_result"),
    "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
    "system": ("text",),
}
_THOUGHTS = ("thinking", "redacted_thinking")
_OWN = ("thinking", "top_p", "top_k")  # settings that the model gets, besides those of all APIs

# HTTP status and `type` of an error, by kind (page "Errors").
_ERRORS: dict[RefusalKind, tuple[int, str]] = {
    "bad_request": (400, "invalid_request_error"),
    "unsupported": (400, "invalid_request_error"),
    "unauthorized": (401, "authentication_error"),
    "not_found": (404, "not_found_error"),
    "too_large": (413, "request_too_large"),
    "context_exceeded": (400, "invalid_request_error"),
    "leak_stopped": (400, "invalid_request_error"),
    "budget_spent": (402, "billing_error"),
    "rate_limited": (429, "rate_limit_error"),
    "overloaded": (529, "overloaded_error"),
    "timeout": (504, "timeout_error"),
    "forbidden": (403, "permission_error"),
    "failed": (500, "api_error"),
}
_STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "content_filter": "refusal",
}


def read(body: bytes) -> BridgeRequest:
    """Return the request in a body. Raises WireError."""
    return _read(body, needs_limit=True)


def read_count(body: bytes) -> BridgeRequest:
    """Return the request whose tokens a body asks to count. Raises WireError."""
    return _read(body, needs_limit=False)


def write_count(tokens: int) -> JsonObject:
    """Return the body that answers a count."""
    return {"input_tokens": tokens}


def _read(body: bytes, needs_limit: bool) -> BridgeRequest:
    fields = request_fields(body)
    for name, supported in _UNCARRIED.items():
        fields.refuse([name], supported)

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
            own.take(Fields({"effort": effort}, "output_config", {}), ["effort"])
            own.add_effort("output_config.effort", effort)
        output.ignore_rest()

    thinking = fields.mapping("thinking")
    if thinking is not None:
        own.take(Fields({"thinking": thinking}, "", {}), ["thinking"])
        if thinking.get("type") == "disabled":
            own.add_effort("thinking", "none")
        elif thinking.get("type") == "enabled":
            own.add_budget("thinking", thinking.get("budget_tokens"))
    own.take(fields, _OWN)
    own.withhold(fields, ["service_tier", "speed", "context_management"])
    return own.settings()


def _turn(turn: Fields) -> list[Message]:
    role = turn.word("role", tuple(_BLOCKS))
    if role is None:
        turn.wrong("role", f"one of {', '.join(_BLOCKS)}, is missing")

    if role == "assistant":
        return [_assistant(turn)]
    if role == "system":
        return [Message("system", turn.content("content", _BLOCKS["system"]))]
    return _user(turn)


def _blocks(turn: Fields) -> list[Fields]:
    """Return the blocks of a turn; a plain text is one."""
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
    # The text says it, too; the run's models have no such mark.
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
    # Every other type is a tool of the provider, run there or known to its models only.
    fields.kind(("custom",), "custom", SWITCH_OFF)
    name = fields.needed_name("name")
    description = fields.text("description") or ""
    schema = fields.mapping("input_schema")
    if schema is None:
        fields.wrong("input_schema", "a JSON Schema, is missing")
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
    """Return the schema of `output_config.format`; of `output_format`, its name in the beta."""
    form = fields.child("output_format")
    if output is not None:
        form = output.child("format") or form
    if form is None:
        return None

    form.kind(("json_schema",))
    schema = form.mapping("schema")
    if schema is None:
        form.wrong("schema", "a JSON Schema, is missing")
    return schema


def write(reply: Reply, request: BridgeRequest, number: int) -> JsonObject:
    """Return the body of an answer. `number`: of the answer, which makes its id."""
    reply, stop = cut_at_stop(reply, request.stop)
    content: list[JsonObject] = []
    if mark_of(reply):
        thought = {"type": "thinking", "thinking": reply.reasoning, "signature": mark_of(reply)}
        content.append(thought)
    if reply.content:
        content.append({"type": "text", "text": reply.content})
    for call in reply.tool_calls:
        content.append({**_tool_use(call), "input": arguments_object(call)})

    return {
        **_head(request, number),
        "content": content,
        "stop_reason": _stop_reason(reply, stop),
        "stop_sequence": stop,
        "usage": _usage(reply.usage),
    }


def stream(reply: Reply, request: BridgeRequest, number: int) -> list[bytes]:
    """Return the events of a streamed answer (page "Streaming messages", "Event types")."""
    reply, stop = cut_at_stop(reply, request.stop)
    start = {
        **_head(request, number),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_usage(reply.usage), "output_tokens": 0},
    }
    events = [_event("message_start", message=start)]
    blocks: list[tuple[JsonObject, list[JsonObject]]] = []
    if mark_of(reply):
        words: JsonObject = {"type": "thinking_delta", "thinking": reply.reasoning}
        signature: JsonObject = {"type": "signature_delta", "signature": mark_of(reply)}
        deltas = [words, signature] if reply.reasoning else [signature]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if reply.content:
        text: JsonObject = {"type": "text_delta", "text": reply.content}
        blocks.append(({"type": "text", "text": ""}, [text]))
    for call in reply.tool_calls:
        part: JsonObject = {"type": "input_json_delta", "partial_json": _partial_json(call)}
        blocks.append(({**_tool_use(call), "input": {}}, [part]))

    for index, (block, deltas) in enumerate(blocks):
        events.append(_event("content_block_start", index=index, content_block=block))
        for delta in deltas:
            events.append(_event("content_block_delta", index=index, delta=delta))
        events.append(_event("content_block_stop", index=index))

    end = {"stop_reason": _stop_reason(reply, stop), "stop_sequence": stop}
    events.append(_event("message_delta", delta=end, usage=_usage(reply.usage)))
    events.append(_event("message_stop"))
    return events


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def _head(request: BridgeRequest, number: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.asked_model,
    }


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name}


def _partial_json(call: ToolCall) -> str:
    value = arguments_object(call)
    if INVALID_JSON in value:
        return dumps_compact(value)
    return call.arguments or "{}"


def _stop_reason(reply: Reply, stop: str | None) -> str:
    if stop is not None:
        return "stop_sequence"
    if reply.finish_reason == "stop" and reply.tool_calls:
        return "tool_use"
    return _STOP_REASONS[reply.finish_reason]


def _usage(usage: Usage) -> dict[str, Any]:
    """Return counts of tokens; here those read from and written to the cache are no part of
    `input_tokens` (page "Prompt caching").
    """
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": max(usage.input_tokens - cached, 0),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }


def write_error(refusal: WireRefusal) -> tuple[int, JsonObject]:
    """Return the HTTP status and the body of a refusal."""
    status, kind = _ERRORS[refusal.kind]
    message = refusal.message
    if refusal.kind == "context_exceeded":
        # The API's own words, by which programs know that they have to shorten the conversation.
        message = f"prompt is too long: {message}"
    return status, {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": None,
    }
