"""What a scoring task is to the runner: questions with a known answer, each behind a mask of its own, and a score for each.

It takes the road of a trading task with other stops: sample, answer, scores in the place of episode, ledger, metrics. Agents,
desk, masks, records, resume, cache, budgets and verification are the same code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard

from ktdeval.harness.config import HarnessConfig
from ktdeval.harness.messages import USAGE_FIELDS, ToolSpec
from ktdeval.harness.tools import Tool
from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.lens import Lens
from ktdeval.runner.spec import EpisodeSpec, Window
from ktdeval.runner.task import Task
from ktdeval.stats.intervals import Interval

AnswerRecord = Mapping[str, JsonValue]
"""One answered sample, as a JSON object (`ANSWER_FIELDS`):

    step            0, 1, 2 … within the episode
    sample          the sample's id
    provenance      model | model_after_retry | fallback | error: as on a ledger; the last two have no answer
    failures        {failure kind: count}
    tool_calls, tool_calls_valid, submissions, unmask_attempts, and the five counts of tokens: as on a ledger
    answer          the JSON object that the model answered with; null without a valid one
    facts           the sample's true identities and strata
    scores          {name: number, boolean or null}; empty without an answer
"""


ANSWER_FIELDS = (
    "step", "sample", "provenance", "failures", "tool_calls", "tool_calls_valid", "submissions", "unmask_attempts",
    *USAGE_FIELDS, "answer", "facts", "scores",
)  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """The trading task that a scoring task asks about, with its research tools."""

    task: Task
    tools: tuple[Tool, ...]


class Bench(Protocol):
    """What a sample lets an agent do before it answers. Made anew with each sample, for it remembers what was done.

    Attributes:
        tools: offered besides the form, up to `harness.max_tool_calls` calls; their functions get the bench as their context.
    """

    tools: tuple[Tool, ...]

    def completed(self, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """The answer that is recorded and scored: what was submitted, together with what was done."""
        ...


@dataclass(frozen=True)
class Sample:
    """One question.

    Attributes:
        id: names it within its episode.
        lens: the mask that it is seen through; what leaves for the model passes the leak guard of this mask.
        system: system prompt.
        user: the question.
        form: the tool that it is answered with: name, description and the JSON Schema of an answer.
        facts: gold answer and strata, in true identities. They are recorded, and never shown.
        bench: what can be done before answering; None where there is only the form.
    """

    id: str
    lens: Lens
    system: str
    user: str
    form: ToolSpec
    facts: Mapping[str, JsonValue]
    bench: Bench | None = None


@dataclass(frozen=True)
class Score:
    """One figure of a scoring task.

    Attributes:
        value: None where it is not defined, with `reason`.
        n: samples that it is made of.
        interval: of the value.
        baseline: what chance alone gives on these very samples.
        detail: further figures.
        reason: why `value` is None.
    """

    value: float | None
    n: int
    interval: Interval | None = None
    baseline: float | None = None
    detail: Mapping[str, JsonValue] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class ScoreDefinition:
    """What a score means: formula, unit, range, which way is better (`higher`, `lower`, or empty), source; as of a metric."""

    formula: str
    unit: str
    range: tuple[float | None, float | None]
    better: str
    source: str
    headline: bool = True


class Exam(Protocol):
    """The questions of one episode. Pure: equal arguments give equal bytes."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def sample(self, number: int) -> Sample:
        """One of them, from 0."""
        ...

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """The scores of an answer, which follows the form's schema (or is what the bench made of it): numbers, booleans or null by
        name.
        """
        ...


class ScoringTask(Protocol):
    """A scoring task variant.

    Attributes:
        name, version, mask, mode, tools, harness, windows, default_windows: as of a trading `Task`; of `harness`,
            `schema_retries` counts, and `max_tool_calls` where samples have a bench. `tools` is empty: samples bring their own.
        subject: name of the trading task whose scene and tools it shows; None where it has none.
        scores: definition of each figure that `summarise` gives, in the order shown.

    A task whose samples have a bench may also have `usual_tool_calls`, what an answer usually takes: `ktdeval plan`
    reckons with them.
    """

    name: str
    version: str
    mask: str
    mode: str
    tools: tuple[str, ...]
    harness: HarnessConfig
    windows: Mapping[str, Window]
    default_windows: tuple[str, ...]
    subject: str | None
    scores: Mapping[str, ScoreDefinition]

    def describe(self) -> Mapping[str, JsonValue]:
        """As of a trading task: the resolved config as JSON, prompts by their hashes."""
        ...

    def exam(self, spec: EpisodeSpec, snapshot: MarketSnapshot, subject: Subject | None) -> Exam:
        """The questions of one episode (a window and a seed)."""
        ...

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """The figures of all answered samples together, those without a valid answer among them. Pure."""
        ...


def is_scoring(task: Any) -> TypeGuard[ScoringTask]:
    """Whether a task scores answers, rather than trades."""
    return hasattr(task, "exam")
