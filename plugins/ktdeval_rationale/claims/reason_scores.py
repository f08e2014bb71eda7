"""Scores for a single reason, judged by what its author was shown. The functions are pure and
accept records of any origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ktdeval_rationale.claims.agreement import ClaimVerdict
from ktdeval_rationale.claims.argued_direction import (
    ArguedOrder,
    DirectionClaim,
    argued_directions,
)
from ktdeval_rationale.claims.comparison_claims import ComparisonClaim, comparison_claims
from ktdeval_rationale.claims.figure_claims import FigureClaim, figure_claims
from ktdeval_rationale.claims.marked_text import marked_sentences
from ktdeval_rationale.claims.shown_facts import ShownFacts

_LONGEST = 20_000  # maximum number of characters of a reason that are read


@dataclass(frozen=True, slots=True)
class ReasonScores:
    """The claims in a reason, each with its verdict."""

    figures: tuple[FigureClaim, ...]
    comparisons: tuple[ComparisonClaim, ...]
    directions: tuple[DirectionClaim, ...]
    named: frozenset[str]  #: labels of assets named in the reason

    def count(self, verdict: ClaimVerdict) -> int:
        """Return the number of figures with a verdict."""
        return sum(claim.verdict is verdict for claim in self.figures)


def judge_reason(
    reason: str,
    shown_texts: Sequence[str],
    state: Any = None,
    orders: Sequence[ArguedOrder] = (),
) -> ReasonScores:
    """Judge the figures, comparisons and the direction of a reason by what was shown.

    `shown_texts`: prompts and tool results that its author had; `state`: the same facts as JSON
    values, if available; `orders`: orders that the reason argues for. With one order, sentences
    that name no asset refer to that order's asset.

    Example: scores = judge_reason("RSI is 28.4", ['{"stock_id":"ABC","rsi":28.37}'], None, [buy])
        scores.figures[0].verdict  # right
    """
    return judge_by_facts(reason, ShownFacts.of(shown_texts, state), orders)


def judge_by_facts(
    reason: str, facts: ShownFacts, orders: Sequence[ArguedOrder] = ()
) -> ReasonScores:
    """Judge a reason as `judge_reason` does, but from facts shared by several reasons of a step."""
    about = orders[0].label if len(orders) == 1 else None
    labels = {*facts.labels, *(order.label for order in orders)}
    sentences = marked_sentences(reason[:_LONGEST], labels, facts.fields)

    figures: list[FigureClaim] = []
    comparisons: list[ComparisonClaim] = []
    named: set[str] = set()
    for sentence in sentences:
        figures += figure_claims(sentence, facts, about)
        comparisons += comparison_claims(sentence, facts, about)
        named.update(str(part.value) for _, _, part in sentence.marks("L"))

    directions = argued_directions(sentences, orders, about)
    return ReasonScores(tuple(figures), tuple(comparisons), tuple(directions), frozenset(named))
