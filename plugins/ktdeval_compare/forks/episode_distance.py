"""An episode's decisions and account states with true identities, and distances between two
episodes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval.trading import Ledger, OrderRecord, StepRecord
from ktdeval.values import JsonValue, dumps_canonical, load_yaml
from ktdeval_compare.pairs.compared_cards import Values

#: by figure: the distance between two episodes, or the reason why it is undefined
Distances = Mapping[str, "float | str"]

_Order = tuple[str, str, float | None, int | None, int | None]
_Trade = tuple[str, str]  #: asset and side


@dataclass(frozen=True, slots=True)
class PairFigure:
    """Definition of a figure that measures the distance between two episodes."""

    label: str  #: name in tables
    formula: str
    most: float | None  #: maximum value; None if unbounded


WORDS: Mapping[str, Mapping[str, Any]] = load_yaml(Path(__file__).with_name("words.yaml"))
FIGURES = {name: PairFigure(*entry) for name, entry in WORDS["figures"].items()}


@dataclass(frozen=True, eq=False, slots=True)
class EpisodeCourse:
    """Data that a comparison needs from an episode, with true identities instead of masked
    labels.
    """

    days: tuple[str, ...]  #: fill days, ISO
    #: for each step: the decided orders, executed or not, without confidence, reason and sequence
    decisions: tuple[Counter[_Order], ...]
    #: for each step: positions and cash before the step, as canonical text
    accounts: tuple[str, ...]
    #: for each step: filled amounts by asset and side, as a share of the NAV at the open; empty if
    #: that NAV is not positive
    trades: tuple[Counter[_Trade], ...]
    nav: Values  #: [steps + 1] NAV in units of currency

    @property
    def total_return(self) -> float:
        """Final NAV divided by the initial cash, minus 1."""
        return float(self.nav[-1] / self.nav[0] - 1.0)


def course_of(ledger: Ledger) -> EpisodeCourse:
    """Return the course of the episode that a ledger records."""
    steps = ledger.steps
    # A step starts with the account left by the previous step.
    accounts = ["", *(_account_state(step) for step in steps[:-1])]
    return EpisodeCourse(
        days=tuple(step.filled_on for step in steps),
        decisions=tuple(Counter(map(_true_order, step.orders)) for step in steps),
        accounts=tuple(accounts),
        trades=tuple(_trades(step) for step in steps),
        nav=ledger.nav,
    )


def _true_order(order: OrderRecord) -> _Order:
    # A `stock_id` that denotes no asset has no true identity, so the `stock_id` itself is kept.
    asset = order.code if order.code is not None else f"? {order.stock_id}"
    return asset, order.side, order.target_weight, order.shares, order.limit_ticks


def _account_state(step: StepRecord) -> str:
    held: list[JsonValue] = []
    for position in step.positions:
        held.append([position.code, position.shares, position.locked])

    return dumps_canonical([step.cash_minor, held])


def _trades(step: StepRecord) -> Counter[_Trade]:
    amounts: Counter[_Trade] = Counter()
    for order in step.fills:
        if order.code is not None and order.filled_shares and step.open_nav_minor > 0:
            amounts[order.code, order.side] += order.notional_minor / step.open_nav_minor  # type: ignore[assignment]  # typeshed: whole numbers only
    return amounts


def parted_on(one: EpisodeCourse, other: EpisodeCourse) -> str | None:
    """Return the fill day of the first step with different decisions, or None if all decisions are
    equal.
    """
    for day, left, right in zip(one.days, one.decisions, other.decisions, strict=True):
        if left != right:
            return day
    return None


def distances(one: EpisodeCourse, other: EpisodeCourse) -> Distances:
    """Return all `FIGURES` for two courses that cover the same days."""
    changed = np.array(
        [left != right for left, right in zip(one.decisions, other.decisions, strict=True)]
    )
    alike = np.array(
        [left == right for left, right in zip(one.accounts, other.accounts, strict=True)]
    )
    return {
        "decisions": float(changed.mean()),
        # never empty: both episodes start with cash only
        "decisions_alike": float(changed[alike].mean()),
        "orders": _orders_distance(one, other),
        "turnover": _turnover_distance(one, other),
        "nav": _nav_distance(one, other),
        "total_return": abs(one.total_return - other.total_return),
    }


def _orders_distance(one: EpisodeCourse, other: EpisodeCourse) -> float | str:
    both = 0
    either = 0
    for left, right in zip(one.decisions, other.decisions, strict=True):
        both += (left & right).total()
        either += (left | right).total()

    if either == 0:
        return "neither gave an order"
    return 1.0 - both / either


def _turnover_distance(one: EpisodeCourse, other: EpisodeCourse) -> float | str:
    sums: list[float] = []
    differences: list[float] = []
    for left, right in zip(one.trades, other.trades, strict=True):
        for trade in left.keys() | right.keys():
            sums.append(left[trade] + right[trade])
            differences.append(abs(left[trade] - right[trade]))

    whole = math.fsum(sums)
    if not whole:
        return "neither traded"
    return math.fsum(differences) / whole


def _nav_distance(one: EpisodeCourse, other: EpisodeCourse) -> float | str:
    if (one.nav <= 0).any() or (other.nav <= 0).any():
        return "a NAV is not positive"
    return float(np.abs(np.log(one.nav[1:] / other.nav[1:])).mean())
