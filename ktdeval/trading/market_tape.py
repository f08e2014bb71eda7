"""Market as the executor reads it: integer prices, limits already judged, one cheap record a day.

Edge semantics, shared by everything that trades:

* **Prices** are integer ticks of the venue's (1/10,000 CNY in A-shares), rounded half up from the snapshot's unadjusted prices.
* **Fills** are at the day's open, at its close (`next_close`), or at the very close that was decided on (`same_close`): that is the
  previous mark, in today's terms, of an asset that traded on the day of the decision. What a day calls its opens are these prices.
* **Factor changes.** A day's factor differs from the day before when their ratio leaves 1 by more than `FACTOR_JITTER`; smaller
  wobble (rounding in the source) is ignored until it has added up to more than that. The ratio is kept in parts per billion.
  The *reference price* of a day is the previous mark divided by that ratio, rounded down to a tick.
* **Suspended names** (no price to fill at, or no volume) don't trade, nor do names of a closed exchange. Their mark is the
  reference price: the last close, in today's terms. A name whose bars have ended for good (delisted, merged) is such a name for
  ever: it keeps its last mark and can't be sold. Outside A-shares a volume that is not known stops nothing.
* **Limits** are those of the A-share boards. They compare the fill day's open with the reference price, exactly, in integers.
  Without a previous close there is no limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ktdeval.errors import DataError
from ktdeval.market.snapshot import DAILY_LIMIT_PCT, Board, BoolArray, FloatArray, MarketSnapshot, board_of
from ktdeval.market.venue import MAX_PRICE, Venue
from ktdeval.trading.terms import PPB, Limits, Terms, limits_of, scaled_int, terms_of
from ktdeval.trading.types import Scale, TradingConfig

IntArray = npt.NDArray[np.int64]
PPM = 1_000_000
FACTOR_JITTER = 1e-5
MAX_FACTOR_RATIO = 1e5
_DAYS_AT_ONCE = 256  # so that what is computed on the way stays small


class FactorEvent(Struct, frozen=True):
    """A factor change of one asset on one day."""

    ratio_ppb: int  #: today's factor over the previous day's, in parts per billion
    previous_ticks: int  #: the mark at the previous close, in that day's terms
    #: the same value per share in today's terms: `previous_ticks / ratio`, rounded down to a tick. It is the reference price of the
    #: day's limits, and the mark where nothing trades.
    ex_ticks: int


class TradingDay(Struct, frozen=True):
    """One fill day, indexed by asset column. Treat as immutable. Flags are bytes of 0 and 1, the cheapest to read one by one."""

    row: int  #: row of the day in the snapshot
    open_ticks: Sequence[int]  #: price of fills; where nothing trades the reference price, so that a NAV can be marked with it
    close_ticks: Sequence[int]  #: the mark at the close; 0 before an asset's first bar
    tradable: bytes  #: 1 where the asset has a price to fill at, and volume
    member: bytes  #: 1 where the asset is in the universe
    limit_up: bytes  #: 1 where the open is too near the upper limit to buy
    limit_down: bytes  #: 1 where the open is too near the lower limit to sell
    events: dict[int, FactorEvent]  #: factor changes of this day by asset; assets without a previous price are absent
    rules: MarketRules
    previous_ticks: Sequence[int] = ()  #: the mark at the close before, in that day's terms; empty without shorts


@dataclass(frozen=True)
class MarketRules:
    """Rules and units under which the assets of a snapshot trade; no price is looked at."""

    venues: tuple[Venue, ...]  #: [assets] that of the config, or else each one's own
    terms: tuple[Terms, ...]  #: [assets]
    scales: tuple[Scale, ...]  #: [assets] ticks of a unit of currency, steps of a share or coin, price of fills
    limits: Limits
    days_a_year: int = 252  #: days that the market has in a year, over which a year's interest is spread

    @classmethod
    def of(cls, snapshot: MarketSnapshot, config: TradingConfig) -> MarketRules:
        """Rules of a snapshot under a config. Raises DataError: a venue is of another currency than the prices."""
        venues = _venues(snapshot, config)
        usual = {name: terms_of(venue, config) for name, venue in venues.items()}
        least = max(config.star_min_shares, config.lot_shares)
        star = {name: replace(terms, min_buy=least) for name, terms in usual.items() if venues[name].has_boards}
        terms = tuple(
            star[name] if name in star and board_of(code) is Board.STAR else usual[name]
            for name, code in zip(snapshot.venues, snapshot.codes, strict=True)
        )
        scales = {name: Scale(venue.ticks_per_unit, venue.steps_per_unit, venue.fill) for name, venue in venues.items()}
        names = snapshot.venues
        own = tuple(map(venues.__getitem__, names))
        return cls(own, terms, tuple(map(scales.__getitem__, names)), limits_of(config), snapshot.days_a_year)

    @property
    def currency(self) -> str:
        """Currency of the account."""
        return self.venues[0].currency if self.venues else "CNY"

    @property
    def minor_per_unit(self) -> int:
        """Minor units in a unit of the currency."""
        return self.venues[0].minor_per_unit if self.venues else 100

    @cached_property
    def has_boards(self) -> bool:
        """Whether all are A-shares."""
        return all(venue.has_boards for venue in self.venues)

    @cached_property
    def units(self) -> tuple[int, ...]:
        """[assets] ticks of one step's price in a minor unit."""
        return tuple(terms.unit for terms in self.terms)

    @cached_property
    def shorts(self) -> bool:
        """Whether any asset can be sold short."""
        return any(terms.margin for terms in self.terms)


@dataclass(frozen=True)
class MarketTape:
    """All days of a snapshot under one set of trading rules, [days, assets] arrays as in `TradingDay`."""

    rules: MarketRules
    open_ticks: IntArray
    close_ticks: IntArray
    tradable: BoolArray
    member: BoolArray
    limit_up: BoolArray
    limit_down: BoolArray
    events: dict[int, dict[int, FactorEvent]]  #: row -> asset -> factor change

    @classmethod
    def from_snapshot(cls, snapshot: MarketSnapshot, config: TradingConfig) -> MarketTape:
        """Read a snapshot once. Raises DataError on a price or a factor (ratio) out of bounds, or a venue of another currency."""
        _check_factor(snapshot)
        rules = MarketRules.of(snapshot, config)
        ticks = np.array([scale.ticks_per_unit for scale in rules.scales], dtype=np.int64)
        opens, closes = price_ticks(snapshot, "open", ticks), price_ticks(snapshot, "close", ticks)
        marks, references, events = _marks(closes, _settled_factor(snapshot.factor))
        tradable = _fills(rules.venues, opens, closes, references, snapshot.volume)
        up, down = _at_limits(snapshot, rules.venues, config, np.where(tradable, opens, 0), references)
        np.copyto(opens, references, where=~tradable)
        for prices in (opens, marks):  # days are views of them
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
        )

    def day(self, row: int) -> TradingDay:
        """Return the fill day at `row`. Raises DataError: the row lies outside the snapshot."""
        if not 0 <= row < len(self.open_ticks):
            raise DataError(f"fill day {row} is outside the snapshot's {len(self.open_ticks)} trading days; end the window earlier")
        return TradingDay(
            row,
            self.open_ticks[row].data,  # a view: of all assets a day reads few
            self.close_ticks[row].data,
            self.tradable[row].tobytes(),
            self.member[row].tobytes(),
            self.limit_up[row].tobytes(),
            self.limit_down[row].tobytes(),
            self.events.get(row, {}),
            self.rules,
            self.close_ticks[row - 1].data if self.rules.shorts and row else (),
        )


def _venues(snapshot: MarketSnapshot, config: TradingConfig) -> dict[str, Venue]:
    """Venue by the name of assets' own: that of the config, or else this. Raises DataError: one is of another currency than the
    prices, or two count money in two ways.
    """
    venues = {name: config.venue or snapshot.rules[name] for name in dict.fromkeys(snapshot.venues)}
    for venue in venues.values():
        if (venue.currency, venue.minor_per_unit) != (snapshot.currency, next(iter(venues.values())).minor_per_unit):
            raise DataError(
                f"snapshot {snapshot.meta.name}: prices are in {snapshot.currency}, and venue {venue.name} counts in "
                f"1/{venue.minor_per_unit} {venue.currency}; an account has one currency: choose a venue of {snapshot.currency}"
            )
    return venues


def _fills(venues: Sequence[Venue], opens: IntArray, closes: IntArray, references: IntArray, volume: FloatArray) -> BoolArray:
    """[T, N] whether the asset trades; makes `opens` the price of its fills in ticks, in place."""
    boards = np.array([venue.has_boards for venue in venues], dtype=np.bool_)
    has_volume = (volume > 0) | (np.isnan(volume) & ~boards)
    rules = np.array([venue.fill for venue in venues])
    decided = np.zeros_like(closes, dtype=np.bool_)
    decided[1:] = (closes > 0)[:-1] & has_volume[:-1]
    for rule, prices in (("next_close", closes), ("same_close", references)):
        opens[:, rules == rule] = prices[:, rules == rule]
    return np.asarray(np.where(rules == "same_close", decided, has_volume) & (opens > 0))


def _at_limits(
    snapshot: MarketSnapshot, venues: Sequence[Venue], config: TradingConfig, fills: IntArray, references: IntArray
) -> tuple[BoolArray, BoolArray]:
    """[T, N] whether a fill is too near the upper limit to buy, and the lower one to sell; only A-share boards have limits."""
    up, down = np.zeros(fills.shape, dtype=np.bool_), np.zeros(fills.shape, dtype=np.bool_)
    columns = [column for column, venue in enumerate(venues) if venue.has_boards]
    limits = np.array([limit_ppm(board_of(snapshot.codes[column]), config) for column in columns], dtype=np.int64)
    chosen = slice(None) if len(columns) == len(venues) else columns  # a slice copies nothing
    for start in range(0, len(fills), _DAYS_AT_ONCE):
        days = slice(start, start + _DAYS_AT_ONCE), chosen
        price, reference = fills[days], references[days]
        has_limit = (price > 0) & (reference > 0)
        up[days] = has_limit & (price * PPM >= reference * (PPM + limits))
        down[days] = has_limit & (price * PPM <= reference * (PPM - limits))
    return up, down


def limit_ppm(board: Board, config: TradingConfig) -> int:
    """Return how far from the reference price trading stops on a board, in parts per million (main board: 95,000 by default)."""
    return scaled_int(DAILY_LIMIT_PCT[board], 10_000) - scaled_int(config.limit_buffer_pct, 10_000)


def price_ticks(snapshot: MarketSnapshot, field: Literal["open", "close"], scales: IntArray) -> IntArray:
    """[T, N] prices in integer ticks, of which a unit of currency has `scales` ([N]), halves up; 0 where the price is NaN. Raises
    DataError: a price is not below `MAX_PRICE`.
    """
    finite = np.nan_to_num(getattr(snapshot, field), posinf=np.inf)
    if finite.size and not finite.max() < MAX_PRICE:
        row, asset = np.unravel_index(finite.argmax(), finite.shape)
        where, price = f"{snapshot.codes[asset]} {snapshot.days[row]}", finite[row, asset]
        fix = "check the source's price columns and units, or leave it out"
        raise DataError(f"{where}: {field} {price:g} can't be traded, as prices from {MAX_PRICE:g} on; {fix}")
    ticks: IntArray = np.floor(finite * scales + 0.5).astype(np.int64)
    return ticks


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
        row, asset = (int(indices[0]) for indices in np.nonzero(bad))
        raise DataError(
            f"adjustment factor of {snapshot.codes[asset]} on {snapshot.days[row]} is {factor[row, asset]:g}: not positive, or far "
            "from the day before; check the source's factor column"
        )


def _settled_factor(factor: FloatArray) -> FloatArray:
    """[T, N] factors without jitter: each follows the source only when it has left the last settled value."""
    settled = factor.copy()
    rows = np.flatnonzero((factor[1:] != factor[:-1]).any(axis=1)) + 1
    for row, end in zip(rows.tolist(), [*rows[1:].tolist(), len(factor)], strict=False):
        previous = settled[row - 1]
        still = np.abs(factor[row] - previous) <= FACTOR_JITTER * previous
        settled[row:end] = np.where(still, previous, factor[row])
    return settled


def _marks(closes: IntArray, factor: FloatArray) -> tuple[IntArray, IntArray, dict[int, dict[int, FactorEvent]]]:
    """Marks and reference prices, both [T, N] ticks, and the factor events by row."""
    last = np.maximum.accumulate(np.where(closes == 0, 0, np.arange(len(closes))[:, None]), axis=0)
    marks = np.take_along_axis(closes, last, axis=0)
    events: dict[int, dict[int, FactorEvent]] = {}
    before, assets = np.nonzero(factor[1:] != factor[:-1])
    ratios = np.rint(factor[before + 1, assets] / factor[before, assets] * PPB).astype(np.int64)
    quiet = closes[before + 1, assets] == 0
    for row, asset, ratio_ppb, is_quiet in zip(*map(np.ndarray.tolist, (before + 1, assets, ratios, quiet)), strict=True):
        previous = int(marks[row - 1, asset])
        if previous > 0:
            # Rare enough for Python integers, which can't overflow on high adjusted prices.
            event = FactorEvent(ratio_ppb, previous, ex_price_ticks(previous, ratio_ppb))
            events.setdefault(row, {})[asset] = event
            if is_quiet:  # until the next close
                marks[row:, asset][last[row:, asset] == last[row, asset]] = event.ex_ticks
    references = np.zeros_like(closes)
    references[1:] = marks[:-1]
    for row, changed in events.items():
        for asset, event in changed.items():
            references[row, asset] = event.ex_ticks
    return marks, references, events
