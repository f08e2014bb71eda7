"""Thoughts of earlier turns with tool calls go back to the vendors whose protocol wants them, and to
nobody else.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ktdeval.calls.prompt_size import prompt_bytes
from ktdeval.calls.record import reply_bytes, reply_of, request_key
from ktdeval.errors import ProviderError
from ktdeval.harness.chat_messages import Message, ModelRequest, Opaque, Reply, ToolCall
from ktdeval.registry import load_plugins
from ktdeval_models.remote.params import presets
from support.providers.adapter_server import (
    LOOK,
    QUESTION,
    Prepared,
    PreparedServer,
    ask,
    failure_of,
    prepared,
)
from support.providers.stub_provider import KEY, skip_without_sdks
from support.tasks.ktdfin_market import small_market
from support.tasks.ktdfin_play import Play

skip_without_sdks()

PLUGINS = load_plugins()
MARKET = small_market()
DETAILS = [{"type": "reasoning.text", "format": "MiniMax-response-v1", "index": 0, "text": "Why?"}]
SEALED = [
    {"type": "reasoning.text", "text": "Why?", "signature": "c2ln", "index": 0},
    {"type": "reasoning.encrypted", "data": "aGlkZGVu", "index": 1},
]
HOLD = '{"orders": [], "overall_reason": "nothing to do"}'


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for preset in presets().values():
        monkeypatch.setenv(preset.variables[0], KEY)


def completion(name: str = "get_snapshot", arguments: str = "{}", **message: Any) -> Prepared:
    call = {"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}}
    said = {"role": "assistant", "content": "", "tool_calls": [call], **message}
    usage = {"prompt_tokens": 9, "completion_tokens": 4}
    return Prepared({"choices": [{"message": said, "finish_reason": "tool_calls"}], "usage": usage})


def model_at(server: PreparedServer, model: str, **params: Any) -> Any:
    return PLUGINS.make_model(model, {"base_url": server.address, **params})


def second_turn(reply: Reply) -> ModelRequest:
    """The request after a reply with a call."""
    results = [Message("tool", "7", tool_call_id=call.id) for call in reply.tool_calls]
    return ask((*QUESTION, reply.as_message(), *results), (LOOK,))


def sent_back(model: str, params: dict[str, Any] | None = None, **message: Any) -> dict[str, Any]:
    """The assistant's turn in the second request, without its calls."""
    with prepared(completion(**message)) as server:
        asked = model_at(server, model, **(params or {}))
        asked.reply(second_turn(asked.reply(ask(tools=(LOOK,)))))
        turn: dict[str, Any] = server.bodies[1]["messages"][2]

    assert turn.pop("tool_calls")[0]["id"] == "a"

    return turn


VENDORS = {
    "deepseek": ("deepseek/deepseek-v4", "reasoning_content", "Let me look."),
    "moonshot": ("moonshot/kimi-k2-thinking", "reasoning_content", "Let me look."),
    "zhipu": ("zhipu/glm-4.7", "reasoning_content", "Let me look."),
    "minimax": ("minimax/MiniMax-M2", "reasoning_details", DETAILS),
    "by name": ("openai_compatible/moonshotai/Kimi-K2-Thinking", "reasoning_content", "So."),
    "by name at vllm": ("vllm/MiniMaxAI/MiniMax-M2", "reasoning", "So."),
    "gpt-oss": ("ollama/gpt-oss:20b", "reasoning", "So."),
    "openrouter": ("openrouter/anthropic/claude-opus-5.5", "reasoning_details", SEALED),
    "glm elsewhere": ("dashscope/glm-4.6", "reasoning_content", "So."),
}


@pytest.mark.parametrize("vendor", VENDORS)
def test_thoughts_go_back_as_they_came(vendor: str) -> None:
    model, field, thought = VENDORS[vendor]
    assert sent_back(model, **{field: thought}) == {"role": "assistant", field: thought}


OTHERS = ("openai_compatible/some-model", "dashscope/qwen3-max", "ollama/qwen3", "vllm/glm-4-9b")


@pytest.mark.parametrize("address", ["https://api.z.ai/api/paas/v4", "https://api.minimaxi.com/v1"])
def test_the_address_of_a_vendor_tells_whatever_the_models_name(address: str) -> None:
    model = PLUGINS.make_model("openai_compatible/my-alias", {"base_url": address})
    assert model.settings()["sends_thoughts"] is True


def test_thoughts_between_tags_in_the_content_go_back_there() -> None:
    content = "<think>\nLet me look.\n</think>\n\nI look."
    assert sent_back("vllm/MiniMaxAI/MiniMax-M2", content=content)["content"] == content


@pytest.mark.parametrize(
    "words",
    [
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "Missing `reasoning_content` field in the assistant message at message index 2.",
    ],
)
def test_a_server_that_misses_them_stops_the_run_with_the_option(words: str) -> None:
    refuse = Prepared({"error": {"message": words, "type": "invalid_request_error"}}, 400)
    with prepared(refuse) as server:
        error = failure_of(model_at(server, "openai_compatible/my-alias"), ask(tools=(LOOK,)))

    assert isinstance(error, ProviderError)
    assert "--model-args send_thoughts=true" in str(error)


def test_thoughts_are_in_the_record_the_key_and_the_size_of_the_prompt() -> None:
    with prepared(completion(reasoning_content="Let me look.")) as server:
        model = model_at(server, "deepseek/deepseek-v4")
        reply = model.reply(ask(tools=(LOOK,)))
        assert reply_of(reply_bytes(reply), "here") == reply
        request = second_turn(reply)
        bare = second_turn(replace(reply, opaque=None))
        assert request_key(model, request) != request_key(model, bare)

    assert prompt_bytes(request).total - prompt_bytes(bare).total >= len("Let me look.")
    assert "Let me look." in json.dumps(request.messages[2].to_json())


def test_another_provider_is_not_sent_them() -> None:
    thoughts = Opaque("deepseek", '{"reasoning_content": "Hm."}', has_words=True)
    call = ToolCall("a", "get_snapshot", "{}")
    request = second_turn(Reply(tool_calls=(call,), opaque=thoughts))
    model = PLUGINS.make_model("zhipu/glm-5", {"base_url": "http://127.0.0.1:9"})
    assert "reasoning_content" not in model.encode(request)["messages"][2]


def test_the_leak_guard_withholds_what_thoughts_name_as_it_does_in_arguments() -> None:
    thought = "This must be 600519, so I buy."
    look = completion("get_market_context", reasoning_content=thought)
    with prepared(look, completion("submit_action", HOLD)) as server:
        play = Play(
            PLUGINS.make_task("blinded_open_research"), model_at(server, "zhipu/glm-5"), MARKET
        )
        play.run(1)
        turn = server.bodies[1]["messages"][2]

    assert turn["reasoning_content"] == "This must be [withheld], so I buy."
