"""Replies as servers send them, over every wire: one fault has one class, and one refusal one next
form.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import ModelError
from ktdeval.harness.chat_messages import Message, Reply, ToolCall
from ktdeval.registry import load_plugins
from support.providers.adapter_server import LOOK, QUESTION, SUBMIT, Prepared, ask, prepared
from support.providers.one_call import ONE_CALL, of_chat

pytestmark = pytest.mark.usefixtures("provider_keys")

FOLDERS = [folder / "shared/data/reported" for folder in Path(__file__).resolve().parents]
REPORTED = next((folder for folder in FOLDERS if folder.is_dir()), None)
SCHEMA = {"type": "object", "properties": {"answer": {"type": "number"}}}

# What stands in a call's arguments, and the text that the harness then judges.
ARGUMENTS: dict[str, tuple[Any, str]] = {
    "text": ('{"id": "S1"}', '{"id": "S1"}'),
    "object": ({"id": "S1"}, '{"id": "S1"}'),
    "encoded twice": ('"{\\"id\\": 1}"', '"{\\"id\\": 1}"'),
    "malformed": ('{"id": ', '{"id": '),
    "python": ("{'id': 1}", "{'id': 1}"),
    "null": (None, "null"),
    "empty": ("", ""),
    "list": ([1, 2], "[1, 2]"),
    "number": (5, "5"),
}


def legacy(name: str, value: Any) -> dict[str, Any]:
    message = {"content": "", "function_call": {"name": name, "arguments": value}}
    return {"choices": [{"message": message, "finish_reason": "function_call"}]}


WIRES = {**ONE_CALL, "legacy": ("openai_compatible", legacy)}


def model_at(address: str, provider: str = "openai_compatible", **params: Any) -> Any:
    return load_plugins().make_model(f"{provider}/big-model", {"base_url": address, **params})


def reply_to(body: Any, provider: str = "openai_compatible") -> Reply:
    with prepared(Prepared(body)) as server:
        reply: Reply = model_at(server.address, provider).reply(ask(tools=(LOOK, SUBMIT)))

    return reply


@pytest.mark.sampled(20)
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", ARGUMENTS)
def test_arguments_in_any_form_are_the_models_and_read_alike_on_every_wire(
    wire: str, fault: str
) -> None:
    provider, answer = WIRES[wire]
    value, text = ARGUMENTS[fault]
    reply = reply_to(answer("get_snapshot", value), provider)

    assert [call.arguments for call in reply.tool_calls] == [text]
    assert reply.finish_reason == "tool_calls"


WORDS = (
    "eos_token",
    "eos",
    "tool_use",
    "toolUse",
    "end_turn",
    "STOP",
    "COMPLETE",
    "stop_sequence",
    None,
    "",
    "null",
)


@pytest.mark.parametrize("word", WORDS)
def test_a_complete_call_is_used_for_any_finish_reason(word: str | None) -> None:
    reply = reply_to(of_chat("get_snapshot", '{"id": "S1"}', word))
    assert (reply.finish_reason, reply.notes) == ("tool_calls", ())


def test_a_word_that_is_not_known_is_noted_with_a_whole_call() -> None:
    assert reply_to(of_chat("get_snapshot", "{}", "enough")).notes == (
        "ended with 'enough', a word that is not known",
    )


def test_calls_with_one_id_or_none_get_ids_of_their_own() -> None:
    function = {"name": "get_snapshot", "arguments": "{}"}
    made = [{"id": id_, "type": "function", "function": function} for id_ in ("a", "a", "")]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    choice = {"message": message, "finish_reason": "tool_calls"}
    calls = reply_to({"model": "m", "choices": [choice]}).tool_calls

    assert [call.id for call in calls] == ["a", "call_2", "call_3"]

    results = [Message("tool", "x", tool_call_id=call.id) for call in calls]
    history = (*QUESTION, Message("assistant", "", calls), *results)
    sent = model_at("http://127.0.0.1:9").encode(ask(history))["messages"]

    assert "content" not in sent[2]
    assert [message["tool_call_id"] for message in sent[3:]] == ["a", "call_2", "call_3"]


@pytest.mark.parametrize("arguments", ['{"id": ', ""])  # its tool requires an argument
def test_unknown_finish_reason_is_named_in_the_error_without_a_whole_call(
    arguments: str,
) -> None:
    with pytest.raises(ModelError, match="'enough', a word that is not known"):
        reply_to(of_chat("get_snapshot", arguments, "enough"))


@pytest.mark.parametrize(
    ("status", "body", "arguments"),
    [
        (
            400,
            {"error": {"code": "tool_use_failed", "failed_generation": "<function=get_snapshot{"}},
            "<function=get_snapshot{",
        ),
        (
            500,
            {"error": {"message": "error parsing tool call: raw='{\"id\": ', err=unexpected end"}},
            '{"id":',
        ),
    ],
    ids=["groq", "ollama"],
)
def test_call_the_server_could_not_parse_is_the_models_and_not_retried(
    status: int, body: Any, arguments: str
) -> None:
    with prepared(Prepared(body, status)) as server:
        reply = model_at(server.address).reply(ask(tools=(LOOK,), forced="get_snapshot"))
        assert len(server.bodies) == 1

    assert [(call.name, call.arguments) for call in reply.tool_calls] == [
        ("get_snapshot", arguments)
    ]


def refusing(*forms: str, words: str, status: int) -> Any:
    """A server that refuses these forms of a schema in its own words."""

    def answer(body: Any) -> Prepared:
        asked = body.get("response_format", {})
        form = "with schema" if "schema" in asked else asked.get("type", "none")
        if form in forms:
            return Prepared({"error": {"message": words, "type": "internal_server_error"}}, status)

        reply_message = {"role": "assistant", "content": '{"answer": 1}'}

        return Prepared(
            {"model": "big-model", "choices": [{"message": reply_message, "finish_reason": "stop"}]}
        )

    return answer


LLAMA_CPP_PYTHON = (
    "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), "
    "'msg': \"Input should be 'text' or 'json_object'\", 'input': 'json_schema'}]"
)


@pytest.mark.parametrize(
    ("forms", "words", "status", "taken"),
    [
        (("json_schema",), LLAMA_CPP_PYTHON, 500, {"type": "json_object", "schema": SCHEMA}),
        (
            ("json_schema", "with schema"),
            "response_format is not supported as json_schema",
            400,
            {"type": "json_object"},
        ),
        (
            ("json_schema", "with schema", "json_object"),
            "response_format: Extra inputs are not permitted",
            422,
            None,
        ),
    ],
    ids=["llama-cpp-python", "json_object", "no format"],
)
def test_refused_schema_falls_back_to_the_next_form_once_and_is_remembered(
    forms: tuple[str, ...], words: str, status: int, taken: Any
) -> None:
    with prepared(refusing(*forms, words=words, status=status)) as server:
        model = model_at(server.address)
        first = model.reply(ask(schema=SCHEMA))
        second = model.reply(ask(schema=SCHEMA))
        asked = [body.get("response_format") for body in server.bodies]

    assert len(asked) == len(forms) + 2
    assert asked[-2:] == [taken, taken]
    assert first.content == second.content == '{"answer": 1}'
    assert first.notes == second.notes
    assert "response_format: json_schema was refused" in first.notes[0]


def test_if_every_form_is_refused_the_error_lists_them_and_is_permanent() -> None:
    refuse = Prepared({"error": {"message": "response_format is not supported"}}, 500)
    with prepared(refuse) as server, pytest.raises(ModelError) as caught:
        model_at(server.address).reply(ask(schema=SCHEMA))

    assert caught.value.kind == "bad_request"
    assert "tried response_format json_schema, then response_format json_object" in str(
        caught.value
    )


def needs_content(body: Any) -> Prepared:
    """A server whose chat template reads the content of every message."""
    if all("content" in message for message in body["messages"]):
        return Prepared(of_chat("get_snapshot", "{}"))

    message = "'dict object' has no attribute 'content'"

    return Prepared({"error": {"message": message, "type": "internal_server_error"}}, 500)


def test_call_only_turn_gets_empty_content_if_the_server_requires_it() -> None:
    call = ToolCall("a", "get_snapshot", "{}")
    turns = (
        *QUESTION,
        Message("assistant", "", (call,)),
        Message("tool", "7", tool_call_id="a"),
    )

    with prepared(needs_content) as server:
        model = model_at(server.address)
        first = model.reply(ask(turns, (LOOK,)))
        model.reply(ask(turns, (LOOK,)))
        sent = [body["messages"][2].get("content") for body in server.bodies]

    assert sent == [None, "", ""]
    assert first.notes == ("content of calls: left out was refused, sent empty",)


@pytest.mark.skipif(REPORTED is None, reason="the reported inputs are not here")
def test_the_reported_replies_are_read_by_their_right_values() -> None:
    assert REPORTED is not None

    ended, same_id, refused, other = (
        json.loads(next(REPORTED.glob(f"{n}_*")).read_text()) for n in (11, 12, 13, 14)
    )

    assert reply_to(ended).tool_calls[0].name == "submit_action"
    assert len({call.id for call in reply_to(same_id).tool_calls}) == 2

    with pytest.raises(ModelError, match="rate-limited upstream") as caught:
        reply_to(refused)

    assert caught.value.kind == "rate_limited"
    assert reply_to(other).served_by == "small-fallback-model via UpstreamB"
