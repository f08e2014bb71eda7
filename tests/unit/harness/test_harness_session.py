import json
from dataclasses import replace

import pytest

from ktdeval.errors import BudgetError, LeakError, ModelError, PluginError
from ktdeval.harness.agent import Decision, HarnessConfig, Observation
from ktdeval.harness.chat_messages import (
    MAX_REPLY_CHARS,
    CallParams,
    Message,
    ModelRequest,
    Opaque,
    Reply,
    ToolCall,
    ToolSpec,
    Usage,
)
from ktdeval.harness.steps.session_parts import NamedModel, SessionParts
from ktdeval.harness.steps.step_session import GuardedSession
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.harness.tools.arguments import AssetArg
from ktdeval.harness.tools.tool_definition import tool
from ktdeval.masking.payload_types import AssetRef, DayRef
from support.masking.masking_market import BASE_ROW, CODES, guard_of, lens_of
from support.tasks.ktdfin_play import Scripted

HELLO = (Message("system", "You trade."), Message("user", "Decide."))
REASON = "strong momentum, low risk"


@tool
def look(context, stock_id: AssetArg):
    """Look at a stock."""
    return {"stock_id": AssetRef(stock_id), "day": DayRef(context)}


@tool
def careless(context):
    """Show a code as text."""
    return {"text": f"see {CODES[0]} on day {context}"}


@tool
def broken(context):
    """Divide by zero."""
    return {"ratio": 1 / 0}


def session_of(*replies, kind="blinded", config=HarnessConfig(), step=0, seed=1):  # noqa: B008 - frozen
    lens = lens_of(kind)
    lens.render([AssetRef(1), AssetRef(3)])  # in the observation
    model = Scripted(*replies)
    form = ActionForm(config, lens)
    parts = SessionParts(
        model,
        lens,
        guard_of(kind),
        (look, careless, broken),
        form,
        config,
        CallParams(temperature=0.3, seed=99),
        seed,
    )

    return GuardedSession(parts, step, BASE_ROW), model


def submit(*orders, overall_reason="fine"):
    return ToolCall(
        "s", "submit_action", json.dumps({"orders": orders, "overall_reason": overall_reason})
    )


def order(**changes):
    handle = lens_of("blinded").asset_handle(1)
    return {
        "stock_id": handle,
        "side": "BUY",
        "confidence": 0.6,
        "reason": REASON,
        "target_weight": 0.05,
    } | changes


@pytest.mark.parametrize("name", ["tools", "submit_tool", "tool_budget", "submission_attempts"])
def test_an_agent_can_not_give_itself_more(name):
    session, _ = session_of()
    with pytest.raises(AttributeError):
        setattr(session, name, 99)


# --- the model


def test_request_naming_a_further_model_asks_it_and_records_its_name():
    session, own = session_of(Reply("own"), Reply("own again"))
    quick = Scripted(Reply("quick"))
    named = NamedModel(quick, CallParams(temperature=0.3, tool_protocol="text"))
    parts = replace(session._parts, name="lab/deep", further={"lab/quick": named})
    session = GuardedSession(parts, 0, BASE_ROW)

    asked = [ModelRequest(HELLO, model=name) for name in (None, "lab/quick", "lab/deep")]

    assert [session.ask(request).content for request in asked] == ["own", "quick", "own again"]
    assert len(own.requests) == 2
    assert quick.requests[0].params.tool_protocol == "text"
    assert [exchange.get("model") for exchange in session.exchanges] == [None, "lab/quick", None]
    assert len({exchange["seed"] for exchange in session.exchanges}) == 3


def test_an_agent_can_ask_no_model_that_it_has_not_declared():
    session, _ = session_of(Reply("own"))
    with pytest.raises(PluginError, match="'lab/other', but declares no other; name it in furth"):
        session.ask(ModelRequest(HELLO, model="lab/other"))


def test_a_tool_changed_after_the_guard_let_it_pass_must_pass_again():
    session, model = session_of(Reply("a"), Reply("b"))
    spec = ToolSpec("own", "Own tool.", {"type": "object", "properties": {}})
    session.ask(ModelRequest(HELLO, (spec,)))
    spec.parameters["properties"]["stock"] = {"enum": [CODES[0]]}

    with pytest.raises(LeakError, match="the description of a tool holds a security code"):
        session.ask(ModelRequest(HELLO, (spec,)))

    assert len(model.requests) == 1


def test_the_schema_of_a_step_passes_the_guard_with_the_first_call_that_carries_it():
    session, model = session_of(Reply("a report"), Reply("b"))
    session._submissions.schema = {"properties": {"stock_id": {"enum": [CODES[0]]}}}
    session.ask(ModelRequest(HELLO))  # a role that may not call gets no tool, and no schema
    assert model.requests[0].submit_schema is None

    with pytest.raises(LeakError, match="the schema of a submission holds a security code"):
        session.ask(ModelRequest(HELLO, (session.submit_tool,)))

    assert len(model.requests) == 1


def test_parameters_go_with_every_call_and_each_has_its_own_seed():
    seeds = set()
    for step in (0, 1):
        session, model = session_of(Reply("a"), Reply("b"), step=step)
        for _ in range(2):
            session.ask(ModelRequest(HELLO, params=CallParams(temperature=2.0)))

        assert {request.params.temperature for request in model.requests} == {0.3}
        seeds |= {request.params.seed for request in model.requests}

    assert len(seeds) == 4

    again, model = session_of(Reply("a"))
    again.ask(ModelRequest(HELLO))

    assert model.requests[0].params.seed in seeds


LEAKS = [
    (Message("user", f"Buy {CODES[0]}."), "a user message"),
    (Message("system", "It is 2024-01-02."), "a system message"),
    (Message("tool", "平安银行", (), "1"), "a tool message"),
    (ToolSpec("a", f"like {CODES[0]}", {}), "the description of a tool"),
    (ToolSpec("a", "text", {"enum": ["2024-01-02"]}), "the description of a tool"),
]


@pytest.mark.parametrize(("leak", "where"), LEAKS)
def test_prompts_and_tools_pass_the_guard_before_anything_is_sent(leak, where):
    request = (
        ModelRequest((*HELLO, leak))
        if isinstance(leak, Message)
        else ModelRequest(HELLO, tools=(leak,))
    )
    session, model = session_of(Reply("a"))

    with pytest.raises(LeakError, match=where) as caught:
        session.ask(request)

    assert getattr(leak, "content", CODES[0]) not in str(caught.value)
    assert model.requests == []

    bright, model = session_of(Reply("a"), kind="bright")
    bright.ask(request)

    assert len(model.requests) == 1


class Careless:
    """An agent that goes on whatever happened, or makes an error of its own of it."""

    def __init__(self, asked, error=None):
        self.asked = asked
        self.error = error

    def decide(self, observation, session, memory):
        try:
            self.asked(session)
        except BaseException:  # noqa: BLE001
            if self.error is not None:
                raise self.error from None

        return Decision((), "fallback")


def say(*messages):
    return lambda session: session.ask(ModelRequest((*HELLO, *messages)))


ENDS = {
    "a leak": (say(LEAKS[0][0]), None, LeakError),
    "a budget that is used up": (say(), BudgetError("--max-cost 1: reached"), BudgetError),
    "an interrupt": (say(), KeyboardInterrupt(), KeyboardInterrupt),
    "a defect of a model": (say(), ZeroDivisionError(), ZeroDivisionError),
    "a defect of a tool": (
        lambda session: session.call_tool(ToolCall("1", "broken", "{}")),
        None,
        ZeroDivisionError,
    ),
    "a leak in a text to embed": (
        lambda session: session.embed([f"Buy {CODES[0]}."], list),
        None,
        LeakError,
    ),
}


@pytest.mark.parametrize(
    "own", [None, ModelError("server", "none"), RuntimeError()], ids=["goes on", "holds", "fails"]
)
@pytest.mark.parametrize(("asked", "raised", "expected"), ENDS.values(), ids=ENDS)
def test_no_agent_continues_after_an_error_that_ends_the_episode(asked, raised, expected, own):
    session, _ = session_of(raised or Reply("a"))
    with pytest.raises(expected):
        session.decide(Careless(asked, own), Observation(0, "s", "u"), None)

    failing, _ = session_of(ModelError("server", "none"))  # a failed call is the agent's to answer

    assert (
        failing.decide(Careless(say()), Observation(0, "s", "u"), None).decision.provenance
        == "fallback"
    )


def test_what_passed_at_one_step_passes_at_the_next_and_nothing_else_does():
    first, model = session_of(*[Reply("a")] * 3)
    system, user = HELLO
    first.ask(ModelRequest(HELLO, first.tools))
    second = GuardedSession(first._parts, 1, BASE_ROW)
    second.ask(ModelRequest(HELLO, second.tools))

    for leaking in (
        (Message("system", f"Buy {CODES[0]}."), user),
        (system, Message("user", f"Buy {CODES[0]}.")),
    ):
        with pytest.raises(LeakError):
            second.ask(ModelRequest(leaking, second.tools))

    assert len(model.requests) == 2


def test_words_of_a_reply_come_withheld_and_its_calls_as_written():
    raw = Reply(
        "Sell 600519.SH",
        (ToolCall("1", "look", '{"stock_id": "600519"}'),),
        "tool_calls",
        reasoning="It is January.",
    )
    session, _ = session_of(raw)
    reply = session.ask(ModelRequest(HELLO))

    assert (reply.content, reply.reasoning) == ("Sell [withheld]", "It is [withheld].")
    assert reply.tool_calls == raw.tool_calls
    assert session.exchanges[0]["reply"] == raw.to_json()


def test_models_own_words_are_sent_back_without_identities_even_in_ids():
    session, model = session_of(Reply("b"))
    fields = [
        ("1", "look", '{"stock_id": "600519"}'),
        ("2", "SH600519", "{}"),
        ("call_600519", "look", '{"stock_id": 1}'),
    ]
    answers = [Message("tool", "one", (), "call_600519"), Message("tool", "two", (), "1")]
    calls = tuple(ToolCall(*call) for call in fields)
    session.ask(
        ModelRequest((*HELLO, Message("assistant", "I know 600519.SH from 2024.", calls), *answers))
    )
    sent, first, second = model.requests[0].messages[2:]

    assert sent.content == "I know [withheld] from [withheld]."

    shown = [("look", '{"stock_id":"[withheld]"}'), ("withheld", "{}"), ("look", '{"stock_id": 1}')]
    assert [(call.name, call.arguments) for call in sent.tool_calls] == shown
    assert "600519" not in sent.tool_calls[2].id
    assert (first.tool_call_id, second.tool_call_id) == (sent.tool_calls[2].id, "1")


@pytest.mark.parametrize(
    ("memories", "expected"),
    [((), {"day": 1}), (({"day": 2}, {"day": 3}), {"day": 3}), ((None,), None)],
)
@pytest.mark.parametrize("fails", [True, False])
def test_memory_given_to_keep_is_used_if_the_model_call_fails(memories, expected, fails):
    session, _ = session_of(ModelError("timeout", "no answer in 120 s") if fails else Reply("hm"))

    class Keeping:
        def decide(self, observation, session, memory):
            for each in memories:
                session.keep(each)

            session.ask(ModelRequest(HELLO))
            return Decision((), "fallback", memory="decided")

    decision = session.decide(Keeping(), Observation(0, "s", "u"), {"day": 1}).decision

    assert (decision.provenance, decision.memory) == (
        ("error", expected) if fails else ("fallback", "decided")
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            None,
            "a provenance of model, model_after_retry, elected, fallback, error, was 'NoneType'",
        ),
        (Decision((), "human"), "was 'human'"),
        (Decision(({"stock_id": "a"},), "model"), "an action of ktdeval.api.Order values"),
        (Decision((), "fallback", None), "text as overall_reason, was None"),
        (
            Decision((), "fallback", memory={1, 2}),
            "a memory that are plain JSON: Object of type set",
        ),
        (Decision((), "fallback", memory="\ud800"), "surrogates not allowed"),
    ],
)
def test_invalid_decision_is_the_agents_error_before_anything_is_recorded(given, problem):
    class Odd:
        def decide(self, *_):
            return given

    with pytest.raises(
        PluginError, match=f"agent Odd: decide\\(\\) must return a Decision with .*{problem}"
    ):
        session_of()[0].decide(Odd(), Observation(0, "", ""), None)


def test_texts_to_embed_pass_the_leak_guard_and_are_recorded_with_vectors():
    session, _ = session_of()
    asked = []

    def ask(texts):
        asked.append(list(texts))
        if texts[0] == "fail":
            raise ModelError("timeout", "no answer")

        return ["AAAA"] * len(texts)

    with pytest.raises(LeakError, match="a text to embed holds a security code"):
        session.embed(["fine", f"see {CODES[0]}"], ask)

    assert asked == []

    session, _ = session_of()
    assert session.embed(["rain", "sun"], ask) == ["AAAA", "AAAA"]

    with pytest.raises(ModelError):
        session.embed(["fail"], ask)

    assert session.counts.failures == {"model_timeout": 1}

    class Silent:
        def decide(self, observation, session, memory):
            return Decision((), "fallback")

    first, second = session.decide(Silent(), Observation(0, "s", "u"), None).transcript.embedded

    assert (len(first["texts"]), first["vectors"]) == (2, ["AAAA", "AAAA"])
    assert {name: value for name, value in second.items() if name != "texts"} == {
        "error": "timeout"
    }


def test_the_transcript_holds_each_message_once_as_it_was_sent():
    session, _ = session_of(Reply("hm 600519"), Reply("yes"), Reply("other"))
    first = session.ask(ModelRequest(HELLO, session.tools))
    longer = (*HELLO, Message("assistant", first.content), Message("user", "So?"))
    session.ask(ModelRequest(longer, (session.submit_tool,), "submit_action"))
    session.ask(ModelRequest((HELLO[0], Message("user", "Anew."))))

    assert [exchange["kept"] for exchange in session.exchanges] == [0, 2, 1]
    assert [len(exchange["sent"]) for exchange in session.exchanges] == [2, 2, 1]
    assert session.exchanges[1]["sent"][0] == {"role": "assistant", "content": "hm [withheld]"}
    assert [exchange["tools"] for exchange in session.exchanges] == [
        ["look", "careless", "broken"],
        ["submit_action"],
        [],
    ]
    assert session.exchanges[1]["tool_choice"] == "submit_action"

    json.dumps(session.exchanges, allow_nan=False)


def test_a_reply_with_lone_surrogates_can_still_be_written():
    session, _ = session_of(
        Reply("\ud800", (ToolCall("\udfff", "\ud800", "\ud800"),), reasoning="\ud800")
    )
    reply = session.ask(ModelRequest(HELLO))
    json.dumps(session.exchanges, ensure_ascii=False).encode("utf-8")

    assert reply.content == "?"


# --- the tools


def test_a_tool_is_called_with_true_arguments_and_answers_masked():
    session, _ = session_of()
    handle = lens_of("blinded").asset_handle(3)
    result = session.call_tool(ToolCall("1", "look", json.dumps({"stock_id": handle})))

    assert json.loads(result.text) == {"stock_id": handle, "day": "day_+0"}
    assert result.failure is None
    assert (session.counts.tool_calls, session.counts.tool_calls_valid, session.tool_budget) == (
        1,
        1,
        11,
    )


def test_bad_calls_use_budget_by_kind_and_none_runs_beyond_it():
    session, _ = session_of(config=HarnessConfig(max_tool_calls=5))
    calls = [
        ("look", "{"),
        ("look", "{}"),
        ("look", '{"stock_id": "600519"}'),
        ("lokk", "{}"),
        ("submit_action", "{}"),
        ("look", "{}"),
    ]
    results = [session.call_tool(ToolCall("1", *call)) for call in calls]
    kinds = [
        "bad_json",
        "bad_arguments",
        "unknown_asset",
        "unknown_tool",
        "wrong_tool",
        "tool_budget",
    ]

    assert [result.failure for result in results] == kinds
    assert [json.loads(result.text)["error"]["kind"] for result in results] == kinds
    assert session.counts.failures == dict.fromkeys(kinds, 1)
    assert (session.counts.tool_calls, session.counts.tool_calls_valid, session.tool_budget) == (
        5,
        0,
        0,
    )
    assert session.counts.unmask_attempts == 1
    assert "one of: look, careless, broken; did you mean 'look'?" in results[3].text
    assert "lokk" not in results[3].text


def test_a_tool_that_leaks_fails_the_step_before_its_result_is_sent():
    session, model = session_of(Reply("a"))
    result = session.call_tool(ToolCall("1", "careless", "{}"))
    with pytest.raises(LeakError, match="a tool message holds a security code"):
        session.ask(ModelRequest((*HELLO, Message("tool", result.text, (), "1"))))

    assert model.requests == []


# --- the submission


def test_submission_is_traced_only_if_the_decision_took_it_unchanged():
    call = submit(order())
    session, _ = session_of(Reply(tool_calls=(call,)))
    reply = session.ask(ModelRequest(HELLO, (session.submit_tool,), "submit_action"))
    submission = session.parse_submission(reply.tool_calls[0].arguments)

    assert [item.asset for item in submission.action] == [1]

    taken = Decision(submission.action, "model", submission.overall_reason, submission.stock_ids)
    assert session.accepted_text(taken) == call.arguments
    assert session.accepted_text(replace(taken, action=())) is None
    assert session.accepted_text(Decision((), "fallback")) is None
    assert session.counts.failures == {}

    other, _ = session_of()
    other.parse_submission(call.arguments)

    assert other.accepted_text(taken) is None  # the model did not write it


def test_failed_submissions_are_counted_and_reasons_recorded_anonymously():
    session, _ = session_of()
    assert session.parse_submission("{").failure == "bad_json"
    assert session.parse_submission("{}").failure == "schema"

    orders = (
        order(stock_id="600519", reason="as Quillmark in March 2024"),
        order(stock_id="asset_9999"),
    )
    submission = session.parse_submission(submit(*orders, overall_reason="like 600519").arguments)

    assert submission.failure is None
    assert submission.action[0].reason == "as [withheld] in [withheld]"
    assert submission.overall_reason == "like [withheld]"
    assert session.counts.failures == {"bad_json": 1, "schema": 1, "unknown_asset": 2}
    assert session.counts.unmask_attempts == 1


# --- what only a provider can read


def test_opaque_data_return_with_their_call_and_are_recorded_if_present():
    signed = ToolCall("a", "look", "{}", Opaque("google", "600519"))
    plain = ToolCall("b", "look", "{}")
    session, model = session_of(Reply("", (signed, plain), "tool_calls"), Reply("done"))
    reply = session.ask(ModelRequest(HELLO))
    session.ask(
        ModelRequest(
            (
                *HELLO,
                Message("assistant", "", reply.tool_calls),
                Message("tool", "x", tool_call_id="a"),
            )
        )
    )

    assert model.requests[1].messages[2].tool_calls == (signed, plain)

    for calls in (
        session.exchanges[0]["reply"]["tool_calls"],
        session.exchanges[1]["sent"][0]["tool_calls"],
    ):
        assert calls == [
            {
                "id": "a",
                "name": "look",
                "arguments": "{}",
                "opaque": {"provider": "google", "data": "600519"},
            },
            {"id": "b", "name": "look", "arguments": "{}"},
        ]


def test_opaque_data_of_an_agent_are_never_sent():
    session, model = session_of(Reply("hi"))
    session.ask(
        ModelRequest(
            (
                *HELLO,
                Message(
                    "assistant", "", (ToolCall("a", "look", "{}", Opaque("google", "600519")),)
                ),
            )
        )
    )

    assert model.requests[0].messages[2].tool_calls == (ToolCall("a", "look", "{}"),)


UNREADABLE = {
    "deep": '{"orders": ' + "[" * 1_500 + "]" * 1_500 + "}",
    "deeper": '{"orders": ' * 5_000,
    "long": json.dumps({"orders": [], "overall_reason": "x" * 70_000}),
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_oversized_arguments_are_a_counted_failure_and_not_resent(
    text,
):
    calls = [
        ToolCall(str(number), name, text) for number, name in enumerate(("look", "submit_action"))
    ]
    session, model = session_of(Reply(tool_calls=tuple(calls)), Reply("b"))
    reply = session.ask(ModelRequest(HELLO, session.tools))

    assert session.call_tool(reply.tool_calls[0]).failure == "bad_json"
    assert session.parse_submission(reply.tool_calls[1].arguments).failure == "bad_json"
    assert session.counts.record().failures == {"bad_json": 2}

    session.ask(ModelRequest((*HELLO, Message("assistant", "", reply.tool_calls))))
    assert sum(len(call.arguments) for call in model.requests[1].messages[2].tool_calls) < 10_000
    # the transcript has it whole
    assert session.exchanges[0]["reply"]["tool_calls"][0]["arguments"] == text


@pytest.mark.parametrize(
    "reply",
    [
        Reply("x" * (MAX_REPLY_CHARS + 1)),
        Reply(tool_calls=(ToolCall("1", "look", "x" * MAX_REPLY_CHARS),)),
        Reply(tool_calls=(ToolCall("1", "look", "{}"),) * 257),
        Reply(usage=Usage(10**40)),
        Reply(usage=Usage(-1)),
        Reply(usage=Usage(1.5)),
        Reply(usage=Usage(True)),
    ],
)
def test_a_reply_without_bounds_is_a_failed_call(reply):
    session, _ = session_of(reply)
    with pytest.raises(ModelError, match="the reply") as caught:
        session.ask(ModelRequest(HELLO))

    assert caught.value.kind == "bad_response"
    assert session.counts.record().failures == {"model_bad_response": 1}
