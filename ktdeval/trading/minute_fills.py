"""Prices and volumes of intraday fills, from a snapshot's intraday bars.

There are two rules, both over the session of the fill day. It begins at the exchange's open and
ends at the exchange's close (short sessions are in the calendar), or at the venue's close if that
is earlier.

* `vwap_30m`: the mean of the bars of the first 30 minutes, weighted by volume. The price of a bar
  is the mean of its high, low and close. Bars without a known volume have no weight.
* `twap_day`: the mean of the closes of all bars, with equal weights.

A bar belongs to a session if it begins at the open or later and ends by the last minute. Bars
outside the session's hours are omitted, and so is an hourly bar that began before the open. Bars
have only end times; their length is the shortest interval between two end times.

Both means are computed in integers and rounded half up to the venue's tick. Prices are unadjusted,
like the bars. An asset without bars in a session has no price, so its orders don't fill.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError
from ktdeval.market.rules.calendar import session_hours
from ktdeval.market.snapshots.snapshot import DayArray, FloatArray, MarketSnapshot
from ktdeval.market.venues.close_times import Close
from ktdeval.market.venues.venue import FILLS_OF_MINUTES, MAX_PRICE, FillRule, Venue

IntArray = npt.NDArray[np.int64]
#: minutes at the start of the session that each rule uses; None: the whole session
MINUTES_OF_RULE: Mapping[str, int | None] = MappingProxyType({"vwap_30m": 30, "twap_day": None})
_MOST = 2**63 - 1
_MICROSECONDS = 60_000_000  # number of units in a minute


class MinuteFills(NamedTuple):
    """Fill prices and volumes of an asset, by day."""

    ticks: IntArray  #: [T] price in the venue's ticks; 0: no price, so no fill
    #: [T] volume traded in the rule's minutes, in the venue's steps; 0 where not known
    steps: IntArray


@dataclass(frozen=True)
class _Session:
    """End times of the first and last bar that a rule may use, by day, in minutes since
    1970 (UTC).
    """

    first: IntArray  #: [T]
    last: IntArray  #: [T] earlier than `first` on days without a session


def lacks_minutes(snapshot: MarketSnapshot, venues: Iterable[Venue]) -> str | None:
    """Return the reason why a market can't support its venues' intraday fills. None if no venue
    needs intraday bars, or some bars exist.
    """
    rules = sorted({venue.fill for venue in venues} & FILLS_OF_MINUTES)
    if not rules or snapshot.minutes:
        return None
    return (
        f"orders fill at {' and '.join(rules)}, which needs minute bars, but {snapshot.meta.name}"
        " has none; import some (--minutes), or choose another fill"
    )


def minute_fills(snapshot: MarketSnapshot, venues: Sequence[Venue]) -> dict[int, MinuteFills]:
    """Return prices and volumes of intraday fills, by asset column; empty if all fills are at opens
    or closes of daily bars. `venues`: venue of each asset, [N]. Raises DataError if no bar gives a
    fill price, or if a venue's calendar does not cover the days.
    """
    assets = [asset for asset, venue in enumerate(venues) if venue.fill in FILLS_OF_MINUTES]
    lacks = lacks_minutes(snapshot, venues)
    if lacks:
        raise DataError(lacks)

    found: dict[int, MinuteFills] = {}
    for fills, length in _by_venue(snapshot, venues, assets):
        venue = venues[next(iter(fills))]
        if not any(each.ticks.any() for each in fills.values()):
            raise DataError(
                f"{snapshot.meta.name}: no bar within a session (of {length} minutes, at"
                f" {venue.name}) gives a price for {venue.fill}; import shorter bars (--minutes),"
                " or choose another fill"
            )
        found |= fills

    return found


def _by_venue(
    snapshot: MarketSnapshot, venues: Sequence[Venue], assets: Sequence[int]
) -> Iterator[tuple[dict[int, MinuteFills], int]]:
    """Yield, for each venue, its assets' fills and the length of their bars in minutes."""
    bars_of = {asset: snapshot.minutes.of_code(snapshot.codes[asset]) for asset in assets}

    for venue in dict.fromkeys(venues[asset] for asset in assets):
        columns = [asset for asset in assets if venues[asset] == venue]
        length = _length(bars_of[asset] for asset in columns)
        session = _session_of(snapshot.days, venue, length)
        found = {}
        for asset in columns:
            found[asset] = _fills_of(bars_of[asset], venue, session)
            if found[asset].ticks.max(initial=0) >= MAX_PRICE * venue.ticks_per_unit:
                raise DataError(
                    f"{snapshot.codes[asset]}: its minute bars have a price of {MAX_PRICE:g} or"
                    " more, which can't be traded; check their units, or choose another fill"
                )

        yield found, length


def mean_prices(snapshot: MarketSnapshot, fill: FillRule) -> FloatArray:
    """Return adjusted fill prices under a rule at each asset's venue; NaN if not known.
    Shape: [T, N].
    """
    venues = tuple(replace(snapshot.rules[name], fill=fill) for name in snapshot.venues)
    return _mean_prices(_Known(snapshot, venues)) * snapshot.factor


class _Known:
    """A market and its assets' venues. Two values are equal if their bars and rules are
    the same.
    """

    def __init__(self, snapshot: MarketSnapshot, venues: tuple[Venue, ...]) -> None:
        self.snapshot = snapshot
        self.venues = venues
        self._key = (id(snapshot.minutes), snapshot.days.tobytes(), snapshot.codes, venues)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=4)
def _mean_prices(known: _Known) -> FloatArray:
    """Return unadjusted prices; NaN if not known. Shape: [T, N]."""
    venues = known.venues
    prices = np.full((len(known.snapshot.days), len(venues)), np.nan)
    for fills, _ in _by_venue(known.snapshot, venues, range(len(venues))):
        for asset, found in fills.items():
            at = found.ticks / venues[asset].ticks_per_unit
            prices[:, asset] = np.where(found.ticks > 0, at, np.nan)

    return prices


def _session_of(days: DayArray, venue: Venue, length: int) -> _Session:
    """Return, for each day, the first and last end time of the bars in which a venue's fills occur.
    `length`: bar length in minutes.
    """
    first = np.ones(len(days), np.int64)
    last = np.zeros(len(days), np.int64)  # earlier than `first`: no session
    if not len(days):
        return _Session(first, last)

    hours = session_hours(days[0], days[-1], venue.calendar)
    rows = np.searchsorted(days, hours.days)
    is_day = days[np.minimum(rows, len(days) - 1)] == hours.days
    opens = hours.opens[is_day].astype(np.int64)
    closes = hours.closes[is_day].astype(np.int64)

    own_close = Close.parse(f"{venue.close} {venue.zone}")
    ends = np.array([own_close.instant(day) for day in hours.days[is_day]], np.int64)
    ends = np.minimum(closes, ends // _MICROSECONDS)
    taken = MINUTES_OF_RULE[venue.fill]
    if taken is not None:
        ends = np.minimum(ends, opens + taken)

    first[rows[is_day]] = opens + length
    last[rows[is_day]] = ends
    return _Session(first, last)


def _length(bars_of_assets: Iterable[npt.NDArray[Any]]) -> int:
    """Return the bar length in minutes."""
    lengths = []
    for bars in bars_of_assets:
        gaps = np.diff(bars["ends_at"].astype(np.int64))
        lengths += [int(gap) for gap in np.unique(gaps[gaps > 0])[:1]]

    return min(lengths, default=1)


def _fills_of(bars: npt.NDArray[Any], venue: Venue, session: _Session) -> MinuteFills:
    """Return the fills of one asset. `bars`: its bars, sorted by end time."""
    ends_at = bars["ends_at"].astype(np.int64)
    begins = np.searchsorted(ends_at, session.first, side="left")
    ends = np.maximum(begins, np.searchsorted(ends_at, session.last, side="right"))

    # steps of the latest order whose volume was checked
    changes = np.zeros(len(bars) + 1, np.int64)
    np.add.at(changes, begins, 1)
    np.add.at(changes, ends, -1)
    is_taken = np.cumsum(changes)[:-1] > 0
    before = np.concatenate([[0], np.cumsum(is_taken)])
    taken = bars[is_taken]

    names = ("high", "low", "close") if venue.fill == "vwap_30m" else ("close",)
    price = np.sum([_round_to_units(taken[name], venue.ticks_per_unit) for name in names], axis=0)
    volume = _round_to_units(taken["volume"], venue.steps_per_unit)
    weight = np.logical_and.reduce([taken[name] > 0 for name in names]).astype(np.float64)
    if venue.fill == "vwap_30m":
        weight = weight * volume

    spans = before[begins], before[ends]
    values = _sums(price, weight, spans)
    weights = _sums(weight, np.full(len(taken), float(len(names))), spans)
    volumes = _sums(volume, np.ones(len(taken)), spans)
    ticks = [_half_up(*pair) for pair in zip(values, weights, strict=True)]
    steps = [min(total, _MOST) for total in volumes]

    return MinuteFills(np.array(ticks, np.int64), np.array(steps, np.int64))


def _half_up(value: int, weight: int) -> int:
    """Return value / weight, rounded half up; 0 if the weight is 0."""
    if not weight:
        return 0
    return min((2 * value + weight) // (2 * weight), _MOST)


def _round_to_units(values: npt.NDArray[np.float64], scale: int) -> npt.NDArray[np.float64]:
    """Return values as integers in units of 1 / scale, rounded half up; 0 for NaN. Shape: [M]."""
    return np.floor(np.nan_to_num(values) * scale + 0.5)


def _sums(
    left: npt.NDArray[np.float64], right: npt.NDArray[np.float64], spans: tuple[IntArray, IntArray]
) -> list[int]:
    """Return the exact sum of products of integers over each span, from its start up to but
    excluding its end. Shape: [T].
    """
    if float(np.abs(left) @ np.abs(right)) < 2.0**62:
        products = left.astype(np.int64) * right.astype(np.int64)
    else:  # Python integers, which can't overflow
        pairs = zip(left.tolist(), right.tolist(), strict=True)
        products = np.array([int(one) * int(other) for one, other in pairs], dtype=object)

    before = np.concatenate([np.zeros(1, products.dtype), np.cumsum(products)])
    begins, ends = spans
    sums: list[int] = (before[ends] - before[begins]).tolist()
    return sums
