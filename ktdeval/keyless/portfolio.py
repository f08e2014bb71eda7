"""Orders of a ranking: which holdings to sell, which names to buy, and at what weight. Uses figures, never labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ktdeval.keyless.conversation import Conversation, Row

RESERVE = 0.005
SMALLEST_BUY = 0.01
_UNSELLABLE = frozenset({"suspended", "limit_down", "closed", "not_listed"})


class Intent(NamedTuple):
    """Intended order: a stock, a side, a target weight and why."""

    stock_id: str
    side: Literal["BUY", "SELL", "HOLD"]  # HOLD where a task asks for one
    target_weight: float
    confidence: float
    reason: str

    def order(self, conversation: Conversation) -> dict[str, Any]:
        """Return the order as submitted."""
        return {**self._asdict(), "reason": conversation.reason(self.reason)}


class Ranking(NamedTuple):
    """Ranking of the names by a model."""

    buyable: Sequence[Row]  # rows of names that can be bought, best first, with `stock_id`, `close_cny`; `board` where it is shown
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

    Holdings that no longer rank, or have left the index, are sold unless they can't trade; weights outside the band are
    corrected; vacant positions go to the best names not held. Buys share the cash there is.
    """
    state, kept = conversation.state, ranking.kept
    held = [row for row in conversation.rows(state["positions"]) if row["weight"] >= 0]
    held_ids = {row["stock_id"] for row in held}
    sellable = [row for row in held if row["status"] not in _UNSELLABLE]
    sells = [row for row in sellable if not row["member"] or (kept is not None and row["stock_id"] not in kept)]
    sold = {row["stock_id"] for row in sells}
    stays = [row for row in held if row["stock_id"] not in sold]
    trims = [row for row in sellable if row["stock_id"] not in sold and row["weight"] > sizing.trim_above]
    cash = state["account"]["cash_weight"] - RESERVE
    cash += math.fsum(row["weight"] for row in sells) + math.fsum(row["weight"] - sizing.target for row in trims)
    raises = []  # holdings that fell below the band, as far as cash goes
    for row in stays:
        missing = sizing.target - row["weight"]
        if row["weight"] < sizing.add_below and row["member"] and row["status"] == "trading" and missing <= cash:
            cash -= missing
            raises.append(Intent(row["stock_id"], "BUY", sizing.target, 0.5, "back to its equal weight after a fall"))
    fresh = [row for row in ranking.buyable if row["stock_id"] not in held_ids and is_affordable(row, state, sizing.target)]
    return [
        *(Intent(row["stock_id"], "SELL", 0.0, 0.55, f"no longer among the best by {ranking.label}") for row in sells),
        *(Intent(row["stock_id"], "SELL", sizing.target, 0.5, "back to its equal weight after a rise") for row in trims),
        *raises,
        *_buys(fresh[: max(0, sizing.positions - len(stays))], sizing, cash, ranking.label),
    ]


def _buys(fresh: Sequence[Row], sizing: Sizing, cash: float, label: str) -> list[Intent]:
    """Buy names in equal parts of the cash, at most to the target weight; fewer names where the parts would be crumbs."""
    intents = []
    fresh = fresh[: max(0, int(cash / SMALLEST_BUY))]
    for rank, row in enumerate(fresh):
        # Rounded down, so that the last buy is not cut for a hair's breadth.
        weight = int(min(sizing.target, cash / (len(fresh) - rank)) * 10_000) / 10_000
        cash -= weight
        confidence = round(0.6 - 0.1 * rank / len(fresh), 3)
        intents.append(Intent(row["stock_id"], "BUY", weight, confidence, f"among the best by {label}"))
    return intents


def is_affordable(row: Row, state: Mapping[str, Any], weight: float) -> bool:
    """True when the smallest permitted buy is not more than the target weight."""
    limits = state["constraints"]
    if "lot_shares" not in limits:  # a market of fractions
        return row["close"] is not None
    is_star = row.get("board") == "star"  # where the board is not shown, the task's lot applies
    price, shares = row["close_cny"], limits["star_min_shares"] if is_star else limits["lot_shares"]
    return price is not None and bool(price * shares <= weight * state["account"]["nav_cny"])


def sell_short(conversation: Conversation, worst: Sequence[Row], kept: frozenset[str], weight: float) -> list[Intent]:
    """Return the orders that hold the worst names of a ranking short, at most `weight` each, and buy back those not in `kept`."""
    held = {row["stock_id"]: row for row in conversation.rows(conversation.state["positions"])}
    shorts = [row for row in held.values() if row["weight"] < 0]
    gone = [row for row in shorts if row["stock_id"] not in kept and row["status"] not in _UNSELLABLE]
    back = [Intent(row["stock_id"], "BUY", 0.0, 0.5, "no longer among the worst") for row in gone]
    vacant = len(worst) - len(shorts) + len(gone)
    fresh = [row["stock_id"] for row in worst if row["stock_id"] not in held][: max(0, vacant)]
    return [*back, *(Intent(stock, "SELL", -weight, 0.55, "among the worst by the ranking") for stock in fresh)]
