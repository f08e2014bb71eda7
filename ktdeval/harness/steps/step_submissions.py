"""Submissions of one step. The task's form reads them; they are then checked against the task's
rules and compared with the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import UNSET, structs

from ktdeval.harness.agent import Decision, Submission
from ktdeval.harness.chat_messages import Message, Reply, ToolSpec
from ktdeval.harness.external.added_fields import without_added
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.harness.steps.step_record import StepRecorder
from ktdeval.harness.submissions.action import breaking
from ktdeval.harness.tools.reading import canonical_form
from ktdeval.trading.rule_breaches import RuleBreach
from ktdeval.trading.types import DECIDED, Action
from ktdeval.values.documents.strict_json import Schema


class SubmissionPort:
    """Submissions of one step. `breaches` returns the orders in an action that break a rule, as
    known now; they become the feedback for the submission.
    """

    def __init__(
        self,
        parts: SessionParts,
        recorder: StepRecorder,
        breaches: Callable[[Action], Sequence[RuleBreach]] | None,
    ) -> None:
        self._form = parts.form
        self._redact = parts.guard.redact  # texts are redacted because ledgers may be quoted
        self._recorder = recorder
        self._breaches = breaches
        self._received: set[str] = set()  # arguments of the model's calls, as received
        self._accepted: list[tuple[str, Submission]] = []
        self._lens = parts.lens
        #: the latest conversation; None if the session has not seen any
        self._conversation: Sequence[Message] | None = None
        self.tool = parts.form.tool  #: the submit tool for this step
        #: narrower schema of the tool's arguments in this step; None if there is none
        self.schema: Schema | None = None

    def receive(self, reply: Reply, tools: Sequence[ToolSpec], messages: Sequence[Message]) -> None:
        """Remember the arguments of a reply's calls as the model wrote them. For a submission, also
        remember them as its tool reads them. `messages` are what the model was sent.
        """
        self._conversation = messages
        for call in reply.tool_calls:
            self._received.add(call.arguments)
            offered = [tool for tool in tools if tool.name == call.name]
            self._received.add(without_added(call.arguments, offered, self.tool))

    def read_text(self, text: str) -> str | None:
        """Return the arguments of the submit tool if a reply without a tool call can be read as a
        submission; None if the form does not accept plain text.
        """
        if not text.strip():
            return None

        arguments = self._form.arguments_of(text)
        if arguments is not None:
            self._received.add(arguments)
        return arguments

    def parse(self, text: str) -> Submission:
        """Validate the arguments of the submit tool. Hidden identities are withheld in the returned
        reasons.
        """
        reading = self._form.read(text)
        counts = self._recorder.counts
        counts.unmask_attempts += reading.unmask_attempts
        submission = reading.submission
        if submission.action is None:
            if submission.failure is not None:
                self._recorder.count_failure(submission.failure)
            return submission

        for _ in range(reading.unknown_assets):
            counts.fail("unknown_asset")

        breaches = () if self._breaches is None else self._breaches(submission.action)
        if breaches:
            self._recorder.count_failure("constraint")
            return breaking(breaches, shows_labels=self._shows_labels())

        action = []
        for order in submission.action:
            action.append(structs.replace(order, reason=self._redact(order.reason)))

        submission = replace(
            submission,
            action=tuple(action),
            overall_reason=self._redact(submission.overall_reason),
            stock_ids=tuple(map(self._redact, submission.stock_ids)),
        )
        self._accepted.append((text, submission))
        return submission

    def _shows_labels(self) -> bool:
        """Return whether the conversation shows the label of an asset; True if it is unknown."""
        if self._conversation is None:
            return True

        texts = [each.content for each in self._conversation if each.role != "assistant"]
        return any(label in text for label in self._lens.shown for text in texts)

    def written_text(self, decision: Decision) -> str | None:
        """Return the arguments of the submission that the decision used, if the model wrote them
        and nobody changed them; None for a hold, or after any change.
        """
        return self.taken_text(decision, self._is_received)

    def taken_text(
        self, decision: Decision, is_of_model: Callable[[str], bool] = bool
    ) -> str | None:
        """Return the arguments of the last submission that the decision used, among the submissions
        for which `is_of_model` is true.
        """
        if decision.provenance not in DECIDED:
            return None

        for text, submission in reversed(self._accepted):
            same_action = submission.action == decision.action
            same_reason = submission.overall_reason == decision.overall_reason
            if same_action and same_reason and is_of_model(text):
                return text

        return None

    def _is_received(self, text: str) -> bool:
        """Return whether the model wrote a submission. An external agent may have rewritten the
        text, in which case its meaning is compared instead.
        """
        if text in self._received:
            return True
        if self._recorder.external is UNSET:
            return False

        meaning = canonical_form(text, plain_numbers=True)
        return any(
            canonical_form(received, plain_numbers=True) == meaning for received in self._received
        )
