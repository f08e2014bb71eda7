"""Session of one step: everything an agent exchanges with the model and the tools is checked,
counted and recorded here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, TypeVar, cast

from msgspec import UNSET, UnsetType, structs

from ktdeval.errors import ModelError, PluginError
from ktdeval.harness.action import breaking
from ktdeval.harness.added_fields import without_added
from ktdeval.harness.agent import (
    Agent,
    Decision,
    Lesson,
    Observation,
    StepCounts,
    Submission,
    ToolResult,
    decision_problem,
)
from ktdeval.harness.chat_messages import (
    Message,
    Model,
    ModelRequest,
    Reply,
    ToolCall,
    ToolSpec,
    encodable,
    readable,
    sound,
    with_distinct_ids,
)
from ktdeval.harness.external_acts import ExternalRecord, Outside
from ktdeval.harness.predictor_scores import FactorHistory, Predictions, predictions_of
from ktdeval.harness.reading import canonical_form, with_offered_names
from ktdeval.harness.session_parts import NamedModel, SessionParts
from ktdeval.harness.step_leak_guard import LeakClearance
from ktdeval.harness.step_schema import OfferedSchemas
from ktdeval.harness.tool_definition import call
from ktdeval.harness.traits import model_traits
from ktdeval.observation.state import NOTHING_SHOWN, ObservedState
from ktdeval.trading.ledger import CONSTRAINT_AFTER_RETRIES, CountsRecord
from ktdeval.trading.rule_breaches import RuleBreach
from ktdeval.trading.types import DECIDED, Action
from ktdeval.values.config_options import near_matches
from ktdeval.values.hashes import sha256_hex
from ktdeval.values.seeds import derive_seed
from ktdeval.values.strict_json import JsonValue
from ktdeval.values.typed_json import Value

# What an agent may call a reply that a content filter emptied
_OF_FILTERED = frozenset({"empty_reply", "no_submission", "no_signal"})
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _ends_episode(method: _Method) -> _Method:
    """Remember what a method raised, unless it was a failed model call: an agent that catches it
    can't go on as if it had not happened.
    """

    @wraps(method)
    def call_method(session: GuardedSession, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(session, *args, **kwargs)
        except ModelError:
            raise
        except BaseException as error:
            session.ended = session.ended or error
            raise

    return cast("_Method", call_method)


class TranscriptEntry(Value):
    """Conversation of one step."""

    step: int  #: its number
    #: one JSON object for each model call. `kept` is how many messages of the call before begin
    #: this one too, `sent` the messages after these as they were sent, `tools` the names of the
    #: tools offered, `tool_choice`, `seed`, and `reply` (raw) or `error` (kind of ModelError);
    #: `schemas` of those whose schema is this step's own, by name, where it is not the one recorded
    #: last; `role` where a role of a team asked, `model` where a further model was asked.
    exchanges: tuple[dict[str, JsonValue], ...]
    #: arguments of the submit tool that the decision took as they were; None where there are none
    submission: str | None
    #: one JSON object for each call of a service of embeddings: `texts` (hashes), and `vectors` or
    #: `error`; absent without one
    embedded: tuple[dict[str, JsonValue], ...] | UnsetType = UNSET
    #: handle -> what the model predicts of a name (`Predictor`); absent of a model that predicts
    #: nothing
    predicted: dict[str, float] | UnsetType = UNSET
    #: what an agent outside of this code did; absent of others
    external: ExternalRecord | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Decision of a step, with its counts and its conversation."""

    decision: Decision
    counts: CountsRecord
    transcript: TranscriptEntry
    #: arguments of the submission that the decision took as they were, whether a model or an agent
    #: outside wrote them; None where there is none
    taken: str | None = None


class GuardedSession:
    """Session of one step (`ktdeval.harness.agent.StepSession`).

    Texts of the suite and of the agent must pass the leak guard, or the step fails with LeakError.
    The model's own words are sent back to it with hidden identities withheld. The agent gets a
    reply's text in that form, too, so that it can quote it anywhere; tool calls reach it as written,
    since their arguments must be read as written.

    `breaches` names the orders of an action that break a rule as known now: they are the answer to
    such a submission. `teach` gives the lessons of a warm-up, `history` some days' style factors of
    the index's members, in the mask's order.
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
        self._context = context
        self._breaches = breaches
        self._teach = teach
        self._history = history
        self._tools = {tool.name: tool for tool in parts.tools}
        self._submit_tool = parts.form.tool
        self._clearance = LeakClearance(parts)
        self._budget = parts.harness.max_tool_calls
        self._calls = 0
        self._observed: ObservedState | None = None
        self._previous: tuple[Message, ...] = ()
        self._offered = OfferedSchemas((*parts.specs, parts.form.tool))
        self._received: set[str] = set()  # arguments of the model's calls, as received
        self._accepted: list[tuple[str, Submission]] = []
        self._memory_on_failure: JsonValue = None
        self._embedded: list[dict[str, JsonValue]] = []
        self._predicted: Predictions | None = None
        self._external: ExternalRecord | UnsetType = UNSET
        self._is_filtered = False  # whether a content filter stopped the latest reply
        self._last_failure = ""  # kind of the last submission that was not accepted
        self.counts = StepCounts()  #: of this step so far
        #: what ended the episode in this step, whether or not the agent caught it
        self.ended: BaseException | None = None
        #: conversation of this step so far, as in `TranscriptEntry`
        self.exchanges: list[dict[str, JsonValue]] = []

    def decide(self, agent: Agent, observation: Observation, memory: JsonValue) -> StepOutcome:
        """Let an agent decide this step; where its model call fails, the step holds. Raises
        PluginError for no decision, and what ended the episode (a leak, a budget, an interrupt, a
        defect of a tool or model), though the agent caught it.
        """
        state = observation.state
        if state is not None and state.text not in observation.user:
            raise PluginError(
                "the state of an observation must be what its prompt shows: put state.text into user"
            )

        self._memory_on_failure = memory
        self._observed = state
        form = self._parts.form
        self._submit_tool = form.tool_for(state or NOTHING_SHOWN, bool(self._parts.tools))

        try:
            decision = agent.decide(observation, self, memory)
        except ModelError:  # counted in `ask` under its kind
            decision = Decision((), "error", memory=self._memory_on_failure)
        finally:  # also where the agent made another error of it
            if self.ended is not None:
                raise self.ended

        if problem := decision_problem(decision):
            raise PluginError(
                f"agent {type(agent).__name__}: decide() must return a Decision with {problem}"
            )

        # whether the form or a rule of trading failed in the end can't be told from counts
        if decision.provenance == "fallback" and self._last_failure == "constraint":
            self.counts.fail(CONSTRAINT_AFTER_RETRIES)

        text = self.accepted_text(decision)
        embedded = tuple(self._embedded) or UNSET
        predicted = UNSET if self._predicted is None else dict(self._predicted.scores)
        transcript = TranscriptEntry(
            step=self._step,
            exchanges=tuple(self.exchanges),
            submission=text,
            embedded=embedded,
            predicted=predicted,
            external=self._external,
        )

        taken = text
        if taken is None and self._external is not UNSET:
            taken = self._taken_text(decision)

        return StepOutcome(decision, self.counts.record(), transcript, taken)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Research tools of this mode; empty where the mode has none."""
        return self._parts.specs

    @property
    def submit_tool(self) -> ToolSpec:
        """Return the tool to submit with, and its JSON Schema of this step: `submit_action` in
        trading. All roles of a step share it.
        """
        return self._submit_tool

    @property
    def tool_budget(self) -> int:
        """Research calls left in this step."""
        return self._budget

    @property
    def submission_attempts(self) -> int:
        """Return how often the model may be asked to submit in this step: 1 + retries."""
        return 1 + self._parts.harness.schema_retries

    @cached_property
    def lessons(self) -> Sequence[Lesson]:
        """Days of the task's warm-up at the first step. They are put into words only when an agent
        asks for them.
        """
        if self._teach is None:
            return ()
        return tuple(self._teach())

    @_ends_episode
    def ask(self, request: ModelRequest) -> Reply:
        """Call the model with the run's parameters. Raises ModelError (counted), or LeakError
        before anything is sent.
        """
        for spec in request.tools:
            self._clearance.clear_tool(spec)

        messages = tuple(self._clearance.clear(message) for message in request.messages)
        asked = self._asked(request)
        sent = self._sent(request, messages, asked)
        if request.tool_choice == self.submit_tool.name:
            self.counts.submissions += 1

        exchange = self._record(sent)
        try:
            reply = sound(asked.model.reply(sent))
        except ModelError as error:
            exchange["error"] = error.kind
            self.counts.fail(f"model_{error.kind}")
            raise

        exchange["reply"] = reply.to_json()
        self._receive(reply, sent.tools)
        reply = with_offered_names(with_distinct_ids(reply), sent.tools)
        self._clearance.receive(reply)
        self.counts.add_reply(reply)
        self._is_filtered = reply.finish_reason == "content_filter"
        return self._redacted(reply)

    def _receive(self, reply: Reply, tools: Sequence[ToolSpec]) -> None:
        """Keep the arguments of a reply's calls, as the model wrote them and, of a submission, as
        its tool reads them.
        """
        for call_ in reply.tool_calls:
            self._received.add(call_.arguments)
            offered = [tool for tool in tools if tool.name == call_.name]
            self._received.add(without_added(call_.arguments, offered, self.submit_tool))

    def _asked(self, request: ModelRequest) -> NamedModel:
        """Return the model that a request asks. Raises PluginError: it is no model of the run."""
        parts = self._parts
        if request.model in (None, parts.name):
            return NamedModel(parts.model, parts.params)
        if request.model in parts.further:
            return parts.further[request.model]

        known = ", ".join(parts.further) or "no other"
        raise PluginError(
            f"the agent asks the model {request.model!r:.80}, and declares {known}; name it in"
            " further_models"
        )

    def _sent(
        self, request: ModelRequest, messages: tuple[Message, ...], asked: NamedModel
    ) -> ModelRequest:
        """Return the request as the model gets it, with the run's parameters and what the session
        knows of the step.
        """
        is_own = request.model in (None, self._parts.name)
        seed = derive_seed(self._parts.seed, self._step, self._calls)
        run_params = replace(asked.params, seed=seed)
        own = request.own
        sent = replace(
            request,
            messages=messages,
            params=run_params if own is None else own.applied_to(run_params),
            run_params=None if own is None else run_params,
            model=None if is_own else request.model,
            chance=self._chance(asked.model),
            state=self._state_in(messages, request.state),
            submit_tool=self.submit_tool.name,
            step=self._step,
            predictions=None,
            places=None,
        )
        if self._calls == 0:
            self._predicted = self._predictions(sent)

        self._calls += 1
        if self._predicted is None or not is_own:
            return sent

        scores, places = self._predicted
        return replace(sent, predictions=scores, places=places)

    def _record(self, sent: ModelRequest) -> dict[str, JsonValue]:
        """Begin the record of a call and return it; messages that begin the call before, too, are
        counted instead of repeated.
        """
        number_before = 0
        for earlier, message in zip(self._previous, sent.messages):
            if earlier is not message and earlier != message:
                break
            number_before += 1

        self._previous = sent.messages
        exchange: dict[str, JsonValue] = {
            "kept": number_before,
            "sent": [message.to_json() for message in sent.messages[number_before:]],
            "tools": [spec.name for spec in sent.tools],
            "tool_choice": sent.tool_choice,
            "seed": sent.params.seed,
        }
        if schemas := self._offered.changed(sent.tools):
            exchange["schemas"] = schemas
        if sent.role is not None:
            exchange["role"] = self.withhold(encodable(sent.role))
        if sent.model is not None:
            exchange["model"] = sent.model

        self.exchanges.append(exchange)
        return exchange

    def _redacted(self, reply: Reply) -> Reply:
        """Return a reply as an agent gets it."""
        content = self.withhold(reply.content)
        reasoning = self.withhold(reply.reasoning)
        calls = tuple(map(readable, reply.tool_calls))
        if (content, reasoning, calls) == (reply.content, reply.reasoning, reply.tool_calls):
            return reply

        return replace(reply, content=content, reasoning=reasoning, tool_calls=calls)

    def _state_in(
        self, messages: Sequence[Message], given: ObservedState | None
    ) -> ObservedState | None:
        """Return the state that the latest user message with one shows: that of the request, of the
        observation or of a lesson. A state whose text is in no message doesn't reach the model, so
        a model of this process knows nothing that the leak guard has not checked.
        """
        # Lessons are put into words when an agent asks for them, and not before.
        lessons: Sequence[Lesson] = self.__dict__.get("lessons", ())
        known = [given, self._observed, *(lesson.state for lesson in lessons)]
        states = [state for state in known if state is not None and state.sections]

        for message in reversed(messages):
            if message.role != "user":
                continue
            for state in states:
                if state.text in message.content:
                    return state

        return None

    def _chance(self, model: Model) -> int | None:
        """Return the seed of a model of this process that draws; None for others: the seed is a
        public function of the window.
        """
        seed = self._parts.chance_seed
        if seed is None or not model_traits(model).draws_chance:
            return None
        return derive_seed(seed, self._step, self._calls)

    def _predictions(self, first: ModelRequest) -> Predictions | None:
        if self._history is None:
            return None
        return predictions_of(
            self._parts.model, first, self._history, self._parts.lens.asset_handle
        )

    @_ends_episode
    def call_tool(self, call_: ToolCall) -> ToolResult:
        """Run a research tool with un-masked arguments; the result is re-masked. Bad calls become
        feedback and cost budget.
        """
        if self._budget <= 0:
            return self._refuse(
                "tool_budget", "no research calls are left in this step", "submit your action now"
            )

        self._budget -= 1
        self.counts.tool_calls += 1
        if call_.name == self.submit_tool.name:
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

        outcome = call(tool, self._context, call_.arguments, self._parts.lens)
        self.counts.unmask_attempts += outcome.unmask_attempts
        if outcome.failure is None:
            self.counts.tool_calls_valid += 1
        else:
            self.counts.fail(outcome.failure)

        return ToolResult(self._parts.lens.render_text(outcome.payload), outcome.failure)

    def parse_submission(self, text: str) -> Submission:
        """Validate the arguments of the submit tool. Reasons come back with hidden identities
        withheld.
        """
        reading = self._parts.form.read(text)
        self.counts.unmask_attempts += reading.unmask_attempts
        submission = reading.submission

        if submission.action is None:
            if submission.failure is not None:
                self.count_failure(submission.failure)

            return submission

        for _ in range(reading.unknown_assets):
            self.counts.fail("unknown_asset")

        if self._breaches is not None:
            breaches = self._breaches(submission.action)
            if breaches:
                self.count_failure("constraint")
                return breaking(breaches)

        redact = self._parts.guard.redact  # a ledger may be quoted
        action = []
        for order in submission.action:
            action.append(structs.replace(order, reason=redact(order.reason)))

        submission = replace(
            submission,
            action=tuple(action),
            overall_reason=redact(submission.overall_reason),
            stock_ids=tuple(map(redact, submission.stock_ids)),
        )
        self._accepted.append((text, submission))

        return submission

    def submission_in_text(self, text: str) -> str | None:
        """Return the arguments of the submit tool that a reply without a call stands for; None
        where the form takes no plain text.
        """
        form = self._parts.form
        if not text.strip():
            return None

        arguments = form.arguments_of(text)
        if arguments is not None:
            self._received.add(arguments)

        return arguments

    def count_failure(self, kind: str) -> None:
        """Record a failure that the agent saw (an empty reply, a wrong tool, …) under its name. What
        a content filter took away is counted as that alone.
        """
        if self._is_filtered and kind in _OF_FILTERED:
            return
        self._last_failure = kind
        self.counts.fail(kind)

    @_ends_episode
    def embed(
        self, texts: Sequence[str], ask: Callable[[Sequence[str]], Sequence[str]]
    ) -> Sequence[str]:
        """Return vectors by `ask`, or those that the record of the step has. The texts pass the
        leak guard first.
        """
        for text in texts:
            self._parts.guard.check(text, "a text to embed")

        record: dict[str, JsonValue] = {"texts": [sha256_hex(text) for text in texts]}
        self._embedded.append(record)
        try:
            recall = model_traits(self._parts.model).recorded_vectors or ask
            vectors = list(recall(texts))
        except ModelError as error:
            record["error"] = error.kind
            self.counts.fail(f"model_{error.kind}")
            raise

        record["vectors"] = [*vectors]
        return vectors

    @property
    def outside(self) -> Outside:
        """What the step knows of agents outside of this code."""
        recall = model_traits(self._parts.model).recorded_acts
        if recall is None:
            return self._parts.outside

        recorded = recall()
        return Outside(is_plan=recorded is None, recorded=recorded)

    def keep_acts(self, record: ExternalRecord) -> None:
        """Put the acts of an agent outside on the step's record. Its submissions count as asked
        for.
        """
        self._external = record
        submissions = [act for act in record.acts if act.kind == "submit"]
        self.counts.submissions += len(submissions)
        if submissions:  # what failed after the last one is no submission
            self._last_failure = submissions[-1].failure

    def withhold(self, text: str) -> str:
        """Return a text with hidden identities withheld."""
        return self._clearance.withhold(text)

    def let_pass(self, tool: ToolSpec | None = None, prompt: str = "") -> None:
        """Take a tool or a system prompt of an agent outside as cleared."""
        self._clearance.let_pass(tool, prompt)

    def keep(self, memory: JsonValue) -> None:
        """Set the memory to keep if a model call of this step fails (default: the previous
        step's).
        """
        self._memory_on_failure = memory

    def accepted_text(self, decision: Decision) -> str | None:
        """Return the arguments of the submission that the decision took unchanged; None for a hold,
        or after any change.
        """
        return self._taken_text(decision, self._is_received)

    def _taken_text(
        self, decision: Decision, is_of_model: Callable[[str], bool] = bool
    ) -> str | None:
        """Return the arguments of the last submission that the decision took, of those that pass."""
        if decision.provenance not in DECIDED:
            return None

        for text, submission in reversed(self._accepted):
            same_action = submission.action == decision.action
            same_reason = submission.overall_reason == decision.overall_reason
            if same_action and same_reason and is_of_model(text):
                return text

        return None

    def _is_received(self, text: str) -> bool:
        """Whether a submission is what the model wrote. An agent outside may have read it and
        written it again: then its meaning counts.
        """
        if text in self._received:
            return True
        if self._external is UNSET:
            return False

        meaning = canonical_form(text, plain_numbers=True)
        return any(
            canonical_form(received, plain_numbers=True) == meaning for received in self._received
        )

    def _refuse(self, kind: str, problem: str, expected: str) -> ToolResult:
        self.counts.fail(kind)
        payload = {"error": {"kind": kind, "problem": problem, "expected": expected}}
        return ToolResult(self._parts.lens.render_text(payload), kind)
