"""Tool protocols for models without tool calling: tools are offered in the prompt, and called in the text of a reply.

Two tool protocols besides `native`. Under `json_schema` every reply is one JSON object that follows a schema, with the calls in
it; under `text` a call is a fenced block in the reply. Both are pure translations of a request and of its reply, so agent and
harness do the same whichever protocol a model speaks.

The leak guard stands before this translation. So all that is added to a conversation are the fixed texts of this module, the
tool specifications of the request, which have passed it, and numbers of calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ktdeval.harness.messages import Message, Model, ModelRequest, Reply, ToolCall, ToolProtocol, ToolSpec
from ktdeval.harness.written_calls import ParsedReply, read_blocks, read_envelope, split_thought
from ktdeval.jsonio import JsonValue, loads_strict

_TEXT_RULES, _SCHEMA_RULES = (
    Path(__file__).with_name(f"{form}_rules.md").read_text("utf-8").removesuffix("\n") for form in ("text", "schema")
)
_TOOLS_HEADING = "# Tools"
_FORCED = "In your next reply you must call the tool {name}, exactly once and no other, in the form shown above."
_ANSWER_RULES = (
    "# Form of the answer\n\n{when} must be one JSON object and nothing else, which follows this JSON Schema:\n\n{schema}"
)

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_REMEMBERED = 256


def encode(request: ModelRequest) -> ModelRequest:
    """Return the request in the form of the tool protocol in its parameters; unchanged where it needs no other form. Tools and
    results become text, and calls of earlier turns become what the model would have written under this protocol.
    """
    protocol = request.params.tool_protocol
    if protocol == "native" or not _needs_encoding(request):
        return request
    offer = _offer(request, protocol)
    form = protocol if request.tools else "text"  # replies without tools are no envelopes, so earlier ones must not look like it
    messages = tuple(_with_rules(_as_turns(request.messages, form), offer.rules))
    return replace(request, messages=messages, tools=(), tool_choice=None, response_schema=offer.response_schema)


def decode(reply: Reply, request: ModelRequest) -> Reply:
    """Return the reply to `encode(request)` as a reply to `request`. Calls are numbered through the conversation (`call_1`,
    `call_2`, …). Their arguments are what the model wrote, character by character; a call that is malformed JSON keeps
    malformed arguments. All other text stays content. A reply that has calls already, because its server parses them, is
    returned unchanged.
    """
    protocol = request.params.tool_protocol
    if protocol == "native" or not request.tools or reply.tool_calls:
        return reply
    thought, answer = split_thought(reply.content)
    parsed: ParsedReply = read_blocks(answer) if protocol == "text" else read_envelope(answer)
    first = 1 + sum(len(message.tool_calls) for message in request.messages)
    calls = tuple(ToolCall(f"call_{number}", *call) for number, call in enumerate(parsed.calls, first))
    reasoning = "\n\n".join(part for part in (reply.reasoning, thought) if part)
    finish = "tool_calls" if calls and reply.finish_reason == "stop" else reply.finish_reason
    return replace(reply, content=parsed.content, tool_calls=calls, finish_reason=finish, reasoning=reasoning)


class ProtocolModel:
    """Model that takes tools by any tool protocol: the one in the parameters of each request."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request; errors are the inner model's."""
        return decode(self._inner.reply(encode(request)), request)


def _needs_encoding(request: ModelRequest) -> bool:
    """Whether a request holds something that a model without tools can't be asked."""
    if request.tools or (request.response_schema is not None and request.params.tool_protocol == "text"):
        return True
    return any(message.role == "tool" or message.tool_calls for message in request.messages)


@dataclass(frozen=True, slots=True)
class _Offer:
    rules: str
    response_schema: Mapping[str, JsonValue] | None


def _offer(request: ModelRequest, protocol: ToolProtocol) -> _Offer:
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    return _make_offer(_json([tools, request.tool_choice, request.response_schema]), protocol)


@lru_cache(maxsize=_REMEMBERED)
def _make_offer(key: str, protocol: ToolProtocol) -> _Offer:
    """Return the offer of some tools. Kept by their text: an episode makes its own equal ones, and an agent may change a schema."""
    tools_json, forced, schema = loads_strict(key)
    tools = [ToolSpec(*tool) for tool in tools_json]
    rules = []
    if tools:
        rules.append(_TEXT_RULES if protocol == "text" else _SCHEMA_RULES)
        descriptions = (f"## {tool.name}\n\n{tool.description}\n\nArguments: {_json(tool.parameters)}" for tool in tools)
        rules.append("\n\n".join([_TOOLS_HEADING, *descriptions]))
    if protocol == "text" and schema is not None:
        when = "A reply that calls no tool" if tools else "Your reply"
        rules.append(_ANSWER_RULES.format(when=when, schema=_json(schema)))
    if forced is not None:
        rules.append(_FORCED.format(name=forced))
    reply_schema = _envelope_schema(tools, forced, schema) if tools else schema
    return _Offer("\n\n".join(rules), reply_schema if protocol == "json_schema" else None)


def _envelope_schema(tools: Sequence[ToolSpec], forced: str | None, schema: JsonValue) -> dict[str, JsonValue]:
    """Return the JSON Schema of a reply: content first, so that a model can think in writing before it calls."""
    calls = [
        _object_schema({"name": {"type": "string", "enum": [tool.name]}, "arguments": dict(tool.parameters)})
        for tool in tools
        if forced in (None, tool.name)
    ]
    items: dict[str, JsonValue] = calls[0] if len(calls) == 1 else {"anyOf": calls}
    length = {} if forced is None else {"minItems": 1, "maxItems": 1}
    text = {"type": "string"}
    properties = {
        "content": text if schema is None else {"anyOf": [text, schema]},
        "calls": {"type": "array", "items": items, **length},
    }
    return _object_schema(properties)


def _object_schema(properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _with_rules(messages: Iterator[Message], rules: str) -> Iterator[Message]:
    """Return the conversation with rules at the end of its first system message, or in one of their own."""
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


def _as_turns(messages: Sequence[Message], protocol: ToolProtocol) -> Iterator[Message]:
    """Yield the conversation in text. Results and the next user message become one turn: some templates want turns to alternate."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    parts: list[str] = []
    for message in messages:
        if message.role in ("user", "tool"):
            parts.append(message.content if message.role == "user" else _result(message, names))
            continue
        if parts:
            yield Message("user", "\n\n".join(parts))
            parts = []
        yield message if message.role == "system" else _as_text(message, protocol)
    if parts:
        yield Message("user", "\n\n".join(parts))


def _result(message: Message, names: Mapping[str, str]) -> str:
    call_id = message.tool_call_id or ""
    marks = (("call", call_id), ("tool", names.get(call_id, "")))
    attributes = "".join(f' {mark}="{value}"' for mark, value in marks if _PLAIN_NAME.fullmatch(value))
    return f"<tool_result{attributes}>\n{message.content}\n</tool_result>"


def _as_text(message: Message, protocol: ToolProtocol) -> Message:
    if protocol == "text":
        blocks = [f"```json\n{_call('tool', call)}\n```" for call in message.tool_calls]
        return Message("assistant", "\n\n".join([message.content, *blocks] if message.content else blocks))
    calls = ", ".join(_call("name", call) for call in message.tool_calls)
    return Message("assistant", f'{{"content": {_json(message.content)}, "calls": [{calls}]}}')


def _call(key: str, call: ToolCall) -> str:
    """Return a call as text, with its arguments character by character."""
    arguments = f', "arguments": {call.arguments}' if call.arguments.strip() else ""
    return f'{{"{key}": {_json(call.name)}{arguments}}}'


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
