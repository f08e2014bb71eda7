"""Orders from a ranking: which holdings to sell, which names to buy, and at what weight. Only
figures are used, never labels.

Names that no figure distinguishes (`ktdeval.values.tie_breaking`) are treated alike: either all are
bought or none, at equal weights that share the remaining positions. At the next open, there may be
too little cash for the last orders. Such names therefore come first, and are bought only if the
cash available before any sale is enough for all of them; otherwise they wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any, Literal, TypeVar

from ktdeval.keyless.mask_invariant_order import Row
from ktdeval.keyless.request_and_reply import Conversation
from ktdeval.values.tie_breaking import first_of

Item = TypeVar("Item")

RESERVE = 0.005
SMALLEST_BUY = 0.01
# cash for a group of equal names must suffice even if the holdings rise by this fraction before the
# open
LARGEST_RISE = 0.2
_UNSELLABLE = frozenset({"suspended", "limit_down", "closed", "not_listed"})


@dataclass(frozen=True, slots=True)
class Intent:
    """An intended order: a stock, a side, a target weight and the reason."""

    stock_id: str
    side: Literal["BUY", "SELL", "HOLD"]  # HOLD only if a task asks for it
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
    """A model's ranking of the names."""

    # rows of buyable names, best first, with `stock_id` and `close_cny`, and `board` if shown
    buyable: Sequence[Row]
    # holdings that still rank high enough; None keeps every holding that is a member of the index
    kept: frozenset[str] | None
    label: str  # ranking criterion, as quoted in reasons
    # stock -> rank; names that no figure distinguishes share a rank
    places: Mapping[str, int] = field(default_factory=dict)

    @property
    def groups(self) -> list[list[Row]]:
        """Buyable rows, best first. Names that no figure distinguishes form one group."""
        groups: list[list[Row]] = []
        for _, rows in groupby(self.buyable, key=self._place):
            groups.append(list(rows))

        return groups

    def _place(self, row: Row) -> int | str:
        """Return a name's rank. A name without a rank differs from all others."""
        stock: str = row["stock_id"]
        return self.places.get(stock, stock)


@dataclass(frozen=True, slots=True)
class Sizing:
    """Number and weight of holdings, and the band outside which weights are corrected."""

    positions: int  # target number of holdings
    target: float  # weight of each name
    trim_above: float  # weight above which a holding is reduced to `target`
    add_below: float = 0.0  # weight below which a holding is raised to `target`; 0 never raises

    @classmethod
    def equal(
        cls, conversation: Conversation, positions: int, invested: float, band: tuple[float, float]
    ) -> Sizing:
        """Return equal weights, within the task's limits, for `positions` names or, if fewer, for
        as many as can be held. `band` gives the multiples of the target below and above which
        weights are corrected.
        """
        limits = conversation.state["constraints"]
        count = min(positions, int(limits["max_positions"]))
        names = max(1, min(count, holdable(conversation)))
        target = round(min(invested / names, largest_weight(conversation)), 4)

        return cls(count, target, band[1] * target, band[0] * target)


def holdable(conversation: Conversation) -> int:
    """Return how many names can be held: the members of the universe, as far as they are shown.

    A name is excluded if it is not listed yet, or if its smallest buy exceeds the task's maximum
    weight. Names that don't trade today are included, since they can be held.
    """
    state = conversation.state
    if "universe" in state:
        return len(state["universe"])

    breadth = conversation.result("get_market_context").get("breadth") or {}
    if "members" in breadth:
        return int(breadth["members"])

    held = conversation.rows(state.get("positions"))
    members = {row["stock_id"] for row in held if row.get("member", True)}
    outside = {row["stock_id"] for row in held} - members
    screened = conversation.result("screen_candidates")
    shown = conversation.rows(state.get("candidates"))
    largest = largest_weight(conversation)
    for row in (*shown, *conversation.result_rows("screen_candidates", "candidates")):
        if row["stock_id"] not in outside and _can_be_held(row, state, largest):
            members.add(row["stock_id"])

    return max(len(members), int(screened.get("ranked_of", 0)))


def _can_be_held(row: Row, state: Mapping[str, Any], largest: float) -> bool:
    """Return whether a name can be held at some weight, today or on a later trading day."""
    if row["status"] == "not_listed":
        return False
    close = row.get("close", row.get("close_cny"))
    return close is None or is_affordable(row, state, largest)


def largest_weight(conversation: Conversation) -> float:
    """Return the maximum weight to order. It is below the task's limit because the limit is checked
    at the next open, not at the close seen here.
    """
    return 0.95 * float(conversation.state["constraints"]["max_weight"])


class Certain:
    """Cash and positions that are available before any sale. Equal names may use only these, so
    that no name fails for lack of cash because of its place in the order. Unlimited if the prompt
    shows no cash or positions.
    """

    def __init__(self, conversation: Conversation) -> None:
        state = conversation.observed
        weights = [abs(held.weight or 0.0) for held in state.positions.values()]
        invested = math.fsum(weights)

        cash = state.account.cash_weight
        if cash is None:
            cash = math.inf
        most = state.limits.max_positions
        if most is None:
            max_names = math.inf
        else:
            max_names = most

        self._cash = (cash - RESERVE) / (1.0 + LARGEST_RISE * invested)
        self._names = max_names - len(weights)

    def takes(self, weight: float, names: int = 0) -> bool:
        """Reserve cash for a weight, and a number of positions. If there is not enough, reserve
        nothing and return False.
        """
        if weight > self._cash or names > self._names:
            return False
        self._cash -= weight
        self._names -= names
        return True

    def share(self, weight: float, names: int) -> float:
        """Reserve equal weights of at most `weight` for `names` names, and return the weight of
        each. Returns 0 if each weight would be less than half of `weight`.
        """
        part = int(min(weight, self._cash / names) * 10_000) / 10_000
        if part < weight / 2:
            return 0.0
        return part if self.takes(part * names, names) else 0.0


def rebalance(conversation: Conversation, ranking: Ranking, sizing: Sizing) -> list[Intent]:
    """Return the orders that align the portfolio with the ranking.

    Holdings that no longer rank, or have left the index, are sold unless they can't trade. Weights
    outside the band are corrected. Vacant positions go to the best names not held. Buys share the
    available cash.
    """
    state = conversation.state
    held = [row for row in conversation.holdings if row["weight"] >= 0]
    sells = [row for row in held if _is_sellable(row) and _is_gone(row, ranking.kept)]
    sold = {row["stock_id"] for row in sells}
    stays = [row for row in held if row["stock_id"] not in sold]
    trims = [row for row in stays if _is_sellable(row) and row["weight"] > sizing.trim_above]

    cash = state["account"]["cash_weight"] - RESERVE
    cash += math.fsum(row["weight"] for row in sells) + math.fsum(
        row["weight"] - sizing.target for row in trims
    )
    certain = Certain(conversation)
    raised, cash = _raise_holdings(stays, sizing, cash, certain)

    vacant = max(0, sizing.positions - len(stays))
    names = int(state["constraints"]["max_positions"]) - len(stays)
    room = BuyingRoom(state, vacant, names, cash, certain)
    held_ids = {row["stock_id"] for row in held}
    fresh = _fresh(ranking, held_ids, state, sizing.target)
    buys = _buys(fresh, sizing, room, ranking.label)
    raises = [_raises(group, sizing.target) for group in raised]

    sell_reason = f"no longer among the best by {ranking.label}"
    trim_reason = "back to its equal weight after a rise"
    return [
        *(Intent(row["stock_id"], "SELL", 0.0, 0.55, sell_reason) for row in sells),
        *(Intent(row["stock_id"], "SELL", sizing.target, 0.5, trim_reason) for row in trims),
        *equal_first([*raises, *buys]),
    ]


def _is_sellable(row: Row) -> bool:
    return row["status"] not in _UNSELLABLE


def _is_gone(row: Row, kept: frozenset[str] | None) -> bool:
    """Return whether a holding has left the index or no longer ranks. `kept`: as in `Ranking`."""
    if not row["member"]:
        return True
    return kept is not None and row["stock_id"] not in kept


def _fresh(
    ranking: Ranking, held: Set[str], state: Mapping[str, Any], weight: float
) -> list[list[Row]]:
    """Return the groups of names not held that can be bought at a weight, best first."""
    groups: list[list[Row]] = []
    for group in ranking.groups:
        rows = []
        for row in group:
            if row["stock_id"] not in held and is_affordable(row, state, weight):
                rows.append(row)

        if rows:
            groups.append(rows)

    return groups


def _raises(group: Sequence[Row], weight: float) -> list[Intent]:
    reason = "back to its equal weight after a fall"
    return [Intent(row["stock_id"], "BUY", weight, 0.5, reason) for row in group]


@dataclass(frozen=True, slots=True)
class BuyingRoom:
    """Cash and positions available for buying."""

    state: Mapping[str, Any]  # the state shown
    vacant: int  # vacant positions in the portfolio
    names: int  # number of further names that the task allows
    cash: float  # fraction of NAV, including proceeds of the sells
    certain: Certain


def equal_first(groups: Iterable[Sequence[Item]]) -> list[Item]:
    """Return the items of groups. Groups of several equal names come first, so that a shortage of
    cash affects the other names.
    """
    ordered = sorted(groups, key=lambda group: len(group) == 1)
    return list(chain.from_iterable(ordered))


def _raise_holdings(
    stays: Sequence[Row], sizing: Sizing, cash: float, certain: Certain
) -> tuple[list[list[Row]], float]:
    """Return the holdings to raise from below the band, as far as cash allows, and the remaining
    cash. Holdings of equal worth are raised together or not at all.
    """
    low = []
    for row in stays:
        if row["weight"] < sizing.add_below and row["member"] and row["status"] == "trading":
            low.append(row)

    raised = []
    for _, rows in groupby(low, key=worth):
        group = list(rows)
        missing = math.fsum(sizing.target - row["weight"] for row in group)
        if missing <= cash and (len(group) == 1 or certain.takes(missing)):
            cash -= missing
            raised.append(group)

    return raised, cash


def worth(row: Row) -> tuple[float, float]:
    """Return a holding's weight and value, by which positions are listed."""
    return row["weight"], row.get("value_cny", row.get("value", 0.0))


def _buys(
    groups: Sequence[Sequence[Row]], sizing: Sizing, room: BuyingRoom, label: str
) -> list[list[Intent]]:
    """Buy names with equal shares of the cash, up to the target weight. Buy fewer names if the
    shares would be very small. If a group of equal names needs more positions than are left, the
    group splits their weight.
    """
    slots = min(room.vacant, max(0, int(room.cash / SMALLEST_BUY)))
    count = min(slots, sum(map(len, groups)))
    cash = room.cash
    names = room.names
    rank = 0
    bought = []

    for group in groups:
        taken = min(len(group), count - rank)
        if not taken:
            break

        # Rounded down, so that rounding does not cut the last buy.
        part = min(sizing.target, cash / (count - rank)) * (taken / len(group))
        weight = int(part * 10_000) / 10_000
        confidence = round(0.6 - 0.1 * rank / count, 3)
        rank += taken
        if len(group) > 1 and (len(group) > names or not _is_group_affordable(group, weight, room)):
            continue

        names -= len(group)
        for _ in group:
            cash -= weight

        reason = f"among the best by {label}"
        bought.append([Intent(row["stock_id"], "BUY", weight, confidence, reason) for row in group])

    return bought


def _is_group_affordable(group: Sequence[Row], weight: float, room: BuyingRoom) -> bool:
    """Return whether the whole group can be bought at a weight with the cash and positions that are
    available before any sale.
    """
    affordable = all(is_affordable(row, room.state, weight) for row in group)
    return affordable and room.certain.takes(weight * len(group), len(group))


def is_affordable(row: Row, state: Mapping[str, Any], weight: float) -> bool:
    """Return whether the smallest permitted buy does not exceed the target weight."""
    limits = state["constraints"]
    if "lot_shares" not in limits:  # a market with fractional shares
        return row["close"] is not None

    price = row["close_cny"]
    nav = state["account"].get("nav_cny")
    if price is None or nav is None:  # an account at book value has no NAV to compare with
        return price is not None

    is_star = row.get("board") == "star"  # if the board is not shown, the task's lot size applies
    shares = limits["star_min_shares"] if is_star else limits["lot_shares"]
    return bool(price * shares <= weight * nav)


def sell_short(
    conversation: Conversation, worst: Sequence[Sequence[Row]], kept: frozenset[str], weight: float
) -> list[Intent]:
    """Return the orders that hold the worst names of a ranking short, each at `weight` or less, and
    that buy back shorts not in `kept`. `worst` contains groups of names that no figure
    distinguishes, worst first. Each group is sold short as a whole or not at all.
    """
    held = {row["stock_id"]: row for row in conversation.rows(conversation.state["positions"])}
    shorts = [row for row in held.values() if row["weight"] < 0]
    gone = [row for row in shorts if row["stock_id"] not in kept and _is_sellable(row)]
    vacant = sum(map(len, worst)) - len(shorts) + len(gone)

    fresh = []
    for group in worst:
        stocks = [row["stock_id"] for row in group if row["stock_id"] not in held]
        if stocks:
            fresh.append(stocks)

    bought_back = "no longer among the worst"
    sold_short = "among the worst by the ranking"
    return [
        *(Intent(row["stock_id"], "BUY", 0.0, 0.5, bought_back) for row in gone),
        *(
            Intent(stock, "SELL", -weight, 0.55, sold_short)
            for stock in first_of(fresh, max(0, vacant))
        ),
    ]
