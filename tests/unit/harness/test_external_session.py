"""Acts of an agent outside of ktdeval: recorded in order, cleared of identities, and done again."""

import json
import threading
from dataclasses import replace

import pytest

from ktdeval.errors import LeakError, ModelError, StoreError
from ktdeval.harness.agent import HarnessConfig, Observation
from ktdeval.harness.chat_messages import (
    CallParams,
    Message,
    ModelRequest,
    Reply,
    ToolCall,
    ToolSpec,
)
from ktdeval.harness.external.external_acts import ExternalRecord
from ktdeval.harness.external.external_session import RefusedAct, act_outside
from ktdeval.harness.external.known_texts import NOTHING_KNOWN, KnownTexts, tool_hash
from ktdeval.harness.steps.research_then_submit import decide_in_phases
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.harness.steps.step_session import GuardedSession
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.harness.tools.arguments import AssetArg
from ktdeval.harness.tools.tool_definition import tool
from ktdeval.masking.payload_types import AssetRef, DayRef
from ktdeval.runner.rehearsals.conversation_size import LOW, MeasuringModel
from ktdeval.runner.scoring.verify import RecordedModel
from ktdeval.trading.rule_breaches import RuleBreach
from ktdeval.values import sha256_hex
from support.masking.masking_market import BASE_ROW, CODES, guard_of, lens_of
from support.tasks.ktdfin_play import Scripted

CODE = next(code for code in CODES if not code.startswith("0"))
OBSERVATION = Observation(0, rules="You trade.", day="Nothing is known.", request="Decide.")
ASK = ModelRequest((Message("system", "Own prompt."), Message("user", "What now?")), role="bridge")
SHELL = ToolSpec("shell", "Run a command.", {"type": "object", "properties": {}})


@tool
def look(context, stock_id: AssetArg):
    """Look at a stock."""
    return {"stock_id": AssetRef(stock_id), "day": DayRef(context)}


def handle():
    return lens_of("blinded").asset_handle(1)


def orders(**changes):
    order = {
        "stock_id": handle(),
        "side": "BUY",
        "confidence": 0.6,
        "reason": "strong momentum, low risk",
        "target_weight": 0.05,
    }
    return json.dumps({"orders": [order | changes], "overall_reason": "fine"})


def session_of(model, config=HarnessConfig(max_tool_calls=2, schema_retries=1), breaches=None):  # noqa: B008 - frozen
    lens = lens_of("blinded")
    lens.render([AssetRef(1), AssetRef(3)])  # in the observation
    parts = SessionParts(
        model, lens, guard_of("blinded"), (look,), ActionForm(config, lens), config, CallParams(), 1
    )
    return GuardedSession(parts, 0, BASE_ROW, breaches)


class Outside:
    """Agent that lets `act` act; it holds what it got."""

    def __init__(self, act, max_calls=None, isolation="bwrap", known=NOTHING_KNOWN):
        self.act = act
        self.known = known
        self.max_calls = max_calls
        self.isolation = isolation
        self.runs = 0

    def decide(self, observation, session, memory):
        def run(acting):
            self.runs += 1
            return self.act(acting)

        step = act_outside(session, run, self.isolation, self.max_calls, self.known)
        if step is None:
            messages = [Message("system", observation.system), Message("user", observation.user)]
            return decide_in_phases(messages, session, memory)
        return step.decision({"report": step.report})


def outcome_of(act, *replies, **options):
    session = session_of(Scripted(*replies))
    return session.decide(Outside(act, **options), OBSERVATION, None)


def again(outcome, act=None):
    """Decide the step once more, from its record."""
    model = RecordedModel()
    model.begin_step(outcome.transcript)
    agent = Outside(act)
    repeated = session_of(model).decide(agent, OBSERVATION, None)
    assert agent.runs == 0
    return repeated


def one_of_each(acting):
    acting.ask(replace(ASK, tools=(SHELL,)))
    acting.call_tool(ToolCall("1", "look", json.dumps({"stock_id": handle()})))
    acting.submit("nonsense")
    acting.submit(orders())
    return {"outcome": "exited 0"}


def test_last_submission_that_breaks_a_rule_stays_the_steps_failure():
    session = session_of(
        Scripted(Reply("Never mind.")), breaches=lambda action: [RuleBreach(0, "cash")]
    )

    def act(acting):
        acting.submit(orders())
        acting.ask(replace(ASK, messages=(Message("user", f"What of {CODE}?"),)))

    counts = session.decide(Outside(act), OBSERVATION, None).counts
    assert counts.failures == {
        "constraint": 1,
        "constraint_after_retries": 1,
        "identity_withheld": 1,
    }


def test_without_a_submission_the_step_is_held():
    outcome = outcome_of(lambda acting: acting.ask(ASK).content, Reply("I wait."))

    assert outcome.decision.provenance == "fallback"
    assert outcome.decision.action == ()
    assert outcome.transcript.external.report == "I wait."


# --- on record


def test_step_without_a_submission_after_a_failed_call_is_an_error():
    def act(acting):
        with pytest.raises(ModelError):
            acting.ask(ASK)

    outcome = outcome_of(act, ModelError("overloaded", "too many"))

    assert outcome.decision.provenance == "error"
    assert outcome.counts.failures == {"model_overloaded": 1}
    assert [act.kind for act in outcome.transcript.external.acts] == ["ask"]
    assert again(outcome) == outcome


def test_a_submission_after_a_failed_call_counts():
    def act(acting):
        with pytest.raises(ModelError):
            acting.ask(ASK)
        acting.submit(orders())

    outcome = outcome_of(act, ModelError("overloaded", "too many"))

    assert outcome.decision.provenance == "model"
    assert again(outcome) == outcome


@pytest.mark.parametrize(
    ("received", "is_traced"),
    [
        (orders(), True),
        (orders(target_weight=0.050), True),
        (json.dumps(json.loads(orders()), indent=2, sort_keys=True), True),
        (orders(target_weight=0.06), False),
        ("buy", False),
    ],
)
def test_a_submission_is_the_models_where_a_call_of_it_means_the_same(received, is_traced):
    def act(acting):
        reply = acting.ask(ASK)
        assert reply.tool_calls[0].arguments == received
        acting.submit(orders())

    call = ToolCall("1", "mcp__ktdeval__submit_action", received)
    outcome = outcome_of(act, Reply("", (call,), "tool_calls"))

    assert (outcome.transcript.submission is not None) is is_traced


def test_whole_numbers_mean_the_same_with_and_without_a_point():
    def act(acting):
        acting.ask(ASK)
        acting.submit(orders(confidence=1.0))

    call = ToolCall("1", "submit", orders(confidence=1))
    outcome = outcome_of(act, Reply("", (call,), "tool_calls"))

    assert outcome.transcript.submission == orders(confidence=1.0)


def with_fields(spec, **added):
    """A tool as a program offers it: with fields for itself."""
    parameters = {**spec.parameters, "properties": {**spec.parameters["properties"], **added}}
    return ToolSpec(f"mcp_ktdeval_{spec.name}", spec.description, parameters)


@pytest.mark.parametrize("is_read", [False, True], ids=["passed on", "read and written again"])
def test_a_submission_with_fields_that_the_program_added_is_the_models(is_read):
    """Gemini CLI asks its model for `wait_for_previous` in each call, and sends it on."""
    written = json.loads(orders()) | {"wait_for_previous": True, "toolTitle": "Submit"}

    def act(acting):
        tools = [with_fields(spec, wait_for_previous={}, toolTitle={}) for spec in offers(acting)]
        (made,) = acting.ask(replace(ASK, tools=tuple(tools))).tool_calls
        assert (
            acting.call_tool(
                ToolCall("1", "look", json.dumps({"stock_id": handle(), "toolTitle": "x"}))
            ).failure
            is None
        )
        given = made.arguments
        if is_read:
            given = json.dumps(json.loads(given), indent=1, sort_keys=True)
        assert acting.submit(given).failure is None

    call = ToolCall("1", "mcp_ktdeval_submit_action", json.dumps(written))
    outcome = outcome_of(act, Reply("", (call,), "tool_calls"))

    assert json.loads(outcome.transcript.submission) == json.loads(orders())
    looked, submitted = outcome.transcript.external.acts[1:]
    assert json.loads(looked.arguments) == {"stock_id": handle()}
    assert json.loads(submitted.arguments) == json.loads(orders())
    assert again(outcome) == outcome


def offers(acting):
    """Tools of a step."""
    return (*acting.tools, acting.submit_tool)


# --- again


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (1, {"result": "{}"}),
        (1, {"name": "peek"}),
        (1, {"failure": "bad_json"}),
        (2, {"result": ""}),
        (3, {"arguments": orders(side="SELL")}),
        (0, {"withheld": 3}),
    ],
)
def test_a_changed_act_gives_another_step(number, change):
    outcome = outcome_of(one_of_each, Reply("Buy the first."))
    record = outcome.transcript.external
    acts = list(record.acts)
    fields = {name: getattr(acts[number], name) for name in acts[number].__struct_fields__}
    acts[number] = type(acts[number])(**(fields | change))
    changed = ExternalRecord(isolation="bwrap", acts=tuple(acts), report=record.report)
    entries = {name: getattr(outcome.transcript, name) for name in ("step", "exchanges")}
    forged = type(outcome.transcript)(
        **entries, submission=outcome.transcript.submission, external=changed
    )

    repeated = again(replace(outcome, transcript=forged))

    found = (repeated.transcript, repeated.counts, repeated.decision)
    assert found != (forged, outcome.counts, outcome.decision)


def test_a_record_with_more_calls_than_the_transcript_is_refused():
    outcome = outcome_of(lambda acting: acting.ask(ASK).content, Reply("I wait."))
    record = outcome.transcript.external
    doubled = ExternalRecord(isolation="bwrap", acts=record.acts * 2)
    forged = type(outcome.transcript)(
        step=0, exchanges=outcome.transcript.exchanges, submission=None, external=doubled
    )

    with pytest.raises(StoreError, match="more calls of the model"):
        again(replace(outcome, transcript=forged))


def test_a_plan_asks_nobody_outside():
    agent = Outside(one_of_each)
    model = MeasuringModel(LOW, 0)

    outcome = session_of(model).decide(agent, OBSERVATION, None)

    assert agent.runs == 0
    assert outcome.decision.provenance == "model"
    assert model.requests == 2


# --- identities


@pytest.mark.parametrize(
    "change",
    [
        {"messages": (Message("user", f"Is it {CODE}?"),)},
        {"messages": (Message("system", f"You are {CODE}."), Message("user", "Go."))},
        {"messages": (Message("user", "Today's date is 2024-06-03."),)},
        {"tools": (replace(SHELL, description=f"Look {CODE} up."),)},
        {"tools": (replace(SHELL, parameters={"type": "object", "title": CODE}),)},
        {"tools": (replace(SHELL, parameters={"properties": {CODE: {"type": "string"}}}),)},
        {"tools": (replace(SHELL, parameters={"default": int(CODE.split(".")[0])}),)},
        {"response_schema": {"type": "object", "description": CODE}},
    ],
    ids=["user", "system", "date", "tool", "title", "property", "number", "response schema"],
)
def test_identities_in_what_an_agent_sends_are_withheld_and_counted(change):
    model = Scripted(Reply("fine"))
    session = session_of(model)
    session.decide(
        Outside(lambda acting: acting.ask(replace(ASK, **change)).content), OBSERVATION, None
    )

    (sent,) = model.requests
    shown = json.dumps(
        [
            [message.to_json() for message in sent.messages],
            [[spec.description, spec.parameters] for spec in sent.tools],
            sent.response_schema,
        ]
    )
    assert CODE not in shown
    assert CODE.split(".")[0] not in shown
    assert "2024" not in shown
    assert session.counts.failures == {"identity_withheld": 1}


KNOWN = ToolSpec(
    "Bash", f"Run, at most {CODE[:6]} ms.", {"properties": {"ms": {"maximum": int(CODE[:6])}}}
)
MODELS = "You may be haiku-4-5-20240603."
KNOWN_TEXTS = KnownTexts(frozenset([tool_hash(KNOWN)]), frozenset([sha256_hex(MODELS)]))


def sent_of(*requests, known=KNOWN_TEXTS):
    """What the model gets, and the outcome of the step."""
    model = Scripted(*(Reply("fine") for _ in requests))

    def act(acting):
        for request in requests:
            acting.ask(request)

    outcome = session_of(model).decide(Outside(act, known=known), OBSERVATION, None)
    return model.requests, outcome


@pytest.mark.parametrize(
    "change",
    [
        {"tools": (replace(KNOWN, name="Shell"),)},
        {"tools": (replace(KNOWN, description=f"{KNOWN.description} Of asset_7."),)},
        {"tools": (replace(KNOWN, parameters={"properties": {"asset_7": {"maximum": CODE[:6]}}}),)},
        {"tools": (replace(SHELL, description=KNOWN.description),)},
        {"messages": (Message("user", MODELS),)},
        {"messages": (Message("user", KNOWN.description),)},
        {"messages": (Message("system", f"{MODELS} Or so."), Message("user", "Go."))},
        {"messages": (Message("system", f"{MODELS}\nIt is {CODE}."), Message("user", "Go."))},
        {"response_schema": {"type": "object", "description": KNOWN.description}},
    ],
    ids=[
        "another name",
        "more words",
        "another schema",
        "its words in another tool",
        "a line outside the system prompt",
        "its words in a message",
        "a longer line",
        "another line beside it",
        "its words in a schema",
    ],
)
@pytest.mark.parametrize("step", ["first", "later"])
def test_what_only_looks_like_a_known_text_is_withheld(change, step):
    """Also where the program sent the known text before."""
    slipped = replace(ASK, **change)
    before = [replace(ASK, tools=(KNOWN,))] if step == "later" else []
    requests, outcome = sent_of(*before, slipped)

    sent = requests[-1]
    tools = [[spec.description, spec.parameters] for spec in sent.tools]
    others = [m.content.replace(MODELS, "") for m in sent.messages if m.role == "system"]
    others += [m.content for m in sent.messages if m.role != "system"]
    shown = json.dumps([others, tools, sent.response_schema])
    assert CODE[:6] not in shown
    assert "20240603" not in shown
    assert outcome.counts.failures["identity_withheld"] >= 1


def test_a_tool_whose_name_is_an_identity_is_refused():
    def act(acting):
        with pytest.raises(RefusedAct, match="holds an identity"):
            acting.ask(replace(ASK, tools=(replace(SHELL, name=CODE),)))

    outcome = outcome_of(act)

    assert outcome.counts.failures == {"identity_in_tool_name": 1}
    assert again(outcome) == outcome


def test_a_text_that_comes_again_is_counted_once_in_a_step():
    def act(acting):
        request = replace(ASK, messages=(Message("user", f"Is it {CODE}?"),))
        acting.ask(request)
        acting.ask(request)

    outcome = outcome_of(act, Reply("no"), Reply("no"))

    assert outcome.counts.failures == {"identity_withheld": 1}
    assert again(outcome) == outcome


# --- limits


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (lambda acting: [acting.submit(orders()), acting.submit(orders())], "submitted_again"),
        (
            lambda acting: [acting.submit(orders()), acting.call_tool(ToolCall("", "look", "{}"))],
            "step_over",
        ),
        (
            lambda acting: [acting.submit("x"), acting.submit("x"), acting.submit("x")],
            "no_attempts",
        ),
        (lambda acting: [acting.ask(ASK), acting.ask(ASK)], "call_budget"),
        (
            lambda acting: [acting.call_tool(ToolCall("", "look", "{}")) for _ in range(30)],
            "tool_budget_spent",
        ),
    ],
    ids=["twice", "tool after it", "third attempt", "calls", "tools"],
)
def test_an_act_beyond_a_limit_is_refused_counted_and_on_record(act, kind):
    def run(acting):
        with pytest.raises(RefusedAct) as refused:
            act(acting)
        assert refused.value.kind == kind

    outcome = outcome_of(run, Reply("one"), Reply("two"), max_calls=1)

    last = outcome.transcript.external.acts[-1]
    assert (last.kind, last.failure, last.times) == ("refused", kind, 1)
    assert outcome.counts.failures[kind] == 1
    assert again(outcome) == outcome


@pytest.mark.slow
def test_refused_acts_in_a_row_are_one_entry():
    def act(acting):
        for _ in range(10_000):
            with pytest.raises(RefusedAct):
                acting.ask(ASK)

    outcome = outcome_of(act, max_calls=0)

    (refused,) = outcome.transcript.external.acts
    assert (refused.failure, refused.times) == ("call_budget", 10_000)
    assert outcome.counts.failures == {"call_budget": 10_000}


def test_acts_of_several_threads_are_done_one_at_a_time():
    def act(acting):
        threads = [threading.Thread(target=acting.ask, args=(ASK,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    outcome = outcome_of(act, *(Reply(f"reply {number}") for number in range(8)))

    replies = [exchange["reply"]["content"] for exchange in outcome.transcript.exchanges]
    assert replies == [f"reply {number}" for number in range(8)]
    assert again(outcome) == outcome


def test_after_its_step_an_agent_is_refused():
    held = []
    outcome_of(held.append)

    with pytest.raises(RefusedAct, match="the step is over"):
        held[0].ask(ASK)


def test_an_error_of_the_evaluation_ends_the_step_though_the_agent_goes_on():
    def act(acting):
        with pytest.raises(LeakError):
            acting.ask(ASK)
        with pytest.raises(RefusedAct):
            acting.submit(orders())

    class Leaking:
        def reply(self, request):
            raise LeakError("found one")

    with pytest.raises(LeakError, match="found one"):
        session_of(Leaking()).decide(Outside(act), OBSERVATION, None)
