"""How far two recorded episodes of one market lie apart: what was decided, what was traded, and what it came to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval.jsonio import dumps_canonical
from ktdeval.trading import Ledger, OrderRecord, StepRecord

Apart = Mapping[str, "float | str"]
"""By figure: how far two episodes lie apart, or why that is not defined."""

_Order = tuple[str, str, float | None, int | None]
_Trade = tuple[str, str]
"""Asset and side."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Meaning of a figure. All are 0 for equal episodes and never below it; `most` is the largest value, None without bound."""

    formula: str
    most: float | None = 1.0


FIGURES: Mapping[str, Figure] = {
    "decisions": Figure("steps whose set of (asset, side, target weight or shares) differs, of all steps"),
    "decisions_alike": Figure("the same, of the steps before which both held the same positions and cash"),
    "orders": Figure("orders that are in one episode only, of all orders in either: 1 - |A and B| / |A or B|, step by step"),
    "turnover": Figure("sum |a - b| / sum (a + b) over steps, assets and sides; a, b: filled amount as a share of NAV at the open"),
    "nav": Figure("mean over days of |log NAV of one - log NAV of the other|", None),
    "total_return": Figure("|total return of one - total return of the other|", None),
}
"""Figures of a pair of episodes, each a fraction."""


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """An episode as far as comparing it needs: everything in true identities, nothing of what the mask showed."""

    days: tuple[str, ...]  #: fill days, ISO
    #: by step, the orders as decided (executed or not), without confidence, reason and sequence
    decisions: tuple[Counter[_Order], ...]
    accounts: tuple[str, ...]  #: by step, positions and cash before it, as canonical text
    trades: tuple[Counter[_Trade], ...]  #: by step, filled amount by asset and side, as a share of the NAV at that open
    nav: npt.NDArray[np.float64]  #: [steps + 1] CNY

    @property
    def total_return(self) -> float:
        """Last NAV over the initial cash, less 1."""
        return float(self.nav[-1] / self.nav[0] - 1.0)


def course_of(ledger: Ledger) -> Course:
    """Return the course that a ledger records."""
    steps = ledger.steps
    return Course(
        days=tuple(step.filled_on for step in steps),
        decisions=tuple(Counter(_order(order) for order in step.orders) for step in steps),
        accounts=("", *(_account(step) for step in steps[:-1])),
        trades=tuple(_trades(step) for step in steps),
        nav=ledger.nav,
    )


def _order(order: OrderRecord) -> _Order:
    # A stock_id that is no asset has no true identity: it stands for itself.
    asset = order.code if order.code is not None else f"? {order.stock_id}"
    return asset, order.side, order.target_weight, order.shares


def _account(step: StepRecord) -> str:
    held = [[position.code, position.shares, position.locked] for position in step.positions]
    return dumps_canonical([step.cash_minor, held])


def _trades(step: StepRecord) -> Counter[_Trade]:
    amounts: Counter[_Trade] = Counter()
    for order in step.orders:
        if order.code is not None and order.filled_shares:
            amounts[order.code, order.side] += order.notional_minor / step.open_nav_minor  # type: ignore[assignment]  # typeshed: whole numbers only
    return amounts


def parting(one: Course, other: Course) -> str | None:
    """Return the fill day of the first step that was decided otherwise; None where there is none."""
    steps = zip(one.days, one.decisions, other.decisions, strict=True)
    return next((day for day, left, right in steps if left != right), None)


def apart(one: Course, other: Course) -> Apart:
    """All `FIGURES` of two courses over the same days."""
    changed = np.array([left != right for left, right in zip(one.decisions, other.decisions, strict=True)])
    alike = np.array([left == right for left, right in zip(one.accounts, other.accounts, strict=True)])
    if (one.nav <= 0).any() or (other.nav <= 0).any():
        nav: float | str = "a NAV is not positive"
    else:
        nav = float(np.abs(np.log(one.nav[1:] / other.nav[1:])).mean())
    return {
        "decisions": float(changed.mean()),
        "decisions_alike": float(changed[alike].mean()),  # the first step begins from cash in both
        "orders": _orders_apart(one, other),
        "turnover": _turnover_apart(one, other),
        "nav": nav,
        "total_return": abs(one.total_return - other.total_return),
    }


def _orders_apart(one: Course, other: Course) -> float | str:
    both = either = 0
    for left, right in zip(one.decisions, other.decisions, strict=True):
        both += (left & right).total()
        either += (left | right).total()
    return 1.0 - both / either if either else "neither gave an order"


def _turnover_apart(one: Course, other: Course) -> float | str:
    differences: list[float] = []
    amounts: list[float] = []
    for left, right in zip(one.trades, other.trades, strict=True):
        for trade in left.keys() | right.keys():
            differences.append(abs(left[trade] - right[trade]))
            amounts.append(left[trade] + right[trade])
    whole = math.fsum(amounts)
    return math.fsum(differences) / whole if whole else "neither traded"
