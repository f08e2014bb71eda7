"""Contract for scoring tasks: questions with known answers, each behind its own mask and with its
own score.

Samples, answers and scores take the place of a trading task's steps, ledger and metrics. Agents,
sessions, masks, records, resuming, caching, budgets and verification use the same code for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeGuard

from ktdeval.harness.chat_messages import ToolSpec
from ktdeval.harness.tools.tool_definition import Tool
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
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.options.rules import FilledText, Range


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
    """Trading task that a scoring task asks about, together with its research tools."""

    task: Task
    tools: tuple[Tool, ...]


class Environment(Protocol):
    """Tools for a sample, which an agent may use before it answers. Each sample has its own
    environment, because the environment records the agent's actions.

    Example:
        class Library:
            tools = (look_up,)  # made by `tool`; gets the Library as its context
            complete_answer = staticmethod(dict)  # the answer as it was submitted
    """

    #: tools offered in addition to the form; at most `harness.max_tool_calls` calls are allowed,
    #: and the tools' functions receive the environment as their context
    tools: tuple[Tool, ...]

    def complete_answer(self, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the answer that is recorded and scored: the submission together with the actions
        in the environment.
        """


@dataclass(frozen=True)
class Sample:
    """Question of a scoring task.

    Example:
        form = ToolSpec("submit_answer", "Submit a number", {"type": "object"})
        Sample("sum-1", UNMASKED, "", "What is 2 + 3?", form, facts={"gold": 5})
    """

    id: str  #: id that is unique within the episode
    #: mask of the sample, or `ktdeval.masking.UNMASKED` without a market; everything that is sent
    #: to the model passes through its leak guard
    lens: Lens
    system: str  #: system prompt
    user: str  #: the question
    #: tool with which the answer is submitted: name, description and JSON Schema of an answer
    form: ToolSpec
    #: gold answer and strata, with true identities; recorded, but never shown
    facts: Mapping[str, JsonValue]
    #: tools for use before answering; None if only the form is offered
    environment: Environment | None = None
    #: field of the form that is filled from a plain-text reply; if empty, an answer must call the
    #: form
    text_field: str = ""
    #: instructions for the environment's tools, as in `Observation.tool_use`
    tool_use: str = ""


@dataclass(frozen=True)
class Score:
    """Score over the samples of a scoring task.

    Example:
        Score(0.75, n=40, baseline=0.5)
    """

    value: float | None  #: None if it is undefined, with the `reason` below
    n: int  #: number of samples
    interval: Interval | None = None  #: confidence interval for the value
    baseline: float | None = None  #: expected value for random answers to these samples
    detail: Mapping[str, JsonValue] = field(default_factory=dict)  #: additional figures
    reason: str = ""  #: why `value` is None


VERDICT: Final = "verdict"
"""Key in the detail of a score for a sentence, without a full stop, that follows from its figures.
The printed card shows it first.
"""

FAILURE_MODES: Final = "failure_modes"
"""Key in the detail of a score for what its answers got wrong: kind -> number of answers. The printed
card shows it first, because harness failures are only about calls and forms.
"""

Unanswered = Literal["worst", "left_out"]
"""Figure that a score assigns to a sample without a valid answer."""


@dataclass(frozen=True)
class ScoreDefinition:
    """Definition of a score, with the same fields as for a metric: formula, unit, range, better
    direction (`higher`, `lower` or empty) and source. The range also applies to single samples.

    Example:
        ScoreDefinition("distance", "days", (0.0, 30.0), "lower", "mine").worst  # 30.0
    """

    formula: FilledText
    unit: FilledText
    range: Range
    better: Literal["higher", "lower", ""]
    source: FilledText
    headline: bool = True
    #: figure for a sample without a valid answer: `worst`, or `left_out` if not answering is not a
    #: failure, as in a probe that attacks a mask
    unanswered: Unanswered = "worst"

    @property
    def worst(self) -> float | None:
        """Figure for a sample without a valid answer. None if such samples are left out, if the
        score has no better direction, or if its range is unbounded at the worse end.
        """
        return worst_figure(self.better, self.range, self.unanswered)


def worst_figure(
    better: str, ends: Sequence[float | None], unanswered: str = "worst"
) -> float | None:
    """Return the figure for a sample without a valid answer, as described in
    `ScoreDefinition.worst`.
    """
    if unanswered == "left_out":
        return None
    if better == "higher":
        return ends[0]
    if better == "lower":
        return ends[1]
    return None


class SampleSet(Protocol):
    """Questions of one episode. They must be deterministic: equal arguments give equal bytes.

    Example:
        questions = task.samples(spec, None, None)
        questions.score(0, {"answer": "5"})  # {'right': True}
    """

    def __len__(self) -> int:
        """Return the number of questions."""

    def sample(self, number: int) -> Sample:
        """Return the question with this number, counted from 0."""

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the scores of an answer, keyed by name. A score may be None.

        The answer follows the form's schema, or was completed by the environment.
        """


class ScoringTask(TaskVariant, Protocol):
    """Variant of a scoring task. A task without `windows` needs no market, and its runs do not open
    one.

    Example:
        task.samples(spec, None, None).sample(0).facts["gold"]  # 5
    """

    mask: MaskKind | None  #: None if the task needs no market
    mode: str | None  #: None if the task has only one mode
    #: name of the trading task whose scene and tools are shown; None without a target task
    target_task: str | None
    #: definitions of the scores that `summarise` returns, in display order
    scores: Mapping[str, ScoreDefinition]

    def samples(
        self, spec: EpisodeSpec, snapshot: Any, target_task: TargetTask | None
    ) -> SampleSet:
        """Return the questions of one episode, which has one window and one seed.

        `snapshot` is a MarketSnapshot, or None if the task has no windows.
        """

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Return the scores over all samples, including samples without a valid answer. Must be
        deterministic.
        """


def needs_market(task: Any) -> bool:
    """Return whether a task needs a market, because it trades or has windows."""
    return not is_scoring(task) or bool(task.windows)


def market_problem(task: Any, snapshot: MarketSnapshot) -> str | None:
    """Return why a task can't run on a market; None if it can."""
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
    """Return a description of what makes a market unsuitable for tasks about A-shares and their
    index; empty if it is suitable.
    """
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
