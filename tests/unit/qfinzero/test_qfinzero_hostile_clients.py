"""Clients that hold, break off or blur: what a server owes to the others."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator

import pytest

from ktdeval_qfinzero.access.workspaces import HEADER, Limits
from qfinzero_server import Served, serving
from qfinzero_toy import TOYS

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(TOYS, Limits(most=20, body_s=0.5)) as server:
        yield server


def begun(served: Served, path: str, body: bytes, length: int, **headers: str) -> socket.socket:
    """A connection on which a request of `length` bytes was begun."""
    wire = socket.create_connection(("127.0.0.1", served.port), timeout=20)
    lines = {"Host": f"127.0.0.1:{served.port}", "Content-Type": "application/json", "Content-Length": str(length), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    wire.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
    return wire


@pytest.mark.parametrize("path", ["/toy/advance", "/workspaces", "/mcp"])
def test_a_body_that_never_ends_is_answered_and_its_connection_closed(served: Served, path: str) -> None:
    before, started = len(served.workspaces), time.monotonic()
    with begun(served, path, b'{"minutes":', 400) as wire:
        answer = b"".join(iter(lambda: wire.recv(4096), b""))  # until the server closes
    assert answer.startswith(b"HTTP/1.1 408"), answer[:200]
    assert b'"code":"timeout"' in answer
    assert time.monotonic() - started < 5
    assert len(served.workspaces) == before


@pytest.mark.parametrize("path", ["/toy/advance", "/workspaces", "/mcp"])
def test_a_client_that_breaks_off_leaves_nothing_in_the_log(
    served: Served, path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    caplog.set_level(logging.WARNING, "uvicorn.error")
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handlers", [caplog.handler])
    before = len(served.workspaces)
    begun(served, path, b'{"minutes":', 400).close()
    time.sleep(0.1)
    assert served.post("/toy/advance").status == 400  # it goes on
    assert [record.getMessage() for record in caplog.records] == []
    assert len(served.workspaces) == before


def test_a_doubled_key_is_refused_over_http_and_mcp(served: Served) -> None:
    mine = served.open()
    doubled = '{"minutes":1,"minutes":2}'
    call = (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"toy_clock_advance","arguments":'
        + doubled
        + ',"_meta":{}}}'
    )
    for path, body in (
        ("/toy/advance", doubled),
        ("/workspaces", '{"as_of_ts":"2025-01-03","as_of_ts":"2025-01-06"}'),
        ("/mcp", call),
    ):
        reply = served.send("POST", path, body, **JSON, **{HEADER: mine, "Mcp-Protocol-Version": "2026-07-28"})
        assert reply.status == 400, (path, reply.text)
        assert "twice" in reply.error["message"], path
    assert served.post("/toy/advance", {"minutes": 0}, mine).body["as_of_ts"] == "2025-01-06T21:00:00Z"


def test_when_all_workspaces_are_taken_the_one_that_was_idle_longest_gives_way() -> None:
    with serving(TOYS, Limits(most=2, idle_s=3600, yield_s=300)) as served:
        first, second = served.open(), served.open()
        served.clock.now_s = 200
        assert served.get("/toy/abc", second).status == 200
        assert served.post("/workspaces").status == 503  # nobody has been idle for long
        served.clock.now_s = 301
        third = served.open()
        assert [served.get("/toy/abc", each).status for each in (first, second, third)] == [404, 200, 200]
        assert served.post("/workspaces").status == 503
