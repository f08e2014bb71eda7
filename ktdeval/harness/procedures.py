"""Texts that describe a step's procedure. A task describes the market, the account and the rules.
The code that drives the step writes the procedure, since only that code knows how research ends and
which submission counts. Each text must be exact: if an agent follows it to the letter, its decision
is recorded.
"""

from __future__ import annotations

from typing import Protocol

from ktdeval.harness.agent import Observation, StepSession
from ktdeval.harness.chat_messages import ToolSpec

HEADING = "# How a step goes"
END = "End. The step is over."

_ANY_CALLS = (
    "call tools as you see fit, at most {calls} calls in a step; a call with bad arguments counts"
    " and comes back with what was wrong"
)
_REST_OF_TWO_PHASES = """\
To end the research, reply without a tool call; a call of `{submit}` ends it, too, and submits \
nothing yet.
2. Submission: you are asked to call `{submit}`, and only that is accepted."""
_REST_AT_ANY_TIME = """\
To submit, call `{submit}` alone: the first call that is accepted is final, and the step is over. One \
that is not accepted comes back with what is wrong, and ends the research; a reply without a tool \
call ends it, too.
2. Submission, if none was accepted: you are asked to call `{submit}`, and only that is accepted."""
_TEXT_COUNTS = "A reply that is the answer alone, in plain text, counts, too."
_SUBMISSION = (
    "Call `{submit}`. The first call that is accepted is final. One that is not comes back with what"
    " is wrong: correct it, and call again."
)
_UNREAD = "What you only write is read by nobody: only an accepted `{submit}` counts."

TEXTS_OF_ONE_SUBMISSION = (HEADING, _ANY_CALLS, _SUBMISSION, _UNREAD, END)
"""Texts of `one_submission`: part of the identity of agents that show them."""


class OfferedTools(Protocol):
    """A step's tools that a procedure mentions."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Research tools."""

    @property
    def submit_tool(self) -> ToolSpec:
        """The submit tool."""

    @property
    def tool_budget(self) -> int:
        """Number of research calls left."""


def two_phases(observation: Observation, session: StepSession) -> str:
    """Return the procedure for `decide_in_phases` (KTD-Fin §3.4), for the role that submits. Empty
    if there is nothing to explain: without research, the only request is for the submission.
    """
    parts = []
    use = _use_of_tools(observation, session)
    if use:
        submit = session.submit_tool.name
        rest = _REST_AT_ANY_TIME if session.may_submit_early else _REST_OF_TWO_PHASES
        rest = rest.format(submit=submit)
        parts += [HEADING, f"1. Research: {use}. {rest}"]
    if observation.takes_text:
        parts.append(_TEXT_COUNTS)
    return "\n\n".join(parts)


def told_at_a_desk(rules: str, submit_tool: str) -> str:
    """Return rules in the form shown to a person. A desk answers the second phase by itself, using
    the submission that the person made in the first phase.
    """
    submission = _SUBMISSION.format(submit=submit_tool)
    for rest in (_REST_OF_TWO_PHASES, _REST_AT_ANY_TIME):
        told = rest.format(submit=submit_tool)
        rules = rules.replace(f" {told}", f"\n2. {submission}")
    return rules


def one_submission(
    observation: Observation, session: OfferedTools, *then: str, server: str = ""
) -> str:
    """Return the procedure for an agent that calls all tools itself. The first accepted submission
    is the decision.

    `then` contains the subsequent actions, one sentence for each number in the list. `server` is
    the name of the tool server, if it has additional tools.
    """
    steps = []
    submit = session.submit_tool.name
    use = _use_of_tools(observation, session)
    if use:
        steps.append(f"{use[0].upper()}{use[1:]}.")
    steps.append(_SUBMISSION.format(submit=submit))
    steps += then

    lines = [HEADING, ""]
    if server:
        lines += [f"You act by the tools of the server `{server}`.", ""]
    lines += [f"{number}. {text}" for number, text in enumerate(steps, 1)]
    lines += ["", _UNREAD.format(submit=submit)]
    return "\n".join(lines)


def _use_of_tools(observation: Observation, session: OfferedTools) -> str:
    """Return how the research tools may be used; empty if no tool can be called."""
    if not session.tools or session.tool_budget <= 0:
        return ""
    if observation.tool_use:
        return observation.tool_use
    return _ANY_CALLS.format(calls=session.tool_budget)
