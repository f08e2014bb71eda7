"""`google`: what goes over the wire, what comes back, and what each failure is called."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from adapter_server import Prepared, prepared
from ktdeval.calls.http_errors import Caller
from ktdeval.errors import KtdevalError, ModelError, ProviderError, UsageError
from ktdeval.harness.messages import CallParams, Message, ModelRequest, Opaque, Reply, ToolCall, ToolSpec, Usage
from ktdeval.jsonio import dumps_canonical
from ktdeval_models.remote.google import GoogleModel, readable_schema
from ktdeval_models.remote.params import GoogleParams
from stub_provider import KEY, Stub, running_stub

MODEL = "stub-model"
CALLER = Caller("google", MODEL, "http://127.0.0.1", ("GEMINI_API_KEY", "GOOGLE_API_KEY"))
LOOK = ToolSpec("get_snapshot", "One stock.", {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]})
SUBMIT = ToolSpec(
    "submit_action", "Submit.", {"type": "object", "properties": {"orders": {"type": "array", "items": {"type": "object"}}}}
)
QUESTION = (Message("system", "You trade."), Message("user", "Day 3."))
ROUND = (
    *QUESTION,
    Message(
        "assistant",
        "Two of them.",
        (
            ToolCall("fc-1", "get_snapshot", '{"id": "S1"}', Opaque("google", "c2ln")),
            ToolCall("fc-2", "get_snapshot", '{"id": "S2"}'),
        ),
    ),
    Message("tool", "first", tool_call_id="fc-1"),
    Message("tool", "second", tool_call_id="fc-2"),
    Message("user", "Submit now."),
)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running_stub() as running:
        yield running


def model_at(address: str, **params: Any) -> GoogleModel:
    return GoogleModel(MODEL, GoogleParams(base_url=address, **params))


def ask(
    messages: tuple[Message, ...] = QUESTION, tools: tuple[ToolSpec, ...] = (), forced: str | None = None, **call: Any
) -> ModelRequest:
    return ModelRequest(messages, tools, forced, CallParams(**{"timeout_s": 10.0, **call}))


def body_of(request: ModelRequest, **params: Any) -> dict[str, Any]:
    return GoogleModel(MODEL, GoogleParams(**params)).encode(request)


def response(*parts: dict[str, Any], reason: Any = "STOP", **fields: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": reason, "index": 0}
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-x-001", **fields}


def error(status: int, word: str, text: str, *details: dict[str, Any]) -> Prepared:
    return Prepared({"error": {"code": status, "message": text, "status": word, "details": list(details)}}, status)


def failure_of(model: GoogleModel, request: ModelRequest | None = None) -> KtdevalError:
    with pytest.raises((ModelError, ProviderError)) as caught:
        model.reply(request or ask())
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)
    assert KEY[:12] not in repr(caught.value)
    return caught.value


# -- what is sent


def test_a_round_of_tool_use_becomes_turns_with_results_together_and_signatures_in_place() -> None:
    body = body_of(ask(ROUND, (SUBMIT,), "submit_action"))
    assert body["systemInstruction"] == {"parts": [{"text": "You trade."}]}
    assert body["contents"] == [
        {"role": "user", "parts": [{"text": "Day 3."}]},
        {
            "role": "model",
            "parts": [
                {"text": "Two of them."},
                {"functionCall": {"id": "fc-1", "name": "get_snapshot", "args": {"id": "S1"}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"id": "fc-2", "name": "get_snapshot", "args": {"id": "S2"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "fc-1", "name": "get_snapshot", "response": {"output": "first"}}},
                {"functionResponse": {"id": "fc-2", "name": "get_snapshot", "response": {"output": "second"}}},
            ],
        },
        {"role": "user", "parts": [{"text": "Submit now."}]},
    ]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["submit_action"]}}
    assert body["tools"][0]["functionDeclarations"][0]["name"] == "submit_action"


def test_a_conversation_comes_through_the_sdk_as_it_was_written() -> None:
    with prepared(Prepared(response({"text": "hi"}))) as server:
        model = model_at(f"{server.address}/v1")
        request = ask(ROUND, (SUBMIT,), "submit_action", seed=2**61 + 5)
        assert model.reply(request) == Reply("hi", usage=Usage(5, 2), served_by="gemini-x-001")
    assert server.bodies == [body_of(request)]
    assert server.paths == [f"/v1beta/models/{MODEL}:generateContent"]
    assert server.headers[0]["x-goog-api-key"] == KEY


def test_an_assistant_turn_of_nothing_is_not_sent_and_what_is_no_object_is_wrapped(stub: Stub) -> None:
    odd = Message("assistant", "", (ToolCall("call_1", "2 news?", "not JSON"), ToolCall("call_2", "withheld", "[1]")))
    messages = (
        *QUESTION,
        Message("assistant", ""),
        odd,
        Message("tool", "", tool_call_id="call_1"),
        Message("tool", "!", tool_call_id="call_2"),
    )
    contents = body_of(ask(messages))["contents"]
    assert [part["functionCall"] for part in contents[1]["parts"]] == [
        {"id": "call_1", "name": "_2_news_", "args": {"malformed_arguments": "not JSON"}},
        {"id": "call_2", "name": "withheld", "args": {"malformed_arguments": "[1]"}},
    ]
    assert [part["functionResponse"]["name"] for part in contents[2]["parts"]] == ["_2_news_", "withheld"]
    assert model_at(stub.address).reply(ask(messages, (LOOK,))).finish_reason in ("stop", "tool_calls")


def test_the_signature_of_another_provider_is_never_sent() -> None:
    call = ToolCall("fc-1", "get_snapshot", "{}", Opaque("anthropic", "secret"))
    assert "secret" not in dumps_canonical(body_of(ask((*QUESTION, Message("assistant", "", (call,))))))


def test_signatures_come_back_with_the_calls_they_came_with() -> None:
    calls = [
        {"functionCall": {"id": "fc-1", "name": "get_snapshot", "args": {"id": "S1"}}, "thoughtSignature": "AbC+/9=="},
        {"functionCall": {"id": "fc-2", "name": "get_snapshot", "args": {}}},
    ]
    with prepared(Prepared(response({"text": "Hm.", "thought": True}, *calls)), Prepared(response({"text": "hi"}))) as server:
        model = model_at(server.address)
        reply = model.reply(ask(QUESTION, (LOOK,)))
        results = tuple(Message("tool", "x", tool_call_id=call.id) for call in reply.tool_calls)
        model.reply(ask((*QUESTION, Message("assistant", reply.content, reply.tool_calls), *results), (LOOK,)))
    assert server.bodies[1]["contents"][1] == {"role": "model", "parts": calls}
    assert [call.opaque for call in reply.tool_calls] == [Opaque("google", "AbC+/9=="), None]


@pytest.mark.parametrize(
    ("params", "call", "thinking"),
    [
        ({}, {}, {"includeThoughts": True}),
        ({"thoughts": False}, {}, None),
        ({}, {"reasoning_effort": "none"}, {"thinkingBudget": 0}),
        ({}, {"reasoning_tokens": 0}, {"thinkingBudget": 0}),
        ({}, {"reasoning_tokens": 900}, {"includeThoughts": True, "thinkingBudget": 900}),
        ({"thoughts": False}, {"reasoning_effort": "minimal"}, {"thinkingLevel": "MINIMAL"}),
        ({}, {"reasoning_effort": "xhigh"}, {"includeThoughts": True, "thinkingLevel": "XHIGH"}),
    ],
)
def test_reasoning_options_become_a_thinking_config(params: Any, call: Any, thinking: Any) -> None:
    assert body_of(ask(**call), **params)["generationConfig"].get("thinkingConfig") == thinking


def test_an_effort_and_a_budget_together_are_refused_before_a_call() -> None:
    with pytest.raises(ProviderError, match="--reasoning-tokens"):
        body_of(ask(reasoning_effort="low", reasoning_tokens=100))


def test_sampling_goes_along_with_a_seed_of_the_size_that_the_api_takes() -> None:
    config = body_of(ask(temperature=0.3, max_output_tokens=99, seed=(7 << 31) + 5))["generationConfig"]
    assert (config["temperature"], config["maxOutputTokens"], config["seed"]) == (0.3, 99, 5)


def test_tools_may_be_asked_for_instead_of_forced() -> None:
    assert "toolConfig" not in body_of(ask(QUESTION, (SUBMIT,), "submit_action"), forced_tool="auto")
    assert "toolConfig" not in body_of(ask(QUESTION, (LOOK, SUBMIT)))


def test_schemas_are_sent_without_the_words_that_the_api_does_not_know() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": ["side"],
        "oneOf": [{"required": ["weight"]}, {"required": ["shares"]}],
        "properties": {
            "side": {"enum": ["BUY", "SELL"]},
            "weight": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]},
            "kind": {"const": "limit"},
            "pattern": {"type": "string", "pattern": "[a-z]+", "minLength": 1},
            "rows": {
                "type": "array",
                "items": {"type": "integer", "minimum": 1, "multipleOf": 100},
                "prefixItems": [{"type": "integer"}],
            },
        },
    }
    assert readable_schema(schema) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["side"],
        "properties": {
            "side": {"enum": ["BUY", "SELL"], "type": "string"},
            "weight": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "kind": {"enum": ["limit"], "type": "string"},
            "pattern": {"type": "string"},
            "rows": {"type": "array", "items": {"type": "integer", "minimum": 1}, "prefixItems": [{"type": "integer"}]},
        },
    }
    config = body_of(ModelRequest(QUESTION, response_schema=schema))["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"] == readable_schema(schema)


def test_fields_are_left_out_and_added_as_the_user_says() -> None:
    extra = {"generationConfig": {"topP": 0.9}, "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]}
    with prepared(Prepared(response({"text": "hi"}))) as server:
        model_at(server.address, omit=("temperature", "max_output_tokens", "systemInstruction"), extra_body=extra).reply(
            ask(seed=3)
        )
    body = server.bodies[0]
    assert body["generationConfig"] == {"seed": 3, "thinkingConfig": {"includeThoughts": True}, "topP": 0.9}
    assert body["safetySettings"] == extra["safetySettings"]
    assert "systemInstruction" not in body


def test_the_environment_of_other_services_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in {
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_CLOUD_PROJECT": "p",
        "GOOGLE_API_KEY": "another",
        "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9",
        "GOOGLE_GENAI_API_VERSION": "v9",
    }.items():
        monkeypatch.setenv(name, value)
    with caplog.at_level(logging.INFO), prepared(Prepared(response({"text": "hi"}))) as server:
        assert model_at(server.address, api_version="v1").reply(ask()).content == "hi"
    assert server.paths == [f"/v1/models/{MODEL}:generateContent"]
    assert server.headers[0]["x-goog-api-key"] == KEY
    assert KEY not in caplog.text


# -- what comes back


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        ("MALFORMED_FUNCTION_CALL", "stop"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
    ],
)
def test_every_way_to_stop_has_its_name(reason: str, finish: str) -> None:
    assert GoogleModel(MODEL).decode(response({"text": "x"}, reason=reason), ask(), {}).finish_reason == finish


def test_parallel_calls_come_back_in_order_with_text_and_thoughts_apart() -> None:
    parts = [
        {"text": "First.", "thought": True},
        {"text": "I look at two."},
        {"functionCall": {"name": "get_snapshot", "args": {"id": "茅台", "lookback": 20}}},
        {"functionCall": {"name": "get_snapshot"}},
        {"text": "", "thoughtSignature": "c2ln"},
    ]
    reply = GoogleModel(MODEL).decode(response(*parts), ask(ROUND), {})
    assert reply.content == "I look at two."
    assert reply.reasoning == "First."
    assert reply.finish_reason == "tool_calls"
    assert reply.tool_calls == (  # numbered on from the two calls in the conversation, where the provider gave no id
        ToolCall("call_3", "get_snapshot", '{"id": "茅台", "lookback": 20}'),
        ToolCall("call_4", "get_snapshot", "{}"),
    )


def test_usage_counts_thoughts_as_output_and_names_the_cached_part() -> None:
    usage = {"promptTokenCount": 4000, "cachedContentTokenCount": 3000, "candidatesTokenCount": 50, "thoughtsTokenCount": 20}
    assert GoogleModel(MODEL).decode(response(usageMetadata=usage), ask(), {}).usage == Usage(4000, 70, 20, 3000, 0)
    assert (
        GoogleModel(MODEL).decode(response(usageMetadata=None), ask(), {}).usage == Usage()
    )  # the reply was paid for; it is not thrown away


def test_a_blocked_prompt_is_an_outcome() -> None:
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 9}}
    assert GoogleModel(MODEL).decode(blocked, ask(), {}) == Reply(finish_reason="content_filter", usage=Usage(9))


def test_a_candidate_without_content_is_an_empty_reply() -> None:
    body = response(reason="MAX_TOKENS")
    body["candidates"][0]["content"] = {"role": "model"}
    assert GoogleModel(MODEL).decode(body, ask(), {}).finish_reason == "length"
    del body["candidates"][0]["content"]
    assert GoogleModel(MODEL).decode(body, ask(), {}).content == ""


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"candidates": []},
        {"candidates": "hello"},
        {"candidates": [1]},
        response(reason=None),
        response(reason="OTHER"),
        response(reason="NEW_REASON"),
        response({"inlineData": {"data": "x"}}),
        response({"functionCall": "f()"}),
        response({"functionCall": {"args": {}}}),
        response({"functionCall": {"name": "f", "args": "{}"}}),
        {**response(), "candidates": [{"content": {"parts": "x"}, "finishReason": "STOP"}]},
        {**response(), "candidates": [{"content": {"parts": [1]}, "finishReason": "STOP"}]},
    ],
)
def test_a_body_of_another_shape_is_a_bad_response_and_never_guessed_at(body: Any) -> None:
    with pytest.raises(ModelError) as caught:
        GoogleModel(MODEL).decode(body, ask(), {})
    assert caught.value.kind == "bad_response"


def test_a_barred_account_stops_the_run() -> None:
    with pytest.raises(ProviderError, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        GoogleModel(MODEL).decode(response(reason="PUP_LIMITED_DISABLED"), ask(), {})


def test_a_reply_that_would_go_on_is_not_paid_for_twice() -> None:
    body = response({"text": "half"}, reason="CONTINUATION")
    body["candidates"][0]["continuationToken"] = "dG9rZW4="
    with prepared(Prepared(body)) as server:
        assert model_at(server.address).reply(ask()).finish_reason == "length"
    assert len(server.bodies) == 1


# -- failures


def test_an_invalid_key_comes_as_an_invalid_argument() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
    with prepared(error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", info)) as server:
        problem = failure_of(model_at(server.address))
    assert isinstance(problem, ProviderError)
    assert "GEMINI_API_KEY" in str(problem)


def _quota(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    failure = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": name, "quotaValue": "50"}]}
    return failure, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}


def test_a_quota_of_a_minute_is_waited_for_and_one_of_a_day_is_not() -> None:
    text = "You exceeded your current quota, please check your plan and billing details."
    with prepared(
        error(429, "RESOURCE_EXHAUSTED", text, *_quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"))
    ) as server:
        problem = failure_of(model_at(server.address))
    assert isinstance(problem, ModelError)
    assert (problem.kind, problem.retry_after_s) == ("rate_limited", 34.5)
    with prepared(error(429, "RESOURCE_EXHAUSTED", text, *_quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"))) as server:
        assert isinstance(failure_of(model_at(server.address)), ProviderError)
    with prepared(error(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.")) as server:
        assert isinstance(failure_of(model_at(server.address)), ProviderError)


def test_a_region_or_a_project_without_access_stops_the_run() -> None:
    with prepared(error(400, "FAILED_PRECONDITION", "User location is not supported for the API use.")) as server:
        problem = failure_of(model_at(server.address))
    assert isinstance(problem, ProviderError)
    assert "region" in str(problem)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Invalid JSON payload received. Unknown name \"seed\" at 'generation_config': Cannot find field.", "seed"),
        ("Thinking level is not supported for this model.", "thinkingConfig"),
        ("Unsupported value: max_output_tokens", "max_output_tokens"),
    ],
)
def test_a_refused_parameter_can_be_left_out(text: str, name: str) -> None:
    with prepared(error(400, "INVALID_ARGUMENT", text), Prepared(response({"text": "hi"}))) as server:
        problem = failure_of(model_at(server.address))
        assert isinstance(problem, ProviderError)
        assert f"--model-args omit={name}" in str(problem)
        assert model_at(server.address, omit=(name,)).reply(ask()).content == "hi"
    first, second = (body["generationConfig"].keys() for body in server.bodies)
    assert len(first - second) == 1


def test_a_lost_signature_is_a_refused_request() -> None:
    text = "Function call is missing a thought_signature in functionCall parts. Unexpected for thinking models."
    with prepared(error(400, "INVALID_ARGUMENT", text)) as server:
        problem = failure_of(model_at(server.address))
    assert isinstance(problem, ModelError)
    assert problem.kind == "bad_request"


@pytest.mark.parametrize("name", ["", "a/../b", "a?b", "a b", "/a"])
def test_what_can_be_no_model_is_refused_at_once(name: str) -> None:
    with pytest.raises(UsageError, match="google"):
        GoogleModel(name)


def test_making_a_model_needs_no_key_and_its_settings_hold_what_can_change_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    model = GoogleModel("gemini-3-pro")
    assert (model.provider, model.name, model.endpoint) == ("google", "gemini-3-pro", "https://generativelanguage.googleapis.com")
    assert model.secrets() == ()
    assert model.protocols[0] == "native"
    for changed in (GoogleParams(api_version="v1"), GoogleParams(thoughts=False), GoogleParams(omit=("seed",))):
        assert dumps_canonical(GoogleModel("gemini-3-pro", changed).settings()) != dumps_canonical(model.settings())
    assert GoogleModel("gemini-3-pro", GoogleParams(api_key_env="OTHER_KEY")).settings() == model.settings()


def test_the_second_variable_is_used_where_the_first_is_not_set(monkeypatch: pytest.MonkeyPatch, stub: Stub) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    model = model_at(stub.address)
    assert model.reply(ask()).content
    assert model.secrets() == (KEY,)


def test_a_conversation_with_the_strict_server_keeps_its_signatures(stub: Stub) -> None:
    model = model_at(stub.address)
    messages: tuple[Message, ...] = QUESTION
    for _ in range(3):
        reply = model.reply(ask(messages, (SUBMIT,), "submit_action"))
        messages += (Message("assistant", "", reply.tool_calls), Message("tool", "no", tool_call_id=reply.tool_calls[0].id))
    assert [seen.outcome for seen in stub.requests] == ["answered"] * 3
    last = [part for content in stub.requests[-1].body["contents"] for part in content["parts"] if "functionCall" in part]
    assert [part["thoughtSignature"] for part in last] == [reply.tool_calls[0].opaque_of("google")] * 2
