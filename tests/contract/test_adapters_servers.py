"""Servers of Chat Completions that leave calls in the text, number their choices, name the end of a
cut reply otherwise, or moderate a prompt.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ktdeval.calls.tool_protocol_probe import choose_protocol
from ktdeval.errors import ProviderError
from ktdeval.harness import UNPARSED_CALL, CallParams
from ktdeval.registry import load_plugins
from ktdeval.testing import small_market
from support.providers.adapter_server import LOOK, QUESTION, Prepared, ask, prepared
from support.providers.stub_provider import skip_without_sdks
from support.tasks.ktdfin_play import Play

skip_without_sdks()

PLUGINS = load_plugins()
USAGE = {"prompt_tokens": 9, "completion_tokens": 4}
ARGUMENTS = '{"id": "S1"}'


def model_at(address: str) -> Any:
    return PLUGINS.make_model("vllm/some-model", {"base_url": f"{address}/v1"})


def answer(choices: list[dict[str, Any]], **usage: int) -> Prepared:
    return Prepared({"choices": choices, "usage": {**USAGE, **usage}})


def said(finish: str = "stop", index: int = 0, **message: Any) -> dict[str, Any]:
    whole = {"role": "assistant", "content": "", **message}
    return {"index": index, "message": whole, "finish_reason": finish}


def called(name: str, arguments: str, finish: str = "tool_calls", index: int = 0) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return said(finish, index, tool_calls=[{"id": "a", "type": "function", "function": function}])


MARKED = {
    "Kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_snapshot:0"
    f"<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
    "Qwen and Hermes": f'<tool_call>\n{{"name": "get_snapshot", "arguments": {ARGUMENTS}}}\n</tool_call>',
    "Qwen3-Coder": "<function=get_snapshot>\n<parameter=id>\nS1\n</parameter>\n</function>",
    "DeepSeek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_snapshot",
    "DeepSeek V3.2": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_snapshot">',
    "Mistral": f'[TOOL_CALLS][{{"name": "get_snapshot", "arguments": {ARGUMENTS}}}]',
    "MiniMax": '<minimax:tool_call>\n<invoke name="get_snapshot">',
    "Qwen2.5-Coder": f'Let me look.\n```json\n{{"name": "get_snapshot", "arguments": {ARGUMENTS}}}\n```',
    "Qwen2.5-Coder, small": f'<tools>\n{{"name": "get_snapshot", "arguments": {ARGUMENTS}}}\n</tools>',
    "the form of the wire": '```\n[{"type": "function", "function": {"name": "get_snapshot", "parameters":',
    "gpt-oss": "<|channel|>commentary to=functions.get_snapshot <|message|>{}",
}


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
@pytest.mark.parametrize("family", MARKED)
def test_a_call_left_in_the_text_is_noted_and_told_once(
    family: str, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    with prepared(answer([said(**{field: MARKED[family]})])) as server:
        model = model_at(server.address)
        with caplog.at_level(logging.WARNING):
            replies = [model.reply(ask(QUESTION, (LOOK,))) for _ in range(2)]

    assert [reply.notes for reply in replies] == [(UNPARSED_CALL,)] * 2
    assert [reply.tool_calls for reply in replies] == [()] * 2
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "vllm/some-model left a tool call in the text" in warning
    assert "--tool-call-parser" in warning


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"orders": [], "overall_reason": "Nothing to do."}\n```',
        '```json\n{"name": "Moutai", "arguments": "for and against"}\n```',  # no tool of that name
        'The tool get_snapshot takes {"id": "S1"}.',
    ],
)
def test_other_json_in_a_reply_is_no_call(text: str) -> None:
    with prepared(answer([said(content=text)])) as server:
        assert model_at(server.address).reply(ask(QUESTION, (LOOK,))).notes == ()


def test_a_call_left_in_the_text_is_not_native_and_says_why() -> None:
    with prepared(answer([said(content=MARKED["Kimi"])])) as server:
        model = model_at(server.address)
        with pytest.raises(ProviderError) as caught:
            choose_protocol(model, "auto", model.reply, CallParams(timeout_s=60))

    assert f"native: {UNPARSED_CALL}, since the server has no tool parser" in str(caught.value)
    assert "force one with --tool-protocol native" in str(caught.value)


def test_a_call_left_in_the_text_is_counted_in_a_run() -> None:
    with prepared(answer([said(content=MARKED["Qwen and Hermes"])])) as server:
        play = Play(
            PLUGINS.make_task("blinded_open_research"), model_at(server.address), small_market()
        )
        record = play.run(1)[0]

    assert record.failures["unparsed_call"] == len(server.bodies)


LIMITS = {
    # finish, tokens of the reply, tokens of reasoning: how it ended
    "shorter": ("stop", 98, 0, "stop"),
    "as long as it may be": ("stop", 99, 0, "length"),
    "one more": ("eos", 100, 0, "length"),
    "with reasoning beside the limit": ("stop", 150, 60, "stop"),
    "with reasoning within it": ("stop", 99, 60, "length"),
    "a refusal stays one": ("content_filter", 99, 0, "content_filter"),
}


@pytest.mark.parametrize("case", LIMITS)
def test_a_reply_as_long_as_its_limit_is_cut(case: str) -> None:
    finish, tokens, reasoning, ended = LIMITS[case]
    usage: dict[str, Any] = {
        "completion_tokens": tokens,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    with prepared(answer([said(finish, content="Hi")], **usage)) as server:
        reply = model_at(server.address).reply(ask(max_output_tokens=99))

    assert reply.finish_reason == ended


MODERATED = {
    "a word for its end": answer([said("content_filter")]),
    "an error": Prepared(
        {"error": {"message": "Your input was flagged.", "code": "content_filter"}}, 400
    ),
    "OpenRouter's": Prepared(
        {
            "error": {
                "code": 403,
                "message": "Your chosen model requires moderation",
                "metadata": {"reasons": ["violence"], "flagged_input": "…"},
            }
        },
        403,
    ),
}


@pytest.mark.parametrize("case", MODERATED)
def test_a_moderated_prompt_is_one_class_and_no_failure_of_parsing(case: str) -> None:
    with prepared(MODERATED[case]) as server:
        play = Play(
            PLUGINS.make_task("blinded_open_research"), model_at(server.address), small_market()
        )
        record = play.run(1)[0]

    assert dict(record.failures) == {"content_filter": len(server.bodies)}


def fixed(body: Any) -> Prepared:
    """What a server for tests answers: always the last tool, with the same arguments."""
    if "tools" not in body:
        return answer([said(content="mock")])
    return answer([called(body["tools"][-1]["function"]["name"], '{"text": "mock"}')])


def test_a_server_for_tests_with_fixed_arguments_is_native() -> None:
    with prepared(fixed) as server:
        model = model_at(server.address)
        params = CallParams(timeout_s=60)
        assert choose_protocol(model, "auto", model.reply, params) == "native"
