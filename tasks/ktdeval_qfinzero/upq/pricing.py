"""Black-Scholes-Merton price of European options, with Greeks and implied volatility.

S is the spot less the present value of future dividends, K the strike, r the continuously
compounded rate, T the years to expiry and σ the volatility. η is +1 for calls and −1 for puts, and
N and φ are the distribution and density of the standard normal:

    d1 = (ln(S / K) + (r + σ² / 2) T) / (σ √T),   d2 = d1 − σ √T
    V  = η (S N(η d1) − K e^(−rT) N(η d2))

Sources: Black and Scholes (1973), Merton (1973), and Hull, Options, Futures, and Other Derivatives
(chapters on the model and the Greeks). All functions take scalars and arrays, which are broadcast
together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.data.rows import FloatArray

DAYS_A_YEAR = 365
VOLATILITY_RANGE = (1e-6, 10.0)  #: Search range for implied volatility: 0.0001% to 1000% per year

Floats = float | FloatArray

_ROOT_TOLERANCE = 1e-13
_SQRT_TWO = math.sqrt(2)


@dataclass(frozen=True, eq=False)
class EuropeanOptions:
    """European options."""

    call: bool | npt.NDArray[np.bool_]  #: whether the option is a call, else a put
    #: price of the underlying less the present value of future dividends, in dollars; positive
    spot: Floats
    strike: Floats  #: strike in dollars; positive
    rate: Floats  #: continuously compounded annual rate (0.04 is 4%)
    years: Floats  #: years to expiry

    @property
    def sign(self) -> FloatArray:
        """+1 for calls, −1 for puts."""
        return np.where(self.call, 1.0, -1.0)

    @property
    def discounted_strike(self) -> FloatArray:
        """K e^(−rT)."""
        return np.asarray(
            self.strike * np.exp(-np.multiply(self.rate, self.years)), dtype=np.float64
        )

    @property
    def lower_bound(self) -> FloatArray:
        """Lower bound of the price: max(0, η (S − K e^(−rT)))."""
        return np.asarray(
            np.maximum(0.0, self.sign * (self.spot - self.discounted_strike)), dtype=np.float64
        )


@dataclass(frozen=True, eq=False)
class Greeks:
    """Sensitivities of the option price per share."""

    delta: FloatArray  #: ∂V/∂S
    gamma: FloatArray  #: ∂²V/∂S²
    theta: FloatArray  #: −∂V/∂T / 365, the change per calendar day
    vega: FloatArray  #: ∂V/∂σ / 100, the change per point of volatility
    rho: FloatArray  #: ∂V/∂r / 100, the change per point of the rate


GREEK_NAMES = ("delta", "gamma", "theta", "vega", "rho")  #: Attributes of `Greeks`, in order


def price(option: EuropeanOptions, volatility: Floats) -> FloatArray:
    """Return the value in dollars. Without volatility or time, this is its limit, `lower_bound`."""
    deviation = np.asarray(volatility * np.sqrt(option.years), dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        d1 = np.log(option.spot / option.discounted_strike) / deviation + deviation / 2
        value = option.sign * (
            option.spot * _normal(option.sign * d1)
            - option.discounted_strike * _normal(option.sign * (d1 - deviation))
        )
    return np.asarray(np.where(deviation > 0, value, option.lower_bound), dtype=np.float64)


def _normal(values: FloatArray) -> FloatArray:
    """Return the standard normal distribution function."""
    from scipy.special import ndtr  # noqa: PLC0415 - heavy, and only Greeks need it

    probabilities: FloatArray = ndtr(values)
    return probabilities


def greeks(option: EuropeanOptions, volatility: Floats) -> Greeks:
    """Return the sensitivities; NaN without time or volatility. Theta holds the net spot and the
    rate constant; rho holds the present value of the dividends constant.
    """
    root = np.sqrt(option.years)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.where(volatility * root > 0, volatility * root, np.nan)
        d1 = np.log(option.spot / option.discounted_strike) / deviation + deviation / 2
        density = np.exp(-(d1**2) / 2) / math.sqrt(2 * math.pi)
        exercise = option.sign * option.discounted_strike * _normal(option.sign * (d1 - deviation))
        decay = -option.spot * density * volatility / (2 * root) - option.rate * exercise

    delta = option.sign * _normal(option.sign * d1)
    gamma = density / (option.spot * deviation)
    vega = option.spot * density * root / 100
    rho = option.years * exercise / 100

    return Greeks(*np.broadcast_arrays(delta, gamma, decay / DAYS_A_YEAR, vega, rho))


def implied_volatility(
    option: EuropeanOptions, market_price: Floats
) -> tuple[FloatArray, npt.NDArray[np.str_]]:
    """Return the [n] volatility at which the formula gives a price, NaN if undefined, and the [n]
    status.

    The statuses are `ok`; `below_intrinsic` if the price is not above `lower_bound`; `no_bracket`
    if no volatility within `VOLATILITY_RANGE` fits; `non_finite_input` if an input is not finite or
    not positive. Brent's method finds the only root for the out-of-the-money option at the strike
    (by put-call parity, its price is the given price less `lower_bound`), for which no digits are
    lost.
    """
    columns = np.broadcast_arrays(
        option.call, option.spot, option.strike, option.rate, option.years, market_price
    )
    call, spot, strike, rate, years, paid = (np.atleast_1d(column) for column in columns)
    each = EuropeanOptions(call.astype(np.bool_), spot, strike, rate, years)
    usable = np.isfinite(rate) & np.isfinite(paid) & (paid > 0)

    for positive in (spot, strike, years):
        usable &= np.isfinite(positive) & (positive > 0)

    volatilities = np.full(len(paid), np.nan)
    status = np.where(usable, "ok", "non_finite_input").astype("<U16")
    with np.errstate(invalid="ignore"):
        time_value = paid - each.lower_bound
        discounted = each.discounted_strike

    status[usable & (time_value <= 0)] = "below_intrinsic"
    for row in np.flatnonzero(status == "ok"):
        volatility = _root(
            float(spot[row]),
            float(discounted[row]),
            math.sqrt(float(years[row])),
            float(time_value[row]),
        )
        if volatility is None:
            status[row] = "no_bracket"
        else:
            volatilities[row] = volatility

    return volatilities, status


def _root(spot: float, discounted: float, root_years: float, time_value: float) -> float | None:
    """Return the volatility of an out-of-the-money option (a call if spot ≤ K e^(−rT), else a put)
    that is worth `time_value`.
    """
    from scipy.optimize import brentq  # noqa: PLC0415 - heavy, and only Greeks need it

    least, most = VOLATILITY_RANGE
    miss = _miss(spot, discounted, root_years, time_value)
    if not miss(least) <= 0 <= miss(most):
        return None

    return float(brentq(miss, least, most, xtol=_ROOT_TOLERANCE, rtol=8.9e-16, maxiter=500))


def _miss(
    spot: float, discounted: float, root_years: float, time_value: float
) -> Callable[[float], float]:
    """Return a function of volatility that gives the model price minus the wanted price. It works
    on scalars, since the solver calls it often.
    """
    moneyness = math.log(spot / discounted)
    low = min(spot, discounted)
    high = max(spot, discounted)
    distance = abs(moneyness)
    erfc = math.erfc

    def miss(volatility: float) -> float:
        deviation = volatility * root_years
        inner = distance / deviation - deviation / 2
        outer = distance / deviation + deviation / 2

        return 0.5 * (low * erfc(inner / _SQRT_TWO) - high * erfc(outer / _SQRT_TWO)) - time_value

    return miss
