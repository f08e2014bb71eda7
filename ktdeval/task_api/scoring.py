"""Contract of a scoring task: questions with a known answer, each behind its own mask, and a score
for each.

A scoring task has samples, answers and scores where a trading task has steps, a ledger and metrics.
Both share the code for agents, sessions, masks, records, resuming, caching, budgets and
verification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeGuard

from ktdeval.harness.chat_messages import ToolSpec
from ktdeval.harness.tool_definition import Tool
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MaskKind
from ktdeval.stats.intervals import Interval
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.trading_task import Task, TaskVariant
from ktdeval.task_api.traits import task_traits
from ktdeval.trading.ledger import CountsRecord
from ktdeval.trading.minute_fills import lacks_minutes
from ktdeval.trading.types import Provenance
from ktdeval.values.rules import FilledText, Range
from ktdeval.values.strict_json import JsonValue


class AnswerRecord(CountsRecord):
    """One answered sample."""

    step: int  #: 0, 1, 2 … within the episode
    sample: str  #: the sample's id
    provenance: Provenance  #: who answered, as on a ledger; `fallback` and `error` have no answer
    #: the JSON object that the model answered with; None without a valid one
    answer: dict[str, JsonValue] | None
    facts: dict[str, JsonValue]  #: the sample's true identities and strata
    scores: dict[str, JsonValue]  #: number, boolean or None by name; empty without an answer


@dataclass(frozen=True)
class TargetTask:
    """Trading task that a scoring task asks about, with its research tools."""

    task: Task
    tools: tuple[Tool, ...]


class Environment(Protocol):
    """Tools for a sample, which an agent can use before it answers. Each sample has its own
    environment, since it records the agent's actions.

    Example:
        class Library:
            tools = (look_up,)  # made by `tool`; gets the Library as its context
            complete_answer = staticmethod(dict)  # the answer as it was submitted
    """

    #: tools offered in addition to the form, up to `harness.max_tool_calls` calls; their functions
    #: receive the environment as their context
    tools: tuple[Tool, ...]

    def complete_answer(self, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the answer to record and score: the submission plus the actions in the
        environment.
        """


@dataclass(frozen=True)
class Sample:
    """One question.

    Example:
        form = ToolSpec("submit_answer", "Submit a number", {"type": "object"})
        Sample("sum-1", UNMASKED, "", "What is 2 + 3?", form, facts={"gold": 5})
    """

    id: str  #: id within its episode
    #: mask of the sample (`ktdeval.masking.UNMASKED` without a market); everything sent to the
    #: model passes through its leak guard
    lens: Lens
    system: str  #: system prompt
    user: str  #: the question
    #: tool for submitting the answer: name, description and the JSON Schema of an answer
    form: ToolSpec
    #: gold answer and strata, with true identities; they are recorded, but never shown
    facts: Mapping[str, JsonValue]
    #: tools to use before answering; None if only the form is offered
    environment: Environment | None = None
    #: field of the form that a plain-text reply fills; empty: an answer must call the form
    text_field: str = ""
    #: instructions for the environment's tools, as in `Observation.tool_use`
    tool_use: str = ""


@dataclass(frozen=True)
class Score:
    """One figure of a scoring task.

    Example:
        Score(0.75, n=40, baseline=0.5)
    """

    value: float | None  #: None if undefined, with `reason`
    n: int  #: number of samples
    interval: Interval | None = None  #: interval of the value
    baseline: float | None = None  #: expected value of random answers on these samples
    detail: Mapping[str, JsonValue] = field(default_factory=dict)  #: additional figures
    reason: str = ""  #: why `value` is None


Unanswered = Literal["worst", "left_out"]
"""Figure of a sample without a valid answer in a score."""


@dataclass(frozen=True)
class ScoreDefinition:
    """Definition of a score, with the same fields as a metric's: formula, unit, range, better
    direction (`higher`, `lower`, or empty), source. The range also applies to a single sample.

    Example:
        ScoreDefinition("distance", "days", (0.0, 30.0), "lower", "mine").worst  # 30.0
    """

    formula: FilledText
    unit: FilledText
    range: Range
    better: Literal["higher", "lower", ""]
    source: FilledText
    headline: bool = True
    #: figure for a sample without a valid answer: the `worst` figure, or `left_out` if not
    #: answering is not a failure in what is measured, as in a probe that attacks a mask
    unanswered: Unanswered = "worst"

    @property
    def worst(self) -> float | None:
        """Figure for a sample without a valid answer. None if such samples are left out, the score
        has no better direction, or its range is unbounded at the worse end.
        """
        return worst_figure(self.better, self.range, self.unanswered)


def worst_figure(
    better: str, ends: Sequence[float | None], unanswered: str = "worst"
) -> float | None:
    """Return the figure for a sample without a valid answer; see `ScoreDefinition.worst`."""
    if unanswered == "left_out":
        return None
    if better == "higher":
        return ends[0]
    if better == "lower":
        return ends[1]
    return None


class SampleSet(Protocol):
    """Questions of one episode. Deterministic: equal arguments give equal bytes.

    Example:
        questions = task.samples(spec, None, None)
        questions.score(0, {"answer": "5"})  # {'right': True}
    """

    def __len__(self) -> int:
        """Return the number of questions."""

    def sample(self, number: int) -> Sample:
        """Return a question by its number, from 0."""

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the scores of an answer by name, each a figure or None. The answer follows the
        form's schema, or was completed by the environment.
        """


class ScoringTask(TaskVariant, Protocol):
    """A scoring task variant. Without `windows` it needs no market, and its runs open none.

    Example:
        task.samples(spec, None, None).sample(0).facts["gold"]  # 5
    """

    mask: MaskKind | None  #: None if the task needs no market
    mode: str | None  #: None if the task has a single mode
    #: name of the trading task whose scene and tools it shows; None without a target task
    target_task: str | None
    #: definition of each figure that `summarise` returns, in the order shown
    scores: Mapping[str, ScoreDefinition]

    def samples(
        self, spec: EpisodeSpec, snapshot: Any, target_task: TargetTask | None
    ) -> SampleSet:
        """Return the questions of one episode (a window and a seed) on a MarketSnapshot; `snapshot`
        is None if the task has no windows.
        """

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Return the figures over all samples, including those without a valid answer.
        Deterministic.
        """


def needs_market(task: Any) -> bool:
    """Return whether a task needs a market: it trades, or has windows."""
    return not is_scoring(task) or bool(task.windows)


def market_problem(task: Any, snapshot: MarketSnapshot) -> str | None:
    """Return why a task can't run on a market, according to the task's traits; None if it can."""
    task_name = task.name
    name = snapshot.meta.name
    traits = task_traits(task)
    for code in traits.needs_assets:
        if code not in snapshot.asset_index:
            return (
                f"{task_name} is about {code}, which {name} does not have: import it, or choose"
                " other --data"
            )

    if traits.needs_minutes and not snapshot.minutes:
        return (
            f"{task_name} shows bars within days; {name} has none: import some (--minutes), or"
            " choose other --data"
        )

    if not is_scoring(task):
        venues = tuple(snapshot.rules.values())
        if task.trading.venue is not None:
            venues = (task.trading.venue,)

        lacks = lacks_minutes(snapshot, venues)
        if lacks:
            return f"{task_name}: {lacks}"

    if traits.needs_a_shares:
        lacks = _not_of_a_shares(snapshot)
        if lacks:
            return (
                f"{task_name} is about A-shares and their index; {name} has {lacks}: choose other"
                " --data"
            )

    return None


def _not_of_a_shares(snapshot: MarketSnapshot) -> str:
    """Return the reason why a market is not one of A-shares and their index; empty if it is."""
    others = [
        f"{code} of {venue}"
        for code, venue in zip(snapshot.codes, snapshot.venues, strict=True)
        if venue != "a_share"
    ]
    if others:
        return f"{len(others)} other assets ({others[0]})"

    return "" if snapshot.meta.benchmark else "no index"


def is_scoring(task: Any) -> TypeGuard[ScoringTask]:
    """Return whether a task scores answers instead of trading."""
    return hasattr(task, "samples")
