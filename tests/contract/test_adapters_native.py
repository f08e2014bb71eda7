"""`anthropic` and `google`: what goes over the wire, what comes back, and what each failure is
called.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from ktdeval.calls.records.record import routing_of
from ktdeval.errors import ModelError, ProviderError, UsageError
from ktdeval.harness.chat_messages import (
    NO_TOOL,
    Message,
    ModelRequest,
    Opaque,
    Reply,
    ToolCall,
    Usage,
)
from ktdeval.testing import on_each_row
from ktdeval_models.remote.params import AnthropicParams, GoogleParams
from ktdeval_models.remote.requests.schema_rewrites import closed_schema, readable_schema
from ktdeval_models.remote.vendors.anthropic import AnthropicModel
from ktdeval_models.remote.vendors.google import GoogleModel
from support.providers.adapter_server import (
    LOOK,
    QUESTION,
    SUBMIT,
    Prepared,
    ask,
    failure_of,
    prepared,
)
from support.providers.stub_provider import KEY, Stub, running_stub

pytestmark = pytest.mark.usefixtures("provider_keys")

MODEL = "stub-model"
CALLS = (
    ToolCall("id-1", "get_snapshot", '{"id": "S1"}', Opaque("google", "c2ln")),
    ToolCall("id-2", "get_snapshot", '{"id": "S2"}'),
)
ROUND = (
    *QUESTION,
    Message("assistant", "Two of them.", CALLS),
    Message("tool", "first", tool_call_id="id-1"),
    Message("tool", "second", tool_call_id="id-2"),
    Message("user", "Submit now."),
)
OLD = {"api_version": "2023-06-01"}
FORCED = {"type": "tool", "name": "submit_action"}


def claude(address: str | None = None, name: str = MODEL, **params: Any) -> AnthropicModel:
    """A Claude model; marks for its prompt cache have tests of their own."""
    given = {"prompt_cache": "off", **params}
    return AnthropicModel(name, AnthropicParams(base_url=address, **given))


def gemini(address: str | None = None, **params: Any) -> GoogleModel:
    return GoogleModel(MODEL, GoogleParams(base_url=address, **params))


def message(*content: Any, stop_reason: Any = "end_turn", **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "output_tokens": 2}
    message_fields = {
        "type": "message",
        "model": "claude-x-1",
        "content": list(content),
        "stop_reason": stop_reason,
        "usage": usage,
    }
    return {**message_fields, **fields}


def response(*parts: dict[str, Any], reason: Any = "STOP", **fields: Any) -> dict[str, Any]:
    candidate = {
        "content": {"role": "model", "parts": list(parts)},
        "finishReason": reason,
        "index": 0,
    }
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": "gemini-x-001",
        **fields,
    }


def error(status: int, word: str, text: str, *details: dict[str, Any]) -> Prepared:
    return Prepared(
        {"error": {"code": status, "message": text, "status": word, "details": list(details)}},
        status,
    )


def decoded(body: dict[str, Any], request: ModelRequest | None = None) -> Reply:
    """What the adapter whose answer this is makes of it."""
    model = claude() if "type" in body or "stop_reason" in body else gemini()
    return model.decode(body, request or ask(), {})


# -- what is sent


def test_empty_turns_are_not_sent_and_invalid_names_are_made_to_fit(
    stub: Stub,
) -> None:
    turns = (
        Message("user", "a"),
        Message("assistant", " \n"),
        Message("user", "b"),
        Message("assistant", "c"),
    )

    assert claude().encode(ask(turns))["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "c"}]},
    ]

    odd = Message(
        "assistant",
        "",
        (
            ToolCall("call 3:α", "2 news?", "not JSON"),
            ToolCall("call_4_withheld", "withheld", "[1]"),
        ),
    )
    results = (
        Message("tool", "", tool_call_id="call 3:α"),
        Message("tool", "!", tool_call_id="call_4_withheld"),
    )
    messages = (*QUESTION, Message("assistant", ""), odd, *results)
    wrapped = [{"malformed_arguments": text} for text in ("not JSON", "[1]")]
    made = claude().encode(ask(messages))["messages"]
    names = ("call_3__", "2_news_"), ("call_4_withheld", "withheld")

    assert made[1]["content"] == [
        {"type": "tool_use", "id": id_, "name": name, "input": value}
        for (id_, name), value in zip(names, wrapped, strict=True)
    ]
    assert [block["tool_use_id"] for block in made[2]["content"]] == ["call_3__", "call_4_withheld"]

    contents = gemini().encode(ask(messages))["contents"]
    fits = ("call 3:α", "_2_news_"), ("call_4_withheld", "withheld")

    assert [part["functionCall"] for part in contents[1]["parts"]] == [
        {"id": id_, "name": name, "args": value}
        for (id_, name), value in zip(fits, wrapped, strict=True)
    ]
    assert [part["functionResponse"]["name"] for part in contents[2]["parts"]] == [
        "_2_news_",
        "withheld",
    ]

    for model in (claude(stub.address), gemini(stub.address)):
        assert model.reply(ask(messages, (LOOK,))).finish_reason in ("stop", "tool_calls")


@on_each_row(
    "model, params, call, choice",
    ("claude-opus-4-6", {}, {}, {"type": "tool", "name": "submit_action"}),
    ("claude-haiku-5-5", {}, {}, {"type": "tool", "name": "submit_action"}),
    ("claude-opus-5-5", {}, {}, {"type": "auto"}),
    ("claude-fable-5-2-20261101", {}, {}, {"type": "auto"}),
    ("claude-opus-4-6", {}, {"reasoning_effort": "high"}, {"type": "auto"}),
    ("claude-opus-4-5", {}, {"reasoning_tokens": 2000}, {"type": "auto"}),
    (
        "claude-opus-4-6",
        {},
        {"reasoning_effort": "none"},
        {"type": "tool", "name": "submit_action"},
    ),
    ("claude-opus-5-5", {"forced_tool": "any"}, {}, {"type": "any"}),
    ("claude-opus-4-6", {"forced_tool": "auto"}, {}, {"type": "auto"}),
)
def test_a_tool_is_forced_unless_the_model_or_thinking_forbids_it(
    model: str, params: Any, call: Any, choice: Any
) -> None:
    assert (
        claude(None, model, **params).encode(ask(QUESTION, (SUBMIT,), "submit_action", **call))[
            "tool_choice"
        ]
        == choice
    )


def test_tools_of_which_none_may_be_called_stay_on_offer() -> None:
    request = ask(QUESTION, (LOOK, SUBMIT), NO_TOOL)
    free = ask(QUESTION, (LOOK, SUBMIT))

    assert claude().encode(request)["tools"] == claude().encode(free)["tools"]
    assert claude().encode(request)["tool_choice"] == {"type": "none"}
    assert gemini().encode(request)["tools"] == gemini().encode(free)["tools"]
    assert gemini().encode(request)["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}


@on_each_row(
    "params, call, thinking, effort",
    ({}, {}, None, None),
    ({}, {"reasoning_effort": "xhigh"}, {"type": "adaptive", "display": "summarized"}, "xhigh"),
    ({}, {"reasoning_effort": "none"}, {"type": "disabled"}, None),
    ({}, {"reasoning_tokens": 0}, {"type": "disabled"}, None),
    (
        {},
        {"reasoning_tokens": 1024},
        {"type": "enabled", "budget_tokens": 1024, "display": "omitted"},
        None,
    ),
    (
        {"thinking_display": "summarized"},
        {"reasoning_tokens": 2048, "reasoning_effort": "low"},
        {"type": "enabled", "budget_tokens": 2048, "display": "summarized"},
        "low",
    ),
    ({"thinking": "adaptive", "thinking_display": "default"}, {}, {"type": "adaptive"}, None),
    ({"thinking": "between_tools"}, {"reasoning_effort": "low"}, {"type": "between_tools"}, "low"),
    ({"thinking": "unset"}, {"reasoning_effort": "low"}, None, "low"),
)
def test_reasoning_options_become_thinking_and_effort(
    params: Any, call: Any, thinking: Any, effort: Any
) -> None:
    body = claude(**params).encode(ask(**call))
    assert (body.get("thinking"), body.get("output_config", {}).get("effort")) == (thinking, effort)


@on_each_row(
    "params, call, thinking",
    ({}, {}, {"includeThoughts": True}),
    ({"thoughts": False}, {}, None),
    ({}, {"reasoning_effort": "none"}, {"thinkingBudget": 0}),
    ({}, {"reasoning_tokens": 0}, {"thinkingBudget": 0}),
    ({}, {"reasoning_tokens": 900}, {"includeThoughts": True, "thinkingBudget": 900}),
    ({"thoughts": False}, {"reasoning_effort": "minimal"}, {"thinkingLevel": "MINIMAL"}),
    ({}, {"reasoning_effort": "xhigh"}, {"includeThoughts": True, "thinkingLevel": "XHIGH"}),
)
def test_reasoning_options_become_a_thinking_config(params: Any, call: Any, thinking: Any) -> None:
    assert (
        gemini(**params).encode(ask(**call))["generationConfig"].get("thinkingConfig") == thinking
    )


@on_each_row(
    "make, params, call, mend",
    ("claude", {}, {"reasoning_effort": "minimal"}, "--reasoning-effort"),
    ("claude", {}, {"reasoning_tokens": 500}, "--reasoning-tokens"),
    ("claude", {}, {"reasoning_tokens": 4096}, "--max-output-tokens 4096"),
    ("claude", {"thinking": "budget"}, {}, "--reasoning-tokens"),
    ("claude", {"api_version": "2023-06-01"}, {"temperature": 1.5}, "--temperature"),
    ("gemini", {}, {"reasoning_effort": "low", "reasoning_tokens": 100}, "--reasoning-tokens"),
)
def test_options_that_an_api_does_not_have_stop_the_run_before_a_call(
    make: str, params: Any, call: Any, mend: str
) -> None:
    model = {"claude": claude, "gemini": gemini}[make](**params)
    with pytest.raises(ProviderError, match=mend):
        model.encode(ask(**call))


def test_temperature_is_sent_only_where_supported_and_never_with_thinking() -> None:
    assert "temperature" not in claude().encode(ask())
    assert "temperature" not in claude(**OLD).encode(ask(reasoning_tokens=2000))
    assert (
        claude(**OLD).encode(ask())["temperature"]
        == claude(**OLD).encode(ask(reasoning_tokens=0))["temperature"]
        == 0.7
    )

    config = gemini().encode(ask(temperature=0.3, max_output_tokens=99))["generationConfig"]
    assert (config["temperature"], config["maxOutputTokens"]) == (0.3, 99)


def test_version_key_and_address_are_sent_correctly_in_any_environment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    others = {
        "ANTHROPIC_AUTH_TOKEN": "another",
        "GOOGLE_API_KEY": "another",
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
    }
    addresses = dict.fromkeys(
        ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"), "http://127.0.0.1:9"
    )

    for name, value in (others | addresses | {"GOOGLE_GENAI_API_VERSION": "v9"}).items():
        monkeypatch.setenv(name, value)

    with prepared(Prepared(message({"type": "text", "text": "hi"}))) as server:
        model = claude(f"{server.address}/v1", **OLD)
        assert model.reply(ask()) == Reply("hi", usage=Usage(5, 2), served_by="claude-x-1")

    heard = server.headers[0]

    assert (server.paths, heard["anthropic-version"], model.endpoint) == (
        ["/v1/messages"],
        "2023-06-01",
        server.address,
    )
    assert KEY in (heard.get("x-api-key"), heard.get("authorization", "").removeprefix("Bearer "))

    with caplog.at_level(logging.INFO), prepared(Prepared(response({"text": "hi"}))) as server:
        request = ask(ROUND, (SUBMIT,), "submit_action")
        assert gemini(f"{server.address}/v1").reply(request) == Reply(
            "hi", usage=Usage(5, 2), served_by="gemini-x-001"
        )
        gemini(server.address, api_version="v1").reply(ask())

    assert server.bodies[0] == gemini().encode(request)
    assert server.paths == [
        f"/{version}/models/{MODEL}:generateContent" for version in ("v1beta", "v1")
    ]
    assert server.headers[0]["x-goog-api-key"] == KEY
    assert KEY not in caplog.text


def test_fields_are_omitted_and_added_by_option() -> None:
    model = claude(omit=("system", "effort"), extra_body={"service_tier": "standard_only"})
    body = model.encode(ask(reasoning_effort="low"))

    assert not body.keys() & {"system", "output_config"}
    assert body["service_tier"] == "standard_only"

    extra = {
        "generationConfig": {"topP": 0.9},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
    }
    body = gemini(
        omit=("temperature", "max_output_tokens", "systemInstruction"), extra_body=extra
    ).encode(ask(seed=3))

    assert body["generationConfig"] == {
        "seed": 3,
        "thinkingConfig": {"includeThoughts": True},
        "topP": 0.9,
    }
    assert body["safetySettings"] == extra["safetySettings"]
    assert "systemInstruction" not in body


def test_schemas_are_sent_in_the_part_of_the_language_that_each_api_reads() -> None:
    item = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0}},
        "additionalProperties": False,
    }
    calls = {"type": "array", "minItems": 1, "maxItems": 9, "items": item}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"calls": calls},
        "additionalProperties": False,
    }

    assert claude().encode(ask(schema=schema))["output_config"] == {
        "format": {"type": "json_schema", "schema": closed_schema(schema)}
    }

    config = gemini().encode(ask(schema=schema))["generationConfig"]
    assert (config["responseMimeType"], config["responseJsonSchema"]) == (
        "application/json",
        readable_schema(schema),
    )


def test_schema_claude_cannot_enforce_is_not_sent_and_the_user_is_warned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    weights = {"type": "object", "additionalProperties": {"type": "number"}}
    schema = {
        "type": "object",
        "properties": {"weights": weights},
        "required": ["weights"],
        "additionalProperties": False,
    }
    model = claude()

    with caplog.at_level(logging.WARNING):
        bodies = [model.encode(ask(schema=schema)) for _ in range(2)]

    assert [body.get("output_config") for body in bodies] == [None, None]

    (warning,) = [record.getMessage() for record in caplog.records]
    assert "weights: an object with names of the writer's own" in warning
    assert "--tool-protocol native or text" in warning


# -- thoughts within a round of tool use


def test_a_call_that_needs_missing_signed_thoughts_disables_thinking() -> None:
    silent = (*QUESTION, Message("assistant", "", CALLS), *ROUND[3:])
    body = claude().encode(ask(silent, (SUBMIT,), "submit_action", reasoning_tokens=2000))

    assert (body["thinking"], body["tool_choice"]) == ({"type": "disabled"}, FORCED)

    finished = (*ROUND, Message("assistant", "I hold."), Message("user", "Why?"))
    assert (
        claude().encode(ask(finished, (SUBMIT,), reasoning_tokens=2000))["thinking"]["type"]
        == "enabled"
    )


@pytest.mark.parametrize(
    ("make", "finishes"),
    [
        (
            lambda reason: message({"type": "text", "text": "x"}, stop_reason=reason),
            {
                "end_turn": "stop",
                "stop_sequence": "stop",
                "max_tokens": "length",
                "model_context_window_exceeded": "length",
                "refusal": "refusal",
            },
        ),
        (
            lambda reason: response({"text": "x"}, reason=reason),
            {
                "STOP": "stop",
                "MAX_TOKENS": "length",
                "CONTINUATION": "length",
                "MALFORMED_FUNCTION_CALL": "stop",
                "SAFETY": "content_filter",
                "RECITATION": "content_filter",
                "PROHIBITED_CONTENT": "content_filter",
            },
        ),
    ],
    ids=["anthropic", "google"],
)
def test_every_way_to_stop_has_its_name(make: Any, finishes: dict[str, str]) -> None:
    assert {reason: decoded(make(reason)).finish_reason for reason in finishes} == finishes


# -- what comes back


def test_parallel_calls_come_back_in_order_separate_from_text_and_thoughts() -> None:
    blocks = [
        {"type": "thinking", "thinking": "First.", "signature": "x"},
        {"type": "text", "text": "I look at two."},
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "get_snapshot",
            "input": {"id": "S1", "lookback": 20},
        },
        {"type": "thinking", "thinking": "Then.", "signature": "y"},
        {"type": "tool_use", "id": "toolu_2", "name": "get_snapshot", "input": {"id": "茅台"}},
    ]
    calls = (
        ToolCall("toolu_1", "get_snapshot", '{"id": "S1", "lookback": 20}'),
        ToolCall("toolu_2", "get_snapshot", '{"id": "茅台"}'),
    )
    asked = ask(QUESTION, (LOOK,))
    reply = claude().decode(message(*blocks, stop_reason="tool_use"), asked, {})

    assert replace(reply, opaque=None) == Reply(
        "I look at two.", calls, "tool_calls", Usage(5, 2), "First.\n\nThen.", "claude-x-1"
    )
    results = [Message("tool", "x", tool_call_id=call.id) for call in calls]
    again = claude().encode(ask((*QUESTION, reply.as_message(), *results), (LOOK,)))
    assert again["messages"][1]["content"] == blocks

    parts = [
        {"text": "First.", "thought": True},
        {"text": "I look at two."},
        {"functionCall": {"name": "get_snapshot", "args": {"id": "茅台", "lookback": 20}}},
        {"functionCall": {"name": "get_snapshot"}},
        {"text": "", "thoughtSignature": "c2ln"},
    ]
    # Numbered on from the two calls in the conversation, where the provider gave no id.
    calls = (
        ToolCall("call_3", "get_snapshot", '{"id": "茅台", "lookback": 20}'),
        ToolCall("call_4", "get_snapshot", "{}"),
    )
    reply = decoded(response(*parts), ask(ROUND))

    assert replace(reply, opaque=None) == Reply(
        "I look at two.", calls, "tool_calls", Usage(5, 2), "First.", "gemini-x-001"
    )


def test_usage_counts_the_whole_prompt_and_names_the_cached_parts() -> None:
    cached = {"cache_creation_input_tokens": 300, "cache_read_input_tokens": 4000}
    usage = {
        "input_tokens": 10,
        "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 20},
        **cached,
    }

    assert decoded(message(usage=usage)).usage == Usage(4310, 50, 20, 4000, 300)

    usage = {
        "promptTokenCount": 4000,
        "cachedContentTokenCount": 3000,
        "candidatesTokenCount": 50,
        "thoughtsTokenCount": 20,
    }

    assert decoded(response(usageMetadata=usage)).usage == Usage(4000, 70, 20, 3000, 0)


def test_truncated_call_of_claude_stays_cut_even_if_it_looks_whole() -> None:
    blocks = [
        {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": "submit_action",
            "input": {"orders": []},
        }
        for number in (1, 2)
    ]
    note = {"type": "text", "text": "So far"}

    for reason, content, expected in (
        ("max_tokens", blocks, ['{"orders": []}', '{"orders": []']),
        ("refusal", blocks[:1], ['{"orders": []']),
        ("max_tokens", [*blocks[:1], note], ['{"orders": []}']),
        ("tool_use", blocks[:1], ['{"orders": []}']),
    ):
        assert [
            call.arguments for call in decoded(message(*content, stop_reason=reason)).tool_calls
        ] == expected


@pytest.mark.parametrize(
    "usage",
    [None, {"input_tokens": 10}, {"output_tokens": 50}, {"candidatesTokenCount": 50}],
    ids=str,
)
def test_a_reply_without_its_tokens_is_used_and_counts_none(usage: Any) -> None:
    """It is paid for all the same."""
    assert decoded(message(usage=usage)).usage == Usage()
    assert decoded(response(usageMetadata=usage)).usage == Usage()


def test_a_blocked_prompt_is_an_outcome() -> None:
    blocked = {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 9},
    }
    note = "prompt blocked: PROHIBITED_CONTENT"

    assert decoded(blocked) == Reply(finish_reason="content_filter", usage=Usage(9), notes=(note,))


# A message of one API or a response of the other, of some parts and with some fields; or nothing but fields.
@on_each_row(
    "make, parts, fields",
    ("dict", [], {"type": "message"}),
    ("message", [], {"stop_reason": None}),
    ("message", [], {"stop_reason": "because"}),
    ("message", [], {"content": "hello"}),
    ("message", [], {"content": [1]}),
    ("message", [{"type": "text"}], {}),
    ("message", [{"type": "server_tool_use", "id": "x"}], {}),
    ("dict", [], {}),
    ("dict", [], {"candidates": []}),
    ("dict", [], {"candidates": "hello"}),
    ("dict", [], {"candidates": [1]}),
    ("response", [], {"reason": None}),
    ("response", [], {"reason": "OTHER"}),
    ("response", [], {"reason": "NEW_REASON"}),
    ("response", [{"inlineData": {"data": "x"}}], {}),
    ("response", [{"functionCall": "f()"}], {}),
    ("response", [], {"candidates": [{"content": {"parts": "x"}, "finishReason": "STOP"}]}),
    ("response", [], {"candidates": [{"content": {"parts": [1]}, "finishReason": "STOP"}]}),
)
def test_a_body_of_another_shape_is_a_bad_response_and_never_guessed_at(
    make: str, parts: list[Any], fields: dict[str, Any]
) -> None:
    body = {"message": message, "response": response, "dict": dict}[make](*parts, **fields)
    with pytest.raises(ModelError) as caught:
        decoded(body)

    assert caught.value.kind == "bad_response"


def test_barred_account_stops_the_run_and_a_continuation_is_not_paid_twice() -> None:
    with pytest.raises(ProviderError, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        decoded(response(reason="PUP_LIMITED_DISABLED"))

    body = response({"text": "half"}, reason="CONTINUATION")
    body["candidates"][0]["continuationToken"] = "dG9rZW4="
    with prepared(Prepared(body)) as server:
        assert gemini(server.address).reply(ask()).finish_reason == "length"

    assert len(server.bodies) == 1


# -- failures


def spent(code: str) -> Prepared:
    counted = {
        "type": "rate_limit_error",
        "message": "Limit reached.",
        "details": {"error_code": code},
    }
    return Prepared({"type": "error", "error": counted}, 429, {"retry-after": "12"})


def quota(name: str) -> Prepared:
    text = "You exceeded your current quota, please check your plan and billing details."
    failure = {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaId": name, "quotaValue": "50"}],
    }
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}

    return error(429, "RESOURCE_EXHAUSTED", text, failure, wait)


NO_FORCE = {
    "type": "invalid_request_error",
    "message": 'tool_choice: type "tool" is not supported for this model.',
}
BAD_KEY = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "API_KEY_INVALID",
    "domain": "googleapis.com",
}


LOST = (
    "Function call is missing a thought_signature in functionCall parts. Unexpected for thinking"
    " models."
)


@pytest.mark.parametrize(
    ("make", "answer", "expected"),
    [
        (claude, spent("enforced_spend_limit_reached"), "ANTHROPIC_API_KEY"),
        (claude, spent("organization_on_hold"), "ANTHROPIC_API_KEY"),
        (
            claude,
            Prepared({"type": "error", "error": NO_FORCE}, 400),
            "--model-args forced_tool=auto",
        ),
        (claude, spent("ramp_limit_exceeded"), ("rate_limited", 12)),
        (
            gemini,
            error(
                400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", BAD_KEY
            ),
            "GEMINI_API_KEY",
        ),
        (gemini, quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), "GEMINI_API_KEY"),
        (
            gemini,
            error(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."),
            "GEMINI_API_KEY",
        ),
        (
            gemini,
            error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
            "region",
        ),
        (
            gemini,
            quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"),
            ("rate_limited", 34.5),
        ),
        (gemini, error(400, "INVALID_ARGUMENT", LOST), ("bad_request", None)),
    ],
)
def test_repeatable_failure_stops_the_run_and_others_have_kind_and_wait(
    make: Any, answer: Prepared, expected: str | tuple[str, float | None]
) -> None:
    with prepared(answer) as server:
        problem = failure_of(make(server.address), ask(QUESTION, (SUBMIT,), "submit_action"))

    if isinstance(expected, str):
        assert isinstance(problem, ProviderError)
        assert expected in str(problem)
    else:
        assert isinstance(problem, ModelError)
        assert (problem.kind, problem.retry_after_s) == expected


@on_each_row(
    "text, name",
    (
        (
            "Invalid JSON payload received. Unknown name \"seed\" at 'generation_config': Cannot "
            "find field."
        ),
        "seed",
    ),
    ("Thinking level is not supported for this model.", "thinkingConfig"),
    ("Unsupported value: max_output_tokens", "max_output_tokens"),
)
def test_a_refused_parameter_can_be_left_out(text: str, name: str) -> None:
    with prepared(
        error(400, "INVALID_ARGUMENT", text), Prepared(response({"text": "hi"}))
    ) as server:
        assert f"--model-args omit={name}" in str(failure_of(gemini(server.address)))
        assert gemini(server.address, omit=(name,)).reply(ask()).content == "hi"

    first, second = (body["generationConfig"].keys() for body in server.bodies)

    assert len(first - second) == 1

    with running_stub(refuses=("temperature", "thinking")) as stub:
        assert "omit=temperature" in str(failure_of(claude(stub.address, **OLD)))
        assert claude(stub.address, **OLD, omit=("temperature",)).reply(ask()).content
        assert "omit=thinking" in str(failure_of(claude(stub.address), ask(reasoning_effort="low")))


@pytest.mark.parametrize("name", ["", "a/../b", "a?b", "a b", "/a"])
def test_what_can_be_no_model_is_refused_at_once(name: str) -> None:
    with pytest.raises(UsageError, match="google"):
        GoogleModel(name)


@pytest.mark.slow
def test_cache_key_includes_headers_and_account_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("SECOND_KEY", KEY)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setenv(
        "ANTHROPIC_CUSTOM_HEADERS", "X-Workspace: w-1\nX-Api-Key: other\nAnthropic-Version: old"
    )
    first = AnthropicModel("claude")
    second = AnthropicModel("claude", AnthropicParams(api_key_env="SECOND_KEY"))
    google = GoogleModel("gemini")

    assert routing_of(first) == {}  # nothing is known before

    for model in (first, second, google):
        model.connect()

    assert routing_of(first) == {"x-workspace": "w-1"}
    assert routing_of(second) == {"x-workspace": "w-1", "api_key_env": "SECOND_KEY"}
    assert routing_of(google) == {}  # it is sent nothing of these
