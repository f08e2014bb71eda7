"""Thoughts of earlier turns go back wherever a model of a vendor that wants them is served, and to
nobody else (`test_adapters_steps` has the vendors themselves).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ktdeval.calls import ProviderRefusal
from ktdeval.calls.costs.prompt_size import prompt_bytes
from ktdeval.calls.records.record import reply_bytes, reply_of, request_key
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness.agent import StepCounts
from ktdeval.harness.chat_messages import (
    THOUGHTS_REFUSED,
    Message,
    ModelRequest,
    Opaque,
    Reply,
    ToolCall,
)
from ktdeval.registry import load_plugins
from ktdeval.testing import small_market
from ktdeval_models.remote.replies.refused_thoughts import rejects_thoughts
from support.providers.adapter_server import (
    LOOK,
    QUESTION,
    Prepared,
    PreparedServer,
    ask,
    failure_of,
    prepared,
)
from support.providers.stub_provider import skip_without_sdks
from support.tasks.ktdfin_play import Play

skip_without_sdks()

pytestmark = pytest.mark.usefixtures("every_key")

PLUGINS = load_plugins()
MARKET = small_market()
HOLD = '{"orders": [], "overall_reason": "nothing to do"}'


def completion(name: str = "get_snapshot", arguments: str = "{}", **message: Any) -> Prepared:
    call = {"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}}
    said = {"role": "assistant", "content": "", "tool_calls": [call], **message}
    usage = {"prompt_tokens": 9, "completion_tokens": 4}
    return Prepared({"choices": [{"message": said, "finish_reason": "tool_calls"}], "usage": usage})


def model_at(server: PreparedServer, model: str) -> Any:
    return PLUGINS.make_model(model, {"base_url": server.address})


def second_turn(reply: Reply) -> ModelRequest:
    """The request after a reply with a call."""
    results = [Message("tool", "7", tool_call_id=call.id) for call in reply.tool_calls]
    return ask((*QUESTION, reply.as_message(), *results), (LOOK,))


def sent_back(model: str, **message: Any) -> dict[str, Any]:
    """The assistant's turn in the second request, without its calls."""
    with prepared(completion(**message)) as server:
        asked = model_at(server, model)
        asked.reply(second_turn(asked.reply(ask(tools=(LOOK,)))))
        turn: dict[str, Any] = server.bodies[1]["messages"][2]

    assert turn.pop("tool_calls")[0]["id"] == "a"

    return turn


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ("openai_compatible/moonshotai/Kimi-K2-Thinking", "reasoning_content"),
        ("vllm/MiniMaxAI/MiniMax-M2", "reasoning"),
        ("ollama/gpt-oss:20b", "reasoning"),
        ("dashscope/glm-4.6", "reasoning_content"),
    ],
)
def test_the_name_of_a_model_tells_that_thoughts_go_back_as_they_came(
    model: str, field: str
) -> None:
    assert sent_back(model, **{field: "So."}) == {"role": "assistant", field: "So."}


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


def test_leak_guard_withholds_identities_in_thoughts() -> None:
    thought = "This must be 600519, so I buy."
    look = completion("get_market_context", reasoning_content=thought)
    with prepared(look, completion("submit_action", HOLD)) as server:
        play = Play(
            PLUGINS.make_task("blinded_open_research"), model_at(server, "zhipu/glm-5"), MARKET
        )
        play.run(1)
        turn = server.bodies[1]["messages"][2]

    assert turn["reasoning_content"] == "This must be [withheld], so I buy."


# ---- signatures that a provider rejects

SIGNED = {
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "tool_use", "id": "a", "name": "get_snapshot", "input": {}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 9, "output_tokens": 4},
}
ENCRYPTED = {
    "status": "completed",
    "model": "m",
    "output": [
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAA"},
        {"type": "function_call", "call_id": "a", "name": "get_snapshot", "arguments": "{}"},
    ],
    "usage": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13},
}
REJECTED = {
    "anthropic/claude-opus-4-5": (
        SIGNED,
        {"type": "invalid_request_error", "message": "messages.1.content.0: Invalid `signature` in `thinking` block"},
        "c2ln",
    ),
    "openai/gpt-5": (
        ENCRYPTED,
        {"code": "invalid_encrypted_content", "message": "The encrypted content gAAA... could not be verified."},
        "gAAA",
    ),
}  # fmt: skip


@pytest.mark.parametrize("model", REJECTED)
def test_a_request_whose_signed_thoughts_are_rejected_is_sent_once_more_without_them(
    model: str,
) -> None:
    answer, error, sealed = REJECTED[model]
    replies = (Prepared(answer), Prepared({"error": error}, 400), Prepared(answer))
    with prepared(*replies) as server:
        asked = model_at(server, model)
        first = asked.reply(ask(tools=(LOOK,)))
        second = asked.reply(second_turn(first))

    _, refused, accepted = map(json.dumps, server.bodies)
    assert sealed in refused
    assert sealed not in accepted
    assert THOUGHTS_REFUSED in second.notes
    assert THOUGHTS_REFUSED not in first.notes
    assert [call.name for call in second.tool_calls] == ["get_snapshot"]

    counts = StepCounts()
    counts.add_reply(second)
    assert counts.record().failures == {"thoughts_refused": 1}


@pytest.mark.parametrize("model", REJECTED)
def test_a_rejection_without_thoughts_to_leave_out_is_a_bad_request(model: str) -> None:
    _, error, _ = REJECTED[model]
    with prepared(Prepared({"error": error}, 400)) as server:
        failure = failure_of(model_at(server, model), ask(tools=(LOOK,)))

    assert isinstance(failure, ModelError)
    assert failure.kind == "bad_request"
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "message",
    [
        "Function call is missing a thought_signature in functionCall parts.",
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`: must start with a thinking block",
        "max_tokens must be greater than thinking.budget_tokens",
    ],
)
def test_a_refusal_of_something_else_is_no_rejection_of_thoughts(message: str) -> None:
    assert not rejects_thoughts(ProviderRefusal(400, ("invalid_request_error",), message))
