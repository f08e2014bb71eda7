"""Session of one step. Everything that an agent exchanges with the model and the tools is checked,
counted and recorded here.

The session has four ports: models, research tools, submissions, and the record of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from msgspec import UNSET

from ktdeval.errors import ModelError, PluginError
from ktdeval.harness.agent import (
    Agent,
    Decision,
    Lesson,
    Observation,
    ToolResult,
    decision_problem,
)
from ktdeval.harness.chat_messages import ModelRequest, Reply, ToolCall, ToolSpec
from ktdeval.harness.external.external_acts import Outside
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.harness.steps.step_model import ModelPort
from ktdeval.harness.steps.step_record import StepRecorder, TranscriptEntry as TranscriptEntry
from ktdeval.harness.steps.step_submissions import SubmissionPort
from ktdeval.harness.steps.step_tools import ToolPort
from ktdeval.harness.submissions.predictor_scores import FactorHistory
from ktdeval.harness.traits import model_traits
from ktdeval.observation.state import NOTHING_SHOWN, ObservedState
from ktdeval.trading.ledger import CONSTRAINT_AFTER_RETRIES, CountsRecord
from ktdeval.trading.rule_breaches import RuleBreach
from ktdeval.trading.types import Action
from ktdeval.values.documents.strict_json import JsonValue


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """A step's decision, with its counts and its conversation."""

    decision: Decision
    counts: CountsRecord
    transcript: TranscriptEntry
    #: arguments of the submission that the decision used unchanged, whether a model or an external
    #: agent wrote them; None if there was no such submission
    taken: str | None = None


class GuardedSession:
    """Session of one step (`ktdeval.harness.agent.StepSession`).

    Texts from the suite and the agent must pass the leak guard; otherwise the step fails with
    LeakError. The model's own words are sent back to it with hidden identities withheld. The agent
    also receives a reply's text in this form, so that it can quote the text anywhere. Tool calls
    reach the agent unchanged, since their arguments must be read as written.

    `breaches` returns the orders in an action that break a rule, as known now; they become the
    feedback for the submission. `teach` returns the lessons of a warm-up. `history` returns the
    style factors of the index members over a number of days, in the mask's order.
    """

    def __init__(
        self,
        parts: SessionParts,
        step: int,
        context: Any,
        breaches: Callable[[Action], Sequence[RuleBreach]] | None = None,
        teach: Callable[[], Iterable[Lesson]] | None = None,
        history: Callable[[int], FactorHistory] | None = None,
    ) -> None:
        self._parts = parts
        self._step = step
        self._teach = teach
        self._observed: ObservedState | None = None
        self._memory_on_failure: JsonValue = None
        recorder = StepRecorder(parts)
        self._recorder = recorder
        self._submissions = SubmissionPort(parts, recorder, breaches)
        self._tools = ToolPort(parts, context, recorder.counts)
        self._model = ModelPort(parts, step, recorder, self._submissions, history)
        #: exception that ended the episode in this step, even if the agent caught it
        self.ended: BaseException | None = None
        self.counts = recorder.counts  #: counts of this step so far
        #: conversation of this step so far, as in `TranscriptEntry`
        self.exchanges = recorder.exchanges

        # Methods that concern a single port, as described in `StepSession`
        self.parse_submission = self._submissions.parse
        self.submission_in_text = self._submissions.read_text
        self.accepted_text = self._submissions.written_text
        self.count_failure = recorder.count_failure
        self.end_turn = recorder.end_turn
        self.keep_acts = recorder.keep_acts
        self.withhold = self._model.clearance.withhold
        self.let_pass = self._model.clearance.let_pass

    def decide(self, agent: Agent, observation: Observation, memory: JsonValue) -> StepOutcome:
        """Let an agent decide this step. If a model call fails, the step holds. Raises PluginError
        if the agent returns no decision. Raises the exception that ended the episode (a leak, a
        budget, an interrupt, a defect in a tool or model), even if the agent caught it.
        """
        state = observation.state
        if state is not None and state.text not in observation.user:
            raise PluginError(
                "the state of an observation must be what its prompt shows: put state.text into user"
            )

        self._memory_on_failure = memory
        self._observed = state
        shown = state or NOTHING_SHOWN
        researches = bool(self._parts.tools)
        self._submissions.tool = self._parts.form.tool_for(shown, researches)
        self._submissions.schema = self._parts.form.step_schema(shown, researches)
        try:
            decision = agent.decide(observation, self, memory)
        except ModelError:  # `ask` has already counted the error under its kind
            decision = Decision((), "error", memory=self._memory_on_failure)
        finally:  # even if the agent turned the exception into a different error
            if self.ended is not None:
                raise self.ended

        if problem := decision_problem(decision):
            raise PluginError(
                f"agent {type(agent).__name__}: decide() must return a Decision with {problem}"
            )

        # counts do not show whether the form or a trading rule failed last
        if decision.provenance == "fallback" and self._recorder.last_failure == "constraint":
            self.counts.fail(CONSTRAINT_AFTER_RETRIES)

        return self._outcome_of(decision)

    def _outcome_of(self, decision: Decision) -> StepOutcome:
        recorder = self._recorder
        predicted = self._model.predicted
        written = self._submissions.written_text(decision)
        transcript = TranscriptEntry(
            step=self._step,
            exchanges=tuple(self.exchanges),
            submission=written,
            embedded=tuple(recorder.embedded) or UNSET,
            predicted=UNSET if predicted is None else dict(predicted.scores),
            external=recorder.external,
        )

        taken = written
        if taken is None and recorder.external is not UNSET:
            taken = self._submissions.taken_text(decision)
        return StepOutcome(decision, self.counts.record(), transcript, taken)

    @contextmanager
    def _ending_episode(self) -> Iterator[None]:
        """Record an exception that a port raised, unless it is a failed model call, so that the
        episode ends even if the agent suppresses the exception.
        """
        try:
            yield
        except ModelError:
            raise
        except BaseException as error:
            self.ended = self.ended or error
            raise

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Research tools of this mode; empty if the mode has no tools."""
        return self._parts.specs

    @property
    def submit_tool(self) -> ToolSpec:
        """Return the submit tool with its JSON Schema for this step (`submit_action` in trading).
        All roles in a step share the tool.
        """
        return self._submissions.tool

    @property
    def tool_budget(self) -> int:
        """Number of research calls left in this step."""
        return self._tools.budget

    @property
    def submission_attempts(self) -> int:
        """Return how often the model may attempt to submit in this step: 1 + retries."""
        return 1 + self._parts.harness.schema_retries

    @property
    def may_submit_early(self) -> bool:
        """True if a submission during research counts."""
        return self._parts.harness.submission == "any_time"

    @cached_property
    def lessons(self) -> Sequence[Lesson]:
        """The days of the task's warm-up, at the first step. Their text is generated only if an
        agent asks for the lessons.
        """
        return () if self._teach is None else tuple(self._teach())

    def ask(self, request: ModelRequest) -> Reply:
        """Call the model with the run's parameters. Raises ModelError (counted), or LeakError
        before anything is sent.
        """
        # The text of lessons is generated only if an agent asks for them.
        lessons: Sequence[Lesson] = self.__dict__.get("lessons", ())
        shown = [self._observed, *(lesson.state for lesson in lessons)]
        with self._ending_episode():
            return self._model.ask(request, [state for state in shown if state is not None])

    def call_tool(self, call_: ToolCall) -> ToolResult:
        """Run a research tool with unmasked arguments, and mask the result again. Invalid calls use
        up budget and result in feedback.
        """
        with self._ending_episode():
            return self._tools.call(call_, self.submit_tool.name)

    def embed(
        self, texts: Sequence[str], ask: Callable[[Sequence[str]], Sequence[str]]
    ) -> Sequence[str]:
        """Return vectors computed by `ask`, or the vectors recorded for the step. The leak guard
        checks the texts first.
        """
        with self._ending_episode():
            return self._model.embed(texts, ask)

    @property
    def outside(self) -> Outside:
        """The step's settings and records for external agents."""
        recall = model_traits(self._parts.model).recorded_acts
        if recall is None:
            return self._parts.outside

        recorded = recall()
        return Outside(is_plan=recorded is None, recorded=recorded)

    def keep(self, memory: JsonValue) -> None:
        """Set the memory to keep if a model call in this step fails (by default the previous step's
        memory).
        """
        self._memory_on_failure = memory
