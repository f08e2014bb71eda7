"""`anthropic`: what goes over the wire, what comes back, and what each failure is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from adapter_server import Prepared, prepared
from ktdeval.calls.http_errors import Caller
from ktdeval.errors import KtdevalError, ModelError, ProviderError
from ktdeval.harness.messages import CallParams, Message, ModelRequest, Opaque, Reply, ToolCall, ToolSpec, Usage
from ktdeval.jsonio import dumps_canonical
from ktdeval_models.remote.anthropic import AnthropicModel, closed_schema
from ktdeval_models.remote.params import AnthropicParams
from stub_provider import KEY, Stub, running_stub

MODEL = "stub-model"
CALLER = Caller("anthropic", MODEL, "http://127.0.0.1", ("ANTHROPIC_API_KEY",))
LOOK = ToolSpec("get_snapshot", "One stock.", {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]})
SUBMIT = ToolSpec(
    "submit_action", "Submit.", {"type": "object", "properties": {"orders": {"type": "array", "items": {"type": "object"}}}}
)
QUESTION = (Message("system", "You trade."), Message("user", "Day 3."))
ROUND = (
    *QUESTION,
    Message(
        "assistant", "", (ToolCall("toolu_1", "get_snapshot", '{"id": "S1"}'), ToolCall("toolu_2", "get_snapshot", '{"id": "S2"}'))
    ),
    Message("tool", "first", tool_call_id="toolu_1"),
    Message("tool", "second", tool_call_id="toolu_2"),
    Message("user", "Submit now."),
)
SIGNED = [{"type": "thinking", "thinking": "", "signature": "c2lnbmVk"}, {"type": "redacted_thinking", "data": "aGlkZGVu"}]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running_stub() as running:
        yield running


def model_at(address: str, **params: Any) -> AnthropicModel:
    return AnthropicModel(MODEL, AnthropicParams(base_url=address, **params))


def ask(
    messages: tuple[Message, ...] = QUESTION, tools: tuple[ToolSpec, ...] = (), forced: str | None = None, **call: Any
) -> ModelRequest:
    return ModelRequest(messages, tools, forced, CallParams(**{"timeout_s": 10.0, **call}))


def body_of(request: ModelRequest, model: str = MODEL, **params: Any) -> dict[str, Any]:
    return AnthropicModel(model, AnthropicParams(**params)).encode(request)


def decoded(body, carries=False):
    return AnthropicModel(MODEL).decode(body, None, {"thinking": {"type": "enabled"}} if carries else {})


def message(*content: dict[str, Any], stop_reason: Any = "end_turn", **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "output_tokens": 2}
    return {
        "type": "message",
        "model": "claude-x-1",
        "content": list(content),
        "stop_reason": stop_reason,
        "usage": usage,
        **fields,
    }


def failure_of(model: AnthropicModel, request: ModelRequest | None = None) -> KtdevalError:
    with pytest.raises((ModelError, ProviderError)) as caught:
        model.reply(request or ask())
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)
    assert KEY[:12] not in repr(caught.value)
    return caught.value


# -- what is sent


def test_a_round_of_tool_use_becomes_alternating_turns_with_results_first() -> None:
    body = body_of(ask(ROUND, (SUBMIT,), "submit_action"))
    assert body["system"] == "You trade."
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Day 3."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "get_snapshot", "input": {"id": "S1"}},
                {"type": "tool_use", "id": "toolu_2", "name": "get_snapshot", "input": {"id": "S2"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "first"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "second"},
                {"type": "text", "text": "Submit now."},
            ],
        },
    ]
    assert body["tool_choice"] == {"type": "tool", "name": "submit_action"}
    assert body["max_tokens"] == 4096


def test_text_before_calls_is_kept_and_turns_of_nothing_but_space_are_not_sent() -> None:
    messages = (Message("user", "a"), Message("assistant", " \n"), Message("user", "b"), Message("assistant", "c"))
    assert body_of(ask(messages))["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "c"}]},
    ]
    spoken = Message("assistant", "Let me look.", (ToolCall("toolu_1", "get_snapshot", "{}"),))
    turn = body_of(ask((Message("user", "a"), spoken, Message("tool", "", tool_call_id="toolu_1"))))["messages"]
    assert [block["type"] for block in turn[1]["content"]] == ["text", "tool_use"]
    assert turn[2]["content"] == [{"type": "tool_result", "tool_use_id": "toolu_1", "content": ""}]


def test_ids_names_and_arguments_that_the_api_would_refuse_are_made_to_fit_the_same_way_everywhere(stub: Stub) -> None:
    odd = Message("assistant", "", (ToolCall("call 3:α", "get news?", "not JSON"), ToolCall("call_4_withheld", "withheld", "[1]")))
    messages = (*QUESTION, odd, Message("tool", "?", tool_call_id="call 3:α"), Message("tool", "!", tool_call_id="call_4_withheld"))
    body = body_of(ask(messages))
    assert body["messages"][1]["content"] == [
        {"type": "tool_use", "id": "call_3__", "name": "get_news_", "input": {"malformed_arguments": "not JSON"}},
        {"type": "tool_use", "id": "call_4_withheld", "name": "withheld", "input": {"malformed_arguments": "[1]"}},
    ]
    assert [block["tool_use_id"] for block in body["messages"][2]["content"]] == ["call_3__", "call_4_withheld"]
    assert model_at(stub.address).reply(ask(messages, (LOOK,))).finish_reason in ("stop", "tool_calls")


def test_a_conversation_with_calls_but_no_tools_on_offer_lists_theirs_and_forbids_them() -> None:
    body = body_of(ask(ROUND))
    assert body["tools"] == [{"name": "get_snapshot", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}
    assert not body_of(ask()).keys() & {"tools", "tool_choice"}


@pytest.mark.parametrize(
    ("model", "params", "call", "choice"),
    [
        ("claude-opus-4-6", {}, {}, {"type": "tool", "name": "submit_action"}),
        ("claude-haiku-5-5", {}, {}, {"type": "tool", "name": "submit_action"}),
        ("claude-opus-5-5", {}, {}, {"type": "auto"}),
        ("claude-fable-5-2-20261101", {}, {}, {"type": "auto"}),
        ("claude-opus-4-6", {}, {"reasoning_effort": "high"}, {"type": "auto"}),
        ("claude-opus-4-5", {}, {"reasoning_tokens": 2000}, {"type": "auto"}),
        ("claude-opus-4-6", {}, {"reasoning_effort": "none"}, {"type": "tool", "name": "submit_action"}),
        ("claude-opus-5-5", {"forced_tool": "any"}, {}, {"type": "any"}),
        ("claude-opus-4-6", {"forced_tool": "auto"}, {}, {"type": "auto"}),
    ],
)
def test_a_tool_is_forced_unless_the_model_or_thinking_forbids_it(model: str, params: Any, call: Any, choice: Any) -> None:
    assert body_of(ask(QUESTION, (SUBMIT,), "submit_action", **call), model, **params)["tool_choice"] == choice


def test_tools_that_are_not_forced_are_free() -> None:
    assert body_of(ask(QUESTION, (LOOK, SUBMIT)))["tool_choice"] == {"type": "auto"}


@pytest.mark.parametrize(
    ("params", "call", "thinking", "effort"),
    [
        ({}, {}, None, None),
        ({}, {"reasoning_effort": "xhigh"}, {"type": "adaptive", "display": "summarized"}, "xhigh"),
        ({}, {"reasoning_effort": "none"}, {"type": "disabled"}, None),
        ({}, {"reasoning_tokens": 0}, {"type": "disabled"}, None),
        ({}, {"reasoning_tokens": 1024}, {"type": "enabled", "budget_tokens": 1024, "display": "omitted"}, None),
        (
            {"thinking_display": "summarized"},
            {"reasoning_tokens": 2048, "reasoning_effort": "low"},
            {"type": "enabled", "budget_tokens": 2048, "display": "summarized"},
            "low",
        ),
        ({"thinking": "adaptive", "thinking_display": "default"}, {}, {"type": "adaptive"}, None),
        ({"thinking": "between_tools"}, {"reasoning_effort": "low"}, {"type": "between_tools"}, "low"),
        ({"thinking": "unset"}, {"reasoning_effort": "low"}, None, "low"),
    ],
)
def test_reasoning_options_become_thinking_and_effort(params: Any, call: Any, thinking: Any, effort: Any) -> None:
    body = body_of(ask(**call), **params)
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == effort


@pytest.mark.parametrize(
    ("params", "call", "mend"),
    [
        ({}, {"reasoning_effort": "minimal"}, "--reasoning-effort"),
        ({}, {"reasoning_tokens": 500}, "--reasoning-tokens"),
        ({}, {"reasoning_tokens": 4096}, "--max-output-tokens 4096"),
        ({"thinking": "budget"}, {}, "--reasoning-tokens"),
        ({"api_version": "2023-06-01"}, {"temperature": 1.5}, "--temperature"),
    ],
)
def test_options_that_the_api_does_not_have_stop_the_run_before_a_call(params: Any, call: Any, mend: str) -> None:
    with pytest.raises(ProviderError, match=mend):
        body_of(ask(**call), **params)


def test_the_temperature_is_sent_only_to_the_version_that_takes_one_and_never_with_thinking() -> None:
    assert "temperature" not in body_of(ask())
    assert body_of(ask(), api_version="2023-06-01")["temperature"] == 0.7
    assert "temperature" not in body_of(ask(reasoning_tokens=2000), api_version="2023-06-01")
    assert body_of(ask(reasoning_tokens=0), api_version="2023-06-01")["temperature"] == 0.7


def test_version_key_and_address_go_where_they_belong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")
    with prepared(Prepared(message({"type": "text", "text": "hi"}))) as server:
        model = model_at(f"{server.address}/v1", api_version="2023-06-01")
        assert model.reply(ask()) == Reply("hi", usage=Usage(5, 2), served_by="claude-x-1")
    assert server.paths == ["/v1/messages"]
    assert server.headers[0]["anthropic-version"] == "2023-06-01"
    assert KEY in (server.headers[0].get("x-api-key"), server.headers[0].get("authorization", "").removeprefix("Bearer "))
    assert model.endpoint == server.address


def test_fields_are_left_out_and_added_as_the_user_says() -> None:
    with prepared(Prepared(message({"type": "text", "text": "hi"}))) as server:
        model = model_at(server.address, omit=("system", "effort"), extra_body={"service_tier": "standard_only"}, prompt_cache="1h")
        model.reply(ask(reasoning_effort="low"))
    body = server.bodies[0]
    assert not body.keys() & {"system", "output_config"}
    assert body["service_tier"] == "standard_only"
    assert body["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_structured_outputs_get_closed_objects_without_bounds() -> None:
    schema = {
        "type": "object",
        "properties": {
            "calls": {
                "type": "array",
                "minItems": 1,
                "maxItems": 9,
                "items": {"type": "object", "properties": {"n": {"minimum": 0}}},
            },
            "minimum": {"type": "string", "minLength": 1},
        },
    }
    assert closed_schema(schema) == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "calls": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "object", "properties": {"n": {}}, "additionalProperties": False},
            },
            "minimum": {"type": "string"},
        },
    }
    request = ModelRequest(QUESTION, params=CallParams(), response_schema=schema)
    assert body_of(request)["output_config"] == {"format": {"type": "json_schema", "schema": closed_schema(schema)}}


# -- thoughts within a round of tool use


def test_signed_thoughts_come_back_with_the_calls_they_came_with() -> None:
    call = {"type": "tool_use", "id": "toolu_9", "name": "get_snapshot", "input": {"id": "S1"}}
    with prepared(Prepared(message(*SIGNED, call, stop_reason="tool_use")), Prepared(message())) as server:
        model = model_at(server.address)
        reply = model.reply(ask(QUESTION, (LOOK,), reasoning_tokens=2000))
        answered = Message("tool", "first", tool_call_id=reply.tool_calls[0].id)
        model.reply(
            ask((*QUESTION, Message("assistant", reply.content, reply.tool_calls), answered), (LOOK,), reasoning_tokens=2000)
        )
    _, assistant, user = server.bodies[1]["messages"]
    assert assistant["content"] == [*SIGNED, call]
    assert user["content"][0]["tool_use_id"] == "toolu_9"
    assert server.bodies[1]["thinking"]["type"] == "enabled"


def test_without_them_the_one_call_that_needs_them_goes_without_thinking() -> None:
    body = body_of(ask(ROUND, (SUBMIT,), "submit_action", reasoning_tokens=2000))
    assert body["thinking"] == {"type": "disabled"}
    assert body["tool_choice"] == {"type": "tool", "name": "submit_action"}
    finished = (*ROUND, Message("assistant", "I hold."), Message("user", "Why?"))
    assert body_of(ask(finished, (SUBMIT,), reasoning_tokens=2000))["thinking"]["type"] == "enabled"


def test_thoughts_as_text_are_shown_but_never_sent_back() -> None:
    with running_stub(reasoning=True) as stub:
        model = model_at(stub.address, thinking_display="summarized")
        reply = model.reply(ask(QUESTION, (SUBMIT,), "submit_action", reasoning_tokens=2000))
        assert reply.reasoning
        assert reply.usage.reasoning_tokens > 0
        messages = (
            *QUESTION,
            Message("assistant", "", reply.tool_calls),
            Message("tool", "no", tool_call_id=reply.tool_calls[0].id),
        )
        model.reply(ask(messages, (SUBMIT,), "submit_action", reasoning_tokens=2000))
        assert [seen.outcome for seen in stub.requests] == ["answered"] * 2
        assert reply.reasoning not in dumps_canonical([seen.body for seen in stub.requests])


def test_the_thoughts_of_another_provider_are_never_sent() -> None:
    round_ = (*QUESTION, Message("assistant", "", (ToolCall("toolu_9", "get_snapshot", "{}", Opaque("google", '"secret"')),)))
    assert "secret" not in dumps_canonical(body_of(ask(round_, (LOOK,), reasoning_tokens=2000)))


# -- what comes back


@pytest.mark.parametrize(
    ("stop_reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
    ],
)
def test_every_way_to_stop_has_its_name(stop_reason: str, finish: str) -> None:
    assert decoded(message({"type": "text", "text": "x"}, stop_reason=stop_reason)).finish_reason == finish


def test_parallel_calls_come_back_in_order_with_text_and_thoughts_apart() -> None:
    blocks = [
        {"type": "thinking", "thinking": "First.", "signature": "x"},
        {"type": "text", "text": "I look at two."},
        {"type": "tool_use", "id": "toolu_1", "name": "get_snapshot", "input": {"id": "S1", "lookback": 20}},
        {"type": "thinking", "thinking": "Then.", "signature": "y"},
        {"type": "tool_use", "id": "toolu_2", "name": "get_snapshot", "input": {"id": "茅台"}},
    ]
    assert decoded(message(*blocks, stop_reason="tool_use"), carries=True) == Reply(
        content="I look at two.",
        tool_calls=(
            ToolCall("toolu_1", "get_snapshot", '{"id": "S1", "lookback": 20}'),
            ToolCall("toolu_2", "get_snapshot", '{"id": "茅台"}'),
        ),
        finish_reason="tool_calls",
        usage=Usage(5, 2),
        reasoning="First.\n\nThen.",
        served_by="claude-x-1",
    )


def test_usage_counts_the_whole_prompt_and_names_its_cached_parts() -> None:
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 300,
        "cache_read_input_tokens": 4000,
        "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 20},
    }
    assert decoded(message(usage=usage)).usage == Usage(4310, 50, 20, 4000, 300)
    assert decoded(message(usage=None)).usage == Usage()  # the reply was paid for; it is not thrown away


@pytest.mark.parametrize(
    "body",
    [
        {},
        message(stop_reason=None),
        message(stop_reason="pause_turn"),
        message(stop_reason="because"),
        message(content="hello"),
        message(content=[1]),
        message(content=[{"type": "text"}]),
        message(content=[{"type": "server_tool_use", "id": "x"}]),
        message(content=[{"type": "tool_use", "id": "t", "name": "f", "input": "{}"}]),
        message(content=[{"type": "tool_use", "id": "", "name": "f", "input": {}}]),
    ],
)
def test_a_body_of_another_shape_is_a_bad_response_and_never_guessed_at(body: Any) -> None:
    with pytest.raises(ModelError) as caught:
        decoded(body)
    assert caught.value.kind == "bad_response"


# -- failures


@pytest.mark.parametrize(
    ("code", "is_final"), [("enforced_spend_limit_reached", True), ("organization_on_hold", True), ("ramp_limit_exceeded", False)]
)
def test_a_spent_limit_of_the_account_is_told_from_a_limit_of_the_rate(code: str, is_final: bool) -> None:
    error = {"type": "rate_limit_error", "message": "Limit reached.", "details": {"error_code": code}}
    with prepared(Prepared({"type": "error", "error": error}, 429, {"retry-after": "12"})) as server:
        failure = failure_of(model_at(server.address))
    assert isinstance(failure, ProviderError) is is_final
    if isinstance(failure, ModelError):
        assert (failure.kind, failure.retry_after_s) == ("rate_limited", 12)


def test_a_model_that_takes_no_forced_tool_says_how_to_do_without() -> None:
    error = {"type": "invalid_request_error", "message": 'tool_choice: type "tool" is not supported for this model.'}
    with prepared(Prepared({"type": "error", "error": error}, 400)) as server:
        failure = failure_of(model_at(server.address), ask(QUESTION, (SUBMIT,), "submit_action"))
    assert isinstance(failure, ProviderError)
    assert "--model-args forced_tool=auto" in str(failure)


def test_a_refused_parameter_can_be_left_out() -> None:
    with running_stub(refuses=("temperature", "thinking")) as stub:
        old = {"api_version": "2023-06-01"}
        assert "omit=temperature" in str(failure_of(model_at(stub.address, **old)))
        assert model_at(stub.address, **old, omit=("temperature",)).reply(ask()).content
        assert "omit=thinking" in str(failure_of(model_at(stub.address), ask(reasoning_effort="low")))


def test_making_a_model_needs_no_key_and_its_settings_hold_what_can_change_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    model = AnthropicModel("claude-opus-5-5")
    assert (model.provider, model.name, model.endpoint) == ("anthropic", "claude-opus-5-5", "https://api.anthropic.com")
    assert model.secrets() == ()
    assert model.protocols[0] == "native"
    assert dumps_canonical(model.settings()) != dumps_canonical(AnthropicModel("claude-opus-4-6").settings())
    settings = model.settings()
    assert settings["forced_tool"] == "auto"
    assert settings["not_sent"] == ["seed", "temperature"]
    cached = AnthropicModel("claude-opus-5-5", AnthropicParams(prompt_cache="5m", api_key_env="OTHER_KEY"))
    assert cached.settings() == settings  # neither changes a reply
