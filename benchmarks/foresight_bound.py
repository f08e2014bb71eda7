"""What perfect foresight earns at most, under a task's own rules of trading.

    foresight_bound(market, window, task.trading)            # a total return, as a fraction

The figure is an upper bound: no account that the engine admits ends higher. It is found by one pass
backwards over the window's days, all assets at once.

**The relaxed account.** At each fill day d let N be the NAV at the fill prices before any order, z_i
the value of asset i held, x_i its value after the orders, g_i its growth from this fill price to the
next (dividends and splits included; to the last close on the last day), and r_i = g_i - 1. Kept of
the rules: a buy ends at x_i <= c N (`max_weight`), so x_i <= max(c N, z_i), and x_i <= z_i where an
asset can't be bought (no member, suspended, at its upper limit); what is held is paid for, so sum x_i
<= N; at most K names are bought into (`max_positions`); fills cost their proportional fee. Dropped
are lots, smallest orders and fees, fees by the share, interest, execution costs, locks, lower limits,
suspended sales, order of fills, feedback: each dropped rule only adds accounts. A short of an asset
is a second asset with r_i = 1 - g_i. Its maintenance margin m is what it takes of the NAV, since margin
is called before orders: sum x_i + m * sum of shorts <= N.

**The bound.** By induction backwards, the final NAV is at most

    V(N, z) = a N + sum_i [l_i z_i + u_i max(0, z_i - c N)],        u_i >= 0

On the last day V = N. One day earlier, insert N' = N - costs + sum x_i r_i and z_i' = x_i g_i. Fewer
than 1/c names can exceed c N' (K where shorts are allowed), so a loss that lowers c N' raises V by at
most M = c * (the largest u' of so many names) per unit, and V' falls by at least a' - M for each unit
of costs. Hence V' <= a' N + sum f_i(x_i) - (a' - M) costs with the convex

    f_i(x) = x (a' r_i + M max(0, -r_i) + l_i' g_i) + u_i' max(0, x (g_i - c max(0, r_i)) - c N)

For any price t >= 0 of the budget, V' <= (a' + t) N + sum h_i(z_i), where h_i is the best of f_i(x) - t x
- costs over the x allowed. f_i is convex, so the best x is 0, z_i, or c N: with b and s the costs of
buying and selling times (a' - M), and H_i = max(0, f_i(c) - t c - b c) where i can be bought,

    h_i(z) <= H_i N + l_i z + u_i max(0, z - c N)
    l_i = b where H_i > 0, else max(-s, f_i(c) / c - t);  u_i = max(0, -l_i + max(-s, slope of f_i - t))

and the K largest H_i suffice, since h_i(z) <= l_i z + ... where nothing is bought. So a = a' + t + sum H_i.
t is chosen to make a small; any t is valid. The account begins in cash: the bound is a of the first day.
What rounding to minor units, and cash for fractions of a share, can add is added (`_slack`).

Where a mask changes prices (`digits`), an order is sized at the decision, by what the mask shows. Its
value at the fill is then at most c N times the overnight growth and `SIZED`. This covers accounts with one
order a stock and step, whose NAV as shown is at the decision at most `SIZED` times the true NAV at the fill.

Not covered are accounts that owe more than they own after a short's price jumped beyond its margin, and
tasks with limit orders (refused), whose fills can be better than a day's fill price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ktdeval.errors import UsageError
from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.task_api.episode_spec import Window
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import TradingConfig
from ktdeval.trading.venue_terms import PPB, RATE_SCALE, Terms

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
SIZED = 1.25
#: minor units that rounding can give a position in a day: value, notional and fee
ROUNDED_MINOR = 4


@dataclass(frozen=True)
class Choices:
    """What an account can hold from each fill day to the next; arrays are [days, choices]. A choice
    is an asset, or an asset sold short.
    """

    growth: Floats  #: of the value held
    gain: Floats  #: of the NAV, by a unit of value held
    can_open: Flags
    cap: Floats  #: largest value after an opening order, as a fraction of the NAV
    opening_fee: Floats  #: [choices] as a fraction of the value
    closing_fee: Floats
    budget: Floats  #: [choices] part of the NAV that a unit of value takes
    budget_holds: Flags  #: [days]
    weight: float  #: `max_weight`
    names: int  #: `max_positions`
    above: int  #: how many can be worth more than `weight` of the NAV at once


@dataclass(frozen=True)
class Ahead:
    """The bound V of a day: `nav` N + sum of `held` z + `excess` max(0, z - c N)."""

    nav: float
    held: Floats
    excess: Floats


def foresight_bound(
    market: MarketSnapshot, window: Window, trading: TradingConfig, digits: int | None = None
) -> float:
    """Return the total return that no account of a task exceeds in a window, as a fraction.

    `trading`: the task's rules. `digits`: of its mask, where it changes prices. Raises UsageError if
    orders may have limits, DataError if the window lies outside the market.
    """
    if trading.limit_orders:
        raise UsageError(
            "a bound on fills at a day's price does not cover limit orders; leave out limit_orders"
        )

    start, stop = window_rows(market.days, window.first, window.last)
    tape = MarketTape.from_snapshot(market, trading)
    rows = np.arange(start, stop)
    choices = choices_of(tape, rows, digits)
    slack = _slack(tape, rows, choices.names) / (trading.initial_cash * tape.rules.minor_per_unit)

    days = values_of_days(choices)
    navs = np.array([day.before.nav for day in days])
    return float(navs[0] + slack @ navs) - 1.0


def values_of_days(choices: Choices) -> list[DayValues]:
    """Return what the choices of each fill day are worth, from the last day backwards, in the order
    of days.
    """
    count = choices.growth.shape[1]
    ahead = Ahead(1.0, np.zeros(count), np.zeros(count))
    days = []
    for day in reversed(range(len(choices.growth))):
        values = day_values(choices, day, ahead)
        ahead = values.before
        days.append(values)

    return days[::-1]


# ---- one day


@dataclass(frozen=True)
class DayValues:
    """What the choices of a fill day are worth, in units of NAV at the end; arrays are [choices]."""

    before: Ahead  #: V before the day's orders
    surplus: (
        Floats  #: of a purchase up to the cap, above the price of the budget; 0 where there is none
    )
    ratio: Floats  #: worth of a purchase for each unit of the budget; -inf where there is none
    is_kept: Flags  #: True where a holding is worth more than its sale


def day_values(choices: Choices, day: int, ahead: Ahead) -> DayValues:
    """Return what a fill day's choices are worth, from V at the prices of the next fill day."""
    weight = choices.weight
    gain = choices.gain[day]
    growth = choices.growth[day]
    cap = choices.cap[day]
    shared = weight * np.sort(ahead.excess)[::-1][: choices.above].sum()  # M
    if shared > ahead.nav:
        raise UsageError("the rules allow too much weight in one asset for this bound")

    linear = ahead.nav * gain + shared * np.maximum(0.0, -gain) + ahead.held * growth
    own = growth - weight * np.maximum(0.0, gain)
    full = linear * cap + ahead.excess * np.maximum(0.0, own * cap - weight)  # f(c)
    steepest = linear + ahead.excess * own

    cost_unit = ahead.nav - shared
    opening = choices.opening_fee * cost_unit
    closing = choices.closing_fee * cost_unit
    worth = np.where(choices.can_open[day], full - opening * cap, -np.inf)
    price = 0.0
    if choices.budget_holds[day]:
        price = _price_of_budget(worth, choices.budget * cap, choices.names)

    taken = price * choices.budget
    surplus = np.maximum(0.0, worth - taken * cap)
    best = np.sort(surplus)[::-1][: choices.names]

    kept = np.maximum(-closing, full / cap - taken)
    held = np.where(surplus > 0.0, opening, kept)
    excess = np.maximum(0.0, np.maximum(-closing, steepest - taken) - held)
    if not choices.above:
        excess = np.zeros_like(excess)

    return DayValues(
        Ahead(ahead.nav + price + float(best.sum()), held, excess),
        surplus,
        worth / cap,
        held > -closing,
    )


def _price_of_budget(worth: Floats, size: Floats, names: int) -> float:
    """Return the price t of the NAV at which the best choices just use it up; 0 where `names` of them
    do not.
    """
    good = np.flatnonzero((worth > 0.0) & (size > 0.0))
    ratio = worth[good] / size[good]
    order = np.argsort(-ratio)
    filled = np.cumsum(size[good][order])
    last = int(np.searchsorted(filled, 1.0 - 1e-12))
    if last >= len(order):
        return 0.0

    at_price = float(ratio[order][last])
    bounds = []
    for price in (0.0, at_price):
        left = np.sort(np.maximum(0.0, worth - price * size))[::-1]
        bounds.append(price + float(left[:names].sum()))

    # at equal bounds the higher price, which makes what is kept worth less
    return at_price if bounds[1] <= bounds[0] + 1e-12 else 0.0


# ---- what can be held


def choices_of(tape: MarketTape, rows: npt.NDArray[np.int64], digits: int | None = None) -> Choices:
    """Return what can be held from each of consecutive fill days to the next."""
    growth, overnight = _growth(tape, rows)
    listed = tape.open_ticks[rows] > 0
    tradable = tape.tradable[rows]
    fresh = tradable & tape.member[rows] & listed
    terms = tape.rules.terms
    limits = tape.rules.limits
    weight = limits.max_weight_ppb / PPB

    cap = np.full(growth.shape, weight)
    if digits is not None:
        cap = np.maximum(weight, weight * SIZED * overnight)

    buying, selling = _fees(terms)
    long = Choices(
        growth=growth,
        gain=growth - 1.0,
        can_open=fresh & ~tape.limit_up[rows],
        cap=cap,
        opening_fee=buying,
        closing_fee=selling,
        budget=np.ones(len(terms)),
        budget_holds=np.ones(len(rows), dtype=np.bool_),
        weight=weight,
        names=limits.max_positions,
        above=min(limits.max_positions, math.ceil(1.0 / weight - 1e-9) - 1),
    )
    if not tape.rules.shorts:
        return long

    # margin can't be called from what does not trade
    is_stuck = np.any(~tradable & listed, axis=1)
    return _with_shorts(long, terms, fresh & ~tape.limit_down[rows], ~is_stuck)


def _with_shorts(long: Choices, terms: tuple[Terms, ...], can_sell: Flags, holds: Flags) -> Choices:
    """Return the choices of holding or selling short. `can_sell`: [days, assets]."""
    margins = []
    shorts = []
    for asset, term in enumerate(terms):
        if term.margin is not None:
            shorts.append(asset)
            margins.append(term.margin.maintenance / RATE_SCALE)

    return replace(
        long,
        growth=np.hstack([long.growth, long.growth[:, shorts]]),
        gain=np.hstack([long.gain, 1.0 - long.growth[:, shorts]]),
        can_open=np.hstack([long.can_open, can_sell[:, shorts]]),
        cap=np.hstack([long.cap, long.cap[:, shorts]]),
        opening_fee=np.hstack([long.opening_fee, long.closing_fee[shorts]]),
        closing_fee=np.hstack([long.closing_fee, long.opening_fee[shorts]]),
        budget=np.hstack([long.budget, margins]),
        budget_holds=holds,
        above=long.names,
    )


def _growth(tape: MarketTape, rows: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return growth from fill price to fill price (the last: to the close), and from the close before
    to the fill price, both [days, assets]; 1 before an asset's first price.
    """
    ratio = np.ones((len(rows), len(tape.rules.terms)))
    for number, row in enumerate(rows.tolist()):
        for asset, event in tape.events.get(row, {}).items():
            ratio[number, asset] = event.ratio_ppb / PPB

    fills = tape.open_ticks[rows].astype(float)
    closes = tape.close_ticks[rows].astype(float)
    before = tape.close_ticks[rows - 1].astype(float)
    after = np.concatenate([fills[1:] * ratio[1:], closes[-1:]])
    return _divided(after, fills), _divided(fills * ratio, before)


def _divided(after: Floats, before: Floats) -> Floats:
    growth = np.ones_like(after)
    np.divide(after, before, out=growth, where=(after > 0.0) & (before > 0.0))
    return growth


def _fees(terms: tuple[Terms, ...]) -> tuple[Floats, Floats]:
    """Return the [assets] proportional fees of buys and sells, which no smaller fee replaces."""
    rates = []
    for term in terms:
        most = RATE_SCALE
        if term.commission is not None and term.commission.max_rate is not None:
            most = term.commission.max_rate
        rates.append((min(term.buy_rate, most), min(term.sell_rate, most)))

    both = np.array(rates, dtype=float).reshape(-1, 2) / RATE_SCALE
    return both[:, 0], both[:, 1]


def _slack(tape: MarketTape, rows: npt.NDArray[np.int64], names: int) -> Floats:
    """Return [days] minor units that roundings can add to a NAV: a few for each position, and what a
    fraction of a step, paid out at the previous close on a day of a split or dividend, can save.
    """
    units = np.array(tape.rules.units, dtype=float)
    slack = np.full(len(rows), float(names * ROUNDED_MINOR))
    for number, row in enumerate(rows.tolist()):
        for asset, event in tape.events.get(row, {}).items():
            saved = abs(int(tape.open_ticks[row, asset]) - event.ex_ticks)
            slack[number] += saved / units[asset] + 1.0

    return slack
