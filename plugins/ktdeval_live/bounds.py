"""Bounds on what the decisions that are missing could have made.

A missing decision would have ruled the portfolio from the first moment at which its orders could
fill until the next decision's orders fill: from one open to the next one, or from one close to the
next. Within that time any portfolio is possible that the task allows: each weight at most the
largest one, longs paid in full, shorts with their initial margin. Outside of it, the return is that
of the account.

A day has two parts, until the open and after it. In each part the portfolio may be another one, and
costs are left out: the bounds are a little wider than what one decision could have made. The
account's own return is always within them, also where its weights have grown beyond the largest
one. On a market with several rules of fills a part is open to all assets if it is to some.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ktdeval.market import BoolArray, FloatArray, MarketSnapshot
from ktdeval.trading import MarketRules, TradingConfig

_LEAST_MARGIN = 1e-9  # in place of none, to divide by
_LOSES_ALL = -1.0


@dataclass(frozen=True)
class AccountMoves:
    """Returns of an account on T days, as fractions."""

    whole: FloatArray  #: [T] from the close before to the close
    until_open: FloatArray  #: [T] from the close before to the open
    after_open: FloatArray  #: [T] from the open to the close


def return_bounds(
    market: MarketSnapshot,
    trading: TradingConfig,
    first_row: int,
    account: AccountMoves,
    missing: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Return [T] the least and the greatest return of each day; both are the account's where no
    missing decision has a part in the day. The first of the days is row `first_row + 1` of the
    market; `missing` says whether a decision is missing whose orders would have filled on the day.
    """
    most = _Portfolios.of(market, trading)
    until_open, after_open = _moves(market, first_row, len(missing))
    low = account.whole.copy()
    high = account.whole.copy()

    missing_before = np.concatenate([[False], missing[:-1]])
    for number in range(len(missing)):
        night_is_open = bool(missing_before[number])
        day_is_open = (most.fills_at_open and bool(missing[number])) or (
            most.fills_at_close and night_is_open
        )
        if not night_is_open and not day_is_open:
            continue

        night = _of(account.until_open, number)
        if night_is_open:
            night = most.range_of(until_open[number])

        day = _of(account.after_open, number)
        if day_is_open:
            day = most.range_of(after_open[number])

        least = (1.0 + night[0]) * (1.0 + day[0]) - 1.0
        greatest = (1.0 + night[1]) * (1.0 + day[1]) - 1.0
        low[number] = min(least, low[number])
        high[number] = max(greatest, high[number])

    return low, high


def _of(returns: FloatArray, number: int) -> tuple[float, float]:
    """Return the range of a part of a day in which the account is what it is."""
    return float(returns[number]), float(returns[number])


def _moves(market: MarketSnapshot, first_row: int, days: int) -> tuple[FloatArray, FloatArray]:
    """Return [T, N] moves of the assets' prices until the open and after it; NaN without a bar. An
    asset that had no bar moves from its last close.
    """
    rows = slice(first_row + 1, first_row + 1 + days)
    last_close = market.adjusted_close.copy()
    for row in range(1, len(last_close)):
        is_missing = np.isnan(last_close[row])
        last_close[row, is_missing] = last_close[row - 1, is_missing]

    before = last_close[first_row : first_row + days]
    until_open = market.adjusted_open[rows] / before - 1.0
    after_open = market.adjusted_close[rows] / market.adjusted_open[rows] - 1.0
    return until_open, after_open


@dataclass(frozen=True)
class _Portfolios:
    """All portfolios that a task allows on a market of N assets."""

    max_weight: float
    margins: FloatArray  #: [N] cash that a short of a weight of 1 ties up; infinite: no shorts
    fills_at_open: bool  #: whether orders of any asset fill at opens
    fills_at_close: bool

    @classmethod
    def of(cls, market: MarketSnapshot, trading: TradingConfig) -> _Portfolios:
        rules = MarketRules.of(market, trading)
        margins = np.full(len(rules.venues), np.inf)
        for asset, venue in enumerate(rules.venues):
            if venue.short is not None:
                margins[asset] = max(venue.short.initial_margin_pct / 100.0, _LEAST_MARGIN)

        fills = {scale.fill for scale in rules.scales}
        return cls(
            max_weight=trading.max_weight,
            margins=margins,
            fills_at_open="next_open" in fills,
            fills_at_close="next_close" in fills,
        )

    def range_of(self, moves: FloatArray) -> tuple[float, float]:
        """Return the least and the greatest return of any portfolio over [N] moves of prices."""
        return max(-self._most(-moves), _LOSES_ALL), self._most(moves)

    def _most(self, gains: FloatArray) -> float:
        """Return the largest gain, where a long gains `gains` and a short loses it. What ties up
        cash best comes first, as in a knapsack whose items can be divided.
        """
        known = np.isfinite(gains)
        longs = np.where(known & (gains > 0), gains, 0.0)
        shorts = np.where(known & (gains < 0) & np.isfinite(self.margins), -gains, 0.0)
        gain = np.where(gains > 0, longs, shorts)
        cost = np.where(gains > 0, 1.0, self.margins)
        left = 1.0
        total = 0.0
        for asset in np.argsort(-gain / cost, kind="stable"):
            if gain[asset] <= 0 or left <= 0:
                break

            weight = min(self.max_weight, left / cost[asset])
            total += weight * float(gain[asset])
            left -= weight * float(cost[asset])

        return total
