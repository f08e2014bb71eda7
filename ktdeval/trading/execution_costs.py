"""Price of a fill as a function of its size, and the volume still available on a day, in exact
integers.

Suppose that an account has already traded s steps on the same side that day. A fill of q more steps
is at the reference price r (from the venue's fill rule), worsened by

    half spread     h, or h * sigma / 2 % * (W* / W)^(1/3) with W = r * V * sigma, or the mean
                    half spread of the asset's quotes up to the decision; at least half a tick
    impact          (T(s + q) - T(s)) / q,  T(x) = x * Y * sigma * sqrt(x / V)
    permanent part  p * Y * sigma * sqrt(held / V), of orders that add to what was held at the open

* `T` is the total cost of x steps: two orders on a day pay no less than a single order of their
  combined size, except for rounding to a tick.
* `sigma` is the standard deviation of daily returns and `V` the mean volume, both over the days up
  to the decision. If an order's price depends on them and either is unknown or 0, the order is
  rejected (`volume`). A fixed half spread without impact needs neither.
* Spread, impact and permanent part are rounded up to parts per billion of r. A buy's price is then
  rounded up to a tick and a sell's price down, so that it is never better than r.
* Under `inside_bar` no step is priced outside the day's bar: once the marginal impact, 3/2 * Y *
  sigma * sqrt(x / V), reaches the end of the bar, each further step pays the price at that end.
* An account's past net trading in an asset equals its position, since an episode starts with cash.
  A round trip leaves no permanent impact, and selling a holding does not profit from the impact of
  having bought it.

Sources: square-root law, Toth et al. 2011 (equation 1); the average cost of an order and the
dependence of the spread on liquidity, Kyle and Obizhaeva 2016 (section 7); the permanent part,
Bouchaud, Farmer and Lillo 2009. Coefficients: `ktdeval/market/venues/executions.toml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ktdeval.errors import ConfigError, DataError
from ktdeval.market.rules.own_sessions import session_groups
from ktdeval.market.snapshots.snapshot import FloatArray, MarketSnapshot
from ktdeval.market.venues.execution import (
    MIN_DAYS,
    Execution,
    active_execution,
    quoted_tick,
    reference_activity,
)
from ktdeval.market.venues.venue import Venue
from ktdeval.trading.types import TradingConfig
from ktdeval.trading.venue_terms import PPB, ExecutionTerms, Terms, scaled_int

IntArray = npt.NDArray[np.int64]
BPS_PPB = PPB // 10_000
REFERENCE_SIGMA_PPB = 20_000_000
"""Kyle and Obizhaeva 2016, section 3: volatility of the reference stock, 2 % a day."""
# Returns are clipped to ±1,000 % and counted in units of 1e-7, so that sums of squares are exact
_RETURN_PARTS = 10**7
_MAX_RETURN = 10.0
_EXACT_ROOT = 10**36
_MAX_STEPS = 1 << 62
UNQUOTED = -1
"""Placeholder for an unknown half spread; 0 would mean equal quotes."""


class Liquidity(Struct, frozen=True):
    """Market data that execution uses on one fill day, by asset column; 0 where unknown."""

    sigma_ppb: Sequence[int]  #: standard deviation of daily returns up to the decision
    volume: Sequence[int]  #: mean steps traded per day up to the decision
    traded: Sequence[int]  #: steps that the market traded in the bar of the fills
    low_ticks: Sequence[int]  #: lowest price of the bar of the fills
    high_ticks: Sequence[int]  #: highest price of the bar of the fills
    #: half-spread from quotes up to the decision; `UNQUOTED` if not known, 0 if not needed
    half_spread_ppb: Sequence[int]


class Quote(Struct, frozen=True):
    """State of one asset on one day, just before an order."""

    reference: int  #: price under the venue's fill rule, in ticks
    unit: int  #: as in `Terms`
    terms: ExecutionTerms
    sigma_ppb: int
    volume: int  #: mean steps per day
    low: int  #: low of the bar, in ticks
    high: int
    held: int = 0  #: steps held at the open, counted in the direction of the order
    same_side: int = 0  #: steps traded earlier that day by orders on the same side
    half_spread_ppb: int = 0  #: from the asset's quotes, if execution takes the spread from quotes


class LiquidityTape(Struct, frozen=True):
    """`Liquidity` of all days; arrays are [T, N]."""

    sigma_ppb: IntArray
    volume: IntArray
    traded: IntArray
    low_ticks: IntArray
    high_ticks: IntArray
    half_spread_ppb: IntArray

    def day(self, row: int) -> Liquidity:
        """Return the liquidity on the fill day at `row`."""
        return Liquidity(
            self.sigma_ppb[row].data,
            self.volume[row].data,
            self.traded[row].data,
            self.low_ticks[row].data,
            self.high_ticks[row].data,
            self.half_spread_ppb[row].data,
        )


def execution_of(venue: Venue, config: TradingConfig) -> Execution | None:
    """Return the execution in force at a venue; None if costs do not depend on size."""
    chosen = venue.execution if config.execution is None else config.execution
    return active_execution(chosen)


def execution_terms(venue: Venue, config: TradingConfig) -> ExecutionTerms | None:
    """Return a venue's execution coefficients as integers; None if costs do not depend on size.
    Raises ConfigError if the spread depends on a reference activity that is not known for the
    venue.
    """
    execution = execution_of(venue, config)
    if execution is None:
        return None

    tick = execution.tick
    if tick is None:
        tick = quoted_tick(venue.name)

    activity = execution.reference_activity
    if activity is None:
        activity = reference_activity(venue.currency)

    is_by_liquidity = execution.spread == "liquidity"
    if is_by_liquidity and activity is None:
        raise ConfigError(
            f"execution {execution.name}: the spread by liquidity needs reference_activity, which"
            f" is unknown in {venue.currency}; write the coefficients under trading.execution, with"
            f" reference_activity in {venue.currency} or spread: fixed"
        )

    participation = None
    if execution.max_participation is not None:
        participation = scaled_int(execution.max_participation, PPB)

    return ExecutionTerms(
        half_spread_ppb=scaled_int(execution.half_spread_bps, BPS_PPB),
        is_by_liquidity=is_by_liquidity,
        is_by_quotes=execution.spread == "quotes",
        reference_activity=scaled_int(activity or 0.0, venue.minor_per_unit),
        half_tick=-(-scaled_int(tick, venue.ticks_per_unit) // 2),
        impact_ppb=scaled_int(execution.impact, PPB),
        permanent_ppb=scaled_int(execution.permanent, PPB),
        participation_ppb=participation,
        carries=execution.rest == "carry",
        inside_bar=execution.inside_bar,
        window_days=execution.window_days,
    )


def check_quotes(snapshot: MarketSnapshot, terms: ExecutionTerms | None, venue: str) -> None:
    """Raise DataError if a venue's spread is taken from quotes but the market has no quotes."""
    if terms is None or not terms.is_by_quotes or snapshot.quotes:
        return

    raise DataError(
        f"snapshot {snapshot.meta.name}: execution at venue {venue} takes the spread from quotes,"
        " but no day of the market has a bid and an ask; import bars with columns bid and ask, or"
        " choose spread: fixed or spread: liquidity"
    )


def fill_ticks(quote: Quote, steps: int, selling: bool) -> int:
    """Return the price of a fill of `steps` (above 0), in ticks; at least 1."""
    terms = quote.terms
    reference = quote.reference
    end = _bar_end(quote, selling) if terms.inside_bar else None

    # In parts per billion of a tick
    spread = max(reference * half_spread_ppb(quote), terms.half_tick * PPB)
    if quote.held and terms.permanent_ppb:
        spread += reference * _permanent(quote)

    room = None
    if end is not None:
        room = max(0, abs(end - reference) * PPB - spread)

    impact = reference * _mean_impact(quote, steps, room)
    worse = -(-(spread + impact) // PPB)
    if end is not None:
        worse = min(worse, abs(end - reference))

    if selling:
        return max(1, reference - worse)
    return reference + worse


def _bar_end(quote: Quote, selling: bool) -> int | None:
    """Return the worst price in the day's bar, or the reference price if that is even worse. None
    if fills may be outside the bar or the bar is not known.
    """
    end = quote.low if selling else quote.high
    if not end:
        return None
    if selling:
        return min(end, quote.reference)
    return max(end, quote.reference)


def needs_liquidity(terms: ExecutionTerms) -> bool:
    """Return whether a price depends on trailing volatility and volume."""
    return terms.impact_ppb > 0 or (terms.is_by_liquidity and terms.half_spread_ppb > 0)


def half_spread_ppb(quote: Quote) -> int:
    """Return the half-spread relative to the price, in parts per billion, rounded up."""
    terms = quote.terms
    if terms.is_by_quotes:
        return quote.half_spread_ppb

    half = terms.half_spread_ppb
    if not terms.is_by_liquidity or not half:
        return half

    # Cube of half * sigma / 2 % * (W* / W)^(1/3), with W = price * volume * sigma
    reference_worth = terms.reference_activity * quote.unit * PPB
    scaled = half**3 * quote.sigma_ppb**2 * reference_worth
    cube = -(-scaled // (REFERENCE_SIGMA_PPB**3 * quote.reference * quote.volume))
    return cube_root(cube - 1) + 1


def cube_root(number: int) -> int:
    """Return the integer part of a non-negative number's cube root, by Newton's method."""
    if number < _EXACT_ROOT:  # the floating-point root is off by less than one
        guess = int(number ** (1 / 3) + 0.5)
        return guess if guess**3 <= number else guess - 1

    guess = 1 << -(-number.bit_length() // 3)  # an initial guess that is never below the root
    while True:
        better = (2 * guess + number // (guess * guess)) // 3
        if better >= guess:
            return guess
        guess = better


def _mean_impact(quote: Quote, steps: int, room: int | None) -> int:
    """Return the average impact per step of a fill, in parts per billion, rounded up. `room`:
    maximum impact of a step, in parts per billion of a tick; None if there is no maximum.
    """
    if not quote.terms.impact_ppb:
        return 0

    before = quote.same_side
    total = _bounded_impact(quote, before + steps, room)
    if before:
        total -= _bounded_impact(quote, before, room)
    return -(-total // (steps * PPB))


def _bounded_impact(quote: Quote, steps: int, room: int | None) -> int:
    """Return the total impact, in 1e-18, of the day's first `steps` on one side. No step pays more
    than `room`.
    """
    if room is None:
        return _total_impact(quote, steps)

    # The last of x steps pays 3/2 * Y * sigma * sqrt(x / V).
    most = room * PPB // quote.reference
    slope = 3 * quote.terms.impact_ppb * quote.sigma_ppb
    free = quote.volume * (2 * most) ** 2 // slope**2
    if steps <= free:
        return _total_impact(quote, steps)
    return _total_impact(quote, free) + (steps - free) * most


def _total_impact(quote: Quote, steps: int) -> int:
    """Return `steps * Y * sigma * sqrt(steps / V)`, in 1e-18, rounded up."""
    if not steps:
        return 0

    scale = quote.terms.impact_ppb * quote.sigma_ppb
    square = -(-scale * scale * steps**3 // quote.volume)
    return isqrt(square - 1) + 1


def _permanent(quote: Quote) -> int:
    """Return the part of a position's impact that is still in the price, in parts per billion."""
    impact = -(-_total_impact(quote, quote.held) // (quote.held * PPB))
    return -(-quote.terms.permanent_ppb * impact // PPB)


def liquidity_tape(
    snapshot: MarketSnapshot,
    terms: Sequence[Terms],
    steps: IntArray,
    traded_shares: FloatArray,
    bars: tuple[IntArray, IntArray],
) -> LiquidityTape | None:
    """Return the market data that execution uses, for all days; None if no fill's cost depends on
    size.

    `terms`: terms of each asset, [N]. `steps`: steps per share or coin, [N]. `traded_shares`:
    volume of the bar in which fills occur, [T, N]; NaN where unknown. `bars`: lowest and highest
    price of this bar in ticks, each [T, N].
    """
    windows = [each.execution.window_days if each.execution else 0 for each in terms]
    if not any(windows):
        return None

    shape = snapshot.close.shape
    sigma = np.zeros(shape, dtype=np.int64)
    mean = np.zeros(shape)
    for window in sorted(set(windows) - {0}):
        columns = np.array(windows) == window
        sigma[:, columns] = trailing_sigma_ppb(snapshot, window)[:, columns]
        mean[:, columns] = trailing_volume(snapshot, window)[:, columns]

    low, high = bars
    return LiquidityTape(
        sigma_ppb=sigma,
        volume=_in_steps(mean, steps),
        traded=_in_steps(traded_shares, steps),
        low_ticks=low,
        high_ticks=high,
        half_spread_ppb=_quoted_spreads(snapshot, terms),
    )


def _quoted_spreads(snapshot: MarketSnapshot, terms: Sequence[Terms]) -> IntArray:
    """Return the mean half-spread of the quotes before each row; 0 if execution does not need it.
    Shape: [T, N].
    """
    spreads = np.zeros(snapshot.close.shape, dtype=np.int64)
    windows = np.zeros(len(terms), dtype=np.int64)
    for column, each in enumerate(terms):
        if each.execution is not None and each.execution.is_by_quotes:
            windows[column] = each.execution.window_days

    for window in sorted(set(windows.tolist()) - {0}):
        columns = windows == window
        spreads[:, columns] = trailing_half_spread_ppb(snapshot, window)[:, columns]

    return spreads


def _in_steps(shares: FloatArray, steps: IntArray) -> IntArray:
    counted = np.nan_to_num(shares, nan=0.0, posinf=0.0) * steps
    return np.minimum(counted, float(_MAX_STEPS)).astype(np.int64)


def trailing_sigma_ppb(snapshot: MarketSnapshot, window: int) -> IntArray:
    """Return the sample standard deviation of returns over the `window` sessions before each row,
    in parts per billion. 0 if fewer than `MIN_DAYS` sessions have a return, or all returns are
    equal. Sums are exact, so the result does not depend on the processor. Shape: [T, N].
    """
    sigma = np.zeros(snapshot.close.shape, dtype=np.int64)
    for group in session_groups(snapshot):
        adjusted = group.of(snapshot.close) * group.of(snapshot.factor)
        before = group.sessions_before(range(len(sigma)))
        sigma[:, group.columns] = _sigma_before(adjusted, window)[before]

    return sigma


def _sigma_before(adjusted: FloatArray, window: int) -> IntArray:
    """Return the standard deviation of returns over the `window` sessions before each of the S
    sessions, and after the last one. Shape: [S + 1, n]. `adjusted`: adjusted closes, [S, n].
    """
    has_close = np.isfinite(adjusted)
    last = np.maximum.accumulate(np.where(has_close, np.arange(len(adjusted))[:, None], 0), axis=0)
    filled = np.take_along_axis(adjusted, last, axis=0)

    changes = np.full_like(adjusted, np.nan)
    changes[1:] = adjusted[1:] / filled[:-1] - 1.0
    is_known = np.isfinite(changes)
    cut = np.clip(np.where(is_known, changes, 0.0), -_MAX_RETURN, _MAX_RETURN)
    parts = np.rint(cut * _RETURN_PARTS).astype(np.int64)

    count = _sum_before(is_known.astype(np.int64), window)
    total = _sum_before(parts, window)
    squares = _sum_before(parts * parts, window)
    enough = count >= MIN_DAYS

    number = np.maximum(count, 2).astype(np.float64)
    mean_square = total.astype(np.float64) ** 2 / number
    variance = np.maximum(squares.astype(np.float64) - mean_square, 0.0) / (number - 1.0)
    sigma = np.rint(np.sqrt(variance) * (PPB // _RETURN_PARTS)).astype(np.int64)
    return np.where(enough, sigma, 0)


def trailing_half_spread_ppb(snapshot: MarketSnapshot, window: int) -> IntArray:
    """Return the mean half-spread over the `window` sessions before each row, in parts per billion,
    rounded up. Only sessions with both a bid and an ask count; `UNQUOTED` if there are fewer than
    `MIN_DAYS`. Shape: [T, N].
    """
    means = np.full(snapshot.close.shape, UNQUOTED, dtype=np.int64)
    spreads = snapshot.quotes.half_spreads
    if spreads is None:
        return means

    for group in session_groups(snapshot):
        own = group.of(spreads)
        is_known = np.isfinite(own)
        parts = np.rint(np.where(is_known, own, 0.0) * PPB).astype(np.int64)
        count = _sum_before(is_known.astype(np.int64), window)
        total = _sum_before(parts, window)
        mean = np.where(count >= MIN_DAYS, -(-total // np.maximum(count, 1)), UNQUOTED)
        means[:, group.columns] = mean[group.sessions_before(range(len(means)))]

    return means


def trailing_volume(snapshot: MarketSnapshot, window: int) -> FloatArray:
    """Return the mean volume over the `window` sessions before each row, in shares of the row's
    day. Only sessions on which the asset traded count; 0 if there are fewer than `MIN_DAYS`. Shape:
    [T, N].
    """
    # A split multiplies the number of shares by the ratio of the factors.
    comparable = snapshot.volume / snapshot.factor
    means = np.zeros(comparable.shape)
    for group in session_groups(snapshot):
        before = group.sessions_before(range(len(means)))
        means[:, group.columns] = _mean_before(group.of(comparable), window)[before]

    return means * snapshot.factor


def _mean_before(volume: FloatArray, window: int) -> FloatArray:
    """Return the mean of positive values over the `window` sessions before each of the S sessions,
    and after the last one. 0 if fewer than `MIN_DAYS` values are positive. Shape: [S + 1, n].
    `volume`: [S, n].
    """
    is_known = np.isfinite(volume) & (volume > 0)
    known = np.where(is_known, volume, 0.0)
    total = np.zeros((len(known) + 1, *known.shape[1:]))

    # Added day by day, because differences of cumulative float sums would be inexact in the last
    # bits.
    for back in range(1, min(window, len(known)) + 1):
        total[back:] += known[: len(known) + 1 - back]

    count = _sum_before(is_known.astype(np.int64), window)
    return np.where(count >= MIN_DAYS, total / np.maximum(count, 1), 0.0)


def _sum_before(values: IntArray, window: int) -> IntArray:
    """Return the sum over the `window` rows before each of the S rows, and after the last one.
    Shape: [S + 1, n].
    """
    sums = np.zeros((len(values) + 1, *values.shape[1:]), dtype=np.int64)
    np.cumsum(values, axis=0, out=sums[1:])
    first = np.maximum(np.arange(len(sums)) - window, 0)
    return sums - sums[first]
