"""Probabilities and quantiles of the normal, Student's t and beta distributions, from scipy.

scipy is imported at the first call: cards and plans import the modules that use these functions, and
reading a card needs none of them.
"""

from __future__ import annotations


def normal_probability(z: float) -> float:
    """Return the probability of a standard normal value below `z`."""
    from scipy.special import ndtr  # noqa: PLC0415 - heavy, see above

    return float(ndtr(z))


def normal_quantile(probability: float) -> float:
    """Return the value below which a standard normal one lies with a probability (0 to 1)."""
    from scipy.special import ndtri  # noqa: PLC0415 - heavy, see above

    return float(ndtri(probability))


def student_probability(freedom: float, t: float) -> float:
    """Return the probability of a value below `t` of Student's t with so many degrees of freedom."""
    from scipy.special import stdtr  # noqa: PLC0415 - heavy, see above

    return float(stdtr(freedom, t))


def student_quantile(freedom: float, probability: float) -> float:
    """Return the value below which Student's t with so many degrees of freedom lies with a
    probability (0 to 1).
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - heavy, see above

    return float(stdtrit(freedom, probability))


def beta_quantile(a: float, b: float, probability: float) -> float:
    """Return the value below which a beta distribution with parameters `a`, `b` lies with a
    probability (0 to 1).
    """
    from scipy.special import betaincinv  # noqa: PLC0415 - heavy, see above

    return float(betaincinv(a, b, probability))
