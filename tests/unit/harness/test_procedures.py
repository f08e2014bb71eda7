"""Each driver of a step tells how it goes: who follows its text to the letter has decided."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("ktdeval_command", reason="needs ktdeval_command, which is not here")
pytest.importorskip("ktdeval_human", reason="needs ktdeval_human, which is not here")

from ktdeval.harness import Agent, Observation, Reply, ToolCall, two_phases
from ktdeval.harness.chat_messages import ModelRequest
from ktdeval.harness.steps.step_session import StepOutcome
from ktdeval.registry import load_plugins
from ktdeval.testing import small_market
from ktdeval_builtin.react import ReactAgent
from ktdeval_command.framework_agent import FrameworkAgent, FrameworkDesk
from ktdeval_human.person import Act, Called, Person, PersonWords
from ktdeval_human.shown import ShownRequest
from support.command.literal_player import RESEARCH_CALLS, Told, play, told
from support.tasks.ktdfin_play import Play

MARKET = small_market()
PLUGINS = load_plugins()
DECISION = {"orders": [], "overall_reason": "meant"}
THROWN_AWAY = {"orders": [], "overall_reason": "thrown away"}
OPEN = "blinded_open_research"
PAPER = "blinded_open_research_paper"
TASKS = [OPEN, PAPER, "blinded_memory_only"]
TWO_PHASES = """\
# How a step goes

1. Research: call tools as you see fit, at most 12 calls in a step; a call with bad arguments counts \
and comes back with what was wrong. To end the research, reply without a tool call; a call of \
`submit_action` ends it, too, and submits nothing yet.
2. Submission: you are asked to call `submit_action`, and only that is accepted."""
AT_ANY_TIME = """\
# How a step goes

1. Research: call tools as you see fit, at most 12 calls in a step; a call with bad arguments counts \
and comes back with what was wrong. To submit, call `submit_action` alone: the first call that is \
accepted is final, and the step is over. One that is not accepted comes back with what is wrong, and \
ends the research; a reply without a tool call ends it, too.
2. Submission, if none was accepted: you are asked to call `submit_action`, and only that is accepted."""


def decided(agent: Agent, model: Any, task: str = OPEN) -> StepOutcome:
    played = Play(PLUGINS.make_task(task), model, MARKET)
    observation, session = played.session(0)
    return session.decide(agent, observation, None)


def called(name: str, arguments: Any) -> Reply:
    call = ToolCall("c1", name, json.dumps(arguments))
    return Reply(tool_calls=(call,), finish_reason="tool_calls")


class Literal:
    """Model that follows the text on two phases. `early`: ends its research by a throw-away
    submission, as the text allows.
    """

    def __init__(self, early: bool, text: str = "") -> None:
        self.early = early
        self.text = text

    def reply(self, request: ModelRequest) -> Reply:
        if request.tool_choice == "submit_action":
            return called("submit_action", DECISION)

        procedure = told(self.text or request.messages[0].content)
        made = sum(message.role == "tool" for message in request.messages)
        if made < min(RESEARCH_CALLS, procedure.calls):
            return called("get_market_context", {})
        if "reply" not in procedure.acts:
            return called(procedure.submit, DECISION)
        if self.early:
            return called(procedure.early, THROWN_AWAY)
        return Reply("I know enough.")


def at_a_framework(text: Callable[[FrameworkDesk], str], early: Any = None) -> FrameworkAgent:
    """An agent that follows a text, with the tools of its desk."""

    def act(desk: FrameworkDesk) -> None:
        procedure = told(text(desk))
        play(procedure, lambda name, given: desk.call_tool(name, given).text, DECISION, early)

    return FrameworkAgent(act)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("early", [False, True])
def test_a_model_that_follows_the_text_of_react_decides(task: str, early: bool) -> None:
    outcome = decided(ReactAgent(), Literal(early), task)
    assert (outcome.decision.provenance, outcome.decision.overall_reason) == ("model", "meant")
    assert outcome.counts.tool_calls == (0 if task == "blinded_memory_only" else RESEARCH_CALLS)


# ---- each by its own text


@pytest.mark.parametrize("task", TASKS)
def test_a_framework_that_follows_its_text_decides(task: str) -> None:
    outcome = decided(at_a_framework(lambda desk: desk.prompt), None, task)
    assert (outcome.decision.provenance, outcome.decision.overall_reason) == ("model", "meant")
    assert outcome.counts.tool_calls == (0 if task == "blinded_memory_only" else RESEARCH_CALLS)
    assert outcome.counts.failures == {}


@pytest.mark.parametrize("task", [OPEN, PAPER])
@pytest.mark.parametrize("early", [False, True])
def test_a_person_who_follows_the_text_of_the_desk_decides(early: bool, task: str) -> None:
    """The desk tells that a submission counts, as it does there: none is thrown away."""

    class Desk:
        def __init__(self) -> None:
            self.acts: Iterator[Act] | None = None

        def ask(self, moment: ShownRequest) -> Act:
            if self.acts is None:
                self.acts = acts_of(told(moment.rules), early)
            return next(self.acts)

    outcome = decided(ReactAgent(), Person(Desk), task)
    assert (outcome.decision.provenance, outcome.decision.overall_reason) == ("model", "meant")
    assert outcome.counts.tool_calls == RESEARCH_CALLS


def acts_of(procedure: Told, early: bool) -> Iterator[Act]:
    """Acts of a person."""
    for act in procedure.acts:
        if act == "research":
            for _ in range(RESEARCH_CALLS):
                yield Called("get_market_context", "{}")
        elif act == "reply":
            yield (
                Called(procedure.early, json.dumps(THROWN_AWAY))
                if early
                else PersonWords("Enough.")
            )
        elif act in ("submit", "wait"):
            yield Called(procedure.submit, json.dumps(DECISION))


# ---- the words


@pytest.mark.parametrize(("task", "text"), [(OPEN, AT_ANY_TIME), (PAPER, TWO_PHASES)])
def test_the_text_of_react_is_the_tasks_and_stands_between_rules_and_tools(
    task: str, text: str
) -> None:
    observation, session = Play(PLUGINS.make_task(task), None, MARKET).session(0)  # type: ignore[arg-type]
    procedure = two_phases(observation, session)
    assert procedure == text
    system = observation.system_with(procedure)
    assert f"\n\n{text}\n\n- `get_market_context`: the indices" in system
    assert system.replace(f"{text}\n\n", "") == observation.system


def test_a_task_may_say_how_its_tools_are_used_and_that_a_text_counts() -> None:
    _, session = Play(PLUGINS.make_task(PAPER), None, MARKET).session(0)  # type: ignore[arg-type]
    observation = Observation(0, "Rules.", "Day.", tool_use="make the calls that are asked for")
    assert "1. Research: make the calls that are asked for. To end the research" in (
        two_phases(observation, session)
    )

    counts = "A reply that is the answer alone, in plain text, counts, too."
    told_too = replace(observation, takes_text=True)
    assert two_phases(told_too, session).endswith(f"accepted.\n\n{counts}")
    assert counts not in told_too.system  # an agent that gets no replies is not told
