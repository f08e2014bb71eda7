"""Probes of the components: real calls through the server's own application, with their latency."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from ktdeval.values import Value
from ktdeval_qfinzero.access.workspaces import HEADER

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

_LIMIT_S: Final = 10.0
_SESSION: Final = "mcp-session-id"


class Probe(Value, frozen=True):
    """One component: whether its call was answered, and how long that took."""

    component: str
    call: str
    ok: bool
    latency_ms: float
    message: str = ""


class _ProbeClient:
    """Calls the application in this process, with the headers of the request that asks for it."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self._app = app
        kept = ("host", "authorization")
        self._headers = {name: headers[name] for name in kept if name in headers}

    async def send(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Mapping[str, str], Any]:
        """Return status, headers and JSON body of an answer; the body is None where it is none."""
        content = b""
        named = {**self._headers, **headers}
        if body is not None:
            content = json.dumps(body).encode()
            named["content-type"] = "application/json"

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()],
            "server": ("127.0.0.1", 0),
            "client": ("127.0.0.1", 0),
        }
        received: list[Message] = []
        unread: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> Message:
            if unread:
                return unread.pop()
            await anyio.sleep_forever()
            raise AssertionError

        async def send(message: Message) -> None:
            received.append(message)

        with anyio.fail_after(_LIMIT_S):
            await self._app(scope, receive, send)

        return _read_response(received)


def _read_response(received: list[Message]) -> tuple[int, Mapping[str, str], Any]:
    status = 0
    headers: dict[str, str] = {}
    body = b""
    for message in received:
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            body += message.get("body", b"")

    try:
        value = json.loads(body)
    except ValueError:
        value = None
    return status, headers, value


def not_probed(why: str) -> tuple[Probe, ...]:
    """Return all components as failed, for a reason."""
    return tuple(_make_failure(name, "not called", why) for name in (*_CALLS, "MCP"))


async def probe_all(app: ASGIApp, headers: Mapping[str, str]) -> tuple[Probe, ...]:
    """Probe UPQ, ESP, PMB and MCP, one after the other, in a workspace and a session of their own.
    No call changes anything, so that no log is begun.
    """
    client = _ProbeClient(app, headers)
    status, _, opened = await client.send("POST", "/workspaces", {})
    workspace = opened.get("workspace_id", "") if status == HTTPStatus.CREATED else ""
    if not workspace:
        problem = _answer_problem(status, opened)
        failed = [_make_failure(name, "POST /workspaces", problem) for name in _CALLS]
        return (*failed, await _probe_mcp(client))

    try:
        probes = [await _probe(client, name, workspace) for name in _CALLS]
    finally:
        await client.send("DELETE", f"/workspaces/{workspace}")

    return (*probes, await _probe_mcp(client))


_CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "UPQ": ("GET", "/health/freshness"),
    "ESP": ("GET", "/esp/health/freshness"),
    "PMB": ("GET", "/v1/accounts"),
}


async def _probe(client: _ProbeClient, component: str, workspace: str) -> Probe:
    method, path = _CALLS[component]
    began = time.perf_counter()
    status, _, answer = await client.send(method, path, **{HEADER: workspace})
    latency_ms = 1000 * (time.perf_counter() - began)
    is_ok = status < HTTPStatus.BAD_REQUEST
    message = ""
    if not is_ok:
        message = _answer_problem(status, answer)
    return Probe(
        component=component,
        call=f"{method} {path}",
        ok=is_ok,
        latency_ms=latency_ms,
        message=message,
    )


async def _probe_mcp(client: _ProbeClient) -> Probe:
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": HANDSHAKE_PROTOCOL_VERSIONS[-1],
            "capabilities": {},
            "clientInfo": {"name": "health", "version": "1"},
        },
    }
    accepts = {"accept": "application/json, text/event-stream"}
    began = time.perf_counter()
    status, headers, answer = await client.send("POST", "/mcp", request, **accepts)
    latency_ms = 1000 * (time.perf_counter() - began)
    is_ok = status < HTTPStatus.BAD_REQUEST and isinstance(answer, dict) and "result" in answer
    message = ""
    if not is_ok:
        message = _answer_problem(status, answer)

    session = headers.get(_SESSION)
    if session is not None:
        await client.send("DELETE", "/mcp", **{_SESSION: session})

    return Probe(
        component="MCP", call="initialize", ok=is_ok, latency_ms=latency_ms, message=message
    )


def _make_failure(component: str, call: str, message: str) -> Probe:
    return Probe(component=component, call=call, ok=False, latency_ms=0.0, message=message)


def _answer_problem(status: int, answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict):
        return str(error.get("message"))[:200]
    return f"status {status}"
