"""Automatic block length of the stationary bootstrap: Politis and White (2004), with Patton, Politis and White's correction (2009).

The mean block length that makes the bootstrap's variance of a mean err least is `b = (2 G^2 / D * n)^(1/3)`, with

    s2 = sum over |k| <= M of w(k/M) * R(k)          long-run variance of the series
    G  = sum over |k| <= M of w(k/M) * |k| * R(k)
    D  = 2 * s2^2                                    stationary bootstrap, corrected

and at most `ceil(min(3 sqrt(n), n/3))`. `R(k)` is the autocovariance at lag k, `sum of e[t] * e[t-k] / n` with e the deviations
from the mean; `w(x) = min(1, 2 (1 - |x|))` is the flat-top window of Politis and Romano (1995). `M = 2 m`, where m is the first of
five lags in a row whose autocorrelations are all within `±2 sqrt(log10(n) / n)`. Without such lags, and at most, M is
`ceil(sqrt(n)) + 5`.

Two conventions are those of `arch.bootstrap.optimal_block_length`, so that lengths equal its own: m is the first quiet lag, where
the papers' is the one before it, which may be 0 and leave no window; and the autocorrelation at lag k divides by the spreads of the
first and of the last n - k - 1 values, where the papers' divides by that of all.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ktdeval.stats.series import Series

QUIET_LAGS = 5
"""Insignificant autocorrelations in a row that end the dependence: the papers' `max(5, sqrt(log10(n)))`, of any series there is."""

MIN_VALUES = 9
"""The shortest series that has all `ceil(sqrt(n)) + 5` lags."""

LARGEST = 1e60
"""Sizes of values below which the fourth powers taken here can't overflow."""


def stationary_block_length(values: Series) -> float:
    """Mean block length that suits a series, in its steps; below 1 where neighbours have little in common, 0 of a constant.

    Args:
        values: [n] finite numbers below `LARGEST` in size, in order of time; n at least `MIN_VALUES`.

    Raises:
        ValueError: too few values, more than one dimension, or a value that is not finite or too large.
    """
    if values.ndim != 1 or len(values) < MIN_VALUES or not (np.abs(values) < LARGEST).all():
        raise ValueError(f"a block length needs one series of at least {MIN_VALUES} finite values, all below {LARGEST:g} in size")
    n = len(values)
    centred = values - values.mean()
    most = math.ceil(math.sqrt(n)) + QUIET_LAGS
    # One product of slices a lag: few lags, and each sum is taken over its own days only.
    products = np.array([centred[lag:] @ centred[: n - lag] for lag in range(most + 1)])
    width = min(2 * _first_quiet_lag(centred, products), most)
    lags = np.arange(1, width + 1)
    weighted = 2 * np.minimum(1.0, 2 * (1 - lags / width))
    covariances = products[: width + 1] / n
    # Running sums add one lag after the other, whatever the number of lags.
    slope = float(np.cumsum(weighted * lags * covariances[1:])[-1])
    variance = float(np.cumsum(np.append(covariances[:1], weighted * covariances[1:]))[-1])
    cap = float(math.ceil(min(3 * math.sqrt(n), n / 3)))
    spread = 2 * variance**2
    if spread == 0:
        return cap if slope else 0.0
    return min(float((2 * slope**2 / spread) ** (1 / 3) * n ** (1 / 3)), cap)


def _first_quiet_lag(centred: Series, products: npt.NDArray[np.float64]) -> int:
    """Return the first of `QUIET_LAGS` insignificant lags in a row, from lag 1; the number of lags where there are none such.

    Args:
        centred: [n] deviations from the mean.
        products: [lags + 1] sums of their products at lags 0 to `lags`.
    """
    n, last = len(centred), len(products) - 1
    squares = centred * centred
    lags = np.arange(1, last)
    first, final = np.cumsum(squares)[n - lags - 2], np.cumsum(squares[::-1])[n - lags - 2]
    quiet = np.abs(products[lags]) < 2 * math.sqrt(math.log10(n) / n) * np.sqrt(first * final)
    runs = np.lib.stride_tricks.sliding_window_view(quiet, QUIET_LAGS).all(axis=1)
    return int(lags[runs.argmax()]) if runs.any() else last
