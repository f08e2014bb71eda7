"""Research tools of one step: calls are made within a budget, with unmasked arguments and masked
results.
"""

from __future__ import annotations

from typing import Any

from ktdeval.harness.agent import StepCounts, ToolResult
from ktdeval.harness.chat_messages import ToolCall
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.harness.tools.tool_definition import call
from ktdeval.masking.payload_types import Payload
from ktdeval.values.misfit import near_matches


class ToolPort:
    """Research tools of one step."""

    def __init__(self, parts: SessionParts, context: Any, counts: StepCounts) -> None:
        self._lens = parts.lens
        self._tools = {tool.name: tool for tool in parts.tools}
        self._context = context
        self._counts = counts
        self.budget = parts.harness.max_tool_calls  #: number of calls left

    def call(self, call_: ToolCall, submit_tool: str) -> ToolResult:
        """Run a tool with unmasked arguments, and mask the result again. Invalid calls, and calls
        of `submit_tool`, use up budget and result in feedback.
        """
        if self.budget <= 0:
            return self._refuse(
                "tool_budget", "no research calls are left in this step", "submit your action now"
            )

        self.budget -= 1
        self._counts.tool_calls += 1
        if call_.name == submit_tool:
            return self._refuse(
                "wrong_tool",
                "this is not the time to submit",
                "use a research tool, or stop calling tools",
            )

        tool = self._tools.get(call_.name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            similar = near_matches(call_.name[:100], self._tools)
            return self._refuse(
                "unknown_tool", "there is no such tool", f"one of: {names}{similar}"
            )

        outcome = call(tool, self._context, call_.arguments, self._lens)
        self._counts.unmask_attempts += outcome.unmask_attempts
        if outcome.failure is not None:
            return self._answer(outcome.payload, outcome.failure)

        self._counts.tool_calls_valid += 1
        return ToolResult(self._lens.render_text(outcome.payload))

    def _refuse(self, kind: str, problem: str, expected: str) -> ToolResult:
        payload = {"error": {"kind": kind, "problem": problem, "expected": expected}}
        return self._answer(payload, kind)

    def _answer(self, payload: Payload, failure: str) -> ToolResult:
        """Return the feedback for a call that failed, and count the failure."""
        self._counts.fail(failure)
        return ToolResult(self._lens.render_text(payload), failure)
