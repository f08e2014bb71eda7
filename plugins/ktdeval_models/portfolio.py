"""From a ranking to orders: which holdings to sell, which names to buy, and at what weight. Looks at figures, never at labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ktdeval_models.conversation import Conversation, Row

RESERVE = 0.005
SMALLEST_BUY = 0.01
_UNSELLABLE = frozenset({"suspended", "limit_down", "not_listed"})


@dataclass(frozen=True, slots=True)
class Intent:
    """An order before it is written: a stock, a side, a target weight and why."""

    stock_id: str
    side: Literal["BUY", "SELL"]
    target_weight: float
    confidence: float
    reason: str

    def order(self, conversation: Conversation) -> dict[str, Any]:
        """Return the order as submitted."""
        return {
            "stock_id": self.stock_id,
            "side": self.side,
            "target_weight": self.target_weight,
            "confidence": self.confidence,
            "reason": conversation.reason(self.reason),
        }


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranking of the names by a model."""

    buyable: Sequence[Row]  # rows of names that can be bought, best first, with `stock_id`, `close_cny` and `board`
    kept: frozenset[str] | None  # holdings that still rank high enough; None keeps every holding that is a member
    label: str  # what the ranking is by, for reasons


@dataclass(frozen=True, slots=True)
class Sizing:
    """Number and weight of holdings, and when a weight is corrected."""

    positions: int  # names to hold
    target: float  # weight of each
    trim_above: float  # weight above which a holding is cut back to `target`
    add_below: float = 0.0  # weight below which a holding is raised to `target`; 0 never raises

    @classmethod
    def equal(cls, state: Mapping[str, Any], positions: int, invested: float, band: tuple[float, float]) -> Sizing:
        """Equal weights within the task's limits; `band` holds the multiples of the target below and above which to correct."""
        limits = state["constraints"]
        count = min(positions, int(limits["max_positions"]))
        # Short of the weight limit, since it is judged at the next open and not at the close seen here.
        target = round(min(invested / count, 0.95 * limits["max_weight"]), 4)
        return cls(count, target, band[1] * target, band[0] * target)


def rebalance(conversation: Conversation, ranking: Ranking, sizing: Sizing) -> list[Intent]:
    """Return the changes that bring the portfolio to the ranking.

    Holdings that no longer rank, or have left the index, are sold unless they can't trade; weights outside the band are corrected;
    vacant places go to the best names not held. Buys share the cash there is.
    """
    state = conversation.state
    held = conversation.rows(state["positions"])
    sells = [row for row in held if _is_to_sell(row, ranking)]
    sold = {row["stock_id"] for row in sells}
    stays = [row for row in held if row["stock_id"] not in sold]
    trims = [row for row in stays if row["weight"] > sizing.trim_above and row["status"] not in _UNSELLABLE]
    cash = state["account"]["cash_weight"] - RESERVE
    cash += sum(row["weight"] for row in sells) + sum(row["weight"] - sizing.target for row in trims)
    raises, cash = _raises(stays, sizing, cash)
    known = {row["stock_id"] for row in held}
    fresh = [row for row in ranking.buyable if row["stock_id"] not in known and _is_affordable(row, state, sizing.target)]
    return [
        *(Intent(row["stock_id"], "SELL", 0.0, 0.55, f"no longer among the best by {ranking.label}") for row in sells),
        *(Intent(row["stock_id"], "SELL", sizing.target, 0.5, "back to its equal weight after a rise") for row in trims),
        *raises,
        *_buys(fresh[: max(0, sizing.positions - len(stays))], sizing, cash, ranking.label),
    ]


def _is_to_sell(row: Row, ranking: Ranking) -> bool:
    if row["status"] in _UNSELLABLE:
        return False
    return not row["member"] or (ranking.kept is not None and row["stock_id"] not in ranking.kept)


def _raises(stays: Sequence[Row], sizing: Sizing, cash: float) -> tuple[list[Intent], float]:
    """Raise holdings that fell below the band as far as cash goes; returns the cash left."""
    intents = []
    for row in stays:
        missing = sizing.target - row["weight"]
        if row["weight"] < sizing.add_below and row["member"] and row["status"] == "trading" and missing <= cash:
            cash -= missing
            intents.append(Intent(row["stock_id"], "BUY", sizing.target, 0.5, "back to its equal weight after a fall"))
    return intents, cash


def _buys(fresh: Sequence[Row], sizing: Sizing, cash: float, label: str) -> list[Intent]:
    """Buy names in equal parts of the cash, at most to the target weight; fewer names where the parts would be crumbs."""
    intents = []
    fresh = fresh[: max(0, int(cash / SMALLEST_BUY))]
    for place, row in enumerate(fresh):
        # Rounded down, so that the last buy is not cut for a hair's breadth.
        weight = int(min(sizing.target, cash / (len(fresh) - place)) * 10_000) / 10_000
        cash -= weight
        confidence = round(0.6 - 0.1 * place / len(fresh), 3)
        intents.append(Intent(row["stock_id"], "BUY", weight, confidence, f"among the best by {label}"))
    return intents


def _is_affordable(row: Row, state: Mapping[str, Any], weight: float) -> bool:
    """True when the smallest permitted buy is not more than the target weight."""
    limits = state["constraints"]
    shares = limits["star_min_shares"] if row["board"] == "star" else limits["lot_shares"]
    price = row["close_cny"]
    return price is not None and bool(price * shares <= weight * state["account"]["nav_cny"])
