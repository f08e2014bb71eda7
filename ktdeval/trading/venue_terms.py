"""Convert a venue's rules to the executor's integers: rates in parts of 10**10, money in minor
units, quantities in steps.

A-shares trade in whole lots, and the notional and fee of a fill are rounded half up. At venues
where shares are divisible into steps, the account's payments are rounded up and its receipts down,
so that no order is free, however small.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from ktdeval.errors import InvariantError
from ktdeval.market.rules.fees import DutyRow, duties_due, is_dated
from ktdeval.market.snapshots.snapshot import Board
from ktdeval.market.venues.venue import Venue
from ktdeval.trading.types import TradingConfig

RATE_SCALE = 10**10
HALF_RATE = RATE_SCALE // 2
PPB = 1_000_000_000
_BPS = RATE_SCALE // 10_000
_PER_CENT = RATE_SCALE // 100


class Commission(NamedTuple):
    """Commission terms other than rate and minimum, with the number of steps per share."""

    unit_rate: int  #: amount per share or coin of a fill
    max_rate: int | None  #: maximum commission as a fraction of the notional; None: no cap
    steps: int  #: steps per share or coin


@dataclass(frozen=True, slots=True)
class Duty:
    """A charge on a fill in addition to the commission, by the state, a clearing house or
    a regulator.
    """

    kind: str  #: as in `ktdeval.market.rules.fees`, or `levy`: specified by the venue, on all days
    rate: int  #: as a fraction of the notional
    unit_rate: int  #: amount per share or coin
    most: int | None  #: cap on the amount from `unit_rate`; None: no cap


@dataclass(frozen=True, slots=True)
class Duties:
    """Duties in force on one day."""

    buy: tuple[Duty, ...] = ()
    sell: tuple[Duty, ...] = ()


NO_DUTIES = Duties()


@dataclass(frozen=True, slots=True)
class Margin:
    """Margin for short sales, as a fraction of the shorts' value and in addition to it, and the
    borrow fee.
    """

    initial: int
    maintenance: int
    borrow: int  #: annual borrow rate in parts of 10**10


class ExecutionTerms(Struct, frozen=True):
    """Coefficients of execution (`ktdeval.market.venues.execution`) as integers."""

    half_spread_ppb: int
    #: whether the half-spread is scaled by liquidity, relative to the reference stock
    is_by_liquidity: bool
    reference_activity: int  #: daily price * volume * volatility, in minor units; 0: not used
    half_tick: int  #: minimum half-spread, in engine ticks
    impact_ppb: int
    permanent_ppb: int
    participation_ppb: int | None  #: cap as a fraction of the day's volume; None: no cap
    carries: bool  #: whether the remainder beyond the cap stays in force on the next day
    inside_bar: bool
    window_days: int
    is_by_quotes: bool = False  #: whether the half-spread is taken from the asset's quotes


class Terms(Struct, frozen=True):
    """Terms under which one instrument trades."""

    #: ticks of one step's price per minor unit: `notional = (steps * ticks + unit // 2) // unit`
    unit: int
    lot: int  #: steps per lot; buys and targets are whole lots
    min_buy: int  #: smallest buy in steps (larger than a lot on the STAR board)
    buy_rate: int
    sell_rate: int
    minimum_fee: int
    #: None for A-shares, whose commission has only a rate and a minimum
    commission: Commission | None
    minimum_notional: int
    locks: bool  #: whether shares can't be sold on the day on which they are bought
    margin: Margin | None  #: None if short sales are not allowed
    #: smallest sell in steps, unless the whole holding is sold; 0 if it is one lot (everywhere
    #: except STAR and Beijing)
    min_sell: int = 0
    #: None if duties depend on a day that is not known; `MarketTape.rules_on` supplies them
    duties: Duties | None = NO_DUTIES
    execution: ExecutionTerms | None = None  #: None if fill prices do not depend on size


class AccountLimits(NamedTuple):
    """Limits on an account's number of positions and on the weight of each position."""

    max_positions: int
    max_weight_ppb: int


@lru_cache(maxsize=1024)
def scaled_int(value: float, scale: int) -> int:
    """Return `value * scale`, rounded half up to an integer.

    The product is computed from the shortest decimal representation, as a person would write it:
    0.1 is exactly one tenth.
    """
    return int((Decimal(str(value)) * scale).to_integral_value(ROUND_HALF_UP))


def limits_of(config: TradingConfig) -> AccountLimits:
    """Return the account limits in a config."""
    return AccountLimits(config.max_positions, scaled_int(config.max_weight, PPB))


def terms_of(venue: Venue, config: TradingConfig) -> Terms:
    """Return the terms for a venue; for A-shares, these have the config's costs and lots. Duties
    that depend on the day are omitted (see `duties_on`).
    """
    fees = venue.fees
    minor = venue.minor_per_unit
    costs = (fees.buy_bps, fees.sell_bps, fees.minimum, venue.lot_steps)
    commission = None
    duties: Duties | None = _flat_duties(venue)

    # A-share costs and lots are options of a task; elsewhere, the venue specifies them.
    if venue.has_boards:
        costs = (config.buy_fee_bps, config.sell_fee_bps, config.min_fee_cny, config.lot_shares)
    else:
        commission = _commission(venue)

    buy_bps, sell_bps, minimum, lot = costs
    if has_dated_duties(venue, config):
        duties = None
        if venue.has_boards:  # the flat cost of a sell includes stamp duty
            sell_bps = buy_bps

    return Terms(
        unit=venue.ticks_per_minor,
        lot=lot,
        min_buy=lot,
        buy_rate=scaled_int(buy_bps, _BPS),
        sell_rate=scaled_int(sell_bps, _BPS),
        minimum_fee=scaled_int(minimum, minor),
        commission=commission,
        minimum_notional=scaled_int(venue.minimum_notional, minor),
        locks=venue.settlement_lock,
        margin=_margin(venue),
        duties=duties,
    )


def has_dated_duties(venue: Venue, config: TradingConfig) -> bool:
    """Return whether fills at a venue incur the duties of their day. Under `board_rules: paper`,
    A-shares have the flat costs of the KTD-Fin paper instead.
    """
    if venue.has_boards and config.board_rules == "paper":
        return False

    return is_dated(venue)


def duties_on(venue: Venue, board: Board | None, day: np.datetime64) -> Duties:
    """Return the duties on a day for fills at a venue with dated duties."""
    minor = venue.minor_per_unit
    sides = []
    for selling in (False, True):
        rows = duties_due(venue, board, selling, day)
        sides.append(tuple(_duty(row, minor) for row in rows if row.bps or row.per_unit))

    return Duties(*sides)


def _duty(row: DutyRow, minor: int) -> Duty:
    most = None if row.most is None else scaled_int(row.most, minor)
    return Duty(
        row.kind,
        rate=scaled_int(row.bps, _BPS),
        unit_rate=scaled_int(row.per_unit, minor * RATE_SCALE),
        most=most,
    )


def _flat_duties(venue: Venue) -> Duties:
    """Return the levy that a venue itself specifies; it applies to sells on all days."""
    fees = venue.fees
    minor = venue.minor_per_unit
    if venue.has_boards or not (fees.sell_levy_bps or fees.sell_levy_per_unit):
        return NO_DUTIES

    most = None
    if fees.sell_levy_most is not None:
        most = scaled_int(fees.sell_levy_most, minor)

    levy = Duty(
        "levy",
        rate=scaled_int(fees.sell_levy_bps, _BPS),
        unit_rate=scaled_int(fees.sell_levy_per_unit, minor * RATE_SCALE),
        most=most,
    )
    return Duties(sell=(levy,))


def _margin(venue: Venue) -> Margin | None:
    short = venue.short
    if short is None:
        return None

    return Margin(
        initial=scaled_int(short.initial_margin_pct, _PER_CENT),
        maintenance=scaled_int(short.maintenance_margin_pct, _PER_CENT),
        borrow=scaled_int(short.borrow_pct_a_year, _PER_CENT),
    )


def _commission(venue: Venue) -> Commission:
    fees = venue.fees
    max_rate = None
    if fees.maximum_bps is not None:
        max_rate = scaled_int(fees.maximum_bps, _BPS)

    return Commission(
        unit_rate=scaled_int(fees.per_unit, venue.minor_per_unit * RATE_SCALE),
        max_rate=max_rate,
        steps=venue.steps_per_unit,
    )


def in_lots(steps: int, lot: int) -> int:
    """Round steps towards zero to whole lots."""
    if steps >= 0:
        return steps // lot * lot
    return -(-steps // lot * lot)


def worth_steps(weight: float, nav_minor: int, price: int, unit: int) -> int:
    """Return the number of steps worth `weight` of the NAV at `price` (ticks), rounded towards
    zero.

    `unit` is as in `Terms`.
    """
    worth = round(weight * PPB) * nav_minor * unit
    if worth >= 0:
        return worth // (PPB * price)
    return -(-worth // (PPB * price))


def target_steps(weight: float, nav_minor: int, price: int, terms: Terms) -> int:
    """Return the steps held after an order to a target weight if no rule prevents it: whole lots,
    negative for a short.
    """
    return in_lots(worth_steps(weight, nav_minor, price, terms.unit), terms.lot)


def cost(steps: int, price: int, terms: Terms, selling: bool) -> tuple[int, int]:
    """Return notional and fee of a fill of `steps` at `price` (ticks), both in minor units. The fee
    is the commission plus all duties. Raises InvariantError if the duties depend on the day but
    these terms are not for a specific day.
    """
    unit = terms.unit
    rate = terms.sell_rate if selling else terms.buy_rate

    # A-shares, by far the most frequent case: rounded half up.
    if terms.commission is None:
        notional = (steps * price + (unit >> 1)) // unit
        fee = (notional * rate + HALF_RATE) // RATE_SCALE
        # KTD-Fin §3.1: at least CNY 5 an order
        if fee < terms.minimum_fee:
            fee = terms.minimum_fee
        if terms.duties is not NO_DUTIES:
            fee += sum(duties_of(steps, notional, terms, selling).values())
        return notional, fee

    # At other venues, rounding is at the account's expense: receipts down, payments and fees up.
    unit_rate, max_rate, steps_per_unit = terms.commission
    scale = RATE_SCALE * steps_per_unit
    notional = steps * price // unit if selling else -(-steps * price // unit)
    fee = max(_up(notional * rate * steps_per_unit + steps * unit_rate, scale), terms.minimum_fee)

    # us_equity: at most 1 % of the order
    if max_rate is not None:
        fee = min(fee, _up(notional * max_rate, RATE_SCALE))

    # Duties are added after the bounds, because minimum and maximum apply to the broker's
    # commission.
    return notional, fee + sum(duties_of(steps, notional, terms, selling).values())


def duties_of(steps: int, notional: int, terms: Terms, selling: bool) -> dict[str, int]:
    """Return the parts of a fill's fee other than the commission, by kind, in minor units. Each
    part is rounded separately, and zero parts are omitted. Raises InvariantError as `cost` does.
    """
    if terms.duties is None:
        raise InvariantError(
            "a fill's duties depend on its day, but no day was given; this is a defect of the"
            " engine, please report it"
        )

    paid = {}
    for duty in terms.duties.sell if selling else terms.duties.buy:
        amount = _duty_minor(duty, steps, notional, terms.commission)
        if amount:
            paid[duty.kind] = amount

    return paid


def _duty_minor(duty: Duty, steps: int, notional: int, commission: Commission | None) -> int:
    if commission is None:  # A-shares: rounded half up, without per-share duties
        return (notional * duty.rate + HALF_RATE) // RATE_SCALE

    by_unit = _up(steps * duty.unit_rate, RATE_SCALE * commission.steps)
    # FINRA's Trading Activity Fee: at most 9.79 USD per order in 2026 (SR-FINRA-2024-019)
    if duty.most is not None:
        by_unit = min(by_unit, duty.most)

    return _up(notional * duty.rate, RATE_SCALE) + by_unit


def _up(amount: int, scale: int) -> int:
    """Divide and round up."""
    return -(-amount // scale)
