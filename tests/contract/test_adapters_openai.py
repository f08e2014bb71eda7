"""OpenAI's two wire formats and the servers that took one of them over: what is sent, what is read,
what is called what.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ktdeval.calls.records.record import routing_of
from ktdeval.errors import ConfigError, ModelError, ProviderError
from ktdeval.harness.chat_messages import (
    NO_TOOL,
    Message,
    ModelRequest,
    Reply,
    ToolCall,
    ToolSpec,
    Usage,
)
from ktdeval.testing import on_each_row
from ktdeval_models.remote.params import CompatibleParams, OpenAIParams, presets
from ktdeval_models.remote.vendors.openai import make_compatible, make_openai
from support.providers.adapter_server import (
    LOOK,
    QUESTION,
    SUBMIT,
    Prepared,
    PreparedServer,
    ask,
    prepared,
)
from support.providers.stub_provider import KEY, running_stub

APIS = ("responses", "chat")
CALLS = (
    ToolCall("call_a", "get_snapshot", '{"id": "S1"}'),
    ToolCall("call_b", "get_snapshot", '{"id": "S2"}'),
)
ROUND = (
    *QUESTION,
    Message("assistant", "Let me see.", CALLS),
    Message("tool", "first", tool_call_id="call_a"),
    Message("tool", "second", tool_call_id="call_b"),
    Message("user", "Submit now."),
)
SCHEMA = {"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"]}
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for preset in presets().values():
        monkeypatch.setenv(preset.variables[0], f"key-of-{preset.provider}-0123456789")

    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def openai_at(base_url: str, api: str = "responses", **params: Any) -> Any:
    return make_openai("stub-model", OpenAIParams(base_url=base_url, api=api, **params))


def server_at(base_url: str, provider: str = "openai_compatible", **params: Any) -> Any:
    return make_compatible(provider, "some-model", CompatibleParams(base_url=base_url, **params))


def completion(
    message: dict[str, Any] | None = None, finish: Any = "stop", **fields: Any
) -> Prepared:
    reply_message = {"role": "assistant", "content": "hi"} if message is None else message
    choices = [{"index": 0, "message": reply_message, "finish_reason": finish}]
    return Prepared({"model": "served", "choices": choices, "usage": USAGE, **fields})


def response(*output: Any, status: str = "completed", **fields: Any) -> Prepared:
    usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    return Prepared(
        {
            "model": "served",
            "status": status,
            "error": None,
            "output": list(output),
            "usage": usage,
            **fields,
        }
    )


def answer_of(raw_body: dict[str, Any]) -> Prepared:
    """An answer of a table: a completion or a response with some fields, another body, or the
    fields of one, with its status.
    """
    if "completion" in raw_body:
        return completion(**raw_body["completion"])

    if "response" in raw_body:
        fields = dict(raw_body["response"])
        return response(*fields.pop("output", ()), **fields)

    body = raw_body.get("body", {key: raw_body[key] for key in raw_body if key != "status"})

    return Prepared(body.encode() if isinstance(body, str) else body, raw_body.get("status", 200))


def sent(model: Any, request: ModelRequest, server: PreparedServer) -> dict[str, Any]:
    """What goes over the wire."""
    model.reply(request)
    body: dict[str, Any] = server.bodies[-1]
    return body


@pytest.fixture
def chat_server() -> Iterator[PreparedServer]:
    with prepared(completion()) as server:
        yield server


@pytest.fixture
def responses_server() -> Iterator[PreparedServer]:
    with prepared(response()) as server:
        yield server


# ---- both APIs against a strict server


@pytest.mark.parametrize("api", APIS)
def test_a_conversation_with_several_calls_is_taken_by_a_strict_server(api: str) -> None:
    with running_stub() as stub:
        model = openai_at(stub.base_url, api)
        for request in (
            ask(),
            ask(tools=(LOOK, SUBMIT)),
            ask(ROUND, (LOOK,)),
            ask(
                (*ROUND[:2], replace(ROUND[2], content=""), *ROUND[3:]),
                (SUBMIT,),
                forced="submit_action",
            ),
            ask(
                (*ROUND, Message("assistant", "I hold."), Message("user", "Once more.")),
                (SUBMIT,),
                forced="submit_action",
            ),
            ask(schema=SCHEMA),
            ask(ROUND),
        ):
            assert model.reply(request).finish_reason in ("stop", "tool_calls")

        assert set(stub.counts) == {"answered"}


def test_both_apis_send_the_same_content() -> None:
    """The stub hashes what was said, offered and forced, whatever the wire."""
    requests = [
        ask(),
        ask(tools=(LOOK, SUBMIT)),
        ask(ROUND, (LOOK,)),
        ask(ROUND, (SUBMIT,), forced="submit_action"),
    ]

    with running_stub() as stub:
        for api in APIS:
            for request in requests:
                openai_at(stub.base_url, api).reply(request)

        digests = [seen.digest for seen in stub.requests]
        assert digests[: len(requests)] == digests[len(requests) :]
        assert len(set(digests)) == len(requests)


@pytest.mark.parametrize("api", APIS)
def test_what_a_misbehaving_model_wrote_can_be_sent_back(api: str) -> None:
    odd = (
        ToolCall("call_1", "get news?", '{"id": '),
        ToolCall("call_2_withheld", "", "[1, 2]"),
        ToolCall("call_3", "x" * 99, ""),
        ToolCall("call_4", "get_snapshot", '{"id": NaN}'),
    )
    results = tuple(Message("tool", "no such tool", tool_call_id=call.id) for call in odd)

    with running_stub() as stub:
        openai_at(stub.base_url, api).reply(
            ask((*QUESTION, Message("assistant", "", odd), *results, Message("user", "Go on.")))
        )
        text = json.dumps(stub.requests[0].body)

    assert set(stub.counts) == {"answered"}
    assert "get_news_" in text
    assert text.count("malformed_arguments") == 3, "no arguments are no malformed ones"


# ---- what is sent to OpenAI


def test_a_response_is_asked_for_as_a_stream_and_not_stored(
    responses_server: PreparedServer,
) -> None:
    model = openai_at(
        f"{responses_server.address}/v1",
        reasoning_summary="auto",
        service_tier="flex",
        extra_body={"truncation": "auto"},
    )
    request = ask(
        ROUND,
        (SUBMIT,),
        forced="submit_action",
        reasoning_effort="low",
        temperature=0.2,
        seed=5,
        max_output_tokens=99,
    )

    assert sent(model, request, responses_server) == {
        "model": "stub-model",
        "stream": True,
        "input": [
            {"role": "system", "content": "You trade."},
            {"role": "user", "content": "Day 3."},
            {"role": "assistant", "content": "Let me see."},
            {
                "type": "function_call",
                "call_id": "call_a",
                "name": "get_snapshot",
                "arguments": '{"id": "S1"}',
            },
            {
                "type": "function_call",
                "call_id": "call_b",
                "name": "get_snapshot",
                "arguments": '{"id": "S2"}',
            },
            {"type": "function_call_output", "call_id": "call_a", "output": "first"},
            {"type": "function_call_output", "call_id": "call_b", "output": "second"},
            {"role": "user", "content": "Submit now."},
        ],
        "temperature": 0.2,
        "max_output_tokens": 99,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": [
            {
                "type": "function",
                "name": "submit_action",
                "description": "Submit.",
                "parameters": SUBMIT.parameters,
                "strict": False,
            }
        ],
        "tool_choice": {"type": "function", "name": "submit_action"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "service_tier": "flex",
        "truncation": "auto",
    }
    assert responses_server.paths == ["/v1/responses"]
    assert responses_server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_a_chat_completion_has_seed_effort_and_whole_length(chat_server: PreparedServer) -> None:
    model = openai_at(f"{chat_server.address}/v1", "chat", service_tier="priority")
    request = ask(
        ROUND,
        (LOOK, SUBMIT),
        forced="submit_action",
        reasoning_effort="none",
        seed=2**40 + 3,
        schema=SCHEMA,
    )

    assert sent(model, request, chat_server) == {
        "model": "stub-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "You trade."},
            {"role": "user", "content": "Day 3."},
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {
                        "id": "call_a",
                        "type": "function",
                        "function": {"name": "get_snapshot", "arguments": '{"id": "S1"}'},
                    },
                    {
                        "id": "call_b",
                        "type": "function",
                        "function": {"name": "get_snapshot", "arguments": '{"id": "S2"}'},
                    },
                ],
            },
            {"role": "tool", "content": "first", "tool_call_id": "call_a"},
            {"role": "tool", "content": "second", "tool_call_id": "call_b"},
            {"role": "user", "content": "Submit now."},
        ],
        "temperature": 0.7,
        "max_completion_tokens": 4096,
        "seed": 3,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "get_snapshot",
                    "description": "One stock.",
                    "parameters": LOOK.parameters,
                },
            },
            {
                "type": "function",
                "function": {
                    "name": "submit_action",
                    "description": "Submit.",
                    "parameters": SUBMIT.parameters,
                },
            },
        ],
        "tool_choice": {"type": "function", "function": {"name": "submit_action"}},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": SCHEMA, "strict": False},
        },
        "reasoning_effort": "none",
        "service_tier": "priority",
    }
    assert chat_server.paths == ["/v1/chat/completions"]


@pytest.mark.parametrize("make", [openai_at, server_at])
@pytest.mark.parametrize(
    "field",
    [
        "messages",
        "tools",
        "tool_choice",
        "max_tokens",
        "max_output_tokens",
        "stream",
        "n",
        "temperature",
    ],
)
def test_extra_fields_cannot_change_fields_of_ours(field: str, make: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=f"extra_body can't hold '{field}': "):
        make("http://h/v1", extra_body={field: 1})


@pytest.mark.parametrize(
    ("make", "name", "problem"),
    [
        (openai_at, "temprature", "'temprature'; did you mean 'temperature'"),
        (server_at, "max_tokens", "'max_tokens'"),
        (server_at, "messages", "'messages'"),
    ],
)
def test_a_field_that_is_required_or_unknown_can_not_be_omitted(
    make: Callable[..., Any], name: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=f"omit can't name {problem}"):
        make("http://h/v1", omit=(name,))


def test_a_field_of_a_server_and_of_ones_own_can_be_omitted() -> None:
    server_at(
        "http://h/v1",
        "vllm",
        omit=("chat_template_kwargs", "thinking_token_budget", "my_field"),
        extra_body={"my_field": 1},
    )


# ---- what is read


def test_a_response_is_read_item_by_item() -> None:
    output = (
        {
            "type": "reasoning",
            "summary": [
                {"type": "summary_text", "text": "I think."},
                {"type": "summary_text", "text": " So."},
            ],
        },
        {
            "type": "message",
            "content": [{"type": "output_text", "text": "A"}, {"type": "output_text", "text": "B"}],
        },
        {"type": "something_new", "content": 1},
        {"type": "function_call", "call_id": "c1", "name": "x", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "y", "arguments": '{"a": 1}'},
    )
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 15},
        "total_tokens": 120,
    }

    with prepared(response(*output, usage=usage)) as server:
        assert openai_at(server.address).reply(ask()) == Reply(
            content="A\nB",
            tool_calls=(ToolCall("c1", "x", "{}"), ToolCall("c2", "y", '{"a": 1}')),
            finish_reason="tool_calls",
            usage=Usage(100, 20, 15, 60, 30),
            reasoning="I think. So.",
            served_by="served",
        )


@on_each_row(
    "answer",
    ({"response": {"status": "incomplete", "incomplete_details": {"reason": "steered"}}},),
    ({"response": {"status": "incomplete", "incomplete_details": None}},),
    ({"response": {"status": "queued"}},),
    ({"response": {"status": "cancelled"}},),
    ({"response": {"status": "failed"}},),
    ({"response": {"output": [{"type": "message", "content": None}]}},),
    ({"response": {"usage": None}},),
    ({"body": [1, 2]},),
    ({"body": '{"status": "completed", "output": [], "usage": {"input_tokens": NaN}}'},),
    ({"completion": {"finish": "something_new"}},),
    (
        {
            "completion": {
                "message": {"role": "assistant", "tool_calls": ["c"]},
                "finish": "tool_calls",
            }
        },
    ),
    ({"completion": {"choices": [], "usage": {"prompt_tokens": 0}}},),
    ({"completion": {"choices": ["x"]}},),
    ({"completion": {"choices": {}}},),
    # Not an empty reply, which would be the model's own.
    ({"completion": {"message": {"content": 5}}},),
    ({"completion": {"message": {"content": {"text": "a"}}}},),
    ({"completion": {"message": {"content": ["a"]}}},),
    ({"completion": {"message": {"content": [{"type": "text", "text": {"value": "a"}}]}}},),
    ({"response": {"output": ["a"]}},),
    (
        {
            "response": {
                "output": [{"type": "message", "content": [{"type": "output_text", "text": None}]}]
            }
        },
    ),
)
def test_answer_of_another_shape_or_unknown_end_is_a_bad_response(
    answer: dict[str, Any],
) -> None:
    with prepared(answer_of(answer)) as server, pytest.raises(ModelError) as caught:
        (server_at if "completion" in answer else openai_at)(server.address).reply(ask())

    assert caught.value.kind == "bad_response"


@on_each_row(
    "answer, kind",
    (
        {"response": {"status": "failed", "error": {"code": "server_error", "message": "no"}}},
        "server",
    ),
    (
        {
            "response": {
                "status": "failed",
                "error": {"code": "rate_limit_exceeded", "message": "no"},
            }
        },
        "rate_limited",
    ),
    (
        {
            "response": {
                "status": "failed",
                "error": {"code": "vector_store_timeout", "message": "no"},
            }
        },
        "server",
    ),
    ({"completion": {"finish": "insufficient_system_resource"}}, "overloaded"),
    ({"completion": {"finish": "network_error"}}, "server"),
    ({"completion": {"finish": "abort"}}, "server"),
    ({"completion": {"finish": "error"}}, "server"),
)
def test_server_that_gave_up_is_a_failure_but_a_policy_block_is_an_outcome(
    answer: dict[str, Any], kind: str
) -> None:
    with prepared(answer_of(answer)) as server, pytest.raises(ModelError) as caught:
        (server_at if "completion" in answer else openai_at)(server.address).reply(ask())

    assert caught.value.kind == kind

    with prepared(
        response(status="failed", error={"code": "invalid_prompt", "message": "no"})
    ) as server:
        assert openai_at(server.address).reply(ask()) == Reply(finish_reason="content_filter")


def read(message: dict[str, Any], finish: str = "stop", **fields: Any) -> Reply:
    with prepared(completion(message, finish, **fields)) as server:
        reply: Reply = server_at(server.address).reply(ask(ROUND))

    return reply


@on_each_row(
    "message, content, reasoning",
    ({"content": "a", "reasoning_content": "r"}, "a", "r"),
    ({"content": "a", "reasoning": "r"}, "a", "r"),
    ({"content": "a", "reasoning_details": [{"type": "reasoning.text", "text": "r"}]}, "a", "r"),
    ({"content": ("<think>\nr\n</think>\n\na")}, "a", "r"),
    ({"content": ("r, so\n</think>\n\na")}, "a", "r, so"),
    ({"content": "<think>cut in the middle"}, "", "cut in the middle"),
    ({"content": 'a JSON text with "</think>" in it'}, 'a JSON text with "</think>" in it', ""),
    ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", ""),
    ({"content": None}, "", ""),
    ({}, "", ""),
)
def test_reasoning_is_a_channel_of_its_own_wherever_a_server_puts_it(
    message: dict[str, Any], content: str, reasoning: str
) -> None:
    reply = read(message)
    assert (reply.content, reply.reasoning) == (content, reasoning)


def test_calls_without_ids_refusals_and_unpaid_usage_are_read() -> None:
    # Calls without ids and with objects for arguments are read.
    calls = [
        {"id": None, "function": {"name": "x", "arguments": {"é": 1}}},
        {"function": {"name": "y", "arguments": ""}},
    ]
    reply = read({"content": None, "tool_calls": calls}, "stop")

    assert reply.tool_calls == (ToolCall("call_3", "x", '{"é": 1}'), ToolCall("call_4", "y", ""))
    assert reply.finish_reason == "tool_calls"
    # A refusal is a refusal whatever the end.
    assert read({"content": None, "refusal": "No."}) == Reply(
        "No.", (), "refusal", Usage(9, 4), served_by="served"
    )

    # A paid server must say what a reply took.
    with prepared(completion(usage=None)) as server:
        assert server_at(server.address, "vllm").reply(ask()).usage == Usage()
        with pytest.raises(ModelError, match="has no count of tokens"):
            server_at(server.address, "deepseek").reply(ask())


@on_each_row(
    "usage, expected",
    ({"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 5}, [9, 4, 0, 5]),
    ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 5}, [9, 4, 0, 5]),
    (
        {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}},
        [9, 4, 0, 5],
    ),
    # Reasoning beside the output, and only in the total.
    (
        {
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "total_tokens": 20,
            "completion_tokens_details": {"reasoning_tokens": 7},
        },
        [9, 11, 7],
    ),
    (
        {
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 50},
        },
        [9, 4, 0, 9],
    ),
    ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": None}, [9, 4]),
    ({"prompt_tokens": 9, "completion_tokens": None, "total_tokens": 13}, [9, 4]),
    # a count without the other would look like all
    ({"prompt_tokens": 9, "completion_tokens": None}, []),
    ({"completion_tokens": 4}, []),
    # One that is no count: the others would look like all.
    ({"prompt_tokens": 9, "completion_tokens": "4"}, []),
    ({"prompt_tokens": 9.0, "completion_tokens": 4, "total_tokens": 13}, []),
    ({"prompt_tokens": -9, "completion_tokens": True}, []),
    (None, []),
)
def test_usage_is_normalised(usage: Any, expected: list[int]) -> None:
    assert read({"content": "a"}, usage=usage).usage == Usage(*expected)


# ---- the servers


FORCED = ask(ROUND, (LOOK, SUBMIT), forced="submit_action")


@on_each_row(
    "provider, effort, tool_choice, extra",
    ("openai_compatible", None, "submit_action", {"seed": 0, "max_tokens": 4096}),
    ("openai_compatible", "high", "submit_action", {"reasoning_effort": "high"}),
    ("vllm", "none", "submit_action", {"chat_template_kwargs": {"enable_thinking": False}}),
    ("vllm", "low", "submit_action", {"reasoning_effort": "low"}),
    ("ollama", "none", "submit_action", {"reasoning_effort": "none"}),
    ("dashscope", None, "submit_action", {"seed": 0}),
    ("dashscope", "none", "submit_action", {"enable_thinking": False}),
    ("dashscope", "high", None, {"enable_thinking": True}),
    ("deepseek", None, None, {"max_tokens": 4096}),
    ("deepseek", "none", "submit_action", {"thinking": {"type": "disabled"}}),
    ("deepseek", "high", None, {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
    ("stepfun", None, None, {"max_tokens": 4096}),
    ("moonshot", None, None, {"max_completion_tokens": 4096}),
    ("moonshot", "none", "submit_action", {"thinking": {"type": "disabled"}}),
    ("moonshot", "low", None, {"reasoning_effort": "low"}),
    ("zhipu", "none", None, {"thinking": {"type": "disabled"}}),
    ("zhipu", "high", None, {"thinking": {"type": "enabled"}}),
    ("minimax", None, None, {"reasoning_split": True}),
    ("volcengine", None, "submit_action", {"max_completion_tokens": 4096}),
    (
        "volcengine",
        "high",
        "submit_action",
        {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
    ),
)
def test_each_server_is_asked_in_its_own_way(
    provider: str, effort: Any, tool_choice: Any, extra: dict[str, Any], chat_server: PreparedServer
) -> None:
    request = replace(FORCED, params=replace(FORCED.params, reasoning_effort=effort))
    body = sent(server_at(chat_server.address, provider), request, chat_server)

    assert body.get("tool_choice") == (
        tool_choice and {"type": "function", "function": {"name": tool_choice}}
    )

    # What can't be forced by name is forced by offering nothing else.
    names = [tool["function"]["name"] for tool in body["tools"]]
    assert names == (["get_snapshot", "submit_action"] if tool_choice else ["submit_action"])
    assert body.items() >= extra.items()

    fields = {
        "thinking",
        "enable_thinking",
        "reasoning_effort",
        "chat_template_kwargs",
        "reasoning_split",
    }

    assert fields & set(body) == fields & set(extra)
    assert ("seed" in body) == (provider in ("openai_compatible", "vllm", "ollama", "dashscope"))
    assert chat_server.headers[-1]["authorization"] == f"Bearer key-of-{provider}-0123456789"


def test_the_fields_that_force_a_tool_and_bound_a_reply_are_options(
    chat_server: PreparedServer,
) -> None:
    model = server_at(
        chat_server.address,
        "deepseek",
        forced_tool="required",
        max_tokens_field="max_completion_tokens",
    )
    body = sent(model, FORCED, chat_server)

    assert body["tool_choice"] == "required"
    assert [tool["function"]["name"] for tool in body["tools"]] == ["submit_action"]
    assert (body["max_completion_tokens"], "max_tokens" in body) == (4096, False)


def test_uncallable_tools_stay_listed_if_the_server_can_forbid_them(
    chat_server: PreparedServer,
) -> None:
    request = replace(FORCED, tool_choice=NO_TOOL)
    named = server_at(chat_server.address, "openai_compatible", forced_tool="named")
    body = sent(named, request, chat_server)

    assert body["tool_choice"] == "none"
    assert [tool["function"]["name"] for tool in body["tools"]] == ["get_snapshot", "submit_action"]

    required = server_at(chat_server.address, "openai_compatible", forced_tool="required")
    assert not {"tools", "tool_choice"} & set(sent(required, request, chat_server))


@pytest.mark.parametrize(
    ("provider", "field"), [("vllm", "thinking_token_budget"), ("dashscope", "thinking_budget")]
)
def test_a_budget_has_the_field_that_a_server_has_for_it(
    provider: str, field: str, chat_server: PreparedServer
) -> None:
    model = server_at(chat_server.address, provider)
    assert sent(model, ask(reasoning_tokens=512), chat_server)[field] == 512
    assert field not in sent(model, ask(), chat_server)

    off = sent(model, ask(reasoning_effort="none"), chat_server)
    assert sent(model, ask(reasoning_tokens=0), chat_server) == off


def test_schemas_are_bounded_if_the_server_or_user_requires_it(
    chat_server: PreparedServer,
) -> None:
    text = {"type": "object", "properties": {"reason": {"type": "string"}}}
    asked = ask(tools=(ToolSpec("submit", "Submit.", text),), forced="submit", schema=text)

    def patterns(**options: Any) -> list[Any]:
        body = sent(server_at(chat_server.address, **options), asked, chat_server)
        schemas = (
            body["tools"][0]["function"]["parameters"],
            body["response_format"]["json_schema"]["schema"],
        )
        return [schema["properties"]["reason"].get("pattern") for schema in schemas]

    assert patterns(provider="vllm") == [None, None]

    of_server = patterns(provider="llama_cpp_python")
    of_user = patterns(provider="openai_compatible", longest_text=200)

    assert [pattern.rpartition("]")[2] for pattern in of_server] == ["{0,1000}$"] * 2
    assert [pattern.rpartition("]")[2] for pattern in of_user] == ["{0,200}$"] * 2


def test_a_server_without_schemas_gets_the_schema_in_the_first_message(
    chat_server: PreparedServer,
) -> None:
    model = server_at(chat_server.address, "zhipu")
    body = sent(model, ask(schema=SCHEMA), chat_server)

    assert body["response_format"] == {"type": "json_object"}
    assert body["messages"][0]["content"].startswith("You trade.\n\nReply with one JSON object")
    assert '"answer"' in body["messages"][0]["content"]

    body = sent(model, ask((Message("user", "Day 3."),), schema=SCHEMA), chat_server)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]

    asked = (Message("system", "Each reply is one JSON object."), Message("user", "Day 3."))
    assert (
        sent(model, ask(asked, schema=SCHEMA), chat_server)["messages"][0]["content"]
        == asked[0].content
    )
    assert (
        sent(
            server_at(chat_server.address, "zhipu", json_mode="json_schema"),
            ask(schema=SCHEMA),
            chat_server,
        )["response_format"]["json_schema"]["schema"]
        == SCHEMA
    )


@on_each_row(
    "provider, answer, means",
    # A failed attempt of a kind.
    ("minimax", {"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "rate_limited"),
    ("minimax", {"base_resp": {"status_code": 1001, "status_msg": "timeout"}}, "server"),
    (
        "minimax",
        {"base_resp": {"status_code": 2013, "status_msg": "invalid params"}},
        "bad_request",
    ),
    (
        "dashscope",
        {
            "error": {"code": "insufficient_quota", "message": "You exceeded your current quota"},
            "status": 429,
        },
        "rate_limited",
    ),
    (
        "dashscope",
        {
            "error": {"code": "Throttling.AllocationQuota", "message": "Allocated quota"},
            "status": 429,
        },
        "rate_limited",
    ),
    (
        "zhipu",
        {"error": {"code": "1302", "message": "High concurrency"}, "status": 429},
        "rate_limited",
    ),
    (
        "moonshot",
        {"error": {"type": "engine_overloaded_error", "message": "busy"}, "status": 429},
        "overloaded",
    ),
    (
        "volcengine",
        {"error": {"code": "ServerOverloaded", "type": "TooManyRequests"}, "status": 429},
        "overloaded",
    ),
    (
        "vllm",
        {
            "body": {
                "object": "error",
                "message": '"auto" tool choice requires --enable-auto-tool-choice',
            },
            "status": 400,
        },
        "bad_request",
    ),
    (
        "ollama",
        {"error": {"message": "model runner has unexpectedly stopped"}, "status": 500},
        "server",
    ),
    # An error that stops the run, and says what to set.
    (
        "minimax",
        {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        "MINIMAX_API_KEY",
    ),
    (
        "minimax",
        {"base_resp": {"status_code": 1004, "status_msg": "not authorized"}},
        "MINIMAX_API_KEY to a valid key",
    ),
    (
        "dashscope",
        {"error": {"code": "Arrearage", "message": "Access denied"}, "status": 400},
        "no quota or balance",
    ),
    (
        "dashscope",
        {"error": {"code": "AllocationQuota.FreeTierOnly", "message": "exhausted"}, "status": 403},
        "no quota or balance",
    ),
    ("deepseek", {"error": {"message": "Insufficient Balance"}, "status": 402}, "DEEPSEEK_API_KEY"),
    (
        "moonshot",
        {"error": {"type": "exceeded_current_quota_error", "message": "suspended"}, "status": 429},
        "no quota or balance",
    ),
    (
        "moonshot",
        {
            "error": {"message": "invalid temperature: only 1 is allowed for this model"},
            "status": 400,
        },
        "omit=temperature",
    ),
    (
        "zhipu",
        {"error": {"code": "1113", "message": "arrears"}, "status": 429},
        "ZHIPUAI_API_KEY or ZAI_API_KEY",
    ),
    (
        "zhipu",
        {"error": {"code": "1211", "message": "Model does not exist"}, "status": 400},
        "there is no model 'some-model'",
    ),
    (
        "volcengine",
        {"error": {"code": "AccountOverdueError", "message": "overdue"}, "status": 403},
        "no quota or balance",
    ),
    (
        "ollama",
        {"error": {"message": "model 'some-model' not found"}, "status": 404},
        "there is no model 'some-model'",
    ),
    # An outcome.
    (
        "dashscope",
        {"error": {"code": "data_inspection_failed", "message": "inappropriate"}, "status": 400},
        "content_filter",
    ),
    ("zhipu", {"error": {"code": "1301", "message": "sensitive"}, "status": 400}, "content_filter"),
    (
        "zhipu",
        {"completion": {"message": {"content": ""}, "finish": "sensitive"}},
        "content_filter",
    ),
    (
        "minimax",
        {"base_resp": {"status_code": 1027, "status_msg": "output sensitive"}},
        "content_filter",
    ),
    (
        "minimax",
        {"completion": {"message": {"content": ""}, "finish": "stop", "output_sensitive": True}},
        "content_filter",
    ),
    (
        "moonshot",
        {"error": {"type": "content_filter", "message": "high risk"}, "status": 400},
        "content_filter",
    ),
    (
        "volcengine",
        {
            "error": {"code": "SensitiveContentDetected.Violence", "message": "sensitive"},
            "status": 400,
        },
        "content_filter",
    ),
    ("stepfun", {"error": {"message": "blocked"}, "status": 451}, "content_filter"),
    (
        "openai_compatible",
        {"completion": {"message": {"content": "half a sen"}, "finish": "content_filter"}},
        "content_filter",
    ),
)
def test_each_server_answer_is_a_failed_attempt_a_stop_or_an_outcome(
    provider: str, answer: dict[str, Any], means: str
) -> None:
    with prepared(answer_of(answer)) as server:
        try:
            outcome = server_at(server.address, provider).reply(ask(tools=(LOOK,))).finish_reason
        except ModelError as error:
            outcome = error.kind
        except ProviderError as error:
            outcome = str(error)

    assert outcome == means or (" " in outcome and means in outcome)


def test_openai_environment_variables_apply_to_openai_only(
    monkeypatch: pytest.MonkeyPatch, chat_server: PreparedServer
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-mine")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", "X-Gateway: secret-value\nAuthorization: Bearer other"
    )
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    server_at(chat_server.address, "deepseek").reply(ask())
    heard = json.dumps(chat_server.headers[-1])

    assert not any(word in heard for word in ("mine", "secret-value", "Bearer other"))

    openai_at(chat_server.address, "chat").reply(ask())
    heard = json.dumps(chat_server.headers[-1])

    assert all(word in heard for word in ("org-mine", "proj-mine", f"Bearer {KEY}"))


def test_the_cache_knows_who_asks_and_no_secret(
    monkeypatch: pytest.MonkeyPatch, chat_server: PreparedServer
) -> None:
    """Organisation, project and headers of a gateway are part of a reply's key; keys, tokens and
    cookies are of none.
    """

    def caller(**environment: str) -> Mapping[str, str]:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)

            model = openai_at(chat_server.address, "chat")
            model.connect()
            return routing_of(model)

    assert caller() == {}
    assert caller(OPENAI_ORG_ID="org-mine", OPENAI_PROJECT_ID="proj_x") == {
        "openai-organization": "org-mine", "openai-project": "proj_x",
    }  # fmt: skip

    lines = [
        "X-Gateway-Account: 0123456789abcdef0123456789abcdef",
        "X-Route: eu",
        "Cookie: a=b",
        "X-Auth: 1",
        "X-Api-Key: 2",
    ]
    lines += [
        "X-Session-Token: 3",
        "X-Odd: sk-0123456789abcdefghij",
        f"X-Echo: {KEY}",
        "User-Agent: me",
        "X-Stainless-OS: none",
    ]

    assert caller(OPENAI_CUSTOM_HEADERS="\n".join(lines)) == {
        "x-gateway-account": "0123456789abcdef0123456789abcdef", "x-route": "eu",
    }  # fmt: skip
