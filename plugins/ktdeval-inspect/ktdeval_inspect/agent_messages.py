"""Translation of requests of Inspect's agents to ktdeval's conversation, and of replies back."""

from __future__ import annotations

from collections.abc import Sequence

from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
    StopReason,
)
from inspect_ai.tool import ToolCall as InspectCall, ToolChoice, ToolFunction, ToolInfo

from ktdeval.errors import UsageError
from ktdeval.harness import NO_TOOL, FinishReason, Message, ModelRequest, Reply, ToolCall, ToolSpec
from ktdeval.values import JsonObject
from ktdeval_inspect.messages import arguments_text, to_inspect_call

_STOP_REASONS: dict[FinishReason, StopReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "max_tokens",
    "refusal": "content_filter",
    "content_filter": "content_filter",
}


def to_request(
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolInfo],
    tool_choice: ToolChoice,
    config: GenerateConfig,
) -> ModelRequest:
    """Return the request of an agent. Its sampling settings are ignored: those of the run are on
    the card. Raises UsageError if the request contains a picture, a sound or a file.
    """
    schema: JsonObject | None = None
    if config.response_schema is not None:
        schema = config.response_schema.json_schema.model_dump(exclude_none=True)

    return ModelRequest(
        messages=tuple(map(_message, messages)),
        tools=tuple(map(_tool, tools)),
        tool_choice=_choice(tool_choice),
        response_schema=schema,
        role="inspect",
    )


def _message(message: ChatMessage) -> Message:
    text = _text(message)
    if isinstance(message, ChatMessageAssistant):
        calls = [_call(call) for call in message.tool_calls or []]
        return Message("assistant", text, tuple(calls))
    if isinstance(message, ChatMessageTool):
        if message.error is not None and not text:
            text = message.error.message
        return Message("tool", text, tool_call_id=message.tool_call_id or "")

    return Message(message.role, text)


def _text(message: ChatMessage) -> str:
    """Return the text of a message, without the model's thoughts."""
    if isinstance(message.content, str):
        return message.content

    texts = []
    for part in message.content:
        if isinstance(part, ContentReasoning):
            continue
        if not isinstance(part, ContentText):
            raise UsageError(
                f"agent inspect: a message holds {part.type}; episodes are decided on text alone"
            )
        texts.append(part.text)

    return "\n".join(texts)


def _call(call: InspectCall) -> ToolCall:
    return ToolCall(call.id, call.function, arguments_text(call))


def _tool(tool: ToolInfo) -> ToolSpec:
    parameters = tool.parameters.model_dump(exclude_none=True)
    return ToolSpec(tool.name, tool.description, parameters)


def _choice(choice: ToolChoice) -> str | None:
    """Return the tool that must be called; None if the choice is free or any tool is required,
    since "any" cannot be enforced.
    """
    if isinstance(choice, ToolFunction):
        return choice.name

    return NO_TOOL if choice == "none" else None


def to_output(reply: Reply, model: str) -> ModelOutput:
    """Return a reply as a model's output. Its tokens are zero: they are counted once, at the call
    to the evaluation's own model.
    """
    calls = [to_inspect_call(call) for call in reply.tool_calls]
    message = ChatMessageAssistant(content=reply.content, tool_calls=calls or None, model=model)
    choice = ChatCompletionChoice(message=message, stop_reason=_STOP_REASONS[reply.finish_reason])
    return ModelOutput(model=model, choices=[choice], usage=ModelUsage())
