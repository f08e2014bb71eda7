"""Facts on a card: what a run recorded. All other fields of the card are derived from its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field as with_default
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from ktdeval.calls.costs.prices import PriceEntry
from ktdeval.cards.fields.base_types import Limit, Name, Sha256
from ktdeval.cards.fields.episode_parts import (
    MissingScoringEpisode,
    MissingTradingEpisode,
    ScoringEpisode,
    TradingEpisode,
)
from ktdeval.cards.fields.origin.fact_types import (
    Assumptions,
    Attachment,
    Calibration,
    Decider,
    Definition,
    Drift,
    ForeignPackage,
    FurtherModelPart,
    HoldingCorrelationPart,
    KeySource,
    KnowledgeCutoff,
    NoCutoff,
    Pluggable,
    Provenance,
    References,
    ScoreLine,
    SnapshotPart,
    TaskPart,
    TradingTaskPart,
    WindowPart,
)
from ktdeval.errors import CardError
from ktdeval.stats.factorial_effects import left_out_windows
from ktdeval.task_api.episode_spec import MaskKey
from ktdeval.values.documents.typed_json import Value


class Card(Value, frozen=True):
    """A card of any kind."""

    kind: str  #: name of the kind; each has a schema

    @property
    def plain(self) -> dict[str, Any]:
        """The card's file contents as dicts, lists and numbers."""
        return cast("dict[str, Any]", msgspec.to_builtins(self))


class Evaluation(Card, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of every evaluation: one task, model and agent over windows and seeds."""

    schema_version: Literal[1]
    task: TaskPart
    model: Pluggable
    agent: Pluggable
    #: models other than `model` that the agent called; absent if there are none
    further_models: list[FurtherModelPart] = field(default_factory=list)
    #: who decided, and whether they could look up the market; absent on cards written before this
    #: field existed
    deciders: list[Decider] = field(default_factory=list)
    #: packages in the process, in any session of the run, that are not part of ktdeval; absent if
    #: there are none
    foreign: list[ForeignPackage] = field(default_factory=list)
    call: dict[str, Any]  #: sampling and transport parameters of model calls
    #: request settings at a provider that differ from what call says: unsupported fields, how a
    #: tool was forced; null for a local model
    request_settings: dict[str, Any] | None = field(name="sent_as")
    #: the market; it and windows are absent if the task needs no market
    snapshot: SnapshotPart | None = None
    windows: list[WindowPart] = field(default_factory=list)
    seeds: Annotated[list[int], Meta(min_length=1)]
    limit: Limit | None  #: number of steps after which every episode was cut; null: no limit
    #: source of handles, orders, noise and call seeds; absent if the task needs no
    mask_key: MaskKey | UnsetType = UNSET
    #: source of a key that was known before the run; absent if the run drew its own, and on older
    #: cards
    key_source: KeySource | UnsetType = UNSET
    #: id of the leaderboard registration that drew the key before the run; absent if the run drew
    #: its own key
    registration: Sha256 | UnsetType = UNSET
    drift: Drift
    #: end of the model's training data, as recorded by the run; none: not trained; unknown or
    #: absent: not known
    knowledge_cutoff: KnowledgeCutoff | NoCutoff = "unknown"
    artefacts: dict[str, Sha256]  #: path in the run folder -> SHA-256 of the file
    provenance: Provenance

    @property
    def aliases(self) -> str:
        """Mask key, which determines the aliases used in the card's episodes; empty if there is no
        key.
        """
        return self.mask_key or ""


class TradingFacts(Evaluation, frozen=True, kw_only=True):
    """Fields from which the rest of a trading card follows."""

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
    #: what its figures assume; absent on cards written before this field existed
    assumptions: Assumptions | UnsetType = UNSET
    #: of holdings with the returns that follow; absent on cards written before this field existed
    rank_correlation: HoldingCorrelationPart | UnsetType = UNSET

    STEP: ClassVar[str] = "step"
    """Name of a step of its episodes."""

    @property
    def planned_steps(self) -> int:
        """Number of steps in the whole plan, including missing episodes."""
        finished = [episode.window for episode in self.episodes]
        missing = [episode.window for episode in self.missing_episodes]
        return sum(map(self.steps_of, (*finished, *missing)))

    @property
    def decided_steps(self) -> int:
        """Number of steps in the finished episodes that the model decided."""
        return sum(episode.decisions.by_model for episode in self.episodes)

    def steps_of(self, window: str) -> int:
        """Return the number of steps in an episode over a window: the window's days, or the limit
        if smaller.
        """
        days = next(one.days for one in self.windows if one.name == window)
        return min(days, self.limit or days)

    @property
    def excluded(self) -> dict[str, str]:
        """Finished windows that do not count towards figures over episodes, with the reasons.
        Raises CardError if one of their days does not exist.
        """
        spans = {one.window: (one.first_day, one.last_day) for one in self.episodes}
        try:
            return left_out_windows(spans, self.snapshot.days_a_year)
        except ValueError as error:
            raise CardError(f"episodes have days that do not exist: {error}") from error

    @property
    def pooled(self) -> list[TradingEpisode]:
        """Episodes that count towards figures over episodes."""
        excluded = self.excluded
        return [episode for episode in self.episodes if episode.window not in excluded]


class ScoringFacts(Evaluation, frozen=True):
    """Fields from which the rest of a scoring card follows."""

    kind: Literal["scoring"]
    episodes: list[ScoringEpisode]
    missing_episodes: list[MissingScoringEpisode]
    scores: dict[str, ScoreLine]  #: the task's figures over all answers together
    score_order: list[Name]  #: names of the scores in the order in which they are shown

    STEP: ClassVar[str] = "sample"
    """Name of a step of its episodes."""

    @property
    def planned_steps(self) -> int:
        """Number of samples in the whole plan, including missing episodes."""
        finished = sum(episode.steps for episode in self.episodes)
        return finished + sum(episode.steps for episode in self.missing_episodes)

    @property
    def decided_steps(self) -> int:
        """Number of samples in the finished episodes with a valid answer from the model."""
        return sum(episode.answered for episode in self.episodes)

    @property
    def pooled(self) -> list[ScoringEpisode]:
        """Episodes that count towards figures over episodes: all finished ones."""
        return self.episodes


AnyFacts = TradingFacts | ScoringFacts  #: facts on a card of either kind


def rests_on(facts: TradingFacts) -> tuple[str, str]:
    """Return a description of the episodes behind counts, and another of the episodes behind
    figures over episodes; empty if both are the same episodes.
    """
    finished = len(facts.episodes)
    pooled = len(facts.pooled)
    if finished == pooled:
        return "", ""
    return (
        f", in all {finished} episodes",
        f", in the {pooled} of {finished} episodes that figures rest on",
    )


F_co = TypeVar("F_co", bound=Evaluation, covariant=True)


@dataclass(frozen=True)
class DerivationBasis(Generic[F_co]):
    """Inputs from which the derived fields of a card are computed."""

    facts: F_co  #: facts on the card
    price: PriceEntry | None  #: token price of the card's own model; None if unknown
    #: metric definitions by name
    definitions: Mapping[str, Definition] = with_default(default_factory=dict)
