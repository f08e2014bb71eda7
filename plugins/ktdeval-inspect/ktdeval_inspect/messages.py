"""Translation between ktdeval's conversation and Inspect's."""

from __future__ import annotations

import json
from collections.abc import Sequence

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentReasoning,
    GenerateConfig,
    ModelOutput,
    ResponseSchema,
)
from inspect_ai.tool import ToolCall as InspectCall, ToolChoice, ToolFunction, ToolInfo, ToolParams
from inspect_ai.util import JSONSchema

from ktdeval.harness import (
    NO_TOOL,
    CallParams,
    FinishReason,
    Message,
    ModelRequest,
    Reply,
    ToolCall,
    ToolSpec,
    Usage,
)

NO_USAGE = "the provider counted no tokens"
_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
}


def to_inspect_messages(messages: Sequence[Message]) -> list[ChatMessage]:
    """Return a conversation of ktdeval as Inspect's messages."""
    names: dict[str, str] = {}
    converted: list[ChatMessage] = []
    for message in messages:
        for call in message.tool_calls:
            names[call.id] = call.name

        converted.append(_to_inspect_message(message, names))

    return converted


def _to_inspect_message(message: Message, names: dict[str, str]) -> ChatMessage:
    """Return one message as Inspect's; `names` are the tools of the calls so far, by id."""
    if message.role == "system":
        return ChatMessageSystem(content=message.content)

    if message.role == "user":
        return ChatMessageUser(content=message.content)

    if message.role == "tool":
        call_id = message.tool_call_id or ""
        return ChatMessageTool(
            content=message.content, tool_call_id=call_id, function=names.get(call_id)
        )

    calls = [to_inspect_call(call) for call in message.tool_calls]
    return ChatMessageAssistant(content=message.content, tool_calls=calls or None)


def to_inspect_call(call: ToolCall) -> InspectCall:
    """Return a call as Inspect's; arguments that are not a JSON object are kept as text."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = None

    if isinstance(arguments, dict):
        return InspectCall(id=call.id, function=call.name, arguments=arguments)

    return InspectCall(
        id=call.id,
        function=call.name,
        arguments={"text": call.arguments},
        parse_error="the arguments are not a JSON object",
    )


def to_inspect_tools(tools: Sequence[ToolSpec]) -> list[ToolInfo]:
    """Return the tools on offer as Inspect's."""
    converted = []
    for tool in tools:
        parameters = ToolParams.model_validate(dict(tool.parameters))
        converted.append(
            ToolInfo(name=tool.name, description=tool.description, parameters=parameters)
        )

    return converted


def to_inspect_choice(request: ModelRequest) -> ToolChoice:
    """Return which tool the model may or must call."""
    if not request.tools or request.tool_choice == NO_TOOL:
        return "none"

    if request.tool_choice is None:
        return "auto"

    return ToolFunction(name=request.tool_choice)


def to_inspect_config(request: ModelRequest) -> GenerateConfig:
    """Return the settings of a call, as the card records them."""
    params: CallParams = request.params
    config = GenerateConfig(
        temperature=params.temperature,
        max_tokens=params.max_output_tokens,
        attempt_timeout=int(params.timeout_s),
        seed=params.seed,
        reasoning_effort=params.reasoning_effort,
        reasoning_tokens=params.reasoning_tokens,
    )
    if request.response_schema is not None:
        schema = JSONSchema.model_validate(dict(request.response_schema))
        config.response_schema = ResponseSchema(name="reply", json_schema=schema)

    return config


def to_reply(output: ModelOutput) -> Reply:
    """Return a model's output as ktdeval's reply, with the usage that the provider counted."""
    message = output.message
    calls = []
    for call in message.tool_calls or []:
        calls.append(ToolCall(call.id, call.function, arguments_text(call)))

    reasoning = []
    if isinstance(message.content, list):
        for part in message.content:
            if isinstance(part, ContentReasoning):
                reasoning.append(part.reasoning)

    return Reply(
        content=message.text,
        tool_calls=tuple(calls),
        finish_reason=_FINISH_REASONS.get(output.stop_reason, "stop"),
        usage=_call_usage(output),
        reasoning="\n".join(reasoning),
        served_by=output.model,
        notes=() if output.usage is not None else (NO_USAGE,),
    )


def arguments_text(call: InspectCall) -> str:
    """Return a call's arguments as JSON text. If Inspect could not parse them, the text is not
    valid JSON, so that ktdeval counts the call as malformed.
    """
    if call.parse_error:
        return f"not JSON: {call.arguments}"

    return json.dumps(call.arguments)


def _call_usage(output: ModelOutput) -> Usage:
    """Return the tokens of a call. Inspect counts cached input separately, ktdeval includes it in
    the input.
    """
    usage = output.usage
    if usage is None:
        return Usage()

    cache_read = usage.input_tokens_cache_read or 0
    cache_write = usage.input_tokens_cache_write or 0
    return Usage(
        input_tokens=usage.input_tokens + cache_read + cache_write,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens or 0,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
    )
