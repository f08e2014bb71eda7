"""Tools that come to the stub provider in writing, as the harness's `json_schema` and `text` protocols have them.

Read back here without the harness's own reader, so that what a model would have to make of the text is what counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from ktdeval.harness.messages import Message, ModelRequest, Reply, ToolCall, ToolSpec

Form = Literal["", "text", "json_schema"]

_RULES = re.compile(r"(?:\n\n|\A)# How to (reply and to )?call tools\n(.*)\Z", re.DOTALL)
_TOOL = re.compile(r"^## (\S+)\n\n(.*?)\n\nArguments: (.*)$", re.DOTALL | re.MULTILINE)
_FORCED = re.compile(r"you must call the tool (\S+), exactly once")
_BLOCK = re.compile(r'```json\n\{"tool": "((?:[^"\\]|\\.)*)"(?:, "arguments": (.*?))?\}\n```', re.DOTALL)
_RESULT = re.compile(r"<tool_result([^>]*)>\n(.*?)\n</tool_result>(?:\n\n)?", re.DOTALL)


def unwrite(request: ModelRequest) -> tuple[ModelRequest, Form]:
    """The request with its written tools as tools, its written calls as calls; and which form they came in."""
    first = request.messages[0]
    rules = _RULES.search(first.content) if first.role == "system" else None
    if rules is None:
        return request, ""
    form: Form = "json_schema" if rules[1] else "text"
    tools = tuple(
        ToolSpec(name, text, json.loads(schema))
        for part in re.split(r"\n\n(?=## )", rules[2])
        for name, text, schema in _TOOL.findall(part.partition("\n\nIn your next reply")[0])
    )
    forced = _FORCED.search(rules[2])
    messages = _spoken((replace(first, content=first.content[: rules.start()]), *request.messages[1:]), form)
    choice = forced[1] if forced else None
    return ModelRequest(tuple(messages), tools, choice, request.params), form


def write_out(reply: Reply, form: Form) -> Reply:
    """The reply as a model writes it that has been told to call tools in this form."""
    if not form or reply.finish_reason not in ("stop", "tool_calls"):
        return replace(reply, tool_calls=()) if form else reply
    if form == "text":
        blocks = [f'```json\n{{"tool": {json.dumps(call.name)}, "arguments": {call.arguments}}}\n```' for call in reply.tool_calls]
        text = "\n\n".join([reply.content, *blocks] if reply.content else blocks)
    elif not reply.tool_calls and not reply.content:
        text = ""
    else:
        calls = ", ".join(f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}' for call in reply.tool_calls)
        text = f'{{"content": {json.dumps(reply.content, ensure_ascii=False)}, "calls": [{calls}]}}'
    return replace(reply, content=text, tool_calls=(), finish_reason="stop")


def _spoken(messages: Sequence[Message], form: Form) -> Iterator[Message]:
    count = 0
    for message in messages:
        if message.role == "assistant":
            content, calls_in_text = _calls(message.content, form)
            calls = tuple(ToolCall(f"call_{count + index}", *call) for index, call in enumerate(calls_in_text, start=1))
            count += len(calls)
            answers = iter([call.id for call in calls])
            yield Message("assistant", content, calls)
        elif message.role == "user" and "<tool_result" in message.content:
            for _, text in _RESULT.findall(message.content):
                yield Message("tool", text, tool_call_id=next(answers))
            if rest := _RESULT.sub("", message.content).strip():
                yield Message("user", rest)
        else:
            yield message


def _calls(text: str, form: Form) -> tuple[str, list[tuple[str, str]]]:
    if form == "text":
        calls = [(json.loads(f'"{name}"'), arguments) for name, arguments in _BLOCK.findall(text)]
        return _BLOCK.sub("", text).strip(), calls
    try:
        value = json.loads(text)
    except ValueError:
        return text, re.findall(r'\{"name": "([^"]*)", "arguments": ([^\]]*)', text)
    return value["content"], [(call["name"], json.dumps(call.get("arguments", {}), ensure_ascii=False)) for call in value["calls"]]
