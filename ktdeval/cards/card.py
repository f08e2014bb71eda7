"""Result cards as typed values, with one class for each kind of evaluation. A card contains the
facts recorded by a run (`ktdeval.cards.fields.origin.recorded_facts`) and the fields derived from those
facts. Its JSON Schema is generated from its class.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType, field

from ktdeval.cards.failure_words import failure_words
from ktdeval.cards.fields.base_types import Counts, Name
from ktdeval.cards.fields.coverage import Coverage
from ktdeval.cards.fields.episode_parts import (
    Decisions,
    Orders,
    ScoringEpisode as ScoringEpisode,
    TradingEpisode as TradingEpisode,
    UsageCounts,
)
from ktdeval.cards.fields.knowledge.rank_eligibility import Rankable
from ktdeval.cards.fields.knowledge.warning_labels import Label, TradingLabel
from ktdeval.cards.fields.origin.fact_types import ScoreLine as ScoreLine
from ktdeval.cards.fields.origin.plan import TargetTaskPart
from ktdeval.cards.fields.origin.recorded_facts import (
    Card as Card,
    Evaluation as Evaluation,
    ScoringFacts,
    TradingFacts,
)
from ktdeval.cards.fields.replies.cost import TokenCost, TradingCost
from ktdeval.cards.fields.replies.roles import RoleCost
from ktdeval.cards.fields.returns.attribution import Attribution
from ktdeval.cards.fields.returns.metrics import MetricLine
from ktdeval.cards.short_text import (
    card_text,
    headline_metrics,
    headline_scores,
)


class TradingCard(TradingFacts, frozen=True):
    """One evaluation on a trading task. Money is integer minor units of the currency; fractions are
    not percentages.
    """

    #: what a reader must know before any figure
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
    #: finished windows excluded from figures over episodes (different length, no days of their
    #: own), with the reason; absent if none are excluded
    left_out: dict[Name, Name] | UnsetType = UNSET
    #: calls, tokens and cost by role and model; absent if no role of a team made a call
    roles: list[RoleCost] = field(default_factory=list)

    @property
    def what_failed(self) -> str:
        """One line on failures, retries, held steps, refused orders and silent roles; empty if nothing
        failed.
        """
        return failure_words(self.decisions, self.failures, self.orders, self.episodes, self.STEP)

    def __repr__(self) -> str:
        figures = headline_metrics(self.metrics)
        return card_text(self, self, figures)


class ScoringCard(ScoringFacts, frozen=True):
    """One evaluation on a scoring task. Each step of an episode is a sample, a question with a
    known answer.
    """

    #: what a reader must know before any figure
    labels: list[Label]
    coverage: Coverage
    rankable: Rankable
    decisions: Decisions
    failures: Counts
    usage: UsageCounts
    #: the trading task that the questions are about; null if there is none
    target_task: TargetTaskPart | None = field(name="subject")
    cost: TokenCost
    #: calls, tokens and cost by role and model; absent if no role of a team made a call
    roles: list[RoleCost] = field(default_factory=list)

    @property
    def what_failed(self) -> str:
        """One line on failures, retries, samples without an answer and silent roles; empty if nothing
        failed.
        """
        return failure_words(self.decisions, self.failures, None, self.episodes, self.STEP)

    def __repr__(self) -> str:
        figures = headline_scores(self.scores, self.score_order)
        return card_text(self, self, figures)
