"""Form of a submission: the tool with which a model submits, and a reader of what it submits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ktdeval.harness.agent import Submission
from ktdeval.harness.chat_messages import ToolSpec
from ktdeval.observation.state import ObservedState
from ktdeval.values.strict_json import Schema


@dataclass(frozen=True, slots=True)
class SubmissionReading:
    """A submission, with counts made while it was read."""

    submission: Submission  #: the orders, or the feedback
    #: number of hidden identities used as `stock_id`, including those in an invalid submission
    unmask_attempts: int = 0
    unknown_assets: int = 0  #: number of orders whose `stock_id` is not a known asset


class SubmissionForm(ABC):
    """Form of a submission, and its reader. A submission is an action in trading, and an answer in
    scoring.
    """

    tool: ToolSpec

    @abstractmethod
    def read(self, text: str) -> SubmissionReading:
        """Return the submission in `text`. Any text can be read."""

    def tool_for(self, _state: ObservedState, _researches: bool, /) -> ToolSpec:
        """Return the submit tool for a step that shows `state`. It is the same tool at every step,
        unless a form includes rules specific to the step. `researches` means that research tools
        may show more assets than `state`.
        """
        return self.tool

    def step_schema(self, _state: ObservedState, _researches: bool, /) -> Schema | None:
        """Return a narrower schema for the arguments of the submit tool in a step; None (the
        default) if there is none. A server may hold a reply to it, but no prompt shows it: tools
        come first in a request, so a schema that changes every day would end all reuse of prompts.
        """
        return None

    def arguments_of(self, _text: str, /) -> str | None:
        """Return the arguments of the submit tool if a reply without a tool call can be read as a
        submission. Returns None (the default) if the form does not accept plain text.
        """
        return None
