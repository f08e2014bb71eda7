"""Trading by predictions: the best names by a trained model's scores, with a threshold that a change of name must pay for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ktdeval.keyless.conversation import Call, Conversation, Row
from ktdeval.keyless.model import KeylessModel, buyable, is_offered, table_columns
from ktdeval.keyless.params import TopParams
from ktdeval.keyless.portfolio import Intent, Ranking, Sizing, rebalance

MOST_COMPARED = 50  # names that one comparison takes
LABEL = "predicted score"


class TopModel(KeylessModel):
    """Holds the names with the highest predictions in equal weights. Subclasses are `ktdeval.harness.Predictor`s."""

    def __init__(self, params: TopParams) -> None:
        self.top = params

    needs = "a table of candidates, or the tool compare_candidates"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Whether names that it predicts can be shown."""
        return bool(table_columns(conversations, "candidates")) or is_offered(conversations, "compare_candidates")

    def lookups(self, conversation: Conversation) -> Sequence[Call]:
        """Return the market, and the status and close of the names predicted best; they are known by their predictions alone."""
        scores = conversation.request.predictions or {}
        best = sorted(scores, key=lambda stock: -scores[stock])[: min(2 * self.top.positions, MOST_COMPARED)]
        calls: list[Call] = [("get_market_context", {})]
        return [*calls, ("compare_candidates", {"stock_ids": best, "dims": ["RV_60"]})] if best else calls

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Change names beyond the threshold, fill vacant positions with the best; hold where nothing is predicted or shown."""
        scores = conversation.request.predictions or {}
        offered = conversation.rows(conversation.result("compare_candidates").get("grid"))
        offered = offered or conversation.rows(conversation.state.get("candidates"))
        rows = sorted((row for row in offered if row["stock_id"] in scores), key=lambda row: -scores[row["stock_id"]])
        if not rows:
            return []
        sizing = Sizing.equal(conversation.state, self.top.positions, self.top.invested, (0.0, self.top.trim_above))
        held_ids, best = [row["stock_id"] for row in conversation.rows(conversation.state["positions"])], buyable(rows)
        held = [stock for stock in held_ids if stock in scores]  # one without a prediction today can't be judged, and is kept
        gone = replaced(scores, held, best, sizing.positions, self.top.threshold)
        return rebalance(conversation, Ranking(best, frozenset(held_ids) - gone, LABEL), sizing)


def replaced(
    scores: Mapping[str, float], held: Sequence[str], best: Sequence[Row], positions: int, threshold: float
) -> frozenset[str]:
    """Return the holdings that give way: the worst one to the best name not held, the next worst to the next best, for as long as
    the name is one of the `positions` best and beats the holding by more than `threshold` standard deviations of all `scores`.

    Under Grinold's forecast (information coefficient × volatility × score) a round trip of 20 bps is paid for by 0.5 standard
    deviations where IC is 0.05, the day's volatility 2 %, and a forecast lasts four days.
    """
    mean = math.fsum(scores.values()) / max(len(scores), 1)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores.values()) / max(len(scores), 1))
    surplus = len(held) - positions  # surplus holdings are sold without a replacement
    worst = sorted(held, key=lambda stock: scores[stock])
    gone = worst[: max(0, surplus)]
    fresh = [row["stock_id"] for row in best[:positions] if row["stock_id"] not in set(held)]
    for stock, rival in zip(worst[len(gone) :], fresh, strict=False):
        if scores[rival] - scores[stock] <= threshold * deviation:
            break
        gone.append(stock)
    return frozenset(gone)
