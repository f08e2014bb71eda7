"""The bridge against whoever is not a well-behaved program."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from bridge_clients import (
    LOOK,
    MODEL,
    ONE_CALL,
    SCHEMA,
    TEXT,
    TOKEN,
    Answered,
    Bridge,
    asked_raw,
    bridge,
)
from ktdeval.errors import StoreError
from ktdeval.harness import Message, Opaque, Reply, ToolCall
from ktdeval.testing import text_of
from ktdeval_command.desk.bridge_server import BridgeServer
from ktdeval_command.desk.call_memory import CallMemory
from ktdeval_command.desk.loopback_server import ServerLimits, serving
from ktdeval_command.wire.bridge_request import BridgeRequest
from support.raw_requests import ambiguous_requests, answer_to, statuses
from support.threads import wait_for_error_text

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
GEMINI = "/v1beta/models/m:generateContent"
FORMS = [CHAT, RESPONSES, MESSAGES, GEMINI]
USER = {"role": "user", "content": "Hi"}
QUESTION = json.dumps({"model": "m", "messages": [USER]}).encode()
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def message_of(answered: Answered) -> str:
    message: str = answered.json()["error"]["message"]
    return message


# ---- the token


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"x-api-key": "é"},
        {"x-goog-api-key": TOKEN.upper()},
    ],
)
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (CHAT, "invalid_request_error"),
        (RESPONSES, "invalid_request_error"),
        (MESSAGES, "authentication_error"),
        (GEMINI, "UNAUTHENTICATED"),
    ],
)
def test_without_the_token_nothing_is_read(headers: Any, path: str, kind: str) -> None:
    with bridge() as running:
        answered = asked_raw(running, path, b"no JSON", headers=headers)

    error = answered.json()["error"]
    assert answered.status == 401
    assert kind in (error.get("type"), error.get("status"))
    assert TOKEN not in answered.body.decode()
    assert running.requests == []


@pytest.mark.parametrize(
    "headers",
    [BEARER, {"authorization": f"bearer {TOKEN}"}, {"x-api-key": TOKEN}, {"x-goog-api-key": TOKEN}],
)
def test_the_token_is_taken_where_each_provider_wants_it(headers: Any) -> None:
    with bridge(TEXT) as running:
        assert asked_raw(running, CHAT, QUESTION, headers=headers).status == 200


def test_listings_need_the_token() -> None:
    with bridge() as running:
        assert asked_raw(running, "/v1/models", None, "GET", {}).status == 401
        assert asked_raw(running, "/v1/models", None, "GET").json()["data"][0]["id"] == MODEL


# ---- addresses


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/completions"),
        ("POST", "/completions"),
        ("POST", "/v1/chat/completions/"),
        ("POST", "/v1/responses/compact"),
        ("POST", "/v1/../v1/responses"),
        ("POST", "//other.example/v1/responses"),
        ("POST", "http://other.example/v1/chat/completions"),
        ("POST", "/v1beta/models/m:embedContent"),
        ("POST", "/v1beta/models/..%2F..%2Fm:generateContent"),
        ("GET", "/v1/files"),
        ("GET", CHAT),
        ("GET", "http://other.example/v1/models"),
    ],
)
def test_an_address_that_is_not_spoken_is_refused_with_those_that_are(
    method: str, path: str
) -> None:
    with bridge() as running:
        answered = asked_raw(running, path, None if method == "GET" else b"{}", method)

    assert answered.status == 404
    assert (
        "supported: POST /v1/chat/completions, POST /v1/responses, POST /v1/messages"
        in message_of(answered)
    )
    assert running.requests == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "NEW"])
def test_other_methods_are_refused(method: str) -> None:
    with bridge() as running:
        answered = asked_raw(running, CHAT, None, method)

    assert answered.status == 501
    assert "Unsupported method" in message_of(answered)


def test_a_stream_of_gemini_needs_the_form_of_events() -> None:
    with bridge() as running:
        answered = asked_raw(running, "/v1beta/models/m:streamGenerateContent")

    assert answered.status == 400
    assert message_of(answered) == "streamGenerateContent is supported with ?alt=sse only"


# ---- bodies


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "no text": b"\xff\xfe{",
    "zero": b"\x00",
    "no JSON": b"{'a': 1}",
    "cut": b'{"model": "m", "messages": [',
    "list": b"[]",
    "null": b"null",
    "deep": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "deeper than is read": b'{"a":' + b"[" * 160 + b"]" * 160 + b"}",
    "doubled field": b'{"model": "a", "model": "b"}',
    "NaN": b'{"temperature": NaN}',
    "infinite": b'{"temperature": 1e999}',
    "huge number": b'{"max_tokens": 123456789012345678901234567890}',
    "byte order mark": b"\xef\xbb\xbf{}",
    "nothing in it": b"{}",
    "no model": b'{"messages": [], "input": [], "contents": []}',
    "long model": b'{"model": "' + b"m" * 300 + b'", "input": "x", "contents": 1}',
    "turns are a number": b'{"model": "m", "messages": 5, "input": 5, "contents": 5}',
    "turn is a number": b'{"model": "m", "messages": [5], "input": [5], "contents": [5]}',
    "role is a list": (
        b'{"model": "m", "max_tokens": 9, "messages": [{"role": []}], "input": [{"role": []}],'
        b' "contents": [{"role": []}]}'
    ),
    "unknown role": (
        b'{"model": "m", "messages": [{"role": "root", "content": "x"}], "input": [{"role": "root",'
        b' "content": "x"}], "contents": [{"role": "root", "parts": [{"text": "x"}]}]}'
    ),
    "text is an object": (
        b'{"model": "m", "messages": [{"role": "user", "content": {}}], "input": [{"role": "user",'
        b' "content": {}}], "contents": [{"parts": [{"text": {}}]}]}'
    ),
    "tools are an object": (
        b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}],'
        b' "input": "x", "contents": [{"parts": [{"text": "x"}]}], "tools": {}}'
    ),
    "tool is a text": (
        b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}],'
        b' "input": "x", "contents": [{"parts": [{"text": "x"}]}], "tools": ["t"]}'
    ),
}


@pytest.mark.parametrize("path", FORMS)
def test_hostile_bodies_are_refused_in_the_providers_form(path: str) -> None:
    refused = {}
    with bridge() as running:
        for name, body in HOSTILE.items():
            answered = asked_raw(running, path, body)
            message = message_of(answered)
            refused[name] = answered.status
            assert 0 < len(message) <= 400, name
            assert message.isprintable(), name
            assert answered.headers["x-should-retry"] == "false"

    assert refused == dict.fromkeys(HOSTILE, 400)
    assert running.requests == []


@pytest.mark.parametrize("path", FORMS)
def test_a_body_beyond_the_limit_is_refused_before_it_is_kept(path: str) -> None:
    limits = ServerLimits(body_bytes=1000)
    with bridge(limits=limits) as running:
        answered = asked_raw(running, path, b"x" * 1001)
        far_beyond = asked_raw(running, path, b"", headers={**BEARER, "Content-Length": "99999999"})

    for each in (answered, far_beyond):
        assert each.status == 413
        assert message_of(each) == "the body has over 1,000 bytes"


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"Transfer-Encoding": "chunked"}, "a body needs the header Content-Length"),
        (
            {"Content-Encoding": "gzip"},
            "a compressed body is not supported; send it without Content-Encoding",
        ),
        ({"Content-Length": "-1"}, "Content-Length: expected a whole number"),
        ({"Content-Length": "+5"}, "Content-Length: expected a whole number"),
        ({"Content-Length": "٥"}, "Content-Length: expected a whole number"),
    ],
)
def test_other_forms_of_bodies_are_refused(headers: dict[str, str], message: str) -> None:
    lines = [f"{name}: {value}" for name, value in {**BEARER, **headers}.items()]
    head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\n" + "\r\n".join(lines) + "\r\n\r\n"
    with bridge() as running:
        answer = answer_to(running.server.server_address[1], head.encode())

    assert statuses(answer) == [400]
    assert message.encode() in answer


@pytest.mark.parametrize("name", ambiguous_requests("POST", CHAT))
def test_a_request_readable_in_two_ways_is_refused_with_what_follows(name: str) -> None:
    given = f"Host: 127.0.0.1\r\nx-api-key: {TOKEN}\r\n".encode()
    sent = ambiguous_requests("POST", CHAT)[name].replace(b"Host: 127.0.0.1\r\n", given, 1)
    with bridge() as running:
        answer = answer_to(running.server.server_address[1], sent)

    assert statuses(answer) == [400]
    assert running.requests == []


def test_two_keys_of_one_name_are_refused() -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nx-api-key: wrong\r\nX-Api-Key: {TOKEN}\r\nContent-Length: 0\r\n\r\n"
    with bridge() as running:
        answer = answer_to(running.server.server_address[1], head.encode())

    assert statuses(answer) == [400]
    assert b"the header x-api-key appears more than once" in answer


def opened(running: Bridge, sent: bytes) -> socket.socket:
    """A connection that has sent the head of a request with 10 bytes, and these of them."""
    connection = socket.create_connection(running.server.server_address[:2], timeout=30)
    head = f"POST {CHAT} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 10\r\n\r\n"
    connection.sendall(head.encode() + sent)
    return connection


def received(connection: socket.socket) -> bytes:
    data = b""
    while piece := connection.recv(1 << 16):
        data += piece
    return data


def test_a_body_that_does_not_come_in_time_is_refused() -> None:
    with bridge(limits=ServerLimits(body_s=-1.0)) as running, opened(running, b"{") as connection:
        assert b"the body did not arrive in time" in received(connection)


def test_a_body_that_ends_early_is_refused() -> None:
    with bridge() as running, opened(running, b"{") as connection:
        connection.shutdown(socket.SHUT_WR)
        assert b"the body is shorter than Content-Length" in received(connection)


def test_a_connection_that_falls_silent_is_answered_and_closed() -> None:
    server = BridgeServer(lambda _: TEXT, TOKEN, MODEL, limits=ServerLimits(silence_s=0.01))
    # It is sent before it is read: only what never comes is waited for.
    with opened(Bridge(server), b"{") as connection, serving(server):
        assert b"the body did not arrive in time" in received(connection)


@pytest.mark.exhaustive
def test_connections_beyond_the_limit_are_closed_and_room_comes_back() -> None:
    with bridge(TEXT, limits=ServerLimits(connections=1)) as running:
        with opened(running, b"") as first:
            with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
                asked_raw(running, CHAT, QUESTION)

            first.shutdown(socket.SHUT_WR)
            received(first)  # answered: its thread ends
        for thread in threading.enumerate():
            if "process_request_thread" in thread.name:
                thread.join(30)

        assert asked_raw(running, CHAT, QUESTION).status == 200


# ---- conversations


def calls(*ids: str) -> Any:
    made = [{"id": each, "function": {"name": "look", "arguments": "{}"}} for each in ids]
    return {"role": "assistant", "tool_calls": made}


def result(call_id: str) -> Any:
    return {"role": "tool", "tool_call_id": call_id, "content": "x"}


def refusals(*questions: dict[str, Any]) -> str:
    """What the bridge says of chats that it refuses."""
    with bridge() as running:
        bodies = [json.dumps({"model": "m", **each}).encode() for each in questions]
        answers = [asked_raw(running, CHAT, body) for body in bodies]

    assert {answer.status for answer in answers} == {400}

    return text_of(map(message_of, answers))


def test_calls_and_results_that_do_not_match_are_refused() -> None:
    turns: list[Any] = [
        [USER, result("a")],
        [USER, calls("a"), result("b")],
        [USER, calls("a"), result("a"), result("a")],
        [USER, calls("a"), USER],
        [USER, calls("a", "b"), result("b")],
        [USER, calls("a", "a"), result("a")],
        [{"role": "system", "content": "x"}],
        [],
    ]

    assert refusals(*({"messages": each} for each in turns)) == snapshot("""\
a tool result answers 'a', which is no open tool call of the turn before it
a tool result answers 'b', which is no open tool call of the turn before it
a tool result answers 'a', which is no open tool call of the turn before it
the tool call 'a' has no tool result
the tool call 'a' has no tool result
two tool calls have the id 'a'
the request has no message of a user
the request has no message of a user
""")


def test_results_may_come_in_another_order_and_ids_again_in_a_later_turn() -> None:
    turns = [USER, calls("a", "b"), result("b"), result("a"), calls("a"), result("a")]
    with bridge(TEXT) as running:
        answered = asked_raw(running, CHAT, json.dumps({"model": "m", "messages": turns}).encode())

    assert answered.status == 200
    order = [message.tool_call_id for message in running.asked.messages if message.role == "tool"]
    assert order == ["b", "a", "a"]


def test_half_a_character_is_replaced() -> None:
    body = b'{"model": "m", "messages": [{"role": "user", "content": "cut \\ud83d"}]}'
    with bridge(TEXT) as running:
        assert asked_raw(running, CHAT, body).status == 200

    assert running.asked.messages == (Message("user", "cut ?"),)


def test_malformed_tools_and_a_choice_of_none_of_them_are_refused() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
    choice = {"type": "function", "function": {"name": "sell"}}
    wrong = [{"name": ""}, {"name": "a", "parameters": []}]
    tools = [[{"type": "function", "function": each}] for each in wrong]

    assert refusals(
        {"messages": [USER], "tools": [tool, tool]},
        *({"messages": [USER], "tools": each} for each in tools),
        {"messages": [USER], "tools": [tool], "tool_choice": choice},
    ) == snapshot("""\
two tools are named 'look'
tools[0].function.name: expected 1 to 200 characters, has 0
tools[0].function.parameters: expected an object, was a list
tool_choice: 'sell' is no tool of the request
""")


def test_a_call_with_an_id_of_an_earlier_one_gets_its_own() -> None:
    turns = [USER, calls("call_a"), result("call_a")]
    body = json.dumps({"model": "m", "messages": turns}).encode()
    with bridge(ONE_CALL) as running:
        answered = asked_raw(running, CHAT, body)

    (call,) = answered.json()["choices"][0]["message"]["tool_calls"]
    assert call["id"] != LOOK.id


# ---- answers


def test_equal_replies_are_equal_bytes_but_for_their_number() -> None:
    with bridge(TEXT, TEXT) as running:
        first = asked_raw(running, CHAT, QUESTION).body
        second = asked_raw(running, CHAT, QUESTION).body

    assert first.replace(b"chatcmpl-1", b"chatcmpl-2") == second


def test_a_defect_of_ours_is_answered_and_shown_and_the_bridge_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    replies = iter([ZeroDivisionError("secret"), TEXT])

    def answer(_: BridgeRequest) -> Reply:
        given = next(replies)
        if isinstance(given, Exception):
            raise given
        return given

    server = BridgeServer(answer, TOKEN, MODEL)
    with serving(server):
        made = Bridge(server)
        failed = asked_raw(made, CHAT, QUESTION)
        assert asked_raw(made, CHAT, QUESTION).status == 200

    assert (failed.status, message_of(failed)) == (502, "the bridge failed on this request")
    wait_for_error_text(capsys, "ZeroDivisionError")


# ---- connections that are kept


def kept_request(body: bytes, more: str = "") -> bytes:
    head = f"POST {CHAT} HTTP/1.1\r\nx-api-key: {TOKEN}\r\nContent-Length: {len(body)}\r\n{more}"
    return head.encode() + b"\r\n" + body


LAST = "Connection: close\r\n"


def test_requests_sent_at_once_are_answered_in_order() -> None:
    sent = kept_request(QUESTION) + kept_request(b"[]") + kept_request(QUESTION, LAST)
    with bridge(TEXT, ONE_CALL) as running:
        answer = answer_to(running.server.server_address[1], sent)

    assert statuses(answer) == [200, 400, 200]
    assert answer.index(b"chatcmpl-1") < answer.index(b"chatcmpl-2")


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (kept_request(QUESTION, LAST), "it asks for that"),
        (kept_request(QUESTION).replace(b"HTTP/1.1", b"HTTP/1.0"), "it is of an old version"),
        (kept_request(QUESTION).replace(TOKEN.encode(), b"x"), "it lacks the token"),
        (kept_request(b"x" * 5000), "its body is left unread"),
        (kept_request(QUESTION, "Transfer-Encoding : chunked\r\n"), "a header is none"),
        (kept_request(QUESTION, "Content-Encoding: gzip\r\n"), "its body is packed"),
        (b"NEW / HTTP/1.1\r\n\r\n", "its method is not known"),
    ],
)
def test_a_connection_is_closed_after_a_request(first: bytes, why: str) -> None:
    with bridge(TEXT, limits=ServerLimits(body_bytes=1000)) as running:
        answer = answer_to(running.server.server_address[1], first + kept_request(QUESTION))

    assert len(statuses(answer)) == 1, why
    assert b"Connection: close" in answer


def test_a_request_that_comes_whole_after_closing_is_not_answered() -> None:
    with bridge() as running:
        connection = socket.create_connection(running.server.server_address[:2], timeout=30)
        head = f"POST {CHAT} HTTP/1.1\r\nx-api-key: {TOKEN}\r\nContent-Length: {len(QUESTION)}"
        # Its answer, 100, shows that a thread has taken it.
        connection.sendall(head.encode() + b"\r\nExpect: 100-continue\r\n\r\n")
        assert b"100 Continue" in connection.recv(1000)

    with connection:
        connection.sendall(QUESTION)
        answer = received(connection)

    assert statuses(answer) == [502]
    assert b"the step is over; the bridge no longer answers" in answer
    assert running.requests == []


def test_a_unix_socket_is_listened_on_and_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "bridge"
    server = BridgeServer(lambda _: TEXT, TOKEN, MODEL, unix_socket=path)
    assert server.address == f"unix:{path}"

    with serving(server), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(path))
        connection.sendall(kept_request(QUESTION, LAST))
        answer = received(connection)

    assert statuses(answer) == [200]
    assert (
        json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"]
        == TEXT.content
    )
    assert not path.exists()


def test_a_file_in_the_place_of_the_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "bridge"
    path.write_text("mine")

    with pytest.raises(StoreError, match=r"can't listen on .*: Address already in use"):
        BridgeServer(lambda _: TEXT, TOKEN, MODEL, unix_socket=path)

    assert path.read_text() == "mine"


# ---- calls as the model wrote them


def assistant(*made: ToolCall) -> tuple[Message, ...]:
    return (Message("user", "Hi"), Message("assistant", "", made))


def test_a_call_is_restored_only_with_equal_arguments() -> None:
    signed = ToolCall("a", "look", '{"x": 1.0, "y": [2]}', Opaque("google", "s"))
    other = ToolCall("a", "look", "{}", Opaque("google", "of a conversation beside it"))
    memory = CallMemory()
    memory.keep(Reply(tool_calls=(signed,)))
    memory.keep(Reply(tool_calls=(other,)))

    for arguments in ('{"y":[2],"x":1}', '{"x": 1.0, "y": [2]}'):
        assert memory.restore_messages(assistant(ToolCall("a", "look", arguments))) == assistant(
            signed
        )
    assert memory.restore_messages(assistant(ToolCall("a", "look", ""))) == assistant(other)

    for foreign in (
        ToolCall("a", "look", '{"x": 2}'),
        ToolCall("a", "sell", "{}"),
        ToolCall("b", "look", "{}"),
    ):
        assert memory.restore_messages(assistant(foreign)) == assistant(foreign)
