"""Budget of a grid: dollars and tokens that its workers share.

A worker draws an amount before its calls spend it. The amount counts against the limits from then
on, so the limits hold even if the worker dies. A remainder serves the worker's next calls. It is
given back if it exceeds a hundredth of the limit, or if no call is in progress. If a worker is
killed, the amounts that it has drawn but not used remain spent: the maximum cost of its open calls,
and up to a hundredth of the limit.

While a worker holds a drawn amount, it is listed in the shared sum's state. A call that does not
fit waits as long as another live worker is listed, since calls cost less than they reserve.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from ktdeval.calls import BudgetAmount, Drawing
from ktdeval.errors import StoreError
from ktdeval_grid.coordination.heartbeats import Heartbeats
from ktdeval_grid.coordination.shared_sums import SharedSum
from ktdeval_grid.planning.plan import GridPlan
from ktdeval_grid.state.layout import GridPlace

_UNITS_A_DOLLAR = 1_000_000  #: the shared sum is counted in whole millionths of a dollar
_DOLLARS = "max_cost"
_TOKENS = "max_tokens"
_PORTIONS = 100  #: a worker draws a hundredth of the limit at a time
_IDLE_S = 1.0  #: time without a call after which a worker gives back its amount
_ASK_AGAIN_S = 0.5  #: time after which a refused draw is retried


@dataclass
class _DrawnSum:
    """Amount that this process has drawn from one shared sum."""

    limit: str  #: option that sets the limit: `max_cost` or `max_tokens`
    total: SharedSum
    portion: int  #: smallest amount drawn at a time
    #: amount drawn but not allocated to a call; negative: calls used more than was drawn
    free: int = 0
    has_drawn: bool = False  #: whether others may be waiting for what this process gives back

    def count_units(self, amount: BudgetAmount) -> int:
        """Return an amount in units of the shared sum: millionths of a dollar, or tokens."""
        return _units(amount.usd) if self.limit == _DOLLARS else amount.tokens

    def take(self, most: BudgetAmount) -> bool:
        """Allocate an amount to a call, and draw what is missing. Return False if the limit leaves
        too little.
        """
        units = self.count_units(most)
        missing = units - self.free
        if missing > 0 and not self._draw(missing):
            return False

        self.free -= units
        return True

    def _draw(self, missing: int) -> bool:
        self.has_drawn = True  # set first, since a draw without a response may have succeeded
        for wanted in (max(missing, self.portion), missing):
            if self.total.draw(wanted):
                self.free += wanted
                return True

        return False

    def find_needed(self, most: BudgetAmount) -> float | None:
        """Return the smallest limit that would cover an amount; None if the current limit covers
        it.
        """
        used = self.total.state().used + self.count_units(most) - self.free
        if self.total.limit is None or used <= self.total.limit:
            return None
        return used / _UNITS_A_DOLLAR if self.limit == _DOLLARS else used

    def give_back(self, kept: int) -> None:
        """Give back the free amount beyond `kept`. If more was used than drawn, record the
        excess.
        """
        excess = min(self.free, 0)
        if self.free > kept:
            excess = self.free - kept

        if excess:
            self.free -= excess  # set first, since nothing may be given back twice
            self.total.give_back(excess)

    def leave(self) -> None:
        """Give back the whole free amount, so that others no longer wait for this process."""
        if self.has_drawn:
            excess = self.free
            self.free = 0
            self.total.leave(excess)
            self.has_drawn = False


@dataclass
class GridAllowance:
    """Shared sums of dollars and tokens from which this process's calls draw. Thread-safe."""

    purses: tuple[_DrawnSum, ...]  #: one for dollars and one for tokens, if the grid limits them
    clock: Callable[[], float] = time.monotonic  #: seconds
    _calls: int = 0  #: number of calls in progress
    _used_at_s: float = -math.inf  #: time at which the last call started or ended
    _refused_until_s: float = -math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def draw(self, most: BudgetAmount) -> Drawing:
        """Draw the maximum that a call may use. Raises StoreError."""
        with self._lock:
            if self.clock() < self._refused_until_s:
                return "later"
            if self._is_drawn(most):
                return "drawn"

            if not self._calls:
                self._give_back_all()

            # Others may have given back amounts since then. A refusal is final only if nobody holds
            # any.
            may_wait = self._calls > 0 or self._others_have_drawn()
            if self._is_drawn(most):
                return "drawn"
            if not self._calls:
                self._give_back_all()  # others would wait for this process
            if not may_wait:
                return "never"

            self._refused_until_s = self.clock() + _ASK_AGAIN_S
            return "later"

    def _is_drawn(self, most: BudgetAmount) -> bool:
        """Return whether the limits allow a call, and draw for it."""
        has_drawn = any(purse.has_drawn for purse in self.purses)
        if not has_drawn and self._find_needed(most):
            return False
        if not self._take(most):
            return False

        self._calls += 1
        self._used_at_s = self.clock()
        return True

    def _others_have_drawn(self) -> bool:
        """Return whether another live worker holds a drawn amount, which its calls may not need."""
        return any(purse.total.may_others_give_back() for purse in self.purses)

    def settle(self, drawn: BudgetAmount, used: BudgetAmount) -> None:
        """End a call that has drawn an amount, given what the call has used."""
        with self._lock:
            self._calls -= 1
            self._used_at_s = self.clock()
            self._refused_until_s = -math.inf
            for purse in self.purses:
                purse.free += purse.count_units(drawn) - purse.count_units(used)

    def find_needed(self, most: BudgetAmount) -> dict[str, float]:
        """Return the limits that leave less than `most`, keyed by option, each with the smallest
        sufficient value.
        """
        with self._lock:
            return self._find_needed(most)

    def _find_needed(self, most: BudgetAmount) -> dict[str, float]:
        needed = {purse.limit: purse.find_needed(most) for purse in self.purses}
        return {limit: least for limit, least in needed.items() if least is not None}

    def give_back_idle(self) -> None:
        """Give back amounts that no call needs.

        If no call has been in progress for a short time, everything is given back; otherwise, only
        the excess over one portion. If the store fails, the next call tries again.
        """
        with self._lock, suppress(StoreError):
            if not self._calls and self.clock() - self._used_at_s >= _IDLE_S:
                self._give_back_all()
            else:
                for purse in self.purses:
                    purse.give_back(purse.portion)

    def give_back_all(self) -> None:
        """Give back everything that no call has used. No call may be in progress.

        Raises StoreError.
        """
        with self._lock:
            self._give_back_all()

    def _take(self, most: BudgetAmount) -> bool:
        """Allocate an amount to a call from all shared sums, or from none if one of them has too
        little.
        """
        for number, purse in enumerate(self.purses):
            if not purse.take(most):
                for earlier in self.purses[:number]:
                    earlier.free += earlier.count_units(most)
                return False

        return True

    def _give_back_all(self) -> None:
        for purse in self.purses:
            purse.leave()


def _units(usd: float) -> int:
    return math.ceil(usd * _UNITS_A_DOLLAR)


def grid_allowance(plan: GridPlan, place: GridPlace, beats: Heartbeats) -> GridAllowance | None:
    """Return a grid's budget; None if its plan sets no limits."""
    purses = []
    if plan.max_cost is not None:
        units = math.floor(plan.max_cost * _UNITS_A_DOLLAR)
        total = SharedSum(place.store, "sums/dollars", units, beats)
        purses.append(_DrawnSum(_DOLLARS, total, units // _PORTIONS))

    if plan.max_tokens is not None:
        total = SharedSum(place.store, "sums/tokens", plan.max_tokens, beats)
        purses.append(_DrawnSum(_TOKENS, total, math.ceil(plan.max_tokens / _PORTIONS)))

    return GridAllowance(tuple(purses)) if purses else None
