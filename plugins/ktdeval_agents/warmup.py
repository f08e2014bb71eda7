"""Warm-up of a team. Before its first step, the team decides on earlier days without trading, and
remembers the outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval.errors import ModelError
from ktdeval.harness import (
    Decision,
    Message,
    ModelRequest,
    Observation,
    StepSession,
    ToolSpec,
    label_key,
    stance_schema,
)
from ktdeval.observation import NOTHING_SHOWN, ObservedState
from ktdeval.values import dumps_canonical, to_plain
from ktdeval_agents.answers import Answers, read_answers
from ktdeval_agents.memory_entries import latest
from ktdeval_agents.prompts import wordings
from ktdeval_agents.role_graph import MemoryRule
from ktdeval_agents.team_memory import TeamMemory

WARM_UP = "warm_up"
"""Role that decides on the days of a warm-up."""


def warm_up(
    memory: TeamMemory,
    rule: MemoryRule,
    max_days: int | None,
    observation: Observation,
    session: StepSession,
) -> None:
    """Fill a memory with decisions on the latest `max_days` days of the task's warm-up (default:
    all), with one call per day. The outcome of a decision is read from the next day shown, so it is
    known at the first step. A day without a valid answer adds nothing, and the failure is counted.
    """
    if max_days == 0:
        return

    today = observation.state or NOTHING_SHOWN
    lessons = session.lessons
    if max_days is not None:
        lessons = latest(lessons, max_days)

    for step, lesson in enumerate(lessons, start=-len(lessons)):
        if lesson.state is None:
            continue

        state = practice_state(lesson.state, today)
        memory.settle(step, state)
        submitted = _decide(state, memory.write_entries(rule, state), observation.system, session)
        if submitted is not None:
            reason = submitted.overall_reason
            decision = Decision((), "model", reason)
            text = dumps_canonical(to_plain(submitted))
            memory.remember(step, state, decision, text, session.withhold)
            memory.forget(rule, state)

        session.keep(to_plain(memory))  # in case a call in the first step fails


def practice_state(day: ObservedState, first: ObservedState) -> ObservedState:
    """Return a warm-up day in the form of a day of the episode: without its later outcomes, and
    with the account, positions and limits of the first step. It asks for BUY, SELL or HOLD,
    whatever the task asks for.
    """
    sections: dict[str, str] = {}
    for name in ("day", "account", "positions"):
        shown_by = day if name in day.sections else first
        if name in shown_by.sections:
            sections[name] = shown_by.sections[name]

    limits = {**first.limits.cells, "hold": first.limits.hold or "keep"}
    sections["constraints"] = dumps_canonical(limits)
    for name, text in day.sections.items():
        if name != "outcomes":
            sections[name] = text

    return ObservedState(sections)


def _decide(
    state: ObservedState, remembered: str, task: str, session: StepSession
) -> Answers | None:
    """Ask once for the decisions on a day; None if the call failed or the answer is not valid
    (counted as a failure).
    """
    words = wordings()
    schema = stance_schema(state.limits.min_reason_chars, [*state.candidates])
    tool = ToolSpec(session.submit_tool.name, words["practice_tool"], schema)
    user = words["practice_day"].format(
        day=state.day, memory=remembered or words["no_memory"], state=state.text
    )
    messages = (
        Message("system", f"{words['practice']}\n\n{task}"),
        Message("user", user),
    )

    try:
        reply = session.ask(ModelRequest(messages, (tool,), tool.name, role=WARM_UP, state=state))
    except ModelError:
        session.end_turn(False)
        return None

    arguments = [call.arguments for call in reply.tool_calls if call.name == tool.name]
    submitted = None
    if not arguments:
        session.count_failure("no_submission")
    else:
        submitted = _read_decisions(arguments, state)
        if submitted is None:
            session.count_failure("schema")

    session.end_turn(submitted is not None)
    return submitted


def _read_decisions(arguments: Sequence[str], state: ObservedState) -> Answers | None:
    """Return the decisions in the arguments of a reply's calls; None unless there is exactly one
    call, with one decision for each candidate.
    """
    submitted = read_answers(arguments)
    if submitted is None:
        return None

    decided = sorted(label_key(answer.stock_id) for answer in submitted.decisions)
    if decided != sorted(map(label_key, state.candidates)):
        return None
    return submitted
