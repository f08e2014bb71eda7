"""Automatic mean block length of the stationary bootstrap (Politis and White 2004)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ktdeval.stats.series import Series

QUIET_LAGS = 5
"""Number of consecutive insignificant autocorrelations after which the series is treated as
independent. The papers' `max(5, sqrt(log10(n)))` is 5 for every series of practical length.
"""

MIN_VALUES = 9  #: length of the shortest series that contains all `ceil(sqrt(n)) + 5` lags
LARGEST = 1e60  #: upper bound on values, so that their fourth powers can't overflow


def stationary_block_length(values: Series) -> float:
    """Return the automatic mean block length of the stationary bootstrap, in steps, for [n] values
    in chronological order. It is below 1 if neighbours are hardly correlated, and 0 for a constant
    series. Raises ValueError unless the values are a single series of at least `MIN_VALUES` numbers
    below `LARGEST`.

    By Politis and White (2004), corrected by Patton, Politis and White (2009), the length `(2 G^2 /
    D * n)^(1/3)`, at most `ceil(min(3 sqrt(n), n/3))`, minimises the error in the variance of a
    mean, where

        s2 = sum over |k| <= M of w(k/M) * R(k)          long-run variance of the series
        G  = sum over |k| <= M of w(k/M) * |k| * R(k)
        D  = 2 * s2^2                                    stationary bootstrap, corrected

    `R(k)` is the autocovariance at lag k, `w(x) = min(1, 2 (1 - |x|))` the flat-top window of
    Politis and Romano (1995), and `M = 2 m`, where m is the first of five consecutive lags whose
    autocorrelations are all within `±2 sqrt(log10(n) / n)`. M is at most `ceil(sqrt(n)) + 5`, and
    has this value if there are no five such lags. Two conventions follow
    `arch.bootstrap.optimal_block_length`, so that the lengths agree: m is the first quiet lag,
    where the papers use the lag before it; and the autocorrelation at lag k is normalised by the
    spreads of the first and of the last n - k - 1 values, where the papers use the spread of all
    values.
    """
    if values.ndim != 1 or len(values) < MIN_VALUES or not (np.abs(values) < LARGEST).all():
        raise ValueError(
            f"a block length needs one series of at least {MIN_VALUES} finite values, all below"
            f" {LARGEST:g} in size"
        )

    n = len(values)
    centred = values - values.mean()
    # As in `arch.bootstrap.optimal_block_length`
    most = math.ceil(math.sqrt(n)) + QUIET_LAGS
    # One product of slices per lag: there are few lags, and each sum covers only its own days.
    products = np.array([centred[lag:] @ centred[: n - lag] for lag in range(most + 1)])
    width = min(2 * _first_quiet_lag(centred, products), most)
    lags = np.arange(1, width + 1)
    # Flat-top window of Politis and Romano (1995), both signs of a lag
    weighted = 2 * np.minimum(1.0, 2 * (1 - lags / width))
    covariances = products[: width + 1] / n
    # Running sums add lag by lag, whatever the number of lags.
    slope = float(np.cumsum(weighted * lags * covariances[1:])[-1])
    variance = float(np.cumsum(np.append(covariances[:1], weighted * covariances[1:]))[-1])
    cap = float(math.ceil(min(3 * math.sqrt(n), n / 3)))
    # Patton, Politis and White (2009), which corrects the 2004 paper
    spread = 2 * variance**2
    if spread == 0:
        return cap if slope else 0.0

    return min(float((2 * slope**2 / spread) ** (1 / 3) * n ** (1 / 3)), cap)


def _first_quiet_lag(centred: Series, products: npt.NDArray[np.float64]) -> int:
    """Return the first lag that begins `QUIET_LAGS` insignificant lags; else the last lag."""
    n = len(centred)
    last = len(products) - 1
    squares = centred * centred
    lags = np.arange(1, last)
    first = np.cumsum(squares)[n - lags - 2]
    final = np.cumsum(squares[::-1])[n - lags - 2]
    # Band of Politis and White (2004)
    quiet = np.abs(products[lags]) < 2 * math.sqrt(math.log10(n) / n) * np.sqrt(first * final)
    begins_run = np.lib.stride_tricks.sliding_window_view(quiet, QUIET_LAGS).all(axis=1)
    if not begins_run.any():
        return last

    return int(lags[begins_run.argmax()])
