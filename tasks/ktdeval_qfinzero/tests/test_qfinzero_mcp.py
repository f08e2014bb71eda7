"""The services over the Model Context Protocol, with the official client: sessions, isolation and
errors.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from ktdeval.cli.main import main
from ktdeval_qfinzero.access.guarded_dispatch import AccessRules
from ktdeval_qfinzero.access.mcp import serve_stdio
from ktdeval_qfinzero.access.server_rules import make_served_catalogue as served_catalogue
from ktdeval_qfinzero.access.workspaces import HEADER, WorkspaceLimits
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.dataset import open_dataset
from ktdeval_qfinzero.pmb.broker import verify
from qfinzero_toy import TOYS
from support.qfinzero.qfinzero_scenario import Played, day, in_process, played
from support.qfinzero.qfinzero_server import Served, serving
from support.qfinzero.qfinzero_world import at, small_dataset, store_small

SERVED = {"catalogue": TOYS, "limits": WorkspaceLimits(most=3, idle_s=100)}

TOKEN = "a-token-of-some-length"
START = "2025-01-06T21:00:00Z"


@asynccontextmanager
async def connected(served: Served, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    """A client that sends headers of its own."""
    async with (
        httpx2.AsyncClient(headers=headers, timeout=240) as http,
        Client(streamable_http_client(served.mcp, http_client=http), mode=mode) as client,
    ):
        yield client


async def clock_of(client: Client, minutes: int = 0) -> str:
    """Where the clock stands after some minutes."""
    result = await client.call_tool("toy_clock_advance", {"minutes": minutes})

    assert not result.is_error
    assert json.loads(result.content[0].text) == result.structured_content

    return result.structured_content["as_of_ts"]


def error_of(result: Any) -> dict[str, str]:
    """The envelope of a tool error."""
    assert result.is_error
    assert result.structured_content is None  # it would have to follow the tool's output schema
    return json.loads(result.content[0].text)["error"]


@pytest.mark.anyio
async def test_each_session_has_a_clock_of_its_own_and_leaves_nothing_behind(
    served: Served,
) -> None:
    async with Client(served.mcp) as first, Client(served.mcp, mode="legacy") as second:
        assert len(served.workspaces) == 2
        clocks = await asyncio.gather(*[clock_of(first, 1) for _ in range(5)], clock_of(second, 0))
        assert sorted(clocks[:5]) == [f"2025-01-06T21:0{minute}:00Z" for minute in range(1, 6)]
        assert clocks[5] == START
        assert await clock_of(second, 30) == "2025-01-06T21:30:00Z"
        assert await clock_of(first) == "2025-01-06T21:05:00Z"

    assert len(served.workspaces) == 0


@pytest.mark.anyio
async def test_the_server_tells_of_the_clock_and_its_tools(served: Served) -> None:
    async with Client(served.mcp) as client:
        assert client.server_info.name == "qfinzero"
        assert "clock" in client.instructions
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

    assert set(tools) == {operation.wire_name for operation in TOYS.operations}

    for operation in TOYS.operations:
        tool = tools[operation.wire_name]
        assert (tool.input_schema, tool.output_schema) == (operation.parameters, operation.result)
        assert (tool.title, tool.description) == (operation.name, operation.summary)
        assert tool.annotations.read_only_hint is not operation.changes


async def advanced(served: Served, headers: dict[str, str]) -> str:
    """Where the clock stands after one minute, asked in a session of its own."""
    async with connected(served, "legacy", **headers) as client:
        return await clock_of(client, 1)


@pytest.mark.anyio
async def test_client_with_a_session_per_call_keeps_its_clock_by_the_header(
    served: Served,
) -> None:
    """As LangChain's adapters do. Without the header each call begins with a clock of its own."""
    lost = [await advanced(served, {}) for _ in range(2)]

    assert lost == ["2025-01-06T21:01:00Z"] * 2

    address = served.mcp.removesuffix("/mcp")

    async with httpx2.AsyncClient() as http:
        opened = await http.post(f"{address}/workspaces")
        workspace = opened.json()["workspace_id"]
        times = [await advanced(served, {HEADER: workspace}) for _ in range(3)]
        await http.delete(f"{address}/workspaces/{workspace}")

    assert times == [f"2025-01-06T21:0{minute}:00Z" for minute in (1, 2, 3)]
    assert len(served.workspaces) == 0


@pytest.mark.exhaustive
@pytest.mark.anyio
@pytest.mark.parametrize("option", ["--over", "--transport"])
async def test_a_server_process_answers_over_stdin_by_either_name_of_the_option(
    option: str,
) -> None:
    words = ["-m", "ktdeval", "paper", "qfinzero", "serve", option, "stdio"]
    async with Client(StdioServerParameters(command=sys.executable, args=words)) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]

    assert "upq_stock_daily" in tools


# ---- every tool


def outcomes(day: Played) -> list[Any]:
    """Answers of a day, without the hash of the log, in which the rules stand as they were
    given.
    """
    return [(name, {**answer, "log_hash": ""}) for name, _, answer in day]


@pytest.mark.exhaustive
def test_printed_configuration_starts_an_equivalent_server_from_any_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = store_small(tmp_path / "home" / "small").parent
    monkeypatch.chdir(home)
    (home / "rules.yaml").write_text("fills: {max_volume_pct: 20}\naccounts: {cash: 500000}\n")
    words = [
        "--data",
        "small",
        "--rules",
        "rules.yaml",
        "--logs",
        "logs",
        "--as-of",
        "2025-01-06T20:00:00Z",
    ]

    assert main(["paper", "qfinzero", "serve", "--connect", "mcp", *words]) == 0

    printed = capsys.readouterr().out
    assert main(["paper", "qfinzero", "serve", "--connect", "skill", *words]) == 0

    skill = capsys.readouterr().out
    assert printed.rstrip() in skill
    assert re.match(r"---\nname: qfinzero\ndescription: .{80,}\n---\n", skill)

    config = json.loads(printed)["mcpServers"]["qfinzero"]
    stdout = tmp_path / "stdout"

    assert Path(config["command"]).is_absolute()

    line = f"{shlex.join([config['command'], *config['args']])} | {shutil.which('tee')} {stdout}"
    server = StdioServerParameters(
        command="/bin/sh", args=["-c", line], env={"PATH": "/nowhere"}, cwd=tmp_path
    )

    async def play() -> Played:
        async with Client(server) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            assert tools == [
                operation.wire_name for operation in served_catalogue(catalogue()).operations
            ]
            assert all(f"`{name}`" in skill for name in tools)

            # the client holds answers against their schemas
            async def use(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
                given = {
                    key: value
                    for key, value in arguments.items()
                    if key not in ("initial_cash", "execution_config")
                }
                result = await client.call_tool(catalogue().find(name).wire_name, given)

                assert not result.is_error, result.content
                assert json.loads(result.content[0].text) == result.structured_content

                return result.structured_content

            return [(name, arguments, await use(name, arguments)) for name, arguments in day()]

    dataset = open_dataset(home / "small")
    alone = played(day(), in_process(Workspace(dataset, at("2025-01-06T20:00:00Z"))))

    assert outcomes(asyncio.run(play())) == outcomes(alone)

    (log,) = (home / "logs").iterdir()
    verify(log.read_text().splitlines(), dataset)
    # and nothing else goes to stdout
    messages = [json.loads(line) for line in stdout.read_text().splitlines()]

    assert len(messages) > len(catalogue().operations)
    assert all(message["jsonrpc"] == "2.0" for message in messages)


CALL = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"toy_clock_advance","arguments":%s}}'
NO_MESSAGES = [
    (CALL % (7, '{"minutes":1,"minutes":2}'), 7, -32600, "'minutes' appears twice"),
    (CALL % ('"a"', '{"minutes":NaN}'), "a", -32600, ""),
    (CALL % ("true", '{"a":1,"a":1}'), None, -32600, ""),
    ("{", None, -32700, ""),
    ('{"jsonrpc":"1.0","id":1,"method":"ping"}', 1, -32600, "of JSON-RPC 2.0"),
    (
        '{"jsonrpc":"2.0","id":"b","method":"tools/call","params":[]}',
        "b",
        -32600,
        "of JSON-RPC 2.0",
    ),
    ('{"jsonrpc":"2.0","id":2,"method":"\\ud800"}', 2, -32600, "in UTF-8"),
    # a byte that is none of UTF-8
    ('{"jsonrpc":"2.0","id":3,"method":"\udcff"}', 3, -32600, "in UTF-8"),
    ('{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', None, -32600, "in UTF-8"),
    ('[{"jsonrpc":"2.0","id":4,"method":"ping"}]', None, -32600, "of JSON-RPC 2.0"),
    ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, -32600, "a text or a whole number"),
    ('{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600, "a text or a whole number"),
    ('{"jsonrpc":"2.0","id":5,"method":"' + "a" * 1_000_000 + '"}', 5, -32600, "at most 1000000"),
]
"""Lines, the id and the code of what is answered, and words of it."""


def test_each_line_of_stdin_that_is_no_message_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n".join(line for line, *_ in NO_MESSAGES)
    (tmp_path / "in").write_text(text, encoding="utf-8", errors="surrogateescape")
    with (tmp_path / "in").open() as given, (tmp_path / "out").open("w") as output:
        monkeypatch.setattr(sys, "stdin", given)
        monkeypatch.setattr(sys, "stdout", output)
        asyncio.run(serve_stdio(TOYS, small_dataset(), WorkspaceLimits()))

    answers = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    for (line, asked, code, message), answer in zip(NO_MESSAGES, answers, strict=True):
        assert (answer["id"], answer["error"]["code"]) == (asked, code), line[:80]
        assert message in answer["error"]["message"], line[:80]


def test_a_client_that_reads_no_more_ends_the_server_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_text(f"{json.dumps(initialize())}\n" * 3)
    reader, writer = os.pipe()
    os.close(reader)
    has_ended = False

    # its end can't be written
    with suppress(BrokenPipeError), (tmp_path / "in").open() as given, open(writer, "w") as output:
        monkeypatch.setattr(sys, "stdin", given)
        monkeypatch.setattr(sys, "stdout", output)
        asyncio.run(serve_stdio(TOYS, small_dataset(), WorkspaceLimits()))
        has_ended = True

    assert has_ended


# ---- errors and sessions


@pytest.mark.anyio
async def test_errors_are_tool_errors_with_the_envelope(served: Served) -> None:
    async with Client(served.mcp) as client:
        refused = error_of(await client.call_tool("toy_refuse", {}))
        assert refused == {"code": "conflict", "message": "not now", "field": "thing"}
        assert error_of(await client.call_tool("toy_nothing", {}))["code"] == "not_found"
        assert (
            error_of(await client.call_tool("toy_echo_post", {"name": "a"}))["code"]
            == "invalid_argument"
        )
        for name in ("toy_crash", "toy_nan"):
            defect = await client.call_tool(name, {})
            assert error_of(defect)["code"] == "internal"
            assert "secret" not in defect.content[0].text


@pytest.mark.anyio
async def test_sessions_count_as_workspaces_and_a_full_server_refuses_another(
    served: Served,
) -> None:
    async with AsyncExitStack() as clients:
        for _ in range(3):
            await clients.enter_async_context(Client(served.mcp))

        assert served.post("/workspaces").status == 503
        refused = served.post("/mcp", initialize(), Accept="application/json, text/event-stream")
        assert (refused.status, refused.body["id"], refused.body["error"]["code"]) == (
            503,
            None,
            -32600,
        )

    assert len(served.workspaces) == 0


@pytest.mark.anyio
async def test_sessionless_protocol_version_acts_on_the_named_workspace(
    served: Served,
) -> None:
    async with connected(served, mode="2026-07-28") as client:
        assert error_of(await client.call_tool("toy_clock_advance", {}))["field"] == HEADER

    workspace = served.open()
    async with connected(served, **{HEADER: workspace}) as client:
        assert client.protocol_version == "2026-07-28"
        assert await clock_of(client, 7) == "2025-01-06T21:07:00Z"

    async with connected(served, "legacy", **{HEADER: workspace}) as client:
        assert len(served.workspaces) == 1
        assert await clock_of(client, 2) == "2025-01-06T21:09:00Z"

    assert served.get("/toy/a", workspace).body["as_of_ts"] == "2025-01-06T21:09:00Z"
    assert workspace in served.workspaces

    served.workspaces.drop(workspace)
    assert len(served.workspaces) == 0


@pytest.mark.anyio
async def test_session_whose_workspace_expired_gets_an_error_to_reconnect() -> None:
    with serving(TOYS, WorkspaceLimits(idle_s=100)) as served:
        async with Client(served.mcp) as client:
            assert await clock_of(client, 1) == "2025-01-06T21:01:00Z"
            served.clock.now_s = 101
            error = error_of(await client.call_tool("toy_clock_advance", {"minutes": 1}))
            assert error["code"] == "not_found"
            assert "connect anew" in error["message"]


@pytest.mark.anyio
async def test_a_token_is_wanted_here_as_well() -> None:
    with serving(TOYS, security=AccessRules(None, TOKEN)) as served:
        async with connected(served, Authorization=f"Bearer {TOKEN}") as client:
            assert await clock_of(client) == START

        assert (
            served.post("/mcp", initialize(), Accept="application/json, text/event-stream").status
            == 401
        )


def initialize() -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    parameters = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}


BOTH = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"NaN",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        b"\xff",
    ],
    ids=lambda body: body[:12].decode("latin-1"),
)
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28", "1999-01-01"])
def test_input_that_is_not_a_message_is_refused_and_opens_no_workspace(
    served: Served, body: bytes, version: str
) -> None:
    reply = served.send("POST", "/mcp", body, **BOTH, **{"Mcp-Protocol-Version": version})
    assert 400 <= reply.status < 500
    assert reply.body["jsonrpc"] == "2.0"
    assert len(served.workspaces) == 0


@pytest.mark.parametrize("thing", ["NaN", "1e999", "[" * 60 + "]" * 60, '"\\ud800"', "9" * 25])
def test_arguments_that_are_no_strict_json_are_refused(served: Served, thing: str) -> None:
    begun = served.send("POST", "/mcp", json.dumps(initialize()), **BOTH)
    session = {
        "Mcp-Session-Id": begun.headers["mcp-session-id"],
        "Mcp-Protocol-Version": "2025-11-25",
    }
    served.send(
        "POST", "/mcp", '{"jsonrpc":"2.0","method":"notifications/initialized"}', **BOTH, **session
    )
    message = '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"toy_echo_post","arguments":'
    reply = served.send(
        "POST", "/mcp", message + f'{{"name":"a","count":1,"thing":{thing}}}}}}}', **BOTH, **session
    )

    if reply.status == 200:
        text = reply.body["result"]["content"][0]["text"]
        assert json.loads(text)["error"]["code"] == "invalid_argument"
    else:
        assert reply.status == 400
        assert (reply.body["id"], reply.body["error"]["code"]) == (
            (None, -32700) if "ud800" in thing else (2, -32600)
        )
        assert reply.body["jsonrpc"] == "2.0"

    assert served.send("DELETE", "/mcp", **BOTH, **session).status == 200
    assert len(served.workspaces) == 0
    assert served.send("DELETE", "/mcp", **BOTH, **session).status == 404
