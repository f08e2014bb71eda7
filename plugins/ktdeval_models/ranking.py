"""Models that hold the best of a ranking by one figure. They compare figures only, so no label can change what they trade."""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval_models.base import KeylessModel, buyable
from ktdeval_models.conversation import Call, Conversation, Row
from ktdeval_models.params import EqualWeightParams, RankParams
from ktdeval_models.portfolio import Intent, Ranking, Sizing, rebalance


class RankModel(KeylessModel):
    """Holds the names that rank best by one figure, in equal weights, with a buffer against needless trading.

    Args:
        figure: the figure, as the tools name it.
        lowest_first: True when the lowest value is the best.
        params: how many names, how long a holding is kept.
    """

    def __init__(self, figure: str, lowest_first: bool, params: RankParams) -> None:
        self.figure = figure
        self.lowest_first = lowest_first
        self.params = params

    def lookups(self, conversation: Conversation) -> Sequence[Call]:
        """The market, the ranking, and the same figure for the holdings (which the ranking leaves out at their upper limit)."""
        held = [row["stock_id"] for row in conversation.rows(conversation.state["positions"])]
        factor = f"-{self.figure}" if self.lowest_first else self.figure
        depth = max(self.params.positions, self.params.keep_rank)
        calls: list[Call] = [("get_market_context", {}), ("screen_candidates", {"factors": [factor], "k": depth})]
        if held:
            calls.append(("compare_candidates", {"stock_ids": held, "dims": [self.figure]}))
        return calls

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Sell what fell out of the ranking, buy the best names not held; hold where nothing is shown to rank."""
        ranking = self._from_tools(conversation) or self._from_table(conversation)
        if ranking is None:
            return []
        band = (0.0, self.params.trim_above)
        return rebalance(conversation, ranking, Sizing.equal(conversation.state, self.params.positions, self.params.invested, band))

    def _from_tools(self, conversation: Conversation) -> Ranking | None:
        rows = conversation.rows(conversation.result("screen_candidates").get("candidates"))
        if not rows:
            return None
        held = conversation.rows(conversation.result("compare_candidates").get("grid"))
        if not held:  # nothing is held, or the look-up failed: what can't be judged is kept
            return Ranking(buyable(rows), None, self.figure)
        place = min(self.params.keep_rank, len(rows)) - 1
        bar = self._score(rows[place])
        kept = frozenset(row["stock_id"] for row in held if row[self.figure] is not None and self._score(row) >= bar)
        return Ranking(buyable(rows), kept, self.figure)

    def _from_table(self, conversation: Conversation) -> Ranking | None:
        candidates = conversation.rows(conversation.state.get("candidates"))
        if not candidates:
            return None
        rows = [
            row for row in (*candidates, *conversation.rows(conversation.state.get("holdings"))) if row[self.figure] is not None
        ]
        rows.sort(key=self._order)
        kept = frozenset(row["stock_id"] for row in rows[: self.params.keep_rank])
        offered = {row["stock_id"] for row in candidates}
        return Ranking(buyable([row for row in rows if row["stock_id"] in offered]), kept, self.figure)

    def _score(self, row: Row) -> float:
        return float(-row[self.figure] if self.lowest_first else row[self.figure])

    def _order(self, row: Row) -> tuple[float, ...]:
        """Best first; equal figures fall to the other figures of the row, never to its label or its place."""
        others = (value for value in row.values() if isinstance(value, float | int) and not isinstance(value, bool))
        return (-self._score(row), *others)


class EqualWeight(RankModel):
    """Holds the most liquid names in equal weights and rebalances them; a name is sold only when it has left the index."""

    def __init__(self, params: EqualWeightParams) -> None:
        super().__init__("ILLIQ", True, RankParams(positions=params.positions, invested=params.invested))
        self.band = params.band

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Fill vacant places, bring weights that left the band back; hold where no figures are shown."""
        ranking = self._from_tools(conversation) or self._from_table(conversation)
        if ranking is None:
            return []
        band = (1.0 - self.band, 1.0 + self.band)
        sizing = Sizing.equal(conversation.state, self.params.positions, self.params.invested, band)
        return rebalance(conversation, Ranking(ranking.buyable, None, "liquidity"), sizing)
