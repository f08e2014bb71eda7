"""Bounds on the returns that missing decisions could have led to.

A missing decision would have determined the portfolio from the earliest time at which its orders
could fill until the orders of the next decision fill: from one open to the next, or from one close
to the next. Within that period, every feasible portfolio is possible. Outside it, the return is the
account's.

An asset's cap is the largest weight that it can have. At a fill time, it is the task's maximum
weight or the weight already held, if that has grown beyond the maximum. From then on, the cap
drifts with prices: through the rest of the day, overnight, and through further gaps. Longs are paid
in full, shorts with their initial margin.

A day has two parts, before and after the open. The portfolio may differ between the two parts, and
costs are ignored, so the bounds are slightly wider than what a single decision could have achieved.
The account's own return always lies within the bounds. In a market with several fill rules, a part
is open to all assets if it is open to any of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ktdeval.market import BoolArray, FloatArray, MarketSnapshot
from ktdeval.trading import MarketRules, TradingConfig

MAX_WIDTH = 0.5
"""Width of the bounds on a total return, as a fraction, above which the bounds are meaningless. It
exceeds the gap between a very good and a very bad year of a stock market.
"""

_MIN_MARGIN = 1e-9  # lower bound for margins, which are divisors
_LOSES_ALL = -1.0
_MIN_NAV = 1e-9  # relative to a NAV of 1; at a lower NAV, weights are undefined
_MAX_ROUNDS = 100  # in the ratio search, which needs only a few


@dataclass(frozen=True)
class AccountMoves:
    """Returns of an account over T days, as fractions, and its holdings."""

    whole: FloatArray  #: [T] returns from the previous close to the close
    until_open: FloatArray  #: [T] returns from the previous close to the open
    after_open: FloatArray  #: [T] returns from the open to the close
    weights: FloatArray  #: [T, N] weights at the close, as fractions of NAV; shorts are negative


def are_too_wide(low: float, high: float) -> bool:
    """Return whether the bounds on a total return are too wide to be meaningful."""
    return high - low > MAX_WIDTH


def return_bounds(
    market: MarketSnapshot,
    trading: TradingConfig,
    first_row: int,
    account: AccountMoves,
    missing: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the [T] lowest and the [T] highest possible daily returns.

    Both equal the account's return if no missing decision affects the day. The highest return is
    infinite after a short position that could have lost everything. The first day is row `first_row
    + 1` of the market. `missing`: [T] whether the decision whose orders could have filled on the
    day is missing.
    """
    limits = _TaskLimits.of(market, trading)
    until_open, after_open = _moves(market, first_row, len(missing))
    low = account.whole.copy()
    high = account.whole.copy()

    missing_before = np.concatenate([[False], missing[:-1]])
    held = np.zeros(after_open.shape[1])  # weights at the previous close; an account begins in cash
    # possible portfolios at the previous close; None: the account's own portfolio
    possible: _PossiblePortfolios | None = None
    for number in range(len(missing)):
        night_is_open = bool(missing_before[number])
        fills_at_open = limits.fills_at_open and bool(missing[number])
        day_is_open = fills_at_open or (limits.fills_at_close and night_is_open)

        night = _of(account.until_open, number)
        held_at_open = _drift_weights(held, until_open[number], night[0])
        if night_is_open:
            possible = limits.held_or_filled(held, possible, fills=limits.fills_at_close)
            night = possible.range_of(until_open[number])
            possible = possible.after(until_open[number])
        else:
            possible = None

        day = _of(account.after_open, number)
        if day_is_open:
            possible = limits.held_or_filled(held_at_open, possible, fills=fills_at_open)
            day = possible.range_of(after_open[number])
            possible = possible.after(after_open[number])
        else:
            possible = None

        if night_is_open or day_is_open:
            least = (1.0 + night[0]) * (1.0 + day[0]) - 1.0
            greatest = (1.0 + night[1]) * (1.0 + day[1]) - 1.0
            low[number] = min(least, low[number])
            high[number] = max(greatest, high[number])
        held = account.weights[number]

    return low, high


def _of(returns: FloatArray, number: int) -> tuple[float, float]:
    """Return the range of returns over a part of a day in which the account itself is the only
    possibility.
    """
    return float(returns[number]), float(returns[number])


def _drift_weights(weights: FloatArray, moves: FloatArray, nav_return: float) -> FloatArray:
    """Return the [N] weights after price moves during which the NAV had the given return."""
    return weights * (1.0 + np.nan_to_num(moves)) / max(1.0 + nav_return, _MIN_NAV)


def _moves(market: MarketSnapshot, first_row: int, days: int) -> tuple[FloatArray, FloatArray]:
    """Return the [T, N] price moves of the assets before and after the open; NaN without a bar.
    After missing bars, the first move starts from the last close.
    """
    rows = slice(first_row + 1, first_row + 1 + days)
    last_close = carry_forward(market.adjusted_close)
    before = last_close[first_row : first_row + days]
    until_open = market.adjusted_open[rows] / before - 1.0
    after_open = market.adjusted_close[rows] / market.adjusted_open[rows] - 1.0
    return until_open, after_open


def carry_forward(prices: FloatArray) -> FloatArray:
    """Return [T, N] prices, with missing values forward-filled."""
    known = prices.copy()
    for row in range(1, len(known)):
        is_missing = np.isnan(known[row])
        known[row, is_missing] = known[row - 1, is_missing]

    return known


@dataclass(frozen=True)
class _PossiblePortfolios:
    """All feasible portfolios of 2 N positions: N longs, then N shorts.

    Each position is at most its cap, and together the positions are limited by the cash. Sizes are
    fractions of NAV.
    """

    caps: FloatArray  #: [2 N] largest size of each position
    costs: FloatArray  #: [2 N] cash tied up by a position of size 1
    cash: float  #: 1, or the cash tied up by positions already held, whichever is more

    def range_of(self, moves: FloatArray) -> tuple[float, float]:
        """Return the lowest and the highest return over [N] price moves."""
        gains = _gains(moves)
        return max(-self._most(-gains), _LOSES_ALL), self._most(gains)

    def after(self, moves: FloatArray) -> _PossiblePortfolios:
        """Return a set of portfolios that includes all of these portfolios after [N] price
        moves.
        """
        if np.isinf(self.cash):
            return self

        gains = _gains(moves)
        if 1.0 - self._most(-gains) < _MIN_NAV:  # with a NAV of 0, fractions are undefined
            endless = np.where(self.caps > 0, np.inf, 0.0)
            return _PossiblePortfolios(endless, self.costs, np.inf)

        grown = 1.0 + np.tile(np.nan_to_num(moves), 2)
        count = len(self.caps)
        caps = np.zeros(count)
        for position in np.flatnonzero(self.caps):
            own = np.zeros(count)
            own[position] = grown[position]
            others = gains.copy()
            others[(position + count // 2) % count] = (
                0.0  # no portfolio is both long and short in an asset
            )
            caps[position] = self._max_of_nav(own, others)

        cash = self._max_of_nav(self.costs * grown, gains)
        return _PossiblePortfolios(caps, self.costs, cash)

    def _most(self, gains: FloatArray) -> float:
        """Return the largest possible sum of gains. `gains`: [2 N] gains of positions of size 1."""
        if np.isinf(self.cash):
            can_gain = ((self.caps > 0) & (gains > 0)).any()
            return float("inf") if can_gain else 0.0
        return float(gains @ self._best(gains))

    def _max_of_nav(self, parts: FloatArray, gains: FloatArray) -> float:
        """Return the largest possible fraction of the later NAV: the sum of parts, divided by 1
        plus the sum of gains. `parts, gains`: [2 N] values for positions of size 1.

        Uses Dinkelbach's method, in which the ratio only increases.
        """
        ratio = 0.0
        for _ in range(_MAX_ROUNDS):
            sizes = self._best(parts - ratio * gains)
            found = float(parts @ sizes) / (1.0 + float(gains @ sizes))
            if found <= ratio:
                break
            ratio = found
        return ratio

    def _best(self, gains: FloatArray) -> FloatArray:
        """Return the [2 N] position sizes with the largest sum of gains.

        As in a fractional knapsack, positions with the largest gain per unit of tied-up cash come
        first.
        """
        order = np.argsort(-gains / self.costs, kind="stable")
        order = order[gains[order] > 0]
        wanted = self.caps[order] * self.costs[order]
        left = self.cash - (np.cumsum(wanted) - wanted)
        sizes = np.zeros(len(gains))
        sizes[order] = np.clip(left, 0.0, wanted) / self.costs[order]
        return sizes


def _gains(moves: FloatArray) -> FloatArray:
    """Return the [2 N] gains of longs and shorts of size 1; 0 without a bar."""
    known = np.nan_to_num(moves)
    return np.concatenate([known, -known])


@dataclass(frozen=True)
class _TaskLimits:
    """A task's limits on a market of N assets at a fill time."""

    caps: FloatArray  #: [2 N] largest sizes that orders for longs and shorts can reach
    costs: FloatArray  #: [2 N] cash tied up by a position of size 1
    fills_at_open: bool  #: whether orders for any asset fill at the open
    fills_at_close: bool

    @classmethod
    def of(cls, market: MarketSnapshot, trading: TradingConfig) -> _TaskLimits:
        rules = MarketRules.of(market, trading)
        count = len(rules.venues)
        shorts = np.zeros(count)
        margins = np.ones(count)
        for asset, venue in enumerate(rules.venues):
            if venue.short is not None:
                shorts[asset] = trading.max_weight
                margins[asset] = max(venue.short.initial_margin_pct / 100.0, _MIN_MARGIN)

        fills = {scale.fill for scale in rules.scales}
        return cls(
            caps=np.concatenate([np.full(count, trading.max_weight), shorts]),
            costs=np.concatenate([np.ones(count), margins]),
            fills_at_open="next_open" in fills,
            fills_at_close="next_close" in fills,
        )

    def held_or_filled(
        self, held: FloatArray, possible: _PossiblePortfolios | None, fills: bool
    ) -> _PossiblePortfolios:
        """Return the feasible portfolios: those that an earlier gap left possible or, without such
        a gap, the account's [N] weights. At a fill time, portfolios that orders could reach are
        also feasible.
        """
        if possible is None:
            sizes = np.concatenate([np.maximum(held, 0.0), np.maximum(-held, 0.0)])
            possible = _PossiblePortfolios(sizes, self.costs, max(1.0, float(sizes @ self.costs)))
            fills = True  # a gap begins with a fill time
        if not fills:
            return possible

        caps = np.maximum(possible.caps, self.caps)
        return _PossiblePortfolios(caps, self.costs, max(1.0, possible.cash))
