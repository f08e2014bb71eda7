"""Card of a scoring task: a pure function of recorded answers and of the scores that the task made
of them.
"""

from __future__ import annotations

from ktdeval.cards.assembly import assemble_card
from ktdeval.cards.card import ScoringCard
from ktdeval.cards.fields.card_inputs import ScoringInputs, scoring_sources
from ktdeval.cards.fields.recorded_facts import ScoringFacts


def build_scoring_card(inputs: ScoringInputs) -> ScoringCard:
    """Build the result card of one evaluation on a scoring task (one task, model and agent over
    windows and seeds).

    Two calls with equal inputs give equal cards whatever the order of specs, episodes and missing
    episodes; only `provenance` is passed through as it is. Raises CardError: the inputs contradict
    each other (a spec of another task or snapshot, a planned episode that is neither finished nor
    missing, an episode whose answers are not all its samples', a value that is not strict JSON);
    PluginError: the task's scores are not those that it defines, or no scores.
    """
    return assemble_card(ScoringCard, ScoringFacts, scoring_sources(inputs))
