"""The relay from stdio to the tool server, started as programs start it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from bridge_clients import TOKEN
from ktdeval.harness import ToolCall, ToolResult
from ktdeval.testing import free_port
from ktdeval_command.clients.stdio_relay import (
    TOKEN as TOKEN_VARIABLE,
    URL as URL_VARIABLE,
    ToolConnection,
    answer_to,
    stdio_command,
)
from ktdeval_command.desk.loopback_server import ServerLimits
from tool_clients import Tools, request, tools

CALL = {"name": "look", "arguments": {"id": "S1"}}


def environment(url: str, token: str = TOKEN) -> dict[str, str]:
    return {URL_VARIABLE: url, TOKEN_VARIABLE: token}


def relayed(env: dict[str, str], *lines: Any) -> tuple[int, list[Any], str]:
    """Status, answers and stderr of a relay that gets these messages at once."""
    text = b""
    for line in lines:
        text += line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
    done = subprocess.run(
        stdio_command(sys.executable), input=text, capture_output=True, env=env, timeout=60
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, answers, done.stderr.decode()


def of(running: Tools) -> ToolConnection:
    return ToolConnection(running.server.address, TOKEN)


def message(method: str, params: Any = None, request_id: Any = 1) -> bytes:
    return json.dumps(request(method, params, request_id)).encode()


@pytest.mark.anyio
async def test_the_official_client_lists_and_calls_tools_over_stdio() -> None:
    mcp = pytest.importorskip("mcp", reason="needs the package mcp")
    command, *words = stdio_command(sys.executable)
    with tools(instructions="Submit once.") as running:
        env = environment(running.server.address)
        started = mcp.StdioServerParameters(command=command, args=words, env=env)
        async with mcp.Client(started) as client:
            listed = (await client.list_tools()).tools
            looked = await client.call_tool("look", {"id": "S1"})
            failed = await client.call_tool("absent", {})
            assert client.instructions == "Submit once."

    assert [tool.name for tool in listed] == ["look", "submit_action"]
    assert looked.content[0].text == 'look {"id":"S1"} — 你好'
    assert failed.is_error
    assert running.called == [("look", '{"id":"S1"}'), ("absent", "{}")]


@pytest.mark.parametrize(
    ("env", "line"),
    [
        ({}, "KTDEVAL_TOOLS_URL is not set; ktdeval sets it for a program"),
        (environment("", TOKEN), "KTDEVAL_TOOLS_URL is not set; ktdeval sets it for a program"),
        (
            environment("http://127.0.0.1:1", ""),
            "KTDEVAL_TOOLS_TOKEN is not set; ktdeval sets it for a program",
        ),
        (environment("127.0.0.1:1"), "KTDEVAL_TOOLS_URL: expected http://HOST:PORT"),
    ],
)
def test_without_address_or_token_one_line_says_so(env: dict[str, str], line: str) -> None:
    assert relayed(env, request("ping")) == (2, [], f"ktdeval tools: {line}\n")


def test_refusals_over_http_name_their_request() -> None:
    with tools(limits=ServerLimits(body_bytes=500)) as running:
        wrong = ToolConnection(running.server.address, "wrong")
        refused = json.loads(answer_to(wrong, message("tools/call", CALL, 7)))
        large = json.loads(answer_to(of(running), message("ping", {"x": "y" * 500}, "b")))
        silent = answer_to(wrong, b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    assert refused["id"] == 7
    assert "lacks this tool server's token" in refused["error"]["message"]
    assert (large["id"], large["error"]["message"]) == ("b", "the body has over 500 bytes")
    assert silent == b""
    assert running.calls == []


def test_a_connection_that_the_server_closed_is_opened_anew() -> None:
    with tools(limits=ServerLimits(silence_s=0.02)) as running:
        connection = of(running)
        answer_to(connection, message("ping"))
        socket_before = connection._connection.sock
        assert socket_before.recv(10) == b""  # the server is tired of waiting
        again = json.loads(answer_to(connection, message("tools/call", CALL, 2)))

    assert again["result"]["isError"] is False
    assert len(running.calls) == 1


def test_a_call_is_not_made_twice_where_its_answer_is_lost() -> None:
    def call(_: ToolCall) -> ToolResult:
        connection._connection.sock.shutdown(2)  # as if the network had gone
        return ToolResult("lost")

    with tools(call) as running:
        connection = of(running)
        answer = json.loads(answer_to(connection, message("tools/call", CALL, 9)))

    assert answer["id"] == 9
    assert answer["error"]["message"].startswith("the tool server does not answer: ")
    assert len(running.calls) == 1


def test_a_server_that_is_gone_is_told_for_each_request() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    status, answers, error = relayed(
        environment(url), request("ping"), {"jsonrpc": "2.0", "method": "notifications/x"}
    )

    assert (status, error) == (0, "")
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(1, -32603)]
    assert "Connection refused" in answers[0]["error"]["message"]


def test_a_connection_stays_in_the_session_that_it_began_and_ends_it() -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a"}}
    with tools() as running:
        connection = of(running)
        connection.post(message("initialize", hello))
        began = connection.session
        connection.post(message("tools/list"))
        assert connection.session == began
        assert running.server.has_session(began)

        connection.end()
        assert not running.server.has_session(began)


def test_a_connection_without_a_session_ends_none() -> None:
    with tools() as running:
        connection = of(running)
        connection.end()
        assert connection.session == ""
