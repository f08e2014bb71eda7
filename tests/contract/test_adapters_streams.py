"""Streamed replies: the same typed reply, or the same typed error, as of the whole answer, however a
body is cut; and what a listener hears of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.errors import ModelError
from ktdeval.harness import ModelRequest, Reply, ReplyPiece
from ktdeval.values import loads_strict
from ktdeval_models.remote.params import AnthropicParams, CompatibleParams, OpenAIParams
from ktdeval_models.remote.replies.read_tool_calls import loads_reply
from ktdeval_models.remote.streams.anthropic import MessageAssembler
from ktdeval_models.remote.streams.chat import ChatAssembler
from ktdeval_models.remote.streams.events import EventReader, StreamEvent
from ktdeval_models.remote.streams.responses import ResponsesAssembler
from ktdeval_models.remote.transport import BodyError
from ktdeval_models.remote.vendors.anthropic import AnthropicModel
from ktdeval_models.remote.vendors.openai import make_compatible, make_openai
from support.providers.adapter_server import LOOK, SUBMIT, Prepared, ask, failure_of, prepared
from support.providers.stub_neutral import KEY
from support.providers.stub_streams import chunks_of, event_bytes, stream_of

pytestmark = pytest.mark.usefixtures("provider_keys")

EVENTS = {"Content-Type": "text/event-stream; charset=utf-8"}
DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["", "<think>so</think>yes", "收盘价 12.3 元", "😀 up", "data: x\n\nevent: y\r\n"]
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["get_snapshot", "submit_action", "none_such"]),
        st.sampled_from(['{"id": "a"}', "{}", '{"id": "é', "", "[1]", '{"x": NaN}', '{"y": "\\u00e9"}']),
    ),
    max_size=4,
)  # fmt: skip


def model_at(address: str) -> Any:
    return make_compatible("openai_compatible", "m", CompatibleParams(base_url=f"{address}/v1"))


def heard_by(request: ModelRequest) -> tuple[ModelRequest, list[ReplyPiece]]:
    """The request with a listener, and what it hears."""
    heard: list[ReplyPiece] = []
    return replace(request, listener=heard.append), heard


def completion(
    content: str | None,
    calls: Sequence[tuple[str, str]] = (),
    finish: str | None = "stop",
    **fields: Any,
) -> dict[str, Any]:
    """A whole answer of Chat Completions."""
    message: dict[str, Any] = {"role": "assistant", "content": content, **fields}
    if calls:
        message["tool_calls"] = [
            {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": text}}
            for at, (name, text) in enumerate(calls)
        ]

    choice = {"index": 0, "message": message, "finish_reason": finish}

    return {"id": "x", "object": "chat.completion", "model": "m-1", "choices": [choice], "usage": USAGE}  # fmt: skip


def assembled(body: bytes, cuts: Sequence[int] = ()) -> Mapping[str, Any]:
    """The answer that a stream adds up to, its bytes cut at some places."""
    assembler = ChatAssembler(lambda _: None, loads_reply)
    at = 0

    for cut in (*sorted(cuts), len(body)):
        if assembler.take(body[at:cut]):
            break

        at = cut

    return loads_strict(assembler.answer())  # type: ignore[return-value]


def outcome(model: Any, request: ModelRequest) -> Reply | tuple[str, str]:
    try:
        return model.reply(request)  # type: ignore[no-any-return]
    except ModelError as error:
        return error.kind, str(error)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.data(), TEXTS, TEXTS, CALLS, st.sampled_from(["stop", "length", "tool_calls", None]))
def test_a_stream_cut_anywhere_adds_up_to_the_whole_answer(
    data: st.DataObject,
    content: str,
    thought: str,
    calls: list[tuple[str, str]],
    finish: str | None,
) -> None:
    def cut(text: str) -> list[str]:
        size = data.draw(st.integers(1, 9))
        return [text[at : at + size] for at in range(0, len(text), size)]

    answer = completion(content or None, calls, finish, reasoning_content=thought)
    body = stream_of(answer, cut)
    places = data.draw(st.lists(st.integers(0, len(body)), max_size=12))
    model = make_openai("m", OpenAIParams(api="chat"))
    request = ask(tools=(LOOK, SUBMIT))

    def read(said: Mapping[str, Any]) -> Any:
        with suppress(ModelError):  # a reply without words: the same of both, without its place
            return model.decode(said, request, {})

        return None

    assert read(assembled(body, places)) == read(answer)


@pytest.mark.parametrize(
    ("form", "texts"),
    [("unknown", ("Let me", " look.")), ("MiniMax-response-v1", ("Let", "Let me look."))],
)
def test_details_of_reasoning_add_up_to_those_of_a_whole_answer(
    form: str, texts: tuple[str, str]
) -> None:
    about = {"type": "reasoning.text", "format": form, "index": 0}
    sealed = {"type": "reasoning.encrypted", "data": "x", "index": 1}
    pieces = [*({**about, "text": text} for text in texts), sealed]
    chunks = [
        {"choices": [{"index": 0, "delta": {"reasoning_details": [piece]}}]} for piece in pieces
    ]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE}
    message = assembled(_events(*chunks, end) + DONE)["choices"][0]["message"]

    assert message["reasoning_details"] == [{**about, "text": "Let me look."}, sealed]


def _events(*values: Any) -> bytes:
    return b"".join(map(event_bytes, values))


ANSWER = completion("All is said.")
CHUNKS = list(chunks_of(ANSWER))
DEEP = json.loads("[" * 500 + "]" * 500)
ERROR = {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}


@pytest.mark.parametrize(
    ("body", "whole"),
    [
        pytest.param(_events(*CHUNKS), ANSWER, id="the last word is missing"),
        pytest.param(_events(*CHUNKS).replace(b"\n", b"\r\n") + DONE, ANSWER, id="CRLF"),
        pytest.param(_events(*CHUNKS).replace(b"\n", b"\r") + DONE, ANSWER, id="CR"),
        pytest.param(b"\xef\xbb\xbf" + _events(*CHUNKS) + DONE, ANSWER, id="byte order mark"),
        pytest.param(
            _events({**CHUNKS[0], "debug": DEEP}, *CHUNKS[1:]) + DONE, {**ANSWER, "debug": DEEP},
            id="a deep field that nobody reads",
        ),
        pytest.param(_events(*CHUNKS[:3]), b"{", id="cut between two events"),
        pytest.param(_events(*CHUNKS[:3]) + b'data: {"choices": [{"del', b"{", id="cut in one"),
        pytest.param(b": only comments\n\n", b"{", id="no event"),
        pytest.param(DONE, {"choices": []}, id="nothing but the last word"),
        pytest.param(b"data: what?\n\n" + DONE, b"{", id="no JSON"),
        pytest.param(_events(*CHUNKS[:3], ERROR) + DONE, ERROR, id="an error in the middle"),
        pytest.param(
            _events(*CHUNKS[:2]) + b"event: error\n" + event_bytes(ERROR["error"]), ERROR,
            id="an event named error",
        ),
        pytest.param(
            _events({"object": "error", "message": "out of memory", "code": 500}),
            {"object": "error", "message": "out of memory", "code": 500}, id="an error without `error`",
        ),
        pytest.param(
            _events({"choices": [{"index": 0, "error": {"message": "bad", "code": 502}}]}),
            {"choices": [{"error": {"message": "bad", "code": 502}}]}, id="an error in the choice",
        ),
        pytest.param(_events(*CHUNKS[:-1]) + DONE, None, id="no usage"),
    ],
)  # fmt: skip
def test_stream_errors_have_the_kinds_of_whole_answers(body: bytes, whole: Any) -> None:
    with prepared(Prepared(body, headers=EVENTS), Prepared(whole or ANSWER)) as server:
        model = model_at(server.address)
        request, heard = heard_by(ask())
        streamed = outcome(model, request)
        if whole is None:  # without the counts of a whole answer it would not be the same reply
            assert streamed == ("bad_response", "openai_compatible/m: the streamed reply has no count of tokens")  # fmt: skip
            assert outcome(model, request) == outcome(model, ask())
            assert heard[-1] == ReplyPiece("whole", "its streams have no count of tokens")
            return

        unstreamed = outcome(model, ask())

    if isinstance(unstreamed, Reply):
        assert streamed == unstreamed
    else:
        assert streamed[0] == unstreamed[0]  # type: ignore[index]


def test_server_that_refuses_streaming_is_asked_again_without_it() -> None:
    refusal = {
        "error": {"message": "Unknown parameter: 'stream_options'.", "param": "stream_options"}
    }

    with prepared(Prepared(refusal, 400), Prepared(ANSWER)) as server:
        model = model_at(server.address)
        request, heard = heard_by(ask())
        replies = [model.reply(request), model.reply(request), model.reply(ask())]

    assert replies[0] == replies[1] == replies[2]  # no note of it in the reply
    assert [body.get("stream") for body in server.bodies] == [True, None, None, None]
    assert [piece.kind for piece in heard] == ["begun", "whole", "whole"]
    assert "Unknown parameter" in heard[1].text


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param(
            [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
             {"index": 0, "id": "b", "function": {"name": "g", "arguments": '{"x": 1}'}}],
            id="one index for all",
        ),
        pytest.param(
            [{"id": "a", "function": {"name": "f", "arguments": "{"}},
             {"function": {"arguments": "}"}},
             {"id": "b", "function": {"name": "g", "arguments": '{"x": 1}'}}],
            id="no index",
        ),
        pytest.param(
            [{"index": 1, "id": "b", "function": {"name": "g", "arguments": '{"x":'}},
             {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
             {"index": 1, "id": "other", "function": {"name": None, "arguments": " 1}"}},
             {"index": 0, "function": {"name": "f", "arguments": "{}"}}],
            id="side by side, later ids differ, a name is repeated",
        ),
        pytest.param(
            [{"index": 0, "id": "a", "name": "f", "arguments": {}},
             {"index": 1, "id": "b", "function": {"name": "g", "arguments": {"x": 1}}}],
            id="arguments as objects",
        ),
    ],
)  # fmt: skip
def test_calls_are_told_apart_however_a_server_numbers_them(deltas: list[Any]) -> None:
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": USAGE}
    model = make_openai("m", OpenAIParams(api="chat"))

    reply = model.decode(assembled(_events(*chunks, end) + DONE), ask(tools=(LOOK,)), {})  # type: ignore[attr-defined]

    said = [(call.id, call.name, json.loads(call.arguments)) for call in reply.tool_calls]

    assert said == [("a", "f", {}), ("b", "g", {"x": 1})]


def test_the_responses_api_streams_the_response_that_it_ends_with() -> None:
    item = {
        "type": "function_call",
        "call_id": "c",
        "name": "get_snapshot",
        "arguments": '{"id": 1}',
    }
    said = {"type": "message", "content": [{"type": "output_text", "text": "Look."}]}
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    response = {"status": "completed", "model": "m-1", "output": [said, item], "usage": usage}
    stream = _events(
        {"type": "response.created", "response": {**response, "output": [], "error": None}},
        {"type": "response.output_text.delta", "delta": "Look."},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {**item, "arguments": ""},
        },
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"id": 1}'},
        {"type": "response.completed", "response": response},
    )
    failed = {"code": "server_error", "message": "try again"}
    answers = (
        Prepared(response),
        Prepared(stream, headers=EVENTS),
        Prepared(stream[:-100], headers=EVENTS),
        Prepared(_events({"type": "error", **failed}), headers=EVENTS),
        Prepared({"error": failed}),
    )

    with prepared(*answers) as server:
        model = make_openai("m", OpenAIParams(base_url=server.address))
        request, heard = heard_by(ask(tools=(LOOK,)))
        assert model.reply(ask(tools=(LOOK,))) == model.reply(request)
        cut, error, unstreamed = (failure_of(model, request) for _ in range(3))

    assert [piece.kind for piece in heard[:4]] == ["begun", "text", "call", "call"]
    assert "ends early" in str(cut) or "not a JSON object" in str(cut)
    assert str(error) == str(unstreamed)
    assert server.bodies[1]["stream"] is True


def test_anthropic_streams_blocks_that_add_up_to_the_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    texts = [
        {"type": "thinking", "thinking": "Hm. 😀", "signature": "c2ln"},
        {"type": "text", "text": "Ich schaue nach."},
    ]
    calls = [
        {"type": "tool_use", "id": "t1", "name": "get_snapshot", "input": {"id": "é"}},
        {"type": "tool_use", "id": "t2", "name": "get_snapshot", "input": {}},
    ]
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    usage = {"input_tokens": 7, "output_tokens": 30, "cache_read_input_tokens": 2}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x"}
    whole = {**message, "content": [*texts, *calls], **end, "usage": usage}

    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[Any] = [{"type": "message_start", "message": begun}, {"type": "ping"}]

    for index, block in enumerate([*texts, *calls]):
        empty = {name: "" if name in ("text", "thinking", "signature") else value for name, value in block.items()}  # fmt: skip
        if "input" in block:
            empty["input"] = {}

        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in _deltas_of(block):
            events.append({"type": "content_block_delta", "index": index, "delta": delta})

        events.append({"type": "content_block_stop", "index": index})

    tail = [{"type": "message_delta", "delta": end, "usage": {"output_tokens": 30}}, {"type": "message_stop"}]  # fmt: skip
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    streams = (_events(*events, *tail), _events(*events), _events(*events, overloaded))
    answers = [Prepared(stream, headers=EVENTS) for stream in streams]

    with prepared(Prepared(whole), *answers, Prepared(overloaded)) as server:
        model = AnthropicModel("claude-x", AnthropicParams(base_url=server.address))
        request, heard = heard_by(ask(tools=(LOOK,)))
        assert model.reply(ask(tools=(LOOK,))) == model.reply(request)
        cut, error, unstreamed = (failure_of(model, request) for _ in range(3))

    assert "ends early" in str(cut)
    assert str(error) == str(unstreamed)
    assert "".join(piece.text for piece in heard[:6] if piece.kind == "text") == texts[1]["text"]


def _deltas_of(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The deltas that fill a block, its texts cut in two."""
    deltas = []
    for name in ("thinking", "signature", "text"):
        text = block.get(name, "")
        for piece in filter(None, (text[:4], text[4:])):
            deltas.append({"type": f"{name}_delta", name: piece})

    text = json.dumps(block["input"], separators=(",", ":")) if block.get("input") else ""
    for piece in filter(None, (text[:5], text[5:])):
        deltas.append({"type": "input_json_delta", "partial_json": piece})

    return deltas


HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "delta", "message", "content", "tool_calls", "index", "function", "name",
             "arguments", "id", "type", "usage", "error", "finish_reason", "function_call", "text",
             "response", "item", "output_index", "reasoning"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


ASSEMBLERS = (ChatAssembler, ResponsesAssembler, MessageAssembler)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(HOSTILE, max_size=4), st.sampled_from(ASSEMBLERS))
def test_events_of_any_shape_are_an_answer_or_a_malformed_body(
    events: list[Any], kind: Any
) -> None:
    assembler = kind(lambda _: None, loads_reply)
    with suppress(BodyError):
        assembler.take(_events(*events) + DONE)
        assert isinstance(json.loads(assembler.answer()), dict)


@pytest.mark.slow
@given(st.binary(max_size=60), st.integers(0, 60))
def test_events_do_not_depend_on_where_their_bytes_are_cut(body: bytes, at: int) -> None:
    def read(*chunks: bytes) -> list[StreamEvent]:
        reader = EventReader()
        events = list(chain.from_iterable(map(reader.feed, chunks)))
        return [*events, *reader.end()]

    assert read(body[:at], body[at:]) == read(body)
    assert read(*(bytes([byte]) for byte in body)) == read(body)
