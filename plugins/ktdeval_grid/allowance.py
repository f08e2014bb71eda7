"""Budget of a grid: dollars and tokens that its workers share.

A worker draws an amount before it spends it, and the amount counts as used at once, so that the
grid's limits hold whatever happens to the worker. What is left of it is given back at the end; what
a killed worker had drawn and not used stays counted, at most a hundredth of the limit a system.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ktdeval.calls import Amount
from ktdeval.stores import Heartbeats, SharedSum
from ktdeval_grid.layout import GridPlace
from ktdeval_grid.plan import GridPlan

_UNITS_A_DOLLAR = 1_000_000  #: the shared sum counts whole millionths
_PORTIONS = 100  #: a worker draws a hundredth of the limit at once


@dataclass(frozen=True)
class GridAllowance:
    """Shared sums of dollars and tokens; None where the grid sets no limit."""

    dollars: SharedSum | None
    tokens: SharedSum | None
    portion: Amount  #: least amount that is drawn at once

    def draw(self, least: Amount) -> Amount | None:
        """Return an amount that this process may use from now on; None if the limits leave less
        than `least`.
        """
        wanted = Amount(max(least.usd, self.portion.usd), max(least.tokens, self.portion.tokens))
        for amount in (wanted, least):
            if self._drawn(amount):
                return amount

        return None

    def _drawn(self, amount: Amount) -> bool:
        units = 0
        if self.dollars is not None:
            units = math.ceil(amount.usd * _UNITS_A_DOLLAR)

        if not _use(self.dollars, units):
            return False
        if _use(self.tokens, amount.tokens):
            return True

        _give_back(self.dollars, units)
        return False

    def needed(self, least: Amount) -> dict[str, float]:
        """Return the limits that leave less than `least`, by the name of their option, each with
        the smallest value that would leave it.
        """
        needed: dict[str, float] = {}
        if self.dollars is not None:
            units = _exceeding(self.dollars, math.ceil(least.usd * _UNITS_A_DOLLAR))
            if units is not None:
                needed["max_cost"] = units / _UNITS_A_DOLLAR

        if self.tokens is not None:
            tokens = _exceeding(self.tokens, least.tokens)
            if tokens is not None:
                needed["max_tokens"] = tokens

        return needed

    def give_back(self, unused: Amount) -> None:
        """Return what was drawn and not used."""
        if self.dollars is not None:
            _give_back(self.dollars, math.floor(unused.usd * _UNITS_A_DOLLAR))

        _give_back(self.tokens, unused.tokens)


def _use(total: SharedSum | None, amount: int) -> bool:
    """Count an amount as used; return whether the limit allows it."""
    if total is None or amount == 0:
        return True

    grant = total.reserve(amount)
    if grant is None:
        return False

    total.settle(grant, amount)
    return True


def _exceeding(total: SharedSum, amount: int) -> int | None:
    """Return what would be used with a further amount, if that exceeds the limit."""
    state = total.state()
    used = state.used + state.reserved + amount
    if total.limit is None or used <= total.limit:
        return None

    return used


def _give_back(total: SharedSum | None, amount: int) -> None:
    if total is not None and amount > 0:
        total.give_back(amount)


def grid_allowance(plan: GridPlan, place: GridPlace, beats: Heartbeats) -> GridAllowance | None:
    """Return the budget of a grid; None if its plan sets no limit."""
    if plan.max_cost is None and plan.max_tokens is None:
        return None

    dollars = None
    portion_usd = math.inf
    if plan.max_cost is not None:
        units = math.floor(plan.max_cost * _UNITS_A_DOLLAR)
        dollars = SharedSum(place.store, "sums/dollars", units, beats)
        portion_usd = plan.max_cost / _PORTIONS

    tokens = None
    portion_tokens = 2**62
    if plan.max_tokens is not None:
        tokens = SharedSum(place.store, "sums/tokens", plan.max_tokens, beats)
        portion_tokens = math.ceil(plan.max_tokens / _PORTIONS)

    return GridAllowance(dollars, tokens, Amount(portion_usd, portion_tokens))
