"""The two-phase agent: research, then a forced submission with feedback, then a hold."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ktdeval.errors import ModelError
from ktdeval.harness.chat_messages import Reply, ToolCall, Usage
from ktdeval.harness.steps.research_then_submit import NO_SUBMISSION, RESEARCH_ENDED, SUBMIT_NOW
from ktdeval.registry import load_plugins
from ktdeval.testing import on_each_row, small_market
from support.tasks.ktdfin_play import Play, Scripted

MARKET = small_market()
PLUGINS = load_plugins()
HOLD = '{"orders": [], "overall_reason": "nothing to do"}'


def play(*replies: Any, task: str = "blinded_open_research") -> tuple[Any, Scripted]:
    model = Scripted(*replies)
    (record,) = Play(PLUGINS.make_task(task), model, MARKET).run(1)
    return record, model


def tool(name: str, arguments: str = "{}", number: int = 1) -> Reply:
    return Reply(tool_calls=(ToolCall(f"c{number}", name, arguments),), finish_reason="tool_calls")


def submit(arguments: str = HOLD, number: int = 90) -> Reply:
    return tool("submit_action", arguments, number)


def test_submit_call_in_the_papers_protocol_only_ends_the_research() -> None:
    early = Reply(
        tool_calls=(
            ToolCall("a", "submit_action", HOLD.replace("nothing", "too early")),
            ToolCall("b", "get_market_context", "{}"),
        ),
        finish_reason="tool_calls",
    )
    record, model = play(early, submit(), task="blinded_open_research_paper")
    first, second = model.requests

    assert (first.tool_choice, second.tool_choice) == (None, "submit_action")

    answers = {m.tool_call_id: m.content for m in second.messages if m.role == "tool"}
    assert answers["a"] == RESEARCH_ENDED
    assert "indices" in json.loads(answers["b"])
    assert second.messages[-1].content == SUBMIT_NOW.format(tool="submit_action")
    assert (record.provenance, record.overall_reason) == ("model", "nothing to do")
    assert (record.tool_calls, record.submissions, record.failures) == (1, 1, {})


# `early`: arguments of the calls of submit_action, after one research call and beside another.
@on_each_row(
    "early, requests, provenance, counted, feedback",
    (['{"orders": [], "overall_reason": "nothing to do"}'], 2, "model", {}, ""),
    # repeated with other spaces
    (
        [
            '{"orders": [], "overall_reason": "nothing to do"}',
            '{"orders":[],"overall_reason":"nothing to do"}',
        ],
        2,
        "model",
        {},
        "",
    ),
    (['{"orders": []}'], 3, "model_after_retry", {"schema": 1}, "must have overall_reason"),
    (["{"], 3, "model_after_retry", {"bad_json": 1}, "JSON"),
    (
        ['{"orders": [], "overall_reason": "one"}', '{"orders": [], "overall_reason": "two"}'],
        3,
        "model_after_retry",
        {"contradictory": 1},
        "calls that differ",
    ),
)
def test_a_submission_during_research_is_the_decision_if_it_is_valid(
    early: list[str], requests: int, provenance: str, counted: dict[str, int], feedback: str
) -> None:
    calls = [ToolCall(f"e{n}", "submit_action", text) for n, text in enumerate(early)]
    aside = ToolCall("c", "get_market_context", "{}")
    reply = Reply(tool_calls=(*calls, aside), finish_reason="tool_calls")
    record, model = play(tool("get_market_context"), reply, submit())

    assert [request.tool_choice for request in model.requests[:2]] == [None, None]
    assert len(model.requests) == requests
    assert (record.provenance, record.overall_reason) == (provenance, "nothing to do")
    assert record.failures == counted
    assert record.submissions == requests - 1
    if requests == 2:  # the call beside it is not run
        assert record.tool_calls == 1
        return

    asked = model.requests[-1]
    answers = {m.tool_call_id: m.content for m in asked.messages if m.role == "tool"}
    assert asked.tool_choice == "submit_action"
    assert asked.messages[-1].content == SUBMIT_NOW.format(tool="submit_action")
    assert feedback in answers["e0"]
    assert "indices" in json.loads(answers["c"])


def test_invalid_submission_during_research_counts_as_an_attempt() -> None:
    record, model = play(submit("{}", 80), *[submit("{}", number) for number in range(4)])
    assert [request.tool_choice for request in model.requests] == [None, *["submit_action"] * 3]
    assert (record.provenance, record.submissions) == ("fallback", 4)
    assert record.failures == {"schema": 4}


# A call of a tool with its arguments, or words.
@on_each_row(
    "bad, failure",
    (["submit_action", "{"], "bad_json"),
    (["submit_action", '{"orders": []}'], "schema"),
    (["get_market_context", "{}"], "wrong_tool"),
    ("I would rather talk.", "no_submission"),
    ("", "empty_reply"),
)
def test_an_invalid_submission_gets_feedback_and_another_try(
    bad: str | list[str], failure: str
) -> None:
    record, model = play(
        Reply("Done."), Reply(bad) if isinstance(bad, str) else tool(*bad, 91), submit(number=92)
    )

    assert record.provenance == "model_after_retry"
    assert record.failures == {failure: 1}
    assert record.submissions == 2

    last = model.requests[-1].messages[-1]
    assert last.role == ("user" if isinstance(bad, str) else "tool")
    assert last.content

    if failure == "no_submission":
        feedback = [message.content for message in model.requests[-1].messages[-2:]]
        assert feedback == ["I would rather talk.", NO_SUBMISSION.format(tool="submit_action")]


@pytest.mark.parametrize(
    "name", ["functions.submit_action", "functions.submit_action:0", "default_api:submit_action"]
)
def test_a_submission_under_the_namespace_of_a_models_training_counts(name: str) -> None:
    whole = submit(number=91)
    (call,) = whole.tool_calls
    wrapped = replace(whole, tool_calls=(replace(call, name=name),))
    record, _ = play(Reply("Done."), wrapped)

    assert (record.provenance, record.failures) == ("model", {})


def test_after_the_last_retry_the_step_is_a_hold_and_a_fallback() -> None:
    record, model = play(Reply("Done."), *[submit("{}", number) for number in range(4)])
    assert len(model.requests) == 5
    assert (record.provenance, record.orders, record.overall_reason) == ("fallback", (), "")
    assert record.failures == {"schema": 4}


def test_a_failed_model_call_leaves_the_step_to_the_engine() -> None:
    record, _ = play(ModelError("timeout", "no answer"))
    assert (record.provenance, record.failures) == ("error", {"model_timeout": 1})


def test_an_order_is_decided_in_true_identities() -> None:
    scene = PLUGINS.make_task("blinded_memory_only")
    episode = Play(scene, Scripted(), MARKET)
    handle = episode.scene.lens.asset_handle(9)
    order = {
        "stock_id": handle,
        "side": "BUY",
        "target_weight": 0.05,
        "confidence": 0.6,
        "reason": "because of a test",
    }
    episode.model.replies.append(
        submit(json.dumps({"orders": [order], "overall_reason": "a test"}))
    )
    (record,) = episode.run(1)

    assert [(row.code, row.side, row.target_weight) for row in record.orders] == [
        (MARKET.codes[9], "BUY", 0.05)
    ]


def test_differing_submissions_in_one_reply_are_counted_and_asked_again() -> None:
    calls = (
        ToolCall("a", "submit_action", HOLD),
        ToolCall("b", "submit_action", HOLD.replace("nothing", "something")),
    )
    record, _ = play(Reply("Done."), Reply(tool_calls=calls, finish_reason="tool_calls"), submit())

    assert (record.provenance, record.failures) == ("model_after_retry", {"contradictory": 1})

    same = (calls[0], ToolCall("b", "submit_action", HOLD.replace(", ", " , ")))
    record, _ = play(Reply("Done."), Reply(tool_calls=same, finish_reason="tool_calls"))

    assert (record.provenance, record.overall_reason) == ("model", "nothing to do")

    calls = (
        ToolCall("a", "submit_action", "{}"),
        ToolCall("b", "submit_action", HOLD),
        ToolCall("c", "get_news", "{}"),
    )
    _, model = play(Reply("Done."), Reply(tool_calls=calls, finish_reason="tool_calls"), submit())

    assert [
        message.tool_call_id for message in model.requests[-1].messages if message.role == "tool"
    ] == ["a", "b", "c"]


CUT = "That reply was cut at 4,096 tokens, before its end: be shorter this time."


def cut(reply: Reply, tokens: int = 4096) -> Reply:
    return replace(reply, finish_reason="length", usage=Usage(9, tokens))


def test_a_research_call_that_was_cut_is_told_so() -> None:
    _, model = play(cut(tool("get_market_context", '{"a')), Reply("Enough."), submit())
    assert model.requests[1].messages[-1].content.startswith(f"{CUT}\n")
