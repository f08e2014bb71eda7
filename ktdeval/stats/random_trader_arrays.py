"""Execute all random traders on a day at once: the choices of `random_traders` as arrays.

Each choice uses the same draw as for a single trader, and amounts are rounded by the same
operations in the same order. So every order equals the order of a single trader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshots.snapshot import BoolArray, FloatArray
from ktdeval.trading.account_arrays import (
    AccountArrays,
    AssetArray,
    BuyArrays,
    DayArrays,
    SellArrays,
)
from ktdeval.trading.wide_ratios import InexactArraysError, IntArray, product_ratio

_MAX_LOTS = 1 << 53  #: floats represent integers exactly up to this value
_Kind = TypeVar("_Kind", np.int32, np.int64)


@dataclass(frozen=True, slots=True)
class StepMoves:
    """The agent's fills in one step as moves; amounts are fractions of the NAV at the open."""

    entries: tuple[float, ...]  #: amounts of buys in names not held before
    adds: tuple[float, ...]  #: amounts of buys in names already held
    trims: tuple[float, ...]  #: amounts of sells in names still held at the close
    names_after: int  #: number of names held at the close


@dataclass(frozen=True, slots=True)
class DrawnMoves:
    """A day's moves, and the random numbers of P traders for them."""

    moves: StepMoves
    #: [P, draws] random numbers in 0…1, in the order in which each trader uses them
    chances: FloatArray
    tries: int  #: maximum number of names drawn per entry
    max_weight: float  #: maximum weight of a name


def random_orders(
    accounts: AccountArrays, day: DayArrays, nav: IntArray, drawn: DrawnMoves
) -> tuple[SellArrays, BuyArrays]:
    """Return random orders that match the agent's fills, for traders with these accounts. `nav`:
    NAV at the opens, [P]. A trader without NAV places no order.
    """
    choices = _Choices(accounts, day, nav, drawn)
    choices.exit()
    choices.trim()
    choices.add()
    choices.enter()
    return choices.sells(), choices.buys()


class _Choices:
    """All traders' choices on one day, made one after another in the order of the draws."""

    def __init__(
        self, accounts: AccountArrays, day: DayArrays, nav: IntArray, drawn: DrawnMoves
    ) -> None:
        self._accounts = accounts
        self._day = day
        self._nav = nav
        self._worth = nav.astype(np.float64)
        self._drawn = drawn
        self._columns = np.arange(len(nav))
        self._trades = nav > 0
        self._next = np.zeros(len(nav), dtype=np.int64)  #: index of each trader's next draw
        self._can_sell = _Places.of(day.can_sell[accounts.assets] & self._trades)
        self._sold: list[tuple[IntArray, IntArray]] = []
        self._bought: list[tuple[AssetArray, IntArray, IntArray]] = []

        # The maximum value of a holding, from its maximum weight
        most = (drawn.max_weight * self._worth).astype(np.int64)
        self._max_minor = most

    def _draw(self, is_drawn: BoolArray) -> FloatArray:
        """Return the next draw of each drawing trader, and 0 for the others. Shape: [P]."""
        taken = np.where(is_drawn, self._drawn.chances[self._columns, self._next], 0.0)
        self._next += is_drawn
        return taken

    def _list_held(self, places: IntArray) -> tuple[AssetArray, IntArray]:
        accounts = self._accounts
        return accounts.assets[places, self._columns], accounts.shares[places, self._columns]

    # ---- sells

    def exit(self) -> None:
        """Sell whole names until the agent's number of names is left."""
        moves = self._drawn.moves
        surplus = self._accounts.names + len(moves.entries) - moves.names_after
        wanted = np.minimum(np.maximum(surplus, 0), self._can_sell.sizes)
        for number in range(int(wanted.max(initial=0))):
            is_drawn = number < wanted
            places = self._can_sell.take(self._draw(is_drawn), is_drawn)
            _, held = self._list_held(places)
            self._sold.append((places, np.where(is_drawn, held, 0)))

    def trim(self) -> None:
        """Reduce some of the remaining names."""
        sizes = self._can_sell.sizes.copy()
        for number, amount in enumerate(self._drawn.moves.trims):
            is_drawn = number < sizes
            if not is_drawn.any():
                break

            places = self._can_sell.take(self._draw(is_drawn), is_drawn)
            assets, held = self._list_held(places)
            lots = self._day.lots[assets]
            most = (held - 1) // lots * lots  # a trim keeps at least one lot
            steps = np.minimum(self._lots(assets, amount), most)
            self._sold.append((places, np.where(is_drawn, np.maximum(steps, 0), 0)))

    # ---- buys

    def add(self) -> None:
        """Add to names that were neither sold nor reduced."""
        adds = self._drawn.moves.adds
        if not adds or not len(self._accounts.assets):
            return

        own = self._can_sell.where(self._day.can_buy[self._accounts.assets])
        sizes = own.sizes.copy()
        for number, amount in enumerate(adds):
            is_drawn = number < sizes
            if not is_drawn.any():
                break

            places = own.take(self._draw(is_drawn), is_drawn)
            assets, held = self._list_held(places)
            steps = self._steps_to_buy(assets, amount, held)
            self._bought.append((assets, places, np.where(is_drawn, steps, 0)))

    def enter(self) -> None:
        """Buy names that are not held. If a name's lot does not fit the amount, another
        name is drawn.
        """
        buyable = np.flatnonzero(self._day.can_buy).astype(np.int32)
        if not len(buyable):
            return

        for amount in self._drawn.moves.entries:
            self._enter(amount, buyable)

    def _enter(self, amount: float, buyable: AssetArray) -> None:
        tries = self._drawn.tries
        assets = np.full(len(self._nav), self._day.nothing, dtype=np.int32)
        steps = np.zeros(len(self._nav), dtype=np.int64)
        left = np.flatnonzero(self._trades)
        for number in range(tries):
            if not len(left):
                break

            chances = self._drawn.chances[left, self._next[left] + number]
            drawn = buyable[(chances * len(buyable)).astype(np.int64)]
            bought = self._steps_to_buy(drawn, amount, 0, left)
            bought[self._has_taken(drawn, left)] = 0
            is_bought = bought > 0
            assets[left[is_bought]] = drawn[is_bought]
            steps[left[is_bought]] = bought[is_bought]
            left = left[~is_bought]

        # All tries are drawn, whether used or not, so that later draws do not depend on them.
        self._next += tries
        self._bought.append((assets, np.full(len(self._nav), -1, dtype=np.int64), steps))

    def _has_taken(self, assets: AssetArray, traders: IntArray) -> BoolArray:
        """Return whether traders hold these assets at the open, or have entered them."""
        has: BoolArray = np.zeros(len(traders), dtype=np.bool_)
        is_all = len(traders) == len(self._nav)
        for held in self._accounts.assets:
            has |= (held if is_all else held[traders]) == assets
        for entered, places, _ in self._bought:
            if places[0] < 0:
                has |= (entered if is_all else entered[traders]) == assets

        return has

    def _steps_to_buy(
        self,
        assets: AssetArray,
        amount: float,
        held: IntArray | int,
        traders: IntArray | None = None,
    ) -> IntArray:
        """Return the steps to buy for this fraction of NAV, up to the maximum weight; 0 if they are
        below the minimum order.
        """
        day = self._day
        max_minor = self._max_minor if traders is None else self._max_minor[traders]
        lots = day.lots[assets]
        room = product_ratio(max_minor, day.unit, day.divisors[assets]) - held
        steps = np.minimum(self._lots(assets, amount, traders), room // lots * lots)
        return np.where(steps < day.min_buy[assets], 0, steps)

    def _lots(self, assets: AssetArray, amount: float, traders: IntArray | None = None) -> IntArray:
        """Return the steps worth this fraction of NAV at the open, rounded to the nearest lot."""
        day = self._day
        worth = self._worth if traders is None else self._worth[traders]
        lots = day.lots[assets]
        number = amount * worth * day.unit / day.divisors[assets] / lots
        if number.max(initial=0.0) >= _MAX_LOTS:
            raise InexactArraysError

        rounded: IntArray = (number + 0.5).astype(np.int64)
        return rounded * lots

    # ---- orders

    def sells(self) -> SellArrays:
        """Return the sells in the order in which they were chosen."""
        traders = len(self._nav)
        places = [place for place, _ in self._sold]
        steps = [number for _, number in self._sold]
        return SellArrays(
            _stack_arrays(places, traders, np.int64), _stack_arrays(steps, traders, np.int64)
        )

    def buys(self) -> BuyArrays:
        """Return the buys in the order in which they were chosen."""
        traders = len(self._nav)
        assets = [asset for asset, _, _ in self._bought]
        places = [place for _, place, _ in self._bought]
        steps = [number for _, _, number in self._bought]
        return BuyArrays(
            _stack_arrays(assets, traders, np.int32),
            _stack_arrays(places, traders, np.int64),
            _stack_arrays(steps, traders, np.int64),
        )


class _Places:
    """A list of positions for each trader to choose from."""

    def __init__(self, listed: npt.NDArray[np.int16], sizes: IntArray) -> None:
        self.sizes = sizes  #: [P] number of remaining entries
        self._listed = listed  #: [S, P]
        self._rows = np.arange(len(listed), dtype=np.int16)[:, None]
        self._columns = np.arange(len(sizes))

    @classmethod
    def of(cls, flags: BoolArray) -> _Places:
        """List the flagged positions of [S, P] `flags` in order."""
        listed = np.zeros(flags.shape, dtype=np.int16)
        rows, columns = np.nonzero(flags)
        index = np.cumsum(flags, axis=0)[rows, columns] - 1
        listed[index, columns] = rows
        return cls(listed, np.count_nonzero(flags, axis=0))

    def take(self, chances: FloatArray, is_taken: BoolArray) -> IntArray:
        """For each trader in `is_taken`, remove one entry from the list, selected by a chance in
        0…1. Return the entries; for other traders, they are arbitrary.
        """
        index = (chances * self.sizes).astype(np.int16)
        taken = self._listed[index, self._columns].astype(np.int64)
        # An index beyond the last row, for traders that take nothing, moves nothing up.
        begin = np.where(is_taken, index, np.int16(len(self._rows)))
        moves_up = self._rows[:-1] >= begin
        self._listed[:-1] = np.where(moves_up, self._listed[1:], self._listed[:-1])
        self.sizes = self.sizes - is_taken
        return taken

    def where(self, flags: BoolArray) -> _Places:
        """Return the lists without the positions that are not flagged in [S, P] `flags`."""
        rows = self._rows
        is_left = np.take_along_axis(flags, self._listed.astype(np.int64), axis=0)
        is_left &= rows < self.sizes
        kept = _Places.of(is_left)
        kept._listed = np.take_along_axis(self._listed, kept._listed.astype(np.int64), axis=0)
        return kept


def _stack_arrays(
    arrays: list[npt.NDArray[_Kind]], traders: int, kind: type[_Kind]
) -> npt.NDArray[_Kind]:
    """Stack K arrays of one type as [K, P], even if K is 0."""
    if not arrays:
        return np.empty((0, traders), dtype=kind)
    return np.stack(arrays)
