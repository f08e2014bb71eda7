"""Parsers of the model bridge and the tool server: requests of programs, read and then answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from support.fuzzing.fuzz_kit import Parser


def bridge_parsers() -> dict[str, Parser]:
    """Return the readers of the bridge's wire formats; what they read is answered with a call."""
    from ktdeval_command.wire import anthropic_messages, chat_completions, gemini, responses

    def gemini_request(data: bytes) -> Any:
        return gemini.read(data, "m", streams=True)

    return {
        "chat completions": _parser(chat_completions.read, chat_completions, _CHAT),
        "responses": _parser(responses.read, responses, _RESPONSES),
        "anthropic messages": _parser(anthropic_messages.read, anthropic_messages, _MESSAGES),
        "gemini": _parser(gemini_request, gemini, _GEMINI),
    }


def _parser(read: Callable[[bytes], Any], form: Any, seed: Any) -> Parser:
    from ktdeval.harness import Reply, ToolCall
    from ktdeval_command.wire.bridge_request import estimated_tokens

    def parse(data: bytes) -> object:
        request = read(data)
        names = [tool.name for tool in request.tools] or ["look"]
        calls = tuple(ToolCall(f"id_{name}", name, data[:50].decode("latin-1")) for name in names)
        reply = Reply("text END text", calls, "tool_calls")
        estimated_tokens(request)
        form.stream(reply, request, 1)
        return json.dumps(form.write(reply, request, 1))

    modules = ("bridge_request.py", "request_fields.py", "responses.py")
    paths = tuple(f"ktdeval_command/wire/{name}" for name in modules)
    return Parser(parse, (json.dumps(seed).encode(),), paths)


def tool_parsers() -> dict[str, Parser]:
    """Return the reader of the tool server's messages, and that of its stdio relay."""
    from ktdeval.harness import ToolResult, ToolSpec
    from ktdeval_command.clients.stdio_relay import ToolConnection, answer_to
    from ktdeval_command.desk.mcp_messages import McpMessages

    class Refused(ToolConnection):
        def post(self, body: bytes) -> tuple[int, bytes]:
            return 400, body

    tool = ToolSpec("look", "Look.", _SCHEMA)
    messages = McpMessages(lambda: [tool], lambda call: ToolResult(call.arguments), "Look.")
    relayed = Refused("http://127.0.0.1:1", "t")

    def answered(data: bytes) -> object:
        return json.dumps(messages.answer(data, None).value).encode()

    seeds = tuple(json.dumps(seed).encode() for seed in (_MCP, *_MCP))
    return {
        "mcp messages": Parser(answered, seeds, ("ktdeval_command/desk/mcp_messages.py",)),
        "stdio relay": Parser(
            lambda data: answer_to(relayed, data),
            (b'{"jsonrpc":"2.0","id":null,"method":"m","error":{}}', b'{"method":"x"}'),
            ("ktdeval_command/clients/stdio_relay.py",),
        ),
    }


_SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}}
_FUNCTION = {"name": "look", "description": "Look.", "parameters": _SCHEMA}
_CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"id": 1}'}}
_CHAT = {
    "model": "m",
    "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "S"}]},
        {"role": "user", "content": "cut \ud83d"},
        {"role": "assistant", "content": None, "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
    ],
    "tools": [{"type": "function", "function": _FUNCTION}],
    "tool_choice": {"type": "function", "function": {"name": "look"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": _SCHEMA}},
    "max_tokens": 9,
    "temperature": 0.5,
    "stop": ["END"],
    "stream_options": {"include_usage": True},
}
_RESPONSES = {
    "model": "m",
    "instructions": "S",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "b", "name": "patch", "input": "x"},
        {"type": "function_call_output", "call_id": "a", "output": "x"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": "x"},
    ],
    "tools": [
        {"type": "function", **_FUNCTION},
        {"type": "custom", "name": "patch", "format": {"type": "text"}},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", **_FUNCTION}]},
    ],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "look"}]},
    "text": {"format": {"type": "json_object"}},
}
_MESSAGES = {
    "model": "m",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "S"}],
    "messages": [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "x", "signature": "x"},
                {"type": "tool_use", "id": "a", "name": "look", "input": {"INVALID_JSON": "x"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
    ],
    "tools": [{"name": "look", "input_schema": _SCHEMA}],
    "tool_choice": {"type": "any"},
    "stop_sequences": ["END"],
}
_GEMINI = {
    "system_instruction": {"parts": [{"text": "S"}]},
    "contents": [
        {"role": "user", "parts": [{"text": "x"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"id": "1"}}}]},
        {"parts": [{"functionResponse": {"name": "look", "response": {"output": 1}}}]},
    ],
    "tools": [{"functionDeclarations": [{"name": "look", "parameters": {"type": "OBJECT"}}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
    "generationConfig": {"maxOutputTokens": 9, "responseMimeType": "application/json"},
}
_MCP = [
    {
        "jsonrpc": "2.0",
        "id": "a",
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": None}},
    {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "look", "arguments": {"id": "cut \ud83d", "x": [1, 2.5]}},
    },
    {"jsonrpc": "2.0", "id": 3, "result": {}},
]
