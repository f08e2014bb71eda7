"""A tool server with two tools, for tests that ask it as programs do."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bridge_clients import TOKEN, Answered
from ktdeval.harness import ToolCall, ToolResult, ToolSpec
from ktdeval_command.desk.loopback_server import ServerLimits, serving
from ktdeval_command.desk.mcp_messages import VERSIONS
from ktdeval_command.desk.tool_server import ToolServer

LOOK = ToolSpec("look", "Look at a stock.", {"properties": {"id": {"type": "string"}}})
SUBMIT = ToolSpec("submit_action", "End the day.", {"type": "object", "required": ["orders"]})
INITIALIZE = {
    "protocolVersion": VERSIONS[0],
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Tools:
    """A tool server that runs, and what it was asked to call."""

    server: ToolServer
    calls: list[ToolCall] = field(default_factory=list)

    @property
    def called(self) -> list[tuple[str, str]]:
        """Name and arguments of each call."""
        return [(call.name, call.arguments) for call in self.calls]

    @property
    def port(self) -> int:
        port: int = self.server.server_address[1]
        return port


def echoed(call: ToolCall) -> ToolResult:
    """An answer that repeats its question; a failure where the tool is not known."""
    if call.name not in (LOOK.name, SUBMIT.name):
        return ToolResult(f"there is no tool {call.name}", "unknown_tool")
    return ToolResult(f"{call.name} {call.arguments} — 你好")


@contextmanager
def tools(
    call: Callable[[ToolCall], ToolResult] = echoed,
    limits: ServerLimits | None = None,
    instructions: str = "",
) -> Iterator[Tools]:
    """Run a tool server."""
    lock = threading.Lock()

    def kept(each: ToolCall) -> ToolResult:
        with lock:
            made.calls.append(each)
        return call(each)

    server = ToolServer(lambda: [LOOK, SUBMIT], kept, TOKEN, instructions, limits)
    made = Tools(server)
    with serving(server):
        yield made


def asked(
    running: Tools,
    path: str,
    body: bytes | None = None,
    method: str = "POST",
    headers: Mapping[str, str] = BEARER,
) -> Answered:
    """Ask on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Answered(response.status, names, response.read())
    finally:
        connection.close()


def told(running: Tools, message: Any, **headers: str) -> Answered:
    """Send a message of the protocol; `headers` with underscores for hyphens."""
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return asked(running, "/mcp", json.dumps(message).encode(), headers={**BEARER, **more})


def request(method: str, params: Any = None, request_id: Any = 1) -> dict[str, Any]:
    """A request of JSON-RPC."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    if params is not None:
        message["params"] = params
    return message
