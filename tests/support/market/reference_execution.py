"""Execution from its formulas alone, in exact fractions: the price of a fill, and what a day's volume
leaves. Shares no code with `ktdeval.trading`; roots are found in decimals of 120 digits and proved by
multiplying out.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from math import ceil, floor

F = Fraction
BILLION = 10**9
FINEST = 10**18
ZERO = F(0)


@dataclass(frozen=True)
class Costs:
    """Coefficients; money in units of currency, all others relative."""

    half_spread: F
    activity: F | None  #: of the reference stock; None: a fixed spread
    tick: F
    impact: F
    permanent: F
    participation: F | None
    carries: bool
    inside_bar: bool

    @property
    def needs_figures(self) -> bool:
        """Whether a price needs volatility and volume."""
        return bool(self.impact or (self.activity is not None and self.half_spread))


@dataclass(frozen=True)
class Figures:
    """One asset on one day. Volumes in steps, prices in units of currency."""

    sigma: F
    volume: F
    traded: F
    low: F
    high: F


@dataclass(frozen=True)
class Fill:
    """What an order meets: steps on its side before it, and steps held at the open in its
    direction.
    """

    reference: F
    step: F  #: of a share
    price_tick: F
    selling: bool
    before: F = ZERO
    held: F = ZERO


def root_up(value: F, degree: int) -> int:
    """Smallest integer whose power is not below a value."""
    if value <= 0:
        return 0

    with localcontext() as context:
        context.prec = 120
        guess = (Decimal(value.numerator) / Decimal(value.denominator)) ** (
            Decimal(1) / Decimal(degree)
        )
        root = int(guess.to_integral_value(ROUND_CEILING))

    while root**degree >= value:
        root -= 1
    while root**degree < value:
        root += 1
    return root


def spread(costs: Costs, figures: Figures, fill: Fill) -> F:
    """Half the spread, relative, in whole parts per billion."""
    if costs.activity is None or not costs.half_spread:
        return F(ceil(costs.half_spread * BILLION), BILLION)

    activity = fill.reference * figures.volume * fill.step * figures.sigma
    relative = costs.half_spread * figures.sigma / F(2, 100)
    return F(root_up((relative * BILLION) ** 3 * costs.activity / activity, 3), BILLION)


def together(costs: Costs, figures: Figures, steps: F) -> F:
    """T: what so many steps cost together, relative."""
    if not steps:
        return F(0)
    return F(
        root_up((steps * costs.impact * figures.sigma * FINEST) ** 2 * steps / figures.volume, 2),
        FINEST,
    )


def permanent(costs: Costs, figures: Figures, held: F) -> F:
    """The part of the impact of what is held, relative, in whole parts per billion."""
    if not costs.permanent or not held:
        return F(0)

    whole = F(ceil(together(costs, figures, held) / held * BILLION), BILLION)
    return F(ceil(costs.permanent * whole * BILLION), BILLION)


def price(costs: Costs, figures: Figures, fill: Fill, steps: F) -> F:
    """Price of a fill, in units of currency."""
    half_tick = ceil(costs.tick / fill.price_tick / 2) * fill.price_tick
    fixed = max(fill.reference * spread(costs, figures, fill), half_tick)
    fixed += fill.reference * permanent(costs, figures, fill.held)

    end = None
    if costs.inside_bar and (figures.low if fill.selling else figures.high):
        if fill.selling:
            end = min(figures.low, fill.reference)
        else:
            end = max(figures.high, fill.reference)

    def paid(number: F) -> F:
        if end is None:
            return together(costs, figures, number)

        most = max(F(0), (abs(end - fill.reference) - fixed) / fill.reference)
        most = F(floor(most * FINEST), FINEST)
        # the size whose last step pays it: dT/dx = 3/2 * Y * sigma * sqrt(x / V)
        free = floor(figures.volume * (most / (F(3, 2) * costs.impact * figures.sigma)) ** 2)
        if number <= free:
            return together(costs, figures, number)
        return together(costs, figures, F(free)) + (number - free) * most

    impact = F(0)
    if costs.impact:
        total = paid(fill.before + steps) - paid(fill.before)
        impact = F(ceil(total / steps * BILLION), BILLION)

    worse = ceil((fixed + fill.reference * impact) / fill.price_tick) * fill.price_tick
    if end is not None:
        worse = min(worse, abs(end - fill.reference))
    if fill.selling:
        return max(fill.price_tick, fill.reference - worse)
    return fill.reference + worse
