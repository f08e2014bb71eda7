"""The tool server, with the official client and with whoever is not a well-behaved one."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bridge_clients import TOKEN
from ktdeval.errors import BudgetError, StoreError
from ktdeval.harness import ToolCall, ToolResult
from ktdeval_command.clients.remote_server import BEGIN
from ktdeval_command.desk.agent_desk import NEXT_DAY
from ktdeval_command.desk.loopback_server import ServerLimits, serving
from ktdeval_command.desk.mcp_messages import ACTING_TOOLS, VERSIONS
from ktdeval_command.desk.tool_server import ToolServer
from support.raw_requests import ambiguous_requests, answer_to, statuses
from support.threads import wait_for_error_text
from tool_clients import (
    BEARER,
    INITIALIZE,
    LOOK,
    SUBMIT,
    Tools,
    asked,
    request,
    told,
    tools,
)

CALL = {"name": "look", "arguments": {"id": "S1"}}


@asynccontextmanager
async def connected(running: Tools, mode: str) -> AsyncIterator[Any]:
    """The official client."""
    mcp = pytest.importorskip("mcp", reason="needs the package mcp")
    httpx2 = pytest.importorskip("httpx2", reason="needs the package httpx2")
    from mcp.client.streamable_http import streamable_http_client

    url = running.server.mcp_url
    async with (
        httpx2.AsyncClient(headers=BEARER, timeout=30) as http_client,
        mcp.Client(streamable_http_client(url, http_client=http_client), mode=mode) as client,
    ):
        yield client


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_lists_and_calls_tools(mode: str) -> None:
    with tools(instructions="Submit once.") as running:
        async with connected(running, mode) as client:
            listed = (await client.list_tools()).tools
            looked = await client.call_tool("look", {"id": "S1", "days": 2.50, "note": "你"})
            failed = await client.call_tool("absent", {})

            assert client.protocol_version == "2025-11-25"
            assert client.server_info.name == "ktdeval"
            assert client.instructions == "Submit once."

    assert [(tool.name, tool.description) for tool in listed] == [
        (LOOK.name, LOOK.description),
        (SUBMIT.name, SUBMIT.description),
    ]
    assert listed[0].input_schema == {"type": "object", **LOOK.parameters}
    assert listed[1].input_schema == SUBMIT.parameters
    sent = '{"id":"S1","days":2.5,"note":"你"}'
    assert (looked.is_error, looked.content[0].text) == (False, f"look {sent} — 你好")
    assert (failed.is_error, failed.content[0].text) == (True, "there is no tool absent")
    assert running.called == [("look", sent), ("absent", "{}")]


def test_research_tools_are_marked_as_reading_and_acts_are_not() -> None:
    with tools() as running:
        listed = told(running, request("tools/list")).json()["result"]["tools"]

    marks = {tool["name"]: tool["annotations"] for tool in listed}
    assert marks == {"look": {"readOnlyHint": True}, "submit_action": {"readOnlyHint": False}}
    # the tools that a session of several days adds
    assert {SUBMIT.name, NEXT_DAY.name, BEGIN.name} == ACTING_TOOLS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_that_is_spoken_is_agreed_to(version: str) -> None:
    with tools() as running:
        answered = told(running, request("initialize", {**INITIALIZE, "protocolVersion": version}))
        listed = told(running, request("tools/list"), MCP_Protocol_Version=version)

    assert answered.json()["result"]["protocolVersion"] == version
    assert answered.json()["result"]["capabilities"] == {"tools": {"listChanged": False}}
    assert "instructions" not in answered.json()["result"]
    assert [tool["name"] for tool in listed.json()["result"]["tools"]] == ["look", "submit_action"]


# ---- the protocol


@pytest.mark.parametrize("version", ["2026-07-28", "1.0", "", "x" * 5000])
def test_for_another_version_the_newest_is_offered(version: str) -> None:
    with tools() as running:
        answered = told(running, request("initialize", {**INITIALIZE, "protocolVersion": version}))

    assert answered.json()["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("version", ["2026-07-28", "1900-01-01", "x"])
def test_a_header_with_an_unknown_version_is_refused(version: str) -> None:
    with tools() as running:
        answered = told(running, request("tools/call", CALL), MCP_Protocol_Version=version)

    assert answered.status == 400
    assert answered.json()["error"] == {
        "code": -32600,
        "message": (
            "MCP-Protocol-Version: this server speaks 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"
        ),
    }
    assert running.calls == []


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "tools/call", "params": CALL},  # nobody could be answered
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    ],
)
def test_what_needs_no_answer_gets_none(message: Any) -> None:
    with tools() as running:
        answered = told(running, message)

    assert (answered.status, answered.body) == (202, b"")
    assert running.calls == []


@pytest.mark.parametrize("request_id", [0, 7, 1.5, "", "a-b"])
def test_an_answer_repeats_the_id(request_id: Any) -> None:
    with tools() as running:
        answered = told(running, request("ping", request_id=request_id))

    assert answered.json() == {"jsonrpc": "2.0", "id": request_id, "result": {}}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, -32700),
        (b"{", 400, -32700),
        (b"\xff{}", 400, -32700),
        (b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}', 400, -32700),
        (b"[" * 5000 + b"]" * 5000, 400, -32700),
        (b"null", 400, -32600),
        (b"5", 400, -32600),
        (b"[]", 400, -32600),
        (b"{}", 400, -32600),
        (b'{"id":1,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":[],"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}', 200, -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}', 200, -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize"}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}', 200, -32602),
    ],
)
def test_malformed_messages_get_the_codes_of_json_rpc(body: bytes, status: int, code: int) -> None:
    with tools() as running:
        answered = asked(running, "/mcp", body)

    error = answered.json()["error"]
    assert (answered.status, error["code"]) == (status, code)
    assert 0 < len(error["message"]) <= 400
    assert error["message"].isprintable()
    assert running.calls == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"b": 1, "a": [1.0, None]}, '{"b":1,"a":[1.0,null]}'),
        (None, "{}"),
        ("{'id': 1}", "{'id': 1}"),
        ([1, 2], "[1,2]"),
        (5, "5"),
    ],
)
def test_arguments_of_any_form_are_passed_on_as_text(arguments: Any, text: str) -> None:
    with tools() as running:
        told(running, request("tools/call", {"name": "look", "arguments": arguments}))

    assert running.called == [("look", text)]


def test_half_a_character_is_replaced() -> None:
    with tools() as running:
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":'
        answered = asked(running, "/mcp", body + b'{"id":"cut \\ud83d"}}}')

    assert answered.status == 200
    assert running.called == [("look", '{"id":"cut ?"}')]


def test_a_list_of_messages_is_answered_where_its_version_has_them() -> None:
    batch = [
        request("ping", request_id=1),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("tools/call", CALL, 2),
        request("initialize", INITIALIZE, 3),
        5,
    ]
    with tools() as running:
        answered = told(running, batch, MCP_Protocol_Version="2025-03-26").json()
        silent = told(running, batch[1:2])
        refused = told(running, batch, MCP_Protocol_Version="2025-06-18")
        too_many = told(running, [request("tools/call", CALL)] * 101)

    assert [(one["id"], one.get("error", {}).get("code")) for one in answered] == [
        (1, None),
        (2, None),
        (3, -32600),
        (None, -32600),
    ]
    assert (silent.status, silent.body) == (202, b"")
    assert (refused.status, too_many.status) == (400, 400)
    assert refused.json()["error"]["message"] == "2025-06-18 has no lists of messages"
    assert too_many.json()["error"]["message"] == "a list has 1 to 100 messages, not 101"
    assert len(running.calls) == 1


def test_a_session_is_begun_and_ended_and_not_needed() -> None:
    with tools() as running:
        session = told(running, request("initialize", INITIALIZE)).headers["mcp-session-id"]
        mine = {**BEARER, "Mcp-Session-Id": session}
        during = told(running, request("ping"), Mcp_Session_Id=session)
        ended = asked(running, "/mcp", method="DELETE", headers=mine)
        after = told(running, request("tools/call", CALL), Mcp_Session_Id=session)
        again = asked(running, "/mcp", method="DELETE", headers=mine)
        nameless = asked(running, "/mcp", method="DELETE")
        without = told(running, request("ping"))

    assert (during.status, ended.status, ended.body) == (200, 204, b"")
    assert (after.status, again.status, nameless.status) == (404, 404, 400)
    assert "initialize again" in after.json()["error"]["message"]
    assert without.status == 200
    assert running.calls == []


def test_sessions_beyond_a_thousand_end_the_oldest() -> None:
    with tools() as running:
        sessions = [running.server.begin_session() for _ in range(1001)]

        assert not running.server.has_session(sessions[0])
        assert running.server.has_session(sessions[1])
        assert running.server.has_session(sessions[-1])


# ---- the plain form


def test_a_script_lists_and_calls_tools_without_the_protocol() -> None:
    with tools() as running:
        listed = asked(running, "/tools", method="GET").json()
        looked = asked(running, "/tools/look", '{"id": "é"}'.encode())
        failed = asked(running, "/tools/a%20b")

    assert listed["tools"][0] == {
        "name": "look",
        "description": "Look at a stock.",
        "parameters": {"properties": {"id": {"type": "string"}}},
    }
    assert looked.status == 200
    assert looked.json() == {"text": 'look {"id": "é"} — 你好', "failure": None}
    assert failed.json() == {"text": "there is no tool a b", "failure": "unknown_tool"}
    assert running.called == [("look", '{"id": "é"}'), ("a b", "{}")]


def test_a_body_that_is_no_json_is_passed_on_as_a_models_text_would_be() -> None:
    with tools() as running:
        asked(running, "/tools/look", b"buy everything")
        broken = asked(running, "/tools/look", b"\xff")

    assert running.called == [("look", "buy everything")]
    assert (broken.status, broken.json()["text"]) == (400, "the body is not UTF-8")


# ---- who may ask


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": "Bearer é"},
        {"x-api-key": TOKEN},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/mcp"), ("POST", "/tools/look"), ("GET", "/tools"), ("DELETE", "/mcp")],
)
def test_without_the_token_nothing_is_answered(method: str, path: str, headers: Any) -> None:
    body = json.dumps(request("tools/call", CALL)).encode()
    with tools() as running:
        answered = asked(running, path, body, method, headers)

    assert (answered.status, answered.headers["www-authenticate"]) == (401, "Bearer")
    assert "lacks this tool server's token; send it as Authorization: Bearer" in str(
        answered.json()
    )
    assert TOKEN not in answered.body.decode()
    assert running.calls == []


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:3000", 200),
        ("http://127.0.0.1", 200),
        ("http://[::1]:80", 200),
        ("https://other.example", 403),
        ("http://localhost.other.example", 403),
        ("http://127.0.0.1@other.example", 403),
        ("http://[", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_pages_of_other_sites_are_refused(origin: str, status: int) -> None:
    with tools() as running:
        answered = told(running, request("ping"), Origin=origin)

    assert answered.status == status


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/mcp", "POST, DELETE"),
        ("POST", "/tools", "GET"),
        ("DELETE", "/tools", "GET"),
        ("GET", "/tools/look", "POST"),
        ("DELETE", "/tools/look", "POST"),
    ],
)
def test_another_method_is_refused_with_those_that_are_answered(
    method: str, path: str, allowed: str
) -> None:
    with tools() as running:
        answered = asked(running, path, None, method)

    assert (answered.status, answered.headers["allow"]) == (405, allowed)
    assert running.calls == []


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "CONNECT", "TRACE", "NEW"])
def test_methods_that_nothing_answers_are_refused(method: str) -> None:
    with tools() as running:
        assert asked(running, "/mcp", None, method).status == 501


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/mcp/",
        "/mcp/x",
        "/sse",
        "/tools/",
        "/tools/look/x",
        "//other.example/mcp",
        "http://other.example/mcp",
        f"/tools/{'x' * 201}",
        "/.well-known/oauth-protected-resource",
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_other_addresses_are_refused_with_those_that_are_known(method: str, path: str) -> None:
    with tools() as running:
        answered = asked(running, path, None, method)

    assert answered.status == 404
    assert "the tool server answers POST /mcp, GET /tools, POST /tools/NAME" in str(answered.json())
    assert running.calls == []


@pytest.mark.parametrize("path", ["/mcp", "/tools/look"])
@pytest.mark.parametrize("name", ambiguous_requests("POST", "/mcp"))
def test_a_request_readable_in_two_ways_is_refused_with_what_follows(name: str, path: str) -> None:
    given = f"Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    sent = ambiguous_requests("POST", path)[name].replace(b"Host: 127.0.0.1\r\n", given, 1)
    with tools() as running:
        answer = answer_to(running.port, sent)

    assert statuses(answer) == [400]
    assert running.calls == []


def test_a_request_with_two_sessions_is_refused() -> None:
    head = f"POST /mcp HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n"
    twice = "Mcp-Session-Id: a\r\nmcp-session-id: b\r\n\r\n"
    with tools() as running:
        answer = answer_to(running.port, (head + twice).encode())

    assert statuses(answer) == [400]
    assert b"the header mcp-session-id appears more than once" in answer


@pytest.mark.parametrize("path", ["/mcp", "/tools/look"])
def test_a_body_beyond_the_limit_is_refused(path: str) -> None:
    with tools(limits=ServerLimits(body_bytes=1000)) as running:
        answered = asked(running, path, b"x" * 1001)

    assert answered.status == 413
    assert "the body has over 1,000 bytes" in str(answered.json())
    assert running.calls == []


def test_a_body_that_is_cut_or_late_is_refused() -> None:
    head = f"POST /tools/look HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 10\r\n"
    messages = []
    for limits in (ServerLimits(), ServerLimits(body_s=-1.0)):
        with (
            tools(limits=limits) as running,
            socket.create_connection(("127.0.0.1", running.port), timeout=30) as connection,
        ):
            connection.sendall(f"{head}\r\n{{".encode())
            if limits.body_s > 0:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(1 << 16):
                answer += piece
        messages.append(json.loads(answer.partition(b"\r\n\r\n")[2])["text"])
        assert running.calls == []

    assert messages == [
        "the body is shorter than Content-Length",
        "the body did not arrive in time",
    ]


# ---- calls


@pytest.mark.slow
def test_a_hundred_at_once_are_all_answered() -> None:
    def ask(number: int) -> str:
        return asked(running, "/tools/look", json.dumps({"id": number}).encode()).json()["text"]

    with tools(limits=ServerLimits(connections=128)) as running, ThreadPoolExecutor(100) as pool:
        found = list(pool.map(ask, range(100)))

    assert found == [f'look {{"id": {number}}} — 你好' for number in range(100)]
    assert len({call.id for call in running.calls}) == 100


def test_an_error_of_the_run_is_told_to_the_programs_model() -> None:
    def call(_: ToolCall) -> ToolResult:
        raise BudgetError("the step's 10 tool calls are spent")

    with tools(call) as running:
        answered = told(running, request("tools/call", CALL))
        plain = asked(running, "/tools/look")

    assert answered.json()["result"] == {
        "content": [{"type": "text", "text": "the step's 10 tool calls are spent"}],
        "isError": True,
    }
    assert plain.status == 403
    assert plain.json() == {
        "text": "the step's 10 tool calls are spent",
        "failure": "budget_spent",
    }


@pytest.mark.parametrize("path", ["/mcp", "/tools/look"])
def test_a_defect_of_ours_is_answered_and_shown_and_the_server_goes_on(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(_: ToolCall) -> ToolResult:
        raise ZeroDivisionError("secret")

    body = json.dumps(request("tools/call", CALL)).encode()
    with tools(call) as running:
        failed = asked(running, path, body)
        assert told(running, request("ping")).status == 200

    assert failed.status == 500
    assert "the tool server failed on this request" in str(failed.json())
    assert "secret" not in failed.body.decode()
    wait_for_error_text(capsys, "ZeroDivisionError")


def test_where_to_listen_can_be_chosen() -> None:
    with tools() as running:
        with pytest.raises(StoreError) as caught:
            ToolServer(list, lambda _: ToolResult(""), TOKEN, where=("127.0.0.1", running.port))
        port = running.port

    assert str(caught.value) == (
        f"the tool server can't listen on 127.0.0.1 port {port}: Address already in use"
    )
    other = ToolServer(lambda: [LOOK], lambda _: ToolResult(""), TOKEN, where=("127.0.0.2", 0))
    with serving(other):
        assert other.mcp_url == f"http://127.0.0.2:{other.server_address[1]}/mcp"
        assert other.tools_url == f"http://127.0.0.2:{other.server_address[1]}/tools"
