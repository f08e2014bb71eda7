"""Tool protocols for models without native tool calling.

The prompt offers the tools, and the text of a reply contains the calls. Under `json_schema`, every
reply is one JSON object that follows a schema and contains the calls. Under `text`, a call is a
fenced block in the reply. A protocol only translates a request and its reply, so agent and harness
are the same with every protocol.

The leak guard checks a request before it is translated. This module therefore adds nothing except
its own fixed texts, the request's tool specifications (already checked), and call numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ktdeval.harness.call_params import NATIVE_PROTOCOLS
from ktdeval.harness.chat_messages import (
    NO_TOOL,
    Message,
    Model,
    ModelRequest,
    Reply,
    ToolCall,
    ToolProtocol,
    ToolSpec,
)
from ktdeval.harness.tools.reading import is_no_arguments
from ktdeval.harness.tools.written_calls import (
    ParsedReply,
    read_blocks,
    read_envelope,
    split_thought,
)
from ktdeval.values.documents.strict_json import JsonValue, Schema


def _rules_of(form: str) -> str:
    """Return the rules of a protocol, as text for the prompt."""
    path = Path(__file__).with_name(f"{form}_rules.md")
    return path.read_text("utf-8").removesuffix("\n")


_TEXT_RULES = _rules_of("text")
_SCHEMA_RULES = _rules_of("schema")
_TOOLS_HEADING = "# Tools"
_FORCED = (
    "In your next reply you must call the tool {name}, exactly once and no other, in the form shown"
    " above."
)
_ANSWER_RULES = (
    "# Form of the answer\n\n{when} must be one JSON object and nothing else, which follows this"
    " JSON Schema:\n\n{schema}"
)

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def encode(request: ModelRequest) -> ModelRequest:
    """Translate a request into the tool protocol that its parameters specify.

    Tools and results become text, and earlier calls become what the model would have written under
    the protocol. A request that needs no translation is returned unchanged. If the request allows
    no tool call, tools are omitted, since rules on how to call them would mislead.
    """
    protocol = request.params.tool_protocol
    is_native = protocol in NATIVE_PROTOCOLS
    if not is_native and request.tool_choice == NO_TOOL:
        request = replace(request, tools=(), tool_choice=None)
    if is_native or not _needs_encoding(request):
        return request

    offer = _offer(request)
    form = protocol
    if not request.tools:
        # The reply will be plain text, so earlier replies must not suggest a JSON envelope.
        form = "text"

    messages = list(_with_rules(_as_turns(request.messages, form), offer.rules))
    if request.tool_choice is not None:
        # Appended last, so that the rest is the same in both phases of a step and prompt caches can
        # reuse it.
        messages = _with_closing(messages, _FORCED.format(name=request.tool_choice))

    return replace(
        request,
        messages=tuple(messages),
        tools=(),
        tool_choice=None,
        response_schema=offer.response_schema,
    )


def decode(reply: Reply, request: ModelRequest) -> Reply:
    """Translate the reply to `encode(request)` back into a reply to `request`.

    Calls are numbered through the conversation (`call_1`, `call_2`, …). Their arguments are exactly
    what the model wrote, malformed or not; all other text becomes the content. A reply that already
    has calls, because its server parses them, is returned unchanged.
    """
    protocol = request.params.tool_protocol
    is_text = not request.tools or request.tool_choice == NO_TOOL
    if protocol in NATIVE_PROTOCOLS or is_text or reply.tool_calls:
        return reply

    thought, answer = split_thought(reply.content)
    parsed: ParsedReply
    if protocol == "text":
        parsed = read_blocks(answer)
    else:
        parsed = read_envelope(answer)

    earlier = sum(len(message.tool_calls) for message in request.messages)
    calls = [
        ToolCall(f"call_{number}", *call) for number, call in enumerate(parsed.calls, earlier + 1)
    ]
    finish = reply.finish_reason
    if calls and finish == "stop":
        finish = "tool_calls"

    return replace(
        reply,
        content=parsed.content,
        tool_calls=tuple(calls),
        finish_reason=finish,
        reasoning="\n\n".join(filter(None, (reply.reasoning, thought))),
    )


class ProtocolModel:
    """Model that supports every tool protocol. The parameters of a request specify which one to
    use.
    """

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request. Raises the same errors as the inner model."""
        return decode(self._inner.reply(encode(request)), request)


def _needs_encoding(request: ModelRequest) -> bool:
    """Return whether a request has parts that a model without tool calls does not understand."""
    if request.tools:
        return True
    if request.response_schema is not None and request.params.tool_protocol == "text":
        return True

    return any(message.role == "tool" or message.tool_calls for message in request.messages)


@dataclass(frozen=True, slots=True)
class _ToolOffer:
    """Tools of a request, in the form in which the protocol offers them."""

    rules: str  #: text added to the prompt
    #: schema of the reply, if the protocol needs one
    response_schema: Mapping[str, JsonValue] | None


def _offer(request: ModelRequest) -> _ToolOffer:
    is_text = request.params.tool_protocol == "text"
    tools = request.tools
    schema = request.response_schema
    rules = []
    if tools:
        rules.append(_TEXT_RULES if is_text else _SCHEMA_RULES)
        rules.append(_TOOLS_HEADING)
        rules.extend(map(_description, tools))

    if is_text:
        if schema is not None:
            when = "A reply that calls no tool" if tools else "Your reply"
            rules.append(_ANSWER_RULES.format(when=when, schema=_json(schema)))
        schema = None
    elif tools:
        schema = _envelope_schema(_held_tools(request), request.tool_choice, schema)

    return _ToolOffer("\n\n".join(rules), schema)


def _held_tools(request: ModelRequest) -> Sequence[ToolSpec]:
    """Return a request's tools with the schemas that calls are held to: of the submit tool, that of
    the step. The prompt shows the plain one, so that it begins alike at every step.
    """
    if request.submit_schema is None:
        return request.tools

    held: list[ToolSpec] = []
    for tool in request.tools:
        if tool.name == request.submit_tool:
            held.append(replace(tool, parameters=request.submit_schema))
        else:
            held.append(tool)

    return held


def _description(tool: ToolSpec) -> str:
    """Return the section of the prompt that describes a tool."""
    return f"## {tool.name}\n\n{tool.description}\n\nArguments: {_json(tool.parameters)}"


def _envelope_schema(
    tools: Sequence[ToolSpec], forced: str | None, schema: Mapping[str, JsonValue] | None
) -> Schema:
    """Return the JSON Schema of a reply with content and calls.

    The content comes first, so that a model can reason in writing before it calls a tool.
    """
    callable_tools = [tool for tool in tools if forced in (None, tool.name)]
    forms = [_call_schema(tool) for tool in callable_tools]
    items: Schema = {"anyOf": forms}
    if len(forms) == 1:
        items = forms[0]

    calls: Schema = {"type": "array", "items": items}
    if forced is not None:
        calls["minItems"] = 1
        calls["maxItems"] = 1

    content: Schema = {"type": "string"}
    if schema is not None:
        content = {"anyOf": [content, schema]}

    return _object_schema({"content": content, "calls": calls})


def _call_schema(tool: ToolSpec) -> Schema:
    """Return the JSON Schema of a call to one tool."""
    name: Schema = {"type": "string", "enum": [tool.name]}
    return _object_schema({"name": name, "arguments": dict(tool.parameters)})


def _object_schema(properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _with_rules(messages: Iterator[Message], rules: str) -> Iterator[Message]:
    """Yield the conversation with the rules added to its opening system message.

    If there is no system message, the rules become one.
    """
    pending = rules
    for message in messages:
        if pending and message.role == "system":
            yield replace(message, content=f"{message.content}\n\n{pending}".strip())
        elif pending:
            yield Message("system", pending)
            yield message
        else:
            yield message

        pending = ""


def _with_closing(messages: Sequence[Message], words: str) -> list[Message]:
    """Return the conversation with words added to the last user turn; if it does not end with a
    user turn, the words become a separate turn.
    """
    *earlier, last = messages
    if last.role != "user":
        return [*messages, Message("user", words)]
    return [*earlier, replace(last, content=f"{last.content}\n\n{words}")]


def _as_turns(messages: Sequence[Message], protocol: ToolProtocol) -> Iterator[Message]:
    """Yield the conversation as text.

    Tool results and the next user message become one turn, since some chat templates require user
    and assistant to alternate.
    """
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    parts: list[str] = []
    shared: tuple[int, ...] = ()
    for message in messages:
        if message.role == "user":
            if not parts:
                shared = message.shared

            parts.append(message.content)
            continue
        if message.role == "tool":
            parts.append(_result(message, names))
            continue

        if parts:
            yield Message("user", "\n\n".join(parts), shared=shared)
            parts = []
            shared = ()

        if message.role == "system":
            yield message
        else:
            yield _as_text(message, protocol)

    if parts:
        yield Message("user", "\n\n".join(parts), shared=shared)


def _result(message: Message, names: Mapping[str, str]) -> str:
    """Return the result of a tool as text, with the call to which it belongs."""
    call_id = message.tool_call_id or ""
    attributes = ""
    for attribute, value in (("call", call_id), ("tool", names.get(call_id, ""))):
        # A name may come from the model, and anything but a plain name could break out of the
        # attribute.
        if _PLAIN_NAME.fullmatch(value):
            attributes += f' {attribute}="{value}"'

    return f"<tool_result{attributes}>\n{message.content}\n</tool_result>"


def _as_text(message: Message, protocol: ToolProtocol) -> Message:
    """Return an assistant message with its calls as the model would write them."""
    if protocol == "text":
        parts = [message.content] if message.content else []
        for call in message.tool_calls:
            parts.append(f"```json\n{_call('tool', call)}\n```")

        return Message("assistant", "\n\n".join(parts))

    calls = ", ".join(_call("name", call) for call in message.tool_calls)
    return Message("assistant", f'{{"content": {_json(message.content)}, "calls": [{calls}]}}')


def _call(key: str, call: ToolCall) -> str:
    """Return a call as text. Its arguments stay exactly as written, or become `{}` if empty."""
    arguments = call.arguments
    if is_no_arguments(arguments):
        arguments = "{}"

    return f'{{"{key}": {_json(call.name)}, "arguments": {arguments}}}'


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
