"""What a series of returns is too short or too uneven to show: one rule for every door.

A ratio at a year's pace needs enough returns, since the error of a Sharpe ratio over n daily
returns is about `sqrt(252 / n)`: 9 for three days. A return at a year's pace needs a year, as the
Global Investment Performance Standards require (CFA Institute, GIPS Standards Handbook: "Returns for
periods of less than one year must not be annualized"): +0.7 % in ten days is no +17.6 % a year, since
nobody knows whether the other 242 days go on like these. An interval needs that no single day decides: if
one day carries more than a third of the squares, a resample contains it or not, and the interval of a
total return reaches from -90 % to +430 % (docs/uncertainty.md has the measured coverage).
"""

from __future__ import annotations

import math

import numpy as np

from ktdeval.stats.series import Series

MIN_RETURNS = 20  #: fewer returns are not annualised, unless they span half a year
#: minimum number of years for which fewer returns, such as six monthly returns, are annualised
MIN_YEARS = 0.5
MIN_ANY = 3  #: fewer returns are never annualised
#: shortest record, in years, whose return is taken to a year. A calendar year has fewer sessions
#: than its 252 days: 242 on the Chinese exchanges, which are 0.96.
MIN_RETURN_YEARS = 0.95
MAX_DAY_SHARE = 1 / 3  #: largest share of the squares of returns that a single return may carry


def annualisation_problem(returns: int, a_year: float | None) -> str | None:
    """Return the reason why a figure over this many returns is not annualised, or None.

    `a_year`: number of returns per year; None if unknown. Twenty returns are enough; fewer are
    enough if they span half a year.

    Example:
        annualisation_problem(3, 252.0)  # "3 returns are too few to annualise: 20 are needed"
    """
    if returns >= MIN_RETURNS:
        return None
    if returns >= MIN_ANY and a_year is not None and returns / a_year >= MIN_YEARS:
        return None
    noun = "return is" if returns == 1 else "returns are"
    return f"{returns} {noun} too few to annualise: {MIN_RETURNS} are needed"


def yearly_return_problem(returns: int, a_year: float | None) -> str | None:
    """Return the reason why a return over this many returns is not taken to a year, or None.

    `a_year`: number of returns per year; None if unknown. Such a return stands over its own days
    instead (`MIN_RETURN_YEARS` has the rule and its source).

    Example:
        yearly_return_problem(10, 252.0)
        # "10 of a year's 252 days: a return over less than a year is not annualised"
    """
    if a_year is None:
        return "the number of returns a year is not known"
    if returns / a_year >= MIN_RETURN_YEARS:
        return None
    return (
        f"{returns} of a year's {a_year:g} days: a return over less than a year is not annualised"
    )


ONE_DAY = "one day ("
"""Beginning of the reason why an interval is missing because of a single day."""


def dominant_return(returns: Series, share: float = MAX_DAY_SHARE) -> int | None:
    """Return the index of the return that carries more than a share of the sum of the squares of
    [n] finite returns, by default a third; None if no return does.

    Example:
        dominant_return(np.array([0.01, -0.25, 0.01]))  # 1
    """
    squares = np.square(returns)
    total = math.fsum(squares)
    if not total:
        return None
    largest = int(squares.argmax())
    return largest if squares[largest] > share * total else None


def dominance_words(returns: Series, index: int, day: str) -> str:
    """Return the sentence part that names a return found by `dominant_return` and its day."""
    squares = np.square(returns)
    share = float(squares[index]) / math.fsum(squares)
    return (
        f"{ONE_DAY}{day}, {100 * float(returns[index]):+.2f} %) carries {100 * share:.0f} % of the"
        " squares of all returns"
    )
