"""Session for an agent with a layered memory. It passes the state in the prompt to in-process
models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ktdeval.harness import (
    Lesson,
    ModelRequest,
    Reply,
    StepSession,
    Submission,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from ktdeval.observation import ObservedState
from ktdeval.values import JsonValue


class MemorySession:
    """A step's session whose requests carry a role and the state that the prompt shows. Everything
    else is delegated to the session.
    """

    tools: tuple[ToolSpec, ...]
    submit_tool: ToolSpec
    tool_budget: int
    submission_attempts: int
    may_submit_early: bool
    lessons: Sequence[Lesson]
    call_tool: Callable[[ToolCall], ToolResult]
    count_failure: Callable[[str], None]
    end_turn: Callable[[bool], None]
    withhold: Callable[[str], str]
    submission_in_text: Callable[[str], str | None]
    keep: Callable[[JsonValue], None]
    embed: Callable[[Sequence[str], Callable[[Sequence[str]], Sequence[str]]], Sequence[str]]

    def __init__(self, session: StepSession, role: str, state: ObservedState | None = None) -> None:
        self._session = session
        self._role = role
        self._state = state
        self.submitted = ""  #: arguments of the last accepted submission

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def ask(self, request: ModelRequest) -> Reply:
        """Call the model. Raises ModelError if the call failed."""
        state = request.state or self._state
        return self._session.ask(replace(request, role=self._role, state=state))

    def parse_submission(self, text: str) -> Submission:
        """Validate the arguments of `submit_tool`."""
        submission = self._session.parse_submission(text)
        if submission.action is not None:
            self.submitted = text
        return submission
