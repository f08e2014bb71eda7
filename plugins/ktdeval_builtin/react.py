"""Reference scaffold: a ReAct loop with two strict phases, research and submission (KTD-Fin §3.4)."""

from __future__ import annotations

from ktdeval.harness import (
    Decision,
    Message,
    Observation,
    StepSession,
    decide_in_phases,
    two_phases,
)
from ktdeval.values import JsonValue


class ReactAgent:
    """Research until the model stops calling tools or its budget is spent; then submit, with
    feedback on errors.

    Research phase: the model chooses freely among the research tools. The phase ends with a reply
    without a tool call, with a call of the submit tool, or when the budget is spent. If the task
    accepts a submission at any time, a valid call of the submit tool in this phase is the decision;
    otherwise such a call submits nothing. Modes without tools skip the research phase.

    Submission phase: the same tools are on offer, and the submit tool is forced. If one reply has
    several submit calls that differ, all of them are invalid. A reply without a valid submission is
    answered with its errors until the attempts are used up; then the step is a hold with provenance
    `fallback`.

    The agent has no memory between steps. Source: KTD-Fin §3.4; Yao et al. 2023 (ReAct).
    """

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step. Raises ModelError if the model call failed; the engine then holds and
        records the error.
        """
        system = observation.system_with(two_phases(observation, session))
        messages = [Message("system", system), Message("user", observation.user)]
        return decide_in_phases(messages, session, memory)
