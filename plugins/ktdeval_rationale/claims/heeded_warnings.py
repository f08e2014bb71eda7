"""Warnings that the state and tools gave on an asset, and whether the orders followed them.

| warning | where | not heeded by |
|---|---|---|
| suspended, closed, halted, not_listed | `status` of an asset | any order |
| limit_up, limit_down | `status` | a BUY; a SELL |
| not a member | `member` or `index_member` is false | a BUY |
| violation | a row of `risk_check` | the same side to the same target or further |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktdeval_rationale.claims.argued_direction import ArguedOrder
from ktdeval_rationale.claims.shown_facts import ShownFacts

_CLOSED = ("suspended", "closed", "halted", "not_listed")
_BY_SIDE = {"limit_up": "BUY", "limit_down": "SELL"}


@dataclass(frozen=True, slots=True)
class WarningOutcome:
    """A warning on an asset that was relevant to the decision."""

    label: str
    warning: str
    is_heeded: bool


def heeded_warnings(
    facts: ShownFacts,
    orders: Sequence[ArguedOrder],
    named: frozenset[str],
    plans: Sequence[Mapping[str, Any]] = (),
) -> list[WarningOutcome]:
    """Return the warnings on assets that orders or reasons name, and those of tested plans.

    `named` contains the labels in the reasons. `plans` contains rows of `risk_check`, of which the
    last row for each asset is used.
    """
    by_label = {order.label: order for order in orders}
    outcomes: list[WarningOutcome] = []
    for label in sorted(named | by_label.keys()):
        order = by_label.get(label)
        for warning, side in _warnings(facts, label):
            is_broken = order is not None and _trades(order) and side in (None, order.side)
            outcomes.append(WarningOutcome(label, warning, not is_broken))

    tested = {str(row.get("stock_id")): row for row in plans}
    for label, row in tested.items():
        rule = row.get("violation")
        if isinstance(rule, str) and rule:
            outcomes.append(WarningOutcome(label, rule, not _repeats(by_label.get(label), row)))
    return outcomes


def _warnings(facts: ShownFacts, label: str) -> Iterator[tuple[str, str | None]]:
    """Yield the warnings on an asset, each with the order side that it concerns, or None if it
    concerns both sides.
    """
    words = facts.words.get(label, {})
    status = words.get("status", "")
    if status in _CLOSED:
        yield status, None
    if status in _BY_SIDE:
        yield status, _BY_SIDE[status]
    if "false" in (words.get("member"), words.get("index_member")):
        yield "no member", "BUY"


def _trades(order: ArguedOrder) -> bool:
    return order.side in ("BUY", "SELL")


def _repeats(order: ArguedOrder | None, row: Mapping[str, Any]) -> bool:
    """Return whether an order goes at least as far as a tested plan that drew a warning."""
    if order is None or order.side != row.get("side"):
        return False

    tested = row.get("weight_target")
    if order.target_weight is None or not isinstance(tested, int | float):
        return False
    if order.side == "BUY":
        return order.target_weight >= tested
    return order.target_weight <= tested
