"""The services over HTTP: workspaces, one form of error, limits, and who may call."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ktdeval_qfinzero.access.guarded_dispatch import AccessRules
from ktdeval_qfinzero.access.workspaces import HEADER, WorkspaceLimits
from qfinzero_toy import HOLD, HOLDING, TOYS
from support.qfinzero.qfinzero_server import Served, serving

SERVED = {"catalogue": TOYS, "limits": WorkspaceLimits(most=20, idle_s=100)}

TOKEN = "a-token-of-some-length"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def mine(served: Served) -> Iterator[str]:
    workspace = served.open()
    yield workspace
    served.send("DELETE", f"/workspaces/{workspace}")


# ---- workspaces


def test_workspace_starts_at_a_default_or_given_time_with_its_own_clock(
    served: Served,
) -> None:
    reply = served.post("/workspaces")
    earlier = served.post("/workspaces", {"as_of_ts": "2025-01-03"})

    assert (reply.status, reply.body["as_of_ts"]) == (201, "2025-01-06T21:00:00Z")
    assert earlier.body["as_of_ts"] == "2025-01-03T00:00:00Z"

    first, second = (opened.body["workspace_id"] for opened in (reply, earlier))
    moves = (
        (second, 1, "2025-01-03T00:01:00Z"),
        (first, 5, "2025-01-06T21:05:00Z"),
        (second, 0, "2025-01-03T00:01:00Z"),
    )

    for workspace, minutes, moment in moves:
        assert served.post("/toy/advance", {"minutes": minutes}, workspace).body == {
            "as_of_ts": moment
        }

    for workspace in (first, second):
        assert served.send("DELETE", f"/workspaces/{workspace}").body == {
            "workspace_id": workspace,
            "dropped": True,
        }
        assert (
            served.send("DELETE", f"/workspaces/{workspace}").status
            == served.get("/toy/abc", workspace).status
            == 404
        )


@pytest.mark.parametrize("moment", ["2024-12-31", "2025-03-02", "soon"])
def test_a_moment_where_there_are_no_data_is_refused(served: Served, moment: str) -> None:
    assert served.post("/workspaces", {"as_of_ts": moment}).error["field"] == "as_of_ts"


def test_no_workspace_starts_after_the_servers_limit() -> None:
    start = 1_736_150_400_000_000_000  # 2025-01-06T08:00:00Z
    with serving(TOYS, WorkspaceLimits(as_of_ns=start)) as served:
        assert served.post("/workspaces").body["as_of_ts"] == "2025-01-06T08:00:00Z"
        assert (
            served.post("/workspaces", {"as_of_ts": "2025-01-06T08:00:00.000000001Z"}).status == 400
        )
        assert served.post("/workspaces", {"as_of_ts": "2025-01-03"}).status == 201


def test_call_without_a_workspace_gets_an_error_that_explains_opening_one(
    served: Served,
) -> None:
    reply = served.get("/toy/abc")
    assert (reply.status, reply.error["field"]) == (400, HEADER)
    assert "POST /workspaces" in reply.error["message"]
    assert served.get("/toy/abc", "nothing-of-the-kind").status == 404


def test_an_idle_workspace_is_forgotten_and_a_used_one_is_not() -> None:
    with serving(TOYS, WorkspaceLimits(most=2, idle_s=100)) as served:
        idle = served.open()
        used = served.open()
        full = served.post("/workspaces")
        assert (full.status, full.error["code"]) == (503, "unavailable")
        served.clock.now_s = 60
        assert served.get("/toy/abc", used).status == 200
        served.clock.now_s = 110
        assert served.get("/toy/abc", idle).status == 404
        assert served.get("/toy/abc", used).status == 200
        assert served.post("/workspaces").status == 201


def test_calls_of_one_workspace_wait_for_each_other_and_others_do_not(
    served: Served, mine: str
) -> None:
    other = served.open()
    HOLD.clear()
    waiting = threading.Thread(target=served.post, args=("/toy/wait", {}, mine))
    waiting.start()
    HOLDING.acquire()
    behind = threading.Thread(target=served.post, args=("/toy/advance", {"minutes": 3}, mine))
    behind.start()

    # while the first is still held
    assert served.post("/toy/advance", {"minutes": 1}, other).status == 200

    behind.join(0.1)
    assert behind.is_alive()

    HOLD.set()
    waiting.join()
    behind.join()

    assert (
        served.post("/toy/advance", {"minutes": 0}, mine).body["as_of_ts"] == "2025-01-06T21:03:00Z"
    )

    served.workspaces.drop(other)


# ---- arguments


def test_arguments_have_the_types_of_their_schemas(served: Served, mine: str) -> None:
    reply = served.get("/toy/a%20b?count=7&share=2.5e-1&is_big=true&word=all", mine)
    assert reply.body["given"] == {
        "name": "a b",
        "count": 7,
        "share": 0.25,
        "is_big": True,
        "word": "all",
    }
    assert served.get("/toy/ab", mine).body["given"] == {"name": "ab", "count": 3, "is_big": False}

    posted = served.send(
        "POST", "/toy/ab/echo", '{"count":5.0,"thing":[1e2,0.5]}', **JSON, **{HEADER: mine}
    )

    assert '"count":5,' in posted.text, "whole numbers may be written with a point"
    assert '"thing":[100,0.5]' in posted.text


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *(
            (f"count={text}", "count")
            for text in ("x", "1.5", "10", "9" * 5000, "1&count=2", "%D9%A5")
        ),
        *((f"share={text}", "share") for text in ("NaN", "Infinity", "1e999")),
        *(
            ("is_big=1", "is_big"),
            ("word=some", "word"),
            ("name=b", "name"),
            ("other=1", "arguments"),
        ),
    ],
)
def test_a_parameter_that_can_not_be_read_is_named(
    served: Served, mine: str, query: str, field: str
) -> None:
    reply = served.get(f"/toy/ab?{query}", mine)
    assert (reply.status, reply.error["code"], reply.error["field"]) == (
        400,
        "invalid_argument",
        field,
    )


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"{",
            b"[]",
            b"1",
            b"\xff\xfe{",
            b"{}",
            b"",
            b'{"count":"1"}',
            b'{"count":NaN}',
            b'{"count":' + b"9" * 5000 + b"}",
        ),
        *(b'{"count":1,"thing":%s}' % thing for thing in (b"-Infinity", b"1e999", b'"\\ud800"')),
        b'{"count":1,"thing":' + b"[" * 100_000,
        b'{"count":1,"thing":' + b"[" * 50 + b"]" * 50 + b"}",
        b'{"count":1,"name":"c"}',
        b'{"count":1,"other":2}',
    ],
    ids=lambda body: body[:24].decode("latin-1"),
)
def test_a_body_that_can_not_be_used_is_refused_in_one_line(
    served: Served, mine: str, body: bytes
) -> None:
    reply = served.send("POST", "/toy/ab/echo", body, **JSON, **{HEADER: mine})
    assert (reply.status, reply.error["code"]) == (400, "invalid_argument")
    assert "\n" not in reply.error["message"]


def test_a_body_must_be_json_with_its_content_type(served: Served, mine: str) -> None:
    reply = served.send(
        "POST", "/toy/ab/echo", '{"count":1}', **{"Content-Type": "text/plain", HEADER: mine}
    )

    assert reply.error["field"] == "Content-Type"
    assert served.post("/toy/ab/echo?count=1", {"count": 1}, mine).error["field"] == "arguments"
    assert (
        served.send("GET", "/toy/ab", '{"count":7}', **JSON, **{HEADER: mine}).error["field"]
        == "arguments"
    )


@pytest.mark.parametrize("is_chunked", [False, True], ids=["declared", "chunked"])
def test_a_body_has_a_largest_size(served: Served, mine: str, is_chunked: bool) -> None:
    text = '{"count":1,"thing":"' + "x" * 1_000_000 + '"}'
    body = iter([text.encode()]) if is_chunked else text
    reply = served.send("POST", "/toy/ab/echo", body, **JSON, **{HEADER: mine})  # type: ignore[arg-type]
    assert (reply.status, reply.error["code"]) == (413, "too_large")


# ---- errors


def test_refusals_and_missing_paths_have_one_envelope_and_a_status(
    served: Served, mine: str
) -> None:
    missing = served.get("/toys", mine)
    assert (missing.status, missing.error["code"]) == (404, "not_found")

    wrong = served.post("/toy/ab", {}, mine)
    assert (wrong.status, wrong.error["code"], wrong.headers["allow"]) == (
        405,
        "invalid_argument",
        "GET",
    )
    assert served.get("/docs").status == served.get("/redoc").status == 404

    refused = served.get("/toy-refuse", mine)
    assert (refused.status, refused.error) == (
        409,
        {"code": "conflict", "message": "not now", "field": "thing"},
    )


@pytest.mark.parametrize(("method", "path"), [("POST", "/toy/crash"), ("GET", "/toy-nan")])
def test_a_defect_reveals_nothing_about_the_process(
    served: Served, mine: str, method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    reply = served.send(method, path, **{HEADER: mine})
    assert (reply.status, reply.error["code"]) == (500, "internal")
    assert "secret" not in reply.text
    assert "Traceback" not in reply.text
    assert caplog.records[0].exc_info is not None  # the log has it
    assert served.get("/toy/abc", mine).status == 200


# ---- who may call


@pytest.mark.parametrize("host", ["rebound.example:80", "[", "me@127.0.0.1"])
def test_a_name_that_is_none_of_this_machine_is_refused(
    served: Served, mine: str, host: str
) -> None:
    foreign = served.get("/toy/ab", mine, Host=host)
    assert (foreign.status, foreign.error["field"]) == (400, "Host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "[::1]:8765", "127.0.0.1"])
def test_each_name_of_this_machine_is_taken(served: Served, mine: str, host: str) -> None:
    assert served.get("/toy/ab", mine, Host=host).status == 200


def test_a_page_of_another_site_reaches_nothing(served: Served, mine: str) -> None:
    for origin in (
        "http://evil.example",
        "null",
        "http://[",
        f"http://127.0.0.1:{served.port + 1}",
    ):
        assert served.get("/toy/ab", mine, Origin=origin).error["field"] == "Origin"

    own = served.get("/toy/ab", mine, Origin=f"http://127.0.0.1:{served.port}")

    assert own.status == 200
    assert not [name for name in own.headers if name.startswith("access-control")]
    assert own.headers["x-content-type-options"] == "nosniff"
    assert served.post("/mcp", {}, Host="rebound.example").status == 400


def test_a_guarded_server_wants_its_token_for_everything() -> None:
    with serving(TOYS, security=AccessRules(None, TOKEN)) as served:
        wrong = (f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer")
        for reply in (
            *(served.post(path) for path in ("/workspaces", "/mcp")),
            *(
                served.get(path)
                for path in ("/openapi.json", "/nothing", f"/openapi.json?token={TOKEN}")
            ),
            *(served.get("/openapi.json", Authorization=each) for each in wrong),
        ):
            assert (reply.status, reply.error["code"]) == (401, "unauthorized")
            assert reply.headers["www-authenticate"] == 'Bearer realm="qfinzero"'
            assert TOKEN not in reply.text

        document = served.get("/openapi.json", Authorization=f"bearer {TOKEN}", Host="any.example")
        assert document.body["security"] == [{"token": []}]
        assert TOKEN not in repr(served)

    assert TOKEN not in repr(AccessRules(None, TOKEN))


# ---- clients that stall, disconnect or send ambiguous requests


@pytest.fixture(scope="module")
def hasty() -> Iterator[Served]:
    """A server that waits for a body for half a second only."""
    with serving(TOYS, WorkspaceLimits(most=20, body_s=0.5)) as server:
        yield server


def begun(hasty: Served, path: str, body: bytes, length: int, **headers: str) -> socket.socket:
    """A connection on which a request of `length` bytes was begun."""
    wire = socket.create_connection(("127.0.0.1", hasty.port), timeout=240)
    lines = {
        "Host": f"127.0.0.1:{hasty.port}",
        "Content-Type": "application/json",
        "Content-Length": str(length),
        **headers,
    }
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    wire.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)

    return wire


@pytest.mark.parametrize("path", ["/toy/advance", "/workspaces", "/mcp"])
def test_a_body_that_never_ends_is_answered_and_its_connection_closed(
    hasty: Served, path: str
) -> None:
    before = len(hasty.workspaces)
    with begun(hasty, path, b'{"minutes":', 400) as wire:
        answer = b"".join(iter(lambda: wire.recv(4096), b""))  # until the server closes

    assert answer.startswith(b"HTTP/1.1 408"), answer[:200]
    assert (b'"jsonrpc":"2.0"' if path == "/mcp" else b'"code":"timeout"') in answer
    assert len(hasty.workspaces) == before


@pytest.mark.parametrize("path", ["/toy/advance", "/workspaces", "/mcp"])
def test_a_client_that_breaks_off_leaves_nothing_in_the_log(
    hasty: Served, path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    caplog.set_level(logging.WARNING, "uvicorn.error")
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handlers", [caplog.handler])
    before = len(hasty.workspaces)
    begun(hasty, path, b'{"minutes":', 400).close()
    time.sleep(0.1)

    assert hasty.post("/toy/advance").status == 400  # it goes on
    assert [record.getMessage() for record in caplog.records] == []
    assert len(hasty.workspaces) == before


def test_a_doubled_key_is_refused_over_http_and_mcp(hasty: Served) -> None:
    mine = hasty.open()
    doubled = '{"minutes":1,"minutes":2}'
    call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"toy_clock_advance","_meta":{},"arguments":'
    opened = '{"as_of_ts":"2025-01-03","as_of_ts":"2025-01-06"}'

    for path, body in (
        ("/toy/advance", doubled),
        ("/workspaces", opened),
        ("/mcp", f"{call}{doubled}}}}}"),
    ):
        reply = hasty.send(
            "POST", path, body, **JSON, **{HEADER: mine, "Mcp-Protocol-Version": "2026-07-28"}
        )
        assert reply.status == 400, (path, reply.text)
        assert ("jsonrpc" in reply.body) is (path == "/mcp"), path
        assert "twice" in reply.body["error"]["message"], path

    assert (
        hasty.post("/toy/advance", {"minutes": 0}, mine).body["as_of_ts"] == "2025-01-06T21:00:00Z"
    )


def test_longest_idle_workspace_is_dropped_when_all_are_taken() -> None:
    with serving(TOYS, WorkspaceLimits(most=2, idle_s=3600, yield_s=300)) as served:
        first = served.open()
        second = served.open()
        served.clock.now_s = 200
        assert served.get("/toy/abc", second).status == 200
        assert served.post("/workspaces").status == 503  # nobody has been idle for long
        served.clock.now_s = 301
        third = served.open()
        assert [served.get("/toy/abc", each).status for each in (first, second, third)] == [
            404,
            200,
            200,
        ]
        assert served.post("/workspaces").status == 503
