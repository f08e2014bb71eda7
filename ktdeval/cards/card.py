"""Result cards as typed values, one class for each kind of evaluation, assembled from the types in
`ktdeval.cards.fields`; their JSON Schemas are generated from them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from ktdeval.cards.fields.attribution import Attribution
from ktdeval.cards.fields.basics import Counts, Limit, Name, Sha256
from ktdeval.cards.fields.cost import TokenCost, TradingCost
from ktdeval.cards.fields.coverage import Coverage
from ktdeval.cards.fields.episode_parts import (
    Decisions,
    MissingScoringEpisode,
    MissingTradingEpisode,
    Orders,
    ScoringEpisode as ScoringEpisode,
    TradingEpisode as TradingEpisode,
    UsageCounts,
)
from ktdeval.cards.fields.labels import Label, TradingLabel
from ktdeval.cards.fields.metrics import MetricLine
from ktdeval.cards.fields.parts import (
    Attachment,
    Calibration,
    Drift,
    FurtherModelPart,
    KnowledgeCutoff,
    NoCutoff,
    Pluggable,
    Provenance,
    References,
    ScoreLine as ScoreLine,
    SnapshotPart,
    TaskPart,
    TradingTaskPart,
    WindowPart,
)
from ktdeval.cards.fields.ranking import Rankable
from ktdeval.cards.fields.roles import RoleCost
from ktdeval.cards.fields.task import TargetTaskPart
from ktdeval.tasks.spec import MaskKey
from ktdeval.values.typed import Value


class Card(Value, frozen=True):
    """A card of any kind."""

    kind: str  #: name of the kind; each has a schema

    @property
    def plain(self) -> dict[str, Any]:
        """Dicts, lists and numbers: the JSON of the card's file."""
        return cast("dict[str, Any]", msgspec.to_builtins(self))


class Evaluation(Card, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of every evaluation: one task, model and agent over windows and seeds."""

    schema_version: Literal[1]
    task: TaskPart
    model: Pluggable
    agent: Pluggable
    #: models besides `model` that the agent asked; absent where there are none
    further_models: list[FurtherModelPart] = field(default_factory=list)
    call: dict[str, Any]  #: sampling and transport parameters of model calls
    #: how calls were put to a provider where that is not what call says: fields that it does not
    #: take, how a tool was forced; null for a model of this machine
    request_settings: dict[str, Any] | None = field(name="sent_as")
    #: the market; it and windows are absent where the task asks about none
    snapshot: SnapshotPart | None = None
    windows: list[WindowPart] = field(default_factory=list)
    seeds: Annotated[list[int], Meta(min_length=1)]
    limit: Limit | None  #: steps after which every episode was cut; null: none was
    #: what handles, orders, noise and seeds of calls were drawn from; absent where a task needs no
    #: market
    mask_key: MaskKey | UnsetType = UNSET
    #: id of the registration with a leaderboard that drew the key, before the run; absent where the
    #: run had a key of its own
    registration: Sha256 | UnsetType = UNSET
    drift: Drift
    #: end of the model's training data that the run records; none: nothing was trained; unknown, or
    #: absent: it is not known
    knowledge_cutoff: KnowledgeCutoff | NoCutoff = "unknown"
    artefacts: dict[str, Sha256]  #: path in the run folder -> SHA-256 of the file
    provenance: Provenance

    @property
    def aliases(self) -> str:
        """Which handles its episodes had: their key; empty where there was none."""
        return self.mask_key or ""


class TradingFacts(Evaluation, frozen=True):
    """Fields that the rest of a trading card follows from."""

    kind: Literal["trading"]
    task: TradingTaskPart
    snapshot: SnapshotPart
    windows: Annotated[list[WindowPart], Meta(min_length=1)]
    rules: Literal["strict", "paper"]  #: rule set of the metrics
    episodes: list[TradingEpisode]
    missing_episodes: list[MissingTradingEpisode]
    reference: References
    calibration: Calibration
    certificate: Attachment


class TradingCard(TradingFacts, frozen=True):
    """One evaluation on a trading task. Money is integer minor units of the currency; fractions are
    not percentages.
    """

    #: what a reader must see before any figure
    labels: list[Literal[Label, TradingLabel]]
    coverage: Coverage
    rankable: Rankable
    decisions: Decisions
    failures: Counts
    usage: UsageCounts
    orders: Orders
    metrics: dict[str, MetricLine]
    attribution: Attribution
    cost: TradingCost
    #: finished windows that stand in no figure over episodes (other length, no days of their own),
    #: and why; absent where all stand
    left_out: dict[Name, Name] | UnsetType = UNSET
    #: calls, tokens and cost by role and model; absent where no role of a team asked
    roles: list[RoleCost] = field(default_factory=list)

    @property
    def pooled(self) -> list[TradingEpisode]:
        """Episodes that figures over episodes rest on."""
        return [episode for episode in self.episodes if episode.window not in (self.left_out or {})]


class ScoringFacts(Evaluation, frozen=True):
    """Fields that the rest of a scoring card follows from."""

    kind: Literal["scoring"]
    episodes: list[ScoringEpisode]
    missing_episodes: list[MissingScoringEpisode]
    scores: dict[str, ScoreLine]  #: what the task makes of all answers together
    score_order: list[Name]  #: names of the scores in the order in which they are shown


class ScoringCard(ScoringFacts, frozen=True):
    """One evaluation on a scoring task. Each step of an episode is a sample, a question with a
    known answer.
    """

    #: what a reader must see before any figure
    labels: list[Label]
    coverage: Coverage
    rankable: Rankable
    decisions: Decisions
    failures: Counts
    usage: UsageCounts
    #: the trading task that is asked about; null where there is none
    target_task: TargetTaskPart | None = field(name="subject")
    cost: TokenCost
    #: calls, tokens and cost by role and model; absent where no role of a team asked
    roles: list[RoleCost] = field(default_factory=list)
