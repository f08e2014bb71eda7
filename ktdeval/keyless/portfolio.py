"""Orders of a ranking: which holdings to sell, which names to buy, and at what weight. Uses figures, never labels.

Names that no figure tells apart (`ktdeval.ties`) are treated alike: all are bought or none, at equal weights that share the
positions which are left. As the next open may leave too little cash for the last orders, such names come first, and only if what
there is before any sale suffices for all of them; else they wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

from ktdeval.keyless.conversation import Conversation
from ktdeval.keyless.ordering import Row
from ktdeval.ties import first_of

Item = TypeVar("Item")

RESERVE = 0.005
SMALLEST_BUY = 0.01
LARGEST_RISE = 0.2  # of holdings until the next open, for which the cash of equal names must suffice
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
    places: Mapping[str, int] = MappingProxyType({})  # stock -> place, shared by names that no figure tells apart; others differ

    @property
    def groups(self) -> list[list[Row]]:
        """Rows that can be bought, best first; names that no figure tells apart are one group."""
        keys = (self.places.get(row["stock_id"], row["stock_id"]) for row in self.buyable)
        pairs = groupby(zip(keys, self.buyable, strict=True), key=itemgetter(0))
        return [[row for _, row in group] for _, group in pairs]


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


class Certain:
    """Cash and positions that are free before any sale: what equal names may use, so that no order comes too late among them.
    Without bounds where a prompt shows none.
    """

    def __init__(self, conversation: Conversation) -> None:
        state = conversation.state
        held = conversation.rows(state["positions"])
        invested = math.fsum(abs(row["weight"]) for row in held)
        cash = state["account"].get("cash_weight", math.inf)
        self._cash = (cash - RESERVE) / (1.0 + LARGEST_RISE * invested)
        self._names = state["constraints"].get("max_positions", math.inf) - len(held)

    def takes(self, weight: float, names: int = 0) -> bool:
        """Set aside cash of a weight and a number of positions; False, and nothing is, where there is less."""
        if weight > self._cash or names > self._names:
            return False
        self._cash -= weight
        self._names -= names
        return True

    def share(self, weight: float, names: int) -> float:
        """Set aside equal weights of at most `weight` for so many names and return this weight; 0 if it would be less than half."""
        part = int(min(weight, self._cash / names) * 10_000) / 10_000
        return part if part >= weight / 2 and self.takes(part * names, names) else 0.0


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
    certain = Certain(conversation)
    raised, cash = _raised(stays, sizing, cash, certain)
    raises = [
        [Intent(row["stock_id"], "BUY", sizing.target, 0.5, "back to its equal weight after a fall") for row in group]
        for group in raised
    ]
    fresh = [
        [row for row in group if row["stock_id"] not in held_ids and is_affordable(row, state, sizing.target)]
        for group in ranking.groups
    ]
    names = int(state["constraints"]["max_positions"]) - len(stays)
    room = Room(state, max(0, sizing.positions - len(stays)), names, cash, certain)
    buys = _buys([group for group in fresh if group], sizing, room, ranking.label)
    return [
        *(Intent(row["stock_id"], "SELL", 0.0, 0.55, f"no longer among the best by {ranking.label}") for row in sells),
        *(Intent(row["stock_id"], "SELL", sizing.target, 0.5, "back to its equal weight after a rise") for row in trims),
        *equal_first([*raises, *buys]),
    ]


class Room(NamedTuple):
    """What there is to buy with."""

    state: Mapping[str, Any]  # as shown
    vacant: int  # positions of the portfolio's size
    names: int  # names that the task still allows
    cash: float  # share of NAV, proceeds of the sells included
    certain: Certain


def equal_first(groups: Iterable[Sequence[Item]]) -> list[Item]:
    """Return what is in groups, those of equal names before all others: what falls short falls short for the others."""
    ordered = sorted(groups, key=lambda group: len(group) == 1)
    return list(chain.from_iterable(ordered))


def _raised(stays: Sequence[Row], sizing: Sizing, cash: float, certain: Certain) -> tuple[list[list[Row]], float]:
    """Return the holdings that fell below the band, as far as cash goes, equal ones, by worth, all or none; and the cash left."""
    raised = []
    low = [row for row in stays if row["weight"] < sizing.add_below and row["member"] and row["status"] == "trading"]
    for _, rows in groupby(low, key=worth):
        group = list(rows)
        missing = math.fsum(sizing.target - row["weight"] for row in group)
        if missing <= cash and (len(group) == 1 or certain.takes(missing)):
            cash -= missing
            raised.append(group)
    return raised, cash


def worth(row: Row) -> tuple[float, float]:
    """Return weight and value of a holding: the figures that positions are listed by."""
    return row["weight"], row.get("value_cny", row.get("value", 0.0))


def _buys(groups: Sequence[Sequence[Row]], sizing: Sizing, room: Room, label: str) -> list[list[Intent]]:
    """Buy names in equal parts of the cash, at most to the target weight; fewer names where the parts would be crumbs. A group of
    equal names for which fewer positions are left shares these.
    """
    slots = min(room.vacant, max(0, int(room.cash / SMALLEST_BUY)))
    count = min(slots, sum(map(len, groups)))
    cash, names, rank, bought = room.cash, room.names, 0, []
    for group in groups:
        taken = min(len(group), count - rank)
        if not taken:
            break
        # Rounded down, so that the last buy is not cut for a hair's breadth.
        part = min(sizing.target, cash / (count - rank)) * (taken / len(group))
        weight = int(part * 10_000) / 10_000
        confidence = round(0.6 - 0.1 * rank / count, 3)
        rank += taken
        if len(group) > 1 and (len(group) > names or not _fits(group, weight, room)):
            continue
        names -= len(group)
        for _ in group:
            cash -= weight
        bought.append([Intent(row["stock_id"], "BUY", weight, confidence, f"among the best by {label}") for row in group])
    return bought


def _fits(group: Sequence[Row], weight: float, room: Room) -> bool:
    """True where all of a group can be bought at the weight from what is certain."""
    affordable = all(is_affordable(row, room.state, weight) for row in group)
    return affordable and room.certain.takes(weight * len(group), len(group))


def is_affordable(row: Row, state: Mapping[str, Any], weight: float) -> bool:
    """True when the smallest permitted buy is not more than the target weight."""
    limits = state["constraints"]
    if "lot_shares" not in limits:  # a market of fractions
        return row["close"] is not None
    is_star = row.get("board") == "star"  # where the board is not shown, the task's lot applies
    price, shares = row["close_cny"], limits["star_min_shares"] if is_star else limits["lot_shares"]
    return price is not None and bool(price * shares <= weight * state["account"]["nav_cny"])


def sell_short(conversation: Conversation, worst: Sequence[Sequence[Row]], kept: frozenset[str], weight: float) -> list[Intent]:
    """Return the orders that hold the worst names of a ranking short, at most `weight` each, and buy back those not in `kept`.
    `worst`: groups of names that no figure tells apart, the worst first, which are sold short whole or not at all.
    """
    held = {row["stock_id"]: row for row in conversation.rows(conversation.state["positions"])}
    shorts = [row for row in held.values() if row["weight"] < 0]
    gone = [row for row in shorts if row["stock_id"] not in kept and row["status"] not in _UNSELLABLE]
    back = [Intent(row["stock_id"], "BUY", 0.0, 0.5, "no longer among the worst") for row in gone]
    vacant = sum(map(len, worst)) - len(shorts) + len(gone)
    fresh = [[row["stock_id"] for row in group if row["stock_id"] not in held] for group in worst]
    sold = first_of(filter(None, fresh), max(0, vacant))
    return [*back, *(Intent(stock, "SELL", -weight, 0.55, "among the worst by the ranking") for stock in sold)]
