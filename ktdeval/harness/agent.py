"""Agents, which turn an observation into a decision, and the session through which they call models
and tools within budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ktdeval.harness.chat_messages import (
    THOUGHTS_REFUSED,
    UNPARSED_CALL,
    ModelRequest,
    Reply,
    ToolCall,
    ToolSpec,
    Usage,
)
from ktdeval.harness.external.external_acts import ExternalRecord, Outside
from ktdeval.observation.state import ObservedState
from ktdeval.trading.ledger import CountsRecord
from ktdeval.trading.types import PROVENANCES, Action, Order, Provenance
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical
from ktdeval.values.options.config_options import option

_FINISH_FAILURES = {"length": "truncated", "refusal": "refusal", "content_filter": "content_filter"}


@dataclass(frozen=True)
class HarnessConfig:
    """Budgets of a step. Part of every task config, and so of the card.

    Example:
        HarnessConfig(max_tool_calls=6, schema_retries=1)
    """

    # KTD-Fin Appendix I gives the values of all four
    max_candidates: int = option(30, help="most candidates shown in a step", minimum=1)
    max_tool_calls: int = option(
        12, help="research tool calls in a step, malformed ones included", minimum=0
    )
    # KTD-Fin §3.4: up to three retries, then no trade
    schema_retries: int = option(
        3, help="further submissions after an invalid one, with feedback", minimum=0, maximum=20
    )
    min_reason_chars: int = option(10, help="shortest reason of an order, in characters", minimum=0)
    # KTD-Fin §3.4 asks for the submission in a separate phase
    submission: Literal["when_asked", "any_time"] = option(
        "when_asked",
        help=(
            "when_asked: a submission counts only after research, as in KTD-Fin; any_time: during"
            " research, too"
        ),
        is_silent=True,
    )


@dataclass(frozen=True, slots=True)
class Observation:
    """Prompt of one step, in parts that are already masked and rendered as text. The step's
    procedure is not included: an agent adds it with `system_with`, and shows `user`. An agent with
    several roles shows each role the parts that concern the role.

    Example:
        Observation(0, rules="Trade three shares.", day="No news.", request="Submit.").user
    """

    step: int
    #: text for every role: the market, its rules, and how to read the data
    rules: str
    #: data shown for the day, or the material for a question
    day: str
    #: state shown in `day`, for agents and local models that compute with it; None if the task has
    #: no state
    state: ObservedState | None = None
    #: submission form, for the role that submits; empty if `rules` describe the form
    submission: str = ""
    #: closing request to the role that submits; empty if `day` contains the request
    request: str = ""
    #: one line on the purpose of each tool; empty if the tools' descriptions explain it
    tool_list: str = ""
    #: how the tools may be used, such as "make the calls that carry out the instruction"; empty if
    #: the call budget is the only instruction
    tool_use: str = ""
    #: True if a plain-text reply is also accepted as an answer, in agents that receive replies
    takes_text: bool = False

    @property
    def system(self) -> str:
        """Return the system prompt without a procedure: rules, tools and submission."""
        return self.system_with("")

    def system_with(self, procedure: str) -> str:
        """Return the system prompt with the agent's own procedure for a step."""
        return join_parts(self.rules, self.submission_with(procedure))

    def submission_with(self, procedure: str) -> str:
        """Return the procedure, the tools and the submission form as one text."""
        return join_parts(procedure, self.tool_list, self.submission)

    @property
    def user(self) -> str:
        """Return the user message: the day, then the request."""
        return join_parts(self.day, self.request)


def join_parts(*parts: str) -> str:
    """Return the non-empty parts of a prompt, unchanged, separated by blank lines."""
    text = ""
    for part in filter(None, parts):
        if text:
            text += "\n" if text.endswith("\n") else "\n\n"
        text += part
    return text


@dataclass(frozen=True, slots=True)
class Lesson:
    """A day before an episode's first step, with what happened afterwards, already masked and
    rendered as text.
    """

    day: str  #: the day, as the mask shows it
    text: str  #: the question about the day, with a JSON block as in observations
    state: ObservedState | None = None  #: state of the day that `text` shows


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Masked result of one tool call, as text for the model. `failure` says what was wrong with the
    call, or is None.
    """

    text: str
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """A parsed submission: either an action, or feedback that explains why the submission was
    rejected.
    """

    #: orders with true assets; None if the text does not contain a valid action
    action: Action | None
    overall_reason: str = ""  #: the model's own summary
    #: handle submitted in each order, with hidden identities withheld
    stock_ids: tuple[str, ...] = ()
    failure: str | None = None  #: `bad_json`, `schema` or `constraint` if `action` is None
    #: masked text for the model if `action` is None; never quotes what the model wrote
    feedback: str = ""


class StepSession(Protocol):
    """Access to the models, research tools and submission form of one step. Everything is checked
    by the leak guard, recorded, and kept within budgets.
    """

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Research tools of this mode; empty if the mode has no tools."""

    @property
    def submit_tool(self) -> ToolSpec:
        """Return the submit tool with its JSON Schema: `submit_action` in trading, a different tool
        in tasks that ask for an answer.
        """

    @property
    def tool_budget(self) -> int:
        """Research calls left in this step."""

    @property
    def submission_attempts(self) -> int:
        """Return how often the model may attempt to submit in this step: 1 + retries."""

    @property
    def may_submit_early(self) -> bool:
        """True if a submission during research counts (`HarnessConfig.submission`)."""

    @property
    def lessons(self) -> Sequence[Lesson]:
        """Return the days of the task's warm-up, oldest first, for agents that learn before they
        decide. Empty in tasks without a warm-up, and at every step but the first.
        """

    def ask(self, request: ModelRequest) -> Reply:
        """Call the model. Raises ModelError if the call failed."""

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Run a research tool with unmasked arguments, and mask the result again. An invalid call
        uses up budget and results in feedback.
        """

    def parse_submission(self, text: str) -> Submission:
        """Validate the arguments of `submit_tool`."""

    def submission_in_text(self, text: str) -> str | None:
        """Return the arguments of `submit_tool` if a reply without a tool call can be read as a
        submission; None if the task does not accept plain text.
        """

    def count_failure(self, kind: str) -> None:
        """Record a failure that the agent detected (an empty reply, a wrong tool, …) under the name
        `kind`.
        """

    def end_turn(self, answered: bool) -> None:
        """End the turn of a role of a team (or a voter, a planner, a reflection): the latest call
        is its last one. A turn without a usable answer is counted as `silent_role`, and the card
        counts turns by role. Not for the role that submits: its step falls back instead.
        """

    def withhold(self, text: str) -> str:
        """Withhold hidden identities in text that an agent composed from the model's words. Such
        text needs a separate check, because cutting or joining lines can spell a code or date that
        the original did not contain.
        """

    def keep(self, memory: JsonValue) -> None:
        """Set the memory to keep if a model call in this step fails (by default the previous step's
        memory). The last call of `keep` wins.
        """

    def embed(
        self, texts: Sequence[str], ask: Callable[[Sequence[str]], Sequence[str]]
    ) -> Sequence[str]:
        """Return the vector for each text, as base64 of little-endian float32. The vectors are
        computed by `ask`, taken from the record, or made up for a plan. Raises ModelError. Raises
        LeakError before `ask` is called.
        """

    def let_pass(self, tool: ToolSpec | None = None, prompt: str = "") -> None:
        """Treat a tool or a system prompt of an external agent as cleared. `act_outside` has
        already withheld the identities in any unknown text.
        """

    @property
    def outside(self) -> Outside:
        """Settings and records of the step that external agents use: see `act_outside`."""

    def keep_acts(self, record: ExternalRecord) -> None:
        """Add the actions of an external agent to the step's record."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A step's decision, and how it was reached. The agent gets `memory` back at the next step,
    even after the run is resumed.

    Example:
        Decision((), "fallback", "no valid submission")
    """

    action: Action
    provenance: Provenance
    overall_reason: str = ""
    stock_ids: tuple[str, ...] = ()
    memory: JsonValue = None


def decision_problem(decision: Any) -> str:
    """Return what is missing or malformed in a decision from a plugin's agent; empty if the
    decision is valid.
    """
    expected = f"a provenance of {', '.join(PROVENANCES)}"
    if not isinstance(decision, Decision):
        return f"{expected}, was {type(decision).__name__!r}"
    if decision.provenance not in PROVENANCES:
        return f"{expected}, was {decision.provenance!r}"

    action: Any = decision.action
    is_list = isinstance(action, tuple | list)
    if not is_list or not all(isinstance(order, Order) for order in action):
        return f"an action of ktdeval.api.Order values, was {action!r:.80}"

    written = [{"overall_reason": decision.overall_reason, "memory": decision.memory}]
    try:
        dumps_canonical(written).encode()
    except (TypeError, ValueError) as error:
        return f"an overall_reason and a memory that are plain JSON: {error}"

    reason: Any = decision.overall_reason
    if not isinstance(reason, str):
        return f"text as overall_reason, was {reason!r:.80}"

    return ""


class Agent(Protocol):
    """Scaffold around a model. An agent is deterministic: equal observations, memories and replies
    give equal decisions. Its `traits`, if declared, are `AgentTraits`.

    Example:
        class Plain:
            def decide(self, observation, session, memory):
                return decide_in_phases([Message("user", observation.user)], session, memory)
    """

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step. The method must hold (empty action, provenance `fallback`) if no
        submission is valid, and must not catch ModelError.
        """


@dataclass(slots=True)
class StepCounts:
    """Counts of the current step so far."""

    failures: dict[str, int] = field(default_factory=dict)
    tool_calls: int = 0
    tool_calls_valid: int = 0
    submissions: int = 0
    unmask_attempts: int = 0
    usage: Usage = field(default_factory=Usage)

    def fail(self, kind: str) -> None:
        """Count one failure."""
        self.failures[kind] = self.failures.get(kind, 0) + 1

    def add_reply(self, reply: Reply) -> None:
        """Count the tokens of a reply, and any fault in its delivery."""
        self.usage += reply.usage
        if reply.finish_reason in _FINISH_FAILURES:
            self.fail(_FINISH_FAILURES[reply.finish_reason])
        if UNPARSED_CALL in reply.notes:
            self.fail("unparsed_call")
        if THOUGHTS_REFUSED in reply.notes:
            self.fail("thoughts_refused")

    def record(self) -> CountsRecord:
        """Return the counts in the form used by step records."""
        return CountsRecord(
            failures=dict(sorted(self.failures.items())),
            tool_calls=self.tool_calls,
            tool_calls_valid=self.tool_calls_valid,
            submissions=self.submissions,
            unmask_attempts=self.unmask_attempts,
            **self.usage.to_json(),
        )
