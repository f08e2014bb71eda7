"""Contract of a scoring task: questions with a known answer, each behind a mask of its own, and a score for each.

It goes the way of a trading task with sample, answer and scores instead of step, ledger and metrics. Agents, session, masks,
records, resume, cache, budgets and verification are the same code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard

from ktdeval.contracts.spec import EpisodeSpec
from ktdeval.contracts.task import Task, TaskVariant
from ktdeval.harness.messages import ToolSpec
from ktdeval.harness.tools import Tool
from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.lens import Lens
from ktdeval.stats.intervals import Interval
from ktdeval.trading.ledger import CountsRecord
from ktdeval.trading.types import Provenance


class AnswerRecord(CountsRecord):
    """One answered sample."""

    step: int  #: 0, 1, 2 … within the episode
    sample: str  #: the sample's id
    provenance: Provenance  #: who answered, as on a ledger; `fallback` and `error` have no answer
    answer: dict[str, JsonValue] | None  #: the JSON object that the model answered with; None without a valid one
    facts: dict[str, JsonValue]  #: the sample's true identities and strata
    scores: dict[str, JsonValue]  #: number, boolean or None by name; empty without an answer


@dataclass(frozen=True)
class TargetTask:
    """Trading task that a scoring task asks about, with its research tools."""

    task: Task
    tools: tuple[Tool, ...]


class Environment(Protocol):
    """Tools of a sample, for an agent to use before it answers. Made anew with each sample, for it remembers what was done."""

    #: offered besides the form, up to `harness.max_tool_calls` calls; their functions get the environment as their context
    tools: tuple[Tool, ...]

    def completed(self, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the answer that is recorded and scored: what was submitted, together with what was done."""


@dataclass(frozen=True)
class Sample:
    """One question."""

    id: str  #: names it within its episode
    #: the mask that it is seen through (`ktdeval.masking.UNMASKED` without a market); what leaves for the model passes its guard
    lens: Lens
    system: str  #: system prompt
    user: str  #: the question
    form: ToolSpec  #: the tool that it is answered with: name, description and the JSON Schema of an answer
    facts: Mapping[str, JsonValue]  #: gold answer and strata, in true identities. They are recorded, and never shown.
    environment: Environment | None = None  #: what can be done before answering; None where there is only the form


@dataclass(frozen=True)
class Score:
    """One figure of a scoring task."""

    value: float | None  #: None where it is not defined, with `reason`
    n: int  #: samples that it is made of
    interval: Interval | None = None  #: of the value
    baseline: float | None = None  #: what chance alone gives on these very samples
    detail: Mapping[str, JsonValue] = field(default_factory=dict)  #: further figures
    reason: str = ""  #: why `value` is None


@dataclass(frozen=True)
class ScoreDefinition:
    """Definition of a score: formula, unit, range, which way is better (`higher`, `lower`, or empty), source; as of a metric."""

    formula: str
    unit: str
    range: tuple[float | None, float | None]
    better: str
    source: str
    headline: bool = True


class SampleSet(Protocol):
    """Questions of one episode. Pure: equal arguments give equal bytes."""

    def __len__(self) -> int:
        """Return how many there are."""

    def sample(self, number: int) -> Sample:
        """Return one of them, numbered from 0."""

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Score an answer, which follows the form's schema or is what the environment made of it: figures or None by name."""


class ScoringTask(TaskVariant, Protocol):
    """A scoring task variant. Without `windows` it asks about no market, and a run of it opens none. One whose samples have an
    environment may also have `usual_tool_calls`, the number that an answer usually takes, for `ktdeval plan`.
    """

    target_task: str | None  #: name of the trading task whose scene and tools it shows; None where it has none
    scores: Mapping[str, ScoreDefinition]  #: definition of each figure that `summarise` gives, in the order shown

    def samples(self, spec: EpisodeSpec, snapshot: Any, target_task: TargetTask | None) -> SampleSet:
        """Return the questions of one episode (a window and a seed) on a MarketSnapshot; None where the task has no windows."""

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Return the figures of all answered samples together, those without a valid answer among them. Pure."""


def needs_market(task: Any) -> bool:
    """Whether a task asks about a market: it trades, or has windows."""
    return not is_scoring(task) or bool(task.windows)


def market_problem(task: Any, snapshot: MarketSnapshot) -> str | None:
    """Return why a task can't be about a market; None where it can. A task may declare `needs_a_shares` (and their index),
    `needs_minutes`, or the codes of `needs_assets`.
    """
    if missing := [code for code in getattr(task, "needs_assets", ()) if code not in snapshot.asset_index]:
        return f"{task.name} is about {missing[0]}, which {snapshot.meta.name} has not: import it, or choose other --data"
    if getattr(task, "needs_minutes", False) and not snapshot.minutes:
        return f"{task.name} shows bars within days; {snapshot.meta.name} has none: import some (--minutes), or choose other --data"
    if not getattr(task, "needs_a_shares", False):
        return None
    others = [f"{code} of {venue}" for code, venue in zip(snapshot.codes, snapshot.venues, strict=True) if venue != "a_share"]
    lacks = f"{len(others)} other assets ({others[0]})" if others else "" if snapshot.meta.benchmark else "no index"
    return (
        f"{task.name} is about A-shares and their index; {snapshot.meta.name} has {lacks}: choose other --data" if lacks else None
    )


def is_scoring(task: Any) -> TypeGuard[ScoringTask]:
    """Whether a task scores answers, rather than trades."""
    return hasattr(task, "samples")
