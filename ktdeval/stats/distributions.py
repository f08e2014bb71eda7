"""Probabilities and quantiles of the normal, Student's t, beta and chi-square distributions, from
scipy.

scipy is imported only on the first call, since cards and plans import modules that use these
functions, but reading a card does not need scipy.
"""

from __future__ import annotations

import math


def normal_probability(z: float) -> float:
    """Return the probability of a standard normal value below `z`."""
    from scipy.special import ndtr  # noqa: PLC0415 - heavy, see above

    return float(ndtr(z))


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution at a probability (strictly between 0
    and 1).
    """
    from scipy.special import ndtri  # noqa: PLC0415 - heavy, see above

    return float(ndtri(probability))


def normal_effect(sd: float, count: float, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the smallest mean that a two-sided z test of `count` values detects with probability
    `power`: `(z_{1-alpha/2} + z_power) * sd / sqrt(count)`.
    """
    found = normal_quantile(power) - normal_quantile(alpha / 2.0)
    return found * sd / math.sqrt(count)


def student_probability(freedom: float, t: float) -> float:
    """Return the cumulative probability at `t` of Student's t with `freedom` degrees of freedom."""
    from scipy.special import stdtr  # noqa: PLC0415 - heavy, see above

    return float(stdtr(freedom, t))


def student_quantile(freedom: float, probability: float) -> float:
    """Return the quantile of Student's t with `freedom` degrees of freedom at a probability
    (strictly between 0 and 1).
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - heavy, see above

    return float(stdtrit(freedom, probability))


def beta_quantile(a: float, b: float, probability: float) -> float:
    """Return the quantile of a beta distribution with parameters `a`, `b` at a probability (0 to
    1).
    """
    from scipy.special import betaincinv  # noqa: PLC0415 - heavy, see above

    return float(betaincinv(a, b, probability))


def chi_square_above(freedom: float, value: float) -> float:
    """Return the upper tail probability at `value` of the chi-square distribution with `freedom`
    degrees of freedom.
    """
    from scipy.special import chdtrc  # noqa: PLC0415 - heavy, see above

    return float(chdtrc(freedom, value))
