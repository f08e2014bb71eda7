"""Trade on predictions by holding the names to which a trained model gives the best scores. A name
is replaced only if the improvement exceeds a threshold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain

from ktdeval.keyless.mask_invariant_order import Row
from ktdeval.keyless.params import TopParams
from ktdeval.keyless.ranking_orders import Intent, Ranking, Sizing, rebalance
from ktdeval.keyless.request_and_reply import Call, Conversation
from ktdeval.keyless.rule_based_model import KeylessModel, buyable, is_offered, table_columns
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.tie_breaking import first_of, group_by_place, places, whole_groups

MAX_COMPARED = 50  # maximum number of names per comparison
LABEL = "predicted score"


class TopModel(KeylessModel):
    """Hold the names with the highest predictions at equal weights. Subclasses are
    `ktdeval.harness.Predictor`s.
    """

    def __init__(self, params: TopParams) -> None:
        self.top = params

    needs = "a table of candidates, or the tool compare_candidates"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Return whether the conversations can show the names that the model predicts."""
        return bool(table_columns(conversations, "candidates")) or is_offered(
            conversations, "compare_candidates"
        )

    def lookups(self, conversation: Conversation) -> Sequence[Call]:
        """Return calls for the market, and for the status and close of the names with the best
        predictions, since the model knows these names only from its predictions.
        """
        groups = _groups_by_place(_places(conversation))
        most = min(2 * self.top.positions, MAX_COMPARED)
        best: list[JsonValue] = [*first_of(groups, most)]

        calls: list[Call] = [("get_market_context", {})]
        if best:
            calls.append(("compare_candidates", {"stock_ids": best, "dims": ["RV_60"]}))

        return calls

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Replace names where the improvement exceeds the threshold, and fill vacant positions with
        the best names. Hold if nothing is predicted or shown.
        """
        scores = conversation.request.predictions or {}
        offered = conversation.result_rows("compare_candidates", "grid")
        if not offered:
            offered = conversation.rows(conversation.state.get("candidates"))

        placed = _places(conversation)
        rows = [row for row in offered if row["stock_id"] in scores]
        rows.sort(key=lambda row: placed[row["stock_id"]])
        if not rows:
            return []

        band = (0.0, self.top.trim_above)
        sizing = Sizing.equal(conversation, self.top.positions, self.top.invested, band)
        best = buyable(rows)
        held = list(conversation.observed.positions)
        # A holding without a prediction today can't be judged and is kept.
        judged = [stock for stock in held if stock in scores]
        gone = choose_replaced(scores, judged, best, sizing.positions, self.top.threshold, placed)
        ranking = Ranking(best, frozenset(held) - gone, LABEL, placed)

        return rebalance(conversation, ranking, sizing)


def _groups_by_place(placed: Mapping[str, int]) -> list[list[str]]:
    return group_by_place([*placed], [*placed.values()])


def _places(conversation: Conversation) -> Mapping[str, int]:
    """Return the rank of each predicted name: as given in the request, otherwise by score."""
    return conversation.request.places or _places_by(conversation.request.predictions or {})


def _places_by(scores: Mapping[str, float]) -> Mapping[str, int]:
    if not scores:
        return {}
    placed = places([[*scores.values()]])
    return dict(zip(scores, placed, strict=True))


def choose_replaced(
    scores: Mapping[str, float],
    held: Sequence[str],
    best: Sequence[Row],
    positions: int,
    threshold: float,
    placed: Mapping[str, int] | None = None,
) -> frozenset[str]:
    """Return the holdings to replace. The worst holding is compared with the best name not held,
    the next worst with the next best, and so on. A holding is replaced if the new name is among the
    `positions` best and exceeds the holding by more than `threshold` standard deviations of all
    `scores`.

    `placed` gives the rank of each name, best first (None: by score). Names that share a rank are
    replaced together or not at all; the same applies to their replacements.

    In Grinold's forecast (information coefficient × volatility × score), 0.5 standard deviations
    cover a round trip of 20 bps if the IC is 0.05, daily volatility is 2 %, and a forecast lasts
    four days.
    """
    number = max(len(scores), 1)
    mean = math.fsum(scores.values()) / number
    squares = [(score - mean) ** 2 for score in scores.values()]
    deviation = math.sqrt(math.fsum(squares) / number)
    if placed is None:
        placed = _places_by(scores)

    worst = group_by_place(held, [-placed[stock] for stock in held])
    surplus = max(0, len(held) - positions)  # surplus holdings are sold without a replacement
    sold = [*whole_groups(worst, surplus)]
    gone = list(chain.from_iterable(sold))
    ranked = [row["stock_id"] for row in best]
    leaders = first_of(group_by_place(ranked, [placed[stock] for stock in ranked]), positions)
    fresh = [stock for stock in leaders if stock not in held]

    for group in worst[len(sold) :]:
        rivals = fresh[: len(group)]
        fresh = fresh[len(group) :]
        least = min((scores[rival] for rival in rivals), default=-math.inf)
        if len(rivals) < len(group) or least - scores[group[0]] <= threshold * deviation:
            break

        gone.extend(group)

    return frozenset(gone)
