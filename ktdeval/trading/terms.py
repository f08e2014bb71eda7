"""Rules of a venue in the executor's integers: rates are parts of 10**10, money is in minor units, quantities are in steps.

A-shares trade in whole lots, and what their fills come to is rounded half up. Where a share can be cut into steps, what an account
pays is rounded up and what it gets is rounded down: no order, however small, is for nothing.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from ktdeval.market.venue import Venue
from ktdeval.trading.types import TradingConfig

RATE_SCALE = 10**10
HALF_RATE = RATE_SCALE // 2
PPB = 1_000_000_000
_BPS, _PER_CENT = RATE_SCALE // 10_000, RATE_SCALE // 100


class Levies(NamedTuple):
    """Costs beyond a rate and a minimum; `most_rate` and `levy_most` are None without a bound."""

    unit_rate: int  #: of a fill, for each share or coin
    most_rate: int | None  #: largest cost, of the notional
    levy_rate: int  #: on sells, of the notional
    levy_unit_rate: int  #: on sells, for each share or coin
    levy_most: int | None  #: largest sum that `levy_unit_rate` comes to
    steps: int  #: steps in a share or coin


class Margin(NamedTuple):
    """Cash that short sales ask for on top of the shorts' own value, as parts of it, and what is paid to borrow."""

    initial: int
    maintenance: int
    borrow: int  #: for a calendar day, in parts of 365 * 10**10


class Terms(Struct, frozen=True):
    """Rules under which one instrument trades."""

    unit: int  #: ticks of one step's price in a minor unit: `notional = (steps * ticks + unit // 2) // unit`
    lot: int  #: steps in a lot; buys and targets are whole lots
    min_buy: int  #: smallest buy in steps (larger than a lot on the STAR board)
    buy_rate: int
    sell_rate: int
    minimum_fee: int
    levies: Levies | None  #: None in A-shares, where rates and the minimum are all
    minimum_notional: int
    locks: bool  #: what was bought on a day can't be sold on it
    margin: Margin | None  #: None where nothing can be sold short


class Limits(NamedTuple):
    """What an account may hold."""

    max_positions: int
    max_weight_ppb: int


@lru_cache(maxsize=1024)
def scaled_int(value: float, scale: int) -> int:
    """`value * scale` to the nearest integer, halves up, from the decimal form that a person wrote (0.1 is one tenth)."""
    return int((Decimal(str(value)) * scale).to_integral_value(ROUND_HALF_UP))


def limits_of(config: TradingConfig) -> Limits:
    """Return the limits of a config."""
    return Limits(config.max_positions, scaled_int(config.max_weight, PPB))


def terms_of(venue: Venue, config: TradingConfig) -> Terms:
    """Return the terms of a venue; those of A-shares with the costs and lots of the config."""
    fees, minor = venue.fees, venue.minor_per_unit
    costs = (fees.buy_bps, fees.sell_bps, fees.minimum, venue.lot_steps)
    if venue.has_boards:
        costs = (config.buy_fee_bps, config.sell_fee_bps, config.min_fee_cny, config.lot_shares)
    buy_bps, sell_bps, minimum, lot = costs
    short = venue.short
    percents = None if short is None else (short.initial_margin_pct, short.maintenance_margin_pct, short.borrow_pct_a_year)
    return Terms(
        unit=venue.ticks_per_minor,
        lot=lot,
        min_buy=lot,
        buy_rate=scaled_int(buy_bps, _BPS),
        sell_rate=scaled_int(sell_bps, _BPS),
        minimum_fee=scaled_int(minimum, minor),
        levies=None if venue.has_boards else _levies(venue),
        minimum_notional=scaled_int(venue.minimum_notional, minor),
        locks=venue.settlement_lock,
        margin=None if percents is None else Margin(*(scaled_int(per_cent, _PER_CENT) for per_cent in percents)),
    )


def _levies(venue: Venue) -> Levies:
    fees, minor = venue.fees, venue.minor_per_unit
    return Levies(
        unit_rate=scaled_int(fees.per_unit, minor * RATE_SCALE),
        most_rate=None if fees.maximum_bps is None else scaled_int(fees.maximum_bps, _BPS),
        levy_rate=scaled_int(fees.sell_levy_bps, _BPS),
        levy_unit_rate=scaled_int(fees.sell_levy_per_unit, minor * RATE_SCALE),
        levy_most=None if fees.sell_levy_most is None else scaled_int(fees.sell_levy_most, minor),
        steps=venue.steps_per_unit,
    )


def in_lots(steps: int, lot: int) -> int:
    """Steps rounded towards zero to whole lots."""
    return steps // lot * lot if steps >= 0 else -(-steps // lot * lot)


def worth_steps(weight: float, nav_minor: int, price: int, unit: int) -> int:
    """Steps worth `weight` of the NAV at `price` (ticks), rounded towards zero; `unit` as of `Terms`."""
    worth = round(weight * PPB) * nav_minor * unit
    return worth // (PPB * price) if worth >= 0 else -(-worth // (PPB * price))


def target_steps(weight: float, nav_minor: int, price: int, terms: Terms) -> int:
    """Steps that an order to a target weight leads to where no rule stops it: whole lots, below 0 for a short."""
    return in_lots(worth_steps(weight, nav_minor, price, terms.unit), terms.lot)


def cost(steps: int, price: int, terms: Terms, selling: bool) -> tuple[int, int]:
    """Notional and fee of a fill of so many steps at a price in ticks, both in minor units."""
    unit, rate = terms.unit, terms.sell_rate if selling else terms.buy_rate
    if terms.levies is None:
        notional = (steps * price + (unit >> 1)) // unit
        fee = (notional * rate + HALF_RATE) // RATE_SCALE
        return notional, fee if fee > terms.minimum_fee else terms.minimum_fee
    unit_rate, most_rate, levy_rate, levy_unit_rate, levy_most, steps_per_unit = terms.levies
    scale = RATE_SCALE * steps_per_unit
    notional = steps * price // unit if selling else -(-steps * price // unit)
    fee = max(_up(notional * rate * steps_per_unit + steps * unit_rate, scale), terms.minimum_fee)
    if most_rate is not None:
        fee = min(fee, _up(notional * most_rate, RATE_SCALE))
    if selling:
        by_unit = _up(steps * levy_unit_rate, scale)
        fee += _up(notional * levy_rate, RATE_SCALE) + (by_unit if levy_most is None else min(by_unit, levy_most))
    return notional, fee


def _up(amount: int, scale: int) -> int:
    return -(-amount // scale)
