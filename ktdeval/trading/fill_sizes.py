"""Price of a fill as a function of its size, and the largest size that cash or a limit allows. All
arithmetic is in integers.
"""

from __future__ import annotations

from collections.abc import Callable

from ktdeval.trading.execution_costs import Quote, fill_ticks
from ktdeval.trading.limit_orders import LimitFill
from ktdeval.trading.venue_terms import RATE_SCALE, Terms, cost

# Half a unit each for the notional, the commission and a few duties, and one unit for the division
_ROUNDED_UNITS = 4


def within_limit(quote: Quote, steps: int, selling: bool, limit: LimitFill, lot: int) -> int:
    """Return the steps if their price after spread and impact is within the limit. Otherwise,
    return the largest number of whole lots, in steps, for which it is; 0 if none.
    """
    if limit.holds(fill_ticks(quote, steps, selling), selling):
        return steps

    # A larger quantity never has a better price.
    def is_within(quantity: int) -> bool:
        return limit.holds(fill_ticks(quote, quantity, selling), selling)

    return _max_lots(steps // lot, lot, is_within) * lot


def price_of(offer: tuple[Quote | None, int], steps: int, selling: bool) -> int:
    """Return the price of a fill in ticks. Without a quote, this is the reference price."""
    quote, reference = offer
    if quote is None:
        return reference
    return fill_ticks(quote, steps, selling)


def affordable(
    cash: int, price: int, terms: Terms, quote: Quote | None = None, max_steps: int = 0
) -> int:
    """Return the largest whole-lot quantity for which cash covers notional plus fee; 0 or less if
    not even one lot is affordable. `quote` and `max_steps` are needed only if the price depends on
    the quantity; `max_steps` is the maximum quantity.
    """
    if cash <= 0:
        return 0

    # Upper bound on the notional: cash minus the minimum fee. A capped commission can be below both
    # the minimum and the rate, so that only cash itself is a bound.
    is_capped = terms.commission is not None and terms.commission.max_rate is not None
    if is_capped:
        most = cash
    else:
        after_minimum = cash - terms.minimum_fee
        after_rate = cash * RATE_SCALE // (RATE_SCALE + terms.buy_rate + _duty_rate(terms))
        most = min(after_minimum, after_rate)

    # A few extra units, so that rounding can't make the first guess too small.
    shares = (most + _ROUNDED_UNITS) * terms.unit // price // terms.lot * terms.lot

    # With a per-share commission or a quote, the first guess may be far off, so bisect. Otherwise
    # it is off by a lot or two.
    if quote is not None:
        lots = min(shares, max_steps) // terms.lot
        return _largest_covered(lots, cash, lambda steps: fill_ticks(quote, steps, False), terms)
    if terms.commission:
        return _largest_covered(shares // terms.lot, cash, lambda _: price, terms)

    while shares > 0:
        notional, fee = cost(shares, price, terms, False)
        if notional + fee <= cash:
            break

        shares -= terms.lot

    return shares


def _duty_rate(terms: Terms) -> int:
    """Return the total rate of the duties on a buy's notional."""
    if terms.duties is None:
        return 0
    return sum(duty.rate for duty in terms.duties.buy)


def _largest_covered(lots: int, cash: int, price: Callable[[int], int], terms: Terms) -> int:
    """Return the largest quantity, up to `lots` lots, that cash covers. It is found by bisection,
    since the cost never decreases with quantity. `price`: maps a number of steps above 0 to the
    price.
    """

    def is_covered(steps: int) -> bool:
        notional, fee = cost(steps, price(steps), terms, False)
        return notional + fee <= cash

    return _max_lots(lots, terms.lot, is_covered) * terms.lot


def _max_lots(lots: int, lot: int, is_allowed: Callable[[int], bool]) -> int:
    """Return the largest number of lots, up to `lots`, whose quantity in steps is allowed. It is
    found by bisection, so all quantities below an allowed one must be allowed; 0 is always allowed.
    """
    low = 0
    high = lots
    while low < high:
        middle = (low + high + 1) // 2
        if is_allowed(middle * lot):
            low = middle
        else:
            high = middle - 1

    return low
