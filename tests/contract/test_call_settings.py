"""What is sent of the temperature, the length and a forced tool, to servers that answer as their
providers do: OpenAI's reasoning models, llama.cpp's server, Gemini behind a program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ktdeval.calls.failures.http_errors import ParameterRefused
from ktdeval.calls.tool_protocol_probe import choose_protocol
from ktdeval.harness.chat_messages import CallParams, ModelRequest
from ktdeval.registry import load_plugins
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.plans.model_settings import with_model_settings
from ktdeval.runner.plans.plan import call_parameters
from ktdeval_command.wire.gemini import read as read_gemini
from support.providers.adapter_server import (
    LOOK,
    QUESTION,
    SUBMIT,
    Prepared,
    ask,
    failure_of,
    prepared,
)
from support.providers.stub_provider import skip_without_sdks

skip_without_sdks()

pytestmark = pytest.mark.usefixtures("every_key")

PLUGINS = load_plugins()
USAGE = {"prompt_tokens": 9, "completion_tokens": 4}


# ---- OpenAI's reasoning models

#: the answer of gpt-5 to Chat Completions, and to Responses
REFUSED = {
    "chat": {
        "message": (
            "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default"
            " (1) value is supported."
        ),
        "type": "invalid_request_error",
        "param": "temperature",
        "code": "unsupported_value",
    },
    "responses": {
        "message": "Unsupported parameter: 'temperature' is not supported with this model.",
        "type": "invalid_request_error",
        "param": "temperature",
        "code": None,
    },
}
ANSWERED = {
    "chat": {
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "Hi"}}],
        "usage": USAGE,
    },
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}],
        "usage": {"input_tokens": 9, "output_tokens": 4},
    },
}


def reasoner(api: str) -> Any:
    """The answer of a model that takes no temperature but its default."""

    def answer(body: Mapping[str, Any]) -> Prepared:
        if body.get("temperature", 1) != 1:
            return Prepared({"error": REFUSED[api]}, 400)
        return Prepared(ANSWERED[api])

    return answer


@pytest.mark.parametrize("api", REFUSED)
@pytest.mark.parametrize(
    "name", ["gpt-5", "gpt-5-2025-08-07", "gpt-5-mini", "gpt-5-nano", "gpt-5-pro", "o3", "o4-mini"]
)
def test_a_model_that_is_known_to_take_no_temperature_gets_none(api: str, name: str) -> None:
    with prepared(reasoner(api)) as server:
        model = PLUGINS.make_model(f"openai/{name}", {"api": api, "base_url": server.address})
        reply = model.reply(ask(QUESTION, (LOOK,)))
        (body,) = server.bodies

    assert reply.content == "Hi"
    assert "temperature" not in body
    assert model.settings()["not_sent"] == ["temperature"]


@pytest.mark.parametrize("name", ["gpt-4.1", "gpt-5-chat-latest", "gpt-5.2", "o-series", "gpt-50"])
def test_other_models_get_the_temperature_and_a_refusal_names_the_way_out(name: str) -> None:
    with prepared(reasoner("responses")) as server:
        model = PLUGINS.make_model(f"openai/{name}", {"base_url": server.address})
        with pytest.raises(ParameterRefused, match="omit=temperature") as caught:
            model.reply(ask(QUESTION, (LOOK,)))

    assert caught.value.parameter == "temperature"
    assert "not_sent" not in model.settings()


# ---- llama.cpp's server


def llama_cpp(body: Mapping[str, Any]) -> Prepared:
    """llama.cpp reads `tool_choice` as a text; an object counts as `auto`. Its model does what the
    last message asks for, unless a grammar makes it call the tool.
    """
    text = body["messages"][-1]["content"]
    is_required = body.get("tool_choice") == "required"
    if "one word" in text and not is_required:
        message: dict[str, Any] = {"role": "assistant", "content": "thanks"}
        finish = "stop"
    else:
        name = body["tools"][0]["function"]["name"]
        arguments = (
            '{"place": "north"}' if name == "look_up_level" else '{"place":"north","level":41}'
        )
        call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        finish = "tool_calls"

    choice = {"index": 0, "message": message, "finish_reason": finish}
    return Prepared({"choices": [choice], "usage": USAGE})


def test_the_check_finds_that_llama_cpp_ignores_a_tool_forced_by_name() -> None:
    with prepared(llama_cpp) as server:
        args = {"base_url": f"{server.address}/v1"}
        model = PLUGINS.make_model("openai_compatible/qwen", args)
        protocol = choose_protocol(model, "auto", model.reply, CallParams(timeout_s=60))
        asked = len(server.bodies)
        request = ask(QUESTION, (LOOK, SUBMIT), SUBMIT.name, tool_protocol=protocol)
        model.reply(request)

    assert protocol == "native_required"
    assert asked == 4
    last = server.bodies[-1]
    assert last["tool_choice"] == "required"
    assert [tool["function"]["name"] for tool in last["tools"]] == [SUBMIT.name]


LISTED = Prepared({"data": [{"id": "qwen", "owned_by": "llamacpp", "meta": {"n_ctx": 4096}}]})
ELSEWHERE = Prepared({"data": [{"id": "qwen", "owned_by": "vllm"}]})


def test_a_call_that_has_to_be_repeatable_leaves_out_the_cache_of_llama_cpp() -> None:
    with prepared(LISTED, llama_cpp, reads=True) as server:
        args = {"base_url": f"{server.address}/v1", "repeatable": True}
        model = PLUGINS.make_model("openai_compatible/qwen", args)
        for _ in range(2):
            model.reply(ask(QUESTION, (LOOK,)))

    assert server.paths == ["/v1/models", *["/v1/chat/completions"] * 2]
    assert [body["cache_prompt"] for body in server.bodies[1:]] == [False, False]
    assert model.settings()["repeatable"] is True
    plain = PLUGINS.make_model("openai_compatible/qwen", {"base_url": args["base_url"]})
    assert "cache_prompt" not in plain.encode(ask())
    assert "repeatable" not in plain.settings()


def test_another_server_is_not_asked_for_what_only_llama_cpp_can() -> None:
    with prepared(ELSEWHERE, llama_cpp, reads=True) as server:
        args = {"base_url": f"{server.address}/v1", "repeatable": True}
        error = failure_of(PLUGINS.make_model("vllm/qwen", args))

    assert "--no-enable-prefix-caching" in str(error)
    assert server.paths == ["/v1/models"]


# ---- an agent's own program


def test_what_neither_the_program_nor_the_user_names_is_no_setting_of_the_run() -> None:
    config = RunConfig(
        "google/gemini-2.5-pro",
        ("blinded_open_research",),
        agent="command",
        agent_args={"run": "true", "sandbox": "none"},
    )
    completed = with_model_settings(config, PLUGINS)
    call = call_parameters(completed, "native")

    assert (call["temperature"], call["max_output_tokens"]) == (None, None)
    named = with_model_settings(
        RunConfig(**{**vars(config), "temperature": 0.2, "max_output_tokens": 9000}), PLUGINS
    )
    assert (named.temperature, named.max_output_tokens) == (0.2, 9000)


@pytest.mark.parametrize(
    ("model", "args", "absent"),
    [
        (
            "google/gemini-2.5-pro",
            {},
            ("generationConfig.temperature", "generationConfig.maxOutputTokens"),
        ),
        ("openai/gpt-4.1", {}, ("temperature", "max_output_tokens")),
        ("openai/gpt-4.1", {"api": "chat"}, ("temperature", "max_tokens", "max_completion_tokens")),
        ("anthropic/claude-sonnet-4-6", {"api_version": "2023-06-01"}, ("temperature",)),
    ],
)
def test_what_is_left_to_the_provider_is_not_sent(
    model: str, args: dict[str, Any], absent: tuple[str, ...]
) -> None:
    body = PLUGINS.make_model(model, args).encode(ask(temperature=None, max_output_tokens=None))
    sent = {*body, *(f"generationConfig.{name}" for name in body.get("generationConfig", {}))}

    assert not sent & set(absent)
    if model.startswith("anthropic"):  # the API requires a limit
        assert body["max_tokens"] == 4096


GEMINI_CLI = {
    "contents": [{"role": "user", "parts": [{"text": "Decide."}]}],
    "generationConfig": {"topP": 0.95, "thinkingConfig": {"thinkingBudget": 8192}},
}


def test_gemini_cli_keeps_its_thinking_budget_and_gets_no_limit_below_it() -> None:
    """Its budget of 8,192 tokens would not fit ktdeval's usual limit of 4,096."""
    own = read_gemini(json.dumps(GEMINI_CLI).encode(), "gemini-2.5-pro", streams=False).own
    assert own is not None
    run_params = CallParams(temperature=None, max_output_tokens=None, timeout_s=60)
    request = ModelRequest(
        QUESTION, params=own.applied_to(run_params), own=own, run_params=run_params
    )
    reply = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
    with prepared(Prepared({**reply, "usageMetadata": {"promptTokenCount": 9}})) as server:
        args = {"base_url": server.address}
        assert PLUGINS.make_model("google/gemini-2.5-pro", args).reply(request).content == "Hi"
        (body,) = server.bodies

    config = body["generationConfig"]
    assert config["thinkingConfig"]["thinkingBudget"] == 8192
    assert config["topP"] == 0.95
    assert not {"temperature", "maxOutputTokens"} & config.keys()
