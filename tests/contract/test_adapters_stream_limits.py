"""Streamed answers of each API: the same answer wherever a body is cut, and time limits for the first
part of a reply and between parts.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.errors import ModelError
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, Reply
from ktdeval_models.remote.params import AnthropicParams, CompatibleParams, OpenAIParams
from ktdeval_models.remote.streams.assembly import unheard
from ktdeval_models.remote.transport import CallClock, TimeLimits
from ktdeval_models.remote.vendors.anthropic import AnthropicModel
from ktdeval_models.remote.vendors.openai import make_compatible, make_openai
from support.providers.adapter_server import LOOK, SUBMIT, Prepared, ask, prepared
from support.providers.raw_server import raw_server, read_request
from support.providers.stub_streams import chunks_of, event_bytes, stream_of

pytestmark = pytest.mark.usefixtures("provider_keys")

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
EVENTS = {"Content-Type": "text/event-stream"}
TEXT = "Ich schaue nach. 收盘价 😀"
ARGUMENTS = '{"id": "é"}'

CHAT: dict[str, Any] = {
    "id": "x",
    "object": "chat.completion",
    "model": "m-1",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "reasoning_content": "Hm. 😀",
                "content": TEXT,
                "tool_calls": [
                    {
                        "id": "c0",
                        "type": "function",
                        "function": {"name": "get_snapshot", "arguments": ARGUMENTS},
                    }
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
}

_ITEM = {
    "type": "function_call",
    "call_id": "c",
    "name": "get_snapshot",
    "arguments": ARGUMENTS,
}
_SUMMARY = [{"type": "summary_text", "text": "Hm. 😀"}]
RESPONSE: dict[str, Any] = {
    "status": "completed",
    "model": "m-1",
    "output": [
        {"type": "reasoning", "id": "rs", "summary": _SUMMARY},
        {"type": "message", "content": [{"type": "output_text", "text": TEXT}]},
        _ITEM,
    ],
    "usage": {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14},
}
RESPONSE_EVENTS = (
    {"type": "response.created", "response": {**RESPONSE, "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}},
    {"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning"}},
    {"type": "response.output_text.delta", "delta": TEXT[:5]},
    {"type": "response.output_text.delta", "delta": TEXT[5:]},
    {"type": "response.output_item.added", "output_index": 2, "item": {**_ITEM, "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": ARGUMENTS},
    {"type": "response.completed", "response": RESPONSE},
)

_BEGUN = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x"}
_THOUGHT = {"type": "thinking", "thinking": "Hm. 😀", "signature": "c2ln"}
_CALL = {"type": "tool_use", "id": "t1", "name": "get_snapshot", "input": {"id": "é"}}
_USAGE = {"input_tokens": 7, "output_tokens": 30, "cache_read_input_tokens": 2}
_END = {"stop_reason": "tool_use", "stop_sequence": None}
MESSAGE: dict[str, Any] = {
    **_BEGUN,
    "content": [_THOUGHT, {"type": "text", "text": TEXT}, _CALL],
    **_END,
    "usage": _USAGE,
}


def _delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _block(index: int, block: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


MESSAGE_EVENTS = (
    {"type": "message_start", "message": {**_BEGUN, "content": [], "usage": {**_USAGE, "output_tokens": 1}}},
    {"type": "ping"},
    _block(0, {"type": "thinking", "thinking": "", "signature": ""}),
    _delta(0, type="thinking_delta", thinking="Hm. "),
    _delta(0, type="thinking_delta", thinking="😀"),
    _delta(0, type="signature_delta", signature="c2ln"),
    {"type": "content_block_stop", "index": 0},
    _block(1, {"type": "text", "text": ""}),
    _delta(1, type="text_delta", text=TEXT[:5]),
    _delta(1, type="text_delta", text=TEXT[5:]),
    {"type": "content_block_stop", "index": 1},
    _block(2, {**_CALL, "input": {}}),
    _delta(2, type="input_json_delta", partial_json=ARGUMENTS[:6]),
    _delta(2, type="input_json_delta", partial_json=ARGUMENTS[6:]),
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": _END, "usage": {"output_tokens": 30}},
    {"type": "message_stop"},
)  # fmt: skip

DIALECTS: Mapping[str, tuple[Callable[[str], Any], dict[str, Any], bytes]] = {
    "chat": (
        lambda url: make_compatible("openai_compatible", "m", CompatibleParams(base_url=url)),
        CHAT,
        stream_of(CHAT),
    ),
    "responses": (
        lambda url: make_openai("m", OpenAIParams(base_url=url)),
        RESPONSE,
        b"".join(map(event_bytes, RESPONSE_EVENTS)),
    ),
    "anthropic": (
        lambda url: AnthropicModel("claude-x", AnthropicParams(base_url=url)),
        MESSAGE,
        b"".join(map(event_bytes, MESSAGE_EVENTS)),
    ),
}
"""For each API that streams: a model at an address, a whole answer, and the stream of the same."""


# ---- the same answer


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(0, 4000), max_size=40))
def test_a_stream_cut_anywhere_gives_the_reply_of_the_whole_answer(
    dialect: str, cuts: list[int]
) -> None:
    make, answer, body = DIALECTS[dialect]
    model = make("http://127.0.0.1:9/v1")
    assembler = model.assembler(unheard)
    places = [0, *sorted(cut for cut in cuts if cut < len(body)), len(body)]
    request = ask(tools=(LOOK, SUBMIT))

    for begin, end in pairwise(places):
        if assembler.take(body[begin:end]):
            break

    streamed = json.loads(assembler.answer())

    assert model.decode(streamed, request, {}) == model.decode(answer, request, {})
    assert not assembler.is_uncounted
    assert assembler.parts > 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_streamed_reply_is_recorded_as_one_that_came_whole(dialect: str) -> None:
    make, answer, body = DIALECTS[dialect]
    with prepared(Prepared(body, headers=EVENTS), Prepared(answer)) as server:
        model = make(f"{server.address}/v1" if dialect != "anthropic" else server.address)
        request = ask(tools=(LOOK, SUBMIT))
        streamed, whole = model.reply(request), model.reply(request)

    assert streamed.to_json() == whole.to_json()
    assert streamed.usage == whole.usage
    assert streamed.usage.output_tokens > 0
    assert (streamed.finish_reason, streamed.reasoning) == ("tool_calls", "Hm. 😀")
    assert [call.name for call in streamed.tool_calls] == ["get_snapshot"]
    assert [body.get("stream") for body in server.bodies] == [True, True]


def test_a_model_that_is_not_to_stream_asks_for_whole_replies() -> None:
    with prepared(Prepared(CHAT)) as server:
        params = CompatibleParams(base_url=f"{server.address}/v1", stream=False)
        model: Any = make_compatible("openai_compatible", "m", params)
        model.reply(ask(tools=(LOOK, SUBMIT)))

    assert "stream" not in server.bodies[0]
    assert model.settings()["stream"] is False  # another key of the cache


# ---- time limits

CHUNKS = [event_bytes(chunk) for chunk in chunks_of(CHAT)]


def call(url: str, gap_s: float, first_s: float) -> Reply:
    """One attempt with these limits."""
    model: Any = make_compatible("openai_compatible", "m", CompatibleParams(base_url=url))
    params = CallParams(timeout_s=gap_s, first_timeout_s=first_s)
    reply: Reply = model.reply(ModelRequest((Message("user", "hello"),), params=params))
    return reply


def late(url: str, gap_s: float, first_s: float) -> str:
    """The message of an attempt that ends as a time-out."""
    with pytest.raises(ModelError) as caught:
        call(url, gap_s, first_s)

    assert caught.value.kind == "timeout"
    return str(caught.value)


def until_gone(connection: socket.socket) -> None:
    """Wait until the client has closed the connection."""
    while connection.recv(1 << 16):
        pass


def test_a_server_that_reads_a_long_prompt_is_waited_for_longer_than_between_parts() -> None:
    def serve(connection: socket.socket) -> None:
        read_request(connection)
        time.sleep(0.05)  # longer than the limit between two parts
        connection.sendall(HEAD + b"".join(CHUNKS) + b"data: [DONE]\n\n")

    with raw_server(serve) as url:
        assert call(url, gap_s=0.001, first_s=240.0).content == TEXT


def test_a_server_that_hangs_after_its_headers_is_given_up_at_the_first_limit() -> None:
    def serve(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(HEAD)
        until_gone(connection)

    with raw_server(serve) as url:
        words = late(url, gap_s=240.0, first_s=0.2)

    assert "no reply, or next part of one, within 0.2 s (--first-timeout-s)" in words


def test_signs_of_life_are_no_part_of_a_reply() -> None:
    def serve(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(HEAD + CHUNKS[0])  # a role, and no word
        while True:  # until the client has gone
            connection.sendall(b": keep-alive\n\n")
            time.sleep(0.01)

    with raw_server(serve) as url:
        assert "--first-timeout-s" in late(url, gap_s=240.0, first_s=0.3)


def test_a_server_that_stops_in_the_middle_is_given_up_at_the_limit_between_parts() -> None:
    def serve(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(HEAD + b"".join(CHUNKS[:4]))
        until_gone(connection)

    with raw_server(serve) as url:
        words = late(url, gap_s=0.2, first_s=240.0)

    assert "no further part of a reply within 0.2 s (--timeout-s)" in words


def test_a_reply_may_take_longer_than_any_limit_if_each_part_comes_in_time() -> None:
    now = [0.0]
    clock = CallClock(lambda: now[0])
    clock.begin(TimeLimits(first_s=240.0, gap_s=5.0))
    now[0] = 239.0  # a local model reads its prompt for four minutes
    assert not clock.is_over

    for _ in range(100):  # then a part each three seconds
        clock.begin_gap(is_silent=False)
        now[0] += 3.0
        assert not clock.is_over

    clock.begin_gap(is_silent=False)
    now[0] += 5.0
    assert clock.is_over


def test_hidden_reasoning_between_two_parts_has_the_time_of_the_first() -> None:
    now = [0.0]
    clock = CallClock(lambda: now[0])
    clock.begin(TimeLimits(first_s=240.0, gap_s=5.0))
    clock.begin_gap(is_silent=True)
    now[0] += 239.0

    assert not clock.is_over


@pytest.mark.parametrize(
    ("dialect", "silent"),
    [("responses", [True, False]), ("anthropic", [True, False, False])],
)
def test_an_assembler_knows_when_a_model_reasons_without_a_word(
    dialect: str, silent: list[bool]
) -> None:
    make, _, _ = DIALECTS[dialect]
    assembler = make("http://127.0.0.1:9/v1").assembler(unheard)
    events = (
        RESPONSE_EVENTS[1:4]
        if dialect == "responses"
        else (MESSAGE_EVENTS[2], *MESSAGE_EVENTS[7:9])
    )
    heard = []
    for event in events:
        assembler.take(event_bytes(event))
        heard.append(assembler.is_silent)

    assert heard[: len(silent)] == silent
