"""The desk of one external agent answers the model bridge and the tool server during the current
step.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from ktdeval.errors import KtdevalError
from ktdeval.harness import (
    ExternalSession,
    ModelRequest,
    RefusedAct,
    Reply,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from ktdeval.values import dumps_canonical
from ktdeval_command.wire.bridge_request import BridgeRequest
from ktdeval_command.wire.refusals import RefusalKind, WireError

BRIDGE = "bridge"  #: role under which calls through the bridge are recorded
ACCEPTED = "Accepted: this is the decision of the step, and it stands. The step is over."
EPISODE_OVER = "The episode is over. End now."
NOT_YET = "This day is not decided: call {tool} first."
DAY_OVER = "This day is over: call next_day."
NOT_THERE = "The next day is not there yet: call next_day again."
NEXT_STEP = (
    "Call `next_day`: it returns the next day. Go on with number 1, until you are told that the"
    " episode is over. Then end."
)
"""Text on how a step ends, for an agent that requests the next day itself."""

NEXT_DAY = ToolSpec(
    "next_day",
    "Go on to the next day, after this one's submission was accepted. Returns the new day.",
    {"type": "object", "properties": {}, "additionalProperties": False},
)

_REFUSALS: dict[str, RefusalKind] = {
    "call_budget": "budget_spent",
    "identity_in_tool_name": "leak_stopped",
}


class AgentDesk:
    """Answers an agent's requests in the open step; between steps, requests wait. Thread-safe.

    `models`: additional models of the run, keyed by the names that the agent uses for them.
    `has_next_day`: whether the agent runs through the whole episode and requests each next day.
    Such an agent's calls are refused until it has read the day, since it would act blindly.
    `longest_wait_s`: maximum time that one answer waits for the next day; None for no limit.
    `episode_over`: text sent when the episode is over.
    """

    def __init__(
        self,
        models: Mapping[str, str],
        has_next_day: bool = False,
        longest_wait_s: float | None = None,
        episode_over: str = EPISODE_OVER,
    ) -> None:
        self._models = models
        self._has_next_day = has_next_day
        self._longest_wait_s = longest_wait_s
        self._episode_over = episode_over
        self._changed = threading.Condition()
        self._acting: ExternalSession | None = None
        self._tools: tuple[ToolSpec, ...] = ()
        self._day = ""
        self._is_told = True  # whether the agent has received the day of the open step
        self._is_closed = False

    def begin(self, acting: ExternalSession, day: str, is_told: bool) -> None:
        """Open a step. `day`: the text of the day; `is_told`: whether the agent has already
        received it.
        """
        tools = (*acting.tools, acting.submit_tool)
        with self._changed:
            self._acting = acting
            self._tools = (*tools, NEXT_DAY) if self._has_next_day else tools
            self._day = day
            self._is_told = is_told
            self._changed.notify_all()

    def end(self) -> None:
        """Close the step."""
        with self._changed:
            self._acting = None
            self._is_told = not self._has_next_day

    def close(self) -> None:
        """End the episode, and answer the requests that are waiting."""
        with self._changed:
            self._is_closed = True
            self._acting = None
            self._changed.notify_all()

    @property
    def is_told(self) -> bool:
        """True if the agent has received the day of the latest step."""
        with self._changed:
            return self._is_told

    def tools(self) -> Sequence[ToolSpec]:
        """Return the tools of the step."""
        with self._changed:
            return self._tools

    def take_day(self) -> str | None:
        """Return the text of the open step's day, and mark it as received. If no step is open, wait
        for one. Return None if no day comes in time, or if the episode is over.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or self._acting is not None, self._longest_wait_s
            )
            if self._acting is None:
                return None
            self._is_told = True
            return self._day

    @property
    def is_closed(self) -> bool:
        """True if the episode is over."""
        return self._is_closed

    # --- answers

    def answer(self, request: BridgeRequest) -> Reply:
        """Answer a request to the bridge. Raises KtdevalError if the call failed or is refused."""
        acting = self._open_step()
        if acting is None:
            raise WireError("failed", "the episode is over, and no model is asked any more")

        sent = ModelRequest(
            request.messages,
            tools=request.tools,
            tool_choice=request.tool_choice,
            response_schema=request.response_schema,
            role=BRIDGE,
            model=self._models.get(request.asked_model),
            own=request.own,
        )
        try:
            return acting.ask(sent)
        except RefusedAct as refused:
            kind = _REFUSALS.get(refused.kind, "failed")
            raise WireError(kind, str(refused)) from refused

    def call(self, call: ToolCall) -> ToolResult:
        """Answer a call to the tool server. An error that ends the episode becomes a failed result."""
        if self._has_next_day and call.name == NEXT_DAY.name:
            return self._next_day()

        if self._is_between_days():
            return ToolResult(DAY_OVER, "day_over")
        acting = self._open_step()
        if acting is None:
            return ToolResult(self._episode_over, "episode_over")
        try:
            if call.name == acting.submit_tool.name:
                return self._submit(acting, call.arguments)
            return acting.call_tool(call)
        except RefusedAct as refused:
            return _make_failure(refused.kind, str(refused))
        except KtdevalError:
            # The answer must neither depend on the error that ended the episode nor quote it.
            return _make_failure("episode_over", "the episode ends with an error of the evaluation")

    def _submit(self, acting: ExternalSession, arguments: str) -> ToolResult:
        submission = acting.submit(arguments)
        if submission.action is None:
            return ToolResult(submission.feedback, submission.failure)
        if not self._has_next_day:
            return ToolResult(ACCEPTED)

        # Wait here, so that the answer can say whether there is a next day.
        with self._changed:
            self._wait_for_next_day()
            after = self._episode_over if self._is_closed else "Call next_day."
        return ToolResult(f"{ACCEPTED} {after}")

    def _next_day(self) -> ToolResult:
        with self._changed:
            acting = self._acting
            if acting is not None and self._is_told and not acting.is_over:
                tool = acting.submit_tool.name
                return ToolResult(NOT_YET.format(tool=tool), "not_submitted")

            self._wait_for_next_day()
            if self._is_closed:
                return ToolResult(self._episode_over, "episode_over")
            if not self._has_untold_day():
                return ToolResult(NOT_THERE, "not_there")
            self._is_told = True
            return ToolResult(self._day)

    def _wait_for_next_day(self) -> None:
        """Wait until there is a day that the agent has not received, or the episode is over."""
        self._changed.wait_for(
            lambda: self._is_closed or self._has_untold_day(), self._longest_wait_s
        )

    def _has_untold_day(self) -> bool:
        return self._acting is not None and not self._is_told

    def _is_between_days(self) -> bool:
        """Return whether the agent has finished its day and has not received the next one."""
        with self._changed:
            return self._has_next_day and not self._is_told and not self._is_closed

    def _open_step(self) -> ExternalSession | None:
        """Return the open step. If none is open, wait for one. Return None at the end of the
        episode.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._acting is not None)
            return self._acting


def _make_failure(kind: str, problem: str) -> ToolResult:
    return ToolResult(dumps_canonical({"error": {"kind": kind, "problem": problem}}), kind)
