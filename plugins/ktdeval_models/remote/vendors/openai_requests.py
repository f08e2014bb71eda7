"""Parts of a Chat Completions request: the reply format, the schema in the prompt, and the tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ktdeval.harness import (
    NO_TOOL,
    Message,
    ModelRequest,
    ToolCall,
    ToolSpec,
)
from ktdeval.values import JsonValue, dumps_canonical
from ktdeval_models.remote.base import sent_name
from ktdeval_models.remote.replies.read_tool_calls import sent_arguments
from ktdeval_models.remote.replies.thinking_blocks import THOUGHTS, add_thoughts, in_tool_rounds
from ktdeval_models.remote.requests.accepted_forms import (
    EMPTY,
    FREE,
    OBJECT,
    OBJECT_WITH_SCHEMA,
    SCHEMA,
    SENT,
)

Body = dict[str, Any]

CALLS_CONTENT = "content of calls"
"""Request part that servers accept in different forms: the content of an earlier turn that consists
only of calls. Some servers refuse an empty text, or show the model "None". The chat templates of
others fail if a message has no content.
"""

_SCHEMA_PROMPT = "Reply with one JSON object and nothing else. It must follow this JSON Schema:"


def forms_from(forms: Sequence[str], first: str, said: str | None) -> Sequence[str]:
    """Return the forms from `first` on. If the user set the form, return only `first`."""
    return (first,) if said is not None else tuple(forms[forms.index(first) :])


def response_format(schema: Mapping[str, JsonValue], forms: Mapping[str, str]) -> Body:
    """Return the field that constrains a reply to a schema, in one of `SCHEMA_FORMS`."""
    form = forms["response_format"]
    if form == FREE:
        return {}
    if form == OBJECT_WITH_SCHEMA:
        return {"response_format": {"type": OBJECT, "schema": schema}}
    if form == OBJECT:
        return {"response_format": {"type": OBJECT}}

    named: Body = {"name": "reply", "schema": schema}
    if forms["strict"] == "false":
        # Not strict: OpenAI's strict mode refuses schemas with optional or free-form parts.
        named["strict"] = False

    return {"response_format": {"type": SCHEMA, "json_schema": named}}


def with_schema(messages: Sequence[Message], schema: Mapping[str, JsonValue]) -> Sequence[Message]:
    """Return the conversation with the schema in its first message, the only position in which
    every server accepts a system message.

    A prompt is unchanged if it already describes the JSON object, as the harness's prompt for tool
    calls as text does.
    """
    first = messages[0]
    if first.role == "system" and "JSON object" in first.content:
        return messages

    rule = f"{_SCHEMA_PROMPT}\n\n{dumps_canonical(schema)}"
    if first.role == "system":
        return (replace(first, content=f"{first.content}\n\n{rule}"), *messages[1:])

    return (Message("system", rule), *messages)


def chat_messages(
    request: ModelRequest, forms: Mapping[str, str], provider: str, empty_thought: str | None
) -> Iterator[Body]:
    """Yield the messages of a request. In rounds with calls, thoughts from `provider` in earlier
    turns are included. If such a turn has no thoughts, its reasoning field is set to
    `empty_thought`; None omits the field.
    """
    messages: Sequence[Message] = request.messages
    if request.response_schema is not None and forms["response_format"] in (OBJECT, FREE):
        messages = with_schema(messages, request.response_schema)

    in_rounds = in_tool_rounds(messages)
    for message, is_in_round in zip(messages, in_rounds, strict=True):
        entry: Body = {"role": message.role}
        if has_text(message):
            entry["content"] = message.content
        elif forms[CALLS_CONTENT] == EMPTY:
            entry["content"] = ""

        if message.role == "tool":
            entry["tool_call_id"] = message.tool_call_id
        elif message.tool_calls:
            entry["tool_calls"] = [_sent_call(call) for call in message.tool_calls]

        if message.role == "assistant" and is_in_round:
            if forms.get(THOUGHTS) == SENT:
                add_thoughts(entry, message, provider)
            if empty_thought is not None:
                entry.setdefault("reasoning_content", empty_thought)

        yield entry


def has_text(message: Message) -> bool:
    """Return whether a message has its own content, or has no calls."""
    return bool(message.content.strip()) or not message.tool_calls


def _sent_call(call: ToolCall) -> Body:
    """Return an earlier call in the format of Chat Completions."""
    function = {"name": sent_name(call.name), "arguments": sent_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def chat_tools(request: ModelRequest, how: str) -> Body:
    """Return the tools on offer, and `tool_choice` if a tool is forced.

    `how`: how the tool is forced. If a server can't force a tool by name, only that tool is
    offered, and a call is required if possible. If no tool may be called, such a server is offered
    no tools.
    """
    forced = request.tool_choice
    if forced == NO_TOOL:
        if how != "named":
            return {}
        return {"tools": [tool_body(tool) for tool in request.tools], "tool_choice": "none"}

    if forced is None:
        return {"tools": [tool_body(tool) for tool in request.tools]}

    if how == "named":
        return {
            "tools": [tool_body(tool) for tool in request.tools],
            "tool_choice": {"type": "function", "function": {"name": forced}},
        }

    body: Body = {"tools": [tool_body(tool) for tool in request.tools if tool.name == forced]}
    if how != "auto":
        body["tool_choice"] = "required"
    return body


def tool_body(tool: ToolSpec) -> Body:
    """Return a tool description in the API's form."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }
