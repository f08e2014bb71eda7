"""Step of an external agent: a program, a framework, or a client on a socket.

In a step, the agent can call the model, call a research tool, and submit. Each action goes through
the step's session, one at a time, and is recorded in order with its result. The step can therefore
be executed again from its record without the agent: `replay` repeats the actions, whose results
must equal the recorded results.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ktdeval.errors import KtdevalError, ModelError, StoreError
from ktdeval.harness.agent import Decision, StepSession, Submission, ToolResult
from ktdeval.harness.chat_messages import Message, ModelRequest, Reply, ToolCall, ToolSpec
from ktdeval.harness.external.added_fields import without_added
from ktdeval.harness.external.external_acts import (
    Act,
    ExternalRecord,
    Isolation,
    OfferedTool,
    ShownPart,
)
from ktdeval.harness.external.known_texts import NOTHING_KNOWN, KnownTexts
from ktdeval.values.documents.strict_json import JsonObject, JsonValue
from ktdeval.values.documents.typed_json import from_plain

MAX_REFUSED = 1_000_000  #: maximum number of consecutive rejected actions that are counted
_MAX_OVER_BUDGET = 20  # tool calls that are still answered and recorded after the budget is used up

_NOT_AN_ANSWER = {
    "submitted_again": "a submission was accepted in this step already, and it stands",
    "step_over": "the step is over",
    "no_attempts": "no further submission is taken in this step; the account is held",
    "tool_budget_spent": "no research call is left in this step; submit, or end",
    "call_budget": "no further model call is made in this step; submit, or end",
    "identity_in_tool_name": "the name of a tool holds an identity that this task hides",
}


class RefusedAct(KtdevalError):
    """Action that the step rejects. `kind` is counted among the step's failures."""

    def __init__(self, kind: str) -> None:
        super().__init__(_NOT_AN_ANSWER[kind])
        self.kind = kind


class ExternalSession:
    """Interface through which an external agent acts in a step. Thread-safe; actions are executed
    one at a time, in order of arrival.
    """

    def __init__(
        self,
        session: StepSession,
        max_calls: int | None = None,
        known: KnownTexts = NOTHING_KNOWN,
    ) -> None:
        """`max_calls` is the maximum number of model calls in this step; None means no limit.
        `known` contains program texts in which nothing is withheld.
        """
        self._session = session
        self._known = known
        self._max_calls = max_calls
        self._lock = threading.RLock()
        self._acts: list[Act] = []
        self._tools: tuple[ToolSpec, ...] = ()
        # tools by name, as the agent offered them in this step
        self._offered: dict[str, ToolSpec] = {}
        self._withheld: dict[str, str] = {}  # original text -> text with identities withheld
        self._texts_withheld = 0
        self._calls = 0
        self._over_budget = 0  # number of research calls made after the budget was used up
        self._attempts = session.submission_attempts
        self._is_closed = False
        self._is_over_told = False
        #: called once when the step is over: a submission was accepted, no attempt is left, or an
        #: error ended the episode
        self.when_over: Callable[[], None] = lambda: None
        #: what the agent's sandbox exposed; absent without a sandbox
        self.shown: tuple[ShownPart, ...] | UnsetType = UNSET
        self.submission: Submission | None = None  #: the accepted submission
        self.submissions = 0  #: number of submissions made
        self.error: BaseException | None = None  #: exception that ended the episode
        self.last_call_error: ModelError | None = None  #: error of the last model call

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Research tools of the step."""
        return tuple(self._session.tools)

    @property
    def submit_tool(self) -> ToolSpec:
        """The submit tool."""
        return self._session.submit_tool

    @property
    def tool_budget(self) -> int:
        """Number of research calls left."""
        return self._session.tool_budget

    @property
    def attempts(self) -> int:
        """Number of submissions left."""
        return self._attempts

    @property
    def is_over(self) -> bool:
        """True if the step is over: a submission was accepted, no attempt is left, or an error
        ended the episode.
        """
        return self.submission is not None or self._attempts <= 0 or self.error is not None

    @property
    def acts(self) -> tuple[Act, ...]:
        """The actions so far."""
        return tuple(self._acts)

    def withhold(self, text: str) -> str:
        """Return a text with hidden identities withheld."""
        with self._lock:
            return self._session.withhold(text)

    def close(self) -> None:
        """Accept no further actions, and wait for the current action to finish."""
        with self._lock:
            self._is_closed = True

    # --- acts

    def ask(self, request: ModelRequest) -> Reply:
        """Call the model, with hidden identities withheld in all texts. Raises ModelError if the
        call failed, RefusedAct if the action is rejected, and KtdevalError if the episode ends.
        """
        with self._lock:
            self._check_open()
            if self._max_calls is not None and self._calls >= self._max_calls:
                raise self._count_refusal("call_budget")
            for tool in request.tools:
                if self._session.withhold(tool.name) != tool.name:
                    raise self._count_refusal("identity_in_tool_name")

            before = self._texts_withheld
            sent = self._clear_request(request)
            return self._ask_model(sent, self._texts_withheld - before)

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Call a research tool. A call that fails returns feedback. Raises RefusedAct if the action
        is rejected, and KtdevalError if the episode ends.
        """
        with self._lock:
            self._check_open()
            if self.submission is not None:
                raise self._count_refusal("step_over")
            if self._session.tool_budget <= 0:
                self._over_budget += 1
            if self._over_budget > _MAX_OVER_BUDGET:
                raise self._count_refusal("tool_budget_spent")

            call = replace(call, arguments=self._meant(call.name, call.arguments))
            with self._ending_step():
                result = self._session.call_tool(call)

            act = Act(
                kind="tool",
                name=call.name,
                arguments=call.arguments,
                result=result.text,
                failure=result.failure or "",
            )
            self._acts.append(act)
            return result

    def submit(self, arguments: str) -> Submission:
        """Submit the step's decision. The first accepted submission is final. Raises RefusedAct if
        a submission was already accepted or no attempt is left.
        """
        with self._lock:
            self._check_open()
            if self.submission is not None:
                raise self._count_refusal("submitted_again")
            if self._attempts <= 0:
                raise self._count_refusal("no_attempts")

            self._attempts -= 1
            self.submissions += 1
            arguments = self._meant(self.submit_tool.name, arguments)
            submission = self._session.parse_submission(arguments)
            act = Act(
                kind="submit",
                arguments=arguments,
                result=submission.feedback,
                failure=submission.failure or "",
            )
            self._acts.append(act)
            if submission.action is not None:
                self.submission = submission
            if self.is_over:
                self._tell_over()
            return submission

    def _meant(self, name: str, arguments: str) -> str:
        """Return the arguments of a call without the fields that the agent added to the tool."""
        for tool in (*self.tools, self.submit_tool):
            if tool.name == name:
                return without_added(arguments, self._offered.values(), tool)
        return arguments

    def _check_open(self) -> None:
        if self._is_closed or self.error is not None:
            raise self._count_refusal("step_over")

    def _count_refusal(self, kind: str) -> RefusedAct:
        """Count a rejected action. Rejections are recorded until the step is closed."""
        if not self._is_closed:
            last = self._acts[-1] if self._acts else None
            is_repeated = last is not None and (last.kind, last.failure) == ("refused", kind)
            if last is None or not is_repeated:
                self._acts.append(Act(kind="refused", failure=kind))
                self._session.count_failure(kind)
            elif last.times < MAX_REFUSED:
                self._acts[-1] = msgspec.structs.replace(last, times=last.times + 1)
                self._session.count_failure(kind)

        return RefusedAct(kind)

    def _clear_request(self, request: ModelRequest) -> ModelRequest:
        """Return the request with identities withheld in its texts. Known parts pass the leak guard
        unchanged; the session clears the model's own turns.
        """
        messages = []
        for message in request.messages:
            if message.role == "system":
                message = replace(message, content=self._cleared_prompt(message.content))
            elif message.role != "assistant":
                message = replace(message, content=self._without_identities(message.content))
            messages.append(message)

        tools = tuple(self._cleared_tool(tool) for tool in request.tools)
        schema = request.response_schema
        if schema is not None:
            schema = self._cleared_schema(schema)
        return replace(request, messages=tuple(messages), tools=tools, response_schema=schema)

    def _cleared_prompt(self, text: str) -> str:
        """Return a system prompt with identities withheld everywhere except in known lines."""
        cleared = self._known.cleared_prompt(text, self._without_identities)
        if cleared is None:
            return self._without_identities(text)

        self._session.let_pass(prompt=cleared)
        return cleared

    def _cleared_tool(self, tool: ToolSpec) -> ToolSpec:
        """Return a tool with identities withheld; a known tool is returned unchanged."""
        if self._known.has_tool(tool):
            self._session.let_pass(tool=tool)
            return tool

        description = self._without_identities(tool.description)
        return ToolSpec(tool.name, description, self._cleared_schema(tool.parameters))

    def _cleared_schema(self, schema: Mapping[str, JsonValue]) -> JsonObject:
        """Return a schema with identities withheld. The dialect (`$schema`) is omitted because its
        address contains a date, and no model needs it.
        """
        return self._cleared_object({key: schema[key] for key in schema if key != "$schema"})

    def _cleared_object(self, value: Mapping[str, JsonValue]) -> JsonObject:
        cleared: dict[str, JsonValue] = {}
        for key, item in value.items():
            cleared[self._without_identities(key)] = self._cleared_value(item)
        return cleared

    def _cleared_value(self, value: JsonValue) -> JsonValue:
        """Return a JSON value with identities withheld in keys and strings. A number that is an
        identity becomes null.
        """
        if isinstance(value, str):
            return self._without_identities(value)
        if isinstance(value, Mapping):
            return self._cleared_object(value)
        if isinstance(value, Sequence):
            return [self._cleared_value(item) for item in value]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            text = str(value)
            if self._without_identities(text) != text:
                return None
        return value

    def _without_identities(self, text: str) -> str:
        """Return a text with identities withheld. Each text is checked once per step."""
        known = self._withheld.get(text)
        if known is None:
            known = self._session.withhold(text)
            self._withheld[text] = known
            self._texts_withheld += known != text
        return known

    def _ask_model(self, sent: ModelRequest, withheld: int) -> Reply:
        """Call the model with a cleared request. `withheld` is the number of texts with withheld
        identities that were not sent earlier in this step.
        """
        self._calls += 1
        tools: tuple[OfferedTool, ...] | UnsetType = UNSET
        if sent.tools != self._tools:
            tools = tuple(map(_offer_tool, sent.tools))

        schema: JsonObject | UnsetType = UNSET
        if sent.response_schema is not None:
            schema = dict(sent.response_schema)

        for _ in range(withheld):
            self._session.count_failure("identity_withheld")

        own = UNSET if sent.own is None else sent.own
        act = Act(kind="ask", tools=tools, response_schema=schema, withheld=withheld, settings=own)
        self.last_call_error = None
        try:
            with self._ending_step(ModelError):
                return self._session.ask(sent)
        except ModelError as error:
            self.last_call_error = error
            raise
        finally:
            # Failed calls are also recorded.
            self._tools = sent.tools
            self._offered.update((tool.name, tool) for tool in sent.tools)
            self._acts.append(act)

    @contextmanager
    def _ending_step(self, *passing: type[BaseException]) -> Iterator[None]:
        """End the step if an action raises an exception that is not in `passing`."""
        try:
            yield
        except passing:
            raise
        except BaseException as error:
            self.error = error
            self._tell_over()
            raise

    def _tell_over(self) -> None:
        """Call `when_over`, once."""
        if not self._is_over_told:
            self._is_over_told = True
            self.when_over()

    # --- again

    def replay(self, record: ExternalRecord, exchanges: Sequence[Mapping[str, Any]]) -> None:
        """Repeat the recorded actions. `exchanges` are the exchanges in the step's transcript.
        Raises StoreError if there are fewer exchanges than model calls. Errors raised by the
        actions propagate.
        """
        left = list(exchanges)
        messages: list[Message] = []
        tools: tuple[ToolSpec, ...] = ()
        for act in record.acts:
            if act.kind == "tool":
                self.call_tool(ToolCall("", act.name, act.arguments))
                continue
            if act.kind == "submit":
                self.submit(act.arguments)
                continue
            if act.kind == "refused":
                self._repeat_refusals(act)
                continue

            if not left:
                raise StoreError("the record has more calls of the model than the transcript")
            exchange = left.pop(0)
            sent = from_plain(exchange.get("sent"), list[Message], "sent")
            messages = [*messages[: int(exchange.get("kept", 0))], *sent]
            if act.tools is not UNSET:
                tools = tuple(
                    ToolSpec(tool.name, tool.description, tool.parameters) for tool in act.tools
                )
            self._replay_call(act, _request(messages, tools, act, exchange))

    def _repeat_refusals(self, act: Act) -> None:
        for _ in range(min(act.times, MAX_REFUSED)):
            self._session.count_failure(act.failure)
        self._acts.append(act)

    def _replay_call(self, act: Act, request: ModelRequest) -> None:
        """Repeat a model call. If the call fails again, ignore the error, since the agent continued
        after it as well.
        """
        with suppress(ModelError):
            self._ask_model(self._clear_request(request), act.withheld)


def _offer_tool(tool: ToolSpec) -> OfferedTool:
    return OfferedTool(
        name=tool.name, description=tool.description, parameters=dict(tool.parameters)
    )


def _request(
    messages: Sequence[Message],
    tools: tuple[ToolSpec, ...],
    act: Act,
    exchange: Mapping[str, Any],
) -> ModelRequest:
    schema = None if act.response_schema is UNSET else act.response_schema
    own = None if act.settings is UNSET else act.settings
    return ModelRequest(
        tuple(messages),
        tools=tools,
        tool_choice=exchange.get("tool_choice"),
        response_schema=schema,
        role=exchange.get("role"),
        model=exchange.get("model"),
        own=own,
    )


@dataclass(frozen=True, slots=True)
class ExternalStep:
    """Result of an external agent's step."""

    submission: Submission | None  #: the accepted submission, if any
    submissions: int  #: number of submissions made
    report: JsonValue  #: report about the agent

    def decision(self, memory: JsonValue) -> Decision:
        """Return the step's decision: the submission, or a hold."""
        submission = self.submission
        if submission is None or submission.action is None:
            return Decision((), "fallback", memory=memory)

        return Decision(
            action=submission.action,
            provenance="model" if self.submissions == 1 else "model_after_retry",
            overall_reason=submission.overall_reason,
            stock_ids=submission.stock_ids,
            memory=memory,
        )


def act_outside(
    session: StepSession,
    run: Callable[[ExternalSession], JsonValue],
    isolation: Isolation,
    max_calls: int | None = None,
    known: KnownTexts = NOTHING_KNOWN,
) -> ExternalStep | None:
    """Let an external agent act in a step. `run` starts the agent and returns a JSON report about
    it. If the step is executed again, the recorded actions are repeated instead. If the step is
    only planned, nothing external is called and the result is None.

    `isolation` is the sandbox around the agent, `max_calls` the maximum number of model calls in
    the step, and `known` contains program texts in which nothing is withheld. Raises ModelError if
    the last call failed and nothing was submitted. Errors raised by `run` propagate.
    """
    outside = session.outside
    if outside.is_plan:
        return None

    acting = ExternalSession(session, max_calls, known)
    recorded = outside.recorded
    try:
        if recorded is None:
            report = run(acting)
        else:
            acting.replay(recorded.record, recorded.exchanges)
            report = recorded.record.report
            acting.shown = recorded.record.shown
    finally:
        acting.close()

    if acting.error is not None:
        raise acting.error

    record = ExternalRecord(
        isolation=isolation, acts=acting.acts, report=report, shown=acting.shown
    )
    session.keep_acts(record)
    if acting.submission is None and acting.last_call_error is not None:
        raise acting.last_call_error

    return ExternalStep(acting.submission, acting.submissions, report)
