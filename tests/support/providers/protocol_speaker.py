"""The other end of the tool protocols: a model that is asked, and answers, in text only.

Read back here without the harness's own reader, so that what a model would have to make of the text
is what counts.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Literal

from ktdeval.harness.chat_messages import (
    Message,
    Model,
    ModelRequest,
    Reply,
    ToolCall,
    ToolProtocol,
    ToolSpec,
)

Form = Literal["", "text", "json_schema"]
"""In which form tools are written, if they are."""

_RULES = re.compile(r"(?:\A|\n\n)# How to (reply and to )?call tools\n.*", re.DOTALL)
_TOOL = re.compile(
    r"^## (\S+)\n\n((?:(?!^## ).)*?)\n\nArguments: (\{[^\n]*\})$", re.DOTALL | re.MULTILINE
)
_FORCED = re.compile(
    r"\n\nIn your next reply you must call the tool (\S+), exactly once and no other[^\n]*\Z"
)
_RESULT = re.compile(
    r'<tool_result call="(\S+)"[^>]*>\n(.*?)\n</tool_result>(?:\n\n|\Z)', re.DOTALL
)
_BLOCK = re.compile(r"(?:\A|\n\n)```json\n(.*?)\n```(?=\n\n|\Z)", re.DOTALL)

_ENVELOPE = re.compile(r'\{"content": ("(?:[^"\\]|\\.)*"), "calls": \[(.*)\]\}', re.DOTALL)
_BETWEEN_CALLS = re.compile(r', (?=\{"name": ")')


class Speaker:
    """Speaks one tool protocol with the suite, natively with a keyless model that decides; refuses
    what it has no words for.
    """

    def __init__(self, inner: Model, protocol: ToolProtocol) -> None:
        self.inner = inner
        self.protocol = protocol

    def reply(self, request: ModelRequest) -> Reply:
        return spoken(self.inner.reply(understood(request, self.protocol)), self.protocol)


def writes_maps(request: ModelRequest) -> bool:
    """Whether a prompt asks for a JSON reply in which a tool takes an object with names of the
    model's own, which not every provider can enforce.
    """
    rules = _written_rules(request)

    if rules is None or not rules[1]:
        return False

    return any(_has_map(json.loads(schema)) for _, _, schema in _TOOL.findall(rules[0]))


def _has_map(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_has_map, schema))

    if not isinstance(schema, dict):
        return False

    is_open = "properties" in schema or "additionalProperties" in schema
    if is_open and schema.get("additionalProperties") is not False:
        return True

    return any(map(_has_map, schema.values()))


def _written_rules(request: ModelRequest) -> re.Match[str] | None:
    first = request.messages[0]
    if first.role != "system":
        return None

    return _RULES.search(first.content)


def unwrite(request: ModelRequest) -> tuple[ModelRequest, Form]:
    """The native request that a request stands for, and the form that its tools came in; it need
    not have written tools.
    """
    rules = _written_rules(request)

    if rules is None:
        return request, ""

    form: Form = "json_schema" if rules[1] else "text"

    return understood(request, form), form


def write_out(reply: Reply, form: Form) -> Reply:
    """The reply as a model writes it that has been told to call tools in this form."""
    if not form:
        return reply

    if reply.finish_reason in ("stop", "tool_calls") and (reply.content or reply.tool_calls):
        return spoken(reply, form)

    return replace(reply, tool_calls=())


def understood(request: ModelRequest, protocol: ToolProtocol) -> ModelRequest:
    """The native request that an encoded one stands for."""
    assert (request.tools, request.tool_choice) == ((), None)
    assert (request.response_schema is not None) == (protocol == "json_schema")
    assert all(message.role != "tool" and not message.tool_calls for message in request.messages)

    system = request.messages[0]
    match = _RULES.search(system.content)

    assert match is not None

    tools = tuple(
        ToolSpec(name, text, json.loads(schema)) for name, text, schema in _TOOL.findall(match[0])
    )
    *earlier, last = request.messages[1:]
    forced = _FORCED.search(last.content)

    if forced:
        last = replace(last, content=last.content[: forced.start()])

    messages = [Message("system", system.content[: match.start()])] if match.start() else []
    made = 0
    for message in [*earlier, last]:
        if message.role == "user":
            messages += _user_turns(message.content)
        else:
            turn = _assistant_turn(message.content, protocol, made)
            made += len(turn.tool_calls)
            messages.append(turn)

    return replace(
        request,
        messages=tuple(messages),
        tools=tools,
        tool_choice=forced[1] if forced else None,
        response_schema=None,
    )


def spoken(reply: Reply, protocol: ToolProtocol) -> Reply:
    """A native reply as the same model would have written it under a protocol."""
    finish = "stop" if reply.finish_reason == "tool_calls" else reply.finish_reason
    return replace(reply, content=as_text(reply, protocol), tool_calls=(), finish_reason=finish)


def as_text(reply: Reply, protocol: ToolProtocol) -> str:
    """Content and calls in one text."""
    if protocol == "text":
        blocks = [f"```json\n{_call('tool', call)}\n```" for call in reply.tool_calls]
        return (
            "\n\n".join([reply.content, *blocks] if reply.content.strip() else blocks)
            if blocks
            else reply.content
        )

    calls = ", ".join(_call("name", call) for call in reply.tool_calls)

    return f'{{"content": {json.dumps(reply.content)}, "calls": [{calls}]}}'


def _call(key: str, call: ToolCall) -> str:
    arguments = f', "arguments": {call.arguments}' if call.arguments.strip() else ""
    return f'{{"{key}": {json.dumps(call.name)}{arguments}}}'


def _user_turns(content: str) -> list[Message]:
    turns = []
    while result := _RESULT.match(content):
        turns.append(Message("tool", result[2], tool_call_id=result[1]))
        content = content[result.end() :]

    return [*turns, Message("user", content)] if content else turns


def _assistant_turn(content: str, protocol: ToolProtocol, made: int) -> Message:
    if protocol == "text":
        texts = _BLOCK.findall(content)
        calls = [_call_of(text, "tool", made + position) for position, text in enumerate(texts, 1)]
        return Message("assistant", _BLOCK.sub("", content), tuple(calls))

    envelope = _ENVELOPE.fullmatch(content)

    assert envelope is not None, content

    texts = _BETWEEN_CALLS.split(envelope[2]) if envelope[2] else []
    calls = [_call_of(text, "name", made + position) for position, text in enumerate(texts, 1)]

    return Message("assistant", json.loads(envelope[1]), tuple(calls))


def _call_of(text: str, key: str, number: int) -> ToolCall:
    match = re.fullmatch(
        rf'\{{"{key}": ("(?:[^"\\]|\\.)*")(?:, "arguments": (.*))?\}}', text, re.DOTALL
    )

    assert match is not None, text

    return ToolCall(f"call_{number}", json.loads(match[1]), match[2] or "")
