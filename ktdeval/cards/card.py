"""Result cards as typed values, one class for each kind of evaluation; what their JSON Schemas are generated from."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from ktdeval.cards import parts
from ktdeval.cards.parts import Count, Counts, Day, EpisodeMetric, Figure, Interval, Line, Name, Number, Sha256, Share
from ktdeval.contracts.spec import MaskKey
from ktdeval.typed import Value

Label = Literal[
    "synthetic",
    "placebo",
    "limited",
    "incomplete",
    "low coverage",
    "before cutoff",
    "spans cutoff",
    "no adjustment factor",
    "no entity list",
]  # of cards of evaluations


class Card(Value, frozen=True):
    """A card of any kind."""

    kind: str  #: name of the kind; each has a schema

    @property
    def plain(self) -> dict[str, Any]:
        """Dicts, lists and numbers: the JSON of the card's file."""
        return cast("dict[str, Any]", msgspec.to_builtins(self))


class MissingTradingEpisode(parts.MissingEpisode, frozen=True):
    """A planned episode without a complete ledger."""

    window: Name


class Orders(Value, frozen=True):
    """Orders by what became of them."""

    submitted: Count
    filled: Count
    partially_filled: Count
    rejected: Count
    rules: Counts  #: rejected and cut orders by rule


class TradingEpisode(parts.Finished, frozen=True, kw_only=True):
    """A finished episode of a trading task."""

    window: Name
    steps: Annotated[int, Meta(ge=1)]
    first_day: Day  #: first fill day
    last_day: Day  #: last fill day
    final_nav_minor: int | UnsetType = UNSET  #: NAV at the last close, in minor units of the snapshot's currency
    final_nav_fen: int | UnsetType = UNSET  #: the same on cards of A-shares, in 1/100 CNY, as ever
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
    """A reference policy over the days of one window."""

    base_day: Day  #: the close that returns start from
    last_day: Day
    metrics: ReferenceMetrics


class References(Value, frozen=True):
    """Reference policies."""

    #: by window: the benchmark index, bought at the close of base_day and held, without costs
    benchmark_buy_and_hold: dict[str, ReferencePolicy]


class CalibrationBin(Value, frozen=True):
    """A bin of confidences."""

    low: Number
    high: Number
    n: Annotated[int, Meta(ge=1)]
    mean_confidence: Share
    accuracy: Share


class Calibration(Value, frozen=True):
    """Reliability of confidences, over all episodes."""

    bins: list[CalibrationBin]  #: non-empty bins of ten equal ones
    n: Count  #: orders with an outcome
    no_fill: Count  #: orders left out because nothing was filled
    no_next_open: Count  #: filled orders left out because no next open is known


class Evaluation(Card, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of every evaluation: one task, model and agent over windows and seeds."""

    schema_version: Literal[1]
    task: parts.TaskPart
    model: parts.Pluggable
    agent: parts.Pluggable
    call: dict[str, Any]  #: sampling and transport parameters of model calls
    #: how calls were put to a provider where that is not what call says: fields that it does not take, how a tool was forced; null
    #: for a model of this machine
    request_settings: dict[str, Any] | None = field(name="sent_as")
    snapshot: parts.SnapshotPart | None = None  #: the market; it and windows are absent where the task asks about none
    windows: list[parts.WindowPart] = field(default_factory=list)
    seeds: Annotated[list[int], Meta(min_length=1)]
    limit: parts.Limit | None  #: steps after which every episode was cut; null: none was
    #: what handles, orders, noise and seeds of calls were drawn from; absent where a task needs no market
    mask_key: MaskKey | UnsetType = UNSET
    #: id of the registration with a leaderboard that drew the key, before the run; absent where the run had a key of its own
    registration: Sha256 | UnsetType = UNSET
    drift: parts.Drift
    #: end of the model's training data that the run records; none: nothing was trained; unknown, or absent: it is not known
    knowledge_cutoff: parts.KnowledgeCutoff | parts.NoCutoff = "unknown"
    artefacts: dict[str, Sha256]  #: path in the run folder -> SHA-256 of the file
    provenance: parts.Provenance

    @property
    def aliases(self) -> str:
        """Which handles its episodes had: their key; empty where there was none."""
        return self.mask_key or ""


class TradingFacts(Evaluation, frozen=True):
    """Fields that the rest of a trading card follows from."""

    kind: Literal["trading"]
    task: parts.TradingTaskPart
    snapshot: parts.SnapshotPart
    windows: Annotated[list[parts.WindowPart], Meta(min_length=1)]
    rules: Literal["strict", "paper"]  #: rule set of the metrics
    episodes: list[TradingEpisode]
    missing_episodes: list[MissingTradingEpisode]
    reference: References
    calibration: Calibration
    certificate: Attachment


class TradingCard(TradingFacts, frozen=True):
    """One evaluation on a trading task. Money is integer minor units of the currency; fractions are not percentages."""

    #: what a reader must see before any figure
    labels: list[Literal[Label, "never traded", "mask not certified", "certificate claimed"]]
    coverage: parts.Coverage
    rankable: parts.Rankable
    decisions: parts.Decisions
    failures: Counts
    usage: parts.UsageCounts
    orders: Orders
    metrics: dict[str, parts.MetricLine]
    attribution: Attribution
    cost: parts.TradingCost
    #: finished windows that stand in no figure over episodes (other length, no days of their own), and why; absent where all stand
    left_out: dict[Name, Name] | UnsetType = UNSET

    @property
    def pooled(self) -> list[TradingEpisode]:
        """Episodes that figures over episodes rest on."""
        return [episode for episode in self.episodes if episode.window not in (self.left_out or {})]


class ScoringEpisode(parts.Finished, frozen=True):
    """A finished episode of a scoring task."""

    steps: Count  #: its samples
    answered: Count  #: samples with a valid answer of the model


class MissingScoringEpisode(parts.MissingEpisode, frozen=True):
    """A planned episode without all its answers."""

    steps: Count  #: the samples that it would have


class ScoreLine(Figure, parts.Definition, frozen=True, kw_only=True):
    """A figure over all answered samples, with what it means."""

    value: Number | None
    n: Count  #: samples that the value is made of
    interval: Interval | None  #: where the value may lie; null where there is none
    baseline: Number | None  #: what chance alone gives on these very samples; null where that is not defined
    #: further figures. Of a share of successes: successes, and upper_95, its exact one-sided 95 % upper bound.
    detail: dict[str, Any]
    reason: Name | UnsetType = UNSET


class TargetTaskPart(Value, frozen=True):
    """Trading task that is asked about; its config stands in that of the task."""

    name: Name
    hash: Sha256  #: SHA-256 of the canonical JSON of its config


class ScoringFacts(Evaluation, frozen=True):
    """Fields that the rest of a scoring card follows from."""

    kind: Literal["scoring"]
    episodes: list[ScoringEpisode]
    missing_episodes: list[MissingScoringEpisode]
    scores: dict[str, ScoreLine]  #: what the task makes of all answers together
    score_order: list[Name]  #: names of the scores in the order in which they are shown


class ScoringCard(ScoringFacts, frozen=True):
    """One evaluation on a scoring task. Each step of an episode is a sample, a question with a known answer."""

    #: what a reader must see before any figure
    labels: list[Label]
    coverage: parts.Coverage
    rankable: parts.Rankable
    decisions: parts.Decisions
    failures: Counts
    usage: parts.UsageCounts
    target_task: TargetTaskPart | None = field(name="subject")  #: the trading task that is asked about; null where there is none
    cost: parts.TokenCost
