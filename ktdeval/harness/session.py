"""Session of one step: everything an agent exchanges with the model and the tools is checked, counted and recorded here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from itertools import takewhile
from typing import Any, TypeVar, cast

from msgspec import UNSET, UnsetType, structs

from ktdeval.errors import ModelError, PluginError
from ktdeval.fields import near_matches
from ktdeval.harness.action import SubmissionForm, breaking
from ktdeval.harness.agent import (
    Agent,
    Decision,
    HarnessConfig,
    Lesson,
    Observation,
    StepCounts,
    Submission,
    ToolResult,
    decision_problem,
)
from ktdeval.harness.messages import (
    CallParams,
    Message,
    Model,
    ModelRequest,
    Opaque,
    Reply,
    ToolCall,
    ToolSpec,
    encodable,
    readable,
    sound,
)
from ktdeval.harness.predictions import FactorHistory, Predictions, predictions_of
from ktdeval.harness.tools import Tool, call
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict, sha256_hex
from ktdeval.masking.identities import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.seeds import derive_seed
from ktdeval.trading.constraints import Breach
from ktdeval.trading.ledger import CountsRecord
from ktdeval.trading.types import DECIDED, Action
from ktdeval.typed import Value

_FINISH_FAILURES = {"length": "truncated", "refusal": "refusal", "content_filter": "content_filter"}
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _ends_episode(method: _Method) -> _Method:
    """Remember what a method raised, but for a failed model call: no agent can go on as if it had not happened."""

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
    #: one JSON object for each model call. `kept` is how many messages of the call before begin this one too, `sent` the messages
    #: after these as they were sent, `tools` the names of the tools offered, `tool_choice`, `seed`, and `reply` (raw) or `error`
    #: (kind of ModelError); `role` where a role of a team asked.
    exchanges: tuple[dict[str, JsonValue], ...]
    submission: str | None  #: arguments of the submit tool that the decision took as they were; None where there are none
    #: one JSON object for each call of a service of embeddings: `texts` (hashes), and `vectors` or `error`; absent without one
    embedded: tuple[dict[str, JsonValue], ...] | UnsetType = UNSET
    #: handle -> what the model predicts of a name (`Predictor`); absent of a model that predicts nothing
    predicted: dict[str, float] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Decision of a step, with its counts and its conversation."""

    decision: Decision
    counts: CountsRecord
    transcript: TranscriptEntry


@dataclass(frozen=True)
class SessionParts:
    """Parts that all steps of an episode share."""

    model: Model  #: the model under evaluation
    lens: Lens  #: the episode's mask
    guard: LeakGuard  #: the leak guard of that mask
    tools: tuple[Tool, ...]  #: research tools of the mode, in the order offered
    form: SubmissionForm  #: the submission form of that mask
    harness: HarnessConfig  #: budgets of a step
    params: CallParams  #: sampling and transport parameters of every call; their seed is replaced
    seed: int  #: seed of the episode's model calls; each call's own derives from it, the step and the number of the call
    chance_seed: int | None = None  #: in its place for models of this process that draw (`draws_chance`)
    #: tools that the leak guard has let pass, by name, as they were then: an agent could change a schema in place
    cleared_specs: dict[str, ToolSpec] = field(default_factory=dict)
    cleared_prompts: set[str] = field(default_factory=set)  #: system prompts that it has let pass: they come again at every step

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the research tools as offered to a model: the same objects at every step."""
        return tuple(tool.spec for tool in self.tools)


class GuardedSession:
    """Session of one step (`ktdeval.harness.agent.StepSession`). What the suite and the agent write must pass the leak guard, or
    the step fails with LeakError. What the model wrote is sent back to it with hidden identities withheld; the agent, too, gets a
    reply's text in that form, so that it can quote it anywhere. Tool calls reach the agent as written, for their arguments must be
    read as written. `breaches` names the orders of an action that break a rule as known now: such a submission is answered with it.
    `teach` gives the lessons of a warm-up, `history` some days' style factors of the index's members, in the mask's order.
    """

    def __init__(
        self,
        parts: SessionParts,
        step: int,
        context: Any,
        breaches: Callable[[Action], Sequence[Breach]] | None = None,
        teach: Callable[[], Iterable[Lesson]] | None = None,
        history: Callable[[int], FactorHistory] | None = None,
    ) -> None:
        self._parts, self._step, self._context, self._breaches, self._teach = parts, step, context, breaches, teach
        self._history = history
        self._tools = {tool.name: tool for tool in parts.tools}
        self._cleared: dict[Message, Message] = {}
        self._cleared_ids: dict[str, str] = {}
        self._opaque: set[Opaque] = set()
        self._budget = parts.harness.max_tool_calls
        self._calls = 0
        self._previous: tuple[Message, ...] = ()
        self._accepted: list[tuple[str, Submission]] = []
        self._kept: JsonValue = None
        self._embedded: list[dict[str, JsonValue]] = []
        self._predicted: Predictions | None = None
        self.counts = StepCounts()  #: of this step so far
        self.ended: BaseException | None = None  #: what ended the episode in this step, whether or not the agent caught it
        self.exchanges: list[dict[str, JsonValue]] = []  #: conversation of this step so far, as in `TranscriptEntry`

    def decide(self, agent: Agent, observation: Observation, memory: JsonValue) -> StepOutcome:
        """Let an agent decide this step; where its model call fails, the step holds. Raises PluginError for no decision, and what
        ended the episode (a leak, a budget, an interrupt, a defect of a tool or model), though the agent caught it.
        """
        self._kept = memory
        try:
            decision = agent.decide(observation, self, memory)
        except ModelError:  # counted in `ask` under its kind
            decision = Decision((), "error", memory=self._kept)
        finally:  # also where the agent made another error of it
            if self.ended is not None:
                raise self.ended
        if problem := decision_problem(decision):
            raise PluginError(f"agent {type(agent).__name__}: decide() must return a Decision with {problem}")
        text, embedded = self.accepted_text(decision), tuple(self._embedded) or UNSET
        predicted = UNSET if self._predicted is None else dict(self._predicted.scores)
        transcript = TranscriptEntry(
            step=self._step, exchanges=tuple(self.exchanges), submission=text, embedded=embedded, predicted=predicted
        )
        return StepOutcome(decision, self.counts.record(), transcript)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Research tools of this mode; empty where the mode has none."""
        return self._parts.specs

    @property
    def submit_tool(self) -> ToolSpec:
        """Return the tool to submit with, and its JSON Schema: `submit_action` in trading."""
        return self._parts.form.tool

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
        """Days of the task's warm-up at the first step; they are put into words only when an agent asks for them."""
        return () if self._teach is None else tuple(self._teach())

    @_ends_episode
    def ask(self, request: ModelRequest) -> Reply:
        """Call the model with the run's parameters. Raises ModelError (counted), or LeakError before anything is sent."""
        for spec in request.tools:
            self._clear_tool(spec)
        messages = tuple(self._clear(message) for message in request.messages)
        seed = derive_seed(self._parts.seed, self._step, self._calls)
        sent = replace(request, messages=messages, params=replace(self._parts.params, seed=seed), chance=self._chance())
        if self._calls == 0:
            self._predicted = self._predictions(sent)
        self._calls += 1
        scores, places = self._predicted or (None, None)
        sent = replace(sent, predictions=scores, places=places)
        if request.tool_choice == self.submit_tool.name:
            self.counts.submissions += 1
        kept = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1] or pair[0] == pair[1], zip(self._previous, messages)))
        self._previous = messages
        exchange: dict[str, JsonValue] = {
            "kept": kept,
            "sent": [message.to_json() for message in messages[kept:]],
            "tools": [spec.name for spec in sent.tools],
            "tool_choice": sent.tool_choice,
            "seed": seed,
        }
        if request.role is not None:
            exchange["role"] = self.withhold(encodable(request.role))
        self.exchanges.append(exchange)
        try:
            reply = sound(self._parts.model.reply(sent))
        except ModelError as error:
            exchange["error"] = error.kind
            self.counts.fail(f"model_{error.kind}")
            raise
        exchange["reply"] = reply.to_json()
        self._opaque.update(call_.opaque for call_ in reply.tool_calls if call_.opaque is not None)
        self.counts.usage += reply.usage
        if (failure := _FINISH_FAILURES.get(reply.finish_reason)) is not None:
            self.counts.fail(failure)
        cleared = self.withhold(reply.content), self.withhold(reply.reasoning), tuple(map(readable, reply.tool_calls))
        if cleared == (reply.content, reply.reasoning, reply.tool_calls):
            return reply
        return replace(reply, content=cleared[0], reasoning=cleared[1], tool_calls=cleared[2])

    def _chance(self) -> int | None:
        """Return the seed of a model of this process that draws; None for others: it is a public function of the window."""
        seed, draws = self._parts.chance_seed, getattr(self._parts.model, "draws_chance", False)
        return derive_seed(seed, self._step, self._calls) if draws and seed is not None else None

    def _predictions(self, first: ModelRequest) -> Predictions | None:
        if self._history is None:
            return None
        return predictions_of(self._parts.model, first, self._history, self._parts.lens.asset_handle)

    @_ends_episode
    def call_tool(self, call_: ToolCall) -> ToolResult:
        """Run a research tool with un-masked arguments; the result is re-masked. Bad calls become feedback and cost budget."""
        if self._budget <= 0:
            return self._refuse("tool_budget", "no research calls are left in this step", "submit your action now")
        self._budget -= 1
        self.counts.tool_calls += 1
        if call_.name == self.submit_tool.name:
            return self._refuse("wrong_tool", "this is not the time to submit", "use a research tool, or stop calling tools")
        tool = self._tools.get(call_.name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            return self._refuse(
                "unknown_tool", "there is no such tool", f"one of: {names}{near_matches(call_.name[:100], self._tools)}"
            )
        outcome = call(tool, self._context, call_.arguments, self._parts.lens)
        self.counts.unmask_attempts += outcome.unmask_attempts
        if outcome.failure is None:
            self.counts.tool_calls_valid += 1
        else:
            self.counts.fail(outcome.failure)
        return ToolResult(self._parts.lens.render_text(outcome.payload), outcome.failure)

    def parse_submission(self, text: str) -> Submission:
        """Validate the arguments of the submit tool. Reasons come back with hidden identities withheld."""
        reading = self._parts.form.read(text)
        self.counts.unmask_attempts += reading.unmask_attempts
        submission = reading.submission
        if submission.action is None:
            if submission.failure is not None:
                self.counts.fail(submission.failure)
            return submission
        for _ in range(reading.unknown_assets):
            self.counts.fail("unknown_asset")
        if self._breaches is not None and (breaches := self._breaches(submission.action)):
            self.counts.fail("constraint")
            return breaking(breaches)
        redact = self._parts.guard.redact  # a ledger may be quoted
        submission = replace(
            submission,
            action=tuple(structs.replace(order, reason=redact(order.reason)) for order in submission.action),
            overall_reason=redact(submission.overall_reason),
            stock_ids=tuple(map(redact, submission.stock_ids)),
        )
        self._accepted.append((text, submission))
        return submission

    def count_failure(self, kind: str) -> None:
        """Record a failure that the agent saw (an empty reply, a wrong tool, …) under its name."""
        self.counts.fail(kind)

    @_ends_episode
    def embed(self, texts: Sequence[str], ask: Callable[[Sequence[str]], Sequence[str]]) -> Sequence[str]:
        """Return vectors by `ask`, or those that the record of the step has. The texts pass the leak guard first."""
        for text in texts:
            self._parts.guard.check(text, "a text to embed")
        record: dict[str, JsonValue] = {"texts": [sha256_hex(text) for text in texts]}
        self._embedded.append(record)
        try:
            vectors = list(getattr(self._parts.model, "recorded_vectors", ask)(texts))
        except ModelError as error:
            record["error"] = error.kind
            self.counts.fail(f"model_{error.kind}")
            raise
        record["vectors"] = [*vectors]
        return vectors

    def keep(self, memory: JsonValue) -> None:
        """Set the memory that is kept where a model call of this step fails; without it, that of before the step is."""
        self._kept = memory

    def accepted_text(self, decision: Decision) -> str | None:
        """Return the arguments of the submission that the decision took unchanged; None for a hold, or after any change."""
        texts = {call_["arguments"] for exchange in self.exchanges for call_ in exchange.get("reply", {}).get("tool_calls", ())}
        for text, submission in reversed(self._accepted):
            same = (submission.action, submission.overall_reason) == (decision.action, decision.overall_reason)
            if same and text in texts and decision.provenance in DECIDED:
                return text
        return None

    def _refuse(self, kind: str, problem: str, expected: str) -> ToolResult:
        self.counts.fail(kind)
        payload = {"error": {"kind": kind, "problem": problem, "expected": expected}}
        return ToolResult(self._parts.lens.render_text(payload), kind)

    def _clear_tool(self, spec: ToolSpec) -> None:
        if self._parts.cleared_specs.get(spec.name) == spec:
            return
        text = dumps_canonical([spec.name, spec.description, spec.parameters])
        self._parts.guard.check(text, "the description of a tool")
        self._parts.cleared_specs[spec.name] = ToolSpec(*loads_strict(text))

    def _clear(self, message: Message) -> Message:
        """Return the message as it may be sent: checked, or, if it is the model's own, redacted. Each is checked once."""
        cleared = self._cleared.get(message)
        if cleared is None:
            if message.role == "assistant":
                calls = tuple(self._clear_call(call_) for call_ in message.tool_calls)
                cleared = replace(message, content=self.withhold(message.content), tool_calls=calls)
            else:
                if message.role != "system" or message.content not in self._parts.cleared_prompts:
                    self._parts.guard.check(message.content, f"a {message.role} message")
                if message.role == "system":
                    self._parts.cleared_prompts.add(message.content)
                cleared = message
                if message.tool_call_id is not None:
                    cleared = replace(message, tool_call_id=self._clear_id(message.tool_call_id))
            self._cleared[message] = cleared
        return cleared

    def withhold(self, text: str) -> str:
        """Return a text with hidden identities withheld."""
        return self._parts.guard.redact(text) if text else ""

    def _clear_call(self, call_: ToolCall) -> ToolCall:
        own = call_.name in self._tools or call_.name == self.submit_tool.name
        name = call_.name if own or self.withhold(call_.name) == call_.name else "withheld"
        arguments = self._parts.guard.redact_json(call_.arguments)
        opaque = call_.opaque if call_.opaque in self._opaque else None  # the provider's own, never what an agent wrote
        return ToolCall(self._clear_id(call_.id), name, arguments, opaque)

    def _clear_id(self, text: str) -> str:
        """Return the id of a call, which its answer repeats: as the model gave it, or a plain one where it holds an identity."""
        if text not in self._cleared_ids:
            is_clean = self.withhold(text) == text
            self._cleared_ids[text] = text if is_clean else f"call_{len(self._cleared_ids)}_withheld"
        return self._cleared_ids[text]
