import json
from dataclasses import replace

import pytest
from masking_market import BASE_ROW, CODES, guard_of, lens_of

from ktdeval.errors import LeakError, ModelError
from ktdeval.harness.action import ActionForm
from ktdeval.harness.agent import Decision, Desk
from ktdeval.harness.config import HarnessConfig
from ktdeval.harness.desk import DeskParts, StepDesk
from ktdeval.harness.messages import CallParams, Message, ModelRequest, Reply, ToolCall, ToolSpec, Usage
from ktdeval.harness.tools import AssetArg, tool
from ktdeval.masking.payload import AssetRef, DayRef

HELLO = (Message("system", "You trade."), Message("user", "Decide."))
REASON = "strong momentum, low risk"


class Scripted:
    """A model that gives the replies it was made with, in order, and remembers the requests."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.requests = []

    def reply(self, request):
        self.requests.append(request)
        answer = self.replies[len(self.requests) - 1]
        if isinstance(answer, ModelError):
            raise answer
        return answer


@tool
def look(context, stock_id: AssetArg):
    """Look at a stock."""
    return {"stock_id": AssetRef(stock_id), "day": DayRef(context)}


@tool
def careless(context):
    """Show a code as text."""
    return {"text": f"see {CODES[0]} on day {context}"}


def desk_of(*replies, kind="blinded", config=HarnessConfig(), step=0, seed=1):  # noqa: B008 - frozen
    lens = lens_of(kind)
    model = Scripted(*replies)
    form = ActionForm(config, lens)
    parts = DeskParts(model, lens, guard_of(kind), (look, careless), form, config, CallParams(temperature=0.3, seed=99), seed)
    return StepDesk(parts, step, BASE_ROW), model


def submit(*orders, overall_reason="fine"):
    return ToolCall("s", "submit_action", json.dumps({"orders": orders, "overall_reason": overall_reason}))


def order(**changes):
    handle = lens_of("blinded").asset_handle(1)
    return {"stock_id": handle, "side": "BUY", "confidence": 0.6, "reason": REASON, "target_weight": 0.05} | changes


def test_a_step_desk_is_a_desk():
    desk, _ = desk_of()
    assert_type: Desk = desk
    assert [spec.name for spec in assert_type.tools] == ["look", "careless"]
    assert desk.submit_tool.name == "submit_action"
    assert (desk.tool_budget, desk.submission_attempts) == (12, 4)


# --- the model


def test_the_runs_parameters_go_with_every_call_and_each_call_has_its_own_seed():
    seeds = set()
    for step in (0, 1):
        desk, model = desk_of(Reply("a"), Reply("b"), step=step)
        for _ in range(2):
            desk.ask(ModelRequest(HELLO, params=CallParams(temperature=2.0)))
        assert {request.params.temperature for request in model.requests} == {0.3}
        seeds |= {request.params.seed for request in model.requests}
    assert len(seeds) == 4
    again, model = desk_of(Reply("a"))
    again.ask(ModelRequest(HELLO))
    assert model.requests[0].params.seed in seeds


def test_what_the_suite_says_must_pass_the_guard_and_nothing_is_sent_if_not():
    for message in (
        Message("user", f"Buy {CODES[0]}."),
        Message("system", "It is 2024-01-02."),
        Message("tool", "平安银行", (), "1"),
    ):
        desk, model = desk_of(Reply("a"))
        with pytest.raises(LeakError, match=f"a {message.role} message") as caught:
            desk.ask(ModelRequest((*HELLO, message)))
        assert message.content not in str(caught.value)
        assert model.requests == []
    bright, model = desk_of(Reply("a"), kind="bright")
    bright.ask(ModelRequest((Message("user", f"Buy {CODES[0]} on 2024-01-02."),)))
    assert len(model.requests) == 1


def test_the_tools_offered_must_pass_the_guard():
    for spec in (ToolSpec("a", f"like {CODES[0]}", {}), ToolSpec("a", "text", {"enum": ["2024-01-02"]})):
        desk, model = desk_of(Reply("a"))
        with pytest.raises(LeakError, match="the description of a tool"):
            desk.ask(ModelRequest(HELLO, tools=(spec,)))
        assert model.requests == []


def test_a_tool_changed_after_the_guard_let_it_pass_must_pass_again():
    desk, model = desk_of(Reply("a"), Reply("b"))
    spec = ToolSpec("own", "Own tool.", {"type": "object", "properties": {}})
    desk.ask(ModelRequest(HELLO, (spec,)))
    spec.parameters["properties"]["stock"] = {"enum": [CODES[0]]}
    with pytest.raises(LeakError, match="the description of a tool holds a security code"):
        desk.ask(ModelRequest(HELLO, (spec,)))
    assert len(model.requests) == 1


def test_what_passed_at_one_step_passes_at_the_next_and_nothing_else_does():
    first, model = desk_of(*[Reply("a")] * 3)
    system, user = HELLO
    first.ask(ModelRequest(HELLO, first.tools))
    second = StepDesk(first._parts, 1, BASE_ROW)
    second.ask(ModelRequest(HELLO, second.tools))
    for leaking in ((Message("system", f"Buy {CODES[0]}."), user), (system, Message("user", f"Buy {CODES[0]}."))):
        with pytest.raises(LeakError):
            second.ask(ModelRequest(leaking, second.tools))
    assert len(model.requests) == 2


def test_the_models_own_words_are_sent_back_with_identities_withheld():
    desk, model = desk_of(Reply("b"))
    calls = (
        ToolCall("1", "look", '{"stock_id": "600519"}'),
        ToolCall("2", "SH600519", "{}"),
        ToolCall("3", "look", '{"stock_id": 1}'),
    )
    desk.ask(ModelRequest((*HELLO, Message("assistant", "I know 600519.SH from 2024.", calls))))
    sent = model.requests[0].messages[2]
    assert sent.content == "I know [withheld] from [withheld]."
    assert [(call.name, call.arguments) for call in sent.tool_calls] == [
        ("look", '{"stock_id":"[withheld]"}'),
        ("withheld", "{}"),
        ("look", '{"stock_id": 1}'),
    ]


def test_an_id_that_holds_an_identity_is_replaced_in_the_call_and_in_its_answer():
    desk, model = desk_of(Reply("b"))
    calls = (ToolCall("call_600519", "look", "{}"), ToolCall("call_7", "look", "{}"))
    answers = (Message("tool", "one", (), "call_600519"), Message("tool", "two", (), "call_7"))
    desk.ask(ModelRequest((*HELLO, Message("assistant", "", calls), *answers)))
    assistant, first, second = model.requests[0].messages[2:]
    assert "600519" not in assistant.tool_calls[0].id
    assert first.tool_call_id == assistant.tool_calls[0].id
    assert second.tool_call_id == assistant.tool_calls[1].id == "call_7"


def test_a_replys_text_reaches_the_agent_withheld_and_its_calls_as_written():
    raw = Reply("Sell 600519.SH", (ToolCall("1", "look", '{"stock_id": "600519"}'),), "tool_calls", reasoning="It is January.")
    desk, _ = desk_of(raw)
    reply = desk.ask(ModelRequest(HELLO))
    assert (reply.content, reply.reasoning) == ("Sell [withheld]", "It is [withheld].")
    assert reply.tool_calls == raw.tool_calls
    assert desk.exchanges[0]["reply"] == raw.to_json()


def test_usage_and_finish_reasons_are_counted():
    usage = Usage(100, 7)
    desk, _ = desk_of(
        *(Reply("a", finish_reason=reason, usage=usage) for reason in ("stop", "length", "refusal", "content_filter"))
    )
    for _ in range(4):
        desk.ask(ModelRequest(HELLO))
    assert desk.counts.usage == Usage(400, 28)
    assert desk.counts.failures == {"truncated": 1, "refusal": 1, "content_filter": 1}


def test_a_failed_call_is_counted_recorded_and_raised():
    desk, _ = desk_of(ModelError("timeout", "no answer in 120 s"))
    with pytest.raises(ModelError):
        desk.ask(ModelRequest(HELLO))
    assert desk.counts.failures == {"model_timeout": 1}
    assert desk.exchanges[0]["error"] == "timeout"
    assert "reply" not in desk.exchanges[0]


def test_only_forced_calls_count_as_submissions_asked_for():
    desk, _ = desk_of(Reply("a"), Reply("b"), Reply("c"))
    desk.ask(ModelRequest(HELLO, desk.tools))
    for _ in range(2):
        desk.ask(ModelRequest(HELLO, (desk.submit_tool,), "submit_action"))
    assert desk.counts.submissions == 2


def test_the_transcript_holds_each_message_once_as_it_was_sent():
    desk, _ = desk_of(Reply("hm 600519"), Reply("yes"), Reply("other"))
    first = desk.ask(ModelRequest(HELLO, desk.tools))
    longer = (*HELLO, Message("assistant", first.content), Message("user", "So?"))
    desk.ask(ModelRequest(longer, (desk.submit_tool,), "submit_action"))
    desk.ask(ModelRequest((HELLO[0], Message("user", "Anew."))))
    assert [exchange["kept"] for exchange in desk.exchanges] == [0, 2, 1]
    assert [len(exchange["sent"]) for exchange in desk.exchanges] == [2, 2, 1]
    assert desk.exchanges[1]["sent"][0] == {"role": "assistant", "content": "hm [withheld]"}
    assert [exchange["tools"] for exchange in desk.exchanges] == [["look", "careless"], ["submit_action"], []]
    assert desk.exchanges[1]["tool_choice"] == "submit_action"
    json.dumps(desk.exchanges, allow_nan=False)


def test_a_reply_with_lone_surrogates_can_still_be_written():
    desk, _ = desk_of(Reply("\ud800", (ToolCall("\udfff", "\ud800", "\ud800"),), reasoning="\ud800"))
    reply = desk.ask(ModelRequest(HELLO))
    json.dumps(desk.exchanges, ensure_ascii=False).encode("utf-8")
    assert reply.content == "?"


# --- the tools


def test_a_tool_is_called_with_true_arguments_and_answers_masked():
    desk, _ = desk_of()
    handle = lens_of("blinded").asset_handle(3)
    result = desk.call_tool(ToolCall("1", "look", json.dumps({"stock_id": handle})))
    assert json.loads(result.text) == {"stock_id": handle, "day": "day_+0"}
    assert result.failure is None
    assert (desk.counts.tool_calls, desk.counts.tool_calls_valid, desk.tool_budget) == (1, 1, 11)


def test_bad_calls_cost_budget_and_are_counted_by_kind():
    desk, _ = desk_of()
    for name, arguments in [
        ("look", "{"),
        ("look", "{}"),
        ("look", '{"stock_id": "600519"}'),
        ("lok", "{}"),
        ("submit_action", "{}"),
    ]:
        result = desk.call_tool(ToolCall("1", name, arguments))
        assert result.failure == json.loads(result.text)["error"]["kind"]
    assert desk.counts.failures == {"bad_json": 1, "bad_arguments": 1, "unknown_asset": 1, "unknown_tool": 1, "wrong_tool": 1}
    assert (desk.counts.tool_calls, desk.counts.tool_calls_valid, desk.tool_budget) == (5, 0, 7)
    assert desk.counts.unmask_attempts == 1


def test_an_unknown_tool_is_answered_with_the_known_ones_and_never_quoted():
    desk, _ = desk_of()
    text = desk.call_tool(ToolCall("1", "lokk", "{}")).text
    assert "one of: look, careless; did you mean 'look'?" in text
    assert "lokk" not in text
    assert "600519" not in desk.call_tool(ToolCall("1", "600519", "{}")).text


def test_calls_past_the_budget_are_not_run():
    desk, _ = desk_of(config=HarnessConfig(max_tool_calls=1))
    call = ToolCall("1", "look", json.dumps({"stock_id": lens_of("blinded").asset_handle(3)}))
    results = [desk.call_tool(call) for _ in range(3)]
    assert [result.failure for result in results] == [None, "tool_budget", "tool_budget"]
    assert desk.counts.failures == {"tool_budget": 2}
    assert (desk.counts.tool_calls, desk.tool_budget) == (1, 0)


def test_a_tool_that_leaks_fails_the_step_before_its_result_is_sent():
    desk, model = desk_of(Reply("a"))
    result = desk.call_tool(ToolCall("1", "careless", "{}"))
    with pytest.raises(LeakError, match="a tool message holds a security code"):
        desk.ask(ModelRequest((*HELLO, Message("tool", result.text, (), "1"))))
    assert model.requests == []


# --- the submission


def test_a_valid_submission_is_returned_and_traced():
    call = submit(order())
    desk, _ = desk_of(Reply(tool_calls=(call,)))
    reply = desk.ask(ModelRequest(HELLO, (desk.submit_tool,), "submit_action"))
    submission = desk.parse_submission(reply.tool_calls[0].arguments)
    assert [item.asset for item in submission.action] == [1]
    taken = Decision(submission.action, "model", submission.overall_reason, submission.stock_ids)
    assert desk.accepted_text(taken) == call.arguments
    assert desk.accepted_text(replace(taken, action=())) is None
    assert desk.accepted_text(Decision((), "fallback")) is None
    assert desk.counts.failures == {}


def test_a_submission_that_the_model_did_not_write_is_not_traced():
    desk, _ = desk_of()
    submission = desk.parse_submission(submit(order()).arguments)
    assert desk.accepted_text(Decision(submission.action, "model", submission.overall_reason)) is None


def test_failed_submissions_are_counted_by_kind():
    desk, _ = desk_of()
    assert desk.parse_submission("{").failure == "bad_json"
    assert desk.parse_submission("{}").failure == "schema"
    assert desk.parse_submission(submit(order(stock_id="600519"), order(stock_id="asset_9999")).arguments).failure is None
    assert desk.counts.failures == {"bad_json": 1, "schema": 1, "unknown_asset": 2}
    assert desk.counts.unmask_attempts == 1


def test_reasons_are_kept_with_identities_withheld():
    desk, _ = desk_of()
    text = submit(order(reason="as Quillmark in March 2024"), overall_reason="like 600519").arguments
    submission = desk.parse_submission(text)
    assert submission.action[0].reason == "as [withheld] in [withheld]"
    assert submission.overall_reason == "like [withheld]"


def test_an_agent_may_count_what_it_saw():
    desk, _ = desk_of()
    desk.count_failure("empty_reply")
    assert desk.counts.to_json()["failures"] == {"empty_reply": 1}
