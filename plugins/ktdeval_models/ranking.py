"""Models that hold the best of a ranking by figures. They compare figures only, so no label can change what they trade."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ktdeval.attribution import FACTORS
from ktdeval.errors import ConfigError
from ktdeval.fields import near_matches
from ktdeval_models.base import KeylessModel, buyable
from ktdeval_models.conversation import Call, Conversation, Row
from ktdeval_models.params import EqualWeightParams, LinearFactorParams, RankParams
from ktdeval_models.portfolio import Intent, Ranking, Sizing, rebalance

MOST_FACTORS = 6
"""Factors that one screen takes."""


class RankModel(KeylessModel):
    """Holds the names that rank best by one figure, in equal weights, with a buffer against needless trading. `figure`: the figure,
    as the tools name it. `lowest_first`: True when the lowest value is the best. `params`: how many names, how long a holding is
    kept.
    """

    def __init__(self, figure: str, lowest_first: bool, params: RankParams) -> None:
        self.label = figure
        self.weights: Mapping[str, float] = {figure: -1.0 if lowest_first else 1.0}
        self.params = params

    def lookups(self, conversation: Conversation) -> Sequence[Call]:
        """Return the market, the ranking, and the same figures for the holdings, which the ranking may leave out at their limit."""
        held = [row["stock_id"] for row in conversation.rows(conversation.state["positions"])]
        signed = [figure if weight > 0 else f"-{figure}" for figure, weight in self.weights.items()]
        depth = max(self.params.positions, self.params.keep_rank)
        calls: list[Call] = [("get_market_context", {}), ("screen_candidates", {"factors": signed, "k": depth})]
        if held:
            calls.append(("compare_candidates", {"stock_ids": held, "dims": list(self.weights)}))
        return calls

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Sell what fell out of the ranking, buy the best names not held; hold where nothing is shown to rank."""
        ranking = self._from_tools(conversation) or self._from_table(conversation)
        if ranking is None:
            return []
        band = (0.0, self.params.trim_above)
        return rebalance(conversation, ranking, Sizing.equal(conversation.state, self.params.positions, self.params.invested, band))

    def _from_tools(self, conversation: Conversation) -> Ranking | None:
        rows = self._ordered(conversation.rows(conversation.result("screen_candidates").get("candidates")))
        if not rows:
            return None
        held = conversation.rows(conversation.result("compare_candidates").get("grid"))
        if not held:  # nothing is held, or the look-up failed: what can't be judged is kept
            return Ranking(buyable(rows), None, self.label)
        place = min(self.params.keep_rank, len(rows)) - 1
        bar = self._score(rows[place])
        kept = frozenset(row["stock_id"] for row in held if self._is_scored(row) and self._score(row) >= bar)
        return Ranking(buyable(rows), kept, self.label)

    def _from_table(self, conversation: Conversation) -> Ranking | None:
        candidates = conversation.rows(conversation.state.get("candidates"))
        if not candidates:
            return None
        holdings = conversation.rows(conversation.state.get("holdings"))
        rows = sorted((row for row in (*candidates, *holdings) if self._is_scored(row)), key=self._order)
        kept = frozenset(row["stock_id"] for row in rows[: self.params.keep_rank])
        offered = {row["stock_id"] for row in candidates}
        return Ranking(buyable([row for row in rows if row["stock_id"] in offered]), kept, self.label)

    def _ordered(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Rows of the screen, best first: by one figure, that is the order in which they come."""
        return rows

    def _is_scored(self, row: Row) -> bool:
        return all(row.get(figure) is not None for figure in self.weights)

    def _score(self, row: Row) -> float:
        return float(sum(weight * row[figure] for figure, weight in self.weights.items()))

    def _order(self, row: Row) -> tuple[float, ...]:
        """Best first; equal figures fall to the other figures of the row, never to its label or its place."""
        others = (value for value in row.values() if isinstance(value, float | int) and not isinstance(value, bool))
        return (-self._score(row), *others)


class LinearFactor(RankModel):
    """Holds the names with the highest weighted sum of style factors: a trained linear model, applied.

    The screen offers the names with the best mean rank over the factors, each in the direction of its coefficient; among these the
    weighted sum decides, and it says which holdings are kept. `params`: coefficients of the factors in their natural units, and
    those of the other ranking models. Raises ConfigError: the coefficients are not of the form `NAME:NUMBER NAME:NUMBER`, or name
    no factor.
    """

    def __init__(self, params: LinearFactorParams) -> None:
        super().__init__("a weighted sum of factors", False, params)
        self.weights = parse_coefficients(params.coefficients)

    def _ordered(self, rows: Sequence[Row]) -> Sequence[Row]:
        return sorted(rows, key=self._order)


def parse_coefficients(text: str) -> Mapping[str, float]:
    """`MOM_12_1:0.02 RV_60:-0.1` as factor -> coefficient; a coefficient of 0 leaves its factor out. Raises ConfigError: it has
    another form, names no factor, or names one twice.
    """
    known = [factor.name for factor in FACTORS]
    weights: dict[str, float] = {}
    for part in text.split():
        name, _, number = part.partition(":")
        if name not in known:
            raise ConfigError(f"coefficients: no factor {name!r}{near_matches(name, known) or '; known are ' + ', '.join(known)}")
        try:
            weight = float(number)
        except ValueError as error:
            raise ConfigError(f"coefficients: {part!r} is not of the form NAME:NUMBER, such as MOM_12_1:0.02") from error
        if name in weights or not math.isfinite(weight):
            raise ConfigError(f"coefficients: {name} stands there twice, or its coefficient is not finite")
        weights[name] = weight
    used = {name: weight for name, weight in weights.items() if weight}
    if not 0 < len(used) <= MOST_FACTORS:
        raise ConfigError(
            f"coefficients: at least one and at most {MOST_FACTORS} factors need a coefficient that is not 0, such as MOM_12_1:0.02"
        )
    return used


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
