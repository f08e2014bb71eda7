"""Anthropic Messages over the bridge, asked by the `anthropic` package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import pytest
from inline_snapshot import snapshot

from bridge_clients import (
    LOOK,
    LOOK_AGAIN,
    ONE_CALL,
    SCHEMA,
    TEXT,
    TOKEN,
    TWO_CALLS,
    Bridge,
    bridge,
    wire_refusals,
)
from ktdeval.errors import BudgetError, KtdevalError, LeakError, ModelError, ProviderError
from ktdeval.harness import NO_TOOL, Message, Opaque, OwnSettings, Reply, ToolCall, ToolSpec
from ktdeval_command.wire import anthropic_messages

TOOL = {"name": "look", "description": "Look.", "input_schema": SCHEMA}
OTHER = {"name": "wait", "input_schema": {"type": "object"}}
USER = {"role": "user", "content": "Hi"}


@contextmanager
def asking(*answers: Reply | KtdevalError) -> Iterator[tuple[Any, Bridge]]:
    with (
        bridge(*answers) as running,
        anthropic.Anthropic(base_url=running.address, api_key=TOKEN) as client,
    ):
        yield client.messages, running


def question(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 64, "messages": [USER], **fields}


def read(**fields: Any) -> Any:
    return anthropic_messages.read(json.dumps(question(**fields)).encode())


def test_a_text_comes_with_its_tokens_without_those_of_the_cache() -> None:
    with asking(TEXT) as (client, running):
        answer = client.create(**question(model="claude-x", system="Be short."))

    assert [block.text for block in answer.content] == [TEXT.content]
    assert (answer.stop_reason, answer.model) == ("end_turn", "claude-x")
    usage = answer.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens) == (60, 30)
    assert (usage.cache_creation_input_tokens, usage.output_tokens) == (10, 20)
    assert running.asked.messages == (Message("system", "Be short."), Message("user", "Hi"))
    assert running.asked.max_output_tokens == 64


@pytest.mark.parametrize(("reply", "calls"), [(ONE_CALL, [LOOK]), (TWO_CALLS, [LOOK, LOOK_AGAIN])])
def test_calls_go_back_with_their_results(reply: Reply, calls: list[ToolCall]) -> None:
    with asking(reply, TEXT) as (client, running):
        answer = client.create(**question(tools=[TOOL]))
        assert answer.stop_reason == "tool_use"
        results: list[Any] = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": [{"type": "text", "text": call.name}],
            }
            for call in calls
        ]
        turns = [
            USER,
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": [*results, {"type": "text", "text": "And?"}]},
        ]
        client.create(**question(messages=turns, tools=[TOOL]))

    assert running.requests[0].tools == (ToolSpec("look", "Look.", SCHEMA),)
    assert running.requests[1].messages == (
        Message("user", "Hi"),
        Message("assistant", reply.content, tuple(calls)),
        *(Message("tool", "look", tool_call_id=call.id) for call in calls),
        Message("user", "And?"),
    )


@pytest.mark.parametrize(
    "reply",
    [TEXT, ONE_CALL, TWO_CALLS, Reply(), Reply("cut", finish_reason="length")],
)
def test_a_stream_adds_up_to_the_answer_in_one_piece(reply: Reply) -> None:
    with asking(reply, reply) as (client, running):
        whole = client.create(**question(tools=[TOOL]))
        with client.stream(**question(tools=[TOOL])) as stream:
            added = stream.get_final_message()

    assert running.requests[1].streams
    assert added.to_dict().keys() >= {"content", "stop_reason", "usage"}
    for name in ("stop_reason", "stop_sequence", "role", "model"):
        assert getattr(added, name) == getattr(whole, name)
    assert [block.to_dict() for block in added.content] == [
        block.to_dict() for block in whole.content
    ]
    assert added.usage.to_dict() == whole.usage.to_dict()


@pytest.mark.parametrize("arguments", ["{broken", "[1]", '"text"'])
def test_non_object_arguments_are_wrapped_and_returned_unchanged(
    arguments: str,
) -> None:
    call = ToolCall("call_a", "look", arguments)
    reply = Reply(tool_calls=(call,), finish_reason="tool_calls")
    with asking(reply, reply, TEXT) as (client, running):
        answer = client.create(**question(tools=[TOOL]))
        with client.stream(**question(tools=[TOOL])) as stream:
            streamed = stream.get_final_message()
        assert answer.content[0].input == streamed.content[0].input == {"INVALID_JSON": arguments}

        result = {"type": "tool_result", "tool_use_id": "call_a", "is_error": True, "content": "no"}
        turns = [
            USER,
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": [result]},
        ]
        client.create(**question(messages=turns, tools=[TOOL]))

    assert running.requests[2].messages[1] == Message("assistant", "", (call,))
    assert "messages.content.is_error=true" in running.requests[2].ignored


def test_thoughts_keep_their_mark_and_marks_of_the_cache_are_named() -> None:
    mark = {"type": "ephemeral"}
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": mark}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "Yo"},
            ],
        },
        {"role": "system", "content": "New rule."},
        USER,
    ]
    request = read(messages=turns, system=[{"type": "text", "text": "S", "cache_control": mark}])

    assert request.messages == (
        Message("system", "S"),
        Message("user", "Hi"),
        Message("assistant", "Yo", opaque=Opaque("bridge", "s")),
        Message("system", "New rule."),
        Message("user", "Hi"),
    )
    assert request.ignored == ("system.cache_control", "messages.content.cache_control")


@pytest.mark.parametrize(
    ("choice", "tools", "expected"),
    [
        ({"type": "auto", "disable_parallel_tool_use": True}, [TOOL, OTHER], None),
        ({"type": "none"}, [TOOL, OTHER], NO_TOOL),
        ({"type": "any"}, [TOOL], "look"),
        ({"type": "any"}, [TOOL, OTHER], None),
        ({"type": "tool", "name": "wait"}, [TOOL, OTHER], "wait"),
    ],
)
def test_choices_of_tools(choice: Any, tools: list[Any], expected: str | None) -> None:
    assert read(tools=tools, tool_choice=choice).tool_choice == expected


def test_parameters_are_read_and_harmless_extras_are_named() -> None:
    request = read(
        temperature=1,
        stop_sequences=["END"],
        stream=True,
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
        thinking={"type": "adaptive"},
        metadata={"user_id": "u"},
        top_k=5,
        service_tier="auto",
        context_management={"edits": []},
    )

    assert (request.temperature, request.stop, request.streams) == (1.0, ("END",), True)
    assert request.response_schema == SCHEMA
    assert request.ignored == ("metadata",)
    assert request.own == OwnSettings(
        "messages",
        {
            "max_tokens": request.max_output_tokens,
            "output_config.effort": "low",
            "temperature": 1.0,
            "thinking": {"type": "adaptive"},
            "top_k": 5,
        },
        {
            "max_output_tokens": request.max_output_tokens,
            "temperature": 1.0,
            "reasoning_effort": "low",
            "reasoning_tokens": None,
        },
        {
            "max_output_tokens": "max_tokens",
            "temperature": "temperature",
            "reasoning_effort": "output_config.effort",
        },
        {"service_tier": "auto", "context_management": {"edits": []}},
    )


def test_a_reply_is_cut_before_a_stop_text_and_says_which() -> None:
    with asking(Reply("think END act"), Reply("think END act")) as (client, _):
        answer = client.create(**question(stop_sequences=["END"]))
        with client.stream(**question(stop_sequences=["END"])) as stream:
            streamed = stream.get_final_message()

    for got in (answer, streamed):
        assert got.content[0].text == "think "
        assert (got.stop_reason, got.stop_sequence) == ("stop_sequence", "END")


def test_bad_requests_are_refused_by_their_field() -> None:
    assert wire_refusals(
        read,
        {"tools": [{"type": "web_search_20250305", "name": "w"}]},
        {"tools": [{"type": "bash_20250124", "name": "bash"}]},
        {"mcp_servers": [{"url": "x"}]},
        {"container": "c"},
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
        {"max_tokens": None},
        {"max_tokens": 0},
        {"temperature": "hot"},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user"}]},
    ) == snapshot("""\
unsupported tools[0]: tools[0] of type 'web_search_20250305' is not supported by this bridge; supported: custom; switch other tools off in the program's settings
unsupported tools[0]: tools[0] of type 'bash_20250124' is not supported by this bridge; supported: custom; switch other tools off in the program's settings
unsupported mcp_servers: mcp_servers is not supported by this bridge; supported: tools with an input_schema; the bridge asks no servers
unsupported container: container is not supported by this bridge; supported: requests without a container
unsupported messages[0].content[0]: messages[0].content[0] of type 'image' is not supported by this bridge; supported: text, tool_result
bad_request max_tokens: max_tokens: expected a whole number of at least 1, is missing
bad_request max_tokens: max_tokens: expected a whole number of at least 1
bad_request temperature: temperature: expected a number from 0 to 2
bad_request messages[0].role: messages[0].role: expected one of user, assistant, system
bad_request messages[0].content: messages[0].content: expected a text or a list of blocks, is missing
""")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (BudgetError("budget"), 402, "billing_error"),
        (LeakError("stopped"), 400, "invalid_request_error"),
        (ModelError("overloaded", "busy"), 529, "overloaded_error"),
        (ModelError("timeout", "late"), 504, "timeout_error"),
        (ModelError("rate_limited", "slow"), 429, "rate_limit_error"),
        (ModelError("server", "broken"), 500, "api_error"),
        (ProviderError("no access"), 403, "permission_error"),
    ],
)
def test_failures_come_in_the_providers_form_and_are_not_tried_again(
    error: KtdevalError, status: int, kind: str
) -> None:
    with asking(error) as (client, running), pytest.raises(anthropic.APIStatusError) as caught:
        client.create(**question())

    assert caught.value.status_code == status
    assert caught.value.body["error"] == {"type": kind, "message": str(error)}
    assert len(running.requests) == 1


def test_a_prompt_that_is_too_long_is_refused_in_words_that_programs_know() -> None:
    words = "prompt is too long: over 8,000 tokens"
    error = ModelError("context_exceeded", "over 8,000 tokens")
    with asking(error) as (client, _), pytest.raises(anthropic.BadRequestError, match=words):
        client.create(**question())


def test_tokens_are_estimated_without_asking_the_model() -> None:
    with asking() as (client, running):
        few = client.count_tokens(model="m", messages=[USER]).input_tokens
        more = client.count_tokens(
            model="m", messages=[USER], tools=[TOOL], system="x" * 300
        ).input_tokens

    # 2 bytes in one message; 300 more in a second one, and those of the tool.
    assert few == 1 + 4
    assert more > few + 100
    assert running.requests == []
