"""Result cards as typed values, one class for each kind of evaluation; what their JSON Schemas are generated from."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from ktdeval.cards import parts
from ktdeval.cards.parts import Count, Counts, Day, EpisodeMetric, Figure, Interval, Line, Name, Number, Sha256, Share
from ktdeval.typed import Value


class Card(Value, frozen=True):
    """A card of any kind.

    kind: name of the kind; each has a schema.
    """

    kind: str

    @property
    def plain(self) -> dict[str, Any]:
        """Dicts, lists and numbers: the JSON of the card's file."""
        value: dict[str, Any] = msgspec.to_builtins(self)
        return value


class MissingTradingEpisode(parts.MissingEpisode, frozen=True):
    """A planned episode without a complete ledger."""

    window: Name


class Orders(Value, frozen=True):
    """Orders by what became of them.

    rules: rejected and cut orders by rule.
    """

    submitted: Count
    filled: Count
    partially_filled: Count
    rejected: Count
    rules: Counts


class TradingEpisode(parts.Finished, frozen=True):
    """A finished episode of a trading task.

    first_day: first fill day.
    last_day: last fill day.
    final_nav_fen: NAV at the last close, in 1/100 CNY.
    """

    window: Name
    steps: Annotated[int, Meta(ge=1)]
    first_day: Day
    last_day: Day
    final_nav_fen: int
    orders: Orders
    metrics: dict[str, EpisodeMetric]


class Attachment(Figure, Value, frozen=True, kw_only=True):
    """Statement of an attached card of another kind about this one: null with a reason where there is none."""

    value: dict[str, Any] | None
    reason: Name | UnsetType = UNSET

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the attached card."""
        return tuple((self.value or {}).get("labels", ()))


class AttributionLines(Value, frozen=True):
    """Linked parts of the total return."""

    lines: dict[str, Line]


class Attribution(Figure, Value, frozen=True, kw_only=True):
    """Parts of the total return; null with a reason where no metric computed it."""

    value: AttributionLines | None
    reason: Name | UnsetType = UNSET


class ReferenceMetrics(Value, frozen=True):
    """Metrics of a reference policy."""

    total_return: EpisodeMetric
    sharpe: EpisodeMetric
    max_drawdown: EpisodeMetric


class ReferencePolicy(Value, frozen=True):
    """A reference policy over the days of one window.

    base_day: the close that returns start from.
    """

    base_day: Day
    last_day: Day
    metrics: ReferenceMetrics


class References(Value, frozen=True):
    """Reference policies.

    benchmark_buy_and_hold: by window: the benchmark index, bought at the close of base_day and held, without costs.
    """

    benchmark_buy_and_hold: dict[str, ReferencePolicy]


class CalibrationBin(Value, frozen=True):
    """A bin of confidences."""

    low: Number
    high: Number
    n: Annotated[int, Meta(ge=1)]
    mean_confidence: Share
    accuracy: Share


class Calibration(Value, frozen=True):
    """Reliability of confidences, over all episodes.

    bins: non-empty bins of ten equal ones.
    n: orders with an outcome.
    no_fill: orders left out because nothing was filled.
    no_next_open: filled orders left out because no next open is known.
    """

    bins: list[CalibrationBin]
    n: Count
    no_fill: Count
    no_next_open: Count


class Evaluation(Card, frozen=True):
    """Facts of every evaluation: one task, model and agent over windows and seeds.

    request_settings: how calls were put to a provider where that is not what call says: fields that it does not take, how a tool
        was forced; null for a model of this machine.
    call: sampling and transport parameters of model calls.
    limit: steps after which every episode was cut; null: none was.
    mask_draw: which alias map of each episode; others show the same market.
    snapshot: the market; null where the task asks about none, and then there are no windows.
    artefacts: path in the run folder -> SHA-256 of the file.
    """

    schema_version: Literal[1]
    task: parts.TaskPart
    model: parts.Pluggable
    agent: parts.Pluggable
    call: dict[str, Any]
    request_settings: dict[str, Any] | None = field(name="sent_as")
    snapshot: parts.SnapshotPart | None
    windows: list[parts.WindowPart]
    seeds: Annotated[list[int], Meta(min_length=1)]
    limit: parts.Limit | None
    mask_draw: Count
    drift: parts.Drift
    artefacts: dict[str, Sha256]
    provenance: parts.Provenance


class TradingFacts(Evaluation, frozen=True):
    """Fields that the rest of a trading card follows from.

    rules: rule set of the metrics.
    """

    kind: Literal["trading"]
    task: parts.TradingTaskPart
    snapshot: parts.SnapshotPart
    windows: Annotated[list[parts.WindowPart], Meta(min_length=1)]
    rules: Literal["strict", "paper"]
    episodes: list[TradingEpisode]
    missing_episodes: list[MissingTradingEpisode]
    reference: References
    calibration: Calibration
    certificate: Attachment


class TradingCard(TradingFacts, frozen=True):
    """One evaluation on a trading task. Money is integer fen; fractions are not percentages.

    labels: what a reader must see before any figure.
    """

    labels: list[
        Literal["synthetic", "placebo", "limited", "incomplete", "low coverage", "mask not certified", "no adjustment factor"]
    ]
    coverage: parts.Coverage
    rankable: parts.Rankable
    decisions: parts.Decisions
    failures: Counts
    usage: parts.UsageCounts
    orders: Orders
    metrics: dict[str, parts.MetricLine]
    attribution: Attribution
    cost: parts.TradingCost


class ScoringEpisode(parts.Finished, frozen=True):
    """A finished episode of a scoring task.

    steps: its samples.
    answered: samples with a valid answer of the model.
    """

    steps: Count
    answered: Count


class MissingScoringEpisode(parts.MissingEpisode, frozen=True):
    """A planned episode without all its answers.

    steps: the samples that it would have.
    """

    steps: Count


class ScoreLine(Figure, parts.Definition, frozen=True, kw_only=True):
    """A figure over all answered samples, with what it means.

    n: samples that the value is made of.
    interval: where the value may lie; null where there is none.
    baseline: what chance alone gives on these very samples; null where that is not defined.
    detail: further figures. Of a share of successes: successes, and upper_95, its exact one-sided 95 % upper bound.
    """

    value: Number | None
    n: Count
    interval: Interval | None
    baseline: Number | None
    detail: dict[str, Any]
    reason: Name | UnsetType = UNSET


class TargetTaskPart(Value, frozen=True):
    """Trading task that is asked about; its config stands in that of the task.

    hash: SHA-256 of the canonical JSON of its config.
    """

    name: Name
    hash: Sha256


class ScoringFacts(Evaluation, frozen=True):
    """Fields that the rest of a scoring card follows from.

    scores: what the task makes of all answers together.
    score_order: names of the scores in the order in which they are shown.
    """

    kind: Literal["scoring"]
    episodes: list[ScoringEpisode]
    missing_episodes: list[MissingScoringEpisode]
    scores: dict[str, ScoreLine]
    score_order: list[Name]


class ScoringCard(ScoringFacts, frozen=True):
    """One evaluation on a scoring task. Each step of an episode is a sample, a question with a known answer.

    labels: what a reader must see before any figure.
    target_task: the trading task that is asked about; null where there is none.
    """

    labels: list[Literal["synthetic", "placebo", "limited", "incomplete", "low coverage", "no adjustment factor"]]
    coverage: parts.Coverage
    rankable: parts.Rankable
    decisions: parts.Decisions
    failures: Counts
    usage: parts.UsageCounts
    target_task: TargetTaskPart | None = field(name="subject")
    cost: parts.TokenCost
