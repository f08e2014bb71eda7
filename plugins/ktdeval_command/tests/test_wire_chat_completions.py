"""Chat Completions over the bridge, asked by the `openai` package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from inline_snapshot import snapshot

from bridge_clients import (
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
from ktdeval.harness import NO_TOOL, Message, Opaque, Reply, ToolCall
from ktdeval_command.wire import chat_completions

TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": SCHEMA},
}
OTHER = {"type": "function", "function": {"name": "wait"}}
USER = {"role": "user", "content": "Hi"}


@contextmanager
def asking(*answers: Reply | KtdevalError) -> Iterator[tuple[Any, Bridge]]:
    with (
        bridge(*answers) as running,
        openai.OpenAI(base_url=f"{running.address}/v1", api_key=TOKEN) as client,
    ):
        yield client.chat.completions, running


def read(**fields: Any) -> Any:
    body = {"model": "m", "messages": [USER], **fields}
    return chat_completions.read(json.dumps(body).encode())


def test_a_text_comes_with_its_tokens_under_the_name_that_was_asked_for() -> None:
    with asking(TEXT) as (chat, running):
        answer = chat.create(model="gpt-x", messages=[USER])

    assert answer.choices[0].message.content == TEXT.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "gpt-x"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (100, 20)
    assert answer.usage.total_tokens == 120
    assert answer.usage.prompt_tokens_details.cached_tokens == 30
    assert answer.usage.completion_tokens_details.reasoning_tokens == 5
    assert running.asked.messages == (Message("user", "Hi"),)
    assert running.asked.asked_model == "gpt-x"


@pytest.mark.parametrize(
    "reply", [TEXT, ONE_CALL, TWO_CALLS, Reply(), Reply("cut", finish_reason="length")]
)
def test_a_stream_adds_up_to_the_answer_in_one_piece(reply: Reply) -> None:
    question = {"model": "m", "messages": [USER], "tools": [TOOL]}
    with asking(reply, reply) as (chat, _):
        whole = chat.create(**question)
        with chat.stream(**question, stream_options={"include_usage": True}) as stream:
            stream.until_done()
        added = stream.current_completion_snapshot

    assert (added.choices[0].message.content or "") == (whole.choices[0].message.content or "")
    assert calls_of(added) == calls_of(whole)
    assert added.choices[0].finish_reason == whole.choices[0].finish_reason
    assert added.usage == whole.usage


def calls_of(answer: Any) -> list[tuple[str, str, str]]:
    calls = answer.choices[0].message.tool_calls or []
    return [(call.id, call.function.name, call.function.arguments) for call in calls]


def test_results_go_back_with_the_calls_as_the_model_wrote_them() -> None:
    signed = ToolCall("call_a", "look", '{"id": "S1", "x": 1.50}', Opaque("google", "signature"))
    with asking(Reply(tool_calls=(signed,), finish_reason="tool_calls"), TEXT) as (chat, running):
        answer = chat.create(model="m", messages=[USER], tools=[TOOL])
        turn = answer.choices[0].message.model_dump(exclude_none=True)
        turn["tool_calls"][0]["function"]["arguments"] = '{"x":1.5,"id":"S1"}'  # parsed and written
        result = {"role": "tool", "tool_call_id": "call_a", "content": "10.5"}
        chat.create(model="m", messages=[USER, turn, result], tools=[TOOL])

    assert running.requests[1].messages == (
        Message("user", "Hi"),
        Message("assistant", "", (signed,)),
        Message("tool", "10.5", tool_call_id="call_a"),
    )


@pytest.mark.parametrize(
    ("choice", "tools", "expected", "offered"),
    [
        (None, [TOOL, OTHER], None, ["look", "wait"]),
        ("auto", [TOOL, OTHER], None, ["look", "wait"]),
        ("none", [TOOL, OTHER], NO_TOOL, ["look", "wait"]),
        ("required", [TOOL], "look", ["look"]),
        ("required", [TOOL, OTHER], None, ["look", "wait"]),
        (
            {"type": "function", "function": {"name": "wait"}},
            [TOOL, OTHER],
            "wait",
            ["look", "wait"],
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "wait"}}],
                },
            },
            [TOOL, OTHER],
            "wait",
            ["wait"],
        ),
    ],
)
def test_choices_of_tools(
    choice: Any, tools: list[Any], expected: str | None, offered: list[str]
) -> None:
    request = read(tools=tools, tool_choice=choice)

    assert request.tool_choice == expected
    assert [tool.name for tool in request.tools] == offered


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
            SCHEMA,
        ),
    ],
)
def test_forms_of_the_reply(form: Any, expected: Any) -> None:
    assert read(response_format=form).response_schema == expected


def test_parameters_are_read_and_harmless_extras_are_named() -> None:
    request = read(
        temperature=0.5,
        max_tokens=10,
        max_completion_tokens=20,
        stop="END",
        stream=True,
        stream_options={"include_usage": True},
        store=False,
        metadata={"a": "b"},
        user="u",
        reasoning_effort="low",
        service_tier="auto",
        seed=None,
        n=1,
        logprobs=False,
        field_of_next_year=1,
    )

    assert (request.temperature, request.max_output_tokens, request.stop) == (0.5, 20, ("END",))
    assert (request.streams, request.streams_usage) == (True, True)
    assert request.ignored == (
        "store",
        "metadata",
        "user",
        "field_of_next_year",
    )
    assert request.own is not None
    assert request.own.fields == {
        "max_completion_tokens": 20,
        "reasoning_effort": "low",
        "temperature": 0.5,
    }
    assert request.own.withheld == {"service_tier": "auto"}


def test_what_can_not_be_carried_is_refused_by_its_field() -> None:
    assert wire_refusals(
        read,
        {"n": 2},
        {"logprobs": True},
        {"web_search_options": {"a": 1}},
        {"functions": [{"name": "f"}]},
        {"modalities": ["text", "audio"]},
        {"tools": [{"type": "custom", "custom": {"name": "c"}}]},
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
            ]
        },
    ) == snapshot("""\
unsupported n: n is not supported by this bridge; supported: one reply a request
unsupported logprobs: logprobs is not supported by this bridge; supported: requests without log probabilities
unsupported web_search_options: web_search_options is not supported by this bridge; supported: tools of type function; the bridge searches nothing
unsupported functions: functions is not supported by this bridge; supported: tools
unsupported modalities: modalities is not supported by this bridge; supported: text
unsupported tools[0]: tools[0] of type 'custom' is not supported by this bridge; supported: function; switch other tools off in the program's settings
unsupported messages[0].content[0]: messages[0].content[0] of type 'image_url' is not supported by this bridge; supported: text
""")


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (BudgetError("budget"), openai.RateLimitError, "insufficient_quota"),
        (LeakError("stopped"), openai.BadRequestError, "leak_stopped"),
        (ModelError("context_exceeded", "long"), openai.BadRequestError, "context_length_exceeded"),
        (ModelError("timeout", "late"), openai.InternalServerError, "timeout"),
        (ModelError("overloaded", "busy"), openai.InternalServerError, "overloaded"),
        (ProviderError("no access"), openai.PermissionDeniedError, "provider_refuses"),
    ],
)
def test_failures_come_in_the_providers_form_and_are_not_tried_again(
    error: KtdevalError, kind: type[openai.APIStatusError], code: str
) -> None:
    with asking(error) as (chat, running), pytest.raises(kind) as caught:
        chat.create(model="m", messages=[USER])

    assert caught.value.code == code
    assert caught.value.body["message"] == str(error)
    assert len(running.requests) == 1
