"""The market as the executor reads it: integer prices, price limits as flags, and one lightweight
record per day.

All trading follows these rules:

* **Prices** are integers in the venue's ticks (1/10,000 CNY in A-shares), rounded half up from the
  snapshot's unadjusted prices.
* **Fills** are at the day's open, at its close (`next_close`), at the decision day's close
  (`same_close`), or at a mean over the day's intraday bars (`ktdeval.trading.minute_fills`). Under
  `same_close`, the price is the previous mark in today's terms, and only assets that traded on the
  decision day fill. Under all rules, a day's `open_ticks` are its fill prices.
* **Factor changes.** A factor has changed if its ratio to the last factor differs from 1 by more
  than `FACTOR_JITTER`. Smaller changes are rounding in the source and are ignored until their sum
  exceeds this threshold. The ratio is stored in parts per billion. A day's *reference price* is the
  previous mark divided by the ratio, rounded down to a tick.
* **Suspended names** have no fill price or no volume. They don't trade, and neither do names whose
  exchange is closed. Their mark is the reference price: the last close, in today's terms. A name
  whose bars have ended (delisting, merger) is suspended permanently: its mark stays, and it can't
  be sold. Outside A-shares, an unknown volume does not suspend a name.
* **Limits** apply on the A-share boards. They compare the fill day's open with the reference price,
  exactly, in integers. Without a previous close there is no limit. Under `board_rules: paper`
  trading stops `limit_buffer_pct` before a constant limit of the board. Under `exchange`, it stops
  at the limit price. This price is taken from the data or, if absent there, computed from the
  board's rules for the day (`ktdeval.market.rules.board_rules`).
* **Duties** on fills are charged at the rates of the fill day (`ktdeval.market.rules.fees`), except
  for A-shares under `board_rules: paper`, for which the costs of the KTD-Fin paper apply on all
  days.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError
from ktdeval.market.rules.board_rules import daily_limits, limit_prices, rounds_inward
from ktdeval.market.rules.fees import change_days
from ktdeval.market.snapshots.snapshot import (
    DAILY_LIMIT_PCT,
    Board,
    BoolArray,
    FloatArray,
    MarketSnapshot,
    board_of,
)
from ktdeval.market.venues.venue import MAX_PRICE, Venue
from ktdeval.trading.execution_costs import (
    LiquidityTape,
    liquidity_tape,
)
from ktdeval.trading.factor_events import FactorEvent, check_factor, marks_of, settled_factor
from ktdeval.trading.market_rules import MarketRules
from ktdeval.trading.minute_fills import minute_fills
from ktdeval.trading.trading_day import TradingDay
from ktdeval.trading.types import TradingConfig
from ktdeval.trading.venue_terms import (
    scaled_int,
)

IntArray = npt.NDArray[np.int64]
PPM = 1_000_000
# A price more than 1/50 of a fen away from a whole fen is an adjusted price. Its limit price can't
# be computed to the fen, so trading stops 5 parts in 1,000 before the limit.
_FEN_PARTS = 50
_ADJUSTED_BUFFER = 5
_DAYS_AT_ONCE = 256  # bounds the memory for intermediate arrays


@dataclass(frozen=True)
class MarketTape:
    """All days of a snapshot under one set of trading rules; arrays are [days, assets], as in
    `TradingDay`.
    """

    rules: MarketRules  #: excluding duties that depend on the day
    open_ticks: IntArray
    close_ticks: IntArray
    tradable: BoolArray
    member: BoolArray
    limit_up: BoolArray
    limit_down: BoolArray
    events: dict[int, dict[int, FactorEvent]]  #: row -> asset -> factor change
    #: for each run of days with the same duties, its first row and its rules, ascending
    spells: tuple[tuple[int, MarketRules], ...]
    liquidity: LiquidityTape | None = None  #: None if no fill price depends on size
    #: lows and highs; None if there are no limit orders
    bars: tuple[IntArray, IntArray] | None = None

    @classmethod
    def from_snapshot(cls, snapshot: MarketSnapshot, config: TradingConfig) -> MarketTape:
        """Convert a snapshot. Raises DataError if a price or a factor ratio is out of bounds, or a
        venue's currency differs from the prices' currency.
        """
        check_factor(snapshot)
        rules = MarketRules.of(snapshot, config)
        ticks = np.array([scale.ticks_per_unit for scale in rules.scales], dtype=np.int64)
        opens = price_ticks(snapshot, "open", ticks)
        closes = price_ticks(snapshot, "close", ticks)
        marks, references, events = marks_of(closes, settled_factor(snapshot.factor))
        liquidity = _liquidity(rules, snapshot, ticks)
        for asset, found in minute_fills(snapshot, rules.venues).items():
            opens[:, asset] = found.ticks
            if liquidity is not None:  # volume of the intraday bars in which fills occur
                liquidity.traded[:, asset] = found.steps

        tradable = _fills(rules.venues, opens, closes, references, snapshot.volume)
        fills = np.where(tradable, opens, 0)

        if config.board_rules == "paper":
            up, down = _at_limits(snapshot, rules.venues, config, fills, references)
        else:
            up, down = _at_limit_prices(snapshot, rules.venues, fills, references)

        bars = None
        if config.limit_orders:
            bars = price_ticks(snapshot, "low", ticks), price_ticks(snapshot, "high", ticks)

        np.copyto(opens, references, where=~tradable)
        for prices in (opens, marks):  # each day is a view of these arrays
            prices.flags.writeable = False

        return cls(
            rules=rules,
            open_ticks=opens,
            close_ticks=marks,
            tradable=tradable,
            member=snapshot.member,
            limit_up=up,
            limit_down=down,
            events=events,
            spells=_spells(rules, snapshot),
            liquidity=liquidity,
            bars=bars,
        )

    def rules_on(self, row: int) -> MarketRules:
        """Return the rules in force on the day at `row`."""
        index = bisect_right(self.spells, row, key=_first_row)
        return self.spells[max(0, index - 1)][1]

    def day(self, row: int) -> TradingDay:
        """Return the fill day at `row`. Raises DataError if the snapshot does not have this row."""
        if not 0 <= row < len(self.open_ticks):
            raise DataError(
                f"fill day {row} is outside the snapshot's {len(self.open_ticks)} trading days; end"
                " the window earlier"
            )

        # interest on shorts is charged on their value at the previous close
        previous: Sequence[int] = ()
        if self.rules.shorts and row:
            previous = self.close_ticks[row - 1].data

        liquidity = None
        if self.liquidity is not None:
            liquidity = self.liquidity.day(row)
        low, high = ((), ()) if self.bars is None else (each[row].data for each in self.bars)

        return TradingDay(
            row,
            # a view, because a day reads the prices of only a few assets
            self.open_ticks[row].data,
            self.close_ticks[row].data,
            self.tradable[row].tobytes(),
            self.member[row].tobytes(),
            self.limit_up[row].tobytes(),
            self.limit_down[row].tobytes(),
            self.events.get(row, {}),
            self.rules_on(row),
            previous,
            liquidity,
            low,
            high,
        )


def _liquidity(
    rules: MarketRules, snapshot: MarketSnapshot, ticks: IntArray
) -> LiquidityTape | None:
    """Return the market data that execution uses, for all days; None if no fill's cost depends on
    size.
    """
    if not any(terms.execution for terms in rules.terms):
        return None

    steps = np.array([scale.steps_per_unit for scale in rules.scales], dtype=np.int64)
    at_decision = np.array([scale.fill == "same_close" for scale in rules.scales])
    # A fill at the decision close occurs in the decision day's bar, expressed here in fill-day
    # terms.
    ratio = np.ones_like(snapshot.factor)
    ratio[1:] = snapshot.factor[1:] / snapshot.factor[:-1]
    low = price_ticks(snapshot, "low", ticks)
    high = price_ticks(snapshot, "high", ticks)
    traded = np.where(at_decision, _day_before(snapshot.volume) * ratio, snapshot.volume)
    low = np.where(at_decision, np.rint(_day_before(low) / ratio).astype(np.int64), low)
    high = np.where(at_decision, np.rint(_day_before(high) / ratio).astype(np.int64), high)
    return liquidity_tape(snapshot, rules.terms, steps, traded, (low, high))


def _day_before(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values of the previous row; 0 in the first row. Shape: [T, N]."""
    earlier = np.zeros_like(values)
    earlier[1:] = values[:-1]
    return earlier


def _spells(rules: MarketRules, snapshot: MarketSnapshot) -> tuple[tuple[int, MarketRules], ...]:
    """Return first row and rules for each run of days with the same duties."""
    dated = {}
    for venue, terms in zip(rules.venues, rules.terms, strict=True):
        if terms.duties is None:
            dated[venue.name] = venue

    if not dated or not len(snapshot.days):
        return ((0, rules),)

    changes = np.searchsorted(snapshot.days, change_days(list(dated.values())))
    rows = sorted({0, *changes.tolist()} - {len(snapshot.days)})
    return tuple((row, rules.on(snapshot.days[row], snapshot.codes)) for row in rows)


def _first_row(spell: tuple[int, MarketRules]) -> int:
    return spell[0]


def _fills(
    venues: Sequence[Venue],
    opens: IntArray,
    closes: IntArray,
    references: IntArray,
    volume: FloatArray,
) -> BoolArray:
    """Return whether each asset trades. Overwrites `opens`, which already holds intraday fill
    prices, with the prices of all fills in ticks. Shape: [T, N].
    """
    has_boards = np.array([venue.has_boards for venue in venues], dtype=np.bool_)
    has_volume = (volume > 0) | (np.isnan(volume) & ~has_boards)

    # `same_close` fills at the decision day's close, so the asset must have traded on that day.
    traded_before = np.zeros_like(closes, dtype=np.bool_)
    traded_before[1:] = (closes > 0)[:-1] & has_volume[:-1]

    rules = np.array([venue.fill for venue in venues])
    at_close = rules == "next_close"
    at_decision = rules == "same_close"
    opens[:, at_close] = closes[:, at_close]
    opens[:, at_decision] = references[:, at_decision]

    has_traded = np.where(at_decision, traded_before, has_volume)
    return np.asarray(has_traded & (opens > 0))


def _at_limits(
    snapshot: MarketSnapshot,
    venues: Sequence[Venue],
    config: TradingConfig,
    fills: IntArray,
    references: IntArray,
) -> tuple[BoolArray, BoolArray]:
    """Return whether a fill is too close to the upper limit to buy, and whether it is too close to
    the lower limit to sell. Only A-share boards have limits. Shape of both: [T, N].
    """
    up = np.zeros(fills.shape, dtype=np.bool_)
    down = np.zeros(fills.shape, dtype=np.bool_)
    columns = [column for column, venue in enumerate(venues) if venue.has_boards]
    boards = [board_of(snapshot.codes[column]) for column in columns]
    limits = np.array([limit_ppm(board, config) for board in boards], dtype=np.int64)
    chosen = slice(None) if len(columns) == len(venues) else columns  # a slice avoids a copy

    for start in range(0, len(fills), _DAYS_AT_ONCE):
        days = slice(start, start + _DAYS_AT_ONCE), chosen
        price = fills[days]
        reference = references[days]
        has_limit = (price > 0) & (reference > 0)
        up[days] = has_limit & (price * PPM >= reference * (PPM + limits))
        down[days] = has_limit & (price * PPM <= reference * (PPM - limits))

    return up, down


def _at_limit_prices(
    snapshot: MarketSnapshot, venues: Sequence[Venue], fills: IntArray, references: IntArray
) -> tuple[BoolArray, BoolArray]:
    """Return whether a fill is at or above the upper limit price, and whether it is at or below the
    lower limit price. Shape of both: [T, N].
    """
    up = np.zeros(fills.shape, dtype=np.bool_)
    down = np.zeros(fills.shape, dtype=np.bool_)
    columns = [column for column, venue in enumerate(venues) if venue.has_boards]
    limits = daily_limits(snapshot, columns)
    inward = rounds_inward([snapshot.codes[column] for column in columns])
    fen = np.array([venues[column].ticks_per_unit // 100 for column in columns], dtype=np.int64)
    given_upper = _or_unknown(snapshot.price_limits.upper, fills.shape)
    given_lower = _or_unknown(snapshot.price_limits.lower, fills.shape)

    for start in range(0, len(fills), _DAYS_AT_ONCE):
        days = slice(start, start + _DAYS_AT_ONCE)
        price = fills[days][:, columns]
        reference = references[days][:, columns]
        quote = (price + fen // 2) // fen * fen

        lower, upper = limit_prices(reference, limits[days], fen, inward)
        near = limits[days] - _ADJUSTED_BUFFER
        is_adjusted = np.abs(price - quote) * _FEN_PARTS > fen
        is_up = np.where(is_adjusted, price * 1000 >= reference * (1000 + near), quote >= upper)
        is_down = np.where(is_adjusted, price * 1000 <= reference * (1000 - near), quote <= lower)
        has_limit = (reference > 0) & (limits[days] >= 0)

        highest = given_upper[days][:, columns]
        lowest = given_lower[days][:, columns]
        # On days without a limit, vendors write 99,999 and 0. Next to a real upper limit, 0 is
        # therefore a lower limit and not a missing value.
        has_highest = highest > 0
        has_lowest = (lowest > 0) | ((lowest == 0) & has_highest)

        is_up = np.where(has_highest, quote >= _in_ticks(highest, fen), has_limit & is_up)
        is_down = np.where(has_lowest, quote <= _in_ticks(lowest, fen), has_limit & is_down)
        up[days, columns] = is_up & (price > 0)
        down[days, columns] = is_down & (price > 0)

    return up, down


def _or_unknown(prices: FloatArray | None, shape: tuple[int, ...]) -> FloatArray:
    """Return the limit prices in the data; NaN where they are missing."""
    if prices is None:
        return np.broadcast_to(np.float64(np.nan), shape)

    return prices


def _in_ticks(prices: FloatArray, fen: IntArray) -> IntArray:
    """Return limit prices in ticks, rounded to whole fen; 0 if not known."""
    hundredths = np.floor(np.nan_to_num(prices) * 100 + 0.5)
    return hundredths.astype(np.int64) * fen


def limit_ppm(board: Board, config: TradingConfig) -> int:
    """Return how far from the reference price trading stops on a board, in parts per million (main
    board: 95,000 by default).
    """
    # KTD-Fin Appendix H: a buffer that avoids fills at unattainable prices
    return scaled_int(DAILY_LIMIT_PCT[board], 10_000) - scaled_int(config.limit_buffer_pct, 10_000)


def price_ticks(
    snapshot: MarketSnapshot, field: Literal["open", "high", "low", "close"], scales: IntArray
) -> IntArray:
    """Return prices in integer ticks, rounded half up; 0 for NaN. Shape: [T, N]. `scales`: ticks
    per currency unit, [N]. Raises DataError if a price is not below `MAX_PRICE`.
    """
    finite = np.nan_to_num(getattr(snapshot, field), posinf=np.inf)
    if finite.size and not finite.max() < MAX_PRICE:
        row, asset = np.unravel_index(finite.argmax(), finite.shape)
        where = f"{snapshot.codes[asset]} {snapshot.days[row]}"
        price = finite[row, asset]
        fix = "check the source's price columns and units, or exclude the asset"
        raise DataError(
            f"{where}: {field} {price:g} can't be traded: prices must be below {MAX_PRICE:g}; {fix}"
        )

    ticks: IntArray = np.floor(finite * scales + 0.5).astype(np.int64)
    return ticks
