"""Requests 2 and 3 of a step with tools hold what each vendor asks to be returned, and nothing that
it refuses.

Sources, by vendor: OpenAI's guides "Reasoning models" and "Conversation state"; Anthropic's pages
"Thinking" and "Preserved thinking"; Google's "Thought signatures"; DeepSeek's "Thinking Mode";
OpenRouter's "Reasoning tokens".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ktdeval.calls.records.record import reply_bytes, reply_of
from ktdeval.harness.chat_messages import Message, Reply
from ktdeval.registry import load_plugins
from ktdeval.testing import small_market
from ktdeval.values import dumps_canonical
from support.providers.adapter_server import LOOK, QUESTION, Prepared, ask, prepared
from support.providers.stub_provider import skip_without_sdks
from support.tasks.ktdfin_play import Play

skip_without_sdks()

pytestmark = pytest.mark.usefixtures("every_key")

PLUGINS = load_plugins()
MARKET = small_market()
TOOL = "get_market_context"
HOLD = {"orders": [], "overall_reason": "nothing to do"}
NAMED = "This is 600519."  # names what the mask hides


# --- replies of each API: thoughts with a call, thoughts with a text, a submission


def reasoning(number: int, words: str = "") -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": words}] if words else []
    sealed = f"sealed-{number}"
    return {
        "type": "reasoning",
        "id": f"rs_{number}",
        "summary": summary,
        "encrypted_content": sealed,
    }


def response(*output: dict[str, Any]) -> Prepared:
    usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    return Prepared({"status": "completed", "output": output, "usage": usage, "model": "m"})


def function_call(name: str, arguments: str) -> dict[str, Any]:
    called = {"call_id": f"call_{name}", "name": name, "arguments": arguments}
    return {"type": "function_call", "id": "fc_1", "status": "completed", **called}


def said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "phase": "commentary", "content": content}


RESPONSES = (
    response({**reasoning(1, "I look."), "status": None}, function_call(TOOL, "{}")),
    response(reasoning(2), said("Enough.")),
    response(function_call("submit_action", json.dumps(HOLD))),
)


def thinking(number: int, words: str = "") -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": f"c2ln{number}"}


def message(*content: dict[str, Any], stop: str = "tool_use") -> Prepared:
    usage = {"input_tokens": 9, "output_tokens": 4}
    return Prepared({"content": content, "stop_reason": stop, "usage": usage, "model": "claude"})


def tool_use(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": arguments}


REDACTED = {"type": "redacted_thinking", "data": "aGlkZGVu"}
MESSAGES = (
    message(thinking(1, "I look."), REDACTED, tool_use(TOOL, {})),
    message(thinking(2), {"type": "text", "text": "Enough."}, stop="end_turn"),
    message(tool_use("submit_action", HOLD)),
)


def candidate(*parts: dict[str, Any]) -> Prepared:
    content = {"role": "model", "parts": parts}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4}
    return Prepared(
        {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": usage,
        }
    )


def signed_call(name: str, arguments: Mapping[str, Any], signature: str = "") -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"id": f"fc-{name}", "name": name, "args": arguments}}
    if signature:
        part["thoughtSignature"] = signature
    return part


CANDIDATES = (
    candidate({"text": "Hm.", "thought": True}, signed_call(TOOL, {}, "c2lnMQ==")),
    candidate({"text": "Enough."}, {"text": "", "thoughtSignature": "c2lnMg=="}),
    candidate(signed_call("submit_action", HOLD)),
)


def completion(text: str, call: tuple[str, Any] | None = None, **thoughts: Any) -> Prepared:
    said_: dict[str, Any] = {"role": "assistant", "content": text, **thoughts}
    if call is not None:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        said_["tool_calls"] = [{"id": f"call_{call[0]}", "type": "function", "function": function}]
    finish = "stop" if call is None else "tool_calls"
    usage = {"prompt_tokens": 9, "completion_tokens": 4}
    return Prepared({"choices": [{"message": said_, "finish_reason": finish}], "usage": usage})


def completions(field: str, first: Any, second: Any) -> tuple[Prepared, ...]:
    return (
        completion("", (TOOL, {}), **{field: first}),
        completion("Enough.", None, **{field: second}),
        completion("", ("submit_action", HOLD)),
    )


def sealed_details(number: int) -> list[dict[str, Any]]:
    return [{"type": "reasoning.encrypted", "data": f"c2ln{number}", "index": 0}]


# --- the turns of the model in a request, as each API has them


def turns_of_responses(body: Any) -> list[Any]:
    kinds = ("reasoning", "function_call")
    return [
        item
        for item in body["input"]
        if item.get("type") in kinds or item.get("role") == "assistant"
    ]


def turns_of_messages(body: Any) -> list[Any]:
    return [turn["content"] for turn in body["messages"] if turn["role"] == "assistant"]


def turns_of_contents(body: Any) -> list[Any]:
    return [turn["parts"] for turn in body["contents"] if turn["role"] == "model"]


def turns_of_completions(body: Any) -> list[Any]:
    turns = [turn for turn in body["messages"] if turn["role"] == "assistant"]
    dropped = ("role", "tool_calls")
    return [{name: turn[name] for name in turn if name not in dropped} for turn in turns]


@dataclass(frozen=True)
class Vendor:
    model: str
    replies: tuple[Prepared, ...]
    turns: Callable[[Any], list[Any]]
    first: list[Any]  # the turn with the call, as request 2 returns it
    second: list[Any]  # the turn with a text, as request 3 returns it beside the first


_CALLED = {"type": "function_call", "call_id": f"call_{TOOL}", "name": TOOL, "arguments": "{}"}
_TEXT = {"type": "text", "text": "Enough."}
_USED = tool_use(TOOL, {})
VENDORS = {
    "openai": Vendor(
        "openai/gpt-5.6",
        RESPONSES,
        turns_of_responses,
        [reasoning(1, "I look."), _CALLED],
        [reasoning(2), {"role": "assistant", "content": "Enough.", "phase": "commentary"}],
    ),
    "anthropic": Vendor(
        "anthropic/claude-opus-5-5",
        MESSAGES,
        turns_of_messages,
        [[thinking(1, "I look."), REDACTED, _USED]],
        [[thinking(2), _TEXT]],
    ),
    "google": Vendor(
        "google/gemini-3-pro",
        CANDIDATES,
        turns_of_contents,
        [[signed_call(TOOL, {}, "c2lnMQ==")]],
        [[{"text": "Enough."}, {"text": "", "thoughtSignature": "c2lnMg=="}]],
    ),
    "deepseek": Vendor(
        "deepseek/deepseek-v4-pro",
        completions("reasoning_content", "Look.", "Done."),
        turns_of_completions,
        [{"reasoning_content": "Look."}],
        [{"content": "Enough.", "reasoning_content": "Done."}],
    ),
    "moonshot": Vendor(
        "moonshot/kimi-k2.6",
        completions("reasoning_content", "Look.", ""),
        turns_of_completions,
        [{"reasoning_content": "Look."}],
        [{"content": "Enough.", "reasoning_content": " "}],  # not empty, as the vendor asks
    ),
    "zhipu": Vendor(
        "zhipu/glm-5",
        completions("reasoning_content", "Look.", "Done."),
        turns_of_completions,
        [{"reasoning_content": "Look."}],
        [{"content": "Enough.", "reasoning_content": "Done."}],
    ),
    "minimax": Vendor(
        "minimax/MiniMax-M2",
        completions("reasoning_details", [{"type": "reasoning.text", "text": "Look."}], []),
        turns_of_completions,
        [{"reasoning_details": [{"type": "reasoning.text", "text": "Look."}]}],
        [{"content": "Enough."}],
    ),
    "openrouter": Vendor(
        "openrouter/openai/gpt-5.6",
        completions("reasoning_details", sealed_details(1), sealed_details(2)),
        turns_of_completions,
        [{"reasoning_details": sealed_details(1)}],
        [{"content": "Enough.", "reasoning_details": sealed_details(2)}],
    ),
    "qwen": Vendor(  # asks for none back
        "dashscope/qwen3-max",
        completions("reasoning_content", "Look.", "Done."),
        turns_of_completions,
        [{}],
        [{"content": "Enough."}],
    ),
}


def played(vendor: Vendor, task: str = "blinded_open_research", **params: Any) -> list[Any]:
    """The bodies of the requests of one step."""
    with prepared(*vendor.replies) as server:
        model = PLUGINS.make_model(vendor.model, {"base_url": server.address, **params})
        (record,) = Play(PLUGINS.make_task(task), model, MARKET).run(1)
    assert (record.provenance, record.failures) == ("model", {})
    return server.bodies


@pytest.mark.parametrize("name", VENDORS)
def test_the_turns_of_a_step_go_back_as_their_vendor_asks(name: str) -> None:
    vendor = VENDORS[name]
    first, second, third = played(vendor)
    assert vendor.turns(first) == []
    assert vendor.turns(second) == vendor.first
    assert vendor.turns(third) == [*vendor.first, *vendor.second]


@pytest.mark.parametrize("name", VENDORS)
def test_immediate_submission_saves_a_request_over_the_papers_protocol(
    name: str,
) -> None:
    vendor = VENDORS[name]
    look, _, submission = vendor.replies
    at_once = replace(vendor, replies=(look, submission))
    early = played(at_once)
    asked = played(at_once, "blinded_open_research_paper")
    assert (len(early), len(asked)) == (2, 3)

    sizes = [sum(len(json.dumps(body)) for body in bodies) for bodies in (early, asked)]
    assert sizes[0] < 0.75 * sizes[1]  # so much less is sent, and paid for


def with_words(replies: tuple[Prepared, ...], words: str) -> tuple[Prepared, ...]:
    return tuple(
        replace(reply, body=json.loads(json.dumps(reply.body).replace("I look.", words)))
        for reply in replies
    )


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_signed_words_that_name_what_is_hidden_do_not_go_back(name: str) -> None:
    vendor = VENDORS[name]
    bodies = played(replace(vendor, replies=with_words(vendor.replies, NAMED)))
    assert "600519" not in dumps_canonical(bodies)
    assert vendor.turns(bodies[1])[-1] in (_CALLED, [_USED])
    assert len(vendor.turns(bodies[1])) == 1
    assert vendor.turns(bodies[2])[1:] == vendor.second


# --- what must not go back


def answered(reply: Reply) -> tuple[Message, ...]:
    return (
        *QUESTION,
        reply.as_message(),
        Message("tool", "x", tool_call_id=reply.tool_calls[0].id),
    )


def test_reasoning_does_not_go_to_another_model() -> None:
    with prepared(*RESPONSES) as server:
        first = PLUGINS.make_model("openai/gpt-5.6", {"base_url": server.address})
        reply = first.reply(ask(QUESTION, (LOOK,)))
        second = PLUGINS.make_model("openai/gpt-5.6-mini", {"base_url": server.address})
        second.reply(ask(answered(reply), (LOOK,)))
        assert turns_of_responses(server.bodies[1]) == [_CALLED]


@pytest.mark.parametrize("name", VENDORS)
def test_a_recorded_reply_gives_the_next_request_byte_for_byte(name: str) -> None:
    vendor = VENDORS[name]
    with prepared(*vendor.replies) as server:
        model = PLUGINS.make_model(vendor.model, {"base_url": server.address})
        reply = model.reply(ask(QUESTION, (LOOK,)))
    recorded = reply_of(reply_bytes(reply), "here")
    bodies = [model.encode(ask(answered(each), (LOOK,))) for each in (reply, recorded)]
    assert dumps_canonical(bodies[0]) == dumps_canonical(bodies[1])
