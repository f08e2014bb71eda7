"""Market as the executor reads it: integer prices, limits already judged, one cheap record a day.

Edge semantics, shared by everything that trades:

* **Prices** are integer ticks of 1/10,000 CNY, rounded half up from the snapshot's unadjusted CNY.
* **Factor changes.** A day's factor differs from the day before when their ratio leaves 1 by more than `FACTOR_JITTER`; smaller
  wobble (rounding in the source) is ignored until it has added up to more than that. The ratio is kept in parts per billion.
  The *reference price* of a day is the previous mark divided by that ratio, rounded down to a tick.
* **Suspended names** (no open, or no volume) don't trade. Their mark is the reference price: the last close, in today's terms.
  A name whose bars have ended for good (delisted, merged) is such a name for ever: it keeps its last mark and can't be sold.
* **Limits** compare the fill day's open with the reference price, exactly, in integers. Without a previous close there is no limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError
from ktdeval.market.snapshot import DAILY_LIMIT_PCT, Board, BoolArray, FloatArray, MarketSnapshot
from ktdeval.trading.types import TICKS_PER_CNY, TradingConfig

IntArray = npt.NDArray[np.int64]
PPB = 1_000_000_000
PPM = 1_000_000
FACTOR_JITTER = 1e-5
MAX_PRICE_CNY = 100_000_000.0  #: Above this a price is an error of the source, and limit comparisons would leave 64-bit integers
MAX_FACTOR_RATIO = 1e5


class FactorEvent(NamedTuple):
    """A factor change of one asset on one day."""

    ratio_ppb: int  #: today's factor over the previous day's, in parts per billion
    previous_ticks: int  #: the mark at the previous close, in that day's terms
    #: the same value per share in today's terms: `previous_ticks / ratio`, rounded down to a tick. It is the reference price of the
    #: day's limits, and the mark where nothing trades.
    ex_ticks: int


class TradingDay(NamedTuple):
    """One fill day, indexed by asset column. Treat as immutable. Flags are bytes of 0 and 1, the cheapest to read one by one."""

    row: int  #: row of the day in the snapshot
    open_ticks: list[int]  #: the open; where nothing trades the reference price, so that a NAV can be marked with it
    close_ticks: list[int]  #: the mark at the close; 0 before an asset's first bar
    tradable: bytes  #: 1 where the asset has an open and volume
    member: bytes  #: 1 where the asset is in the universe
    limit_up: bytes  #: 1 where the open is too near the upper limit to buy
    limit_down: bytes  #: 1 where the open is too near the lower limit to sell
    min_buy_shares: tuple[int, ...]  #: smallest buy of each asset in shares (larger on the STAR board)
    events: dict[int, FactorEvent]  #: factor changes of this day by asset; assets without a previous price are absent


@dataclass(frozen=True)
class MarketTape:
    """All days of a snapshot under one set of trading rules, [days, assets] arrays as in `TradingDay`."""

    open_ticks: IntArray
    close_ticks: IntArray
    tradable: BoolArray
    member: BoolArray
    limit_up: BoolArray
    limit_down: BoolArray
    min_buy_shares: tuple[int, ...]  #: [assets]
    events: dict[int, dict[int, FactorEvent]]  #: row -> asset -> factor change

    @classmethod
    def from_snapshot(cls, snapshot: MarketSnapshot, config: TradingConfig) -> MarketTape:
        """Read a snapshot once. Raises DataError on a price or a factor (ratio) out of bounds."""
        _check_factor(snapshot)
        opens, closes = price_ticks(snapshot.open), price_ticks(snapshot.close)
        tradable = (opens > 0) & (snapshot.volume > 0)
        marks, references, events = _marks(closes, _settled_factor(snapshot.factor))
        limits = np.array([limit_ppm(board, config) for board in snapshot.boards], dtype=np.int64)
        has_limit = tradable & (references > 0)
        star_shares = max(config.star_min_shares, config.lot_shares)
        return cls(
            open_ticks=np.where(tradable, opens, references),
            close_ticks=marks,
            tradable=tradable,
            member=snapshot.member,
            limit_up=has_limit & (opens * PPM >= references * (PPM + limits)),
            limit_down=has_limit & (opens * PPM <= references * (PPM - limits)),
            min_buy_shares=tuple(star_shares if board is Board.STAR else config.lot_shares for board in snapshot.boards),
            events=events,
        )

    def day(self, row: int) -> TradingDay:
        """Return the fill day at `row`. Raises DataError: the row lies outside the snapshot."""
        if not 0 <= row < len(self.open_ticks):
            raise DataError(f"fill day {row} is outside the snapshot's {len(self.open_ticks)} trading days; end the window earlier")
        return TradingDay(
            row,
            self.open_ticks[row].tolist(),
            self.close_ticks[row].tolist(),
            self.tradable[row].tobytes(),
            self.member[row].tobytes(),
            self.limit_up[row].tobytes(),
            self.limit_down[row].tobytes(),
            self.min_buy_shares,
            self.events.get(row, {}),
        )


def scaled_int(value: float, scale: int) -> int:
    """`value * scale` to the nearest integer, halves up, from the decimal form that a person wrote (0.1 is one tenth)."""
    return int((Decimal(str(value)) * scale).to_integral_value(ROUND_HALF_UP))


def limit_ppm(board: Board, config: TradingConfig) -> int:
    """Return how far from the reference price trading stops on a board, in parts per million (main board: 95,000 by default)."""
    return scaled_int(DAILY_LIMIT_PCT[board], 10_000) - scaled_int(config.limit_buffer_pct, 10_000)


def price_ticks(prices: FloatArray) -> IntArray:
    """CNY to integer ticks, halves up; 0 where the price is NaN. Raises DataError: a price is not below `MAX_PRICE_CNY`."""
    known = np.where(np.isnan(prices), 0.0, prices)
    if known.size and not known.max() < MAX_PRICE_CNY:
        raise DataError(f"a price of {known.max():g} CNY a share can't be traded; check the source's price columns and units")
    return np.floor(known * TICKS_PER_CNY + 0.5).astype(np.int64)


def ex_price_ticks(previous_ticks: int, ratio_ppb: int) -> int:
    """Previous price in today's terms, rounded down to a tick, so that the cash in lieu is never negative."""
    return previous_ticks * PPB // ratio_ppb


def _check_factor(snapshot: MarketSnapshot) -> None:
    factor = snapshot.factor
    bad = ~(np.isfinite(factor) & (factor > 0))
    if not bad.any() and len(factor) > 1:
        ratio = factor[1:] / factor[:-1]
        bad[1:] = (ratio > MAX_FACTOR_RATIO) | (ratio < 1 / MAX_FACTOR_RATIO)
    if bad.any():
        row, asset = (int(places[0]) for places in np.nonzero(bad))
        raise DataError(
            f"adjustment factor of {snapshot.codes[asset]} on {snapshot.days[row]} is {factor[row, asset]:g}: not positive, or far "
            "from the day before; check the source's factor column"
        )


def _settled_factor(factor: FloatArray) -> FloatArray:
    """[T, N] factors without jitter: each follows the source only when it has left the last settled value."""
    settled = factor.copy()
    for row in range(1, len(settled)):
        previous = settled[row - 1]
        still = np.abs(settled[row] - previous) <= FACTOR_JITTER * previous
        settled[row, still] = previous[still]
    return settled


def _marks(closes: IntArray, factor: FloatArray) -> tuple[IntArray, IntArray, dict[int, dict[int, FactorEvent]]]:
    """Marks and reference prices, both [T, N] ticks, and the factor events by row."""
    marks, references = closes.copy(), np.zeros_like(closes)
    events: dict[int, dict[int, FactorEvent]] = {}
    changed = factor[1:] != factor[:-1]
    for row in range(1, len(closes)):
        references[row] = marks[row - 1]
        for asset in np.flatnonzero(changed[row - 1]).tolist():
            previous = int(marks[row - 1, asset])
            if previous > 0:
                # Rare enough for Python integers, which can't overflow on high adjusted prices.
                ratio_ppb = round(float(factor[row, asset] / factor[row - 1, asset]) * PPB)
                event = FactorEvent(ratio_ppb, previous, ex_price_ticks(previous, ratio_ppb))
                events.setdefault(row, {})[asset] = event
                references[row, asset] = event.ex_ticks
        quiet = closes[row] == 0
        marks[row, quiet] = references[row, quiet]
    return marks, references, events
