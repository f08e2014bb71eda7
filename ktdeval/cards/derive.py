"""Fields that every kind of evaluation derives from its episodes, and from nothing else.

Building a card computes these fields, and checking one does so again: a reader can trust a headline
without the records.
"""

from __future__ import annotations

from typing import Any

from ktdeval.cards.card import ScoringFacts, TradingFacts
from ktdeval.cards.fields.basics import add_counts, add_up
from ktdeval.cards.fields.coverage import Coverage
from ktdeval.cards.fields.episode_parts import Decisions, UsageCounts
from ktdeval.cards.fields.labels import Authorship, TradingConditions, derive_labels
from ktdeval.cards.fields.makers import is_of_mixed_code
from ktdeval.cards.fields.ranking import derive_rankable
from ktdeval.cards.fields.task import never_ranked


def derive_common(
    card: TradingFacts | ScoringFacts,
    coverage: Coverage,
    step: str,
    trading: TradingConditions | None = None,
) -> dict[str, Any]:
    """Return sums, coverage, labels and ranking of a card. `step` names its steps; `trading`: what
    only a trading card can have.
    """
    snapshot = card.snapshot
    calls = card.provenance.calls
    asked = card.model.name.partition("/")[2]
    decisions = add_up(Decisions, [episode.decisions for episode in card.episodes])
    authorship = Authorship(
        is_other_model=calls is not None and calls.are_of_another_model(asked),
        is_elected=decisions.elected > 0,
        is_of_mixed_code=is_of_mixed_code(
            (episode.steps, episode.made_by) for episode in card.episodes
        ),
    )

    labels = derive_labels(
        coverage, card.limit, snapshot, card.knowledge_cutoff, authorship, trading
    )

    return {
        "decisions": decisions,
        "failures": add_counts(episode.failures for episode in card.episodes),
        "usage": add_up(UsageCounts, [episode.usage for episode in card.episodes]),
        "coverage": coverage,
        "labels": labels,
        "rankable": derive_rankable(
            coverage,
            card.limit,
            step,
            is_placebo=snapshot is not None and snapshot.is_placebo,
            never_traded="never traded" in labels,
            never_ranked=never_ranked(card.task.config),
        ),
    }
