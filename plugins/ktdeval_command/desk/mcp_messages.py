"""Messages of the Model Context Protocol, limited to what a server with only tools needs.

Source: revisions 2024-11-05 to 2025-11-25 of the specification
(https://modelcontextprotocol.io/specification). Later revisions have no handshake, but their
clients fall back to the handshake if a server refuses their version.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version

from ktdeval.errors import KtdevalError
from ktdeval.harness import SUBMIT_TOOL, ToolCall, ToolResult, ToolSpec
from ktdeval.values import JsonObject, JsonValue, dumps_compact
from ktdeval_command.wire.refusals import WireError, one_line
from ktdeval_command.wire.request_fields import MAX_NAME_CHARS, read_json

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  #: newest first
# a request without a version is treated as 2025-03-26
_WITH_BATCHES = (None, "2025-03-26", "2024-11-05")
_MAX_IN_BATCH = 100

#: Tools that change an episode: they submit, ask for the next day, or begin. All others are
#: research tools, which only read, so that clients may call several of them at once.
ACTING_TOOLS = frozenset({SUBMIT_TOOL, "next_day", "begin_episode"})

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class _RpcError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class McpAnswer:
    """Answer to a body: its JSON value (None without an answer) and the HTTP status."""

    value: JsonValue
    status: int = HTTPStatus.OK
    begins_session: bool = False


class McpMessages:
    """Answers messages by means of tools."""

    def __init__(
        self,
        tools: Callable[[], Sequence[ToolSpec]],
        call: Callable[[ToolCall], ToolResult],
        instructions: str,
    ) -> None:
        """`tools` returns the current tools, and `call` calls one of them. `instructions` are for
        the client's model and may be empty.
        """
        self.tools = tools  #: returns the current tools
        self._call = call
        self._instructions = instructions
        self._numbers = itertools.count(1)

    def answer(self, body: bytes, protocol_version: str | None) -> McpAnswer:
        """Answer a message, or a list of messages. `protocol_version`: value of the request header."""
        try:
            value = read_json(body)
        except WireError as error:
            return _make_refusal(PARSE_ERROR, str(error))

        begins = isinstance(value, dict) and value.get("method") == "initialize"
        if protocol_version not in (None, *VERSIONS) and not begins:
            known = ", ".join(VERSIONS)
            return _make_refusal(
                INVALID_REQUEST, f"MCP-Protocol-Version: this server speaks {known}"
            )
        if isinstance(value, list):
            return self._answer_batch(value, protocol_version)

        said = self._answer_one(value)
        if said is None:
            return McpAnswer(None, HTTPStatus.ACCEPTED)

        status = HTTPStatus.OK
        problem = said.get("error")
        if isinstance(problem, dict) and problem["code"] == INVALID_REQUEST:
            status = HTTPStatus.BAD_REQUEST
        return McpAnswer(said, status, begins and "result" in said)

    def call(self, name: str, arguments: str) -> ToolResult:
        """Call a tool under a new id. Raises KtdevalError if `call` does."""
        return self._call(ToolCall(f"call_{next(self._numbers)}", name, arguments))

    def _answer_batch(
        self, messages: Sequence[JsonValue], protocol_version: str | None
    ) -> McpAnswer:
        if protocol_version not in _WITH_BATCHES:
            return _make_refusal(INVALID_REQUEST, f"{protocol_version} has no lists of messages")
        if not 0 < len(messages) <= _MAX_IN_BATCH:
            return _make_refusal(
                INVALID_REQUEST, f"a list has 1 to {_MAX_IN_BATCH} messages, not {len(messages)}"
            )

        answers: list[JsonValue] = []
        for message in messages:
            if isinstance(message, dict) and message.get("method") == "initialize":
                alone = _RpcError(INVALID_REQUEST, "initialize can't be part of a list")
                said: JsonObject | None = _error(_id_of(message), alone)
            else:
                said = self._answer_one(message)
            if said is not None:
                answers.append(said)

        return McpAnswer(answers) if answers else McpAnswer(None, HTTPStatus.ACCEPTED)

    def _answer_one(self, message: JsonValue) -> JsonObject | None:
        """Return the answer to one message; None if the message is a notification or an answer."""
        try:
            request = _request_of(message)
            if request is None:
                return None

            method, params = request
            result = self._result(method, params)
        except _RpcError as error:
            return _error(_id_of(message), error)
        except KtdevalError as error:
            told = _RpcError(INTERNAL_ERROR, one_line(str(error)))
            return _error(_id_of(message), told)

        return {"jsonrpc": "2.0", "id": _id_of(message), "result": result}

    def _result(self, method: str, params: JsonObject) -> JsonObject:
        if method == "initialize":
            return self._initialize(params)
        if method == "ping":
            return {}
        if method == "tools/list":
            return self._list(params)
        if method == "tools/call":
            return self._call_result(params)
        raise _RpcError(METHOD_NOT_FOUND, one_line(f"{method[:80]}: this server has tools only"))

    def _initialize(self, params: JsonObject) -> JsonObject:
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise _RpcError(INVALID_PARAMS, "protocolVersion: expected a text")

        result: dict[str, JsonValue] = {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "ktdeval", "version": version("ktdeval")},
        }
        if self._instructions:
            result["instructions"] = self._instructions
        return result

    def _list(self, params: JsonObject) -> JsonObject:
        if params.get("cursor") is not None:
            raise _RpcError(INVALID_PARAMS, "cursor: the list has one page, and so no cursor")

        listed: list[JsonValue] = []
        for tool in self.tools():
            # The protocol requires every schema to have the type "object".
            schema = {"type": "object", **tool.parameters}
            listed.append(
                {
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": schema,
                    "annotations": {"readOnlyHint": tool.name not in ACTING_TOOLS},
                }
            )
        return {"tools": listed}

    def _call_result(self, params: JsonObject) -> JsonObject:
        name = params.get("name")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
            raise _RpcError(
                INVALID_PARAMS, f"name: expected a text of 1 to {MAX_NAME_CHARS} characters"
            )

        arguments = params.get("arguments")
        text = "{}"
        if isinstance(arguments, str):
            text = arguments
        elif arguments is not None:
            text = dumps_compact(arguments)

        # Models see tool results, but client programs hide protocol errors from them.
        try:
            result = self.call(name, text)
        except KtdevalError as error:
            return _content(one_line(str(error)), is_error=True)
        return _content(result.text, result.failure is not None)


def refusal_message(code: int, text: str) -> JsonObject:
    """Return the answer to something that is not a message or can't be parsed."""
    return _error(None, _RpcError(code, text))


def _content(text: str, is_error: bool) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def _make_refusal(code: int, text: str) -> McpAnswer:
    return McpAnswer(refusal_message(code, text), HTTPStatus.BAD_REQUEST)


def _error(request_id: JsonValue, error: _RpcError) -> JsonObject:
    told: JsonObject = {"code": error.code, "message": str(error)}
    return {"jsonrpc": "2.0", "id": request_id, "error": told}


def _id_of(message: JsonValue) -> JsonValue:
    """Return the id of a request; None if it has no id that an answer can repeat."""
    found = message.get("id") if isinstance(message, dict) else None
    if isinstance(found, str) and len(found) <= MAX_NAME_CHARS:
        return found
    return found if type(found) in (int, float) else None


def _request_of(message: JsonValue) -> tuple[str, JsonObject] | None:
    """Return the method and params of a request; None for a message that needs no answer. Raises
    _RpcError if it is not a message.
    """
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise _RpcError(INVALID_REQUEST, "expected a message of JSON-RPC 2.0")
    if "method" not in message and ("result" in message or "error" in message):
        return None

    method = message.get("method")
    if not isinstance(method, str):
        raise _RpcError(INVALID_REQUEST, "method: expected a text")
    if "id" not in message:
        return None
    if _id_of(message) is None:
        raise _RpcError(
            INVALID_REQUEST, f"id: expected a number, or a text of up to {MAX_NAME_CHARS} signs"
        )

    params = message.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise _RpcError(INVALID_PARAMS, "params: expected an object")
    return method, params
