"""Process many long accounts at once: corporate actions, values and fills are computed as arrays.
Results equal those of calling `open_day` and `execute` for each account, to the minor unit.

Arrays have accounts on their last axis: [S, P] holds S positions of P accounts. Where the executor
processes one order after another, this module processes the n-th order of all accounts at once.

Traders must hold no shorts and order each asset at most once a day. They must not order an asset
that does not trade or that opens at its limit, and must not buy an asset outside the universe.
Shares are then locked (T+1) only between a buy and the next open, when nobody sells them.

Not covered (`arrays_problem`): fills whose price depends on their size, and assets whose values are
counted in different units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshots.snapshot import BoolArray
from ktdeval.trading.daily_settlement import open_day
from ktdeval.trading.execution_costs import UNQUOTED, Quote, fill_ticks, needs_liquidity
from ktdeval.trading.fill_sizes import affordable
from ktdeval.trading.market_rules import MarketRules
from ktdeval.trading.trading_day import TradingDay
from ktdeval.trading.types import Account, Position
from ktdeval.trading.venue_terms import HALF_RATE, NO_DUTIES, PPB, RATE_SCALE, Terms
from ktdeval.trading.wide_ratios import (
    InexactArraysError,
    IntArray,
    ceil_ratio,
    floor_ratio,
    product_ratio,
)

AssetArray = npt.NDArray[np.int32]
#: for sorting, a position is one integer: the bits above its shares hold its asset index
_SHARE_BITS = 45
_MAX_SHARES = 1 << _SHARE_BITS
_MAX_ASSETS = 1 << (62 - _SHARE_BITS)
_MAX_VALUE = 1 << 53  #: floats represent integers exactly up to this value
_MAX_DIVISOR = 1 << 60
#: placeholder for a missing price; still a valid divisor when multiplied by `PPB`
_NO_PRICE = 1 << 29


def arrays_problem(rules: MarketRules) -> str | None:
    """Return the reason why accounts under these rules can't be processed as arrays; None
    if they can.
    """
    if len(set(rules.units)) != 1:
        return "the assets count values in different units"
    if len(rules.terms) >= _MAX_ASSETS:
        return "too many assets"

    for terms in rules.terms:
        execution = terms.execution
        if execution is None:
            continue
        if execution.impact_ppb or execution.participation_ppb is not None:
            return "prices or sizes of fills depend on the day's volume"

    return None


@dataclass(frozen=True)
class AccountArrays:
    """P accounts with S positions each. Positions are ordered by asset. An empty slot has no
    shares, and its asset is `DayArrays.nothing`.
    """

    cash: IntArray  #: [P] minor units
    assets: AssetArray  #: [S, P]
    shares: IntArray  #: [S, P]

    @classmethod
    def open(cls, cash_minor: int, number: int) -> AccountArrays:
        """Return `number` accounts with this cash and no positions."""
        return cls(
            np.full(number, cash_minor, dtype=np.int64),
            np.empty((0, number), dtype=np.int32),
            np.empty((0, number), dtype=np.int64),
        )

    @cached_property
    def names(self) -> IntArray:
        """Number of positions per account. Shape: [P]."""
        names: IntArray = np.count_nonzero(self.shares, axis=0)
        return names


@dataclass(frozen=True)
class SellArrays:
    """K sells per account in execution order, each [K, P]."""

    places: IntArray  #: rows of the account's positions
    steps: IntArray  #: 0 means no order


@dataclass(frozen=True)
class BuyArrays:
    """K buys per account in execution order, each [K, P]."""

    assets: AssetArray
    #: rows of the account's positions; negative if not held
    places: IntArray
    steps: IntArray  #: 0 means no order


class DayArrays:
    """Arrays of a fill day by asset, with one extra entry for empty slots."""

    def __init__(self, day: TradingDay) -> None:
        self.day = day
        self.rules = day.rules
        self.nothing = len(day.rules.terms)  #: index of the extra entry, which stands for no asset
        self.unit = day.rules.units[0]
        self.opens = _by_asset(day.open_ticks)
        self.closes = _by_asset(day.close_ticks)
        #: prices as divisors: an asset without a price gets one so large that no step is affordable
        self.divisors = np.where(self.opens > 0, self.opens, _NO_PRICE)
        tradable = _flags(day.tradable)
        self.can_sell = tradable & ~_flags(day.limit_down)
        self.can_buy = tradable & _flags(day.member) & ~_flags(day.limit_up)
        terms = day.rules.terms
        # Lots are divisors, so the entry for empty slots is 1.
        self.lots = _by_asset([each.lot for each in terms])
        self.lots[-1] = 1
        self.min_buy = _by_asset([each.min_buy for each in terms])
        self.min_sell = _by_asset([each.min_sell for each in terms])
        self.min_notional = _by_asset([each.minimum_notional for each in terms])

    @cached_property
    def _cost_terms(self) -> tuple[list[Terms], IntArray]:
        """Return the distinct cost terms, and each asset's index among them."""
        numbers: dict[object, int] = {}
        kinds: list[Terms] = []
        of_asset = np.zeros(self.nothing + 1, dtype=np.int64)
        for asset, terms in enumerate(self.rules.terms):
            rates = terms.buy_rate, terms.sell_rate, terms.minimum_fee
            key = (*rates, terms.commission, terms.duties)
            if key not in numbers:
                numbers[key] = len(kinds)
                kinds.append(terms)

            of_asset[asset] = numbers[key]

        return kinds, of_asset

    @cached_property
    def has_execution(self) -> bool:
        """Return whether fills cost a spread."""
        return self.day.liquidity is not None

    @cached_property
    def unfilled(self) -> BoolArray:
        """Assets whose fills have no price because their spread is unknown. Shape: [N + 1]."""
        flags = np.zeros(self.nothing + 1, dtype=np.bool_)
        liquidity = self.day.liquidity
        if liquidity is None:
            return flags

        for asset, terms in enumerate(self.rules.terms):
            execution = terms.execution
            if execution is None:
                continue

            is_known = liquidity.volume[asset] and liquidity.sigma_ppb[asset]
            lacks_activity = needs_liquidity(execution) and not is_known
            flags[asset] = lacks_activity or liquidity.half_spread_ppb[asset] == UNQUOTED

        return flags

    @cached_property
    def sell_ticks(self) -> IntArray:
        """Price of a sell, which does not depend on its size. Shape: [N + 1]."""
        return self._fill_ticks(selling=True)

    @cached_property
    def buy_ticks(self) -> IntArray:
        """Price of a buy, which does not depend on its size. Shape: [N + 1]."""
        return self._fill_ticks(selling=False)

    def quote(self, asset: int) -> Quote | None:
        """Return the inputs to the price of a fill; None if it fills at the reference price."""
        terms = self.rules.terms[asset]
        liquidity = self.day.liquidity
        if terms.execution is None or liquidity is None:
            return None

        return Quote(
            self.day.open_ticks[asset],
            terms.unit,
            terms.execution,
            liquidity.sigma_ppb[asset],
            liquidity.volume[asset],
            liquidity.low_ticks[asset],
            liquidity.high_ticks[asset],
            half_spread_ppb=liquidity.half_spread_ppb[asset],
        )

    def _fill_ticks(self, selling: bool) -> IntArray:
        if not self.has_execution:
            return self.opens

        ticks = self.opens.copy()
        for asset in np.flatnonzero((self.can_sell | self.can_buy) & ~self.unfilled).tolist():
            quote = self.quote(asset)
            if quote is not None:
                # Without impact, any quantity has the price of a single step.
                ticks[asset] = fill_ticks(quote, 1, selling)

        return ticks

    def value(self, assets: AssetArray, shares: IntArray, ticks: IntArray) -> IntArray:
        """Return the value of positions in minor units, rounded half up. `ticks`: prices
        by asset.
        """
        return product_ratio(shares, ticks[assets], self.unit, self.unit >> 1)

    def nav(self, accounts: AccountArrays, ticks: IntArray) -> IntArray:
        """Return the value of cash and holdings. Shape: [P]. `ticks`: prices by asset. Raises
        InexactArraysError if amounts are too large.
        """
        worth = self.value(accounts.assets, accounts.shares, ticks).sum(axis=0)
        nav = accounts.cash + worth
        if int(nav.max()) >= _MAX_VALUE or int(accounts.cash.min()) < 0:
            raise InexactArraysError
        return np.asarray(nav, dtype=np.int64)

    def cost(
        self, assets: AssetArray, steps: IntArray, ticks: IntArray, selling: bool
    ) -> tuple[IntArray, IntArray]:
        """Return notional and fee of fills, as `venue_terms.cost` does; both are 0 for 0 steps.
        `ticks`: prices by asset.
        """
        kinds, of_asset = self._cost_terms
        prices = ticks[assets]
        if len(kinds) == 1:
            notional, fee = _cost(steps, prices, kinds[0], selling)
        else:
            notional = np.zeros_like(steps)
            fee = np.zeros_like(steps)
            own = of_asset[assets]
            for number, terms in enumerate(kinds):
                is_own = own == number
                notional[is_own], fee[is_own] = _cost(steps[is_own], prices[is_own], terms, selling)

        fee[steps == 0] = 0
        return notional, fee


def open_accounts(accounts: AccountArrays, day: DayArrays) -> AccountArrays:
    """Bring accounts from the previous close to the day's opens, as `open_day` does."""
    cash = accounts.cash
    assets = accounts.assets
    shares = accounts.shares
    for asset in sorted(day.day.events):
        rows, columns = np.nonzero(assets == asset)
        if not len(rows):
            continue

        if cash is accounts.cash:
            cash, assets, shares = cash.copy(), assets.copy(), shares.copy()

        # There are few distinct share counts, since all shares are bought in lots.
        numbers, own = np.unique(shares[rows, columns], return_inverse=True)
        after = np.empty_like(numbers)
        paid = np.empty_like(numbers)
        for index, number in enumerate(numbers.tolist()):
            opened, _, _ = open_day(Account(0, {asset: Position(number)}), day.day)
            left = opened.positions.get(asset)
            after[index] = 0 if left is None else left.shares
            paid[index] = opened.cash_minor

        shares[rows, columns] = after[own]
        cash[columns] += paid[own]  # an account holds each asset at most once
        assets[shares == 0] = day.nothing

    return AccountArrays(cash, assets, shares)


def execute_arrays(
    accounts: AccountArrays, day: DayArrays, nav: IntArray, sells: SellArrays, buys: BuyArrays
) -> tuple[AccountArrays, IntArray]:
    """Execute orders at the opens, sells first. Return the accounts, and the notional of their
    fills: [P]. `nav`: NAV at the opens. Raises InexactArraysError if amounts are too large.
    """
    cash = accounts.cash.copy()
    shares = accounts.shares.copy()
    traded = _sell(accounts, day, sells, (cash, shares))

    bought = _Purchases(day, nav, buys, shares)
    entered = np.zeros((len(buys.steps), len(cash)), dtype=np.int64)
    names = np.count_nonzero(shares, axis=0)
    columns = np.arange(len(cash))

    for order in range(len(buys.steps)):
        places = buys.places[order]
        is_new = places < 0
        steps, paid, notional = bought.fill(order, cash, is_new & (names >= bought.max_names))
        cash -= paid
        traded += notional
        names += is_new & (steps > 0)
        entered[order] = np.where(is_new, steps, 0)
        if not is_new.all():
            shares[places, columns] += np.where(is_new, 0, steps)

    return _merge_positions(day, cash, (accounts.assets, shares), (buys.assets, entered)), traded


def _sell(
    accounts: AccountArrays,
    day: DayArrays,
    sells: SellArrays,
    books: tuple[IntArray, IntArray],
) -> IntArray:
    """Fill sells and return their notional. Shape: [P]. `books`: cash and shares, modified
    in place.
    """
    cash, shares = books
    columns = np.arange(len(cash))
    traded = np.zeros_like(cash)
    if not len(sells.steps):
        return traded

    assets = accounts.assets[sells.places, columns]
    held = shares[sells.places, columns]
    steps = sells.steps
    # Too few shares for a partial sale
    is_refused = (steps < day.min_sell[assets]) & (steps < held)
    if day.has_execution:
        is_refused |= day.unfilled[assets]

    steps = np.where(is_refused, 0, steps)
    notional, fee = day.cost(assets, steps, day.sell_ticks, selling=True)

    for order in range(len(steps)):
        # If the fee exceeds the proceeds, cash must cover the difference.
        is_paid = cash + notional[order] >= fee[order]
        cash += np.where(is_paid, notional[order] - fee[order], 0)
        traded += np.where(is_paid, notional[order], 0)
        shares[sells.places[order], columns] -= np.where(is_paid, steps[order], 0)

    return traded


class _Purchases:
    """A day's buys, with everything that does not depend on cash computed for all orders
    at once.
    """

    def __init__(self, day: DayArrays, nav: IntArray, buys: BuyArrays, shares: IntArray) -> None:
        self.max_names = day.rules.limits.max_positions
        self._day = day
        self._assets = buys.assets
        columns = np.arange(len(nav))
        held = np.zeros_like(buys.steps)
        if len(shares):
            held = np.where(buys.places >= 0, shares[buys.places, columns], 0)

        steps = np.where(self._is_refused(buys, held, nav), 0, buys.steps)
        self._steps = steps
        self._notional, self._fee = day.cost(buys.assets, steps, day.buy_ticks, selling=False)

        least = day.min_notional
        if least.any():
            at_open, _ = day.cost(buys.assets, steps, day.opens, selling=False)
            smaller = np.minimum(at_open, self._notional)
            is_small = smaller < least[buys.assets]
            for values in (self._steps, self._notional, self._fee):
                values[is_small] = 0

    def _is_refused(self, buys: BuyArrays, held: IntArray, nav: IntArray) -> BoolArray:
        day = self._day
        # Maximum weight: steps * price / unit <= weight * NAV, as a reduced fraction
        weight = day.rules.limits.max_weight_ppb * day.unit
        shared = math.gcd(weight, PPB)
        nav = np.broadcast_to(nav, buys.steps.shape)
        parts = PPB // shared
        prices = day.divisors[buys.assets]
        if int(prices.max(initial=0)) * parts >= _MAX_DIVISOR:
            raise InexactArraysError

        most = product_ratio(nav, weight // shared, parts * prices)
        is_refused: BoolArray = held + buys.steps > most
        if day.has_execution:
            is_refused |= day.unfilled[buys.assets]
        return is_refused

    def fill(
        self, order: int, cash: IntArray, is_refused: BoolArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return steps, cash paid and notional of each account's n-th order, where n is `order`."""
        steps = np.where(is_refused, 0, self._steps[order])
        notional = np.where(is_refused, 0, self._notional[order])
        paid = np.where(is_refused, 0, notional + self._fee[order])

        for account in np.flatnonzero(paid > cash).tolist():
            cut = self._cut(int(self._assets[order, account]), int(cash[account]), order, account)
            steps[account], notional[account], paid[account] = cut

        return steps, paid, notional

    def _cut(self, asset: int, cash: int, order: int, account: int) -> tuple[int, int, int]:
        """Return steps, cash paid and notional of an order that cash covers only in part."""
        day = self._day
        terms = day.rules.terms[asset]
        most = int(self._steps[order, account])
        steps = affordable(cash, int(day.opens[asset]), terms, day.quote(asset), most)
        if steps < terms.min_buy:
            return 0, 0, 0

        at = np.array([asset], dtype=np.int32)
        notional, fee = day.cost(at, np.array([steps]), day.buy_ticks, selling=False)
        if notional[0] < terms.minimum_notional:
            return 0, 0, 0
        return steps, int(notional[0]), int(notional[0] + fee[0])


def _merge_positions(
    day: DayArrays,
    cash: IntArray,
    held: tuple[AssetArray, IntArray],
    entered: tuple[AssetArray, IntArray],
) -> AccountArrays:
    """Return accounts with the held and the entered positions, ordered by asset."""
    shares = np.concatenate([held[1], entered[1]])
    assets = np.concatenate([held[0], entered[0]])
    if int(shares.max(initial=0)) >= _MAX_SHARES:
        raise InexactArraysError

    keys = np.where(shares > 0, assets, day.nothing).astype(np.int64) << _SHARE_BITS
    keys |= shares
    # Along rows, because rows are contiguous in memory
    ordered = np.sort(np.ascontiguousarray(keys.T), axis=1)
    width = int(np.count_nonzero(shares, axis=0).max(initial=0))
    kept = np.ascontiguousarray(ordered[:, :width].T)

    return AccountArrays(
        cash, (kept >> _SHARE_BITS).astype(np.int32), kept & np.int64(_MAX_SHARES - 1)
    )


def _cost(
    steps: IntArray, price: IntArray, terms: Terms, selling: bool
) -> tuple[IntArray, IntArray]:
    """Return notional and fee of fills under one set of terms, as `venue_terms.cost` does."""
    unit = terms.unit
    rate = terms.sell_rate if selling else terms.buy_rate
    duties = terms.duties or NO_DUTIES
    due = duties.sell if selling else duties.buy
    commission = terms.commission

    if commission is None:
        notional = product_ratio(steps, price, unit, unit >> 1)
        fee = product_ratio(notional, rate, RATE_SCALE, HALF_RATE)
        fee = np.maximum(fee, terms.minimum_fee)
        for duty in due:
            fee += product_ratio(notional, duty.rate, RATE_SCALE, HALF_RATE)
        return notional, fee

    scale = RATE_SCALE * commission.steps
    product = [(steps, price)]
    notional = floor_ratio(product, unit) if selling else ceil_ratio(product, unit)
    by_value = (notional, rate * commission.steps)
    fee = np.maximum(
        ceil_ratio([by_value, (steps, commission.unit_rate)], scale), terms.minimum_fee
    )
    if commission.max_rate is not None:
        fee = np.minimum(fee, ceil_ratio([(notional, commission.max_rate)], RATE_SCALE))

    for duty in due:
        by_unit = ceil_ratio([(steps, duty.unit_rate)], scale)
        if duty.most is not None:
            by_unit = np.minimum(by_unit, duty.most)
        fee = fee + ceil_ratio([(notional, duty.rate)], RATE_SCALE) + by_unit

    return notional, fee


def _by_asset(values: object) -> IntArray:
    """Return values by asset, with 0 for an empty slot. Shape: [N + 1]."""
    known = np.asarray(values, dtype=np.int64)
    return np.concatenate([known, np.zeros(1, dtype=np.int64)])


def _flags(values: bytes) -> BoolArray:
    """Return flags by asset, with False for an empty slot. Shape: [N + 1]."""
    known = np.frombuffer(values, dtype=np.bool_)
    return np.concatenate([known, np.zeros(1, dtype=np.bool_)])
